//! The laws about windows: a receiver never withdraws a window that it has offered, and a sender
//! never exceeds it. Each law is checked for the segments that a host sends, when they leave the
//! host.
//!
//! Called by: the oracles, with each segment that a host sends, and with each segment that arrives
//! as it was sent. RFC 9293 section 3.8.6. With window scaling the right edge may move back by less
//! than a unit (RFC 7323 section 2.4, decision 0012).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use base::{SeqNumber, WindowScale};
use wire::tcp::Flags;

use crate::seen::Seen;
use crate::violation::Violation;

/// The windows that one end of a connection has offered.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// The window scale from the end's SYN.
    offered_scale: Option<WindowScale>,
    /// The highest right edge that this end has offered.
    edge: Option<SeqNumber>,
    /// The highest right edge whose offer has arrived at the other end.
    arrived_edge: Option<SeqNumber>,
}

/// The windows that each end of each connection offered, by source and destination.
#[derive(Debug, Default)]
pub(crate) struct Window {
    sides: BTreeMap<(SocketAddr, SocketAddr), Side>,
}

impl Window {
    pub(crate) fn sent(&mut self, seen: &Seen) -> Result<(), Violation> {
        self.within_offer(seen)?;
        self.reported(seen);
        let Some((edge, unit)) = self.edge(seen) else { return Ok(()) };
        let side = self.sides.entry((seen.src, seen.dst)).or_default();
        // The window of a SYN is not scaled. A SYN-ACK that is sent again after an ACK of the same
        // end (the answer to a keep-alive probe, say) cannot repeat what the ACK offered, and
        // withdraws nothing: a peer with a synchronised connection does not use the window of a SYN
        // (RFC 9293 section 3.10.7.4).
        let is_repeated_syn = seen.flags.contains(Flags::SYN) && side.edge.is_some();
        if !is_repeated_syn
            && let Some(last) = side.edge
            && (edge + (unit - 1)).lt(last)
        {
            let by = last.since(edge);
            let what = format!("the right edge falls back by {by} bytes (unit {unit}): {seen}");
            return Err(Violation::new("window", what));
        }
        side.edge = Some(side.edge.map_or(edge, |last| last.max(edge)));
        Ok(())
    }

    /// Record a segment of an adversary without checking it.
    pub(crate) fn reported(&mut self, seen: &Seen) {
        if seen.flags.contains(Flags::SYN) {
            let side = self.sides.entry((seen.src, seen.dst)).or_default();
            side.offered_scale = seen.window_scale;
        }
    }

    pub(crate) fn arrived(&mut self, seen: &Seen) {
        let Some((edge, _)) = self.edge(seen) else { return };
        let side = self.sides.entry((seen.src, seen.dst)).or_default();
        side.arrived_edge = Some(side.arrived_edge.map_or(edge, |last| last.max(edge)));
    }

    /// The right edge that a segment offers, and the unit of its window field in bytes.
    fn edge(&self, seen: &Seen) -> Option<(SeqNumber, u32)> {
        if !seen.flags.contains(Flags::ACK) || seen.flags.contains(Flags::RST) {
            return None;
        }
        // The field is scaled if both SYNs had the option, and never in a SYN itself (RFC 7323
        // section 2.2).
        let scale =
            |src, dst| self.sides.get(&(src, dst)).and_then(|side: &Side| side.offered_scale);
        let scale = match (scale(seen.src, seen.dst), scale(seen.dst, seen.src)) {
            (Some(ours), Some(_)) if !seen.flags.contains(Flags::SYN) => ours,
            _ => WindowScale::default(),
        };
        Some((seen.ack + scale.unscale(seen.window), 1 << scale.shift()))
    }

    fn within_offer(&self, seen: &Seen) -> Result<(), Violation> {
        if seen.len == 0 {
            return Ok(());
        }
        let other = self.sides.get(&(seen.dst, seen.src));
        let Some(edge) = other.and_then(|side| side.arrived_edge) else {
            let what = format!("data before any window was offered: {seen}");
            return Err(Violation::new("window", what));
        };
        let end = seen.seq + seen.len;
        if end.gt(edge) {
            let what = format!("{} bytes beyond what was offered: {seen}", end.since(edge));
            return Err(Violation::new("window", what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::tcp::SackBlocks;

    fn seen(from: u16, to: u16, flags: Flags) -> Seen {
        let at = |port| SocketAddr::from(([10, 0, 0, 1], port));
        Seen {
            src: at(from),
            dst: at(to),
            seq: SeqNumber(100),
            ack: SeqNumber(1000),
            flags,
            window: 500,
            len: 0,
            window_scale: None,
            sack: SackBlocks::default(),
            timestamps: None,
        }
    }

    #[test]
    fn an_edge_that_falls_back_is_found() {
        let mut window = Window::default();
        window.sent(&seen(1, 2, Flags::ACK)).expect("the first offer");
        let less = Seen { window: 499, ..seen(1, 2, Flags::ACK) };
        assert!(window.sent(&less).is_err());
        let moved = Seen { ack: SeqNumber(1001), ..less };
        window.sent(&moved).expect("the same edge");
    }

    #[test]
    fn with_a_scale_it_may_fall_back_by_less_than_a_unit() {
        let mut window = Window::default();
        let scale = Some(WindowScale::new(3));
        for (from, to) in [(1, 2), (2, 1)] {
            let syn = Seen { window_scale: scale, ..seen(from, to, Flags::SYN) };
            window.sent(&syn).expect("a SYN");
        }
        window.sent(&seen(1, 2, Flags::ACK)).expect("4,000 bytes from 1,000");
        let fell =
            |by: u32| Seen { ack: SeqNumber(1008 - by), window: 499, ..seen(1, 2, Flags::ACK) };
        window.sent(&fell(7)).expect("rounding");
        assert!(window.sent(&fell(8)).is_err());
    }

    #[test]
    fn a_repeated_syn_withdraws_nothing() {
        let mut window = Window::default();
        let scale = Some(WindowScale::new(3));
        let both = Flags::SYN | Flags::ACK;
        let (syn, syn_ack) = (
            Seen { window_scale: scale, ..seen(2, 1, Flags::SYN) },
            Seen { window_scale: scale, ..seen(1, 2, both) },
        );
        window.sent(&syn).expect("a SYN");
        window.sent(&syn_ack).expect("its answer");
        window.sent(&seen(1, 2, Flags::ACK)).expect("eight times as much");
        window.sent(&syn_ack).expect("the same again");
        assert!(window.sent(&Seen { window: 499, ..seen(1, 2, Flags::ACK) }).is_err());
    }

    #[test]
    fn data_beyond_what_arrived_is_found() {
        let mut window = Window::default();
        window.sent(&seen(2, 1, Flags::ACK)).expect("an offer, on its way");
        let data = Seen { seq: SeqNumber(1000), len: 500, ..seen(1, 2, Flags::ACK) };
        assert!(window.sent(&data).is_err(), "nothing has arrived");
        window.arrived(&seen(2, 1, Flags::ACK));
        window.sent(&data).expect("just what was offered");
        assert!(window.sent(&Seen { len: 501, ..data }).is_err());
    }
}
