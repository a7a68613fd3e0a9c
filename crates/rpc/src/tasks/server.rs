//! [`Servers`]: servers that carry calls out, one call each at a time.
//!
//! Called by: `streams.rs`, `datagrams.rs`. A call waits while all servers are taken, and so does
//! the connection behind it: that is the back-pressure.

use core::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{DropReason, Drops};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::spares::Spares;
use crate::record;
use crate::server::{Server, Transport};

/// Servers of the same programs. What they share is for their services to share.
pub struct Servers {
    idle: Mutex<Vec<Server>>,
    free: Arc<Semaphore>,
    may_block: bool,
    beside: Mutex<Drops>,
    pub(super) spares: Spares,
}

/// What servers have done. Those that are at work are not counted.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Calls that were answered.
    pub answered: u64,
    /// What was dropped, and why.
    pub drops: Vec<(DropReason, u64)>,
}

/// A server that is taken, which goes back whatever happens.
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
    /// `calls` servers, which `make` makes: so many calls are carried out at a time. They must not
    /// block: for those that do there is [`Servers::blocking`].
    pub fn new(calls: usize, make: impl FnMut() -> Server) -> Arc<Servers> {
        Servers::made(calls, false, make)
    }

    /// The same, whose calls may block, on files for example: they run on tokio's threads for that.
    pub fn blocking(calls: usize, make: impl FnMut() -> Server) -> Arc<Servers> {
        Servers::made(calls, true, make)
    }

    fn made(calls: usize, may_block: bool, mut make: impl FnMut() -> Server) -> Arc<Servers> {
        let servers: Vec<Server> = (0..calls.max(1)).map(|_| make()).collect();
        let free = Arc::new(Semaphore::new(servers.len()));
        let (idle, beside) = (Mutex::new(servers), Mutex::new(Drops::default()));
        Arc::new(Servers { idle, free, may_block, beside, spares: Spares::default() })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Server>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Count what no server has seen.
    pub(super) fn count(&self, reason: DropReason) {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner).count(reason);
    }

    /// What they have done.
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
        totals.answered = idle.iter().map(Server::answered).sum();
        totals
    }

    /// Must the reply to this call be kept for when it comes again?
    pub(super) fn must_keep(&self, message: &[u8]) -> bool {
        self.idle().first().is_none_or(|server| server.must_keep(message))
    }

    /// The reply to a message, if there is one: for a stream with its record mark.
    pub(super) async fn answer(
        self: &Arc<Servers>,
        message: Vec<u8>,
        from: SocketAddr,
        transport: Transport,
        most: usize,
    ) -> Option<Vec<u8>> {
        let permit = self.free.clone().acquire_owned().await.ok()?;
        let server = self.idle().pop();
        let mut taken = Taken { server, servers: self.clone(), _permit: permit };
        let work = move || {
            let server = taken.server.as_mut()?;
            let mut out = taken.servers.spares.take();
            let at = match transport {
                Transport::Stream => record::begin(&mut out),
                Transport::Datagram => 0,
            };
            let is_answered = server.answer(&message, from, transport, most, &mut out);
            taken.servers.spares.put(message);
            if !is_answered {
                return None;
            }
            if transport == Transport::Stream {
                record::end(&mut out, at);
            }
            Some(out)
        };
        if self.may_block { tokio::task::spawn_blocking(work).await.ok()? } else { work() }
    }
}
