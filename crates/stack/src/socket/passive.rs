//! Passive opens: a SYN for a listener becomes a connection in SYN-RECEIVED, which becomes one to
//! accept, or ends. At a limit a half-open connection that is overdue gives way, so that a flood of
//! SYNs whose third segment never comes does not shut a listener. RFC 9293 section 3.10.7.2, RFC
//! 4987.
//!
//! Called by: `rx.rs` for SYNs, `forward.rs` for a user's word, and whoever has moved an embryonic
//! connection on. Limits: the listener's backlog, `half_open`, `connections`.

use std::sync::Arc;

use core::net::SocketAddr;

use base::{DropReason, Limit, SeqNumber};
use tcp::Opening;
use tcp::usrreq;
use tcp::{Fate, Segment, State};
use wire::tcp::Options;

use crate::event::Event;
use crate::socket::forward;
use crate::{ListenerHandle, Stack, TcpHandle};

/// A SYN for a listener: a connection in SYN-RECEIVED, if limits admit one. Its sequence numbers
/// begin behind `after` where it takes the place of one in TIME-WAIT (RFC 1122, 4.2.2.13).
pub(crate) fn passive_open(
    stack: &mut Stack,
    listener_handle: ListenerHandle,
    local: SocketAddr,
    remote: SocketAddr,
    seg: &Segment,
    options: &Options,
    after: Option<SeqNumber>,
) -> Fate {
    match stack.listeners.get_mut(listener_handle) {
        None => Err(DropReason::TcpNoSocket),
        Some(listener) if listener.inspect => {
            forward::hold(stack, listener_handle, local, remote, seg, options, after)
        }
        Some(_) => {
            complete_open(stack, listener_handle, local, remote, seg, options, after).map(drop)
        }
    }
}

/// The connection in SYN-RECEIVED itself. One of a listener that inspects is its user's at once.
pub(crate) fn complete_open(
    stack: &mut Stack,
    listener_handle: ListenerHandle,
    local: SocketAddr,
    remote: SocketAddr,
    seg: &Segment,
    options: &Options,
    after: Option<SeqNumber>,
) -> Result<TcpHandle, DropReason> {
    make_room(stack, listener_handle)?;
    let used = stack.connections.len();
    let Some(listener) = stack.listeners.get_mut(listener_handle) else {
        return Err(DropReason::TcpNoSocket);
    };
    if !stack.core.budget.admits(Limit::Connections, used) {
        return Err(DropReason::TcpConnectionLimit);
    }
    listener.half_open.enter();
    let (config, owner, ip) = (listener.config.clone(), listener.owner.clone(), listener.ip);
    stack.listeners.half_open.enter();
    let made = stack.open((local, remote), owner, ip, Some(listener_handle), |opening, cx| {
        let iss = after.map_or(opening.iss, |used| opening.iss.max(used));
        handshake_open(&config, &Opening { iss, ..*opening }, seg, options, cx)
    });
    match made {
        Ok(handle) => {
            let now = stack.core.now;
            if let Some(listener) = stack.listeners.get_mut(listener_handle) {
                listener.half_open.push(handle, now, &stack.connections);
            }
            stack.listeners.half_open.push(handle, now, &stack.connections);
        }
        Err(_) => embryo_gone(stack, listener_handle),
    }
    made
}

/// Room for one more half-open connection, of the listener and of all: one that is overdue gives
/// way. It hears nothing: a flood from forged addresses shall be no flood of RSTs for their owners.
fn make_room(stack: &mut Stack, handle: ListenerHandle) -> Result<(), DropReason> {
    let now = stack.core.now;
    let Some(listener) = stack.listeners.get_mut(handle) else {
        return Err(DropReason::TcpNoSocket);
    };
    let waiting = listener.accepted.len();
    let overdue = if waiting + listener.half_open.count() >= listener.backlog {
        // Those that wait to be accepted keep their places.
        let overdue = listener.half_open.overdue(now, &stack.connections);
        overdue.ok_or(DropReason::TcpBacklogFull)?
    } else if stack.core.budget.admits(Limit::HalfOpen, stack.listeners.half_open.count()) {
        return Ok(());
    } else {
        let overdue = stack.listeners.half_open.overdue(now, &stack.connections);
        overdue.ok_or(DropReason::TcpConnectionLimit)?
    };
    if let Some(pcb) = stack.connections.get_mut(overdue) {
        usrreq::give_way(&mut pcb.tcb);
    }
    stack.core.counters.add(base::Counter::TcpHalfOpenReplaced, 1);
    stack.connections.mark_dirty(overdue);
    handshake_progress(stack, overdue);
    Ok(())
}

fn handshake_open(
    config: &Arc<tcp::Config>,
    opening: &Opening,
    seg: &Segment,
    options: &Options,
    cx: &mut tcp::Cx<'_>,
) -> tcp::Tcb {
    tcp::handshake::passive_open(config, opening, seg, options, cx)
}

fn embryo_gone(stack: &mut Stack, listener: ListenerHandle) {
    stack.listeners.half_open.leave();
    if let Some(listener) = stack.listeners.get_mut(listener) {
        listener.half_open.leave();
    }
}

/// An embryonic connection took a segment, or timed out: is it open, or gone?
pub(crate) fn handshake_progress(stack: &mut Stack, handle: TcpHandle) {
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    if pcb.tcb.state == State::SynReceived || !pcb.tcb.is_embryonic() {
        return;
    }
    pcb.tcb.hatched();
    let listener = pcb.listener;
    let open = pcb.tcb.state != State::Closed;
    let round_trip = pcb.tcb.info().srtt;
    if open {
        stack.listeners.took(listener, round_trip);
    }
    if let Some(listener_handle) = listener {
        embryo_gone(stack, listener_handle);
        if stack.listeners.get_mut(listener_handle).is_some_and(|l| l.inspect) {
            // Its user has it already, and hears of this as of a connect.
            if let Some(pcb) = stack.connections.get_mut(handle) {
                pcb.listener = None;
            }
            stack.core.counters.add(base::Counter::TcpAccepts, u64::from(open));
            stack.connections.mark_dirty(handle);
            return;
        }
        if let (true, Some(listener)) = (open, stack.listeners.get_mut(listener_handle)) {
            listener.accepted.push_back(handle);
            stack.core.counters.add(base::Counter::TcpAccepts, 1);
            stack.ready.push_back(Event::Accept(listener_handle));
            return;
        }
    }
    // Nobody will ever accept it.
    if open {
        stack.tcp_abort(handle);
    } else if let Some(pcb) = stack.connections.get_mut(handle) {
        pcb.tcb.orphan();
    }
}
