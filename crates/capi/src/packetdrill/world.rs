//! A stack, its time, and whose turn it is.
//!
//! Called by: `entry.rs`, for every call.
//!
//! # Time
//! Nothing happens by itself. The clock moves in `usleep`, in `netdev_receive` until there is a
//! packet, by a microsecond in each `gettimeofday`, and in a call of the script's thread that would
//! block for ever otherwise. On its way it stops wherever the stack has a deadline.
//!
//! # Two threads
//! A call that blocks sleeps at a condition variable (in the kernel: packetdrill looks at the state
//! of its thread). A thread that moves the clock or brings a packet lets the sleepers try again
//! before it goes on, and waits until one that is through has read the clock: packetdrill does that
//! first, to learn when the call returned. Otherwise time would have moved on by then.

use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use base::{Duration, Instant};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use stack::{Event, Stack, TcpHandle};

use super::Call;
use super::file::{Endpoint, File, Socket};
use super::profile::Profile;
use super::wire::End;

/// Sockets that a script may have at a time.
const FILES_MAX: usize = 4096;
/// What a `netdev_receive` waits for comes within this, or never.
const RECEIVE_MOST: Duration = Duration::from_secs(3600);
/// What a reading of the clock costs.
const READING: Duration = Duration::from_micros(1);
/// Virtual time begins here: scripts subtract what they see first.
const BEGIN: Instant = Instant::from_nanos(1_000_000_000_000);
/// Real time that a sleeper may take to try again: more than any machine needs.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// Real time that packetdrill may take over the result of a call that slept.
const AFTERWARDS: std::time::Duration = std::time::Duration::from_millis(10);

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Not at all: `EAGAIN`.
    No,
    /// Until it can be done.
    Forever,
    /// Until then.
    Until(Instant),
}

/// The stack under the script, shared by its threads.
pub(super) struct World {
    state: Mutex<State>,
    turn: Condvar,
}

/// What the lock guards.
pub(super) struct State {
    pub(super) stack: Stack,
    pub(super) wire: End,
    pub(super) now: Instant,
    pub(super) profile: Profile,
    pub(super) files: BTreeMap<RawFd, File>,
    /// Which socket hears of a connection.
    pub(super) by_connection: BTreeMap<TcpHandle, RawFd>,
    /// The thread that walks through the script.
    director: ThreadId,
    sleepers: Vec<(ThreadId, Instant)>,
    /// Sleepers that have not tried again since the last change.
    unsettled: usize,
    /// Threads whose call is through and that have not read the clock.
    leaving: Vec<ThreadId>,
    /// A call that slept is through.
    left: bool,
    /// Moves with each change that sleepers may have waited for.
    changes: u64,
    /// There was one, and they have not been told.
    changed: bool,
}

impl World {
    /// A stack with the profile's settings and nothing open. The calling thread runs the script.
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

    /// Make a call that may wait: `attempt` says `AGAIN` for as long as it cannot be done. At the
    /// end of the wait that is what the call comes to.
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
                // No other thread would move the clock.
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

    /// Wait for the next change.
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

    /// Something changed: let every sleeper try again, and wait for those that are through.
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
            // What its thread still does with the result is not visible; it takes microseconds.
            drop(state);
            thread::sleep(AFTERWARDS);
            state = self.lock();
        }
        state
    }

    /// Move the clock to `target`, acting on every deadline on the way.
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
            // When its call was through: before whatever comes next.
            state.leaving.swap_remove(at);
            self.turn.notify_all();
            return state.now.as_nanos() / 1000;
        }
        let target = state.now + READING;
        let state = self.advance(state, target);
        state.now.as_nanos() / 1000
    }

    /// `close`.
    pub(super) fn close(&self, fd: RawFd) -> Call<()> {
        self.call(|state| super::socket::close(state, fd))
    }

    /// Is this the number of a file of ours?
    pub(super) fn has(&self, fd: RawFd) -> bool {
        self.lock().files.contains_key(&fd)
    }

    /// Calls that are blocked.
    #[cfg(test)]
    pub(super) fn blocked(&self) -> usize {
        self.lock().sleepers.len()
    }

    /// The domain of a socket.
    pub(super) fn domain(&self, fd: RawFd) -> i32 {
        self.lock().socket(fd).map_or(libc::AF_INET, |socket| socket.domain)
    }

    /// A packet for the stack.
    pub(super) fn netdev_send(&self, packet: &[u8]) -> Call<()> {
        let mut state = self.lock();
        // What is due by now comes first.
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
    /// The stack is told the time, takes what came and acts on what is due.
    fn arrive(&mut self) {
        self.wire.set_now(self.now);
        self.look();
        // What a burst leaves behind is the next one's.
        while self.stack.poll(self.now) > 0 {
            self.changed = true;
        }
        self.changed |= self.sleepers.iter().any(|&(_, until)| until <= self.now);
        self.look();
        self.take_events();
    }

    /// What a call had the stack send leaves, and its events are noted.
    fn depart(&mut self) {
        self.changed = true;
        self.stack.flush();
        self.look();
        self.take_events();
    }

    /// What connections do between now and the next look.
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
                Event::Ping(_) => None,
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

    /// When something happens by itself next.
    fn next_time(&self) -> Instant {
        let alarms = self.sleepers.iter().map(|&(_, until)| until).filter(|&t| t > self.now);
        alarms.fold(self.stack.next_deadline(), Instant::min)
    }

    /// A sleeper is through.
    fn wake(&mut self, thread: ThreadId) {
        self.sleepers.retain(|&(sleeper, _)| sleeper != thread);
        self.unsettled = self.unsettled.saturating_sub(1);
        self.leaving.push(thread);
        self.left = true;
    }

    /// A number for a file: that of a descriptor made for it.
    pub(super) fn add(&mut self, file: File) -> Call<RawFd> {
        if self.files.len() >= FILES_MAX {
            return Err(Errno::MFILE);
        }
        let fd = eventfd(0, EventfdFlags::CLOEXEC)?.into_raw_fd();
        // Packetdrill may have closed an older one of this number behind our back.
        self.files.insert(fd, file);
        Ok(fd)
    }

    /// Give a number back.
    #[allow(unsafe_code)]
    pub(super) fn remove(&mut self, fd: RawFd) -> Call<File> {
        let file = self.files.remove(&fd).ok_or(Errno::BADF)?;
        // SAFETY: the table holds numbers of descriptors that `add` made and nobody else owns; it
        // was taken out of the table, so it is closed once.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(file)
    }

    /// The socket behind a number.
    pub(super) fn socket(&mut self, fd: RawFd) -> Call<&mut Socket> {
        match self.files.get_mut(&fd) {
            Some(File::Socket(socket)) => Ok(socket),
            Some(_) => Err(Errno::NOTSOCK),
            None => Err(Errno::BADF),
        }
    }
}
