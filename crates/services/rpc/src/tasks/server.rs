//! [`Servers`]: a pool of servers, each of which carries out one call at a time.
//!
//! Called by: `streams.rs`, `datagrams.rs`. While all servers are busy a call waits, and so does
//! its connection: that is the back-pressure. Calls that might block run on tokio's threads for
//! blocking. If its service knows that a call need not wait, the call is carried out at once, so
//! that its reply is written while it is still in the cache.

use core::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{DropReason, Drops};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Room, Rooms, Spares};
use crate::limits::ARRIVED_BYTES;
use crate::record::{self, Record};
use crate::server::{Bulk, Incoming, Server, Transport};

/// A pool of servers with the same programs. State that the servers share is in their services.
pub struct Servers {
    idle: Mutex<Vec<Server>>,
    free: Arc<Semaphore>,
    may_block: bool,
    beside: Mutex<Drops>,
    /// Unused buffers for calls and replies.
    pub(super) records: Spares,
    pub(super) replies: Spares,
    /// How many more bytes of calls may be left in the buffers in which they arrived.
    pub(super) arrived: Arc<Semaphore>,
    /// The budgets of memory for calls and replies.
    pub(super) rooms: Rooms,
}

/// Sums over the servers that are idle; busy servers are not counted.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Calls that were answered.
    pub answered: u64,
    /// Replies that had to be brief because clients did not read theirs.
    pub brief: u64,
    /// Dropped messages, by reason.
    pub drops: Vec<(DropReason, u64)>,
}

/// A server taken from the pool. It goes back when this is dropped, even by a panic.
struct Taken {
    server: Option<Server>,
    servers: Arc<Servers>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.servers.idle().extend(self.server.take());
    }
}

impl Servers {
    /// A pool of `calls` servers, which `make` makes: this many calls are carried out at a time.
    /// The calls must not block; for calls that do, there is [`Servers::blocking`].
    pub fn new(calls: usize, make: impl FnMut() -> Server) -> Arc<Servers> {
        Servers::made(calls, false, make)
    }

    /// Like [`Servers::new`], for servers whose calls may block, for example on files. The calls
    /// run on tokio's threads for blocking.
    pub fn blocking(calls: usize, make: impl FnMut() -> Server) -> Arc<Servers> {
        Servers::made(calls, true, make)
    }

    fn made(calls: usize, may_block: bool, mut make: impl FnMut() -> Server) -> Arc<Servers> {
        let servers: Vec<Server> = (0..calls.max(1)).map(|_| make()).collect();
        let free = Arc::new(Semaphore::new(servers.len()));
        let (idle, beside) = (Mutex::new(servers), Mutex::new(Drops::default()));
        let (records, replies) = (Spares::default(), Spares::default());
        let arrived = Arc::new(Semaphore::new(ARRIVED_BYTES));
        let rooms = Rooms::default();
        Arc::new(Servers { idle, free, may_block, beside, records, replies, arrived, rooms })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Server>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Count a drop of a message that was not passed to a server.
    pub(super) fn count(&self, reason: DropReason) {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).count(reason);
    }

