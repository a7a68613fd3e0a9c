//! Connections over which guests ask for names (RFC 7766): each message with two bytes of length in
//! front, several questions at once, answers in any order.
//!
//! Called by: `names.rs`, `serve.rs`. No more is read from a connection while many of its questions
//! wait or an answer could not be sent, so that a guest cannot make the gateway keep more.

use std::collections::VecDeque;

use base::{Duration, Instant};
use host::dns::limits::QUESTION_BYTES_MAX;
use host::dns::{Framing, Transport, framed};
use slotmap::{Key, KeyData, new_key_type};
use stack::{CallError, TcpHandle};

use super::{Asker, Names};
use crate::around::Around;
use crate::datagrams::FLOW;
use crate::outside::Outside;
use crate::policy::Policy;

new_key_type! {
    /// The number of a guest's connection; a removed one's is not used again.
    pub(crate) struct GuestId;
}

impl GuestId {
    pub(super) fn tag(self) -> u64 {
        self.data().as_ffi() & !FLOW
    }

    /// The connection of a tag; `None` if it is a flow's.
    pub(crate) fn of(tag: u64) -> Option<GuestId> {
        (tag & FLOW == 0).then(|| GuestId::from(KeyData::from_ffi(tag | FLOW)))
    }
}

/// How long a connection lives without a question or an answer: RFC 7766 section 6.2.3 leaves it to
/// the server.
const IDLE: Duration = Duration::from_secs(10);
/// Questions of a connection that wait for their answers at the same time.
const QUESTIONS_MAX: usize = 8;
/// Bytes of a read.
const READ_BYTES: usize = 2_048;

/// A connection of a guest.
pub(super) struct Guest {
    pub(super) handle: TcpHandle,
    framing: Framing,
    /// Bytes that were read and not looked at yet, one read's at most.
    input: Vec<u8>,
    /// Answers that were not sent yet.
    output: VecDeque<u8>,
    /// Questions without an answer so far.
    waiting: usize,
    /// The guest asks no more.
    has_closed: bool,
    is_awake: bool,
    /// When it last asked, or took something of an answer.
    last: Instant,
}

/// What becomes of a connection after its turn.
enum Next {
    Stays,
    Closes,
    Fails,
}

impl Guest {
    pub(super) fn new(handle: TcpHandle, now: Instant) -> Guest {
        Guest {
            handle,
            framing: Framing::new(QUESTION_BYTES_MAX),
            input: Vec::new(),
            output: VecDeque::new(),
            waiting: 0,
            has_closed: false,
            is_awake: false,
            last: now,
        }
    }

    /// When it has been idle for too long.
    pub(super) fn deadline(&self) -> Instant {
        if self.waiting > 0 { Instant::NEVER } else { self.last + IDLE }
    }

    fn write<O, P>(&mut self, around: &mut Around<'_, O, P>) -> Next {
        while !self.output.is_empty() {
            let (bytes, _) = self.output.as_slices();
            match around.stack.tcp_write(self.handle, bytes) {
                Ok(0) | Err(CallError::WouldBlock) => break,
                Ok(count) => {
                    self.output.drain(..count);
                    self.last = around.now;
                }
                Err(_) => return Next::Fails,
            }
        }
        if self.output.is_empty() {
            self.output = VecDeque::new();
        }
        Next::Stays
    }

    /// The next message; `None` if there is no whole one yet, or it is not its time.
    fn read<O, P>(&mut self, around: &mut Around<'_, O, P>) -> Result<Option<Vec<u8>>, Next> {
        while self.waiting < QUESTIONS_MAX && self.output.is_empty() {
            if self.input.is_empty() && !self.has_closed {
                let mut buffer = [0; READ_BYTES];
                match around.stack.tcp_read(self.handle, &mut buffer) {
                    Ok(0) => self.has_closed = true,
                    Ok(count) => {
                        self.input.extend(&buffer[..count]);
                        self.last = around.now;
                    }
                    Err(CallError::WouldBlock) => return Ok(None),
                    Err(_) => return Err(Next::Fails),
                }
            }
            let mut rest = &self.input[..];
            let message = self.framing.next(&mut rest).map_err(|_| Next::Fails)?;
            let used = self.input.len() - rest.len();
            self.input.drain(..used);
            if message.is_some() {
                return Ok(message);
            }
            if self.has_closed {
                return Err(Next::Closes);
            }
        }
        Ok(None)
    }
}

impl<T, S> Names<T, S> {
    /// Something happened at a guest's connection; `false` if it is gone.
    pub(crate) fn wake(&mut self, id: GuestId) -> bool {
        let Some(guest) = self.guests.get_mut(id) else { return false };
        if !guest.is_awake {
            guest.is_awake = true;
            self.awake.push_back(id);
        }
        true
    }

    /// The answer to a question of a connection.
    pub(super) fn answer_over(&mut self, id: GuestId, message: &[u8], now: Instant) {
        let Some(guest) = self.guests.get_mut(id) else { return };
        guest.waiting -= 1;
        guest.last = now;
        guest.output.extend(framed(message));
        self.wake(id);
    }

    /// Let connections write and read; end those that are idle.
    pub(super) fn serve_guests<O, P>(&mut self, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        for _ in 0..self.awake.len() {
            let Some(id) = self.awake.pop_front() else { break };
            match self.serve(id, around) {
                Next::Stays => {}
                Next::Closes => self.end_guest(id, true, around),
                Next::Fails => self.end_guest(id, false, around),
            }
        }
        let idle = |(id, guest): (GuestId, &Guest)| (guest.deadline() <= around.now).then_some(id);
        let idle: Vec<GuestId> = self.guests.iter().filter_map(idle).collect();
        for id in idle {
            let is_quiet = self.guests.get(id).is_some_and(|guest| guest.output.is_empty());
            self.end_guest(id, is_quiet, around);
        }
    }

    fn serve<O, P>(&mut self, id: GuestId, around: &mut Around<'_, O, P>) -> Next
    where
        P: Policy,
    {
        let Some(guest) = self.guests.get_mut(id) else { return Next::Stays };
        guest.is_awake = false;
        if let failed @ Next::Fails = guest.write(around) {
            return failed;
        }
        loop {
            let message = match guest.read(around) {
                Ok(Some(message)) => message,
                Ok(None) => return Next::Stays,
                // Its last answers are still to come.
                Err(Next::Closes) if guest.waiting > 0 => return Next::Stays,
                Err(next) => return next,
            };
            let (asker, by) = (Asker::Connection(id), Transport::Tcp);
            let policy = &mut *around.policy;
            let is_answered = self.forwarder.question(around.now, asker, by, &message, policy);
            guest.waiting += usize::from(is_answered);
        }
    }

    /// End a connection: gracefully, or by a RST.
    fn end_guest<O, P>(&mut self, id: GuestId, is_graceful: bool, around: &mut Around<'_, O, P>) {
        let Some(guest) = self.guests.remove(id) else { return };
        match is_graceful {
            true => around.stack.tcp_close(guest.handle),
            false => around.stack.tcp_abort(guest.handle),
        }
        self.forwarder.abandon(|asker| *asker == Asker::Connection(id));
    }
}
