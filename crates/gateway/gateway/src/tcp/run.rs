//! A turn of a flow: what happened to its connections, then bytes in both directions.
//!
//! Called by: `gateway.rs`.

use crate::TURN_BYTES;
use crate::around::Around;
use crate::flow::{FlowId, Leg, Staged, State, bit, second};
use crate::gateway::Gateway;
use crate::outside::{Failure, Outside};
use crate::policy::Policy;
use crate::report::End;
use crate::tcp::{Step, down, up};

/// The two connections of a flow, and where their bytes are.
pub(crate) struct Legs<'a, O: Outside> {
    pub(crate) stack: &'a mut stack::Stack,
    pub(crate) outside: &'a mut O,
    pub(crate) handle: stack::TcpHandle,
    /// A place for bytes that wait, of a flow that does not need it any more.
    pub(crate) spare: &'a mut Option<Box<Staged>>,
}

impl<T, S> Gateway<T, S> {
    /// Let a flow do what it can.
    pub(crate) fn run<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: FlowId,
        around: &mut Around<'_, O, P>,
    ) {
        match self.flows.get(id).map(|flow| (flow.state, flow.has(bit::INBOUND))) {
            Some((State::Connecting, false)) => self.connecting(id, around),
            Some((State::Connecting, true)) => {
                if self.taken(id, around) {
                    self.move_bytes(id, around);
                }
            }
            Some((State::Asking, _)) | None => {}
            Some(_) => self.move_bytes(id, around),
        }
    }

    fn move_bytes<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: FlowId,
        around: &mut Around<'_, O, P>,
    ) {
        if let Err(end) = self.ended(id, around) {
            return self.reset(id, end, around);
        }
        if self.flows.get(id).is_some_and(|flow| flow.has(bit::HELLO))
            && let Err(end) = self.glance(id, around)
        {
            return self.reset(id, end, around);
        }
        let Some(flow) = self.flows.get_mut(id) else { return };
        let Leg::Tcp(handle) = flow.guest else { return };
        let (up_before, down_before) = (flow.bytes_up, flow.bytes_down);
        let (stack, outside, spare) = (&mut *around.stack, &mut *around.outside, &mut self.spare);
        let mut legs = Legs { stack, outside, handle, spare };
        let up_first = flow.has(bit::UP_FIRST);
        flow.bits ^= bit::UP_FIRST;
        let mut steps = [Step::Idle, Step::Idle];
        for is_up in [up_first, !up_first] {
            steps[usize::from(is_up)] = match is_up {
                true => up::pump(flow, &mut legs, TURN_BYTES),
                false => down::pump(flow, &mut legs, TURN_BYTES),
            };
        }
        flow.settle(legs.spare);
        let (up, down) = (flow.bytes_up - up_before, flow.bytes_down - down_before);
        debug_assert!(up.max(down) <= TURN_BYTES as u64, "a budget was exceeded");
        if up + down > 0 {
            flow.active_s = second(around.now);
        }
        self.counts.bytes_up += up;
        self.counts.bytes_down += down;
        for step in steps {
            match step {
                Step::Idle => {}
                Step::UsedUp => {
                    self.counts.budgets_used_up += 1;
                    self.wake(id, 0);
                }
                Step::NoBuffer => self.starve(id, around.now),
                Step::GuestFailed => return self.reset(id, End::ResetByGuest, around),
                Step::HostFailed(why) => return self.reset(id, End::ResetByOutside(why), around),
            }
        }
        let Some(flow) = self.flows.get_mut(id) else { return };
        match flow.is_over() {
            true => self.finish(id, around),
            false => flow.name_state(),
        }
    }

    /// Has one of the connections ended other than by FIN?
    fn ended<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: FlowId,
        around: &mut Around<'_, O, P>,
    ) -> Result<(), End> {
        let Some(flow) = self.flows.get_mut(id) else { return Ok(()) };
        if flow.has(bit::HOST_EVENT)
            && let Some(outer) = &mut flow.outer
        {
            flow.bits &= !bit::HOST_EVENT;
            flow.bits |= bit::HOST_READABLE | bit::HOST_WRITABLE;
            around.outside.tcp_outcome(outer).map_err(End::ResetByOutside)?;
        }
        if flow.has(bit::GUEST_CLOSED)
            && let Leg::Tcp(handle) = flow.guest
        {
            match around.stack.tcp_state(handle) {
                Some((_, None)) => {}
                Some((_, Some(_))) | None => return Err(End::ResetByGuest),
            }
        }
        Ok(())
    }
}

/// The error of a call that the outside has no room for is none of the network's.
pub(crate) const NO_CONNECTION: Failure = Failure::Reset;
