//! What the gateway knows beyond the stack, for `show`, `top` and `explain`: the host's sockets of
//! its flows, its counters, its limits.
//!
//! Called by: `turns.rs`, when somebody asks.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::net::SocketAddr;

use base::{Drops, Instant, Limit};
use control::protocol::{Limited, Outer};
use observe::Beyond;
use outside::{Host, HostGateway, Relay, Tcp, TcpInfo};
use policy::Fence;

use super::log::LogCounts;

/// The parts of a gateway whose counters are shown, and how the names of each begin.
const ENGINE: &str = "gateway";
const OUTSIDE: &str = "outside";
const RELAY: &str = "relay";
const POLICY: &str = "policy";
const LOG: &str = "log";

/// The ends of a connection on the stack: local, remote.
type Pair = (SocketAddr, SocketAddr);

/// A gateway, while it answers.
pub(super) struct Beside<'a> {
    engine: &'a HostGateway,
    host: &'a Host,
    relay: &'a Relay,
    fence: &'a Fence,
    log: LogCounts,
    now: Instant,
    /// The sockets of all flows, found at the first question for one.
    sockets: OnceCell<HashMap<Pair, &'a Tcp>>,
}

impl<'a> Beside<'a> {
    pub(super) fn of(
        engine: &'a HostGateway,
        (host, relay): (&'a Host, &'a Relay),
        fence: &'a Fence,
        log: LogCounts,
        now: Instant,
    ) -> Beside<'a> {
        Beside { engine, host, relay, fence, log, now, sockets: OnceCell::new() }
    }

    fn sockets(&self) -> &HashMap<Pair, &'a Tcp> {
        self.sockets.get_or_init(|| {
            let flows = self.engine.flows(self.now).filter(|flow| flow.handle.is_some());
            flows
                .filter_map(|flow| Some(((flow.ends.remote, flow.ends.guest), flow.outer?.host()?)))
                .collect()
        })
    }
}

impl Beyond for Beside<'_> {
    fn outer(&self, local: SocketAddr, remote: SocketAddr) -> Option<Outer> {
        self.sockets().get(&(local, remote))?.info().map(|info| outer(&info))
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let named = |part: &'static str| {
            move |(name, count): (&'static str, u64)| (format!("{part}_{name}"), count)
        };
        let fence = self.fence.counts().rows().chain([("lines_lost", self.fence.lost_lines())]);
        self.engine
            .rows()
            .map(named(ENGINE))
            .chain(self.host.counts().rows().map(named(OUTSIDE)))
            .chain(self.relay.counts().rows().map(named(RELAY)))
            .chain(fence.map(named(POLICY)))
            .chain(self.log.rows().map(named(LOG)))
            .collect()
    }

    fn drops(&self) -> Option<&Drops> {
        self.engine.name_drops()
    }

    fn limit(&self, limit: Limit) -> Option<Limited> {
        let of = match limit {
            Limit::GatewayPins => self.fence.budget(),
            Limit::DnsInFlight => self.engine.budget(),
            _ if limit.name().starts_with("gateway_") => self.engine.budget(),
            _ => return None,
        };
        Some(Limited { value: of.of(limit) as u64, hits: of.hits(limit) })
    }
}

fn outer(info: &TcpInfo) -> Outer {
    let text = |address: Option<SocketAddr>| address.map_or(String::new(), |at| at.to_string());
    Outer {
        local: text(info.local),
        remote: text(info.remote),
        state: info.state.to_owned(),
        rtt_us: info.rtt_us.into(),
        rttvar_us: info.rttvar_us.into(),
        min_rtt_us: info.min_rtt_us.into(),
        rto_us: info.rto_us.into(),
        backoff: info.backoff.into(),
        mss: info.snd_mss.into(),
        rcv_mss: info.rcv_mss.into(),
        cwnd: info.cwnd.into(),
        ssthresh: info.ssthresh.map(u64::from),
        unacked: info.unacked.into(),
        lost: info.lost.into(),
        retransmits: info.retransmits.into(),
        unsent: info.unsent.into(),
        rcv_rtt_us: info.rcv_rtt_us.into(),
        rcv_space: info.rcv_space.into(),
        pacing_bytes_per_s: info.pacing_rate,
        delivery_bytes_per_s: info.delivery_rate,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
        busy_us: info.busy_us,
        rwnd_limited_us: info.rwnd_limited_us,
        sndbuf_limited_us: info.sndbuf_limited_us,
    }
}

#[cfg(test)]
mod tests {
    use ::gateway::Gateway;

    use super::*;

    const HEADING: &str = "\n## Counters of a gateway\n";

    /// The part of docs/counters.md about gateways.
    fn document() -> String {
        let mut text = format!(
            "{HEADING}\n`wirespeed netns` and `wirespeed gateway` have these, too; names begin \
             with the part that counts. This table is made\nfrom the crates of the gateway \
             (`WRITE_DOCS=1 cargo test -p wirespeed-machine counters_md`).\n\n\
             | name | what is counted |\n|---|---|\n"
        );
        let lost = ("lines_lost", "Lines of the log for which there was no room in memory.");
        let parts: [(&str, Vec<(&str, &str)>); 5] = [
            (ENGINE, Gateway::<(), ()>::meanings().collect()),
            (OUTSIDE, outside::Counts::MEANINGS.to_vec()),
            (RELAY, outside::RelayCounts::MEANINGS.to_vec()),
            (POLICY, policy::Counts::MEANINGS.iter().copied().chain([lost]).collect()),
            (LOG, LogCounts::MEANINGS.to_vec()),
        ];
        for (part, rows) in parts {
            for (name, meaning) in rows {
                let meaning = meaning.trim().trim_end_matches('.');
                let first = meaning[..1].to_lowercase();
                // An abbreviation keeps its capitals.
                let is_word = meaning[1..].starts_with(char::is_lowercase);
                let meaning = if is_word { first + &meaning[1..] } else { meaning.to_owned() };
                text += &format!("| `{part}_{name}` | {meaning} |\n");
            }
        }
        text
    }

    #[test]
    fn counters_md_has_those_of_a_gateway() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/counters.md");
        let there = std::fs::read_to_string(path).expect("it is there");
        let stack = there.split(HEADING).next().unwrap_or_default();
        let expected = format!("{stack}{}", document());
        if std::env::var_os("WRITE_DOCS").is_some() {
            std::fs::write(path, &expected).expect("the document can be written");
            return;
        }
        let again = "WRITE_DOCS=1 cargo test -p wirespeed-machine counters_md";
        assert!(there == expected, "docs/counters.md is not as the gateway's tables say: {again}");
    }
}
