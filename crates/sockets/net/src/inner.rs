//! The state that a stack's lock guards: the stack, the wait queues of its sockets, and the
//! driver's state. And [`Call`], which holds the lock for one socket call or one round of the
//! driver.
//!
//! Called by: all socket calls, the driver. A call ends in this order: send the written data,
//! collect the wakers, release the lock, and only then wake.

use core::ops::{Deref, DerefMut};
use core::task::{Context, Poll, Waker};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use arrayvec::ArrayVec;
use base::{Instant, Owner};
use host::dns::{Config, Hosts, Resolver};
use slotmap::SecondaryMap;
use stack::shard::Turns;
use stack::{Event, ListenerHandle, Stack, TcpHandle, UdpHandle};
use tcp::Events;

use crate::clock::Clock;
use crate::driver_state::DriverState;
use crate::error;
use crate::waiting::{Readiness, Socket, WaitQueue};

/// Makes the resolver's secret differ from all other secrets that are derived from the stack's
/// seed.
pub(crate) const RESOLVER: u64 = 53;

/// A stack that threads and tasks share.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// The driver wants the lock and does not have it.
    driver_waits: AtomicBool,
    clock: Clock,
}

/// The state that the lock guards.
pub(crate) struct Inner {
    pub(crate) stack: Stack,
    /// Set only if the stack is one of several shards: each call begins and ends a turn.
    pub(crate) turns: Option<Box<Turns>>,
    pub(crate) tcp: SecondaryMap<TcpHandle, Socket>,
    pub(crate) listeners: SecondaryMap<ListenerHandle, WaitQueue>,
    pub(crate) udp: SecondaryMap<UdpHandle, WaitQueue>,
    /// The wait queue for room in a device.
    room: WaitQueue,
    /// The wait queue of all lookups of names. The sockets of lookups have no wait queues.
    lookups: WaitQueue,
    /// The waker for events of sockets that a program opened on the stack itself.
    pub(crate) polled: Option<Waker>,
    pub(crate) resolver: Resolver,
    /// The wakers of alarms, by time and number.
    alarms: BTreeMap<(Instant, u64), Waker>,
    /// The last number given to an alarm or a wait.
    numbers: u64,
    pub(crate) driver: DriverState,
    /// Wakers to wake after the lock is released.
    wakers: Vec<Waker>,
    /// Wakers to drop after the lock is released: a waker may hold the last reference to a task,
    /// and the task's sockets take the lock when they are dropped.
    trash: Vec<Waker>,
    pub(crate) owner: Owner,
    /// Open connections that a forwarder accepted.
    pub(crate) forwarded: usize,
}

impl Shared {
    /// Shares a stack, whose time is that of `clock`.
    pub(crate) fn new(stack: Stack, turns: Option<Box<Turns>>, clock: Clock) -> Shared {
        let secret = stack.derived_secret(RESOLVER);
        let inner = Inner {
            resolver: Resolver::new(Config::default(), Hosts::default(), secret),
            stack,
            turns,
            tcp: SecondaryMap::new(),
            listeners: SecondaryMap::new(),
            udp: SecondaryMap::new(),
            room: WaitQueue::default(),
            lookups: WaitQueue::default(),
            polled: None,
            alarms: BTreeMap::new(),
            numbers: 0,
            driver: DriverState::default(),
            wakers: Vec::new(),
            trash: Vec::new(),
            owner: Owner::program(),
            forwarded: 0,
        };
        Shared { inner: Mutex::new(inner), driver_waits: AtomicBool::new(false), clock }
    }

    /// The current time on the stack's clock.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The time `at` on the system's clock; `None` for `Instant::NEVER`, and if the stack's clock
    /// is virtual.
    pub(crate) fn system_time(&self, at: Instant) -> Option<std::time::Instant> {
        self.clock.system_time(at)
    }

    /// Begin a call.
    ///
    /// # Errors
    /// The driver is gone, or a thread panicked inside the stack.
    pub(crate) fn call(&self) -> io::Result<Call<'_>> {
        let mut call = self.lock()?;
        call.update_time();
        Ok(call)
    }

    /// Begin a round of the driver.
    ///
    /// # Errors
    /// As [`Shared::call`].
    pub(crate) fn call_of_driver(&self) -> io::Result<Call<'_>> {
        // Nothing else is published by this flag.
        self.driver_waits.store(true, Ordering::Relaxed);
        let call = self.call();
        self.driver_waits.store(false, Ordering::Relaxed);
        call
    }

    /// Does the driver wait for the lock?
    pub(crate) fn driver_waits(&self) -> bool {
        self.driver_waits.load(Ordering::Relaxed)
    }

    /// Begin a call that waits for `readiness`. A call that reads takes the time from the clock
    /// only if it has to send something, because reading the clock costs as much as the rest of a
    /// small read.
    ///
    /// # Errors
    /// As [`Shared::call`].
    pub(crate) fn call_at(&self, readiness: Readiness) -> io::Result<Call<'_>> {
        match readiness {
            Readiness::Read(_) => self.lock(),
            _ => self.call(),
        }
    }

    fn lock(&self) -> io::Result<Call<'_>> {
        let mut inner = self.inner.lock().map_err(|_| error::poisoned())?;
        if inner.driver.gone {
            return Err(error::driver_gone());
        }
        let Inner { turns, stack, .. } = &mut *inner;
        if let Some(turns) = turns {
            turns.begin(stack);
        }
        Ok(Call { shared: self, inner: Some(inner), knows_time: false })
    }

    /// The driver has ended: all waiting calls and all later ones fail.
    pub(crate) fn driver_ended(&self) {
        let Ok(mut inner) = self.inner.lock() else { return };
        inner.driver.gone = true;
        let Inner { tcp, listeners, udp, room, lookups, alarms, wakers, driver, .. } = &mut *inner;
        for socket in tcp.values_mut() {
            socket.read.take_into(wakers);
            socket.write.take_into(wakers);
        }
        listeners.values_mut().for_each(|wait_queue| wait_queue.take_into(wakers));
        udp.values_mut().for_each(|wait_queue| wait_queue.take_into(wakers));
        room.take_into(wakers);
        lookups.take_into(wakers);
        wakers.extend(core::mem::take(alarms).into_values());
        wakers.extend(driver.background.take());
        drop(Call { shared: self, inner: Some(inner), knows_time: true });
    }
}

