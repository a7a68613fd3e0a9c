//! The functions to which the interface's pointers point. They turn C's arguments into slices and
//! numbers, results into C's return values, and errors into the caller's `errno`.
//!
//! Called by: packetdrill, through `interface.rs`. Nothing here panics: a panic in a function with
//! C linkage would abort the program.
//!
//! # Safety
//! All of these functions have the same contract, that of the interface: `userdata` is the pointer
//! that `packetdrill_interface_init` returned and is not yet freed, and the other pointers are
//! those that the C function of the same name takes. Wherever a script can pass null, the function
//! checks for it.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "one contract, at the head of the file")]

mod bytes;
mod watch;

pub(super) use bytes::*;
pub(super) use watch::*;

use core::ffi::{c_int, c_long, c_ulong, c_void};

use base::Instant;
use libc::{sockaddr, socklen_t};
use rustix::io::Errno;

use super::world::{State, Wait, World};
use super::{Call, address, control, options, served, socket};

/// The interface's `userdata`.
pub(super) type Data = *mut c_void;

/// The world that `userdata` points to.
unsafe fn world<'a>(data: Data) -> &'a World {
    // SAFETY: the contract of this file: `data` is a `World` that lives until `free`.
    unsafe { &*data.cast::<World>() }
}

/// The C return value. An error sets the caller's `errno`.
fn answer<T: TryInto<R>, R: From<i8>>(outcome: Call<T>) -> R {
    let errno = match outcome {
        Ok(value) => match value.try_into() {
            Ok(value) => return value,
            Err(_) => Errno::OVERFLOW,
        },
        Err(errno) => errno,
    };
    set_errno(errno);
    R::from(-1)
}

/// 0, or -1 with `errno` set.
fn done(outcome: Call<()>) -> c_int {
    answer(outcome.map(|()| 0))
}

fn set_errno(errno: Errno) {
    // SAFETY: libc always has an `errno` for the calling thread.
    unsafe { *libc::__errno_location() = errno.raw_os_error() };
}

/// The wait for a C timeout in milliseconds. A negative timeout waits for ever.
fn within(timeout_ms: c_int) -> impl FnOnce(&State) -> Wait {
    move |state| match u64::try_from(timeout_ms) {
        Err(_) => Wait::Forever,
        Ok(0) => Wait::No,
        Ok(ms) => Wait::Until(later(state.now, ms)),
    }
}

fn later(now: Instant, ms: u64) -> Instant {
    now + base::Duration::from_millis(ms)
}

pub(super) unsafe extern "C" fn free(data: Data) {
    served::end();
    // SAFETY: made by `Box::into_raw` in `packetdrill_interface_init`, and freed once.
    drop(unsafe { Box::from_raw(data.cast::<World>()) });
}

