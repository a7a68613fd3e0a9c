//! The whole transmit path: segments of a connection get their IP and link headers, go into the
//! port's burst, and then to the device.
//!
//! Called by: `Stack::poll` after every burst, and by socket calls. A full device pushes back: the
//! segment stays with TCP, and the connection is in its port's list until there is room.

use std::collections::VecDeque;

use base::{Counter, DropReason, Instant, Limit, Switch};
use mbuf::Mbuf;
use tcp::output::{self, FastSegment, Run};
use tcp::{State, TimeWait, Todo};

use crate::connections::{Pcb, TimeWaitEntry};
use crate::handles::{Event, TcpHandle};
use crate::port::Port;
use crate::release::Release;
use crate::shared::Core;
use crate::stack::Stack;
use crate::stamp::Stamp;
use crate::timers::Wheel;
use crate::{pace, reroute};

/// Let every connection on the dirty list send what it has, then hand the bursts to the devices.
pub(crate) fn run(stack: &mut Stack) {
    output(stack);
    stack.ports.flush(&mut stack.core.cx);
}

/// [`run`], but ACKs that an answer may carry wait until the next visit of their connection.
pub(crate) fn run_but_acks(stack: &mut Stack) {
    visit(stack, true);
    stack.ports.flush(&mut stack.core.cx);
}

/// Let every connection on the dirty list put its segments into its port's burst, which goes to the
/// device whenever it is full.
#[inline(always)]
pub(crate) fn output(stack: &mut Stack) {
    visit(stack, false);
}

#[inline(always)]
fn visit(stack: &mut Stack, holds_acks: bool) {
    if stack.release.next_departure() <= stack.core.cx.now {
        release(stack);
    }
    if stack.pace.next_departure() <= stack.core.cx.now {
        pace::release(stack);
    }
    if !stack.connections.dirty.is_empty() {
        dirty_connections(stack, holds_acks);
    }
}

/// Send the frames whose time has come.
#[cold]
fn release(stack: &mut Stack) {
    let core = &mut stack.core;
    while let Some((port_id, frame)) = stack.release.pop(core.cx.now) {
        match stack.ports.get_mut(port_id) {
            Some(port) => port.push_or_hold(frame, &mut core.cx),
            None => {
                core.drops.count(DropReason::TxNoPort);
                core.cx.pool.free(frame);
            }
        }
    }
}

/// Visit every connection on the dirty list. With `holds_acks`, connections that only have an ACK
/// to send stay on the list until the next visit. That visit sends all ACKs, so that none is lost
/// if the caller does not flush.
#[inline(never)]
fn dirty_connections(stack: &mut Stack, mut holds_acks: bool) {
    holds_acks &= !stack.connections.holds_acks;
    let (mut next, mut held) = (0, 0);
    while let Some(&handle) = stack.connections.dirty.get(next) {
        next += 1;
        if !holds_acks || !holds_ack(stack, handle) {
            connection(stack, handle);
        } else if let Some(place) = stack.connections.dirty.get_mut(held) {
            *place = handle;
            held += 1;
        }
    }
    stack.connections.dirty.truncate(held);
    stack.connections.holds_acks = held > 0;
}

/// Does the connection only have an ACK to send, for data that its program can read? Then its
/// events are reported, and it is visited again when the program has read and answered.
#[inline(always)]
fn holds_ack(stack: &mut Stack, handle: TcpHandle) -> bool {
    let Some(pcb) = stack.connections.get_mut(handle) else { return false };
    if !output::owes_ack_alone(&pcb.tcb) {
        return false;
    }
    notify(pcb, handle, &mut stack.ready);
    true
}

/// The port's burst is full: hand it to the device. Returns `false` if the connection has nothing
/// to send, or if the device takes nothing; in this case the connection is put on the port's list.
#[inline]
fn makes_room(pcb: &mut Pcb, port: &mut Port, handle: TcpHandle, core: &mut Core) -> bool {
    // Paced frames of other connections fill a burst, too. A connection with nothing to send is not
    // held back by them, nor one that has filled the burst with its last segment, as after the fast
    // path.
    if output::is_idle(&mut pcb.tcb) || output::is_quiet(&mut pcb.tcb, &core.cx) {
        return false;
    }
    if port.has_room(&mut core.cx) {
        return true;
    }
    if !pcb.blocked {
        pcb.blocked = true;
        port.blocked.push(handle);
    }
    false
}

