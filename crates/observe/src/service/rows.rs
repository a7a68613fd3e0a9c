//! The JSON of each section: names as in `ss -ti` and `ip -j` where those have one.
//!
//! Called by: `answer.rs`. The keys are an interface: keys may be added, not changed.

use core::net::IpAddr;

use base::{Budget, Counter, DropReason, Instant, Limit, LinkKind, Switch};
use control::Users;
use control::protocol::{Connection, Socket, Timers};
use serde_json::{Value, json};
use stack::route::Access;
use stack::snapshot::{AddressRow, ConnectionRow, NeighbourRow, Page, PortRow, SocketRow};
use stack::{Address, FilterMode, GroupRow, Route, Stack};
use tcp::info::Repair;

use super::rules;

/// A page's rows, and where the next page begins.
pub(super) fn page<T>(page: Page<T>, row: impl Fn(&T) -> Value) -> (Value, Option<u64>) {
    (page.rows.iter().map(row).collect(), page.next)
}

pub(super) fn stack(stack: &Stack) -> Value {
    let s = stack.snapshot();
    json!({
        "ports": s.ports,
        "connections": s.connections,
        "time_wait": s.time_wait,
        "half_open": s.half_open,
        "sockets": s.sockets,
        "pool_bytes": s.pool_bytes,
        "drops": s.drops,
        "checksums": stack.checksums(),
        "forwarding": stack.forwarding(),
        // Lines: neighbours whose broadcast address is not ours.
        "other_broadcasters":
            stack.other_broadcasters().iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

pub(super) fn port(p: &PortRow) -> Value {
    let ethernet = p.link == LinkKind::Ethernet;
    let drops = p.drops.as_ref().map(|drops| {
        drops.nonzero().map(|(r, n)| (r.name().to_owned(), json!(n))).collect::<Value>()
    });
    json!({
        "port": p.id.0,
        "name": p.name,
        "link": if ethernet { "ethernet" } else { "ip" },
        "mac": ethernet.then(|| p.mac.to_string()),
        "mtu": p.mtu_bytes,
        "addresses": p.addresses.iter().map(|a| a.cidr.to_string()).collect::<Vec<_>>(),
        "tso_max_bytes": p.tso_max_bytes,
        "link_up": p.link_up,
        "failure": p.failure,
        "pushed_back": p.pushed_back,
        "stalled_ms": p.stalled_ms,
        "source_check": p.source_check.to_string(),
        "drops": drops,
    })
}

pub(super) fn connection(c: &ConnectionRow, stack: &Stack) -> Connection {
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

/// An address; `now` is the stack's time, from which lifetimes are counted.
pub(super) fn address(row: &AddressRow, now: Instant) -> Value {
    let Address { cidr, state, origin, preferred_until, valid_until } = row.address;
    json!({
        "port": row.port.0,
        "address": cidr.to_string(),
        "state": state.name(),
        "origin": origin.name(),
        "preferred_ms": left(preferred_until, now),
        "valid_ms": left(valid_until, now),
    })
}

/// Milliseconds until then; null for ever.
fn left(until: Instant, now: Instant) -> Option<u64> {
    (until != Instant::NEVER).then(|| until.since(now).as_millis())
}

pub(super) fn neighbour(row: &NeighbourRow) -> Value {
    json!({
        "port": row.port.0,
        "address": row.ip.to_string(),
        "mac": row.mac.map(|mac| mac.to_string()),
        "state": row.state.name(),
        "mtu": row.mtu.bytes(),
        "confirmed_ms": row.confirmed.map(base::Duration::as_millis),
    })
}

/// A route; `now` is the stack's time, from which its end is counted.
pub(super) fn route(r: &Route, users: &Users, now: Instant) -> Value {
    let names = |groups: &[u32]| groups.iter().map(|&g| rules::group(g, users)).collect::<Vec<_>>();
    let (include, exclude) = match r.access.as_deref() {
        None => (None, None),
        Some(Access::Include(groups)) => (Some(names(groups)), None),
        Some(Access::Exclude(groups)) => (None, Some(names(groups))),
    };
    json!({
        "include": include,
        "exclude": exclude,
        "no_forward": r.no_forward,
        "destination": r.dest.network().to_string(),
        "via": r.via.map(|via| via.to_string()),
        "port": r.port,
        "table": r.table,
        "mtu": r.mtu.map(base::Mtu::bytes),
        "metric": r.metric,
        "weight": r.weight,
        "origin": r.origin.name(),
        "expires_ms": left(r.expires, now),
    })
}

/// A group; the mode of its filter as RFC 3376 has it.
pub(super) fn group(g: &GroupRow) -> Value {
    let sources: Vec<String> = g.filter.sources.iter().map(ToString::to_string).collect();
    let mode = match g.filter.mode {
        FilterMode::Include => "INCLUDE",
        FilterMode::Exclude => "EXCLUDE",
    };
    json!({
        "port": g.port.0,
        "group": g.group.to_string(),
        "mode": mode,
        "sources": sources,
        "sockets": g.sockets,
        "solicited_node": g.is_solicited_node,
        "protocol": g.protocol,
        "report_in_ms": g.report_in.map(base::Duration::as_millis),
    })
}

/// What is held of incomplete datagrams, then what was counted of fragments, all of it in one
/// object.
pub(super) fn fragments(stack: &Stack) -> Value {
    let held = stack.fragments();
    let mut all = json!({
        "datagrams_held": held.datagrams,
        "fragments_held": held.fragments,
        "bytes_held": held.bytes,
        "sources": held.sources,
        "next_timeout_ms": held.next_timeout.map(base::Duration::as_millis),
    });
    let counters = [
        Counter::FragmentsIn,
        Counter::FragmentsJoined,
        Counter::DatagramsReassembled,
        Counter::DatagramsFragmented,
        Counter::FragmentsOut,
    ];
    let counted = counters.map(|c| (c.name().to_owned(), json!(stack.counters().of(c))));
    let drops = DropReason::ALL.iter().filter(|reason| reason.name().starts_with("fragment_"));
    let dropped = drops.map(|&r| (r.name().to_owned(), json!(stack.drops().of(r))));
    if let Some(all) = all.as_object_mut() {
        all.extend(counted.into_iter().chain(dropped));
    }
    all
}

/// The stack's limits, with the `control_` ones taken from the control socket.
pub(super) fn limits(stack: &Budget, control: &Budget) -> Value {
    let row = |&limit: &Limit| {
        let of = if limit.name().starts_with("control_") { control } else { stack };
        (limit.name().to_owned(), json!({ "value": of.of(limit), "hits": of.hits(limit) }))
    };
    Limit::ALL.iter().map(row).collect()
}

pub(super) fn switches(stack: &Stack) -> Value {
    let on = |&s: &Switch| (s.name().to_owned(), json!(stack.switches().on(s)));
    Switch::ALL.iter().map(on).collect()
}
