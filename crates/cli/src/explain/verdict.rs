//! What many looks at a connection say together.
//!
//! Called by: `run.rs`; `report.rs` puts it into words.

use super::look::{Limit, Look};

/// The fewest looks that allow a verdict.
pub(super) const LOOKS_LEAST: usize = 8;
/// The part of the looks that a limit needs to be the answer.
const MOST: f64 = 0.5;

/// Looks at a connection, and what they say.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    /// What most looks say; `None` if none has half of them.
    pub(super) limit: Option<Limit>,
    /// Does it mainly send?
    pub(super) sends: bool,
    /// Each limit that was seen, with its part of the looks, the largest first.
    pub(super) shares: Vec<(Limit, f64)>,
    /// Nothing moved, and nothing waits.
    pub(super) is_idle: bool,
    pub(super) looks: usize,
    pub(super) seconds: f64,
    pub(super) moved_bytes: u64,
    pub(super) retransmits: u64,
    pub(super) timeouts: u64,
    /// The part of the looks that saw a repair.
    pub(super) repairing: f64,
    /// The smallest window of the peer in the second half, when it has grown as far as it does, and
    /// the largest.
    pub(super) window: (u64, u64),
    /// Figures of the middle: the median of each.
    pub(super) usual: Look,
    pub(super) last: Look,
}

impl Verdict {
    /// Of looks over so many seconds; `None` without any.
    pub(super) fn of(looks: &[Look], seconds: f64) -> Option<Verdict> {
        let (first, last) = (looks.first()?, looks.last()?);
        let sent = last.acked.saturating_sub(first.acked);
        let received = last.received.saturating_sub(first.received);
        let waits = |of: &dyn Fn(&Look) -> u64| looks.iter().any(|look| of(look) > 0);
        let has_output = waits(&|look| look.unsent + look.in_flight);
        let sends =
            if sent + received > 0 { sent >= received } else { !waits(&|look| look.unread) };
        let is_idle = sent + received == 0 && !has_output && !waits(&|look| look.unread);
        let shares = shares(looks, sends);
        let is_enough = looks.len() >= LOOKS_LEAST && !is_idle;
        let limit = shares.first().filter(|(_, share)| is_enough && *share >= MOST);
        let repairing = looks.iter().filter(|look| look.recovers).count();
        let windows = |of: &[Look]| of.iter().map(|look| look.snd_wnd).collect::<Vec<_>>();
        let (late, all) = (windows(&looks[looks.len() / 2..]), windows(looks));
        Some(Verdict {
            limit: limit.map(|&(limit, _)| limit),
            sends,
            is_idle,
            looks: looks.len(),
            seconds,
            moved_bytes: if sends { sent } else { received },
            retransmits: last.retransmits.saturating_sub(first.retransmits),
            timeouts: last.timeouts.saturating_sub(first.timeouts),
            repairing: repairing as f64 / looks.len() as f64,
            window: (late.into_iter().min().unwrap_or(0), all.into_iter().max().unwrap_or(0)),
            usual: usual(looks, last),
            last: last.clone(),
            shares,
        })
    }

    /// Bytes a second in the direction that moves.
    pub(super) fn bytes_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.moved_bytes as f64 / self.seconds } else { 0.0 }
    }
}

fn shares(looks: &[Look], sends: bool) -> Vec<(Limit, f64)> {
    let of = |look: &Look| if sends { look.of_sending() } else { look.of_receiving() };
    let share = |limit| {
        let count = looks.iter().filter(|look| of(look) == limit).count();
        (limit, count as f64 / looks.len() as f64)
    };
    let mut all: Vec<_> = Limit::ALL.into_iter().map(share).filter(|&(_, s)| s > 0.0).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all
}

fn usual(looks: &[Look], last: &Look) -> Look {
    let median = |of: &dyn Fn(&Look) -> u64| {
        let mut all: Vec<u64> = looks.iter().map(of).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    Look {
        cwnd: median(&|look| look.cwnd),
        snd_wnd: median(&|look| look.snd_wnd),
        rcv_wnd: median(&|look| look.rcv_wnd),
        in_flight: median(&|look| look.in_flight),
        unsent: median(&|look| look.unsent),
        unread: median(&|look| look.unread),
        rtt_us: median(&|look| look.rtt_us),
        min_rtt_us: median(&|look| look.min_rtt_us),
        ..last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(n: u64, unsent: u64) -> Look {
        Look {
            mss: 1000,
            rcv_mss: 1000,
            cwnd: 10_000,
            snd_wnd: 60_000,
            rcv_wnd: 60_000,
            in_flight: 10_000,
            pipe: 10_000,
            unsent,
            send_buffer: 100_000,
            receive_buffer: 60_000,
            acked: n * 500,
            ..Look::default()
        }
    }

    #[test]
    fn half_of_the_looks_make_a_verdict() {
        let looks = |congested: u64, of: u64| -> Vec<Look> {
            (0..of).map(|n| look(n, if n < congested { 9000 } else { 0 })).collect()
        };
        let verdict = |congested, of| Verdict::of(&looks(congested, of), 1.0).expect("looks");
        assert_eq!(verdict(9, 10).limit, Some(Limit::CongestionWindow));
        assert_eq!(verdict(9, 10).shares[1], (Limit::Application, 0.1));
        assert_eq!(verdict(1, 10).limit, Some(Limit::Application));
        assert_eq!(verdict(5, 5).limit, None, "too few looks");
        let mut mixed = looks(4, 12);
        mixed.iter_mut().skip(4).take(4).for_each(|look| {
            (look.unsent, look.cwnd, look.waits_for_pacing) = (9000, 90_000, true);
        });
        let verdict = Verdict::of(&mixed, 1.0).expect("looks");
        assert_eq!((verdict.limit, verdict.shares.len()), (None, 3));
    }

    #[test]
    fn a_connection_on_which_nothing_moves_is_idle() {
        let still = Look { in_flight: 0, pipe: 0, ..look(0, 0) };
        let verdict = Verdict::of(&vec![still.clone(); 20], 1.0).expect("looks");
        assert!(verdict.is_idle && verdict.limit.is_none());
        // What waits to be read is held by its reader.
        let unread = Look { unread: 59_000, rcv_wnd: 0, ..still };
        let verdict = Verdict::of(&vec![unread; 20], 1.0).expect("looks");
        assert_eq!((verdict.is_idle, verdict.limit), (false, Some(Limit::OurReader)));
        assert!(Verdict::of(&[], 1.0).is_none());
    }
}
