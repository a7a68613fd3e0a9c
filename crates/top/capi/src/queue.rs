//! The queue of sockets that may have news, and the descriptor that says so.
//!
//! Called by: `news.rs`, which puts sockets into it; `events.rs`, which takes them out; a polled
//! stack, which is woken by the same descriptor. Each watched socket is in the queue at most once.

use core::ffi::c_int;
use core::task::Waker;
use std::collections::{HashSet, VecDeque};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use device::Alarm;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::error::Call;

/// Closed sockets that may be in a queue, if not half of it is.
const STALE_MAX: usize = 64;

/// The queue of a stack, and its descriptor.
pub(crate) struct Queue {
    alarm: Alarm,
    waiting: Mutex<Waiting>,
    /// Of a polled stack alone.
    polled: Option<Polled>,
}

/// The sockets that wait in a queue.
#[derive(Default)]
struct Waiting {
    /// Each with its number, in order.
    sockets: VecDeque<(u64, i64)>,
    /// The number of the next one.
    next: u64,
    /// Those that were closed.
    stale: HashSet<i64>,
}

/// What a polled stack's descriptor waits for, beside the queue.
struct Polled {
    driver: Arc<DriverBell>,
    waker: Waker,
    all: OwnedFd,
    /// The descriptor of the devices that `all` contains.
    devices: Mutex<Option<Arc<OwnedFd>>>,
}

/// Rung when the stack wants to be polled.
struct DriverBell {
    alarm: Alarm,
    is_rung: AtomicBool,
}

impl Wake for DriverBell {
    fn wake(self: Arc<DriverBell>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<DriverBell>) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            self.alarm.waker().wake_by_ref();
        }
    }
}

impl Queue {
    pub(crate) fn new(is_polled: bool) -> Call<Arc<Queue>> {
        let alarm = Alarm::new()?;
        let polled = if is_polled { Some(Polled::new(&alarm)?) } else { None };
        Ok(Arc::new(Queue { alarm, waiting: Mutex::default(), polled }))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it holds this lock, so poisoning can be ignored.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Put a socket into the queue.
    pub(crate) fn push(&self, socket: i64) {
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.sockets.push_back((number, socket));
        if waiting.sockets.len() == 1 {
            self.alarm.waker().wake_by_ref();
        }
    }

    /// A socket in the queue was closed. The queue leaves such sockets out when there are many, so
    /// that it does not grow in a program that never takes them.
    pub(crate) fn has_stale(&self, socket: i64) {
        let waiting = &mut *self.waiting();
        waiting.stale.insert(socket);
        if waiting.stale.len() > STALE_MAX.max(waiting.sockets.len() / 2) {
            waiting.sockets.retain(|(_, socket)| !waiting.stale.contains(socket));
            waiting.stale.clear();
        }
    }

    /// The descriptor to wait for.
    pub(crate) fn descriptor(&self) -> c_int {
        match &self.polled {
            Some(polled) => polled.all.as_raw_fd(),
            None => self.alarm.as_fd().as_raw_fd(),
        }
    }

    /// The waker that a polled stack is stepped with.
    pub(crate) fn waker_of_driver(&self) -> &Waker {
        self.polled.as_ref().map_or(Waker::noop(), |polled| &polled.waker)
    }

    pub(crate) fn silence_driver(&self) {
        if let Some(polled) = &self.polled {
            polled.driver.alarm.silence();
            polled.driver.is_rung.store(false, Ordering::Release);
        }
    }

    pub(crate) fn driver_is_woken(&self) -> bool {
        self.polled.as_ref().is_some_and(|polled| polled.driver.is_rung.load(Ordering::Acquire))
    }

    /// Wait for this descriptor of devices from now on, and for no other.
    pub(crate) fn follow(&self, descriptor: Option<&Arc<OwnedFd>>) {
        let Some(polled) = &self.polled else { return };
        let mut devices = polled.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = match (&*devices, descriptor) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return;
        }
        // An error here means that the system has no memory: the program then polls by its
        // deadlines alone.
        if let Some(old) = devices.take() {
            let _ = epoll::delete(&polled.all, &*old);
        }
        if let Some(new) = descriptor {
            let _ = epoll::add(&polled.all, &**new, EventData::new_u64(0), EventFlags::IN);
        }
        *devices = descriptor.cloned();
    }

    /// Begin to take out the sockets that are there; returns where they end.
    pub(crate) fn begin(&self) -> u64 {
        self.alarm.silence();
        self.waiting().next
    }

    /// The next socket before this end. One that went back into the queue is behind it.
    pub(crate) fn pop(&self, end: u64) -> Option<i64> {
        let mut waiting = self.waiting();
        let (_, socket) = waiting.sockets.pop_front_if(|&mut (number, _)| number < end)?;
        waiting.stale.remove(&socket);
        Some(socket)
    }

    /// End taking sockets out: the descriptor stays readable if there are more.
    pub(crate) fn end(&self) {
        if !self.waiting().sockets.is_empty() {
            self.alarm.waker().wake_by_ref();
        }
    }
}

impl Polled {
    fn new(alarm: &Alarm) -> Call<Polled> {
        let driver = DriverBell { alarm: Alarm::new()?, is_rung: AtomicBool::new(false) };
        let driver = Arc::new(driver);
        let system = std::io::Error::from;
        let all = epoll::create(CreateFlags::CLOEXEC).map_err(system)?;
        for fd in [alarm.as_fd(), driver.alarm.as_fd()] {
            epoll::add(&all, fd, EventData::new_u64(0), EventFlags::IN).map_err(system)?;
        }
        let waker = Waker::from(driver.clone());
        Ok(Polled { driver, waker, all, devices: Mutex::new(None) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_sockets_do_not_pile_up() {
        let queue = Queue::new(false).expect("a descriptor");
        queue.push(1);
        for socket in 2..10_000 {
            queue.push(socket);
            queue.has_stale(socket);
        }
        assert!(queue.waiting().sockets.len() <= STALE_MAX + 1);
        assert!(queue.waiting().stale.len() <= STALE_MAX);
        let end = queue.begin();
        queue.push(1);
        let taken: Vec<i64> = core::iter::from_fn(|| queue.pop(end)).collect();
        assert_eq!(taken.iter().filter(|&&socket| socket == 1).count(), 1);
        assert_eq!(queue.waiting().sockets.len(), 1);
        assert!(queue.waiting().stale.is_empty());
    }
}
