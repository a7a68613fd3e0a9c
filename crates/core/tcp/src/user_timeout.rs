//! The user timeout and its TCP option: RFC 9293 section 3.8.3, RFC 5482.
//!
//! Called by: timer (how long to retry), handshake and input (the peer's option), output (our
//! option).

use base::Duration;
use wire::tcp::Options;

use crate::marks::Marks;
use crate::tcb::Tcb;

/// Bounds of a timeout that the peer influences. The minimum is R2 of RFC 1122 section 4.2.3.5, as
/// RFC 5482 section 3.1 advises; the maximum keeps the peer from holding our memory for long.
const LEAST: Duration = Duration::from_secs(100);
const MOST: Duration = Duration::from_secs(3600);

/// The value of our SYN's option, in seconds.
pub(crate) fn advertised_s(tcb: &Tcb) -> Option<u32> {
    let time = tcb.config.user_timeout_option?;
    u32::try_from(time.as_millis().div_ceil(1000)).ok().or(Some(u32::MAX))
}

/// Note the user timeout option of a received segment.
#[inline]
pub(crate) fn heard(tcb: &mut Tcb, options: &Options) {
    if let (Some(seconds), Some(_)) = (options.user_timeout_s, tcb.config.user_timeout_option) {
        tcb.rare.peer_timeout_s = seconds;
    }
}

/// The negotiated timeout, if there is one and the user has not set another.
fn agreed(tcb: &Tcb) -> Option<Duration> {
    let ours = tcb.config.user_timeout_option?;
    if tcb.rare.peer_timeout_s == 0 || tcb.config.user_timeout.is_some() {
        return None;
    }
    let theirs = Duration::from_secs(u64::from(tcb.rare.peer_timeout_s));
    Some(ours.max(theirs).max(LEAST).min(MOST))
}

/// How long data, a SYN or a window probe may stay unanswered; `None` if only the counts of retries
/// limit that.
pub(crate) fn of(tcb: &Tcb) -> Option<Duration> {
    tcb.config.user_timeout.or_else(|| agreed(tcb))
}

/// The maximum of consecutive retries. With a negotiated timeout, only time limits them; for an
/// orphan the maximum is lower.
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
