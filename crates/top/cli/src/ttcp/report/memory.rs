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
use wirespeed::{Counter, Instant, IpVersion, Stack, Switch};

use super::super::ends::{Receiver, Receiving, Sender, Sending, Side};
use super::super::flow::{self, Flow};
use super::super::plan::{Direction, Goal, Plan};
use super::super::progress::Interval;
use super::super::udp::Used;
use super::{lengths, ratio, round_trip};
use crate::clock::Lap;

/// When a transfer began, by side, and what it took, in seconds.
pub(in crate::ttcp) struct Times {
    pub(in crate::ttcp) began: [Instant; 2],
    /// Of the side that had everything last.
    pub(in crate::ttcp) lap: Lap,
    pub(in crate::ttcp) cpu_s: [f64; 2],
    pub(in crate::ttcp) transfer_s: f64,
}

/// Figures of a transfer.
pub(in crate::ttcp) struct Measured {
    pub(in crate::ttcp) pinned: bool,
    pub(in crate::ttcp) interrupted: bool,
    transfer_s: f64,
    flows: Vec<Flow>,
    lap: Lap,
    /// CPU time of each side.
    cpu_s: [f64; 2],
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
    /// How both stacks made checksums, and why.
    checksums: String,
    /// How datagrams were sent.
    udp: Option<Used>,
}

impl Measured {
    /// Collect the figures of both sides; `intervals` are those of the flows.
    pub(in crate::ttcp) fn new(
        plan: &Plan,
        sides: &mut [Side; 2],
        times: Times,
        intervals: Vec<Vec<Interval>>,
    ) -> Measured {
        let flows = flows(plan, sides, &times, intervals);
        let [left, right] = [&sides[0], &sides[1]].map(|side| &side.end.stack);
        let both = |counter| left.counters().of(counter) + right.counters().of(counter);
        let [wakes, other] = [&sides[0], &sides[1]].map(|side| side.bell.wakeups());
        let tcp_in = both(Counter::TcpSegmentsIn);
        let fraction = both(Counter::TcpPredicted) as f64 / tcp_in as f64;
        let reads = receiving(sides).map(|receive| receive.calls).sum();
        let receives = |side: &&Side| side.streams.iter().any(|stream| stream.receive.is_some());
        let segments_in = |side: &Side| side.end.stack.counters().of(Counter::TcpSegmentsIn);
        let disorder = |receive: &Receiving| match &receive.by {
            Receiver::Tcp(_) => 0,
            Receiver::Udp(udp) => udp.out_of_order,
        };
        let mut measured = Measured {
            pinned: false,
            interrupted: false,
            transfer_s: times.transfer_s,
            flows,
            lap: times.lap,
            cpu_s: times.cpu_s,
            sent: sending(sides).map(|send| send.bytes).sum(),
            received: receiving(sides).map(|receive| receive.bytes).sum(),
            writes: sending(sides).map(|send| send.calls).sum(),
            reads,
            segments: match plan.udp {
                true => reads,
                false => sides.iter().filter(receives).map(segments_in).sum(),
            },
            predicted_fraction: (tcp_in > 0).then_some(fraction),
            retransmits: both(Counter::TcpRetransmits),
            drops: drops(left, right),
            checksums: left.checksums(),
            counters: Counter::ALL.iter().map(|&c| (c.name(), both(c))).collect(),
            wakeups: (wakes.0 + other.0, wakes.1 + other.1),
            sha256: (None, None),
            out_of_order: receiving(sides).map(disorder).sum(),
            udp: used(sides),
        };
        // A file goes one way on one connection.
        for stream in sides.iter_mut().flat_map(|side| &mut side.streams) {
            if let Some(send) = &mut stream.send {
                measured.sha256.0 = send.source.sha256();
            }
            if let Some(receive) = &mut stream.receive {
                measured.sha256.1 = receive.sink.sha256();
            }
        }
        measured
    }

