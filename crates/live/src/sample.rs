//! A sample of a stack for the live page: counts, ports, the connections that were asked for, and
//! how many bytes some others have moved, from which the busiest are found.
//!
//! Called by: who answers for a stack, on the stack's own thread and four times a second while
//! somebody looks at the page; so it copies, and computes nothing. The keys are the page's.

use std::collections::BTreeMap;

use base::Counter;
use explain::{Look, Surroundings};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use stack::Stack;
use stack::snapshot::{ConnectionRow, PortRow};
use tcp::info::Repair;

/// Connections whose bytes are counted in one sample.
const SCANNED: usize = 500;
/// Ports whose drops are counted, and those that are listed.
const PORTS_COUNTED: usize = 256;
const PORTS: usize = 32;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Where the scan of all connections goes on.
    pub(super) cursor: u64,
    /// The numbers of the connections that are shown, in order.
    pub(super) chosen: Vec<u64>,
}

/// The sample.
pub fn sample(stack: &Stack, wanted: &Wanted) -> Value {
    let total = stack.snapshot();
    let scan = stack.connections_page(wanted.cursor, SCANNED);
    let scanned = scan.rows.iter().map(|row| {
        let moved = row.info.bytes_acked.saturating_add(row.info.bytes_received);
        json!([row.number, moved])
    });
    let shown = stack.connections_at(&wanted.chosen);
    let ports = stack.ports_page(0, PORTS_COUNTED);
    let of = |counter| stack.counters().of(counter);
    json!({
        "connections": total.connections,
        "time_wait": total.time_wait,
        "half_open": total.half_open,
        "sockets": total.sockets,
        "pool_bytes": total.pool_bytes,
        "rx_bytes": of(Counter::RxBytes),
        "rx_frames": of(Counter::RxFrames),
        "tx_bytes": of(Counter::TxBytes),
        "tx_frames": of(Counter::TxFrames),
        "forwarded": of(Counter::Forwarded),
        "retransmits": of(Counter::TcpRetransmits),
        "wakeups": of(Counter::WakeupsSent),
        "drops": drops(stack, &ports.rows),
        "port_count": total.ports,
        "ports": ports.rows.iter().take(PORTS).map(|row| port(stack, row)).collect::<Value>(),
        "scan": scanned.collect::<Value>(),
        "next": scan.next,
        "shown": looks(stack, &shown).into_iter().map(connection).collect::<Value>(),
    })
}

/// A look at each of these connections, by the thread of their stack: its CPU time is part of it.
pub fn looks<'a>(stack: &Stack, rows: &'a [ConnectionRow]) -> Vec<(&'a ConnectionRow, Look)> {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let cpu_us = used.tv_sec as u64 * 1_000_000 + used.tv_nsec as u64 / 1000;
    let around = Surroundings::of(stack, Some(cpu_us));
    let ports = if rows.is_empty() { Vec::new() } else { stack.ports_page(0, PORTS_COUNTED).rows };
    let look = |row: &'a ConnectionRow| {
        let port = ports.iter().find(|port| port.id == row.port);
        let link_up = port.is_none_or(|port| port.link_up);
        (row, Look::of(row, link_up, &around, stack.now()))
    };
    rows.iter().map(look).collect()
}

/// By name, those that devices count included.
fn drops(stack: &Stack, ports: &[PortRow]) -> BTreeMap<&'static str, u64> {
    let devices = ports.iter().filter_map(|port| port.drops.as_ref());
    let mut all = BTreeMap::new();
    for drops in std::iter::once(stack.drops()).chain(devices) {
        for (reason, count) in drops.nonzero() {
            *all.entry(reason.name()).or_default() += count;
        }
    }
    all
}

fn port(stack: &Stack, row: &PortRow) -> Value {
    let mitigation = stack.mitigation(row.id);
    json!({
        "name": row.name,
        "link_up": row.link_up,
        "failure": row.failure,
        "mtu": row.mtu_bytes,
        "mitigation": mitigation.map(|(setting, _)| setting.to_string()),
        "level": mitigation.map(|(_, level)| level.number()),
    })
}

fn connection((row, look): (&ConnectionRow, Look)) -> Value {
    let i = &row.info;
    json!({
        "number": row.number,
        "local": row.local.to_string(),
        "remote": row.remote.to_string(),
        "state": i.state.name(),
        "control": i.algorithm,
        "mss": i.snd_mss,
        "rtt_us": i.srtt.as_micros(),
        "min_rtt_us": i.min_rtt.as_micros(),
        "cwnd": i.cwnd,
        "ssthresh": (i.ssthresh != u64::MAX).then_some(i.ssthresh),
        "pacing": i.pacing_rate,
        "snd_wnd": i.snd_wnd,
        "rcv_wnd": i.rcv_wnd,
        "in_flight": i.in_flight,
        "unsent": i.unsent,
        "unread": i.unread,
        "acked": i.bytes_acked,
        "received": i.bytes_received,
        "retransmits": i.retransmits,
        "timeouts": i.timeouts,
        "recovering": i.repair != Repair::Nothing,
        "look": look,
    })
}

#[cfg(test)]
mod tests {
    use stack::StackConfig;

    use super::*;

    #[test]
    fn a_stack_without_anything_has_a_sample() {
        let stack = Stack::new(StackConfig::new([1, 2]));
        let wanted = Wanted { cursor: u64::MAX, chosen: vec![1, 7] };
        let sample = sample(&stack, &wanted);
        assert_eq!((&sample["connections"], &sample["next"]), (&json!(0), &Value::Null));
        assert_eq!((&sample["shown"], &sample["scan"]), (&json!([]), &json!([])));
    }
}
