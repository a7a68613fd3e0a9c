//! One poll of a stack: it takes in received frames, does what is due, and sends. Also the calls
//! that a driver makes before it sleeps.
//!
//! Called by: programs and drivers (`net`). The receive path is `rx.rs`, the transmit path `tx.rs`.

use core::task::Waker;

use base::{Counter, Instant, Switch};
use device::mitigation::{Level, Mitigation};
use inet::AddressState;

use crate::connections::Pcb;
use crate::forward::links;
use crate::handles::{Event, PortId};
use crate::port::{Armed, Awaited, MitigationError};
use crate::socket::passive::handshake_progress;
use crate::stack::Stack;
use crate::{addresses, autoconf, frag, groups, neighbours, rx, tx};

impl Stack {
    /// Take in received frames, do what is due, and send. Returns how many frames and timers were
    /// handled: 0 means that there was nothing to do.
    pub fn poll(&mut self, now: Instant) -> usize {
        self.turn(now, false)
    }

    /// [`Stack::poll`] for a caller that lets its programs read and write next, and then calls
    /// [`Stack::flush`]. If a program can now read data, the ACK of that data waits for the flush,
    /// so that an answer or a window update carries it. Switch `answer-ack`.
    pub fn poll_before_flush(&mut self, now: Instant) -> usize {
        self.turn(now, self.core.cx.switches.on(Switch::AnswerAck))
    }

    fn turn(&mut self, now: Instant, holds_acks: bool) -> usize {
        self.core.set_now(now);
        // Buffers that other threads have returned to the pool are used next, while they are in the
        // cache.
        self.core.cx.pool.collect();
        let mut work = 0;
        for index in 0..self.ports.len() {
            work += rx::bursts(self, index);
        }
        if self.loopback.is_some() {
            work += rx::looped(self);
        }
        if self.wheel.is_due(self.core.cx.now) {
            work += run_timers(self);
        }
        if self.rare_timers.is_due(self.core.cx.now) {
            work += expire(self);
        }
        if self.firewall.is_some() {
            self.advance_filter();
        }
        self.check_rare_timers();
        tx::resume_blocked(self);
        match holds_acks {
            true => tx::run_but_acks(self),
            false => tx::run(self),
        }
        if work == 0 {
            self.settle();
        } else {
            self.core.cx.pool.flush_many();
        }
        work
    }

    /// Prepare for a long sleep, as a poll without work does: return buffers to other pools, and
    /// fail ports whose device is gone. From then on, buffers that a bulk transfer has left unused
    /// go back to the system, half of them a second, by [`Stack::next_deadline`].
    pub fn settle(&mut self) {
        self.core.cx.pool.flush();
        self.fail_gone_ports();
        if self.trim.is_wanted(&self.core) {
            self.trim.set(&self.core);
            self.rare_timers.note(self.trim.at);
        }
    }

    /// Hand everything that is ready to leave to the devices now, without receiving anything.
    pub fn flush(&mut self) {
        if !self.resolving.outcomes.is_empty() {
            neighbours::act(self);
        }
        tx::run(self);
        self.core.cx.pool.flush_many();
    }

    /// May a connection have something for [`Stack::flush`] to send?
    #[inline]
    pub fn has_output(&self) -> bool {
        !self.connections.dirty.is_empty()
    }

    /// When [`Stack::poll`] has to be called even if no frame comes.
    pub fn next_deadline(&self) -> Instant {
        self.check_rare_timers();
        if self.connections.holds_acks || self.is_looping() {
            return self.core.cx.now;
        }
        let timers = self.wheel.next_deadline().min(self.rare_timers.next_deadline());
        let frames = self.release.next_departure().min(self.pace.next_departure());
        timers.min(frames).min(self.filter_deadline())
    }

    /// Is there a packet from us to ourselves that was not received yet?
    #[inline(always)]
    pub(crate) fn is_looping(&self) -> bool {
        self.loopback.as_ref().is_some_and(|loopback| loopback.has_input())
    }

