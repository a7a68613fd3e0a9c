//! Messages that a running router logs by itself: links that go down and come up, flows of rules
//! with `log`, rules on trial, a collector of flows that cannot be reached.
//!
//! Called by: `engine.rs` at each of its turns, under the stacks' locks. A port that goes down and
//! up between two turns is not reported; a link that flaps is reported at most once in [`AGAIN`]. A
//! port that stays down for another reason is reported again.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use crate::applied::Applied;
use base::{Duration, Instant};
use filter::firewall::Line;
use filter::{Firewall, Packet, ROUTER};
use stack::{PortId, Stack};

use super::report::{info, warning};

/// Time between two lines about one port, and about the collector.
const AGAIN: Duration = Duration::from_secs(1);

/// The last messages.
#[derive(Default)]
pub(super) struct Notices {
    ports: BTreeMap<String, Said>,
    collector: Option<(SocketAddr, Said)>,
    partner: Option<(SocketAddr, Said)>,
    /// Rules on trial run.
    on_trial: bool,
    /// Lines of the filter's log that its rate had left out.
    left_out: u64,
}

#[derive(Default)]
struct Said {
    /// Why nothing passes; `None`: it is up.
    trouble: Option<String>,
    at: Option<Instant>,
}

impl Notices {
    /// Log what the firewall has to say; returns when to look again.
    fn filter(&mut self, now: Instant, stacks: &mut [&mut Stack], applied: &Applied) -> Instant {
        let on_trial = stacks.first().is_some_and(|stack| applied.has_other_rules(stack));
        if on_trial != self.on_trial {
            self.on_trial = on_trial;
            let of = if on_trial { "other rules are on trial" } else { "its own rules run again" };
            info(&format!("filter: {of}"));
        }
        let (mut logs, mut left_out) = (false, 0);
        for stack in stacks.iter_mut() {
            while let Some(line) = stack.filter_mut().and_then(Firewall::next_line) {
                info(&of_flow(stack, &line));
            }
            let Some(firewall) = stack.filter() else { continue };
            logs |= firewall.published().rules.filter.iter().any(|rule| rule.log);
            left_out += firewall.lines_refused();
        }
        if left_out > self.left_out {
            let more = left_out - self.left_out;
            info(&format!("filter: {more} lines were left out (filter_log_per_second)"));
        }
        self.left_out = left_out;
        // Nothing wakes us for a line.
        if logs { now + AGAIN } else { Instant::NEVER }
    }

    /// Log whether the collector of flows is reached; returns when to look again.
    fn collector(&mut self, now: Instant, stacks: &[&mut Stack]) -> Instant {
        let exported = stacks.iter().find_map(|stack| stack.filter()?.exported());
        let Some(exported) = exported else {
            self.collector = None;
            return Instant::NEVER;
        };
        let (to, failure) = (exported.collector, exported.failure.clone());
        let before = self.collector.take().filter(|(collector, _)| *collector == to);
        let (_, said) = self.collector.insert(before.unwrap_or((to, Said::default())));
        match said.news(now, failure) {
            News::None => {}
            News::Later(at) => return at,
            News::Down(why) => warning(&format!("ipfix: {to} cannot be reached: {why}")),
            News::Up => info(&format!("ipfix: {to} can be reached again")),
        }
        Instant::NEVER
    }

    /// Log whether the partner is there; returns when to look again.
    fn partner(&mut self, now: Instant, stacks: &[&mut Stack]) -> Instant {
        let Some(paired) = stacks.iter().find_map(|stack| stack.filter()?.paired()) else {
            self.partner = None;
            return Instant::NEVER;
        };
        let (peer, failure) = (paired.peer, paired.failure.clone());
        let before = self.partner.take().filter(|(partner, _)| *partner == peer);
        // That it is there is news too.
        let unsaid = || (peer, Said { trouble: Some(String::new()), at: None });
        let (_, said) = self.partner.insert(before.unwrap_or_else(unsaid));
        if !paired.is_up && failure.is_none() {
            return Instant::NEVER;
        }
        match said.news(now, failure) {
            News::None => {}
            News::Later(at) => return at,
            News::Down(why) => warning(&format!("pair: {why}")),
            News::Up => info(&format!("pair: {peer} is there")),
        }
        Instant::NEVER
    }

    /// Log all news; returns when to look again even if nothing happens.
    pub(super) fn look(
        &mut self,
        now: Instant,
        stacks: &mut [&mut Stack],
        applied: &Applied,
    ) -> Instant {
        let mut again = self.filter(now, stacks, applied).min(self.collector(now, stacks));
        again = again.min(self.partner(now, stacks));
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

/// A line of the filter's log: the rule, the packet, and its fate.
fn of_flow(stack: &Stack, line: &Line) -> String {
    let firewall = stack.filter();
    let rule = line.rule.and_then(|at| {
        let rule = firewall?.published().rules.filter.get(usize::from(at))?;
        let label = rule.label.as_ref().map_or(String::new(), |label| format!(" ({label})"));
        Some(format!("rule {}{label}", u32::from(at) + 1))
    });
    let dev = |port| match port {
        ROUTER => "self".to_owned(),
        port => stack.port_name(PortId(port)),
    };
    let fate = line.outcome.map_or_else(|reason| reason.name(), |()| "pass");
    let Packet { in_port, out_port, .. } = line.packet;
    let (by, to) = (dev(in_port), dev(out_port));
    let rule = rule.unwrap_or_else(|| "default".to_owned());
    format!("filter: {rule}: {fate}: in {by} out {to} {}", line.packet)
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
