//! Traffic between the hosts: a ping every 50 ms in both versions of IP, and how many were lost.
//!
//! Called by: `soak.rs`.

use anyhow::Result;

use super::super::network::Network;
use crate::interop::Workbench;
use crate::interop::host::Running;

/// Where the host on the left sends.
pub(super) const TARGETS: [&str; 2] = ["10.2.0.9", "2001:db8:2::9"];

/// Pings that run.
pub(super) struct Traffic<'a> {
    bench: &'a Workbench,
    _pings: [Running; 2],
}

impl<'a> Traffic<'a> {
    pub(super) fn begin(bench: &'a Workbench, network: &Network<'_>) -> Result<Traffic<'a>> {
        let start = |n: usize| {
            let host = network.place("h1")?;
            let mut ping = host.command("ping");
            // With -O the numbers of those without an answer are printed, too.
            host.start(&output(n), ping.args(["-n", "-O", "-i", "0.05", TARGETS[n]]))
        };
        Ok(Traffic { bench, _pings: [start(0)?, start(1)?] })
    }

    /// End it; returns lost and sent pings of each version.
    pub(super) fn end(self) -> [(u64, u64); 2] {
        let Traffic { bench, _pings } = self;
        drop(_pings);
        [0, 1].map(|n| {
            let path = bench.path(&format!("{}.out", output(n)));
            lost(&std::fs::read_to_string(path).unwrap_or_default())
        })
    }
}

fn output(n: usize) -> String {
    format!("traffic-{n}")
}

/// Lost and sent pings, by what ping printed.
fn lost(printed: &str) -> (u64, u64) {
    let number = |line: &str| -> Option<u64> {
        let (_, rest) = line.split_once("icmp_seq=")?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let sent = printed.lines().filter_map(number).max().unwrap_or(0);
    let answered = printed.lines().filter(|line| line.contains(" bytes from ")).count() as u64;
    (sent.saturating_sub(answered), sent)
}

#[cfg(test)]
mod tests {
    use super::lost;

    #[test]
    fn those_without_an_answer_are_counted() {
        let printed = "PING 10.2.0.9 (10.2.0.9) 56(84) bytes of data.\n\
                       64 bytes from 10.2.0.9: icmp_seq=1 ttl=61 time=1 ms\n\
                       no answer yet for icmp_seq=2\n\
                       From 10.1.0.1 icmp_seq=3 Destination Net Unreachable\n\
                       64 bytes from 10.2.0.9: icmp_seq=4 ttl=61 time=1 ms\n";
        assert_eq!(lost(printed), (2, 4));
        assert_eq!(lost(""), (0, 0));
    }
}
