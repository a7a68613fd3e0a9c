//! The rows of each section, made from the stack's snapshots.
//!
//! Called by: `answer.rs`.

use core::net::IpAddr;
use core::num::NonZeroU8;
use std::collections::BTreeMap;

use base::{Budget, Counter, DropReason, Drops, Instant, Limit, LinkKind, Switch};
use control::Users;
use control::protocol::{
    Address, Answer, Connection, Fragments, Group, Limited, Neighbour, Port, Route, Socket,
    Summary, Timers, Vrf,
};
use serde::Serialize;
use stack::route::Access;
use stack::snapshot::{AddressRow, ConnectionRow, NeighbourRow, Page, PortRow, SocketRow};
use stack::{FilterMode, GroupRow, PortId, Stack};
use tcp::info::Repair;

use super::answer::With;
use super::rules;
use crate::beyond::Beyond;

/// Why fragments were dropped.
const FRAGMENT_DROPS: [DropReason; 10] = [
    DropReason::FragmentMalformed,
    DropReason::FragmentTooBig,
    DropReason::FragmentHeaders,
    DropReason::FragmentOverlap,
    DropReason::FragmentContradiction,
    DropReason::FragmentDuplicate,
    DropReason::FragmentLimit,
    DropReason::FragmentOfDropped,
    DropReason::FragmentEvicted,
    DropReason::FragmentTimeout,
];
/// The limits of a control socket, which are not limits of the stack.
const CONTROL_LIMITS: [Limit; 10] = [
    Limit::ControlClients,
    Limit::ControlFrameBytes,
    Limit::ControlDescriptors,
    Limit::ControlHalfFrameMs,
    Limit::ControlIdleMs,
    Limit::ControlTaps,
    Limit::ControlUserClients,
    Limit::ControlUserAccepts,
    Limit::ControlSockets,
    Limit::ControlUserSockets,
];

/// A page's rows, and where the next page begins.
pub(super) fn page<T, R: Serialize>(page: Page<T>, row: impl Fn(&T) -> R) -> Answer {
    let rows: Vec<R> = page.rows.iter().map(row).collect();
    Answer { next: page.next, ..Answer::of(rows) }
}

