//! The report of a transfer in memory: for people with the classic closing lines, or for programs
//! (`json.rs`).
//!
//! Called by: the loops make a [`Measured`], `ttcp.rs` prints it. `ns_per_segment` and
//! `gbit_per_cpu_s` are based on the CPU time of both ends together, `gbit_per_s` on the time of
//! the transfer, without files and hashes.

pub(in crate::ttcp) mod json;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, bail};
use wirespeed::tcp::Info;
use wirespeed::{Counter, IpVersion, Stack, Switch};

use super::super::ends::{Receiver, Receiving, Sender, Sending};
use super::super::plan::{Goal, Plan};
use super::super::progress::Interval;
use super::super::udp::Used;
use super::{lengths, ratio, round_trip};
use crate::clock::Lap;

/// CPU time of each end in seconds.
#[derive(Clone, Copy, Debug)]
pub(in crate::ttcp) struct Cpu {
    pub(in crate::ttcp) sender_s: f64,
    pub(in crate::ttcp) receiver_s: f64,
}

/// Figures of a transfer.
pub(in crate::ttcp) struct Measured {
    pub(in crate::ttcp) transfer_s: f64,
    pub(in crate::ttcp) pinned: bool,
    pub(in crate::ttcp) interrupted: bool,
    pub(in crate::ttcp) intervals: Vec<Interval>,
    /// The statistics of the sender's connection.
    info: Option<Info>,
    lap: Lap,
    cpu: Cpu,
    sent: u64,
    received: u64,
    writes: u64,
    reads: u64,
    segments: u64,
    predicted_fraction: Option<f64>,
    retransmits: u64,
    drops: BTreeMap<&'static str, u64>,
    counters: BTreeMap<&'static str, u64>,
    wakeups: (u64, u64),
    sha256: (Option<String>, Option<String>),
    out_of_order: u64,
    /// How datagrams were sent.
    udp: Option<Used>,
}

impl Measured {
    /// Collect the figures of both ends.
    pub(in crate::ttcp) fn new(
        sender: &mut Sender,
        receiver: &mut Receiver,
        lap: Lap,
        cpu: Cpu,
    ) -> Measured {
        let info = sender.info();
        let (left, right) = (&sender.end.stack, &receiver.end.stack);
        let both = |counter| left.counters().of(counter) + right.counters().of(counter);
        let (wakes, other) = (sender.bell.wakeups(), receiver.bell.wakeups());
        let (segments, out_of_order) = match &receiver.receiving {
            Receiving::Tcp(_) => (right.counters().of(Counter::TcpSegmentsIn), 0),
            Receiving::Udp(udp) => (receiver.calls, udp.out_of_order),
        };
        let tcp_in = both(Counter::TcpSegmentsIn);
        let fraction = both(Counter::TcpPredicted) as f64 / tcp_in as f64;
        Measured {
            transfer_s: lap.counted_s,
            pinned: false,
            interrupted: false,
            intervals: Vec::new(),
            info,
            lap,
            cpu,
            sent: sender.bytes,
            received: receiver.bytes,
            writes: sender.calls,
            reads: receiver.calls,
            segments,
            predicted_fraction: (tcp_in > 0).then_some(fraction),
            retransmits: both(Counter::TcpRetransmits),
            drops: drops(left, right),
            counters: Counter::ALL.iter().map(|&c| (c.name(), both(c))).collect(),
            wakeups: (wakes.0 + other.0, wakes.1 + other.1),
            sha256: (sender.source.sha256(), receiver.sink.sha256()),
            out_of_order,
            udp: match &sender.sending {
                Sending::Udp(udp) => Some(udp.used),
                Sending::Tcp(_) => None,
            },
        }
    }

    /// Check that everything that was sent arrived unchanged.
    pub(in crate::ttcp) fn check_whole(&self, plan: &Plan) -> Result<()> {
        if plan.udp {
            return Ok(());
        }
        if self.sent != self.received || self.sha256.0 != self.sha256.1 {
            bail!(
                "the data did not arrive whole: {} bytes were sent, {} received, SHA-256 {}",
                self.sent,
                self.received,
                if self.sha256.0 == self.sha256.1 { "equal" } else { "different" },
            );
        }
        Ok(())
    }

    fn gbit_per_s(&self) -> f64 {
        ratio(self.received as f64 * 8.0 / 1e9, self.transfer_s)
    }

    fn gbit_per_cpu_s(&self) -> f64 {
        ratio(self.received as f64 * 8.0 / 1e9, self.cpu.sender_s + self.cpu.receiver_s)
    }

    fn ns_per_segment(&self) -> f64 {
        ratio((self.cpu.sender_s + self.cpu.receiver_s) * 1e9, self.segments as f64)
    }
}

fn drops(left: &Stack, right: &Stack) -> BTreeMap<&'static str, u64> {
    let mut by_name = BTreeMap::new();
    for (reason, n) in left.drops().nonzero().chain(right.drops().nonzero()) {
        *by_name.entry(reason.name()).or_insert(0) += n;
    }
    by_name
}

/// The report for people.
pub(in crate::ttcp) fn text(plan: &Plan, m: &Measured) -> String {
    let mut t = String::new();
    // Writing to a String cannot fail.
    let _ = headline(&mut t, plan, m);
    let _ = figures(&mut t, plan, m);
    let _ = closing(&mut t, plan, m);
    t
}

