//! Creates connections, both active and passive. Limits those in SYN-RECEIVED, and follows them
//! until they can be accepted or end. With TCP Fast Open they can be accepted before their
//! handshake is done. If cookies are turned off or a user has to decide first, an overdue
//! connection gives way, so that a flood of SYNs whose handshake is never completed does not block
//! a listener. RFC 9293 section 3.10.7.2, RFC 4987, RFC 6528, RFC 7413.
//!
//! Called by: `open.rs`, `no_connection.rs` for SYNs, `forward.rs` for a user's decision,
//! `cookies.rs`, and callers that have processed a segment or timer of an embryonic connection.
//! Limits: the listener's backlog, `half_open`, `connections`.

use core::net::SocketAddr;

use base::{Counter, DropReason, Instant, IpVersion, Limit, Mss, Owner};
use inet::FlowKey;
use mbuf::Mbuf;
use tcp::fast_open::{self, Role};
use tcp::usrreq;
use tcp::{Opening, State};
use wire::protocol;

use crate::config::IpSettings;
use crate::connections::Pcb;
use crate::handles::{Event, ListenerHandle, TcpHandle};
use crate::port::LOOPBACK;
use crate::resolve;
use crate::resolving::Egress;
use crate::socket::fast_open::Verdict;
use crate::socket::listener::{Iss, Syn};
use crate::stack::Stack;

/// Create a connection between two addresses; `make` creates its Tcb.
pub(crate) fn open(
    stack: &mut Stack,
    (local, remote): (SocketAddr, SocketAddr),
    owner: Owner,
    ip: IpSettings,
    listener: Option<ListenerHandle>,
    make: impl FnOnce(&Opening, &mut tcp::Cx) -> tcp::Tcb,
) -> Result<TcpHandle, DropReason> {
    // If the count changes, or if no link address is known yet, the route is looked up again before
    // sending.
    let changes = stack.changes();
    let Egress { port: port_id, mtu, template, is_complete, .. } =
        // RFC 9293 MUST-45.
        resolve::route(stack, local, remote, protocol::TCP, &owner, ip)?;
    let port = stack.ports.get(port_id).ok_or(DropReason::TxNoPort)?;
    let version = IpVersion::of(&remote.ip());
    let key = FlowKey::new(local.ip(), local.port(), remote.ip(), remote.port());
    let key = if port_id == LOOPBACK { key.looped() } else { key.within(ip.vrf) };
    let hash = key.hash(&stack.core.secret);
    let opening = Opening {
        // RFC 9293 MUST-67, SHLD-6.
        mss: port.mss(version),
        link_mss: Mss::for_mtu(mtu, version),
        path: stack
            .path_mtus
            .known(remote.ip(), stack.core.cx.now)
            .map(|(mtu, until)| (Mss::for_mtu(mtu, version), until)),
        default_mss: match version {
            IpVersion::V4 => Mss::DEFAULT_V4,
            IpVersion::V6 => Mss::DEFAULT_V6,
        },
        super_max_bytes: port.super_max_bytes(version),
        offload_checksum: port.limits.offloads.tx_checksum,
        pseudo_sum: inet::ip_input::pseudo_sum(local.ip(), remote.ip(), protocol::TCP),
        ports: (local.port(), remote.port()),
        ts_offset: (hash >> 32) as u32,
        iss: tcp::isn::initial_sequence_number(&stack.core.secret, [hash, 1], stack.core.cx.now),
    };
    let tcb = make(&opening, &mut stack.core.cx);
    let pcb = Pcb {
        key,
        tcb,
        template,
        seen: if is_complete { changes } else { Pcb::NEVER_SEEN },
        is_resolved: is_complete,
        waiting: false,
        port: port_id,
        ready: false,
        in_table: true,
        orphan: false,
        blocked: false,
        wheel_at: Instant::NEVER,
        wheel_later: Instant::NEVER,
        listener,
        owner,
        by: ip.selector(),
        opened_at: stack.core.cx.now,
        tag: None,
    };
    Ok(stack.connections.insert(pcb, &stack.core.secret))
}

/// Create the connection in SYN-RECEIVED; the caller has made room. At a listener that inspects,
/// the connection belongs to the user at once.
pub(crate) fn complete_open(stack: &mut Stack, syn: &Syn) -> Result<TcpHandle, DropReason> {
    let used = stack.connections.len();
    let listener_handle = syn.listener;
    let Some(listener) = stack.listeners.get_mut(listener_handle) else {
        return Err(DropReason::TcpNoSocket);
    };
    if !stack.core.cx.budget.admits(Limit::Connections, used) {
        return Err(DropReason::TcpConnectionLimit);
    }
    listener.half_open.enter();
    let (config, owner, ip) = (listener.config.clone(), listener.owner.clone(), listener.ip);
    stack.listeners.half_open.enter();
    let ends = (syn.local, syn.remote);
    let made = open(stack, ends, owner, ip, Some(listener_handle), |opening, cx| {
        let iss = match syn.iss {
            Iss::Any => opening.iss,
            Iss::Behind(used) => opening.iss.max(used),
            Iss::Said(iss) => iss,
        };
        let opening = Opening { iss, ..*opening };
        tcp::handshake::passive_open(&config, &opening, &syn.seg, &syn.options, cx)
    });
    match made {
        Ok(handle) => {
            let now = stack.core.cx.now;
            if let Some(listener) = stack.listeners.get_mut(listener_handle) {
                listener.half_open.push(handle, now, &stack.connections);
            }
            stack.listeners.half_open.push(handle, now, &stack.connections);
        }
        Err(_) => stack.listeners.embryo_gone(listener_handle),
    }
    made
}

