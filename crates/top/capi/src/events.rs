//! Waiting for many sockets: `ws_poll`, as poll(2), and a descriptor with a queue of news, as
//! epoll(7).
//!
//! Called by: programs. A socket with news stays in the queue (`queue.rs`) until `ws_events` finds
//! none (level-triggered, as epoll's default).

use core::ffi::{c_int, c_short, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Call, Error};
use crate::news::{News, Watch, wait};
use crate::queue::Queue;
use crate::socket::Socket;
use crate::types::{WS_IN, WS_OUT, WS_STALE, ws_event, ws_pollfd, ws_sock, ws_stack};
use crate::{entry, handles, memory};

/// The most sockets of one `ws_poll`.
const POLL_MAX: usize = 1 << 20;

/// Take news out of the queue. Sockets with news go back into it, behind the others.
fn take(queue: &Queue, into: &mut [ws_event]) -> usize {
    let (end, mut found) = (queue.begin(), 0);
    while found < into.len() {
        let Some(handle) = queue.pop(end) else { break };
        // A socket that was closed since then is not reported.
        let Ok(socket) = handles::socket(handle) else { continue };
        socket.news.leaves_queue();
        let Some(Watch { events: wanted, user }) = socket.news.watch() else { continue };
        let events = socket.ready(wanted);
        if events != 0 {
            into[found] = ws_event { socket: handle, user, events };
            found += 1;
            socket.news.wake_all();
        }
    }
    queue.end();
    found
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
    entry::number(|| Ok(handles::stack(stack)?.queue.descriptor()))
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
        Ok(take(&stack.queue, into) as i64)
    })
}

/// Wait until one of count sockets has what its events ask for, for at most timeout_ms
/// milliseconds; 0 does not wait, a negative time waits without end. The sockets may be of several
/// stacks. Sockets of a stack without a thread are looked at, and not waited for.
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
    let may_wait = found.iter().flatten().all(|socket| socket.stack().may_wait());
    let present: Vec<&News> = found.iter().flatten().map(|socket| &*socket.news).collect();
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
