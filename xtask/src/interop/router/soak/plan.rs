//! Configurations at random: which networks have routes, by which link; a VLAN that comes and goes;
//! interrupt mitigation. And files that are not valid.
//!
//! Called by: `soak.rs`. A seed determines all of it.

use super::super::super::soaking::Random;
use super::super::links::SPARE;
use super::super::scene::{LAN, WAN};
use std::collections::BTreeSet;

/// Networks behind the host on the right: 10.20.0.0/24 and those after it.
pub(super) const NETS: u64 = 8;
/// Its addresses on both links.
const FIRST: &str = "198.51.100.2";
const SECOND: &str = "203.0.113.2";
/// A VLAN of the first port.
const GUESTS: &str = "[[port]]\nname = \"guests\"\nparent = \"lan\"\nvlan = 20\n\
                      addresses = \"100.64.0.1/24\"\n";
/// The networks of the ports.
const CONNECTED: [&str; 6] = [
    "192.0.2.0/24",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "2001:db8:1::/64",
    "2001:db8:2::/64",
    "2001:db8:3::/64",
];

/// How a network is reached.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum By {
    #[default]
    Nothing,
    First,
    Second,
    /// Both links share its packets.
    Both,
    /// By the second while the first is down.
    SpareSecond,
    /// By the first while the second is down.
    SpareFirst,
}

const ALL: [By; 6] =
    [By::Nothing, By::First, By::Second, By::Both, By::SpareSecond, By::SpareFirst];

impl By {
    /// Gateways with metrics.
    fn gateways(self) -> &'static [(&'static str, u32)] {
        match self {
            By::Nothing => &[],
            By::First => &[(FIRST, 0)],
            By::Second => &[(SECOND, 0)],
            By::Both => &[(FIRST, 0), (SECOND, 0)],
            By::SpareSecond => &[(FIRST, 0), (SECOND, 20)],
            By::SpareFirst => &[(FIRST, 20), (SECOND, 0)],
        }
    }
}

/// A configuration.
#[derive(Default)]
pub(super) struct Plan {
    by: [By; NETS as usize],
    has_guests: bool,
    mitigation: u64,
}

impl Plan {
    /// Change a few things in the configuration.
    pub(super) fn change(&mut self, random: &mut Random) {
        for _ in 0..=random.below(3) {
            self.by[random.below(NETS) as usize] = ALL[random.below(ALL.len() as u64) as usize];
        }
        if random.below(4) == 0 {
            self.has_guests = !self.has_guests;
        }
        if random.below(4) == 0 {
            self.mitigation = random.below(3);
        }
    }

    /// The file.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{WAN}mitigation = {}\n{LAN}{SPARE}", self.mitigation);
        if self.has_guests {
            text += GUESTS;
        }
        for (net, by) in self.by.iter().enumerate() {
            for (via, metric) in by.gateways() {
                text += &format!(
                    "[[route]]\nto = \"10.20.{net}.0/24\"\nvia = \"{via}\"\nmetric = {metric}\n"
                );
            }
        }
        text
    }

    /// A file that is not valid.
    pub(super) fn broken(&self, random: &mut Random) -> String {
        let text = self.text();
        match random.below(6) {
            0 => text + "mtuu = 9\n",
            1 => text + "[[port]\n",
            2 => text.replace("192.0.2.2/24", "192.0.2.999/24"),
            3 => text + "[[route]]\nto = \"10.30.0.0/16\"\nvia = \"10.99.0.1\"\n",
            4 => text.replace("tap:ws1", "tap:ws0"),
            // Cut off somewhere, and then nonsense.
            _ => {
                let at = random.below(text.len() as u64) as usize;
                let whole = text.floor_char_boundary(at);
                text[..whole].to_owned() + "\n= =\n"
            }
        }
    }

    /// Has a network a route that can be used?
    pub(super) fn leads(&self, net: u64, has_second: bool) -> bool {
        let gateways = self.by[net as usize].gateways();
        gateways.iter().any(|(via, _)| *via == FIRST || has_second)
    }

    /// All routes that the router has to have, a line each.
    pub(super) fn routes(&self) -> BTreeSet<String> {
        let guests = self.has_guests.then_some("100.64.0.0/24");
        let connected = CONNECTED.into_iter().chain(guests);
        let mut all: BTreeSet<String> =
            connected.map(|to| format!("{to} via - kernel metric 0 shared false")).collect();
        for (net, by) in self.by.iter().enumerate() {
            let gateways = by.gateways();
            let is_shared = gateways.len() > 1;
            let line = |&(via, metric): &(&str, u32)| {
                format!("10.20.{net}.0/24 via {via} static metric {metric} shared {is_shared}")
            };
            all.extend(gateways.iter().map(line));
        }
        all
    }
}
