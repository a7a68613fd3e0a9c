//! Statistics of the looks at a connection: differences, medians, shares.
//!
//! Called by: `verdict`. This module only computes; `verdict` decides.

use crate::limit::Held;
use crate::look::Look;

/// Looks at one connection, in order; at least one.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) looks: &'a [Look],
    pub(crate) first: &'a Look,
    pub(crate) last: &'a Look,
}

impl<'a> Evidence<'a> {
    pub(crate) fn of(looks: &'a [Look]) -> Option<Evidence<'a>> {
        Some(Evidence { looks, first: looks.first()?, last: looks.last()? })
    }

    /// The time from the first look to the last, in microseconds.
    pub(crate) fn length_us(&self) -> u64 {
        self.last.at_us.saturating_sub(self.first.at_us)
    }

    /// By how much a count grew from the first look to the last.
    pub(crate) fn grew(&self, of: impl Fn(&Look) -> u64) -> u64 {
        of(self.last).saturating_sub(of(self.first))
    }

    /// Is the condition true in any look?
    pub(crate) fn any(&self, is_so: impl Fn(&Look) -> bool) -> bool {
        self.looks.iter().any(is_so)
    }

    /// The share of the looks in which the condition is true.
    pub(crate) fn share(&self, is_so: impl Fn(&Look) -> bool) -> f64 {
        self.looks.iter().filter(|look| is_so(look)).count() as f64 / self.looks.len() as f64
    }

    /// The median of a figure.
    pub(crate) fn median(&self, of: impl Fn(&Look) -> u64) -> u64 {
        let mut all: Vec<u64> = self.looks.iter().map(of).collect();
        all.sort_unstable();
        all[all.len() / 2]
    }

    /// The share of the times between two looks in which a count grew.
    pub(crate) fn intervals(&self, of: impl Fn(&Look) -> u64) -> f64 {
        let grew = self.looks.windows(2).filter(|pair| of(&pair[1]) > of(&pair[0])).count();
        grew as f64 / self.looks.len().saturating_sub(1).max(1) as f64
    }

    /// The value that a tenth of the looks do not exceed.
    pub(crate) fn low(&self, of: impl Fn(&Look) -> u64) -> u64 {
        let mut all: Vec<u64> = self.looks.iter().map(of).collect();
        all.sort_unstable();
        all[all.len() / 10]
    }

    /// How unevenly losses come: the standard deviation of the amount of data that is acknowledged
    /// from one recovery episode to the next, divided by its mean. 0 is perfectly regular, about 1
    /// is random. `None` if there are fewer than five episodes, because their gaps are often even
    /// by chance.
    pub(crate) fn unevenness(&self) -> Option<f64> {
        let mut places = Vec::new();
        for pair in self.looks.windows(2) {
            let count = pair[1].episodes().saturating_sub(pair[0].episodes());
            let acked = pair[1].acked.saturating_sub(pair[0].acked) as f64;
            // The looks do not say where between them the losses came: the losses are spread
            // evenly.
            let place = |n| pair[0].acked as f64 + acked * n as f64 / (count + 1) as f64;
            places.extend((1..=count).map(place));
        }
        let gaps: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (gaps.len() >= 4 && mean > 0.0).then(|| square.sqrt() / mean)
    }

    /// The second half of the looks.
    pub(crate) fn late(&self) -> Evidence<'a> {
        let looks = &self.looks[self.looks.len() / 2..];
        Evidence { looks, first: looks.first().unwrap_or(self.first), last: self.last }
    }

    /// The share of a core that the stack's thread used; `None` if it was not measured.
    pub(crate) fn cpu(&self) -> Option<f64> {
        let used = self.last.cpu_us?.saturating_sub(self.first.cpu_us?);
        (self.length_us() > 0).then(|| used as f64 / self.length_us() as f64)
    }

    /// The share of the looks with each cause, the most frequent cause first.
    pub(crate) fn held(&self, sends: bool) -> Vec<(Held, f64)> {
        let of = |look: &Look| if sends { look.of_sending() } else { look.of_receiving() };
        let share = |held| (held, self.share(|look| of(look) == held));
        let mut all: Vec<_> = Held::ALL.into_iter().map(share).filter(|&(_, s)| s > 0.0).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all
    }

    /// The peer's smallest window in the second half of the looks, when it has finished growing,
    /// and its largest window in all looks.
    pub(crate) fn window(&self) -> (u64, u64) {
        let least = self.late().looks.iter().map(|look| look.snd_wnd).min();
        let most = self.looks.iter().map(|look| look.snd_wnd).max();
        (least.unwrap_or(0), most.unwrap_or(0))
    }

    /// The last look, with the median of each figure that varies.
    pub(crate) fn usual(&self) -> Look {
        Look {
            cwnd: self.median(|look| look.cwnd),
            snd_wnd: self.median(|look| look.snd_wnd),
            rcv_wnd: self.median(|look| look.rcv_wnd),
            in_flight: self.median(|look| look.in_flight),
            unsent: self.median(|look| look.unsent),
            unread: self.median(|look| look.unread),
            rtt_us: self.median(|look| look.rtt_us),
            min_rtt_us: self.median(|look| look.min_rtt_us),
            ..self.last.clone()
        }
    }
}
