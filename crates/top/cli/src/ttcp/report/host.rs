//! The report of a transfer to or from a host: the classic closing lines, or one JSON document with
//! the keys of a transfer in memory. A figure that only the other end knows is null.
//!
//! Called by: `ttcp.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wirespeed::device::fault::Done;
use wirespeed::tcp::Info;
use wirespeed::{Counter, Stack, Switch};

use super::super::host::{Moved, Tally};
use super::super::plan::Plan;
use super::super::{Wrapped, flow};
use super::{lengths, rate, ratio, round_trip, round_trip_json};

/// All that the report needs.
pub(in crate::ttcp) struct Found<'a> {
    pub(in crate::ttcp) plan: &'a Plan,
    pub(in crate::ttcp) moved: &'a Moved,
    pub(in crate::ttcp) stack: &'a Stack,
    pub(in crate::ttcp) wrapped: &'a Wrapped,
}

impl Found<'_> {
    fn bytes(&self) -> u64 {
        self.moved.sent.bytes + self.moved.received.bytes
    }

    fn count(&self, counter: Counter) -> u64 {
        self.stack.counters().of(counter)
    }

    fn info(&self) -> Option<&Info> {
        self.moved.flows.first().and_then(|flow| flow.info.as_ref())
    }

    fn role(&self) -> &'static str {
        match (self.plan.sends(), self.plan.receives()) {
            (true, true) => "both",
            (true, false) => "transmit",
            (false, _) => "receive",
        }
    }

    /// Segments with data, as far as one can tell.
    fn segments(&self) -> u64 {
        let of = |is_ours, counter| if is_ours { self.count(counter) } else { 0 };
        of(self.plan.sends(), Counter::TcpSegmentsOut)
            + of(self.plan.receives(), Counter::TcpSegmentsIn)
    }

    /// The document, with a line end. `mtu` is the device's.
    pub(in crate::ttcp) fn json(&self, mtu: usize) -> Result<String> {
        let (m, sends, receives) = (self.moved, self.plan.sends(), self.plan.receives());
        let ours = |value: Value, ours: bool| if ours { value } else { Value::Null };
        let gbit = self.bytes() as f64 * 8.0 / 1e9;
        let segments = self.segments();
        let drops: BTreeMap<_, _> =
            self.stack.drops().nonzero().map(|(reason, n)| (reason.name(), n)).collect();
        let counters: BTreeMap<_, _> =
            self.stack.counters().iter().map(|(c, n)| (c.name(), n)).collect();
        let both = |(rx, tx)| json!({ "rx": done(&rx), "tx": done(&tx) });
        let faults = self.wrapped.faults().map(both);
        let seen = self.count(Counter::TcpSegmentsIn) as f64;
        let (streams, sum) = flow::json(&m.flows);
        let document = json!({
            "tool": "ttcp",
            "version": env!("CARGO_PKG_VERSION"),
            "role": self.role(),
            "gbit_per_s": ratio(gbit, m.lap.wall_s),
            "gbit_per_cpu_s": ratio(gbit, m.lap.cpu_s),
            "ns_per_segment": ratio(m.lap.cpu_s * 1e9, segments as f64),
            "segments": segments,
            "bytes": self.bytes(),
            "mtu": mtu,
            "checksum": self.plan.checksum(),
            "predicted_fraction": ratio(self.count(Counter::TcpPredicted) as f64, seen),
            "retransmits": self.count(Counter::TcpRetransmits),
            "rtt": round_trip_json(self.info()),
            "intervals": flow::intervals(&m.flows),
            "streams": streams,
            "sum": sum,
            "drops": drops,
            "cpu_s_sender": ours(json!(m.lap.cpu_s), sends),
            "cpu_s_receiver": ours(json!(m.lap.cpu_s), !sends),
            "sha256_sent": ours(json!(m.sent.sha256), sends),
            "sha256_received": ours(json!(m.received.sha256), receives),
            "writes": ours(json!(m.sent.calls), sends),
            "reads": ours(json!(m.received.calls), receives),
            "interrupted": m.interrupted,
            "faults": faults,
            "captured_frames": self.wrapped.captured(),
            "time": {"transfer_s": m.lap.wall_s, "wall_s": m.lap.wall_s},
            "settings": self.settings(),
            "counters": counters,
        });
        let mut text = serde_json::to_string_pretty(&document).context("cannot write JSON")?;
        text.push('\n');
        Ok(text)
    }

    fn settings(&self) -> Value {
        let (plan, sends) = (self.plan, self.plan.sends());
        let ours = |value: Value| if sends { value } else { Value::Null };
        let switches: BTreeMap<_, _> =
            Switch::ALL.iter().map(|&s| (s.name(), plan.switches.on(s))).collect();
        json!({
            "protocol": "tcp",
            "parallel": plan.parallel,
            "length": plan.length,
            "port": plan.port,
            "send_buffer_bytes": plan.tcp.send_buffer_bytes,
            "receive_buffer_bytes": plan.tcp.receive_buffer_bytes,
            "no_delay": plan.tcp.no_delay,
            "congestion_control": plan.tcp.algorithm.name(),
            "switches": switches,
            "write_unit_bytes": ours(json!(plan.write_unit_bytes())),
            "write_unit_from": ours(json!(plan.write_unit.from())),
            "checksums": plan.checksum().then(|| self.stack.checksums()),
            "file": plan.file().map(|path| path.display().to_string()),
        })
    }

    /// The report for people.
    pub(in crate::ttcp) fn text(&self) -> String {
        let (m, s, mut t) = (self.moved, self.moved.lap.wall_s, String::new());
        let sides = [("t", self.plan.sends(), &m.sent), ("r", self.plan.receives(), &m.received)];
        let ours = || sides.iter().filter(|(_, ours, _)| *ours).map(|(end, _, tally)| (end, tally));
        let end = if self.plan.sends() { "t" } else { "r" };
        for (end, tally) in ours() {
            if let Some(sum) = &tally.sha256 {
                let _ = writeln!(t, "ttcp-{end}: SHA-256 {sum}");
            }
        }
        for (reason, n) in self.stack.drops().nonzero() {
            let _ = writeln!(t, "ttcp-{end}: dropped {n} {}", reason.name());
        }
        t += &flow::text(&m.flows);
        let bits_per_s = ratio(self.bytes() as f64 * 8.0, s);
        let _ = write!(t, "ttcp-{end}: {}, goodput {}", lengths(self.bytes()), rate(bits_per_s));
        if self.plan.sends() {
            // Only the sender knows what was retransmitted.
            let _ = write!(t, ", {} retransmits", self.count(Counter::TcpRetransmits));
        }
        let rtt = round_trip(self.info());
        let _ = writeln!(t, "{}", rtt.map_or(String::new(), |rtt| format!(", RTT {rtt}")));
        if self.plan.sends() {
            let _ = writeln!(t, "ttcp-{end}: unit {}", self.plan.write_unit_text());
        }
        let early = if m.interrupted { " (interrupted)" } else { "" };
        for (end, Tally { bytes, calls, .. }) in ours() {
            let speed = self.plan.format.rate(ratio(*bytes as f64, s));
            let _ = writeln!(
                t,
                "ttcp-{end}: {bytes} bytes in {s:.2} real seconds = {speed} +++{early}\n\
                 ttcp-{end}: {calls} I/O calls, msec/call = {:.4}, calls/sec = {:.2}",
                ratio(s * 1e3, *calls as f64),
                ratio(*calls as f64, s)
            );
        }
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
