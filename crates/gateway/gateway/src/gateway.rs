//! The gateway: its tables, what wakes it, and a turn of its work.
//!
//! Called by: the owner of the event loop, in this order: `Stack::poll_before_flush`,
//! [`Gateway::event`] with each event of the stack, [`Gateway::ready`] with what the outside
//! reports, [`Gateway::turn`], `Stack::flush`. It waits until the stack's deadline,
//! [`Gateway::next_deadline`], a frame or a report, and not at all while
//! [`Gateway::has_work`].

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{Budget, Duration, Instant, Owner};
use slotmap::SlotMap;
use stack::{Event, FastOpenConfig, IpSettings, ListenConfig, ListenError, ListenerHandle, Stack};
use tcp::Events;

use crate::around::Around;
use crate::bucket::Bucket;
use crate::config::Config;
use crate::counts::Counts;
use crate::datagrams::{SessionId, Sessions};
use crate::flow::{Flow, FlowId, Staged, State, bit};
use crate::names::{GuestId, Names, UpstreamId};
use crate::outside::{Ends, Outside, Ready, Token};
use crate::policy::Policy;
use crate::proxy::{LegId, Proxies};
use crate::report::Reports;

/// How long a flow waits that found no buffer.
const RETRY: Duration = Duration::from_millis(10);

/// Flows that are not open yet, and flows that wait for a buffer.
pub(crate) struct Waiting {
    /// Those of guests. A flow to a published port may have the ends of one of them.
    pub(crate) by_ends: BTreeMap<Ends, FlowId>,
    pub(crate) by_destination: BTreeMap<IpAddr, u32>,
    pub(crate) deadlines: BTreeSet<(Instant, FlowId)>,
    /// Flows that found no buffer, and when they try again.
    pub(crate) starved: Vec<FlowId>,
    pub(crate) retry_at: Instant,
}

/// A gateway between a guest's stack and an outside whose connections are `T`
/// ([`Outside::Tcp`]) and whose sockets are `S`. See the head of the file.
pub struct Gateway<T, S> {
    pub(crate) config: Config,
    pub(crate) listener: ListenerHandle,
    pub(crate) flows: SlotMap<FlowId, Flow<T>>,
    pub(crate) waiting: Waiting,
    /// Flows that have something to do, in turn; each is there once.
    pub(crate) queue: VecDeque<FlowId>,
    pub(crate) has_requests: bool,
    /// The memory in which bytes wait while a flow moves them.
    pub(crate) spare: Option<Box<Staged>>,
    pub(crate) bucket: Bucket,
    /// When idle flows may be looked for again.
    pub(crate) next_look: Instant,
    pub(crate) counts: Counts,
    pub(crate) reports: Reports,
    pub(crate) sessions: Sessions<S>,
    pub(crate) names: Option<Box<Names<T, S>>>,
    pub(crate) proxies: Proxies<T, S>,
}

impl<T, S> Gateway<T, S> {
    /// A gateway that takes every SYN of the stack that no other listener takes.
    ///
    /// # Errors
    /// The stack has such a listener already, or no room for one.
    pub fn new(stack: &mut Stack, mut config: Config) -> Result<Gateway<T, S>, ListenError> {
        let listen = ListenConfig {
            // A SYN is answered only for a flow, so that the limits of flows hold. A small backlog
            // would let a flow whose SYN-ACK was lost give way to another.
            backlog: usize::MAX,
            inspect: true,
            tcp: config.tcp,
            owner: Owner::program(),
            ip: IpSettings::default(),
            fast_open: FastOpenConfig::default(),
        };
        let anything = SocketAddr::from(([0, 0, 0, 0], 0));
        let listener = stack.tcp_listen(anything, listen)?;
        let names = config.names.take().map(|names| Box::new(Names::new(names)));
        Ok(Gateway {
            names,
            config,
            listener,
            flows: SlotMap::with_key(),
            waiting: Waiting {
                by_ends: BTreeMap::new(),
                by_destination: BTreeMap::new(),
                deadlines: BTreeSet::new(),
                starved: Vec::new(),
                retry_at: Instant::NEVER,
            },
            queue: VecDeque::new(),
            has_requests: false,
            spare: None,
            bucket: Bucket::default(),
            next_look: Instant::ZERO,
            counts: Counts::default(),
            reports: Reports::default(),
            sessions: Sessions::default(),
            proxies: Proxies::new(None),
        })
    }

    /// How often each event happened.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The limits, and how often each was hit.
    pub fn budget(&self) -> &Budget {
        &self.config.budget
    }

    /// The limits, to set them.
    pub fn budget_mut(&mut self) -> &mut Budget {
        &mut self.config.budget
    }

    /// Flows of all states.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Sessions of datagrams, and of echoes.
    pub fn session_counts(&self) -> (usize, usize) {
        let echoes = self.sessions.echoes;
        (self.sessions.slots.len() - echoes, echoes)
    }

    /// Flows that are not open yet.
    pub fn pending_count(&self) -> usize {
        self.waiting.deadlines.len()
    }