pub(super) unsafe extern "C" fn socket(
    data: Data,
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> c_int {
    // SAFETY: the contract of this file.
    let world = unsafe { world(data) };
    answer(world.call(|state| socket::create(state, domain, kind, protocol)))
}

pub(super) unsafe extern "C" fn bind(
    data: Data,
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: the contract of this file.
    let (world, local) = unsafe { (world(data), address::read(addr, len)) };
    done(local.and_then(|local| world.call(|state| socket::bind(state, fd, local))))
}

pub(super) unsafe extern "C" fn listen(data: Data, fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: the contract of this file.
    let world = unsafe { world(data) };
    done(world.call(|state| socket::listen(state, fd, backlog)))
}

pub(super) unsafe extern "C" fn accept(
    data: Data,
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the contract of this file.
    let world = unsafe { world(data) };
    let wait = |state: &State| state.wait_to_read(fd, 0);
    let accepted = world.wait(wait, |state| socket::accept(state, fd));
    if let Ok((_, domain, peer)) = accepted {
        // SAFETY: the contract of this file.
        unsafe { address::write(peer, domain, addr, len) };
    }
    answer(accepted.map(|(fd, ..)| fd))
}

pub(super) unsafe extern "C" fn connect(
    data: Data,
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: the contract of this file.
    let (world, remote) = unsafe { (world(data), address::read(addr, len)) };
    // SAFETY: the contract of this file; the function checks for null.
    if unsafe { address::is_unspecified(addr, len) } {
        return done(world.call(|state| socket::disconnect(state, fd)));
    }
    let mut began = false;
    let outcome = remote.and_then(|remote| {
        let wait = |state: &State| state.wait_to_write(fd, 0);
        world.wait(wait, |state| socket::connect(state, fd, remote, &mut began))
    });
    done(outcome.map_err(|errno| match errno {
        Errno::AGAIN => socket::connect_pending(began),
        other => other,
    }))
}

pub(super) unsafe extern "C" fn fcntl(
    data: Data,
    fd: c_int,
    command: c_int,
    value: c_long,
) -> c_int {
    // SAFETY: the contract of this file.
    let world = unsafe { world(data) };
    answer(world.call(|state| control::fcntl(state, fd, command, value as c_int)))
}

pub(super) unsafe extern "C" fn ioctl(
    data: Data,
    fd: c_int,
    request: c_ulong,
    into: *mut c_int,
) -> c_int {
    // SAFETY: the contract of this file.
    let world = unsafe { world(data) };
    done(world.call(|state| control::ioctl(state, fd, request)).and_then(|value| {
        if into.is_null() {
            return Err(Errno::FAULT);
        }
        // SAFETY: the requests that succeed take a pointer to an int.
        unsafe { into.write(value) };
        Ok(())
    }))
}

pub(super) unsafe extern "C" fn close(data: Data, fd: c_int) -> c_int {
    // SAFETY: the contract of this file.
    let world = unsafe { world(data) };
    done(world.call(|state| socket::close(state, fd)))
}

pub(super) unsafe extern "C" fn shutdown(data: Data, fd: c_int, how: c_int) -> c_int {
    // SAFETY: the contract of this file.
    let world = unsafe { world(data) };
    done(world.call(|state| socket::shutdown(state, fd, how)))
}

pub(super) unsafe extern "C" fn getsockopt(
    data: Data,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the contract of this file.
    let world = unsafe { world(data) };
    let outcome = world.call(|state| options::get(state, fd, level, name));
    // SAFETY: the contract of this file.
    done(outcome.and_then(|bytes| unsafe { give(&bytes, value, len) }))
}

/// Copy as much of an option's value as fits to the caller, and set `len` to the bytes copied.
pub(super) unsafe fn give(bytes: &[u8], value: *mut c_void, len: *mut socklen_t) -> Call<()> {
    if value.is_null() || len.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: the caller has `*len` bytes at `value`, by the contract of this file.
    let (into, len) = unsafe { (room(value.cast::<u8>(), *len as usize)?, &mut *len) };
    let n = into.len().min(bytes.len());
    into[..n].copy_from_slice(&bytes[..n]);
    *len = n as socklen_t;
    Ok(())
}

pub(super) unsafe extern "C" fn setsockopt(
    data: Data,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: the contract of this file.
    let (world, value) = unsafe { (world(data), input(value, len as usize)) };
    done(value.and_then(|value| world.call(|state| options::set(state, fd, level, name, value))))
}

pub(super) unsafe extern "C" fn pipe(data: Data, ends: *mut c_int) -> c_int {
    let _ = data;
    if ends.is_null() {
        return done(Err(Errno::FAULT));
    }
    // These are real descriptors: packetdrill itself reads, writes and closes them.
    done(rustix::pipe::pipe().map(|(read, write)| {
        use std::os::fd::IntoRawFd;
        // SAFETY: the caller has room for two numbers.
        unsafe {
            ends.write(read.into_raw_fd());
            ends.add(1).write(write.into_raw_fd());
        }
    }))
}
