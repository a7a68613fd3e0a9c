//! Messages that a running router logs by itself: links that go down and come up.
//!
//! Called by: `engine.rs` at each of its turns, under the stacks' locks. A port that goes down and
//! up between two turns is not reported; a link that flaps is reported at most once in [`AGAIN`]. A
//! port that stays down for another reason is reported again.

use std::collections::BTreeMap;

use crate::applied::Applied;
use base::{Duration, Instant};
use stack::Stack;

use super::report::{info, warning};

/// Time between two lines about one port.
const AGAIN: Duration = Duration::from_secs(1);

/// The last messages.
#[derive(Default)]
pub(super) struct Notices {
    ports: BTreeMap<String, Said>,
}

#[derive(Default)]
struct Said {
    /// Why nothing passes; `None`: it is up.
    trouble: Option<String>,
    at: Option<Instant>,
}

impl Notices {
    /// Log all news; returns when to look again even if nothing happens.
    pub(super) fn look(
        &mut self,
        now: Instant,
        stacks: &[&mut Stack],
        applied: &Applied,
    ) -> Instant {
        let mut again = Instant::NEVER;
        self.ports.retain(|name, _| applied.ports().contains_key(name));
        for (name, port) in applied.ports() {
            let trouble = stacks.iter().find_map(|stack| stack.port_trouble(port.id));
            let said = self.ports.entry(name.clone()).or_default();
            match said.news(now, trouble) {
                News::None => {}
                News::Later(at) => again = again.min(at),
                News::Down(why) => warning(&format!("port {name}: down: {why}")),
                News::Up => info(&format!("port {name}: up")),
            }
        }
        again
    }
}

enum News {
    None,
    Later(Instant),
    Down(String),
    Up,
}

impl Said {
    fn news(&mut self, now: Instant, trouble: Option<String>) -> News {
        if trouble == self.trouble {
            return News::None;
        }
        if let Some(at) = self.at.map(|at| at + AGAIN).filter(|&at| now < at) {
            return News::Later(at);
        }
        self.at = Some(now);
        self.trouble.clone_from(&trouble);
        trouble.map_or(News::Up, News::Down)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_flaps_is_said_once_a_second() {
        let mut said = Said::default();
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let down = || Some("no carrier".to_owned());
        assert!(matches!(said.news(at(5), None), News::None), "it begins up");
        assert!(matches!(said.news(at(10), down()), News::Down(why) if why == "no carrier"));
        assert!(matches!(said.news(at(20), None), News::Later(when) if when == at(1_010)));
        assert!(matches!(said.news(at(30), down()), News::None), "as was said");
        assert!(matches!(said.news(at(1_010), None), News::Up));
        assert!(matches!(said.news(at(1_500), down()), News::Later(_)));
    }

    /// An interface that is deleted goes down first, and may be seen in between.
    #[test]
    fn another_reason_is_said_too() {
        let mut said = Said::default();
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let trouble = |why: &str| Some(why.to_owned());
        assert!(matches!(said.news(at(10), trouble("is down")), News::Down(_)));
        assert!(matches!(said.news(at(11), trouble("is gone")), News::Later(_)));
        assert!(
            matches!(said.news(at(1_010), trouble("is gone")), News::Down(why) if why == "is gone")
        );
        assert!(matches!(said.news(at(3_000), trouble("is gone")), News::None));
    }
}
