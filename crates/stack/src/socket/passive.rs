//! Passive opens: a SYN for a listener becomes a connection in SYN-RECEIVED, which becomes one to
//! accept, or ends. At a limit the answer is a cookie (`cookies.rs`); where cookies are turned off
//! or a user has to be asked first, a half-open connection that is overdue gives way. So a flood of
//! SYNs whose third segment never comes does not shut a listener. RFC 9293 section 3.10.7.2, RFC
//! 4987.
//!
//! Called by: `rx.rs` for SYNs, `forward.rs` for a user's decision, `cookies.rs`, and callers that
//! moved an embryonic connection on. Limits: the listener's backlog, `half_open`, `connections`.

use core::net::SocketAddr;

use base::{DropReason, Limit, SeqNumber, Switch};
use mbuf::Mbuf;
use tcp::Opening;
use tcp::fast_open::Role;
use tcp::usrreq;
use tcp::{Fate, Segment, State};
use wire::tcp::Options;

use crate::event::Event;
use crate::socket::{cookies, fast_open, forward};
use crate::{ListenerHandle, Stack, TcpHandle};

/// A SYN for a listener.
#[derive(Clone, Copy)]
pub(crate) struct Syn {
    pub(crate) listener: ListenerHandle,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) seg: Segment,
    pub(crate) options: Options,
    pub(crate) iss: Iss,
}

/// What our sequence numbers begin with.
#[derive(Clone, Copy)]
pub(crate) enum Iss {
    /// Whatever is usual.
    Any,
    /// Behind this, where a connection takes the place of one in TIME-WAIT (RFC 1122, 4.2.2.13).
    Behind(SeqNumber),
    /// This: a cookie has said so.
    Said(SeqNumber),
}

/// A SYN with payload `m` for a listener: a connection in SYN-RECEIVED, if limits admit one; a
/// cookie, if not.
pub(crate) fn passive_open(stack: &mut Stack, syn: &Syn, m: Mbuf) -> Fate {
    let Some(listener) = stack.listeners.get_mut(syn.listener) else {
        return Err(DropReason::TcpNoSocket);
    };
    if listener.inspect {
        return forward::hold(stack, syn);
    }
    if stack.core.cx.switches.on(Switch::SynCookies) && wants_cookie(stack, syn.listener) {
        return cookies::offer_in_time(stack, syn);
    }
    make_room(stack, syn.listener)?;
    let handle = complete_open(stack, syn)?;
    if syn.options.fast_open.is_some() || !m.is_empty() {
        fast_open::answer(stack, syn, handle, m);
    }
    Ok(())
}

/// Is it for a cookie: are there as many half-open connections as may be, of the listener, of all?
/// Where those that wait to be accepted fill half of the backlog, the program is what is slow, and
/// a cookie would promise what is not there: a SYN that is dropped comes again.
fn wants_cookie(stack: &Stack, handle: ListenerHandle) -> bool {
    let of_all = stack.listeners.half_open.count();
    let Some(listener) = stack.listeners.get(handle) else { return false };
    let waiting = listener.accepted.len();
    2 * waiting < listener.backlog
        && (waiting + listener.half_open.count() >= listener.backlog
            || of_all >= stack.core.cx.budget.of(Limit::HalfOpen))
}

/// The connection in SYN-RECEIVED itself; the caller has made room. One of a listener that inspects
/// is its user's at once.
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
    let made = stack.open(ends, owner, ip, Some(listener_handle), |opening, cx| {
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
        Err(_) => embryo_gone(stack, listener_handle),
    }
    made
}

/// Room for one more half-open connection, of the listener and of all: one that is overdue gives
/// way. It hears nothing: a flood from forged addresses shall be no flood of RSTs for their owners.
pub(crate) fn make_room(stack: &mut Stack, handle: ListenerHandle) -> Result<(), DropReason> {
    let now = stack.core.cx.now;
    let Some(listener) = stack.listeners.get_mut(handle) else {
        return Err(DropReason::TcpNoSocket);
    };
    let waiting = listener.accepted.len();
    let overdue = if waiting + listener.half_open.count() >= listener.backlog {
        // Those that wait to be accepted keep their places.
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
    stack.core.cx.counters.add(base::Counter::TcpHalfOpenReplaced, 1);
    stack.connections.mark_dirty(overdue);
    handshake_progress(stack, overdue);
    Ok(())
}

pub(crate) fn embryo_gone(stack: &mut Stack, listener: ListenerHandle) {
    stack.listeners.half_open.leave();
    if let Some(listener) = stack.listeners.get_mut(listener) {
        listener.half_open.leave();
    }
}

/// An embryonic connection took a segment, or timed out: is it open, or gone?
pub(crate) fn handshake_progress(stack: &mut Stack, handle: TcpHandle) {
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    if let Some(role @ (Role::Client | Role::Server)) = pcb.tcb.fast_open() {
        return fast_open::progress(stack, handle, role);
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
        embryo_gone(stack, listener_handle);
        if stack.listeners.get_mut(listener_handle).is_some_and(|l| l.inspect) {
            // Its user has it already, and hears of this as of a connect.
            if let Some(pcb) = stack.connections.get_mut(handle) {
                pcb.listener = None;
            }
            stack.core.cx.counters.add(base::Counter::TcpAccepts, u64::from(open));
            stack.connections.mark_dirty(handle);
            return;
        }
        if let (true, Some(listener)) = (open, stack.listeners.get_mut(listener_handle)) {
            listener.accepted.push_back(handle);
            stack.core.cx.counters.add(base::Counter::TcpAccepts, 1);
            stack.ready.push_back(Event::Accept(listener_handle));
            return;
        }
    }
    // It can never be accepted.
    if open {
        stack.tcp_abort(handle);
    } else if let Some(pcb) = stack.connections.get_mut(handle) {
        pcb.tcb.orphan();
    }
}
