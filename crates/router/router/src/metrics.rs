//! The metrics of a router in Prometheus' text format, and its health.
//!
//! Called by: the worker of `wirespeed up` for `/metrics` and `/healthz`, under the stacks' locks.
//! Names and labels are an interface: they may be added, not changed. Source: Prometheus,
//! "Exposition formats", text format version 0.0.4.

mod frr;

use core::fmt::Write;
use std::collections::BTreeMap;

use base::{Counter, Counters, Drops, Limit};
use device::counted::DirectionTotals;
use filter::Firewall;
use filter::firewall::{Counts, Exported, Paired};
use filter::nat::NatCounters;
use stack::Stack;
use stack::snapshot::{PortRow, Snapshot};

use crate::applied::Applied;
use crate::fpm::Figures;
use crate::mirror::Mirrors;
use crate::mirror::counts::{Counts as OfMirror, Loss};

/// State of the program besides the stack.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// Configurations that took effect.
    pub applied: u64,
    /// Configurations of which a part failed.
    pub failed: u64,
    /// The failures of the last configuration; empty if all of it took effect.
    pub failures: Vec<String>,
    /// Connections that the metrics' server refused.
    pub refused: u64,
    /// The routes of FRR, if the configuration has `[frr]`.
    pub frr: Option<Figures>,
}

/// The answer to a request.
pub struct Page {
    /// 200 or 503.
    pub status: u16,
    /// Its media type.
    pub kind: &'static str,
    /// Its text.
    pub text: String,
}

/// A text in the making.
#[derive(Default)]
struct Text(String);

