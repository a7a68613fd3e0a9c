//! A SYN becomes a flow: policy, limits, the connect of the outside, and its result, which is the
//! answer to the SYN.
//!
//! Called by: `gateway.rs` and `run.rs`. RFC 9293 section 3.10.7.2, RFC 8305 (a refusal has to look
//! like one: the guest's next address is tried at once).

use core::net::SocketAddr;

use base::{Duration, Instant, Limit};
use stack::{RequestHandle, Stack, Unreachable};

use crate::around::Around;
use crate::flow::{Flow, FlowId, Leg, State, bit, second};
use crate::gateway::Gateway;
use crate::names::NAMES_PORT;
use crate::outside::{Ends, Failure, Outcome, Outside};
use crate::policy::{Policy, Verdict};
use crate::report::{End, Protocol, Report};

/// SYNs that are looked at in a turn.
const REQUESTS_A_TURN: usize = 64;
/// How long a flow is idle before it may be reset to make room: RFC 5382 REQ-5.
const IDLE_S: u32 = 2 * 3_600;

impl<T, S> Gateway<T, S> {
    /// Take SYNs that wait for a decision.
    pub(crate) fn begin_flows<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        around: &mut Around<'_, O, P>,
    ) {
        if !self.has_requests {
            return;
        }
        for _ in 0..REQUESTS_A_TURN {
            let Some((request, remote, guest)) = around.stack.tcp_request(self.listener) else {
                self.has_requests = false;
                return;
            };
            self.syn(request, Ends { guest, remote }, around);
        }
    }

    fn syn<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        request: RequestHandle,
        ends: Ends,
        around: &mut Around<'_, O, P>,
    ) {
        self.counts.syns += 1;
        if self.names.is_some() && ends.remote.port() == NAMES_PORT {
            return self.names_syn(request, around);
        }
        if let Some(&id) = self.waiting.by_ends.get(&ends) {
            // The stack had forgotten the SYN of this flow, and here it comes again.
            if let Some(flow) = self.flows.get_mut(id) {
                flow.guest = Leg::Request(request);
                if flow.has(bit::CONNECTED) {
                    self.open(id, around);
                }
            }
            return;
        }
        let verdict = around.policy.tcp(&ends);
        let needs_room = matches!(verdict, Verdict::Allow | Verdict::To(_) | Verdict::Ask);
        if needs_room && !self.has_room(&ends, around) {
            self.unanswered(request, ends, around);
            return;
        }
        if let Verdict::Ask = verdict {
            self.wait(Flow::new(ends, Leg::Request(request), State::Asking, around.now));
            return;
        }
        self.carry_out(request, ends, verdict, around);
    }

    /// Decide about a SYN for which [`Policy::tcp`] said [`Verdict::Ask`]; `false` if none waits.
    pub fn decide<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        ends: &Ends,
        verdict: Verdict,
        around: &mut Around<'_, O, P>,
    ) -> bool {
        let asking = |id: &&FlowId| self.flows.get(**id).is_some_and(|f| f.state == State::Asking);
        let Some(&id) = self.waiting.by_ends.get(ends).filter(asking) else {
            return self.decide_client(ends, verdict);
        };
        if verdict == Verdict::Ask {
            return true;
        }
        let Some(flow) = self.forget(id) else { return false };
        if let Leg::Request(request) = flow.guest {
            self.carry_out(request, flow.ends, verdict, around);
        }
        true
    }

    fn carry_out<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        request: RequestHandle,
        ends: Ends,
        verdict: Verdict,
        around: &mut Around<'_, O, P>,
    ) {
        match verdict {
            Verdict::Allow => return self.connect(request, ends, ends.remote, around),
            Verdict::To(to) => return self.connect(request, ends, to, around),
            Verdict::Reset => around.stack.tcp_refuse(request),
            Verdict::Unreachable(why) => unreachable(around.stack, request, why),
            Verdict::Drop | Verdict::Ask => around.stack.tcp_ignore(request),
        }
        self.counts.refused_by_policy += 1;
        self.report_new(ends, End::Refused, around.now);
    }

    fn connect<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        request: RequestHandle,
        ends: Ends,
        to: SocketAddr,
        around: &mut Around<'_, O, P>,
    ) {
        let (limit, now) = (Limit::GatewayConnectsPerSecond, around.now);
        if !self.bucket.admits(limit, now, &mut self.config.budget) {
            self.unanswered(request, ends, around);
            return;
        }
        let id = self.wait(Flow::new(ends, Leg::Request(request), State::Connecting, now));
        match around.outside.tcp_connect(id.token(), &ends, to) {
            Ok(outer) => {
                if let Some(flow) = self.flows.get_mut(id) {
                    flow.outer = Some(outer);
                }
            }
            Err(why) => self.not_connected(id, why, around),
        }
    }

    /// The outside reports about a connect, or the flow has its turn for another reason.
    pub(crate) fn connecting<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: FlowId,
        around: &mut Around<'_, O, P>,
    ) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        if !flow.has(bit::HOST_EVENT) || flow.has(bit::CONNECTED) {
            return;
        }
        flow.clear(bit::HOST_EVENT);
        let Some(outer) = &mut flow.outer else { return };
        match around.outside.tcp_outcome(outer) {
            Ok(Outcome::Pending) => {}
            Ok(Outcome::Connected) => {
                flow.set(bit::CONNECTED);
                self.open(id, around);
            }
            Err(why) => self.not_connected(id, why, around),
        }
    }

    /// The outside is connected: answer the SYN.
    fn open<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: FlowId,
        around: &mut Around<'_, O, P>,
    ) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        let Leg::Request(request) = flow.guest else { return };
        match around.stack.tcp_complete(request) {
            Ok(handle) => {
                flow.guest = Leg::Tcp(handle);
                flow.state = State::Open;
                if around.policy.wants_hello(&flow.ends) {
                    flow.set(bit::HELLO);
                    flow.state = State::Hello;
                }
                flow.active_s = second(around.now);
                // For a guest's connection this bit comes with the event.
                flow.clear(bit::CONNECTED);
                around.stack.tcp_set_tag(handle, Some(id.token().0));
                self.unwait(id);
                self.counts.opened += 1;
                self.wake(id, bit::HOST_READABLE | bit::HOST_WRITABLE);
            }
            // The stack has forgotten the SYN, or has no room for the connection now, which it
            // counts. The guest repeats its SYN if it still wants the connection.
            Err(_) => flow.guest = Leg::Lost,
        }
    }

    /// The connect of the outside has failed.
    fn not_connected<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: FlowId,
        why: Failure,
        around: &mut Around<'_, O, P>,
    ) {
        let Some(flow) = self.forget(id) else { return };
        if let Leg::Request(request) = flow.guest {
            answer(around.stack, request, why);
        }
        let counter = match why {
            Failure::Refused | Failure::Reset => &mut self.counts.refused,
            Failure::Unreachable(_) => &mut self.counts.unreachable,
            Failure::TimedOut => &mut self.counts.timed_out,
            Failure::Full => &mut self.counts.outside_full,
        };
        *counter += 1;
        self.report(&flow, End::NotConnected(why));
        if let Some(outer) = flow.outer {
            around.outside.tcp_abort(outer);
        }
    }

    /// A flow has waited for as long as it may.
    pub(crate) fn time_out<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: FlowId,
        around: &mut Around<'_, O, P>,
    ) {
        match self.flows.get(id).map(|flow| (flow.state, flow.has(bit::INBOUND))) {
            Some((State::Connecting, true)) => self.not_taken(id, around),
            Some((State::Connecting, false)) => self.not_connected(id, Failure::TimedOut, around),
            Some((State::Asking, _)) => {
                let Some(flow) = self.forget(id) else { return };
                if let Leg::Request(request) = flow.guest {
                    around.stack.tcp_ignore(request);
                }
                self.counts.refused_by_policy += 1;
                self.report(&flow, End::Refused);
            }
            _ => {}
        }
    }

    /// Is there room for another flow that is not open yet?
    pub(crate) fn has_room<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        ends: &Ends,
        around: &mut Around<'_, O, P>,
    ) -> bool {
        let used = self.waiting.by_destination.get(&ends.remote.ip()).copied().unwrap_or(0);
        let (pending, budget) = (self.waiting.deadlines.len(), &mut self.config.budget);
        if !budget.admits(Limit::GatewayPending, pending)
            || !budget.admits(Limit::GatewayPendingPerDestination, used as usize)
        {
            return false;
        }
        budget.admits(Limit::GatewayFlows, self.flows.len()) || self.evict(around)
    }

    /// Reset the flow that was idle for longest, if it was idle for two hours; looks once a second
    /// at most.
    fn evict<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        around: &mut Around<'_, O, P>,
    ) -> bool {
        if around.now < self.next_look {
            return false;
        }
        self.next_look = around.now + Duration::from_secs(1);
        let open = self.flows.iter().filter(|(_, flow)| matches!(flow.guest, Leg::Tcp(_)));
        let Some((id, flow)) = open.min_by_key(|(_, flow)| flow.active_s) else { return false };
        if second(around.now).saturating_sub(flow.active_s) < IDLE_S {
            return false;
        }
        self.next_look = Instant::ZERO;
        self.counts.evicted += 1;
        self.reset(id, End::Evicted, around);
        true
    }

    fn unanswered<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        request: RequestHandle,
        ends: Ends,
        around: &mut Around<'_, O, P>,
    ) {
        self.counts.unanswered += 1;
        around.stack.tcp_ignore(request);
        self.report_new(ends, End::Unanswered, around.now);
    }

    fn report_new(&mut self, ends: Ends, end: End, since: Instant) {
        let (protocol, bytes_up, bytes_down) = (Protocol::Tcp, 0, 0);
        self.reports.push(Report { protocol, ends, end, since, bytes_up, bytes_down });
    }

    /// Put a flow that is not open yet into the tables.
    pub(crate) fn wait(&mut self, flow: Flow<T>) -> FlowId {
        let (ends, deadline, is_inbound) = (flow.ends, flow.deadline(), flow.has(bit::INBOUND));
        let id = self.flows.insert(flow);
        if !is_inbound {
            self.waiting.by_ends.insert(ends, id);
        }
        *self.waiting.by_destination.entry(ends.remote.ip()).or_default() += 1;
        self.waiting.deadlines.insert((deadline, id));
        id
    }

    /// A flow is open, or gone: take it out of the tables of those that are not.
    pub(crate) fn unwait(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get(id) else { return };
        let waiting = &mut self.waiting;
        let mut states = [State::Asking, State::Connecting].into_iter();
        if !states.any(|state| waiting.deadlines.remove(&(state.deadline(flow.since), id))) {
            return;
        }
        if !flow.has(bit::INBOUND) {
            waiting.by_ends.remove(&flow.ends);
        }
        let ip = flow.ends.remote.ip();
        if let Some(count) = waiting.by_destination.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                waiting.by_destination.remove(&ip);
            }
        }
    }

    /// Take a flow out of all tables.
    pub(crate) fn forget(&mut self, id: FlowId) -> Option<Flow<T>> {
        self.unwait(id);
        self.flows.remove(id)
    }
}

/// Answer a SYN as the outside has answered the connect.
fn answer(stack: &mut Stack, request: RequestHandle, why: Failure) {
    match why {
        Failure::Refused | Failure::Reset => stack.tcp_refuse(request),
        Failure::Unreachable(why) => unreachable(stack, request, why),
        Failure::TimedOut => unreachable(stack, request, Unreachable::Host),
        Failure::Full => stack.tcp_ignore(request),
    }
}

fn unreachable(stack: &mut Stack, request: RequestHandle, why: Unreachable) {
    stack.tcp_unreachable(request, why);
}
