//! The calls that move data: `read` to `recvmsg`, `write` to `sendmsg`, `splice`.
//!
//! Called by: packetdrill, through `interface.rs`. The safety contract is that of `entry/mod.rs`.

use core::ffi::{c_int, c_uint, c_void};
use core::net::SocketAddr;
use std::os::fd::BorrowedFd;

use libc::{MSG_ERRQUEUE, MSG_TRUNC, iovec, loff_t, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use rustix::io::Errno;

use super::Data;
use super::{answer, world};
use crate::transfer::Found;
use crate::world::{State, World};
use crate::{Call, address, transfer};

/// Maximum bytes that one call moves.
const CALL_MAX: usize = 1 << 30;
/// `UIO_MAXIOV`.
const PIECES_MAX: usize = 1024;
/// Maximum bytes that one `splice` moves: the capacity of a pipe.
const SPLICE_MAX: usize = 65_536;

/// Are there values to access? A null pointer with a count above 0 is `EFAULT`, as scripts expect.
fn is_any(is_null: bool, count: usize) -> Call<bool> {
    if is_null && count > 0 { Err(Errno::FAULT) } else { Ok(count > 0) }
}

/// `count` values in the caller's memory, for reading.
unsafe fn values<'a, T>(at: *const T, count: usize) -> Call<&'a [T]> {
    if !is_any(at.is_null(), count)? {
        return Ok(&[]);
    }
    // SAFETY: the caller has `count` values there and does not change them during the call.
    Ok(unsafe { core::slice::from_raw_parts(at, count) })
}

/// `count` values in the caller's memory, for writing.
pub(super) unsafe fn room<'a, T>(at: *mut T, count: usize) -> Call<&'a mut [T]> {
    if !is_any(at.is_null(), count)? {
        return Ok(&mut []);
    }
    // SAFETY: the caller has `count` values there, and no other code uses them during the call.
    Ok(unsafe { core::slice::from_raw_parts_mut(at, count) })
}

/// The caller's bytes, for reading.
pub(super) unsafe fn input<'a>(bytes: *const c_void, len: usize) -> Call<&'a [u8]> {
    // SAFETY: as `values`.
    unsafe { values(bytes.cast::<u8>(), len.min(CALL_MAX)) }
}

/// The caller's buffer, for writing.
unsafe fn output<'a>(bytes: *mut c_void, len: usize) -> Call<&'a mut [u8]> {
    // SAFETY: as `room`.
    unsafe { room(bytes.cast::<u8>(), len.min(CALL_MAX)) }
}

/// The elements of an iovec array.
unsafe fn pieces<'a>(iov: *const iovec, count: usize) -> Call<&'a [iovec]> {
    if count > PIECES_MAX && !iov.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: as `values`.
    unsafe { values(iov, count) }
}

/// The common part of `read` and its variants: waits until there is data.
fn take(world: &World, fd: c_int, into: &mut [u8], flags: c_int) -> Call<Found> {
    let wait = |state: &State| state.wait_to_read(fd, flags);
    match world.wait(wait, |state| transfer::read(state, fd, into, flags)) {
        // The time is over: take the data that has arrived, although it is less than the call
        // waited for.
        Err(Errno::AGAIN) => {
            let flags = flags | libc::MSG_DONTWAIT;
            world.call(|state| transfer::read(state, fd, into, flags))
        }
        outcome => outcome,
    }
}

/// The common part of `write` and its variants: waits until everything is queued.
fn put(
    world: &World,
    fd: c_int,
    bytes: &[u8],
    flags: c_int,
    to: Option<SocketAddr>,
) -> Call<usize> {
    let mut done = 0;
    let wait = |state: &State| state.wait_to_write(fd, flags);
    match world.wait(wait, |state| transfer::write(state, fd, bytes, flags, to, &mut done)) {
        Err(Errno::AGAIN) if done > 0 => Ok(done),
        outcome => outcome,
    }
}

pub(crate) unsafe extern "C" fn read(
    data: Data,
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
) -> ssize_t {
    // SAFETY: the contract of `entry/mod.rs`.
    unsafe { recv(data, fd, bytes, len, 0) }
}

pub(crate) unsafe extern "C" fn recv(
    data: Data,
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the contract of `entry/mod.rs`.
    let (world, into) = unsafe { (world(data), output(bytes, len)) };
    answer(into.and_then(|into| take(world, fd, into, flags)).map(|found| found.bytes))
}

pub(crate) unsafe extern "C" fn recvfrom(
    data: Data,
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the contract of `entry/mod.rs`.
    let (world, into) = unsafe { (world(data), output(bytes, len)) };
    let found = into.and_then(|into| take(world, fd, into, flags));
    if let Ok(Found { from: Some(from), .. }) = found {
        let domain = world.domain(fd);
        // SAFETY: the contract of `entry/mod.rs`.
        unsafe { address::write(from, domain, addr, addr_len) };
    }
    answer(found.map(|found| found.bytes))
}

pub(crate) unsafe extern "C" fn readv(
    data: Data,
    fd: c_int,
    iov: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: the contract of `entry/mod.rs`.
    let (world, iov) = unsafe { (world(data), pieces(iov, count as usize)) };
    // SAFETY: as above.
    answer(iov.and_then(|iov| unsafe { scatter(world, fd, iov, 0) }).map(|found| found.bytes))
}

pub(crate) unsafe extern "C" fn recvmsg(
    data: Data,
    fd: c_int,
    msg: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    if msg.is_null() {
        return answer(Err::<isize, _>(Errno::FAULT));
    }
    // SAFETY: the contract of `entry/mod.rs`.
    let (world, msg) = unsafe { (world(data), &mut *msg) };
    // SAFETY: as above.
    let iov = unsafe { pieces(msg.msg_iov, msg.msg_iovlen) };
    // SAFETY: as above.
    let found = iov.and_then(|iov| unsafe { scatter(world, fd, iov, flags) });
    if let Ok(found) = found {
        msg.msg_flags = if found.truncated { MSG_TRUNC } else { 0 };
        msg.msg_flags |= if found.copied.is_some() { MSG_ERRQUEUE } else { 0 };
        // SAFETY: `msg_name` and `msg_control` have the room that the structure states.
        unsafe { tell(world, fd, msg, &found) };
    }
    answer(found.map(|found| found.bytes))
}

/// Read into several buffers (`readv`, `recvmsg`).
unsafe fn scatter(world: &World, fd: c_int, iov: &[iovec], flags: c_int) -> Call<Found> {
    let len = iov.iter().map(|piece| piece.iov_len).fold(0, usize::saturating_add);
    let mut whole = vec![0; len.min(1 << 24)];
    let found = take(world, fd, &mut whole, flags)?;
    let mut rest = &whole[..found.bytes];
    for piece in iov {
        let n = piece.iov_len.min(rest.len());
        // SAFETY: the caller has the room that `piece` states.
        unsafe { output(piece.iov_base, n)? }.copy_from_slice(&rest[..n]);
        rest = &rest[n..];
    }
    Ok(found)
}

/// Store the address and the control messages of a `recvmsg`.
unsafe fn tell(world: &World, fd: c_int, msg: &mut msghdr, found: &Found) {
    match found.from {
        Some(from) if !msg.msg_name.is_null() => {
            let domain = world.domain(fd);
            // SAFETY: the caller has `msg_namelen` bytes there.
            unsafe { address::write(from, domain, msg.msg_name.cast(), &mut msg.msg_namelen) };
        }
        _ => msg.msg_namelen = 0,
    }
    let (level, kind, data) = if let Some((from, to)) = found.copied {
        let v6 = world.domain(fd) == libc::AF_INET6;
        let (level, kind) = if v6 { (41, libc::IPV6_RECVERR) } else { (0, libc::IP_RECVERR) };
        // `struct sock_extended_err`: no error, and the origin and code of a `MSG_ZEROCOPY` call
        // whose bytes were copied.
        let words = [0u32.to_ne_bytes(), [ORIGIN_ZEROCOPY, 0, COPIED, 0]];
        let numbers = [from.to_ne_bytes(), to.to_ne_bytes()];
        // In the message an unspecified address follows the structure.
        let mut data = [words, numbers].concat().concat();
        data.resize(data.len() + if v6 { 28 } else { 16 }, 0);
        (level, kind, data)
    } else if let Some(unread) = found.unread {
        (libc::IPPROTO_TCP, libc::TCP_INQ, unread.to_ne_bytes().to_vec())
    } else {
        msg.msg_controllen = 0;
        return;
    };
    // SAFETY: the caller has as much room as the structure states.
    unsafe { control_message(msg, level, kind, &data) };
}

/// `SO_EE_ORIGIN_ZEROCOPY` and `SO_EE_CODE_ZEROCOPY_COPIED`.
const ORIGIN_ZEROCOPY: u8 = 5;
const COPIED: u8 = 1;

/// Store the only control message of a `recvmsg`, if it fits.
unsafe fn control_message(msg: &mut msghdr, level: c_int, kind: c_int, data: &[u8]) {
    // SAFETY: the macro is plain arithmetic.
    let room = unsafe { libc::CMSG_SPACE(data.len() as c_uint) } as usize;
    if msg.msg_controllen < room {
        msg.msg_controllen = 0;
        return;
    }
    // SAFETY: there is room for one header and the data, so the first header lies within the
    // buffer.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(msg);
        if !header.is_null() {
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = libc::CMSG_LEN(data.len() as c_uint) as _;
            let into = libc::CMSG_DATA(header);
            core::ptr::copy_nonoverlapping(data.as_ptr(), into, data.len());
        }
    }
    msg.msg_controllen = room as _;
}

