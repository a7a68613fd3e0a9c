//! The engine over the ways out, compiled with this crate.
//!
//! Called by: programs whose own crate is not optimised. A generic function is compiled in the
//! crate that calls it, at that crate's level: unoptimised, our own code was 21 % of a download's
//! CPU time, and 9 % here.
//! These functions have no types to choose.

use gateway::{Around, Ends, Gateway, Glance, Policy, Ready, Token, Verdict};
use host::dns::{self, Answered, Asked};
use stack::Event;

use crate::egress::{Egress, EgressSocket, EgressTcp};

/// An engine whose outside is [`Egress`].
pub type HostGateway = Gateway<EgressTcp, EgressSocket>;

/// Any policy, by reference.
pub struct AnyPolicy<'a>(pub &'a mut dyn Policy);

impl dns::Policy for AnyPolicy<'_> {
    fn question(&mut self, asked: &Asked<'_>) -> dns::Verdict {
        self.0.question(asked)
    }

    fn answer(&mut self, answer: &Answered<'_>) -> dns::Verdict {
        self.0.answer(answer)
    }

    fn keeps_ech(&mut self, asked: &Asked<'_>) -> bool {
        self.0.keeps_ech(asked)
    }
}

impl Policy for AnyPolicy<'_> {
    fn tcp(&mut self, ends: &Ends) -> Verdict {
        self.0.tcp(ends)
    }

    fn udp(&mut self, ends: &Ends) -> Verdict {
        self.0.udp(ends)
    }

    fn echo(&mut self, ends: &Ends) -> Verdict {
        self.0.echo(ends)
    }

    fn wants_hello(&mut self, ends: &Ends) -> bool {
        self.0.wants_hello(ends)
    }

    fn hello(&mut self, ends: &Ends, bytes: &[u8], is_all: bool) -> Glance {
        self.0.hello(ends, bytes, is_all)
    }

    fn wants_datagrams(&mut self, ends: &Ends) -> bool {
        self.0.wants_datagrams(ends)
    }

    fn datagrams(&mut self, ends: &Ends, payload: &[u8], segment_size: usize) -> Glance {
        self.0.datagrams(ends, payload, segment_size)
    }
}

/// [`Gateway::event`].
#[inline(never)]
pub fn event(engine: &mut HostGateway, event: Event) -> bool {
    engine.event(event)
}

/// [`Gateway::ready`].
#[inline(never)]
pub fn ready(engine: &mut HostGateway, token: Token, ready: Ready) {
    engine.ready(token, ready);
}

/// [`Gateway::turn`].
#[inline(never)]
pub fn turn(engine: &mut HostGateway, around: &mut Around<'_, Egress, impl Policy>) {
    let mut policy = AnyPolicy(around.policy);
    let (stack, outside, now) = (&mut *around.stack, &mut *around.outside, around.now);
    turn_of_any(engine, &mut Around { stack, outside, policy: &mut policy, now });
}

#[inline(never)]
fn turn_of_any(engine: &mut HostGateway, around: &mut Around<'_, Egress, AnyPolicy<'_>>) {
    engine.turn(around);
}