/// Let one connection send, and act on the result.
#[inline(always)]
fn connection(stack: &mut Stack, handle: TcpHandle) {
    let Some(mut pcb) = stack.connections.get_mut(handle) else { return };
    pcb.tcb.dirty = false;
    let mut is_resolved = true;
    if pcb.seen != stack.neighbours.changes() + stack.path_mtus.changes() {
        is_resolved = reroute::refresh(stack, handle);
        reroute::refresh_path_mtu(stack, handle);
        let Some(again) = stack.connections.get_mut(handle) else { return };
        pcb = again;
    }
    let core = &mut stack.core;
    let Some(port) = stack.ports.get_mut(pcb.port) else { return };
    let has_few = is_resolved && output::has_few(&pcb.tcb);
    if has_few
        && core.cx.switches.on(Switch::OutputFastPath)
        && !port.is_full()
        && (output::is_quiet(&mut pcb.tcb, &core.cx) || fast_path(pcb, port, core))
    {
        // Nothing more is to be sent. After an ordinary segment only timers and events remain to be
        // handled.
        notify(pcb, handle, &mut stack.ready);
        return set_timer(pcb, handle, &mut stack.wheel, core.cx.now);
    }
    let mut run = Run::default();
    if is_resolved {
        segments(pcb, handle, &mut run, port, &mut stack.release, core);
    } else {
        // Without a link address no segments are made, but the timers run.
        output::hold_back(&mut pcb.tcb, &core.cx);
    }
    if !pcb.blocked
        && let Some(round_trip) = output::awaits_ack(&pcb.tcb)
    {
        port.moderation.awaits(round_trip);
    }
    output::close(&mut pcb.tcb, run.segments(), &mut core.cx);
    notify(pcb, handle, &mut stack.ready);
    let path_news = pcb.tcb.has_path_news();
    set_timer(pcb, handle, &mut stack.wheel, core.cx.now);
    let over = matches!(pcb.tcb.state, State::Closed | State::TimeWait) && !pcb.blocked;
    if path_news {
        reroute::found_path_mtu(stack, handle);
    }
    if over {
        ended(stack, handle);
    }
}

/// Send as much as windows, pacing and the port admit, one segment or run after the other.
#[inline(always)]
fn segments(
    pcb: &mut Pcb,
    handle: TcpHandle,
    run: &mut Run,
    port: &mut Port,
    release: &mut Release,
    core: &mut Core,
) {
    loop {
        if port.is_full() && !makes_room(pcb, port, handle, core) {
            break;
        }
        let Some(mut m) = output::next(&mut pcb.tcb, run, &mut core.cx) else { break };
        let made = pcb.template.prepend(&mut m);
        if run.is_ecn_capable() {
            pcb.template.set_ect(&mut m);
        }
        match made {
            Ok(()) if m.departs_after(core.cx.now) && admits(core, release) => {
                release.push(pcb.port, m);
            }
            Ok(()) if run.goes_on() && core.cx.switches.on(Switch::Stamp) => {
                rest_of_run(pcb, m, run, port, &mut core.cx);
            }
            Ok(()) => port.push(m),
            Err(reason) => core.drops.count(reason),
        }
    }
}

/// Send the segments of one connection, if they are a few ordinary ones and the port's burst, which
/// is not full, has room for them. At the first segment that is not ordinary it stops without a
/// change, and `segments` goes on.
#[inline(always)]
fn fast_path(pcb: &mut Pcb, port: &mut Port, core: &mut Core) -> bool {
    if !pcb.template.is_usual() {
        return false;
    }
    let mut count = 0;
    let is_all = loop {
        let Some(mut segment) = output::fast_path(&mut pcb.tcb, &mut core.cx) else { break false };
        let FastSegment { m, header, payload, pseudo, is_last } = &mut segment;
        let is_last = *is_last;
        count += 1;
        match pcb.template.prepend_all(m, header, *pseudo, *payload) {
            Ok(()) => port.push(segment.m),
            Err(reason) => core.drops.count(reason),
        }
        if is_last || port.is_full() {
            break is_last;
        }
    };
    output::close(&mut pcb.tcb, count, &mut core.cx);
    is_all
}

/// Queue the connection's events for the user, unless an earlier one is still queued.
#[inline(always)]
fn notify(pcb: &mut Pcb, handle: TcpHandle, ready: &mut VecDeque<Event>) {
    if pcb.tcb.events.0 != 0 && !pcb.ready && pcb.listener.is_none() {
        pcb.ready = true;
        ready.push_back(Event::Tcp(handle, tcp::Events::default()));
    }
}

/// Enter the connection's next deadline in the timer wheel.
#[inline(always)]
fn set_timer(pcb: &mut Pcb, handle: TcpHandle, wheel: &mut Wheel, now: Instant) {
    let deadline = pcb.tcb.next_deadline();
    if deadline < pcb.wheel_at {
        pcb.wheel_later = pcb.wheel_at;
        pcb.wheel_at = deadline;
        wheel.insert(handle, deadline, now);
    }
}

