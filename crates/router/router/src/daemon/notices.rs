//! Messages that a running router logs by itself: links that go down and come up, and the first
//! super-segment that it could not forward, a result of a device's receive offloads.
//!
//! Called by: `engine.rs` at each of its turns, under the stacks' locks. A port that goes down and
//! up between two turns is not reported; a link that flaps is reported at most once in [`AGAIN`]. A
//! port that stays down for another reason is reported again.

use std::collections::BTreeMap;

use crate::applied::Applied;
use crate::config::{DeviceName, Kind, Link};
use base::{DropReason, Duration, Instant};
use stack::Stack;

use super::report::{info, warning};

/// Time between two lines about one port.
const AGAIN: Duration = Duration::from_secs(1);

/// The last messages.
#[derive(Default)]
pub(super) struct Notices {
    ports: BTreeMap<String, Said>,
    has_super_segment: bool,
}

#[derive(Default)]
struct Said {
    /// Why nothing passes; `None`: it is up.
    trouble: Option<String>,
    at: Option<Instant>,
}

impl Notices {
    /// Was a super-segment reported? Nothing wakes us when one is dropped.
    pub(super) fn has_super_segment(&self) -> bool {
        self.has_super_segment
    }

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
        let dropped = |stack: &&mut Stack| stack.drops().of(DropReason::IpSuperSegment) > 0;
        if !self.has_super_segment && stacks.iter().any(dropped) {
            self.has_super_segment = true;
            warning(&super_segment(applied));
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

/// The message, with the commands for the devices that may have received it.
fn super_segment(applied: &Applied) -> String {
    let command = |link: &Link| match link {
        Link::Device(DeviceName { kind: Kind::Packet | Kind::Xdp, name }) => {
            Some(format!("`ethtool -K {name} gro off lro off`"))
        }
        Link::Device(DeviceName { kind: Kind::Tap | Kind::Tun, name }) => {
            Some(format!("`ethtool -K {name} tso off gso off`"))
        }
        Link::Vlan { .. } => None,
    };
    let ports = applied.running().ports.values();
    let commands: Vec<String> = ports.filter_map(|port| command(&port.link)).collect();
    format!(
        "a super-segment came to be forwarded and was dropped (ip_super_segment): turn the \
         offloads off where it was made, for a veth at its other end: {}",
        commands.join(", ")
    )
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
