//! The report of a transfer in memory as one JSON document, for programs.
//!
//! Called by: `ttcp.rs`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use wirespeed::{IpVersion, Switch};

use super::{Measured, is_fragmented};
use crate::ttcp::flow;
use crate::ttcp::plan::Plan;
use crate::ttcp::progress::Interval;
use crate::ttcp::report::round_trip_json;

#[derive(Serialize)]
struct Document<'a> {
    tool: &'a str,
    version: &'a str,
    gbit_per_s: f64,
    gbit_per_cpu_s: f64,
    ns_per_segment: f64,
    segments: u64,
    bytes: u64,
    bytes_sent: u64,
    mtu: u16,
    checksum: bool,
    predicted_fraction: Option<f64>,
    retransmits: u64,
    rtt: Value,
    intervals: Vec<Interval>,
    streams: Value,
    sum: Value,
    drops: &'a BTreeMap<&'static str, u64>,
    cpu_s_sender: f64,
    cpu_s_receiver: f64,
    sha256_sent: &'a Option<String>,
    sha256_received: &'a Option<String>,
    writes: u64,
    reads: u64,
    wakeups_sent: u64,
    wakeups_suppressed: u64,
    datagrams: Option<Datagrams>,
    interrupted: bool,
    time: Time<'a>,
    settings: Settings<'a>,
    counters: &'a BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Datagrams {
    sent: u64,
    received: u64,
    lost: u64,
    out_of_order: u64,
    /// Calls that sent them, and how many were handed over in one at most.
    calls: u64,
    segments: usize,
    path_mtu: usize,
    /// Each was larger than that.
    fragmented: bool,
}

#[derive(Serialize)]
struct Time<'a> {
    transfer_s: f64,
    wall_s: f64,
    file_and_hash_s: f64,
    transfer_is: &'a str,
}

#[derive(Serialize)]
struct Settings<'a> {
    protocol: &'a str,
    ip_version: u8,
    parallel: usize,
    threads: u8,
    pinned: bool,
    length: usize,
    port: u16,
    send_buffer_bytes: u32,
    receive_buffer_bytes: u32,
    no_delay: bool,
    congestion_control: &'a str,
    loan: bool,
    super_segments: bool,
    switches: BTreeMap<&'static str, bool>,
    write_unit_bytes: Option<usize>,
    write_unit_from: String,
    checksums: Option<&'a str>,
    file: Option<String>,
}

/// The meaning of [`Measured::transfer_s`].
fn transfer_is(plan: &Plan) -> &'static str {
    match (plan.file(), plan.threads) {
        (None, _) => "first write to last byte read",
        (Some(_), 1) => "first write to last byte read, less reading and hashing of the file",
        (Some(_), _) => "time in which the busier end neither slept nor read nor hashed the file",
    }
}

fn settings<'a>(plan: &'a Plan, m: &'a Measured) -> Settings<'a> {
    Settings {
        protocol: if plan.udp { "udp" } else { "tcp" },
        ip_version: if plan.version == IpVersion::V4 { 4 } else { 6 },
        parallel: plan.parallel,
        threads: plan.threads,
        pinned: m.pinned,
        length: plan.length,
        port: plan.port,
        send_buffer_bytes: plan.tcp.send_buffer_bytes,
        receive_buffer_bytes: plan.tcp.receive_buffer_bytes,
        no_delay: plan.tcp.no_delay,
        congestion_control: plan.tcp.algorithm.name(),
        loan: plan.loan,
        super_segments: plan.super_segments,
        switches: Switch::ALL.iter().map(|&s| (s.name(), plan.switches.on(s))).collect(),
        write_unit_bytes: plan.write_unit_bytes(),
        write_unit_from: plan.write_unit.from(),
        checksums: plan.checksum().then_some(m.checksums.as_str()),
        file: plan.file().map(|path| path.display().to_string()),
    }
}

/// The JSON document, with a line end.
pub(in crate::ttcp) fn document(plan: &Plan, m: &Measured) -> Result<String> {
    let datagrams = m.udp.map(|used| Datagrams {
        sent: m.writes,
        received: m.reads,
        lost: m.writes.saturating_sub(m.reads),
        out_of_order: m.out_of_order,
        calls: used.calls,
        segments: used.per_call,
        path_mtu: used.path_mtu.bytes(),
        fragmented: is_fragmented(plan, &used),
    });
    let (streams, sum) = flow::json(&m.flows);
    let document = Document {
        tool: "ttcp",
        version: env!("CARGO_PKG_VERSION"),
        gbit_per_s: m.gbit_per_s(),
        gbit_per_cpu_s: m.gbit_per_cpu_s(),
        ns_per_segment: m.ns_per_segment(),
        segments: m.segments,
        bytes: m.received,
        bytes_sent: m.sent,
        mtu: plan.mtu,
        checksum: plan.checksum(),
        predicted_fraction: m.predicted_fraction,
        retransmits: m.retransmits,
        rtt: round_trip_json(m.info()),
        intervals: flow::intervals(&m.flows),
        streams,
        sum,
        drops: &m.drops,
        cpu_s_sender: m.cpu_s[0],
        cpu_s_receiver: m.cpu_s[1],
        sha256_sent: &m.sha256.0,
        sha256_received: &m.sha256.1,
        writes: m.writes,
        reads: m.reads,
        wakeups_sent: m.wakeups.0,
        wakeups_suppressed: m.wakeups.1,
        datagrams,
        interrupted: m.interrupted,
        time: Time {
            transfer_s: m.transfer_s,
            wall_s: m.lap.wall_s,
            file_and_hash_s: m.lap.wall_s - m.lap.counted_s,
            transfer_is: transfer_is(plan),
        },
        settings: settings(plan, m),
        counters: &m.counters,
    };
    let mut text = serde_json::to_string_pretty(&document).context("cannot write JSON")?;
    text.push('\n');
    Ok(text)
}
