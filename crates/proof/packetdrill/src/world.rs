//! A stack, its virtual time, and the scheduling of packetdrill's two threads. The open files are
//! in `files`.
//!
//! Called by: `entry/`, for every call.
//!
//! # Time
//! The clock moves only in these calls: in `usleep`; in `netdev_receive` until there is a packet;
//! by a microsecond in each `gettimeofday`; and in a call of the script's thread that would
//! otherwise block for ever. On its way the clock stops at every deadline of the stack.
//!
//! # Two threads
//! A blocked call sleeps on a condition variable, which is a sleep in the kernel, because
//! packetdrill checks the state of its thread. A thread that moves the clock or brings a packet
//! first lets the sleepers try again. It then waits until every sleeper whose call has finished has
//! read the clock. After a call packetdrill reads the clock first, to learn when the call returned;
//! without this wait, time would have moved on by then.

mod files;

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use base::{Duration, Instant};
use rustix::io::Errno;
use stack::{Event, Stack, TcpHandle};

use super::Call;
use super::file::{Endpoint, File};
use super::profile::Profile;
use super::wire::End;

/// `netdev_receive` waits for at most this long. A packet that is not due by then will never come.
const RECEIVE_MOST: Duration = Duration::from_secs(3600);
/// The virtual time that one reading of the clock takes.
const READING: Duration = Duration::from_micros(1);
/// Start of virtual time. Scripts subtract the first value they read.
const BEGIN: Instant = Instant::from_nanos(1_000_000_000_000);
/// How much real time a sleeper has to try again: more than it needs on any machine.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// How much real time packetdrill gets to process the result of a call that slept.
const AFTERWARDS: std::time::Duration = std::time::Duration::from_millis(10);

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Not at all: `EAGAIN`.
    No,
    /// Until the call can finish.
    Forever,
    /// Until this time.
    Until(Instant),
}

/// The stack under the script, shared by its threads.
pub(super) struct World {
    state: Mutex<State>,
    turn: Condvar,
}

/// The state that the lock guards.
pub(super) struct State {
    pub(super) stack: Stack,
    pub(super) wire: End,
    pub(super) now: Instant,
    pub(super) profile: Profile,
    pub(super) files: BTreeMap<RawFd, File>,
    /// The socket of each connection, for its events.
    pub(super) by_connection: BTreeMap<TcpHandle, RawFd>,
    /// The thread that executes the script.
    director: ThreadId,
    sleepers: Vec<(ThreadId, Instant)>,
    /// Sleepers that have not tried again since the last change.
    unsettled: usize,
    /// Threads whose call has finished but that have not read the clock yet.
    leaving: Vec<ThreadId>,
    /// Has a call that slept finished?
    left: bool,
    /// Counts the changes that sleepers may have waited for.
    changes: u64,
    /// Was there a change of which the sleepers have not been notified?
    changed: bool,
}

impl World {
    /// A stack with the profile's settings and no open files. The calling thread is the one that
    /// runs the script.
    pub(super) fn new(profile: Profile) -> World {
        let wire = End::default();
        let stack = profile.stack(&wire);
        let mut state = State {
            stack,
            wire,
            now: BEGIN,
            profile,
            files: BTreeMap::new(),
            by_connection: BTreeMap::new(),
            director: thread::current().id(),
            sleepers: Vec::new(),
            unsettled: 0,
            leaving: Vec::new(),
            left: false,
            changes: 0,
            changed: false,
        };
        state.arrive();
        World { state: Mutex::new(state), turn: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Make a call that cannot block.
    pub(super) fn call<T>(&self, attempt: impl FnOnce(&mut State) -> Call<T>) -> Call<T> {
        let mut state = self.lock();
        state.arrive();
        let outcome = attempt(&mut state);
        state.depart();
        drop(self.settle(state));
        outcome
    }

    /// Make a call that may wait. `attempt` returns `AGAIN` while the call cannot finish. If the
    /// wait ends first, the call returns `AGAIN` too.
    pub(super) fn wait<T>(
        &self,
        wait: impl FnOnce(&State) -> Wait,
        mut attempt: impl FnMut(&mut State) -> Call<T>,
    ) -> Call<T> {
        let me = thread::current().id();
        let mut state = self.lock();
        state.arrive();
        let until = match wait(&state) {
            Wait::No => Instant::ZERO,
            Wait::Forever => Instant::NEVER,
            Wait::Until(then) => then,
        };
        let mut asleep = false;
        loop {
            let outcome = attempt(&mut state);
            state.depart();
            let blocks = matches!(outcome, Err(Errno::AGAIN)) && state.now < until;
            if !blocks {
                if asleep {
                    state.wake(me);
                    self.turn.notify_all();
                } else {
                    drop(self.settle(state));
                }
                return outcome;
            }
            if me == state.director {
                // In this case no other thread would move the clock.
                let next = state.next_time().min(until);
                if next.since(state.now) > RECEIVE_MOST {
                    return outcome;
                }
                state = self.advance(state, next);
            } else {
                state = self.sleep(state, me, until, &mut asleep);
            }
        }
    }

    /// Sleep until the next change.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        me: ThreadId,
        until: Instant,
        asleep: &mut bool,
    ) -> MutexGuard<'a, State> {
        if *asleep {
            state.unsettled = state.unsettled.saturating_sub(1);
            self.turn.notify_all();
        } else {
            state.sleepers.push((me, until));
            *asleep = true;
        }
        let seen = state.changes;
        while state.changes == seen {
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// After a change, let every sleeper try again, and wait for the threads whose call has
    /// finished.
    fn settle<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let changed = core::mem::take(&mut state.changed);
        if !changed || (state.sleepers.is_empty() && state.leaving.is_empty()) {
            return state;
        }
        state.changes += 1;
        state.unsettled = state.sleepers.len();
        self.turn.notify_all();
        let me = thread::current().id();
        let calm = |s: &mut State| s.unsettled > 0 || s.leaving.iter().any(|&t| t != me);
        let waited = self.turn.wait_timeout_while(state, TIMEOUT, calm);
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            state.leaving.clear();
        }
        if core::mem::take(&mut state.left) {
            // What the thread does with the result is not visible here; it takes microseconds.
            drop(state);
            thread::sleep(AFTERWARDS);
            state = self.lock();
        }
        state
    }

