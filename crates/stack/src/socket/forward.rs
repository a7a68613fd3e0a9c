//! Connections whose user decides about each SYN: an inspecting listener keeps each SYN as a
//! small record, answers nothing, and tells its user who wants what. The user completes the
//! handshake, resets it or drops it; the peer's repetitions of its SYN change nothing meanwhile.
//!
//! Called by: `passive.rs` for SYNs, programs for the rest. Limits: `forward_requests`, of all
//! listeners together; a record older than [`WAIT`] makes room, because its peer has given up.

use std::collections::{BTreeMap, VecDeque};

use core::net::SocketAddr;

use base::{DropReason, Duration, Instant, Limit};
use slotmap::{SlotMap, new_key_type};
use tcp::Fate;

use crate::event::Event;
use crate::socket::passive::{self, Syn};
use crate::{ListenerHandle, Stack, TcpHandle, bare, tx};

new_key_type! {
    /// A SYN that waits for a word.
    pub struct RequestHandle;
}

/// How long a record may wait: a peer with the usual six SYN retransmissions gives up after two
/// minutes, and few users wait for half of that.
pub(crate) const WAIT: Duration = Duration::from_secs(60);

struct Request {
    syn: Syn,
    since: Instant,
}

/// All SYNs of a shard that wait.
#[derive(Default)]
pub(crate) struct Requests {
    slots: SlotMap<RequestHandle, Request>,
    by_flow: BTreeMap<(SocketAddr, SocketAddr), RequestHandle>,
    /// In the order of arrival; those decided about are skipped.
    order: VecDeque<RequestHandle>,
}

impl Requests {
    fn take(&mut self, handle: RequestHandle) -> Option<Request> {
        let request = self.slots.remove(handle)?;
        self.by_flow.remove(&(request.syn.local, request.syn.remote));
        // Places of those decided about go when they reach the front, or when they are many.
        if self.order.len() > 2 * self.slots.len() + 16 {
            let slots = &self.slots;
            self.order.retain(|handle| slots.contains_key(*handle));
        }
        Some(request)
    }

    /// Forget those that waited too long.
    fn expire(&mut self, now: Instant) {
        while let Some(&oldest) = self.order.front() {
            match self.slots.get(oldest) {
                Some(request) if now.since(request.since) < WAIT => break,
                _ => drop(self.take(oldest)),
            }
            self.order.pop_front();
        }
    }

    /// A listener is gone.
    pub(crate) fn forget_listener(&mut self, listener: ListenerHandle) {
        self.slots.retain(|_, request| request.syn.listener != listener);
        let slots = &self.slots;
        self.by_flow.retain(|_, handle| slots.contains_key(*handle));
        self.order.retain(|handle| slots.contains_key(*handle));
    }
}

/// Keep a SYN for its listener's user.
pub(crate) fn hold(stack: &mut Stack, syn: &Syn) -> Fate {
    let flow = (syn.local, syn.remote);
    let requests = &mut stack.requests;
    // First: who comes back after a long time is a newcomer.
    requests.expire(stack.core.cx.now);
    if requests.by_flow.contains_key(&flow) {
        return Err(DropReason::TcpDuplicate);
    }
    if !stack.core.cx.budget.admits(Limit::ForwardRequests, requests.slots.len()) {
        return Err(DropReason::TcpBacklogFull);
    }
    let request = Request { syn: *syn, since: stack.core.cx.now };
    let handle = requests.slots.insert(request);
    requests.by_flow.insert(flow, handle);
    requests.order.push_back(handle);
    if let Some(listener) = stack.listeners.get_mut(syn.listener) {
        // Those decided about, or too old, go when their turn comes, or when they are many.
        if listener.requests.len() > 2 * requests.slots.len() + 16 {
            listener.requests.retain(|handle| requests.slots.contains_key(*handle));
        }
        listener.requests.push_back(handle);
    }
    stack.ready.push_back(Event::Accept(syn.listener));
    Ok(())
}

impl Stack {
    /// Take the next SYN that waits for a word: its handle, the address it is for and the address
    /// it is from. Those that waited longer than [`WAIT`] are skipped.
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

    /// Go on with the handshake: the connection is the caller's at once, and
    /// [`tcp::Events::CONNECTED`] or `CLOSED` tells how it went. It counts as half open until then.
    ///
    /// # Errors
    /// The named reason: a limit, no route back, or a handle that means nothing any more.
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

    /// Answer with RST: the peer's connect is refused.
    pub fn tcp_refuse(&mut self, handle: RequestHandle) {
        if let Some(request) = self.requests.take(handle) {
            let Syn { local, remote, seg, .. } = &request.syn;
            let listener = self.listeners.get(request.syn.listener);
            let whose = listener.map(|l| (l.owner.clone(), l.ip.mark));
            let (owner, mark) = whose.unwrap_or((base::Owner::program(), 0));
            bare::reset(self, (*local, *remote), seg, (&owner, mark));
        }
    }

    /// Say nothing: if the peer sends its SYN again, it is a new request.
    pub fn tcp_ignore(&mut self, handle: RequestHandle) {
        if self.requests.take(handle).is_some() {
            self.core.drops.count(DropReason::TcpForwardDropped);
        }
    }

    /// SYNs that wait for a word.
    pub fn request_count(&self) -> usize {
        self.requests.slots.len()
    }
}
