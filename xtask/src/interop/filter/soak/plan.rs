//! Rules at random that always pass some ports, never pass another, and pass others at times; and
//! what was in force when.
//!
//! Called by: `soak.rs`. A seed determines all of it.

use std::time::SystemTime;

use crate::interop::soaking::Random;

/// The ports that rules pass at times: from this one on.
pub(super) const SOMETIMES: u16 = 8000;
pub(super) const MANY: u16 = 8;
/// The port that no rules pass.
pub(super) const NEVER: u16 = 9999;

/// The router: its port `wan` gets an address by DHCP.
const PORTS: &str = "\
[[port]]
name = \"lan\"
device = \"tap:ws0\"
addresses = [\"10.0.0.1/24\", \"fd00:1::1/64\"]
[[port]]
name = \"wan\"
device = \"tap:ws1\"
addresses = [\"dhcp\", \"2001:db8:2::1/64\"]
[[port]]
name = \"dmz\"
device = \"tap:ws2\"
addresses = [\"203.0.113.1/24\", \"2001:db8:3::1/64\"]
";

const NAT: &str = "
[nat]
rules = '''
source out {wan, dmz} from 10.0.0.0/8 to port
prefix out wan fd00:1::/48 to 2001:db8:f::/48
dest   in dmz to 203.0.113.1 tcp 7001 to 10.0.0.2:7001
dest   in dmz to 2001:db8:3::1 tcp 7001 to [fd00:1::2]:7001
'''
[sets]
peers = [\"198.51.100.0/24\", \"203.0.113.0/24\", \"2001:db8::/32\"]
";

/// The rules of a configuration.
#[derive(Default)]
pub(super) struct Plan {
    /// Of each port from [`SOMETIMES`] on, whether rules pass it.
    passes: [bool; MANY as usize],
    rules: Vec<String>,
}

impl Plan {
    pub(super) fn new(random: &mut Random) -> Plan {
        let mut plan = Plan::default();
        plan.change(random);
        plan
    }

    /// Choose other rules.
    pub(super) fn change(&mut self, random: &mut Random) {
        let steady = [
            "pass in lan {tcp, udp} 7000 label steady",
            "pass in lan out {wan, dmz} to @peers tcp 6990-7000 label steady",
            "pass in lan tcp 7000 from {10.0.0.0/24, fd00:1::/64}",
            "pass in lan tcp 7000 new 500/s per source states 5000 per source log",
        ];
        let inward = [
            "pass in dmz to {10.0.0.2, fd00:1::2} tcp 7001 label in",
            "pass in dmz out lan tcp 7001",
            "pass in dmz from @peers to 10.0.0.0/8 tcp 7001\npass in dmz to fd00:1::/64 tcp 7001",
        ];
        self.rules = vec![one_of(&steady, random).into(), one_of(&inward, random).into()];
        for (n, passes) in (SOMETIMES..).zip(&mut self.passes) {
            if random.below(3) == 0 {
                *passes = !*passes;
            }
            let words = match (*passes, random.below(3)) {
                (true, 0) => format!("pass in lan {{tcp, udp}} {n} label at-times"),
                (true, 1) => format!("pass in lan out {{wan, dmz}} to any port {n} {{tcp, udp}}"),
                (true, _) => format!("pass in lan to @peers {{tcp, udp}} {n} label n{n}"),
                (false, 0) => format!("block {{tcp, udp}} {n}"),
                (false, 1) => format!("reject in lan {{tcp, udp}} {n}"),
                (false, _) => continue,
            };
            self.rules.push(words);
        }
        for _ in 0..random.below(20) {
            let port = 20_000 + random.below(1_000);
            self.rules.push(format!("pass in dmz from 192.0.2.0/24 tcp {port}"));
        }
        // They are about different packets, so that any order means the same.
        for n in (1..self.rules.len()).rev() {
            self.rules.swap(n, random.below(n as u64 + 1) as usize);
        }
    }

    /// The file.
    pub(super) fn text(&self) -> String {
        format!("{PORTS}[filter]\nrules = '''\n{}\n'''\n{NAT}", self.rules.join("\n"))
    }

    /// A file that is not valid.
    pub(super) fn broken(random: &mut Random) -> String {
        let rules = match random.below(4) {
            0 => "pas in lan",
            1 => "pass in lan tcp 70000",
            2 => "pass in lna",
            _ => "pass from @nowhere",
        };
        format!("{PORTS}[filter]\nrules = '''\npass in lan\n{rules}\n'''\n{NAT}")
    }

    /// What holds from now on.
    pub(super) fn in_force(&self) -> Epoch {
        let now = SystemTime::now();
        Epoch { from: now, until: now, passes: self.passes, is_disturbed: false }
    }
}

fn one_of<'a>(texts: &[&'a str], random: &mut Random) -> &'a str {
    texts[random.below(texts.len() as u64) as usize]
}

/// A time in which the same rules were in force.
pub(super) struct Epoch {
    pub(super) from: SystemTime,
    pub(super) until: SystemTime,
    passes: [bool; MANY as usize],
    /// A link was down or had no address.
    pub(super) is_disturbed: bool,
}

impl Epoch {
    /// Did rules pass this port?
    pub(super) fn passes(&self, port: u16) -> bool {
        let n = usize::from(port.wrapping_sub(SOMETIMES));
        self.passes.get(n).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_pass_what_the_plan_says_whatever_the_seed() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut plan = Plan::new(&mut random);
            plan.change(&mut random);
            let (text, epoch) = (plan.text(), plan.in_force());
            for port in SOMETIMES..SOMETIMES + MANY {
                let of_port = |line: &&str| line.contains(&port.to_string());
                let pass = text.lines().filter(of_port).any(|line| line.starts_with("pass"));
                assert_eq!(pass, epoch.passes(port), "{port}: {text}");
            }
            assert!(text.contains("7000") && text.contains("7001") && !text.contains("9999"));
        }
    }
}