/// Is there room for one more frame that waits for its departure?
#[cold]
fn admits(core: &mut Core, release: &Release) -> bool {
    core.cx.budget.admits(Limit::PacedFrames, release.len())
}

/// Send the first segment of a run and those that are equal to it in length and headers, as many as
/// the burst has room for.
#[inline(never)]
fn rest_of_run(pcb: &mut Pcb, first: Mbuf, run: &mut Run, port: &mut Port, cx: &mut tcp::Cx) {
    let mut most = output::admitted(&pcb.tcb, run).min(port.room().saturating_sub(1));
    if most == 0 {
        return port.push(first);
    }
    let Some(payload) = output::last_payload(&pcb.tcb) else { return port.push(first) };
    let summing = pcb.tcb.makes_checksums(cx);
    let Some(stamp) = Stamp::of(&first, pcb.template.len(), payload, summing, cx.ladder) else {
        return port.push(first);
    };
    port.push(first);
    while stamped(pcb, &stamp, (run, most), port, cx) && unlike(pcb, &stamp, run, port, cx) {
        most = output::admitted(&pcb.tcb, run).min(port.room());
    }
}

/// Send segments whose payload is as long as the first one's; returns whether there may be more.
#[inline(never)]
fn stamped(
    pcb: &mut Pcb,
    stamp: &Stamp,
    (run, most): (&mut Run, usize),
    port: &mut Port,
    cx: &mut tcp::Cx,
) -> bool {
    let now = cx.now;
    let burst = port.uncounted();
    let (count, more) = cx.pool.shares(|shares| {
        output::others(&mut pcb.tcb, run, most, now, |payload, seq| {
            stamp.put(shares, payload, seq).map(|frame| burst.push(frame)).is_some()
        })
    });
    port.count_bytes(count * stamp.frame_len());
    cx.counters.add(Counter::TcpStamped, count as u64);
    more
}

/// Send one segment whose payload cannot be sent like the others; returns whether it was sent.
#[cold]
#[inline(never)]
fn unlike(pcb: &mut Pcb, stamp: &Stamp, run: &mut Run, port: &mut Port, cx: &mut tcp::Cx) -> bool {
    let (pool, most) = (&mut cx.pool, output::admitted(&pcb.tcb, run).min(port.room()).min(1));
    let burst = port.uncounted();
    let (count, _) = output::others(&mut pcb.tcb, run, most, cx.now, |payload, seq| {
        let frame = stamp.put_any(pool, payload, seq, cx.ladder);
        frame.map(|frame| burst.push(frame)).is_some()
    });
    port.count_bytes(count * stamp.frame_len());
    cx.counters.add(Counter::TcpStamped, count as u64);
    count > 0
}

/// Act on the end of a connection: keep a record for TIME-WAIT, and nothing else once its user has
/// closed it.
#[cold]
fn ended(stack: &mut Stack, handle: TcpHandle) {
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    let orphan = pcb.tcb.is_orphan();
    if pcb.tcb.state == State::TimeWait && pcb.in_table {
        let entry = TimeWaitEntry::new(pcb, TimeWait::new(&pcb.tcb, &stack.core.cx));
        stack.rare_timers.note(entry.record.expires);
        stack.connections.unlink(handle, &stack.core.secret);
        stack.connections.add_time_wait(entry, &stack.core.secret, &mut stack.core.cx.budget);
    }
    stack.connections.unlink(handle, &stack.core.secret);
    if orphan {
        forget(stack, handle);
    }
}

/// Remove a connection, and return all its buffers and its places in limits.
pub(crate) fn forget(stack: &mut Stack, handle: TcpHandle) {
    if let Some(mut pcb) = stack.connections.remove(handle, &stack.core.secret) {
        tcp::usrreq::clear(&mut pcb.tcb, &mut stack.core.cx);
        if pcb.orphan {
            stack.orphans.leave();
        }
        let connections = &stack.connections;
        stack.wheel.weed(connections.len(), |handle| connections.get(handle).is_some());
    }
}

/// Let connections that a device pushed back send again when it has room.
pub(crate) fn resume_blocked(stack: &mut Stack) {
    for port in stack.ports.iter_mut_and_loopback() {
        if port.blocked.is_empty() || !port.device.tx_ready() {
            continue;
        }
        for handle in core::mem::take(&mut port.blocked) {
            if let Some(pcb) = stack.connections.get_mut(handle) {
                pcb.blocked = false;
                pcb.tcb.todo.set(Todo::OUTPUT);
                stack.connections.mark_dirty(handle);
            }
        }
    }
}
