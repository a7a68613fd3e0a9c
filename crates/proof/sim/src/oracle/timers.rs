//! Timers are sane: data in flight has a deadline, time-outs are within their bounds, no round trip
//! is shorter than the path.
//!
//! Called by: the oracles, after each step of a host. RFC 6298 sections 2.3 to 2.5.

use base::Instant;

use super::look::Look;
use crate::violation::Violation;

/// No state so far.
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
