//! Waiting for many sockets: `ws_poll`, as poll(2), and a descriptor with a queue of news, as
//! epoll(7).
//!
//! Called by: programs. The queue has each watched socket at most once. A socket with news stays in
//! it until `ws_events` finds none (level-triggered, as epoll's default).

use core::ffi::{c_int, c_short, c_void};
use core::task::Waker;
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::{Duration, Instant};

use device::Alarm;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::error::{Call, Error};
use crate::news::{Watch, wait};
use crate::socket::Socket;
use crate::types::{WS_IN, WS_OUT, WS_STALE, ws_event, ws_pollfd, ws_sock, ws_stack};
use crate::{entry, handles, memory};

/// The most sockets of one `ws_poll`.
const POLL_MAX: usize = 1 << 20;

/// The queue of a stack, and its descriptor.
pub(crate) struct Events {
    alarm: Alarm,
    queue: Mutex<VecDeque<i64>>,
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

impl Events {
    pub(crate) fn new(is_polled: bool) -> Call<Events> {
        let alarm = Alarm::new()?;
        let polled = if is_polled { Some(Polled::new(&alarm)?) } else { None };
        Ok(Events { alarm, queue: Mutex::default(), polled })
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<i64>> {
        // Nothing panics while it holds this lock, so poisoning can be ignored.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Put a socket into the queue.
    pub(crate) fn push(&self, socket: i64) {
        let mut queue = self.queue();
        queue.push_back(socket);
        if queue.len() == 1 {
            self.alarm.waker().wake_by_ref();
        }
    }

    fn descriptor(&self) -> c_int {
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

    /// Take news out of the queue. Sockets with news go back into it, behind the others.
    fn take(&self, into: &mut [ws_event]) -> usize {
        self.alarm.silence();
        let (waiting, mut found) = (self.queue().len(), 0);
        for _ in 0..waiting {
            if found == into.len() {
                break;
            }
            let Some(handle) = self.queue().pop_front() else { break };
            // A socket that was closed since then is not reported.
            let Ok(socket) = handles::socket(handle) else { continue };
            socket.news.is_queued.store(false, Ordering::Release);
            let Some(Watch { events: wanted, user }) = socket.news.watch() else { continue };
            let events = socket.ready(wanted);
            if events != 0 {
                into[found] = ws_event { socket: handle, user, events };
                found += 1;
                socket.news.wake_all();
            }
        }
        if !self.queue().is_empty() {
            self.alarm.waker().wake_by_ref();
        }
        found
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

/// A descriptor of the system for epoll(7), poll(2) and event loops; it belongs to the stack, and
/// nothing but waiting is done with it. It is readable while watched sockets (ws_watch()) may have
/// news: call ws_events() then. That of a polled stack is also readable when the stack wants to be
/// polled, because a frame came to one of its ports with a descriptor or a call needs it: call
/// ws_stack_poll() then, and ws_events().
///
/// Returns the descriptor; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_stack_fd(stack: ws_stack) -> c_int {
    entry::number(|| Ok(handles::stack(stack)?.events.descriptor()))
}

/// Watch a socket: ws_events() reports it while it has what events asks for, WS_IN, WS_OUT or both;
/// 0 ends the watch. user comes back with the news. A later call replaces an earlier one.
///
/// Returns 0; -EINVAL if events has other bits, -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_watch(socket: ws_sock, events: c_short, user: *mut c_void) -> c_int {
    entry::status(|| {
        let socket = handles::socket(socket)?;
        if events & !(WS_IN | WS_OUT) != 0 {
            return Err(Error::invalid("a socket is watched for WS_IN, WS_OUT or both"));
        }
        let watch = (events != 0).then_some(Watch { events, user });
        socket.news.set_watch(watch);
        // What is there already is news too.
        socket.news.wake_all();
        Ok(())
    })
}

/// Take the news of the stack's watched sockets, at most count, and store them in events. Does not
/// wait. A socket is reported again while it has news (level-triggered).
///
/// Returns how many were stored; -EFAULT if events is NULL and count is not 0; -EINVAL if count is
/// beyond the address space; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_events(stack: ws_stack, events: *mut ws_event, count: usize) -> i64 {
    entry::call(|| {
        let stack = handles::stack(stack)?;
        // SAFETY: the caller's array.
        let into = unsafe { memory::entries(events, count, "the events") }?;
        Ok(stack.events.take(into) as i64)
    })
}

/// Wait until one of count sockets has what its events ask for, for at most timeout_ms milliseconds;
/// 0 does not wait, a negative time waits without end. The sockets may be of several stacks. Sockets
/// of a stack without a thread are looked at, and not waited for.
///
/// Returns how many entries have revents that are not 0; 0 after the time; -EFAULT if sockets is
/// NULL and count is not 0; -EINVAL if count is beyond 1,048,576.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_poll(
    sockets: *mut ws_pollfd,
    count: usize,
    timeout_ms: c_int,
) -> c_int {
    entry::number(|| {
        if count > POLL_MAX {
            return Err(Error::invalid("ws_poll() takes 1,048,576 sockets at most"));
        }
        // SAFETY: the caller's array.
        let asked = unsafe { memory::entries(sockets, count, "the sockets") }?;
        poll(asked, timeout_ms)
    })
}

fn poll(asked: &mut [ws_pollfd], timeout_ms: c_int) -> Call<c_int> {
    let found: Vec<Option<Arc<Socket>>> =
        asked.iter().map(|entry| handles::socket(entry.socket).ok()).collect();
    let present: Vec<&Socket> = found.iter().flatten().map(|socket| &**socket).collect();
    let may_wait = present.iter().all(|socket| socket.stack().may_wait());
    let mut look = || {
        let mut count = 0;
        for (entry, socket) in asked.iter_mut().zip(&found) {
            entry.revents = match socket {
                _ if entry.socket < 0 => 0,
                Some(socket) if socket.is_closed() => WS_STALE,
                Some(socket) => socket.ready(entry.events),
                None => WS_STALE,
            };
            count += c_int::from(entry.revents != 0);
        }
        (count > 0).then_some(count)
    };
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    if !may_wait || timeout_ms == 0 {
        return Ok(look().unwrap_or(0));
    }
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    Ok(wait(&present, until, look).unwrap_or(0))
}