pub(super) fn summary(stack: &Stack) -> Summary {
    let s = stack.snapshot();
    let broadcasters = stack.other_broadcasters();
    Summary {
        ports: s.ports as u64,
        connections: s.connections as u64,
        time_wait: s.time_wait as u64,
        half_open: s.half_open as u64,
        sockets: s.sockets as u64,
        pool_bytes: s.pool_bytes as u64,
        pool_used_bytes: s.pool_used_bytes as u64,
        drops: s.drops,
        checksums: stack.checksums(),
        forwarding: stack.forwarding().to_string(),
        other_broadcasters: broadcasters.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn port(p: &PortRow) -> Port {
    let is_ethernet = p.link == LinkKind::Ethernet;
    Port {
        port: p.id.0,
        name: p.name.clone(),
        dev: p.name.clone(),
        link: if is_ethernet { "ethernet" } else { "ip" }.to_owned(),
        mac: is_ethernet.then_some(p.mac),
        mtu: p.mtu_bytes as u64,
        addresses: p.addresses.iter().map(|a| a.cidr.to_string()).collect(),
        tso_max_bytes: p.tso_max_bytes as u64,
        link_up: p.link_up,
        failure: p.failure.clone(),
        pushed_back: p.pushed_back,
        stalled_ms: p.stalled_ms,
        source_check: p.source_check.to_string(),
        vrf: p.vrf.as_ref().map(|(vrf, name)| Vrf { name: name.clone(), table: vrf.table() }),
        drops: p.drops.as_ref().map(named_drops),
    }
}

/// The drops that occurred, by name.
pub(super) fn named_drops(drops: &Drops) -> BTreeMap<String, u64> {
    drops.nonzero().map(|(reason, count)| (reason.name().to_owned(), count)).collect()
}

pub(super) fn connection(c: &ConnectionRow, stack: &Stack, beyond: &dyn Beyond) -> Connection {
    let (i, now) = (&c.info, stack.now());
    let due = |at: Instant| (at != Instant::NEVER).then(|| at.since(now).as_secs_f64() * 1e3);
    Connection {
        number: c.number,
        local: c.local.to_string(),
        remote: c.remote.to_string(),
        state: i.state.name().to_owned(),
        port: c.port.0,
        dev: stack.port_name(c.port),
        uid: c.uid,
        age_ms: c.age.as_millis(),
        congestion_control: i.algorithm.to_owned(),
        ecn: i.ecn,
        sack: i.sack,
        timestamps: i.timestamps,
        no_delay: i.no_delay,
        wscale_snd: i.window_scales.map(|(snd, _)| snd),
        wscale_rcv: i.window_scales.map(|(_, rcv)| rcv),
        advmss: i.advertised_mss.into(),
        mss: i.snd_mss as u64,
        rcv_mss: i.rcv_mss as u64,
        rtt_us: i.srtt.as_micros(),
        rttvar_us: i.rttvar.as_micros(),
        min_rtt_us: i.min_rtt.as_micros(),
        rto_us: i.rto.as_micros(),
        backoff: i.backoff.into(),
        retries: i.retries.into(),
        probes: i.probes.into(),
        cwnd_bytes: i.cwnd,
        ssthresh_bytes: (i.ssthresh != u64::MAX).then_some(i.ssthresh),
        pacing_bytes_per_s: (i.pacing_rate != 0).then_some(i.pacing_rate),
        recovering: recovering(i.repair).to_owned(),
        snd_wnd: i.snd_wnd.into(),
        rcv_wnd: i.rcv_wnd.into(),
        in_flight: i.in_flight.into(),
        sacked_bytes: i.sacked_bytes.into(),
        lost_bytes: i.lost_bytes.into(),
        resent_bytes: i.resent_bytes.into(),
        unsent: i.unsent as u64,
        unread: i.unread as u64,
        receive_buffer_bytes: i.receive_buffer_bytes as u64,
        send_buffer_bytes: i.send_buffer_bytes as u64,
        bytes_acked: i.bytes_acked,
        bytes_received: i.bytes_received,
        segments_out: i.segments_out.into(),
        segments_in: i.segments_in.into(),
        retransmits: i.retransmits.into(),
        timeouts: i.timeouts.into(),
        fast_recoveries: i.fast_recoveries.into(),
        tail_probes: i.tail_probes.into(),
        undone: i.undone.into(),
        duplicate_acks: i.duplicate_acks.into(),
        out_of_order: i.out_of_order.into(),
        ce_marks: i.ce_marks.into(),
        ecn_reductions: i.ecn_reductions.into(),
        timers_ms: Timers {
            retransmit: due(i.due.retransmit),
            delayed_ack: due(i.due.delayed_ack),
            keepalive: due(i.due.keepalive),
            pacing: due(i.due.pacing),
        },
        outer: beyond.outer(c.local, c.remote).map(Box::new),
    }
}

/// The corresponding state of Linux's congestion control (`TCP_CA_`), in lower case.
fn recovering(repair: Repair) -> &'static str {
    match repair {
        Repair::Nothing => "no",
        Repair::Suspicion => "disorder",
        Repair::Mark => "cwr",
        Repair::Fast => "recovery",
        Repair::TimeOut => "loss",
    }
}

fn bound((address, port): (Option<IpAddr>, u16)) -> String {
    match address {
        Some(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        Some(address) => format!("{address}:{port}"),
        None => format!("*:{port}"),
    }
}

pub(super) fn socket(s: &SocketRow) -> Socket {
    match *s {
        SocketRow::Listener { local, uid, backlog, half_open, waiting } => Socket {
            protocol: "tcp".to_owned(),
            local: bound(local),
            remote: None,
            uid,
            backlog: Some(backlog as u64),
            half_open: Some(half_open as u64),
            waiting: waiting as u64,
            waiting_bytes: None,
        },
        SocketRow::Udp { local, peer, uid, waiting, waiting_bytes } => Socket {
            protocol: "udp".to_owned(),
            local: bound(local),
            remote: peer.map(|peer| peer.to_string()),
            uid,
            backlog: None,
            half_open: None,
            waiting: waiting as u64,
            waiting_bytes: Some(waiting_bytes as u64),
        },
    }
}

pub(super) fn address(row: &AddressRow, stack: &Stack) -> Address {
    let of = &row.address;
    Address {
        port: row.port.0,
        dev: stack.port_name(row.port),
        address: of.cidr,
        state: of.state.name().to_owned(),
        origin: of.origin.name().to_owned(),
        preferred_ms: left(of.preferred_until, stack.now()),
        valid_ms: left(of.valid_until, stack.now()),
    }
}

/// Milliseconds until that time; `None` means for ever.
fn left(until: Instant, now: Instant) -> Option<u64> {
    (until != Instant::NEVER).then(|| until.since(now).as_millis())
}

pub(super) fn neighbour(row: &NeighbourRow, stack: &Stack) -> Neighbour {
    Neighbour {
        port: row.port.0,
        dev: stack.port_name(row.port),
        address: row.ip,
        mac: row.mac,
        state: row.state.name().to_owned(),
        mtu: row.mtu.bytes() as u64,
        confirmed_ms: row.confirmed.map(base::Duration::as_millis),
    }
}

pub(super) fn route(
    r: &stack::Route,
    (users, stack): (&Users, &Stack),
    beyond: &dyn Beyond,
) -> Route {
    let names = |groups: &[u32]| groups.iter().map(|&g| rules::group(g, users)).collect::<Vec<_>>();
    let is_of_daemon = r.origin.is_of_daemon();
    let of_daemon = is_of_daemon.then(|| beyond.daemon_route(r.dest.network(), r.table)).flatten();
    let (include, exclude) = match r.access.as_deref() {
        None => (None, None),
        Some(Access::Include(groups)) => (Some(names(groups)), None),
        Some(Access::Exclude(groups)) => (None, Some(names(groups))),
    };
    Route {
        destination: r.dest.network(),
        via: r.via,
        port: r.port,
        dev: r.discard.map_or_else(|| stack.port_name(PortId(r.port)), |_| String::new()),
        table: r.table,
        mtu: r.mtu.map(|mtu| mtu.bytes() as u64),
        metric: r.metric,
        weight: r.weight.map(NonZeroU8::get),
        origin: r.origin.name().to_owned(),
        expires_ms: left(r.expires, stack.now()),
        include,
        exclude,
        no_forward: r.no_forward,
        discard: r.discard.map(|how| how.name().to_owned()),
        daemon: of_daemon,
    }
}

pub(super) fn group(g: &GroupRow, stack: &Stack) -> Group {
    let mode = match g.filter.mode {
        FilterMode::Include => "INCLUDE",
        FilterMode::Exclude => "EXCLUDE",
    };
    Group {
        port: g.port.0,
        dev: stack.port_name(g.port),
        group: g.group,
        mode: mode.to_owned(),
        sources: g.filter.sources.iter().copied().collect(),
        sockets: g.sockets as u64,
        solicited_node: g.is_solicited_node,
        protocol: g.protocol.to_owned(),
        report_in_ms: g.report_in.map(base::Duration::as_millis),
    }
}

pub(super) fn fragments(stack: &Stack) -> Fragments {
    let held = stack.fragments();
    let counters = [
        Counter::FragmentsIn,
        Counter::FragmentsJoined,
        Counter::DatagramsReassembled,
        Counter::DatagramsFragmented,
        Counter::FragmentsOut,
    ];
    let counters = counters.map(|c| (c.name().to_owned(), stack.counters().of(c)));
    let drops = FRAGMENT_DROPS.map(|r| (r.name().to_owned(), stack.drops().of(r)));
    Fragments {
        datagrams_held: held.datagrams as u64,
        fragments_held: held.fragments as u64,
        bytes_held: held.bytes as u64,
        sources: held.sources as u64,
        next_timeout_ms: held.next_timeout.map(base::Duration::as_millis),
        counted: counters.into_iter().chain(drops).collect(),
    }
}

/// The stack's limits; those of the control socket and of what lies beyond are theirs.
pub(super) fn limits(stack: &Budget, with: With<'_>) -> BTreeMap<String, Limited> {
    let row = |&limit: &Limit| {
        let of = if CONTROL_LIMITS.contains(&limit) { with.control } else { stack };
        let own = || Limited { value: of.of(limit) as u64, hits: of.hits(limit) };
        (limit.name().to_owned(), with.beyond.limit(limit).unwrap_or_else(own))
    };
    Limit::ALL.iter().map(row).collect()
}

pub(super) fn switches(stack: &Stack) -> BTreeMap<String, bool> {
    let on = |&s: &Switch| (s.name().to_owned(), stack.switches().on(s));
    Switch::ALL.iter().map(on).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_all_of_their_kind() {
        let drops = DropReason::ALL.iter().filter(|reason| reason.name().starts_with("fragment_"));
        assert!(drops.eq(&FRAGMENT_DROPS));
        let limits = Limit::ALL.iter().filter(|limit| limit.name().starts_with("control_"));
        assert!(limits.eq(&CONTROL_LIMITS));
    }
}
