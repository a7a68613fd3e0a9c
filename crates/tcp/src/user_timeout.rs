//! The user timeout, and the option by which both ends agree on a longer one: RFC 9293 section
//! 3.8.3, RFC 5482.
//!
//! Called by: timer (how long to try), handshake and input (what the peer says), output (what we
//! say).

use base::Duration;
use wire::tcp::Options;

use crate::marks::Marks;
use crate::tcb::Tcb;

/// What a peer can bring about at least: R2 of RFC 1122 section 4.2.3.5, which RFC 5482 section 3.1
/// advises; and at most, so that it does not keep our memory for a month.
const LEAST: Duration = Duration::from_secs(100);
const MOST: Duration = Duration::from_secs(3600);

/// What our SYN says.
pub(crate) fn advertised_s(tcb: &Tcb) -> Option<u32> {
    let time = tcb.config.user_timeout_option?;
    u32::try_from(time.as_millis().div_ceil(1000)).ok().or(Some(u32::MAX))
}

/// What a segment of the peer's says counts from now on.
#[inline]
pub(crate) fn heard(tcb: &mut Tcb, options: &Options) {
    if let (Some(seconds), Some(_)) = (options.user_timeout_s, tcb.config.user_timeout_option) {
        tcb.rare.peer_timeout_s = seconds;
    }
}

/// The negotiated timeout, if there is one and the program has set no other.
fn agreed(tcb: &Tcb) -> Option<Duration> {
    let ours = tcb.config.user_timeout_option?;
    if tcb.rare.peer_timeout_s == 0 || tcb.config.user_timeout.is_some() {
        return None;
    }
    let theirs = Duration::from_secs(u64::from(tcb.rare.peer_timeout_s));
    Some(ours.max(theirs).max(LEAST).min(MOST))
}

/// How long data, a SYN or a window probe may stay unanswered; `None` leaves it to the counts of
/// tries.
pub(crate) fn of(tcb: &Tcb) -> Option<Duration> {
    tcb.config.user_timeout.or_else(|| agreed(tcb))
}

/// Tries in a row: as many as there is time for, where both ends have agreed on one; fewer when
/// no program waits for the result.
pub(crate) fn retries_max(tcb: &Tcb) -> u8 {
    let most = tcb.config.retries_max;
    if tcb.marks.has(Marks::ORPHAN) {
        most.min(tcb.config.orphan_retries_max)
    } else if agreed(tcb).is_some() {
        u8::MAX
    } else {
        most
    }
}