/// How many wakers are taken out while the lock is held once. For more, the lock is taken again.
const WAKE_BATCH: usize = 16;

/// One call, which holds the lock.
pub(crate) struct Call<'a> {
    shared: &'a Shared,
    inner: Option<MutexGuard<'a, Inner>>,
    /// The stack has been given the current time.
    knows_time: bool,
}

impl Call<'_> {
    fn update_time(&mut self) {
        let now = self.shared.now();
        self.stack.set_now(now);
        self.knows_time = true;
    }
}

impl Deref for Call<'_> {
    type Target = Inner;

    #[inline(always)]
    fn deref(&self) -> &Inner {
        self.inner.as_ref().expect("the lock is held until the call is dropped")
    }
}

impl DerefMut for Call<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Inner {
        self.inner.as_mut().expect("the lock is held until the call is dropped")
    }
}

impl Call<'_> {
    /// The end of the call, while the lock is still held.
    fn end(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if !self.knows_time && self.stack.has_output() {
            self.update_time();
        }
        if self.knows_time {
            self.stack.flush();
        }
        self.settle();
        let Inner { turns, stack, .. } = &mut **self;
        if let Some(turns) = turns {
            turns.end(stack);
        }
    }

    /// End a call while the locks of other stacks are held. Appends the wakers to wake to `wakers`
    /// and those to drop to `trash`; the caller wakes and drops them once it holds no lock.
    pub(crate) fn release(mut self, wakers: &mut Vec<Waker>, trash: &mut Vec<Waker>) {
        self.end();
        if let Some(mut inner) = self.inner.take() {
            wakers.append(&mut inner.wakers);
            trash.append(&mut inner.trash);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.inner.is_none() {
            return;
        }
        self.end();
        let Some(mut inner) = self.inner.take() else { return };
        while !inner.wakers.is_empty() || !inner.trash.is_empty() {
            let count = inner.wakers.len().min(WAKE_BATCH);
            let batch: ArrayVec<Waker, WAKE_BATCH> = inner.wakers.drain(..count).collect();
            let more = !inner.wakers.is_empty();
            // Few calls have wakers to drop; taking an empty vector allocates nothing.
            let trash = core::mem::take(&mut inner.trash);
            drop(inner);
            drop(trash);
            batch.into_iter().for_each(Waker::wake);
            if !more {
                return;
            }
            match self.shared.inner.lock() {
                Ok(again) => inner = again,
                Err(_) => return,
            }
        }
    }
}

impl Inner {
    /// The end that all calls have in common, after the stack's output was flushed.
    fn settle(&mut self) {
        if self.driver.asleep_until.is_some() && self.stack.pool().holds_foreign() {
            // The next call may come much later, so return buffers that belong to a peer's pool
            // now.
            self.stack.pool().flush();
        }
        self.dispatch();
        self.call_driver_if_needed();
    }