    /// Check that everything that was sent arrived unchanged.
    pub(in crate::ttcp) fn check_whole(&self, plan: &Plan) -> Result<()> {
        if plan.udp {
            return Ok(());
        }
        let is_whole = |flow: &Flow| flow.sent == flow.received;
        if !self.flows.iter().all(is_whole) || self.sha256.0 != self.sha256.1 {
            bail!(
                "the data did not arrive whole: {} bytes were sent, {} received, SHA-256 {}",
                self.sent,
                self.received,
                if self.sha256.0 == self.sha256.1 { "equal" } else { "different" },
            );
        }
        Ok(())
    }

    fn cpu_s(&self) -> f64 {
        self.cpu_s.iter().sum()
    }

    fn info(&self) -> Option<&Info> {
        self.flows.first().and_then(|flow| flow.info.as_ref())
    }

    fn gbit_per_s(&self) -> f64 {
        ratio(self.received as f64 * 8.0 / 1e9, self.transfer_s)
    }

    fn gbit_per_cpu_s(&self) -> f64 {
        ratio(self.received as f64 * 8.0 / 1e9, self.cpu_s())
    }

    fn ns_per_segment(&self) -> f64 {
        ratio(self.cpu_s() * 1e9, self.segments as f64)
    }
}

fn sending(sides: &[Side; 2]) -> impl Iterator<Item = &Sending> {
    sides.iter().flat_map(|side| &side.streams).filter_map(|stream| stream.send.as_ref())
}

fn receiving(sides: &[Side; 2]) -> impl Iterator<Item = &Receiving> {
    sides.iter().flat_map(|side| &side.streams).filter_map(|stream| stream.receive.as_ref())
}

/// How datagrams were sent, and in how many calls all together.
fn used(sides: &[Side; 2]) -> Option<Used> {
    let used = sending(sides).filter_map(|send| match &send.by {
        Sender::Udp(udp) => Some(udp.used),
        Sender::Tcp(_) => None,
    });
    used.reduce(|all, one| Used { calls: all.calls + one.calls, ..all })
}

/// The figures of each flow, in the order of [`Plan::labels`].
fn flows(
    plan: &Plan,
    sides: &[Side; 2],
    times: &Times,
    intervals: Vec<Vec<Interval>>,
) -> Vec<Flow> {
    let is_alone = intervals.len() == 1;
    let flow = |(n, (label, intervals))| {
        let (from, stream): (usize, usize) = (n / plan.parallel, n % plan.parallel);
        let (sender, receiver) = (&sides[from], &sides[1 - from].streams[stream]);
        let receive = receiver.receive.as_ref();
        let finished_at = receive.and_then(|receive| receive.finished_at);
        let info = sender.streams[stream].info(&sender.end);
        let since = |at: Instant| at.since(times.began[1 - from]).as_secs_f64();
        Flow {
            label,
            sent: sender.streams[stream].send.as_ref().map(|send| send.bytes),
            received: receive.map(|receive| receive.bytes),
            // With a file there is a single flow, and files do not count.
            seconds: finished_at.filter(|_| !is_alone).map_or(times.transfer_s, since),
            info,
            retransmits: info.map(|info| u64::from(info.retransmits)),
            intervals,
        }
    };
    plan.labels().zip(intervals).enumerate().map(flow).collect()
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
    t += &flow::text(&m.flows);
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
    let connections = format!(", {} connections", plan.parallel);
    let sockets = format!(", {} pairs of sockets", plan.parallel);
    let is_both = plan.directions.len() > 1;
    let extras: String = [
        (plan.parallel > 1, if plan.udp { sockets.as_str() } else { connections.as_str() }),
        (is_both, ", both directions"),
        (!is_both && plan.directions == [Direction::Rx], ", to the stack that connects"),
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
    let share = 100.0 * ratio(m.cpu_s[0], m.cpu_s());
    let [name, other] = plan.stack_names();
    writeln!(
        t,
        "  goodput   {:.2} Gb/s; {:.2} Gb per CPU-second ({name} {share:.0} %, {other} {:.0} %)",
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
        if let Some(rtt) = round_trip(m.info()) {
            writeln!(t, "  RTT       {rtt}")?;
        }
        writeln!(t, "  unit      {}", plan.write_unit_text())?;
    }
    if plan.checksum() {
        writeln!(t, "  checksums {}", m.checksums)?;
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
