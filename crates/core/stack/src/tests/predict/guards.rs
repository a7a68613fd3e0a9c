//! The guards of `tcp::predict::matches` one by one, so that a test can report which of them
//! refused. They are written from RFC 9293 and from the slow path, not from the predicate.

use tcp::Marks;
use tcp::{State, Tcb};
use wire::tcp::Flags;

use crate::tests::craft::Tcp;

/// Every guard, in the order of [`refusals`].
pub(super) const GUARDS: [&str; 20] = [
    "ESTABLISHED",
    "no SYN",
    "no FIN",
    "no RST",
    "no URG",
    "an ACK",
    "no other option",
    "timestamp not old",
    "timestamp not missing",
    "seq is rcv_nxt",
    "ack not behind snd_una",
    "ack not past snd_nxt",
    "not a duplicate ACK",
    "fits the window",
    "somebody reads: no orphan",
    "somebody reads: not shut",
    "the window was not shut",
    "nothing is being repaired",
    "neither ECE nor CWR",
    "not marked",
];

/// Which guards refuse `segment`? `ce`: whether a router marked it.
pub(super) fn refusals(tcb: &Tcb, segment: &Tcp, ce: bool) -> [bool; GUARDS.len()] {
    let has = |flag: Flags| segment.flags.contains(flag);
    let agreed = tcb.marks.has(Marks::TIMESTAMPS);
    let timestamps = wire::tcp::timestamps_only(&segment.options);
    let len = segment.payload.len() as u32;
    let age = timestamps.map_or(0, |ts| ts.value.wrapping_sub(tcb.ts_recent) as i32);
    [
        tcb.state != State::Established,
        has(Flags::SYN),
        has(Flags::FIN),
        has(Flags::RST),
        has(Flags::URG),
        !has(Flags::ACK),
        timestamps.is_none() && !segment.options.is_empty(),
        agreed && age < 0,
        agreed && segment.options.is_empty(),
        segment.seq != tcb.rcv_nxt,
        segment.ack.lt(tcb.snd_una),
        segment.ack.gt(tcb.snd_nxt),
        segment.ack == tcb.snd_una
            && len == 0
            && tcb.snd_nxt != tcb.snd_una
            && (tcb.snd_wscale.unscale(segment.window) == tcb.snd_wnd
                || tcb.snd_wl1.gt(segment.seq)),
        len > tcb.rcv_wnd(),
        tcb.marks.has(Marks::ORPHAN),
        tcb.marks.has(Marks::SHUT_READ),
        tcb.snd_wnd == 0,
        tcb.in_trouble(),
        segment.flags.intersects(Flags::ECE | Flags::CWR),
        ce,
    ]
}