    /// Move the clock to `target`, and handle every deadline on the way.
    fn advance<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        target: Instant,
    ) -> MutexGuard<'a, State> {
        loop {
            let next = state.next_time();
            if next > target {
                break;
            }
            let stuck = next <= state.now;
            state.now = if stuck { state.now + READING } else { next };
            state.arrive();
            state = self.settle(state);
        }
        state.now = state.now.max(target);
        state.arrive();
        self.settle(state)
    }

    /// `usleep`.
    pub(super) fn usleep(&self, time: Duration) {
        let state = self.lock();
        let target = state.now + time;
        drop(self.advance(state, target));
    }

    /// `gettimeofday`, in microseconds.
    pub(super) fn time_us(&self) -> u64 {
        let mut state = self.lock();
        let me = thread::current().id();
        if let Some(at) = state.leaving.iter().position(|&thread| thread == me) {
            // The thread learns when its call finished before anything else happens.
            state.leaving.swap_remove(at);
            self.turn.notify_all();
            return state.now.as_nanos() / 1000;
        }
        let target = state.now + READING;
        let state = self.advance(state, target);
        state.now.as_nanos() / 1000
    }

    /// Does the number belong to a file of this script?
    pub(super) fn has(&self, fd: RawFd) -> bool {
        self.lock().files.contains_key(&fd)
    }

    /// The number of blocked calls.
    #[cfg(test)]
    pub(super) fn blocked(&self) -> usize {
        self.lock().sleepers.len()
    }

    /// The address family of a socket.
    pub(super) fn domain(&self, fd: RawFd) -> i32 {
        self.lock().socket(fd).map_or(libc::AF_INET, |socket| socket.domain)
    }

    /// Deliver a packet to the stack.
    pub(super) fn netdev_send(&self, packet: &[u8]) -> Call<()> {
        let mut state = self.lock();
        // Deadlines that are due come first.
        state.arrive();
        if !state.wire.send(packet) {
            return Err(Errno::NOBUFS);
        }
        state.arrive();
        drop(self.settle(state));
        Ok(())
    }

    /// The next packet from the stack and when it left, in microseconds; `None` if none will come.
    pub(super) fn netdev_receive(&self) -> Option<(u64, Vec<u8>)> {
        let mut state = self.lock();
        loop {
            state.arrive();
            if let Some((time, packet)) = state.wire.receive() {
                return Some((time.as_nanos() / 1000, packet));
            }
            let next = state.next_time();
            if next.since(state.now) > RECEIVE_MOST {
                return None;
            }
            state = self.advance(state, next);
        }
    }
}

impl State {
    /// Pass the time to the stack, and let it process packets that arrived and deadlines that are
    /// due.
    fn arrive(&mut self) {
        self.wire.set_now(self.now);
        self.look();
        // A poll may leave packets of a burst over; the next poll takes them.
        while self.stack.poll(self.now) > 0 {
            self.changed = true;
        }
        self.changed |= self.sleepers.iter().any(|&(_, until)| until <= self.now);
        self.look();
        self.take_events();
    }

    /// After a call: transmit what the stack queued, and take its events.
    fn depart(&mut self) {
        self.changed = true;
        self.stack.flush();
        self.look();
        self.take_events();
    }

    /// Update the times that `TCP_INFO` reports, for each connection.
    fn look(&mut self) {
        for file in self.files.values_mut() {
            let File::Socket(socket) = file else { continue };
            let Endpoint::Connection(handle) = socket.endpoint else { continue };
            if let Some(info) = self.stack.tcp_info(handle).filter(|i| i.state.is_synchronised()) {
                socket.usage.look(self.now, &info, socket.write_blocked);
            }
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.stack.next_event() {
            let fd = match event {
                Event::Tcp(handle, _) => self.by_connection.get(&handle).copied(),
                Event::Accept(listener) => self.find(Endpoint::Listening(listener)),
                Event::Udp(socket) => self.find(Endpoint::Datagram(socket)),
                Event::Ping(_) | Event::Tagged(..) | Event::Foreign => None,
                Event::OtherBroadcast(_) | Event::Address(_) => None,
            };
            if let Some(File::Socket(socket)) = fd.and_then(|fd| self.files.get_mut(&fd)) {
                socket.edges += 1;
            }
        }
    }

    fn find(&self, endpoint: Endpoint) -> Option<RawFd> {
        let here = |file: &File| matches!(file, File::Socket(s) if s.endpoint == endpoint);
        self.files.iter().find(|(_, file)| here(file)).map(|(&fd, _)| fd)
    }

    /// When the next deadline of the stack or of a sleeper is due.
    fn next_time(&self) -> Instant {
        let alarms = self.sleepers.iter().map(|&(_, until)| until).filter(|&t| t > self.now);
        alarms.fold(self.stack.next_deadline(), Instant::min)
    }

    /// Record that a sleeper's call has finished.
    fn wake(&mut self, thread: ThreadId) {
        self.sleepers.retain(|&(sleeper, _)| sleeper != thread);
        self.unsettled = self.unsettled.saturating_sub(1);
        self.leaving.push(thread);
        self.left = true;
    }
}