fn headline(t: &mut String, plan: &Plan, m: &Measured) -> std::fmt::Result {
    let threads = match (plan.threads, m.pinned) {
        (1, true) => "one thread on one core",
        (1, false) => "one thread, not pinned",
        (_, true) => "one thread each, on two cores",
        (_, false) => "one thread each, not pinned",
    };
    let version = if plan.version == IpVersion::V4 { "IPv4" } else { "IPv6" };
    let protocol = if plan.udp { "UDP" } else { "TCP" };
    let extras: String = [
        (plan.loan, ", loaned buffers"),
        (plan.super_segments, ", super-segments"),
        (!plan.checksum(), ", no checksums"),
        (!plan.switches.on(Switch::Predict) && !plan.udp, ", no prediction"),
    ]
    .iter()
    .filter_map(|&(on, text)| on.then_some(text))
    .collect();
    writeln!(
        t,
        "Two stacks in memory, {threads}: {protocol} over {version}, MTU {}{extras}",
        plan.mtu
    )?;
    let early = if m.interrupted { "; interrupted" } else { "" };
    writeln!(t, "  moved     {} in {:.3} s{early}", lengths(m.received), m.transfer_s)?;
    match (&plan.goal, plan.udp) {
        (Goal::File(path), _) => {
            let equal = if m.sha256.0 == m.sha256.1 { "equal at both ends" } else { "DIFFERENT" };
            let sum = m.sha256.1.as_deref().unwrap_or("none");
            writeln!(t, "  file      {}: SHA-256 {equal}: {sum}", path.display())?;
            let beside = m.lap.wall_s - m.lap.counted_s;
            writeln!(t, "            reading and hashing took {beside:.3} s more, not counted")
        }
        (_, false) => writeln!(
            t,
            "  checked   all bytes counted, both ends of every read compared, the middle of 1 in 32"
        ),
        (_, true) => writeln!(t, "  checked   every datagram's length and number, 1 in 32 whole"),
    }
}

fn figures(t: &mut String, plan: &Plan, m: &Measured) -> std::fmt::Result {
    let share = 100.0 * ratio(m.cpu.sender_s, m.cpu.sender_s + m.cpu.receiver_s);
    writeln!(
        t,
        "  goodput   {:.2} Gb/s; {:.2} Gb per CPU-second (sender {share:.0} %, receiver {:.0} %)",
        m.gbit_per_s(),
        m.gbit_per_cpu_s(),
        100.0 - share,
    )?;
    let unit = if plan.udp { "datagrams" } else { "segments " };
    write!(t, "  {unit} {}, {:.0} ns each", m.segments, m.ns_per_segment())?;
    if plan.udp {
        let lost = m.writes.saturating_sub(m.reads);
        writeln!(t, ", {lost} of {} lost, {} out of order", m.writes, m.out_of_order)?;
        if let Some(used) = m.udp {
            writeln!(t, "  sent      {}", how(plan, &used))?;
        }
    } else {
        let predicted = m.predicted_fraction.unwrap_or(0.0) * 100.0;
        writeln!(t, ", {predicted:.2} % predicted, {} retransmits", m.retransmits)?;
        if let Some(rtt) = round_trip(m.info.as_ref()) {
            writeln!(t, "  RTT       {rtt}")?;
        }
        writeln!(t, "  unit      {}", plan.write_unit_text())?;
    }
    for (name, n) in &m.drops {
        writeln!(t, "  dropped   {n} {name}")?;
    }
    if plan.threads == 2 {
        writeln!(t, "  wake-ups  {} sent, {} suppressed", m.wakeups.0, m.wakeups.1)?;
    }
    Ok(())
}

/// How datagrams were sent.
fn how(plan: &Plan, used: &Used) -> String {
    let path_mtu = used.path_mtu.bytes();
    if is_fragmented(plan, used) {
        return format!("one a call, in fragments: the path carries packets of {path_mtu} bytes");
    }
    match used.per_call {
        1 => format!("one a call, whole: the path carries packets of {path_mtu} bytes"),
        n => format!("{n} a call as segments; the path carries packets of {path_mtu} bytes"),
    }
}

fn is_fragmented(plan: &Plan, used: &Used) -> bool {
    let headers = if plan.version == IpVersion::V4 { 20 + 8 } else { 40 + 8 };
    plan.length + headers > used.path_mtu.bytes()
}

/// The closing lines of ttcp since 1984.
fn closing(t: &mut String, plan: &Plan, m: &Measured) -> std::fmt::Result {
    let writes = m.udp.map_or(m.writes, |used| used.calls);
    for (end, bytes, calls) in [("t", m.sent, writes), ("r", m.received, m.reads)] {
        let s = m.transfer_s;
        let rate = plan.format.rate(ratio(bytes as f64, s));
        writeln!(t, "ttcp-{end}: {bytes} bytes in {s:.2} real seconds = {rate} +++")?;
        writeln!(
            t,
            "ttcp-{end}: {calls} I/O calls, msec/call = {:.4}, calls/sec = {:.2}",
            ratio(s * 1e3, calls as f64),
            ratio(calls as f64, s)
        )?;
    }
    Ok(())
}