pub(crate) unsafe extern "C" fn write(
    data: Data,
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
) -> ssize_t {
    // SAFETY: the contract of `entry/mod.rs`.
    unsafe { send(data, fd, bytes, len, 0) }
}

pub(crate) unsafe extern "C" fn send(
    data: Data,
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the contract of `entry/mod.rs`.
    unsafe { sendto(data, fd, bytes, len, flags, core::ptr::null(), 0) }
}

pub(crate) unsafe extern "C" fn sendto(
    data: Data,
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> ssize_t {
    // SAFETY: the contract of `entry/mod.rs`.
    let (world, bytes) = unsafe { (world(data), input(bytes, len)) };
    // SAFETY: as above; `read` checks for null.
    let to = unsafe { address::read(addr, addr_len) }.ok();
    answer(bytes.and_then(|bytes| put(world, fd, bytes, flags, to)))
}

pub(crate) unsafe extern "C" fn writev(
    data: Data,
    fd: c_int,
    iov: *const iovec,
    count: c_int,
) -> ssize_t {
    // SAFETY: the contract of `entry/mod.rs`.
    let (world, iov) = unsafe { (world(data), pieces(iov, count as usize)) };
    // SAFETY: as above.
    let whole = iov.and_then(|iov| unsafe { gather(iov) });
    answer(whole.and_then(|bytes| put(world, fd, &bytes, 0, None)))
}

pub(crate) unsafe extern "C" fn sendmsg(
    data: Data,
    fd: c_int,
    msg: *const msghdr,
    flags: c_int,
) -> ssize_t {
    if msg.is_null() {
        return answer(Err::<isize, _>(Errno::FAULT));
    }
    // SAFETY: the contract of `entry/mod.rs`.
    let (world, msg) = unsafe { (world(data), &*msg) };
    // SAFETY: as above; `read` checks for null.
    let to = unsafe { address::read(msg.msg_name.cast(), msg.msg_namelen) }.ok();
    // SAFETY: as above.
    let iov = unsafe { pieces(msg.msg_iov, msg.msg_iovlen) };
    // SAFETY: as above.
    let whole = iov.and_then(|iov| unsafe { gather(iov) });
    answer(whole.and_then(|bytes| put(world, fd, &bytes, flags, to)))
}

/// Join several buffers (`writev`, `sendmsg`).
unsafe fn gather(iov: &[iovec]) -> Call<Vec<u8>> {
    let mut whole = Vec::new();
    for piece in iov {
        // SAFETY: the caller has the bytes that `piece` states.
        whole.extend_from_slice(unsafe { input(piece.iov_base, piece.iov_len)? });
        if whole.len() > CALL_MAX {
            return Err(Errno::INVAL);
        }
    }
    Ok(whole)
}

/// Moves bytes between a socket and a pipe, in either direction, through a buffer. Scripts only
/// check that the bytes arrive.
pub(crate) unsafe extern "C" fn splice(
    data: Data,
    from: c_int,
    _from_offset: *mut loff_t,
    to: c_int,
    _to_offset: *mut loff_t,
    len: size_t,
    _flags: c_uint,
) -> ssize_t {
    // SAFETY: the contract of `entry/mod.rs`.
    let world = unsafe { world(data) };
    let mut bytes = vec![0; len.min(SPLICE_MAX)];
    let moved = if world.has(from) {
        take(world, from, &mut bytes, 0).and_then(|found| {
            // SAFETY: a descriptor of the caller, open during the call.
            let pipe = unsafe { BorrowedFd::borrow_raw(to) };
            rustix::io::write(pipe, &bytes[..found.bytes])
        })
    } else {
        // SAFETY: as above.
        let pipe = unsafe { BorrowedFd::borrow_raw(from) };
        rustix::io::read(pipe, &mut bytes).and_then(|n| put(world, to, &bytes[..n], 0, None))
    };
    answer(moved)
}
