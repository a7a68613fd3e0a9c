//! The pause between two questions to a program that is watched.
//!
//! Called by: `process`. Each question wakes the program, also when nothing passes its ports: the
//! longer nothing came, the rarer it is asked.

use std::time::{Duration, Instant};

/// The pause after a question that brought nothing, if packets came shortly before.
const SHORTEST: Duration = Duration::from_millis(10);

/// The pause when nothing has come for long. Packets are shown late by this time at most, and
/// packets that come meanwhile have to find room in the program's buffer.
const LONGEST: Duration = Duration::from_millis(250);

/// How long a pause is slept at a stretch: keys and Ctrl-C wait for no more than this.
const STRETCH: Duration = Duration::from_millis(50);

/// The pause between questions.
#[derive(Debug)]
pub(super) struct Pause {
    length: Duration,
    /// When the program is asked again.
    until: Option<Instant>,
}

impl Default for Pause {
    fn default() -> Pause {
        Pause { length: SHORTEST, until: None }
    }
}

impl Pause {
    /// The program was asked at `now`; did anything come? If so there may be more, and it is asked
    /// without a pause; if not, pauses get longer.
    pub(super) fn asked(&mut self, now: Instant, has_come: bool) {
        match has_come {
            true => *self = Pause::default(),
            false => {
                self.until = Some(now + self.length);
                self.length = (self.length * 2).min(LONGEST);
            }
        }
    }

    /// The rest of the pause, at most a stretch; `None` once it is time to ask.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(now);
        (!left.is_zero()).then(|| left.min(STRETCH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds until the next question, after one at `now`.
    fn pause_ms(pause: &mut Pause, now: &mut Instant, has_come: bool) -> u128 {
        pause.asked(*now, has_come);
        let begun = *now;
        while let Some(left) = pause.left(*now) {
            assert!(left <= STRETCH);
            *now += left;
        }
        (*now - begun).as_millis()
    }

    #[test]
    fn pauses_double_while_nothing_comes_and_are_short_at_once_when_something_does() {
        let (mut pause, mut now) = (Pause::default(), Instant::now());
        assert_eq!(pause.left(now), None);
        let mut idle = |count: usize| -> Vec<u128> {
            (0..count).map(|_| pause_ms(&mut pause, &mut now, false)).collect()
        };
        assert_eq!(idle(7), [10, 20, 40, 80, 160, 250, 250]);
        assert_eq!(pause_ms(&mut pause, &mut now, true), 0);
        assert_eq!(pause_ms(&mut pause, &mut now, false), 10);
        assert_eq!(pause_ms(&mut pause, &mut now, false), 20);
    }
}
