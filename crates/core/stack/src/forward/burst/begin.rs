//! Flows that begin in a burst, and flows that other rules have judged: after the destinations of
//! the burst were looked up, the firewall is asked about their packets, in order.
//!
//! Called by: `burst.rs`. It does what the long way does (`plain.rs`, `firewall.rs`) before the
//! packet is sent, and the packet then leaves with its burst. Three kinds of packets take the long
//! way: those with a translated destination, which have another route; those that another shard may
//! have to judge; and all packets behind one that takes the long way. docs/decisions/0134, 0135.

use core::ops::Range;

use arrayvec::ArrayVec;
use base::DropReason;
use device::{BURST, Burst};
use filter::Firewall;
use filter::firewall::{Arrival, Flow, Passed, Refusal};
use filter::nat::SourceReport;
use inet::forward::destination;
use mbuf::Mbuf;

use super::look::{REFUSED, Seens};
use crate::forward::firewall;
use crate::stack::Stack;

/// What the firewall says of a frame.
#[derive(Clone, Copy)]
pub(super) enum Said {
    /// It is asked on the long way.
    Nothing,
    /// It passes as one of this flow.
    Passes(Flow),
    /// It did not pass at once: the firewall is to be asked when its route is known.
    Asks,
    /// It passes without a state.
    PassesAlone,
    /// It is dropped, and its source is told this.
    Drops(DropReason, SourceReport),
}

const _: () = assert!(size_of::<Said>() == 8);

/// What the firewall says of the frames of a burst.
pub(super) struct Verdicts {
    pub(super) said: ArrayVec<Said, BURST>,
    /// A frame asks.
    pub(super) asks: bool,
    /// How many states had ended when frames passed as packets of theirs.
    pub(super) ended: u64,
}

impl Verdicts {
    /// Of a router without rules.
    pub(super) fn none() -> Verdicts {
        Verdicts { said: ArrayVec::new(), asks: false, ended: 0 }
    }

    /// Has a state of these frames ended since they passed? A new flow may have its place.
    #[inline(always)]
    pub(super) fn are_gone(&self, stack: &Stack, frames: Range<usize>) -> bool {
        let firewall = stack.firewall.as_deref();
        firewall.is_some_and(|firewall| {
            firewall.ended() != self.ended && self.have_ended(firewall, frames)
        })
    }

    #[cold]
    fn have_ended(&self, firewall: &Firewall, frames: Range<usize>) -> bool {
        let said = self.said.get(frames).unwrap_or_default();
        said.iter().any(|said| matches!(said, Said::Passes(flow) if !firewall.lives(flow)))
    }

    /// Ask the rules about the packets whose route was looked up meanwhile; `out_port` has the port
    /// of each flow.
    #[inline(never)]
    pub(super) fn ask<const AT: usize>(
        &mut self,
        stack: &mut Stack,
        in_port: u16,
        (frames, seens): (&Burst, &mut Seens),
        out_port: impl Fn(u8) -> Option<u16>,
    ) {
        let mut is_in_order = true;
        for ((m, seen), said) in frames.iter().zip(&mut seens.frames).zip(&mut self.said) {
            let Said::Asks = said else { continue };
            let out_port = out_port(seen.number).filter(|_| is_in_order);
            let packet = m.as_slice().get(AT..AT + usize::from(seen.len));
            let alone = |out| alone(stack, packet.unwrap_or_default(), (in_port, out));
            let asked = match out_port.and_then(alone) {
                None => out_port.and_then(|out| asked(stack, m, AT, (in_port, out))),
                alone => alone,
            };
            is_in_order &= asked.is_some();
            let (answer, leaves) = asked.unwrap_or((Said::Nothing, false));
            *said = answer;
            if !leaves {
                *seen = REFUSED;
            }
        }
    }
}

/// What rules say of a packet that they judge without a state, and whether it leaves with its
/// burst.
#[inline]
fn alone(stack: &mut Stack, packet: &[u8], ports: (u16, u16)) -> Option<(Said, bool)> {
    let now = stack.core.cx.now;
    let firewall = stack.firewall.as_deref_mut().filter(|firewall| firewall.homes().is_none())?;
    Some(match firewall.judge_alone(packet, ports, now)? {
        Ok(()) => (Said::PassesAlone, true),
        Err(reason) => (Said::Drops(reason, SourceReport::Nothing), false),
    })
}

/// Ask the rules about a packet that begins at `at` in `m`: what they say, and whether it leaves
/// with its burst. `None` if the long way has to ask.
fn asked(
    stack: &mut Stack,
    m: &Mbuf,
    at: usize,
    (in_port, out_port): (u16, u16),
) -> Option<(Said, bool)> {
    let arrived = match firewall::arrive(stack, in_port, m, at) {
        Ok(arrived) => arrived?,
        Err(reason) => return Some((Said::Drops(reason, SourceReport::Nothing), false)),
    };
    let new = match &arrived {
        Arrival::Begins(new) => new,
        // A packet before it in the burst began its flow. With another destination it has another
        // route.
        Arrival::Known(known) => {
            let dst = m.as_slice().get(at..).and_then(destination);
            let has_other = known.change.dst().is_some_and(|new| Some(new) != dst);
            return Some((Said::Passes(Flow::from(known)), !has_other));
        }
        Arrival::Passes => return Some((Said::PassesAlone, true)),
        Arrival::Early(_) | Arrival::Elsewhere(_) => return None,
    };
    let is_of_shards = stack.firewall.as_ref().is_some_and(|firewall| firewall.homes().is_some());
    if is_of_shards || arrived.routed_to().is_some() {
        return None;
    }
    Some(match firewall::asked(stack, new, out_port) {
        Ok(Passed { flow: Some(known), .. }) => (Said::Passes(Flow::from(&known)), true),
        Ok(_) => (Said::PassesAlone, true),
        Err(Refusal { reason, report }) => (Said::Drops(reason, report), false),
    })
}
