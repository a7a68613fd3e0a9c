//! The calls that wait for sockets, packets and time.
//!
//! Called by: packetdrill, through `interface.rs`. The safety contract is that of `entry/mod.rs`.

use core::ffi::{c_int, c_longlong, c_uint, c_void};

use base::Duration;
use libc::{epoll_event, nfds_t, pollfd, size_t, timeval};
use rustix::io::Errno;

use super::Data;
use super::{answer, done, input, room, within, world};
use crate::file::{Epoll, File};
use crate::{epoll, ready};

/// Maximum descriptors of one `poll`.
const WATCHED_MAX: usize = 4096;

pub(crate) unsafe extern "C" fn poll(
    data: Data,
    fds: *mut pollfd,
    count: nfds_t,
    timeout_ms: c_int,
) -> c_int {
    if count as usize > WATCHED_MAX {
        return done(Err(Errno::INVAL));
    }
    // SAFETY: the contract of `entry/mod.rs`.
    let (world, fds) = unsafe { (world(data), room(fds, count as usize)) };
    let Ok(fds) = fds else { return done(Err(Errno::INVAL)) };
    let outcome = world.wait(within(timeout_ms), |state| ready::poll(state, fds));
    answer(none_in_time(outcome))
}

/// Turns a timeout, which is not an error here, into a count of 0.
fn none_in_time(outcome: crate::Call<usize>) -> crate::Call<usize> {
    match outcome {
        Err(Errno::AGAIN) => Ok(0),
        other => other,
    }
}

pub(crate) unsafe extern "C" fn epoll_create(data: Data, size: c_int) -> c_int {
    // SAFETY: the contract of `entry/mod.rs`.
    let world = unsafe { world(data) };
    if size <= 0 {
        return done(Err(Errno::INVAL));
    }
    answer(world.call(|state| state.add(File::Epoll(Epoll::default()))))
}

pub(crate) unsafe extern "C" fn epoll_ctl(
    data: Data,
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: the contract of `entry/mod.rs`.
    let world = unsafe { world(data) };
    // SAFETY: as above; the structure is packed, so it is copied.
    let event = (!event.is_null()).then(|| unsafe { event.read_unaligned() });
    let wanted = event.map(|event| (event.events, event.u64));
    done(world.call(|state| epoll::control(state, epfd, op, fd, wanted)))
}

pub(crate) unsafe extern "C" fn epoll_wait(
    data: Data,
    epfd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
) -> c_int {
    let Some(most) = usize::try_from(most).ok().filter(|&n| n > 0 && !events.is_null()) else {
        return done(Err(Errno::INVAL));
    };
    // SAFETY: the contract of `entry/mod.rs`.
    let world = unsafe { world(data) };
    let found = world.wait(within(timeout_ms), |state| epoll::wait(state, epfd, most));
    if let Ok(found) = &found {
        for (index, &(events_found, word)) in found.iter().enumerate() {
            let event = epoll_event { events: events_found, u64: word };
            // SAFETY: the caller has room for `most` events, and `wait` returns at most that many.
            unsafe { events.add(index).write_unaligned(event) };
        }
    }
    answer(none_in_time(found.map(|found| found.len())))
}

pub(crate) unsafe extern "C" fn netdev_send(
    data: Data,
    packet: *const c_void,
    len: size_t,
) -> c_int {
    // SAFETY: the contract of `entry/mod.rs`.
    let (world, packet) = unsafe { (world(data), input(packet, len)) };
    done(packet.and_then(|packet| world.netdev_send(packet)))
}

/// A length of 0 means that no packet will ever come.
pub(crate) unsafe extern "C" fn netdev_receive(
    data: Data,
    packet: *mut c_void,
    len: *mut size_t,
    time_us: *mut c_longlong,
) -> c_int {
    if packet.is_null() || len.is_null() || time_us.is_null() {
        return done(Err(Errno::FAULT));
    }
    // SAFETY: the contract of `entry/mod.rs`.
    let world = unsafe { world(data) };
    let received = world.netdev_receive();
    // SAFETY: the caller has `*len` bytes of room, and the two numbers.
    unsafe {
        let (time, bytes) = received.unwrap_or_default();
        let n = bytes.len().min(*len);
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), packet.cast::<u8>(), n);
        *len = n;
        *time_us = time as c_longlong;
    }
    0
}

pub(crate) unsafe extern "C" fn usleep(data: Data, time_us: c_uint) -> c_int {
    // SAFETY: the contract of `entry/mod.rs`.
    let world = unsafe { world(data) };
    world.usleep(Duration::from_micros(u64::from(time_us)));
    0
}

pub(crate) unsafe extern "C" fn gettimeofday(
    data: Data,
    time: *mut timeval,
    _zone: *mut c_void,
) -> c_int {
    // SAFETY: the contract of `entry/mod.rs`.
    let world = unsafe { world(data) };
    let now_us = world.time_us();
    if !time.is_null() {
        let tv_sec = (now_us / 1_000_000) as libc::time_t;
        let tv_usec = (now_us % 1_000_000) as libc::suseconds_t;
        // SAFETY: the caller has room for the structure.
        unsafe { time.write(timeval { tv_sec, tv_usec }) };
    }
    0
}