    /// An event of the stack; `false` if it is not the gateway's. Tags of connections
    /// (`Stack::tcp_set_tag`) are the gateway's alone.
    pub fn event(&mut self, event: Event) -> bool {
        match event {
            Event::Accept(listener) if listener == self.listener => self.has_requests = true,
            Event::Tagged(tag, what) => {
                if let Some(id) = GuestId::of(tag) {
                    let Some(names) = &mut self.names else { return false };
                    return names.wake(id);
                }
                let id = FlowId::of(Token(tag));
                if !self.flows.contains_key(id) {
                    return false;
                }
                self.guest_event(id, what);
            }
            Event::Foreign => self.sessions.has_input = true,
            _ => return false,
        }
        true
    }

    fn guest_event(&mut self, id: FlowId, what: Events) {
        let mut bits = 0_u32;
        for (event, bit) in [
            (Events::CONNECTED, bit::CONNECTED | bit::GUEST_READABLE | bit::GUEST_WRITABLE),
            (Events::READABLE | Events::PEER_CLOSED, bit::GUEST_READABLE),
            (Events::WRITABLE, bit::GUEST_WRITABLE),
            (Events::URGENT, bit::GUEST_URGENT | bit::GUEST_READABLE),
            (Events::CLOSED, bit::GUEST_CLOSED | bit::GUEST_READABLE),
        ] {
            bits |= if what.has(event) { bit } else { 0 };
        }
        self.wake(id, bits);
    }

    /// The outside reports that something is ready. Reports about what is gone mean nothing.
    pub fn ready(&mut self, token: Token, ready: Ready) {
        if let Some(id) = SessionId::of(token) {
            return self.sessions.ready(id);
        }
        if let Some(id) = UpstreamId::of(token) {
            self.names.iter_mut().for_each(|names| names.ready(id));
            return;
        }
        if let Some(id) = LegId::of(token) {
            return self.proxies.ready(id, ready);
        }
        let mut bits = 0_u32;
        for (what, bit) in [
            (Ready::READABLE, bit::HOST_READABLE),
            (Ready::WRITABLE, bit::HOST_WRITABLE),
            (Ready::URGENT, bit::HOST_URGENT | bit::HOST_READABLE),
            (Ready::ERROR, bit::HOST_EVENT),
        ] {
            bits |= if ready.has(what) { bit } else { 0 };
        }
        let id = FlowId::of(token);
        if self.flows.get(id).is_some_and(|flow| flow.state == State::Connecting) {
            bits |= bit::HOST_EVENT;
        }
        self.wake(id, bits);
    }

    /// Set bits of a flow, and let it have a turn.
    pub(crate) fn wake(&mut self, id: FlowId, bits: u32) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        flow.set(bits);
        if !flow.has(bit::QUEUED) {
            flow.set(bit::QUEUED);
            self.queue.push_back(id);
        }
    }

    /// Take new SYNs, and let each flow that has something to do move its bytes: at most
    /// [`crate::TURN_BYTES`] in each direction, in turn.
    pub fn turn<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        around: &mut Around<'_, O, P>,
    ) {
        self.expire(around);
        self.expire_sessions(around);
        self.begin_flows(around);
        for _ in 0..self.queue.len() {
            let Some(id) = self.queue.pop_front() else { break };
            let Some(flow) = self.flows.get_mut(id) else { continue };
            flow.clear(bit::QUEUED);
            self.run(id, around);
        }
        self.send_datagrams(around);
        self.receive_datagrams(around);
        self.serve_names(around);
        self.serve_clients(around);
        around.outside.flush();
    }

    /// Does [`Gateway::turn`] have something to do at once?
    pub fn has_work(&self) -> bool {
        let names = self.names.as_ref();
        self.has_requests
            || !self.queue.is_empty()
            || self.sessions.has_work()
            || self.proxies.has_work()
            || names.is_some_and(|names| names.has_work())
    }

    /// When [`Gateway::turn`] has something to do although nothing happens; never for a gateway
    /// whose flows are all open and that has no session and no question.
    pub fn next_deadline(&self) -> Instant {
        let first = self.waiting.deadlines.first().map_or(Instant::NEVER, |&(at, _)| at);
        let names = self.names.as_ref().map_or(Instant::NEVER, |names| names.next_deadline());
        let datagrams = self.sessions.next_deadline().min(self.proxies.next_deadline());
        first.min(self.waiting.retry_at).min(datagrams).min(names)
    }

    fn expire<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        around: &mut Around<'_, O, P>,
    ) {
        if self.waiting.retry_at <= around.now {
            self.waiting.retry_at = Instant::NEVER;
            for id in core::mem::take(&mut self.waiting.starved) {
                if let Some(flow) = self.flows.get_mut(id) {
                    flow.clear(bit::STARVED);
                }
                self.wake(id, bit::HOST_READABLE | bit::GUEST_WRITABLE);
            }
        }
        while let Some(&(at, id)) = self.waiting.deadlines.first()
            && at <= around.now
        {
            self.time_out(id, around);
            self.waiting.deadlines.remove(&(at, id));
        }
    }

    /// A flow found no buffer: let it try again a little later.
    pub(crate) fn starve(&mut self, id: FlowId, now: Instant) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        self.counts.no_buffer += 1;
        if !flow.has(bit::STARVED) {
            flow.set(bit::STARVED);
            self.waiting.starved.push(id);
        }
        self.waiting.retry_at = self.waiting.retry_at.min(now + RETRY);
    }
}
