//! The events that are sampled of a thread.
//!
//! Called by: the whole crate, and tools that show samples.

/// An event that is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time on the processor, in ns.
    Time,
    /// Cycles of the processor.
    Cycles,
    /// Instructions.
    Instructions,
    /// Cycles in which the processor did nothing, for example because it waited for memory.
    Stalled,
}

impl Event {
    /// All events; their indices are those of arrays of figures.
    pub const ALL: [Event; 4] = [Event::Time, Event::Cycles, Event::Instructions, Event::Stalled];

    /// The name in JSON documents.
    pub const fn name(self) -> &'static str {
        match self {
            Event::Time => "ns",
            Event::Cycles => "cycles",
            Event::Instructions => "instructions",
            Event::Stalled => "stalled_cycles",
        }
    }
}

/// A mean, with half the width of its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// Half the width of its interval.
    pub off: f64,
}

impl Mean {
    /// Is this mean larger than `other` by more than the combined half widths of the intervals?
    pub fn exceeds(self, other: Mean) -> bool {
        self.value - other.value > self.off.hypot(other.off)
    }
}

/// The largest candidate, followed by those that may be as large according to their intervals.
pub fn largest<T: Copy>(candidates: &[(T, Mean)]) -> Vec<T> {
    let mut sorted = candidates.to_vec();
    sorted.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    let Some(&(_, first)) = sorted.first() else { return Vec::new() };
    sorted.retain(|(_, mean)| mean.value > 0.0 && !first.exceeds(*mean));
    sorted.into_iter().map(|(candidate, _)| candidate).collect()
}

/// A bar for a share of up to 1, which is 20 characters long at most.
pub fn bar(share: f64) -> String {
    "#".repeat((share.clamp(0.0, 1.0) * 20.0).round() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_intervals_leave_open_is_not_concluded() {
        let mean = |value, off| Mean { value, off };
        let of = |list: &[(char, Mean)]| largest(list).into_iter().collect::<String>();
        assert_eq!(of(&[('a', mean(10.0, 1.0)), ('b', mean(20.0, 1.0))]), "b");
        assert_eq!(of(&[('a', mean(19.0, 1.0)), ('b', mean(20.0, 1.0))]), "ba");
        assert_eq!(of(&[('a', mean(1.0, f64::INFINITY)), ('b', mean(20.0, 1.0))]), "ba");
        assert_eq!(of(&[('a', mean(0.0, 0.0)), ('b', mean(0.0, 0.0))]), "");
        assert_eq!(of(&[]), "");
    }
}
