//! What waits for news of a socket: threads in calls, and the queue of `ws_events`.
//!
//! Called by: the stack's wake-ups (each socket has one waker, [`News`]), and calls that wait.
//! Byte streams wait in `net`, which drives the stack while it waits; all other calls wait here,
//! where `ws_close` wakes them.

use core::ffi::{c_short, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::error::{Call, Error};
use crate::queue::Queue;

/// The queue for news of one socket.
pub(crate) struct News {
    socket: i64,
    queue: Arc<Queue>,
    /// The socket is in the queue.
    is_queued: AtomicBool,
    is_closed: AtomicBool,
    ears: Mutex<Ears>,
}

#[derive(Default)]
struct Ears {
    /// Threads in calls, by the number of their wait.
    threads: Vec<(u64, Thread)>,
    waits: u64,
    watch: Option<Watch>,
}

/// What `ws_watch` asked for.
#[derive(Clone, Copy)]
pub(crate) struct Watch {
    pub(crate) events: c_short,
    pub(crate) user: *mut c_void,
}

// SAFETY: `user` is the program's, and only handed back to it.
unsafe impl Send for Watch {}

impl News {
    pub(crate) fn new(socket: i64, queue: &Arc<Queue>) -> Arc<News> {
        Arc::new(News {
            socket,
            queue: queue.clone(),
            is_queued: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            ears: Mutex::default(),
        })
    }

    fn ears(&self) -> MutexGuard<'_, Ears> {
        // Nothing panics while it holds this lock, so poisoning can be ignored.
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self) -> Option<Watch> {
        self.ears().watch
    }

    pub(crate) fn set_watch(&self, watch: Option<Watch>) {
        self.ears().watch = watch;
    }

    /// Wake the threads, and put the socket into the queue if it is watched.
    pub(crate) fn wake_all(&self) {
        let is_watched = {
            let ears = self.ears();
            ears.threads.iter().for_each(|(_, thread)| thread.unpark());
            ears.watch.is_some()
        };
        if is_watched && !self.is_queued.swap(true, Ordering::AcqRel) {
            self.queue.push(self.socket);
        }
    }

    /// The socket was taken out of the queue; news from here on put it back.
    pub(crate) fn leaves_queue(&self) {
        self.is_queued.store(false, Ordering::Release);
    }

    /// The socket's handle is gone: nobody watches it, and calls that wait return.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.set_watch(None);
        self.wake_all();
        if self.is_queued.load(Ordering::Acquire) {
            self.queue.has_stale(self.socket);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn enter(&self) -> u64 {
        let mut ears = self.ears();
        ears.waits += 1;
        let wait = ears.waits;
        ears.threads.push((wait, std::thread::current()));
        wait
    }

    fn leave(&self, wait: u64) {
        self.ears().threads.retain(|&(other, _)| other != wait);
    }
}

impl Wake for News {
    fn wake(self: Arc<News>) {
        self.wake_all();
    }

    fn wake_by_ref(self: &Arc<News>) {
        self.wake_all();
    }
}

/// A thread that listens to sockets; dropping it ends that.
struct Listening<'a>(Vec<(&'a News, u64)>);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|(news, wait)| news.leave(*wait));
    }
}

/// Wait until `look` returns something, which it is asked for after each news of one of the
/// sockets; `None` at the time `until`. The stacks of the sockets must have threads.
pub(crate) fn wait<T>(
    sockets: &[&News],
    until: Option<Instant>,
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    if let Some(found) = look() {
        return Some(found);
    }
    if until.is_some_and(|until| until <= Instant::now()) {
        return None;
    }
    let _listening = Listening(sockets.iter().map(|news| (*news, news.enter())).collect());
    loop {
        // The thread listens already, so news that come from here on end the sleep.
        if let Some(found) = look() {
            return Some(found);
        }
        match until.map(|until| until.saturating_duration_since(Instant::now())) {
            None => std::thread::park(),
            Some(Duration::ZERO) => return None,
            Some(left) => std::thread::park_timeout(left),
        }
    }
}

/// [`wait`] for one socket: until `attempt` does not fail with "try again". A socket that cannot
/// wait, or must not, returns that error.
pub(crate) fn wait_for<T>(
    news: &Arc<News>,
    may_wait: bool,
    timeout: Option<Duration>,
    mut attempt: impl FnMut(&Waker) -> Call<T>,
) -> Call<T> {
    let waker = Waker::from(news.clone());
    let mut look = || match attempt(&waker) {
        Err(error) if error.number == libc::EAGAIN => match news.is_closed() {
            true => Some(Err(Error::stale())),
            false => None,
        },
        other => Some(other),
    };
    if !may_wait {
        return look().unwrap_or_else(|| Err(Error::again()));
    }
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    wait(&[news], until, look).unwrap_or_else(|| Err(Error::again()))
}
