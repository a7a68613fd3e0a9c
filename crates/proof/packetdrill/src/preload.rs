//! Calls that packetdrill makes to libc instead of the interface: `getsockopt(TCP_INFO)` in `%{ }%`
//! blocks, and `sendfile`. If this object is also preloaded (`LD_PRELOAD`), those calls come here.
//! Calls on sockets of the served world are answered; all other calls go to the kernel.
//!
//! Called by: packetdrill, if the object is preloaded; `interface.rs` sets the served world. One
//! object serves both purposes, because the loader maps a file only once.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use libc::{off_t, size_t, socklen_t, ssize_t};

use super::served::owner_of;

/// Maximum bytes that one `sendfile` moves.
const FILE_MAX: usize = 1 << 20;

/// libc's `getsockopt`, for sockets of the world and of the kernel.
///
/// # Safety
/// As getsockopt(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if let Some(world) = owner_of(fd) {
        let data = core::ptr::from_ref(world).cast_mut().cast();
        // SAFETY: the caller's pointers, and a world that is not freed.
        return unsafe { super::entry::getsockopt(data, fd, level, name, value, len) };
    }
    // SAFETY: the caller's arguments, as the kernel takes them.
    unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) as c_int }
}

/// libc's `sendfile`, for sockets of the world and of the kernel.
///
/// # Safety
/// As sendfile(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    let Some(world) = owner_of(to) else {
        // SAFETY: the caller's arguments, as the kernel takes them.
        return unsafe { libc::syscall(libc::SYS_sendfile, to, from, offset, count) as ssize_t };
    };
    let mut bytes = vec![0u8; count.min(FILE_MAX)];
    // SAFETY: the buffer has the length passed; the offset is the caller's, and not null where it
    // is read.
    let n = unsafe {
        if offset.is_null() {
            libc::read(from, bytes.as_mut_ptr().cast(), bytes.len())
        } else {
            libc::pread(from, bytes.as_mut_ptr().cast(), bytes.len(), *offset)
        }
    };
    let Ok(read) = usize::try_from(n) else { return -1 };
    let data = core::ptr::from_ref(world).cast_mut().cast();
    // SAFETY: `read` bytes are there, and the world is not freed.
    let sent = unsafe { super::entry::write(data, to, bytes.as_ptr().cast(), read) };
    if sent > 0 && !offset.is_null() {
        // SAFETY: the caller's offset.
        unsafe { *offset += sent as off_t };
    }
    sent
}