    /// Returns the next event for the user; `None` if there is none.
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(event) = self.ready.pop_front() {
            match event {
                Event::Tcp(handle, _) => {
                    if let Some(pcb) = self.connections.get_mut(handle) {
                        pcb.ready = false;
                        let events = pcb.tcb.events.take();
                        return Some(match pcb.tag {
                            None => Event::Tcp(handle, events),
                            Some(tag) => Event::Tagged(tag, events),
                        });
                    }
                }
                other => return Some(other),
            }
        }
        None
    }

    /// Has [`Stack::poll`] something to do right now: a frame to receive, room for frames that were
    /// pushed back, another pool's buffers to return? A driver thread calls this last before it
    /// sleeps.
    pub fn has_input(&self) -> bool {
        self.core.cx.pool.holds_foreign() || self.ports.has_input() || self.is_looping()
    }

    /// Does something wait for room that a device pushed back, or for the gaps of a destination?
    pub fn is_pushed_back(&self) -> bool {
        self.ports.is_pushed_back() || self.pace.is_awaited()
    }

    /// Did a device push something back since the last [`Stack::arm`]? A driver that has slept
    /// since then does not wait for room at that device.
    pub fn is_newly_pushed_back(&self) -> bool {
        self.ports.is_newly_pushed_back()
    }

    /// Has any port that was full had room again since the last call? Other ports may still push
    /// back.
    pub fn found_room(&mut self) -> bool {
        self.pace.found_room() | self.ports.found_room()
    }

    /// Ask every port's device to wake `waker` once there is something for [`Stack::poll`]. Whether
    /// frames still arrive is judged by the time of the last call.
    pub fn arm(&mut self, waker: &Waker) -> Armed {
        if self.is_looping() {
            return Armed::Ready;
        }
        match self.ports.arm(waker, self.core.cx.now) {
            known @ (Armed::All | Armed::Until(_)) => known,
            _ if self.core.cx.pool.holds_foreign() => Armed::Ready,
            other => other,
        }
    }

    /// Set the interrupt mitigation of a port, from the next time its driver goes idle.
    ///
    /// # Errors
    /// The port's receive queue is too short for this setting, or there is no such port. Level 0,
    /// with which a port begins, and settings that need no deeper queue than the present one are
    /// never refused.
    pub fn set_mitigation(&mut self, id: PortId, to: Mitigation) -> Result<(), MitigationError> {
        self.ports.set_mitigation(id, to)
    }

    /// The mitigation of a port, and the level that is in use now.
    pub fn mitigation(&self, id: PortId) -> Option<(Mitigation, Level)> {
        let moderation = &self.ports.get(id.0)?.moderation;
        Some((moderation.setting(), moderation.level()))
    }

    /// The descriptors to wait on: each with its port and what to wait for, as of the last
    /// [`Stack::arm`]. Once one is readable or writable, call [`Stack::poll`].
    #[cfg(unix)]
    pub fn descriptors(
        &self,
    ) -> impl Iterator<Item = (PortId, std::os::fd::BorrowedFd<'_>, Awaited)> {
        self.ports.iter().filter_map(|port| Some((port.id, port.device.as_fd()?, port.awaited())))
    }

    /// A count that grows whenever a port is added, removed or replaced.
    pub fn ports_epoch(&self) -> u64 {
        self.ports.epoch()
    }
}

/// Let every connection whose deadline has come act on it; returns how many.
fn run_timers(stack: &mut Stack) -> usize {
    let mut due = Vec::new();
    stack.wheel.advance(stack.core.cx.now, &mut due);
    let now = stack.core.cx.now;
    let mut fired = 0;
    for handle in due {
        let Some(pcb) = stack.connections.get_mut(handle) else { continue };
        // If the entry after this one is still in the wheel, keep its time: otherwise a far
        // deadline would get another entry each time a near one comes due.
        if pcb.wheel_at <= now {
            let later = core::mem::replace(&mut pcb.wheel_later, Instant::NEVER);
            pcb.wheel_at = if later > now { later } else { Instant::NEVER };
        }
        let pcb_was_embryonic = pcb.tcb.is_embryonic();
        if pcb.tcb.next_deadline() <= now {
            fired += 1;
            let timeouts = pcb.tcb.timeouts();
            tcp::timer::expire(&mut pcb.tcb, &mut stack.core.cx);
            if pcb.tcb.timeouts() != timeouts {
                // RFC 9293 MUST-20.
                // The neighbour may be gone: looking up its address makes the table check it.
                pcb.seen = Pcb::NEVER_SEEN;
            }
        }
        // Marked even when nothing was due: `tx` makes the next wheel entry.
        stack.connections.mark_dirty(handle);
        if pcb_was_embryonic {
            handshake_progress(stack, handle);
        }
    }
    stack.core.cx.counters.add(Counter::TimersFired, fired as u64);
    fired
}

/// Do what is due, and act on outcomes that look-ups have queued; returns how many kinds of work
/// there were.
#[cold]
#[inline(never)]
fn expire(stack: &mut Stack) -> usize {
    let now = stack.core.cx.now;
    let mut due = 0;
    stack.connections.expire_time_wait(now, &stack.core.secret);
    if !stack.resolving.outcomes.is_empty() {
        neighbours::act(stack);
        due += 1;
    }
    if stack.neighbours.next_deadline() <= now {
        neighbours::expire(stack);
        due += 1;
    }
    if stack.frags.next_deadline() <= now {
        frag::expire(stack);
        due += 1;
    }
    if stack.rare_timers.lifetimes <= now {
        lifetimes(stack);
        due += 1;
    }
    if stack.groups.next_deadline() <= now {
        groups::expire(stack);
        due += 1;
    }
    if stack.forwarding.next_look() <= now {
        // This does not count as work: after a poll that does nothing else a driver may sleep.
        links::look(stack);
    }
    if stack.trim.at <= now {
        // No work, either.
        stack.trim.step(&mut stack.core);
    }
    stack.renew_rare_timers();
    due
}

/// Act on addresses and routes whose lifetime has ended.
/// RFC 4862 5.5.4-a.
#[cold]
fn lifetimes(stack: &mut Stack) {
    autoconf::expire(stack);
    let now = stack.core.cx.now;
    if stack.acd.next_deadline() <= now {
        addresses::expire(stack);
    }
    let mut gone = Vec::new();
    for port in stack.ports.iter_mut() {
        for address in &mut port.addresses {
            if address.valid_until <= now {
                gone.push((port.id, address.ip()));
            } else if address.preferred_until <= now && address.state == AddressState::Preferred {
                address.state = AddressState::Deprecated;
            }
        }
    }
    for (port, ip) in gone {
        stack.remove_address(port, ip);
    }
    if stack.routes.expire(now) > 0 {
        stack.path_mtus.note_change();
    }
    stack.look_ahead();
}