/// Make room for one more half-open connection, at the listener and in the stack: an overdue one
/// gives way. It gets no RST: a flood from forged addresses must not become a flood of RSTs to
/// their owners.
pub(crate) fn make_room(stack: &mut Stack, handle: ListenerHandle) -> Result<(), DropReason> {
    let now = stack.core.cx.now;
    let Some(listener) = stack.listeners.get_mut(handle) else {
        return Err(DropReason::TcpNoSocket);
    };
    let waiting = listener.accepted.len();
    let overdue = if waiting + listener.half_open.count() >= listener.backlog {
        // Connections that wait to be accepted keep their places.
        let overdue = listener.half_open.overdue(now, &stack.connections);
        overdue.ok_or(DropReason::TcpBacklogFull)?
    } else if stack.core.cx.budget.admits(Limit::HalfOpen, stack.listeners.half_open.count()) {
        return Ok(());
    } else {
        let overdue = stack.listeners.half_open.overdue(now, &stack.connections);
        overdue.ok_or(DropReason::TcpConnectionLimit)?
    };
    if let Some(pcb) = stack.connections.get_mut(overdue) {
        usrreq::give_way(&mut pcb.tcb);
    }
    stack.core.cx.counters.add(Counter::TcpHalfOpenReplaced, 1);
    stack.connections.mark_dirty(overdue);
    handshake_progress(stack, overdue);
    Ok(())
}

/// An embryonic connection has processed a segment, or timed out: find out whether it is open or
/// has ended, and act on that.
pub(crate) fn handshake_progress(stack: &mut Stack, handle: TcpHandle) {
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    if let Some(role @ (Role::Client | Role::Server)) = pcb.tcb.fast_open() {
        return fast_open_progress(stack, handle, role);
    }
    if pcb.tcb.state == State::SynReceived || !pcb.tcb.is_embryonic() {
        return;
    }
    pcb.tcb.handshake_ended();
    let listener = pcb.listener;
    let open = pcb.tcb.state != State::Closed;
    let round_trip = pcb.tcb.info().srtt;
    if open {
        stack.listeners.took(listener, round_trip);
    }
    if let Some(listener_handle) = listener {
        stack.listeners.embryo_gone(listener_handle);
        if stack.listeners.get_mut(listener_handle).is_some_and(|l| l.inspect) {
            // The user has the connection already, and gets an event as after a connect.
            if let Some(pcb) = stack.connections.get_mut(handle) {
                pcb.listener = None;
            }
            stack.core.cx.counters.add(Counter::TcpAccepts, u64::from(open));
            stack.connections.mark_dirty(handle);
            return;
        }
        if let (true, Some(listener)) = (open, stack.listeners.get_mut(listener_handle)) {
            listener.accepted.push_back(handle);
            stack.core.cx.counters.add(Counter::TcpAccepts, 1);
            stack.ready.push_back(Event::Accept(listener_handle));
            return;
        }
    }
    // The connection can never be accepted, because its listener is gone.
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    if open {
        usrreq::abort(&mut pcb.tcb, &mut stack.core.cx);
    }
    pcb.tcb.orphan();
    stack.connections.mark_dirty(handle);
}

/// The half-open connection `handle` was just created for `syn`, which had the Fast Open option or
/// the payload `m`: act on those.
#[cold]
pub(crate) fn answer_fast_open(stack: &mut Stack, syn: &Syn, handle: TcpHandle, m: Mbuf) {
    let core = &mut stack.core;
    let verdict = match stack.listeners.get_mut(syn.listener) {
        Some(listener) => stack.fast_open.decide(listener, syn, m.len(), core),
        None => Verdict::Ordinary,
    };
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    match verdict {
        Verdict::Ordinary => {}
        Verdict::Grant(cookie) => fast_open::grant(&mut pcb.tcb, cookie),
        Verdict::Open => {
            fast_open::accept(&mut pcb.tcb, m, &mut core.cx);
            core.cx.counters.add(Counter::TcpFastOpenAccepted, 1);
            core.cx.counters.add(Counter::TcpAccepts, 1);
            stack.listeners.embryo_gone(syn.listener);
            if let Some(listener) = stack.listeners.get_mut(syn.listener) {
                stack.fast_open.enter(handle, syn.listener, listener);
                listener.accepted.push_back(handle);
            }
            stack.ready.push_back(Event::Accept(syn.listener));
            return;
        }
    }
    core.cx.pool.free(m);
}

/// A connection that uses Fast Open has processed a segment, or timed out: find out whether its
/// handshake has ended.
#[cold]
fn fast_open_progress(stack: &mut Stack, handle: TcpHandle, role: Role) {
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    if matches!(pcb.tcb.state, State::SynSent | State::SynReceived) || !pcb.tcb.is_embryonic() {
        return;
    }
    pcb.tcb.handshake_ended();
    let open = pcb.tcb.state != State::Closed;
    if role == Role::Client {
        let ends = (pcb.key.local().ip(), pcb.key.remote().ip());
        if let Some(outcome) = pcb.tcb.fast_open_outcome() {
            stack.fast_open.note(ends, &outcome, open, &mut stack.core.cx);
        }
        return;
    }
    stack.fast_open.leave(handle, open, &mut stack.listeners, stack.core.cx.now);
}