impl Text {
    /// Begin a metric.
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP wirespeed_{name} {help}\n# TYPE wirespeed_{name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let _ = write!(self.0, "wirespeed_{name}");
        for (number, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{value}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    fn alone(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.head(name, kind, help);
        self.value(name, &[], value);
    }
}

/// `/metrics`.
pub(crate) fn page(
    stacks: &[&mut Stack],
    applied: &Applied,
    program: &Program,
    mirrors: &Mirrors,
) -> Page {
    let mut text = Text::default();
    text.head("build_info", "gauge", "The program; its value is 1.");
    text.value("build_info", &[("version", &program.version)], 1);
    self::program(&mut text, program);
    whole(&mut text, stacks);
    ports(&mut text, stacks, applied);
    if let Some(first) = stacks.first() {
        neighbours(&mut text, first, applied);
    }
    text.head("drops_total", "counter", "Packets dropped, by reason.");
    let mut drops = Drops::default();
    stacks.iter().for_each(|stack| drops.include(stack.drops()));
    for (reason, count) in drops.nonzero() {
        text.value("drops_total", &[("reason", reason.name())], count);
    }
    limits(&mut text, stacks);
    counters(&mut text, stacks);
    firewall(&mut text, stacks);
    if let Some(figures) = &program.frr {
        frr::figures(&mut text, figures);
    }
    self::mirrors(&mut text, mirrors);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Page { status: 200, kind, text: text.0 }
}

fn program(text: &mut Text, program: &Program) {
    let counter = "counter";
    let help = "Configurations that took effect, wholly or in part.";
    text.alone("configurations_applied_total", counter, help, program.applied);
    let help = "Configurations of which a part failed.";
    text.alone("configurations_failed_total", counter, help, program.failed);
    let help = "Settings of the present configuration that failed.";
    text.alone("failed_settings", "gauge", help, program.failures.len() as u64);
    let help = "Connections to this page that were closed because of a limit.";
    text.alone("metrics_refused_total", counter, help, program.refused);
}

fn whole(text: &mut Text, stacks: &[&mut Stack]) {
    let all: Vec<_> = stacks.iter().map(|stack| stack.snapshot()).collect();
    // State that all shards share, or that only the first shard has, is counted once.
    let Some((first, stack)) = all.first().zip(stacks.first()) else { return };
    let sum = |of: fn(&Snapshot) -> usize| all.iter().map(of).sum::<usize>();
    let fragments = stacks.iter().map(|stack| stack.fragments().fragments).sum();
    let gauges = [
        ("forwarding", "Are packets for others forwarded?", usize::from(stack.forwarding())),
        ("shards", "Stacks that share the packets.", stacks.len()),
        ("ports", "Ports.", first.ports),
        ("connections", "TCP connections of the router itself.", sum(|s| s.connections)),
        ("half_open_connections", "TCP connections in SYN-RECEIVED.", sum(|s| s.half_open)),
        ("time_wait_connections", "TCP connections in TIME-WAIT.", sum(|s| s.time_wait)),
        ("sockets", "Listeners and UDP sockets.", sum(|s| s.sockets)),
        ("neighbours", "Neighbours.", first.neighbours),
        ("routes", "Routes.", first.routes),
        ("pool_bytes", "Memory of packet buffers in bytes.", sum(|s| s.pool_bytes)),
        ("fragments_held", "Fragments that wait for the rest.", fragments),
    ];
    for (name, help, value) in gauges {
        text.alone(name, "gauge", help, value as u64);
    }
}

/// A figure of one direction, and of a port.
type OfDirection = fn(&DirectionTotals) -> u64;
type OfPort = fn(&PortRow) -> u64;

fn ports(text: &mut Text, stacks: &[&mut Stack], applied: &Applied) {
    let rows = rows(stacks);
    let named: Vec<(&str, &PortRow, [DirectionTotals; 2])> = applied
        .ports()
        .iter()
        .filter_map(|(name, port)| {
            let row = rows.iter().find(|row| row.id == port.id)?;
            let totals = port.totals();
            Some((name.as_str(), row, [totals.rx, totals.tx]))
        })
        .collect();
    for (at, direction) in ["receive", "transmit"].into_iter().enumerate() {
        let kinds: [(&str, OfDirection); 3] =
            [("frames", |t| t.frames), ("bytes", |t| t.bytes), ("bursts", |t| t.bursts)];
        for (what, of) in kinds {
            let name = format!("port_{direction}_{what}_total");
            text.head(&name, "counter", &format!("Direction {direction}: {what} of a port."));
            for (port, _, totals) in &named {
                text.value(&name, &[("port", port)], of(&totals[at]));
            }
        }
    }
    let gauges: [(&str, &str, OfPort); 4] = [
        ("port_up", "Can frames pass?", |row| u64::from(row.failure.is_none())),
        ("port_mtu_bytes", "The largest packet in bytes.", |row| row.mtu_bytes as u64),
        ("port_addresses", "Addresses of a port.", |row| row.addresses.len() as u64),
        ("port_pushed_back", "Is the device full?", |row| u64::from(row.pushed_back)),
    ];
    for (name, help, of) in gauges {
        text.head(name, "gauge", help);
        for (port, row, _) in &named {
            text.value(name, &[("port", port)], of(row));
        }
    }
    let name = "port_drops_total";
    text.head(name, "counter", "Frames that a port's device dropped, by reason.");
    for (port, row, _) in &named {
        for (reason, count) in row.drops.iter().flat_map(base::Drops::nonzero) {
            text.value(name, &[("port", port), ("reason", reason.name())], count);
        }
    }
}

/// The ports of the first shard, with the drops of all shards, and with the trouble of any of them.
fn rows(stacks: &[&mut Stack]) -> Vec<PortRow> {
    let mut pages = stacks.iter().map(|stack| stack.ports_page(0, usize::MAX).rows);
    let mut rows = pages.next().unwrap_or_default();
    for other in pages.flatten() {
        let Some(row) = rows.iter_mut().find(|row| row.id == other.id) else { continue };
        if let (Some(drops), Some(others)) = (&mut row.drops, &other.drops) {
            drops.include(others);
        }
        row.pushed_back |= other.pushed_back;
        row.failure = row.failure.take().or(other.failure);
    }
    rows
}

/// Neighbours by port and state, from the first shard. The table is bounded by limit `neighbours`.
fn neighbours(text: &mut Text, stack: &Stack, applied: &Applied) {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for row in stack.neighbours_page(0, usize::MAX).rows {
        let port = applied.ports().iter().find(|(_, port)| port.id == row.port);
        let port = port.map_or("", |(name, _)| name.as_str());
        *counts.entry((port, row.state.name())).or_default() += 1;
    }
    let name = "port_neighbours";
    text.head(name, "gauge", "Neighbours of a port, by state.");
    for ((port, state), count) in counts {
        text.value(name, &[("port", port), ("state", state)], count);
    }
}

fn limits(text: &mut Text, stacks: &[&mut Stack]) {
    let Some(first) = stacks.first() else { return };
    text.head("limit", "gauge", "The value of a limit.");
    for limit in Limit::ALL {
        text.value("limit", &[("limit", limit.name())], first.budget().of(*limit) as u64);
    }
    text.head("limit_hits_total", "counter", "How often a limit was reached.");
    for limit in Limit::ALL {
        let hits = stacks.iter().map(|stack| stack.budget().hits(*limit)).sum();
        text.value("limit_hits_total", &[("limit", limit.name())], hits);
    }
}

fn counters(text: &mut Text, stacks: &[&mut Stack]) {
    let mut counters = Counters::default();
    stacks.iter().for_each(|stack| counters.include(stack.counters()));
    for (counter, value) in counters.iter() {
        let name = format!("{}_total", counter.name().replace('-', "_"));
        text.alone(&name, "counter", meaning(counter), value);
    }
}

/// A figure of a rule of the filter, and of NAT.
type OfRule = fn(&Counts) -> u64;
type OfNat = fn(&NatCounters) -> u64;

/// Rules, states and mappings; nothing without rules.
fn firewall(text: &mut Text, stacks: &[&mut Stack]) {
    let all: Vec<&Firewall> = stacks.iter().filter_map(|stack| stack.filter()).collect();
    let Some(first) = all.first() else { return };
    let sum = |of: fn(&Firewall) -> usize| all.iter().map(|one| of(one)).sum::<usize>() as u64;
    let gauges: [(&str, &str, u64); 3] = [
        ("filter_states", "States of flows.", sum(|one| one.states().len())),
        ("filter_states_waiting", "States without an answer.", sum(|one| one.states().waiting())),
        ("nat_mappings", "Mappings of NAT.", sum(|one| one.mappings().len())),
    ];
    gauges.into_iter().for_each(|(name, help, value)| text.alone(name, "gauge", help, value));
    let refused = all.iter().map(|one| one.lines_refused()).sum();
    let help = "Lines of the filter's log that its rate left out.";
    text.alone("filter_log_refused_total", "counter", help, refused);
    exported(text, &all);
    paired(text, first);
    let kinds: [(&str, &str, OfRule); 3] = [
        ("packets", "Packets that a rule of the filter decided on.", |counts| counts.packets),
        ("bytes", "Bytes of those packets.", |counts| counts.bytes),
        ("flows", "Flows that a rule of the filter passed.", |counts| counts.flows),
    ];
    let rules = &first.published().rules;
    for (what, help, of) in kinds {
        // Rules with one label are counted as one.
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for one in all.iter().filter(|one| one.counts().len() == first.counts().len()) {
            for (at, counted) in one.counts().iter().enumerate() {
                let name = match rules.filter.get(at) {
                    Some(rule) => rule.label.clone().unwrap_or_else(|| (at + 1).to_string()),
                    None => "default".to_owned(),
                };
                *counts.entry(name).or_default() += of(counted);
            }
        }
        let name = format!("filter_rule_{what}_total");
        text.head(&name, "counter", help);
        counts.iter().for_each(|(rule, count)| text.value(&name, &[("rule", rule)], *count));
    }
    let kinds: [(&str, &str, OfNat); 4] = [
        ("made", "Mappings made.", |counted| counted.made),
        ("kept_port", "Mappings whose port is the source's own.", |counted| counted.kept),
        ("revived", "Mappings that a source got back while held.", |counted| counted.revived),
        ("no_port", "Flows refused for want of a port.", |counted| counted.no_port),
    ];
    for (what, help, of) in kinds {
        let count = all.iter().map(|one| of(&one.mappings().counters())).sum();
        text.alone(&format!("nat_{what}_total"), "counter", help, count);
    }
    let name = "nat_rule_mappings";
    text.head(name, "gauge", "Mappings of the pool of a rule of NAT.");
    for (at, _) in (0u16..).zip(&rules.nat) {
        let used = all.iter().filter_map(|one| one.pool_use(at));
        let mappings = used.map(|used| u64::from(used.mappings)).sum();
        text.value(name, &[("rule", &(u32::from(at) + 1).to_string())], mappings);
    }
}

/// A figure of flow export.
type OfExport = fn(&Exported) -> u64;

/// Flow export; nothing without a collector.
fn exported(text: &mut Text, all: &[&Firewall]) {
    let exported: Vec<&Exported> = all.iter().filter_map(|one| one.exported()).collect();
    if exported.is_empty() {
        return;
    }
    let kinds: [(&str, &str, OfExport); 4] = [
        ("records", "Records of flows and NAT events that were sent.", |sent| sent.records),
        ("datagrams", "Datagrams with records that were sent.", |sent| sent.datagrams),
        ("records_unsent", "Records in datagrams that could not be sent.", |sent| sent.unsent),
        ("icmp_errors", "ICMP errors about datagrams with records.", |sent| sent.errors),
    ];
    for (what, help, of) in kinds {
        let count = exported.iter().map(|one| of(one)).sum();
        text.alone(&format!("ipfix_{what}_total"), "counter", help, count);
    }
    let is_reached = u64::from(exported.iter().all(|one| one.failure.is_none()));
    let help = "1 unless datagrams with records are known not to reach the collector.";
    text.alone("ipfix_collector_reached", "gauge", help, is_reached);
    let lost = all.iter().map(|one| one.events_lost()).sum();
    let help = "Events of flows that were lost because too many waited (filter_events).";
    text.alone("ipfix_events_lost_total", "counter", help, lost);
}

/// A figure of a mirror.
type OfPassed = fn(&OfMirror) -> u64;

/// Frames of mirrors; nothing without any.
fn mirrors(text: &mut Text, mirrors: &Mirrors) {
    if mirrors.counts().next().is_none() {
        return;
    }
    let kinds: [(&str, &str, OfPassed); 4] = [
        ("punted_frames", "Frames that were punted to programs at a mirror.", |c| c.punted.frames),
        ("punted_bytes", "Bytes of those frames.", |c| c.punted.bytes),
        ("sent_frames", "Frames of programs that left by the port.", |c| c.sent.frames),
        ("sent_bytes", "Bytes of those frames.", |c| c.sent.bytes),
    ];
    for (what, help, of) in kinds {
        let name = format!("mirror_{what}_total");
        text.head(&name, "counter", help);
        for (port, counts) in mirrors.counts() {
            text.value(&name, &[("port", port)], of(counts));
        }
    }
    let name = "mirror_drops_total";
    text.head(name, "counter", "Frames that were dropped at a mirror, by reason.");
    for (port, counts) in mirrors.counts() {
        for loss in Loss::ALL {
            text.value(name, &[("port", port), ("reason", loss.name())], counts.lost(loss));
        }
    }
}

/// A figure of the partner's session.
type OfPair = fn(&Paired) -> u64;

/// The partner of a pair; nothing without one.
fn paired(text: &mut Text, firewall: &Firewall) {
    let Some(paired) = firewall.paired() else { return };
    let help = "1 while the partner of the pair is there.";
    text.alone("pair_up", "gauge", help, u64::from(paired.is_up));
    let kinds: [(&str, &str, OfPair); 9] = [
        ("states_sent", "Copies of states that were sent to the partner.", |it| it.sent),
        ("states_received", "Copies of states that came from the partner.", |it| it.received),
        ("states_imported", "Copies that have become states.", |it| it.imported),
        ("states_updated", "Copies that have updated a state.", |it| it.updated),
        ("datagrams_sent", "Datagrams that were sent to the partner.", |it| it.datagrams_sent),
        ("datagrams_received", "Datagrams of the partner's.", |it| it.datagrams_received),
        ("datagrams_repeated", "Datagrams that the partner has missed.", |it| it.repeated),
        ("gaps", "Datagrams of the partner's that were asked for again.", |it| it.gaps),
        ("datagrams_lost", "Datagrams of the partner's that never came.", |it| it.lost),
    ];
    for (what, help, of) in kinds {
        text.alone(&format!("pair_{what}_total"), "counter", help, of(paired));
    }
    let name = "pair_refused_total";
    text.head(name, "counter", "Copies and datagrams of the partner's that were refused.");
    paired.refused.iter().for_each(|(why, n)| text.value(name, &[("reason", why)], *n));
}

fn meaning(counter: Counter) -> &'static str {
    counter.meaning()
}

/// `/healthz`: 200 if all of the configuration took effect and frames can pass all ports.
pub fn health(stacks: &[&mut Stack], applied: &Applied, program: &Program) -> Page {
    let mut troubles = program.failures.clone();
    for (name, port) in applied.ports() {
        let trouble = stacks.iter().find_map(|stack| stack.port_trouble(port.id));
        troubles.extend(trouble.map(|why| format!("port {name}: {why}")));
    }
    let (status, text) = match troubles.is_empty() {
        true => (200, "ok\n".to_owned()),
        false => (503, troubles.join("\n") + "\n"),
    };
    Page { status, kind: "text/plain; charset=utf-8", text }
}
