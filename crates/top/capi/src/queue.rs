//! The queue of sockets that may have news, and the descriptor that says so.
//!
//! Called by: `news.rs`, which puts sockets into it; `events.rs`, which takes them out; a polled
//! stack, which is woken by the same descriptor. Each watched socket is in the queue at most once.

use core::ffi::c_int;
use core::task::Waker;
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use device::Alarm;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::error::Call;

/// The queue of a stack, and its descriptor.
pub(crate) struct Queue {
    alarm: Alarm,
    sockets: Mutex<VecDeque<i64>>,
    /// Of a polled stack alone.
    polled: Option<Polled>,
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
        Ok(Arc::new(Queue { alarm, sockets: Mutex::default(), polled }))
    }

    fn sockets(&self) -> MutexGuard<'_, VecDeque<i64>> {
        // Nothing panics while it holds this lock, so poisoning can be ignored.
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Put a socket into the queue.
    pub(crate) fn push(&self, socket: i64) {
        let mut sockets = self.sockets();
        sockets.push_back(socket);
        if sockets.len() == 1 {
            self.alarm.waker().wake_by_ref();
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

    /// Begin to take sockets out; returns how many there are.
    pub(crate) fn begin(&self) -> usize {
        self.alarm.silence();
        self.sockets().len()
    }

    /// The next socket.
    pub(crate) fn pop(&self) -> Option<i64> {
        self.sockets().pop_front()
    }

    /// End taking sockets out: the descriptor stays readable if there are more.
    pub(crate) fn end(&self) {
        if !self.sockets().is_empty() {
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
