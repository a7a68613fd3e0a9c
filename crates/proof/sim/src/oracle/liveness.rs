//! Liveness: once the network has recovered, every connection moves bytes or ends within a bound.
//! If the script of an end makes it wait (a reader that pauses), that is not a stall.
//!
//! Called by: `world`, once a second of virtual time.

use base::{Duration, Instant};

use super::look::{Look, story};
use crate::app::{Endpoint, Phase};
use crate::flow::Flow;
use crate::violation::Violation;

/// When one connection last made progress, and how far it had come.
#[derive(Clone, Copy, Debug)]
struct Last {
    progress: (u64, u64, u64),
    at: Instant,
}

/// The bound, and the last progress of each connection.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// When the network recovers. Before that there is no bound.
    from: Instant,
    bound: Duration,
    last: Vec<Last>,
}

impl Liveness {
    pub(crate) fn new(from: Instant, bound: Duration) -> Liveness {
        Liveness { from, bound, last: Vec::new() }
    }

    pub(crate) fn check(
        &mut self,
        flows: &[Flow],
        ends: &mut [Endpoint],
        now: Instant,
    ) -> Result<(), Violation> {
        self.last.resize(flows.len(), Last { progress: (0, 0, 0), at: self.from });
        for (flow, last) in flows.iter().zip(&mut self.last) {
            let (client, server) = (&ends[flow.client], &ends[flow.server]);
            let over = u64::from(client.is_ended()) + u64::from(server.is_ended());
            let steps = client.steps_done + server.steps_done + over;
            let progress = (client.written + server.written, client.read + server.read, steps);
            let is_asleep = client.is_asleep() || server.is_asleep();
            if over == 2 || is_asleep || progress != last.progress {
                *last = Last { progress, at: now.max(self.from) };
                continue;
            }
            if now.since(last.at) <= self.bound {
                continue;
            }
            if !flow.is_graceful && client.is_ended() && server.phase == Phase::Waiting {
                // The client ended before the handshake was done, so the server never gets this
                // connection.
                ends[flow.server].phase = Phase::Ended(None);
            } else {
                let silent = now.since(last.at).as_secs_f64();
                let what = format!(
                    "flow {}: nothing for {silent:.1} s; {}; {}",
                    flow.number,
                    story(client),
                    story(server)
                );
                return Err(Violation::new("liveness", what));
            }
        }
        Ok(())
    }
}

// The law about timers: data in flight has a deadline, time-outs are within their bounds, and no
// round trip is longer than the world's age.
//
// RFC 6298 sections 2.3 to 2.5.

/// The law about timers. It needs no state.
#[derive(Debug, Default)]
pub(crate) struct Timers;

impl Timers {
    pub(crate) fn check(&mut self, look: &Look<'_>) -> Result<(), Violation> {
        let info = &look.info;
        let fail =
            |what: String| Err(Violation::new("timers", format!("end {}: {what}", look.index)));
        if info.in_flight > 0 && look.stack.next_deadline() == Instant::NEVER {
            return fail(format!("{} bytes in flight and no deadline", info.in_flight));
        }
        let config = &look.end.config;
        if info.rto < config.rto_min.min(config.rto_max) || info.rto > config.rto_max {
            return fail(format!("a retransmission time-out of {} ms", info.rto.as_millis()));
        }
        if look.clock_is_true && info.srtt > look.now.since(Instant::ZERO) {
            return fail(format!(
                "a round trip of {} ms, older than the world",
                info.srtt.as_millis()
            ));
        }
        Ok(())
    }
}
