//! `[ipfix]`: where records of flows and of NAT go, and how often. The exporter is `export.rs`.
//!
//! Called by: `config.rs`, and `plan.rs` when it changes. RFC 7011, RFC 8158. docs/filter.md.

use core::net::SocketAddr;
use core::ops::RangeInclusive;

use base::Duration;

use super::file::Section;
use super::setting::Change;
use crate::applied::ports::State;

/// The shortest and the longest time of a key: a second, a day.
const SECONDS: RangeInclusive<u64> = 1..=86_400;

/// Flow export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipfix {
    /// The collector, which the router reaches by its own routes.
    pub collector: SocketAddr,
    /// A flow that lasts has a record each time that this has passed.
    pub active: Duration,
    /// Templates are sent again each time that this has passed.
    pub template: Duration,
    /// The observation domain of the first shard; the others follow.
    pub domain: u32,
    /// Are names of interfaces sent? They are options records, which count in sequence numbers
    /// (RFC 7011 section 3.1); nfcapd 1.7 does not count them, and reports records as missing.
    pub names: bool,
    /// Are destinations of flows named whose source NAT translates? RFC 6888 REQ-12 advises
    /// against it.
    pub destinations: bool,
}

/// `[ipfix]`; RFC 7011 8.4-b, 10.1-b. Its records are of the states that rules make.
pub(super) fn read(file: &Section<'_>, has_rules: bool, shards: usize) -> Option<Ipfix> {
    let section = file.one("ipfix", "[ipfix]")?;
    const EXAMPLE: &str = "192.0.2.9:4739";
    section.needed("collector", &format!("\"{EXAMPLE}\""));
    if !has_rules {
        let what = "records are of the flows of [filter] and [nat]: add one, or remove [ipfix]";
        section.log.note(section.at, what);
    }
    let collector: Option<SocketAddr> = section.parsed("collector", EXAMPLE);
    let is_host =
        |at: &SocketAddr| at.port() != 0 && !at.ip().is_unspecified() && !at.ip().is_multicast();
    if collector.is_some_and(|at| !is_host(&at)) {
        let what = format!("a collector is a host with a port: write it as \"{EXAMPLE}\"");
        section.note("collector", what);
    }
    let active = seconds(&section, "active", 120);
    let template = seconds(&section, "template", 60);
    let domain = section.number("domain", 1..=u32::MAX as usize).unwrap_or(1);
    // RFC 7011 3.1-d, 3.1-f.
    let most = u32::MAX - shards.saturating_sub(1) as u32;
    if domain > most {
        let what = format!("each of {shards} shards has the next number: write {most} at most");
        section.note("domain", what);
    }
    let names = section.flag("names").unwrap_or(false);
    let destinations = section.flag("destinations").unwrap_or(false);
    let collector = collector.filter(is_host)?;
    Some(Ipfix { collector, active, template, domain, names, destinations })
}

/// A time with its unit; `default` seconds if it is left out or wrong.
fn seconds(section: &Section<'_>, key: &'static str, default: u64) -> Duration {
    let Some(text) = section.text(key) else { return Duration::from_secs(default) };
    let units = [("s", 1), ("m", 60), ("h", 3_600)];
    let read = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        number.checked_mul(*seconds)
    });
    let read = read.filter(|seconds| SECONDS.contains(seconds));
    if read.is_none() {
        let what = format!("{key} cannot be '{text}': write \"1s\" to \"24h\", as \"{default}s\"");
        section.note(key, what);
    }
    Duration::from_secs(read.unwrap_or(default))
}

/// Export this from the next turn on, or nothing.
pub(crate) fn carry_out(change: &Change<Ipfix>, state: &mut State) {
    state.export.set(change.now);
}

/// The words of the log for a change.
pub(crate) fn words(now: Option<&Ipfix>) -> String {
    match now {
        Some(Ipfix { collector, active, .. }) => {
            format!("ipfix: to {collector}, active timeout {} s", active.as_millis() / 1_000)
        }
        None => "ipfix: removed".to_owned(),
    }
}