    /// The sums over the idle servers.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let mut add = |drops: &Drops| {
            for (reason, count) in drops.nonzero() {
                match totals.drops.iter_mut().find(|(there, _)| *there == reason) {
                    Some((_, sum)) => *sum += count,
                    None => totals.drops.push((reason, count)),
                }
            }
        };
        add(&self.beside.lock().unwrap_or_else(PoisonError::into_inner));
        let idle = self.idle();
        idle.iter().for_each(|server| add(server.drops()));
        totals.brief = self.rooms.briefs();
        totals.answered = idle.iter().map(Server::answered).sum();
        totals
    }

    /// Must the reply to this call be kept in case the call is repeated?
    pub(super) fn must_keep(&self, message: &[u8]) -> bool {
        self.idle().first().is_none_or(|server| server.must_keep(message))
    }

    /// Take an idle server, and reserve memory for a reply.
    fn taken(self: &Arc<Servers>, permit: OwnedSemaphorePermit) -> Taken {
        let server = self.idle().pop();
        Taken { server, servers: self.clone(), _permit: permit }
    }

    /// Like [`Servers::answer`], without waiting, for servers that may block. `None` if all servers
    /// are busy, or if this call might wait for a file. `more` contains the bytes after `message`;
    /// the end of the reply may be in `bulk`.
    pub(super) fn answer_at_once(
        self: &Arc<Servers>,
        message: &Message,
        more: &[&[u8]],
        bulk: &mut dyn Bulk,
    ) -> Option<Option<Answer>> {
        if !self.may_block {
            return None;
        }
        let room = match message.transport {
            Transport::Stream | Transport::Local => Some(self.rooms.any(message.reply_max)?),
            Transport::Datagram => None,
        };
        let permit = self.free.clone().try_acquire_owned().ok()?;
        let mut taken = self.taken(permit);
        let server = taken.server.as_mut()?;
        let mut out = self.replies.take();
        let at = begin(message.transport, &mut out);
        match server.answer_at_once(&message.incoming(more, &room), &mut out, bulk) {
            Some(is_answered) => {
                end(message.transport, &mut out, at, bulk.bytes());
                let taken = out.capacity() + bulk.bytes();
                let room = room.map(|room| room.fit(taken));
                Some(is_answered.then_some(Answer { bytes: out, room }))
            }
            None => {
                self.replies.put(out);
                None
            }
        }
    }

    /// The reply to a message, if there is one. Over a stream it begins with its record mark.
    pub(super) async fn answer(self: &Arc<Servers>, message: Message) -> Option<Answer> {
        let mut permit = self.free.clone().acquire_owned().await.ok()?;
        let room = match message.transport {
            Transport::Datagram => None,
            Transport::Stream | Transport::Local => match self.rooms.any(message.reply_max) {
                Some(room) => Some(room),
                None => {
                    // Give the server back for other calls while this call waits.
                    drop(permit);
                    let room = self.rooms.brief(message.reply_max).await?;
                    permit = self.free.clone().acquire_owned().await.ok()?;
                    Some(room)
                }
            },
        };
        let mut taken = self.taken(permit);
        let work = move || {
            let server = taken.server.as_mut()?;
            let mut out = taken.servers.replies.take();
            let at = begin(message.transport, &mut out);
            let is_answered = server.answer(&message.incoming(&[], &room), &mut out);
            end(message.transport, &mut out, at, 0);
            taken.servers.records.put(message.record.into_buffer());
            let room = room.map(|room| room.fit(out.capacity()));
            is_answered.then_some(Answer { bytes: out, room })
        };
        if self.may_block { tokio::task::spawn_blocking(work).await.ok()? } else { work() }
    }
}

/// A reply, and the right to the memory that it occupies.
pub(super) struct Answer {
    pub(super) bytes: Vec<u8>,
    pub(super) room: Option<Room>,
}

/// A message to which a server makes a reply.
pub(super) struct Message {
    pub(super) record: Record,
    pub(super) from: SocketAddr,
    pub(super) transport: Transport,
    /// The most bytes of the reply.
    pub(super) reply_max: usize,
}

impl Message {
    fn incoming<'a>(&'a self, more: &'a [&'a [u8]], room: &Option<Room>) -> Incoming<'a> {
        let (from, transport, reply_max) = (self.from, self.transport, self.reply_max);
        let room = room.as_ref().map_or(reply_max, |room| room.bytes);
        Incoming { bytes: &self.record, more, from, transport, reply_max, room }
    }
}

/// Begin a reply in `out`. Returns where it begins.
fn begin(transport: Transport, out: &mut Vec<u8>) -> usize {
    match transport {
        Transport::Stream | Transport::Local => record::begin(out),
        Transport::Datagram => 0,
    }
}

/// Complete a reply. `elsewhere` of its bytes are in other buffers.
fn end(transport: Transport, out: &mut [u8], at: usize, elsewhere: usize) {
    if transport != Transport::Datagram {
        record::mark(out, at, out.len() - at + elsewhere);
    }
}