    /// Wake the wait queues of the stack's events.
    pub(crate) fn dispatch(&mut self) {
        let mut is_polled = false;
        while let Some(event) = self.stack.next_event() {
            match event {
                Event::Tcp(handle, events) => {
                    let Some(socket) = self.tcp.get_mut(handle) else {
                        // Without a wait queue, this is a socket of a lookup or of the polled API,
                        // or a connection that its program has closed.
                        self.lookups.take_into(&mut self.wakers);
                        is_polled = true;
                        continue;
                    };
                    let news = Events::READABLE | Events::PEER_CLOSED | Events::URGENT;
                    if events.has(news | Events::CLOSED) {
                        socket.read.take_into(&mut self.wakers);
                    }
                    if events.has(Events::WRITABLE | Events::CONNECTED | Events::CLOSED) {
                        socket.write.take_into(&mut self.wakers);
                    }
                }
                Event::Accept(handle) => match self.listeners.get_mut(handle) {
                    Some(wait_queue) => wait_queue.take_into(&mut self.wakers),
                    None => is_polled = true,
                },
                Event::Udp(handle) => {
                    is_polled |= !self.udp.contains_key(handle);
                    let wait_queue = self.udp.get_mut(handle).unwrap_or(&mut self.lookups);
                    wait_queue.take_into(&mut self.wakers);
                }
                // Echo sockets, tags and datagrams for other hosts belong to the polled API.
                Event::Ping(_) | Event::Tagged(..) | Event::Foreign => is_polled = true,
                // A program that mirrors addresses reads them again.
                Event::Address(_) => is_polled = true,
                Event::OtherBroadcast(_) => {}
            }
        }
        // Punted packets have no wait queue either.
        is_polled |= self.stack.has_punted();
        if is_polled {
            self.wakers.extend(self.polled.clone());
        }
        if !self.room.is_empty() && (self.stack.found_room() || !self.stack.is_pushed_back()) {
            self.room.take_into(&mut self.wakers);
        }
    }

    /// Wake `waker` after the lock is released.
    pub(crate) fn wake(&mut self, waker: Waker) {
        self.wakers.push(waker);
    }

    /// Do not wake `own`: its thread is about to try its call again anyway.
    pub(crate) fn forget_own(&mut self, own: &Waker) {
        let Inner { wakers, trash, .. } = self;
        trash.extend(wakers.extract_if(.., |waker| waker.will_wake(own)));
    }

    /// Drop `waker` after the lock is released.
    pub(crate) fn discard(&mut self, waker: Option<Waker>) {
        self.trash.extend(waker);
    }
}

/// One attempt of a call, for a poll function.
pub(crate) fn poll_at<T>(
    shared: &Shared,
    readiness: Readiness,
    cx: &Context<'_>,
    look: impl FnOnce(&mut Inner) -> Poll<io::Result<T>>,
) -> Poll<io::Result<T>> {
    let mut call = shared.call_at(readiness)?;
    let polled = look(&mut call);
    if polled.is_pending() {
        call.wait_polled(readiness, cx);
    }
    polled
}

impl Inner {
    fn wait_queue(&mut self, readiness: Readiness) -> Option<&mut WaitQueue> {
        match readiness {
            Readiness::Read(handle) => self.tcp.get_mut(handle).map(|s| &mut s.read),
            Readiness::Write(handle) => self.tcp.get_mut(handle).map(|s| &mut s.write),
            Readiness::Accept(handle) => self.listeners.get_mut(handle),
            Readiness::Datagram(handle) => self.udp.get_mut(handle),
            Readiness::Room => Some(&mut self.room),
            Readiness::Lookup => Some(&mut self.lookups),
        }
    }

    /// Wake `waker` once `readiness` may have come. The wait keeps its number `id`, or gets a new
    /// one.
    pub(crate) fn wait(&mut self, readiness: Readiness, id: &mut Option<u64>, waker: &Waker) {
        let id = *id.get_or_insert_with(|| {
            self.numbers += 1;
            self.numbers
        });
        let old = self.wait_queue(readiness).and_then(|wait_queue| wait_queue.set(id, waker));
        self.discard(old);
    }

    /// [`Inner::wait`] for a poll function: `cx`'s waker replaces that of the last poll for
    /// `readiness`.
    pub(crate) fn wait_polled(&mut self, readiness: Readiness, cx: &Context<'_>) {
        let old =
            self.wait_queue(readiness).and_then(|wait_queue| wait_queue.set_polled(cx.waker()));
        self.discard(old);
    }

    /// Remove the waker of wait `id` from its wait queue.
    pub(crate) fn leave(&mut self, readiness: Readiness, id: Option<u64>) {
        let old = id.and_then(|id| self.wait_queue(readiness)?.remove(id));
        self.discard(old);
    }

    /// Drop the wakers of a socket that was removed.
    pub(crate) fn forget(&mut self, mut wait_queue: WaitQueue) {
        wait_queue.take_into(&mut self.trash);
    }

    /// Wake `waker` at the time `at`. Returns the key for [`Inner::cancel_alarm`].
    pub(crate) fn alarm(&mut self, at: Instant, waker: &Waker) -> (Instant, u64) {
        self.numbers += 1;
        let key = (at, self.numbers);
        self.alarms.insert(key, waker.clone());
        key
    }

    /// Cancel an alarm.
    pub(crate) fn cancel_alarm(&mut self, key: (Instant, u64)) {
        let old = self.alarms.remove(&key);
        self.discard(old);
    }

    /// Wake the alarms that are due.
    pub(crate) fn ring_alarms(&mut self, now: Instant) {
        while let Some(entry) = self.alarms.first_entry()
            && entry.key().0 <= now
        {
            let waker = entry.remove();
            self.wakers.push(waker);
        }
    }

    /// When the driver has to run at the latest, even if nothing is received.
    pub(crate) fn next_deadline(&self) -> Instant {
        let alarm = self.alarms.first_key_value().map_or(Instant::NEVER, |(&(at, _), _)| at);
        self.stack.next_deadline().min(alarm)
    }
}
