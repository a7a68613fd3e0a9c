//! Samples of a stack for the live page, and looks at connections.
//!
//! Called by: `answer.rs`, on the stack's own thread. So this code only copies, and computes
//! nothing.

use std::collections::BTreeMap;

use base::Counter;
use explain::{Look, Looked, Surroundings};
use live::{Figures, Port, Sample, Wanted};
use rustix::time::{ClockId, clock_gettime};
use stack::Stack;
use stack::snapshot::{ConnectionRow, PortRow};

use super::rows;
use crate::beyond::Beyond;

/// Maximum number of connections whose bytes are counted in one sample.
const SCANNED: usize = 500;
/// The most ports whose drops are counted, and the most that are listed.
const PORTS_COUNTED: usize = 256;
const PORTS: usize = 32;

/// Make a sample.
pub(super) fn sample(stack: &Stack, wanted: &Wanted, beyond: &dyn Beyond) -> Sample {
    let total = stack.snapshot();
    let scan = stack.connections_page(wanted.cursor, SCANNED);
    let moved = |row: &ConnectionRow| row.info.bytes_acked.saturating_add(row.info.bytes_received);
    let ports = stack.ports_page(0, PORTS_COUNTED);
    let of = |counter| stack.counters().of(counter);
    Sample {
        figures: Figures {
            connections: total.connections,
            time_wait: total.time_wait,
            half_open: total.half_open,
            sockets: total.sockets,
            pool_bytes: total.pool_bytes,
            rx_bytes: of(Counter::RxBytes),
            rx_frames: of(Counter::RxFrames),
            tx_bytes: of(Counter::TxBytes),
            tx_frames: of(Counter::TxFrames),
            forwarded: of(Counter::Forwarded),
            retransmits: of(Counter::TcpRetransmits),
            wakeups: of(Counter::WakeupsSent),
            drops: drops(stack, &ports.rows),
            port_count: total.ports,
            ports: ports.rows.iter().take(PORTS).map(|row| port(stack, row)).collect(),
        },
        scan: scan.rows.iter().map(|row| (row.number, moved(row))).collect(),
        next: scan.next,
        shown: looked(stack, &wanted.chosen, beyond),
    }
}

/// A look at each of these connections. Called on the thread of their stack, whose CPU time is part
/// of the look.
pub(super) fn looked(stack: &Stack, numbers: &[u64], beyond: &dyn Beyond) -> Vec<Looked> {
    let found = stack.connections_at(numbers);
    if found.is_empty() {
        return Vec::new();
    }
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let cpu_us = used.tv_sec as u64 * 1_000_000 + used.tv_nsec as u64 / 1000;
    let around = Surroundings::of(stack, Some(cpu_us));
    let ports = stack.ports_page(0, PORTS_COUNTED).rows;
    let look = |row: &ConnectionRow| {
        let port = ports.iter().find(|port| port.id == row.port);
        let link_up = port.is_none_or(|port| port.link_up);
        let look = Look::of(row, link_up, &around, stack.now());
        Looked { connection: rows::connection(row, stack, beyond), look }
    };
    found.iter().map(look).collect()
}

fn drops(stack: &Stack, ports: &[PortRow]) -> BTreeMap<String, u64> {
    let devices = ports.iter().filter_map(|port| port.drops.as_ref());
    let mut all = BTreeMap::new();
    for drops in std::iter::once(stack.drops()).chain(devices) {
        for (reason, count) in drops.nonzero() {
            *all.entry(reason.name().to_owned()).or_default() += count;
        }
    }
    all
}

fn port(stack: &Stack, row: &PortRow) -> Port {
    let mitigation = stack.mitigation(row.id);
    Port {
        name: row.name.clone(),
        link_up: row.link_up,
        failure: row.failure.clone(),
        mtu: row.mtu_bytes,
        mitigation: mitigation.map(|(setting, _)| setting.to_string()),
        level: mitigation.map(|(_, level)| level.number()),
    }
}

#[cfg(test)]
mod tests {
    use stack::StackConfig;

    use super::*;
    use crate::beyond::Nothing;

    #[test]
    fn a_stack_without_anything_has_a_sample() {
        let stack = Stack::new(StackConfig::new([1, 2]));
        let wanted = Wanted { cursor: u64::MAX, chosen: vec![1, 7] };
        let sample = sample(&stack, &wanted, &Nothing);
        assert_eq!((sample.figures.connections, sample.next), (0, None));
        assert!(sample.shown.is_empty() && sample.scan.is_empty());
    }
}
