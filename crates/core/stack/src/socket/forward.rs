//! Connections whose user decides about each SYN. A listener with `inspect` keeps each SYN as a
//! small record, answers nothing, and reports the addresses of both ends to its user. The user
//! completes the handshake, resets it or ignores it. Meanwhile the peer's repetitions of the SYN
//! only show that it still waits.
//!
//! Called by: `no_connection.rs` for SYNs; programs for everything else. Limit: `forward_requests`,
//! for all listeners together. A record makes room when its peer was silent for `REQUEST_WAIT`,
//! because it has given up.

use core::net::SocketAddr;

use base::{DropReason, Limit, Owner};
use inet::Selector;
use tcp::Fate;

use crate::handles::{Event, ListenerHandle, RequestHandle, TcpHandle};
use crate::socket::listener::Syn;
use crate::socket::passive;
use crate::stack::Stack;
use crate::{bare, tx};

/// Keep a SYN for its listener's user.
pub(crate) fn hold(stack: &mut Stack, syn: &Syn) -> Fate {
    let (requests, now) = (&mut stack.requests, stack.core.cx.now);
    // Old records are removed first, so that a peer that returns after a long time gets a new one.
    requests.expire(now);
    if requests.is_kept(syn, now) {
        return Err(DropReason::TcpDuplicate);
    }
    if !stack.core.cx.budget.admits(Limit::ForwardRequests, requests.slots.len()) {
        return Err(DropReason::TcpBacklogFull);
    }
    let handle = requests.add(*syn, now);
    if let Some(listener) = stack.listeners.get_mut(syn.listener) {
        // Entries of SYNs that were decided or are too old are removed at the front, or when they
        // are many.
        if listener.requests.len() > 2 * requests.slots.len() + 16 {
            listener.requests.retain(|handle| requests.slots.contains_key(*handle));
        }
        listener.requests.push_back(handle);
    }
    stack.ready.push_back(Event::Accept(syn.listener));
    Ok(())
}

impl Stack {
    /// Take the next SYN that waits for a decision: its handle, its destination and its source.
    /// SYNs that were not repeated for `REQUEST_WAIT` are skipped.
    pub fn tcp_request(
        &mut self,
        listener: ListenerHandle,
    ) -> Option<(RequestHandle, SocketAddr, SocketAddr)> {
        self.requests.expire(self.core.cx.now);
        let listener = self.listeners.get_mut(listener)?;
        while let Some(handle) = listener.requests.pop_front() {
            if let Some(request) = self.requests.slots.get(handle) {
                return Some((handle, request.syn.local, request.syn.remote));
            }
        }
        None
    }

    /// Complete the handshake. The caller gets the connection at once, and
    /// [`tcp::Events::CONNECTED`] or `CLOSED` reports the result. Until then the connection counts
    /// as half open.
    ///
    /// # Errors
    /// The named reason: a limit was reached, there is no route back, or the handle is no longer
    /// valid.
    pub fn tcp_complete(&mut self, handle: RequestHandle) -> Result<TcpHandle, DropReason> {
        let request = self.requests.take(handle).ok_or(DropReason::TcpNoSocket)?;
        let room = passive::make_room(self, request.syn.listener);
        let made = room.and_then(|()| passive::complete_open(self, &request.syn));
        if let Err(reason) = made {
            self.core.drops.count(reason);
        }
        tx::output(self);
        made
    }

    /// Answer the SYN with a RST: the peer's connect is refused.
    pub fn tcp_refuse(&mut self, handle: RequestHandle) {
        if let Some(request) = self.requests.take(handle) {
            let Syn { local, remote, seg, .. } = &request.syn;
            let listener = self.listeners.get(request.syn.listener);
            let whose = listener.map(|l| (l.owner.clone(), l.ip.selector()));
            let (owner, by) = whose.unwrap_or((Owner::program(), Selector::default()));
            bare::reset(self, (*local, *remote), seg, (&owner, by));
        }
    }

    /// Drop the SYN without an answer: if the peer sends it again, it is a new request.
    pub fn tcp_ignore(&mut self, handle: RequestHandle) {
        if self.requests.take(handle).is_some() {
            self.core.drops.count(DropReason::TcpForwardDropped);
        }
    }

    /// The number of SYNs that wait for a decision.
    pub fn request_count(&self) -> usize {
        self.requests.slots.len()
    }
}
