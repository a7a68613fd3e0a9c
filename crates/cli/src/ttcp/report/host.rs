//! The report of a transfer to or from a host: the classic closing lines, or one JSON document with
//! the keys of a transfer in memory. A figure that only the other end knows is null.
//!
//! Called by: `ttcp.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wirespeed::device::fault::Done;
use wirespeed::{Counter, Stack, Switch};

use super::super::host::Moved;
use super::super::plan::Plan;
use super::super::role::Role;
use super::super::wrap::Wrapped;
use super::{lengths, rate, ratio, round_trip, round_trip_json};

/// All that the report needs.
pub(in crate::ttcp) struct Found<'a> {
    pub(in crate::ttcp) plan: &'a Plan,
    pub(in crate::ttcp) role: Role,
    pub(in crate::ttcp) moved: &'a Moved,
    pub(in crate::ttcp) stack: &'a Stack,
    pub(in crate::ttcp) wrapped: &'a Wrapped,
}

impl Found<'_> {
    fn sends(&self) -> bool {
        self.role != Role::Receive
    }

    /// The document, with a line end. `mtu` is the device's.
    pub(in crate::ttcp) fn json(&self, mtu: usize) -> Result<String> {
        let (m, sends) = (self.moved, self.sends());
        let ours = |value: Value, ours: bool| if ours { value } else { Value::Null };
        let count = |counter| self.stack.counters().of(counter);
        let gbit = m.bytes as f64 * 8.0 / 1e9;
        let segments = count(if sends { Counter::TcpSegmentsOut } else { Counter::TcpSegmentsIn });
        let drops: BTreeMap<_, _> =
            self.stack.drops().nonzero().map(|(reason, n)| (reason.name(), n)).collect();
        let counters: BTreeMap<_, _> =
            self.stack.counters().iter().map(|(c, n)| (c.name(), n)).collect();
        let switches: BTreeMap<_, _> =
            Switch::ALL.iter().map(|&s| (s.name(), self.plan.switches.on(s))).collect();
        let both = |(rx, tx)| json!({ "rx": done(&rx), "tx": done(&tx) });
        let faults = self.wrapped.faults().map(both);
        let seen = count(Counter::TcpSegmentsIn) as f64;
        let document = json!({
            "tool": "ttcp",
            "version": env!("CARGO_PKG_VERSION"),
            "role": if sends { "transmit" } else { "receive" },
            "gbit_per_s": ratio(gbit, m.lap.wall_s),
            "gbit_per_cpu_s": ratio(gbit, m.lap.cpu_s),
            "ns_per_segment": ratio(m.lap.cpu_s * 1e9, segments as f64),
            "segments": segments,
            "bytes": m.bytes,
            "mtu": mtu,
            "checksum": self.plan.checksum(),
            "predicted_fraction": ratio(count(Counter::TcpPredicted) as f64, seen),
            "retransmits": count(Counter::TcpRetransmits),
            "rtt": round_trip_json(m.info.as_ref()),
            "intervals": m.intervals,
            "drops": drops,
            "cpu_s_sender": ours(json!(m.lap.cpu_s), sends),
            "cpu_s_receiver": ours(json!(m.lap.cpu_s), !sends),
            "sha256_sent": ours(json!(m.sha256), sends),
            "sha256_received": ours(json!(m.sha256), !sends),
            "writes": ours(json!(m.calls), sends),
            "reads": ours(json!(m.calls), !sends),
            "interrupted": m.interrupted,
            "faults": faults,
            "captured_frames": self.wrapped.captured(),
            "time": {"transfer_s": m.lap.wall_s, "wall_s": m.lap.wall_s},
            "settings": {
                "protocol": "tcp",
                "length": self.plan.length,
                "port": self.plan.port,
                "send_buffer_bytes": self.plan.tcp.send_buffer_bytes,
                "receive_buffer_bytes": self.plan.tcp.receive_buffer_bytes,
                "no_delay": self.plan.tcp.no_delay,
                "congestion_control": self.plan.tcp.algorithm.name(),
                "switches": switches,
                "write_unit_bytes": ours(json!(self.plan.write_unit_bytes()), sends),
                "write_unit_from": ours(json!(self.plan.write_unit.from()), sends),
                "file": self.plan.file().map(|path| path.display().to_string()),
            },
            "counters": counters,
        });
        let mut text = serde_json::to_string_pretty(&document).context("cannot write JSON")?;
        text.push('\n');
        Ok(text)
    }

    /// The report for people.
    pub(in crate::ttcp) fn text(&self) -> String {
        let (m, s, mut t) = (self.moved, self.moved.lap.wall_s, String::new());
        let end = if self.sends() { "t" } else { "r" };
        if let Some(sum) = &m.sha256 {
            let _ = writeln!(t, "ttcp-{end}: SHA-256 {sum}");
        }
        for (reason, n) in self.stack.drops().nonzero() {
            let _ = writeln!(t, "ttcp-{end}: dropped {n} {}", reason.name());
        }
        let _ = write!(
            t,
            "ttcp-{end}: {}, goodput {}",
            lengths(m.bytes),
            rate(ratio(m.bytes as f64 * 8.0, s))
        );
        if self.sends() {
            // Only the sender knows what was retransmitted.
            let _ =
                write!(t, ", {} retransmits", self.stack.counters().of(Counter::TcpRetransmits));
        }
        let rtt = round_trip(m.info.as_ref());
        let _ = writeln!(t, "{}", rtt.map_or(String::new(), |rtt| format!(", RTT {rtt}")));
        if self.sends() {
            let _ = writeln!(t, "ttcp-{end}: unit {}", self.plan.write_unit_text());
        }
        let early = if m.interrupted { " (interrupted)" } else { "" };
        let speed = self.plan.format.rate(ratio(m.bytes as f64, s));
        let _ = writeln!(
            t,
            "ttcp-{end}: {} bytes in {s:.2} real seconds = {speed} +++{early}\n\
             ttcp-{end}: {} I/O calls, msec/call = {:.4}, calls/sec = {:.2}",
            m.bytes,
            m.calls,
            ratio(s * 1e3, m.calls as f64),
            ratio(m.calls as f64, s)
        );
        t
    }
}

fn done(done: &Done) -> Value {
    json!({
        "seen": done.seen,
        "dropped": done.dropped,
        "duplicated": done.duplicated,
        "reordered": done.reordered,
        "corrupted": done.corrupted,
    })
}
