//! The end of a flow: both connections end as the first of them did.
//!
//! Called by: `run.rs`, `begin.rs`.

use crate::around::Around;
use crate::datagrams::SessionId;
use crate::flow::{Flow, FlowId, Leg};
use crate::gateway::Gateway;
use crate::outside::Outside;
use crate::policy::Policy;
use crate::report::{End, Protocol, Report};

impl<T, S> Gateway<T, S> {
    /// Both halves are over: let go of both connections, which send what they have.
    pub(crate) fn finish<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: FlowId,
        around: &mut Around<'_, O, P>,
    ) {
        let Some(mut flow) = self.forget(id) else { return };
        self.counts.finished += 1;
        self.report(&flow, End::Finished);
        if let Leg::Tcp(handle) = flow.guest {
            around.stack.tcp_close(handle);
        }
        if let Some(outer) = flow.outer.take() {
            around.outside.tcp_close(outer);
        }
    }

    /// End both connections at once: RST for RST.
    pub(crate) fn reset<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: FlowId,
        end: End,
        around: &mut Around<'_, O, P>,
    ) {
        let Some(mut flow) = self.forget(id) else { return };
        match end {
            End::ResetByGuest => self.counts.reset_by_guest += 1,
            End::ResetByOutside(_) => self.counts.reset_by_outside += 1,
            _ => {}
        }
        self.report(&flow, end);
        if let Some(staged) = flow.staged.take() {
            let waiting = staged.up.into_iter().chain(staged.down);
            waiting.for_each(|m| around.stack.give_back(m));
        }
        if let Leg::Tcp(handle) = flow.guest {
            around.stack.tcp_abort(handle);
        }
        if let Some(outer) = flow.outer.take() {
            around.outside.tcp_abort(outer);
        }
    }

    /// End everything: every flow is reset, every SYN that waits goes without an answer.
    pub fn shut_down<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        around: &mut Around<'_, O, P>,
    ) {
        let all: Vec<FlowId> = self.flows.keys().collect();
        for id in all {
            self.reset(id, End::ShutDown, around);
        }
        let sessions: Vec<SessionId> = self.sessions.slots.keys().collect();
        for id in sessions {
            self.end_session(id, End::ShutDown, around);
        }
        self.end_clients(around);
        if let Some(names) = &mut self.names {
            names.end_all(around);
        }
        around.stack.tcp_unlisten(self.listener);
    }

    pub(crate) fn report(&mut self, flow: &Flow<T>, end: End) {
        let &Flow { ends, since, bytes_up, bytes_down, .. } = flow;
        self.reports.push(Report {
            protocol: Protocol::Tcp,
            ends,
            end,
            since,
            bytes_up,
            bytes_down,
        });
    }
}
