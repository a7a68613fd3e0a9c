//! The structure of 33 pointers that packetdrill asks for, and the function that fills it.
//!
//! Called by: packetdrill, once. Source of the layout: facts about packetdrill's `so_testing`
//! interface. Packetdrill calls every pointer without a check for null.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};

use libc::{
    epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t,
    timeval,
};

use super::entry::{self, Data};
use super::world::World;
use super::{flags, served};

/// The structure, in the order of its fields.
#[repr(C)]
pub struct Interface {
    pub(super) userdata: Data,
    pub(super) free: unsafe extern "C" fn(Data),
    pub(super) socket: unsafe extern "C" fn(Data, c_int, c_int, c_int) -> c_int,
    pub(super) bind: unsafe extern "C" fn(Data, c_int, *const sockaddr, socklen_t) -> c_int,
    pub(super) listen: unsafe extern "C" fn(Data, c_int, c_int) -> c_int,
    pub(super) accept: unsafe extern "C" fn(Data, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    pub(super) connect: unsafe extern "C" fn(Data, c_int, *const sockaddr, socklen_t) -> c_int,
    pub(super) read: unsafe extern "C" fn(Data, c_int, *mut c_void, size_t) -> ssize_t,
    pub(super) readv: unsafe extern "C" fn(Data, c_int, *const iovec, c_int) -> ssize_t,
    pub(super) recv: unsafe extern "C" fn(Data, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    pub(super) recvfrom: unsafe extern "C" fn(
        Data,
        c_int,
        *mut c_void,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    pub(super) recvmsg: unsafe extern "C" fn(Data, c_int, *mut msghdr, c_int) -> ssize_t,
    pub(super) write: unsafe extern "C" fn(Data, c_int, *const c_void, size_t) -> ssize_t,
    pub(super) writev: unsafe extern "C" fn(Data, c_int, *const iovec, c_int) -> ssize_t,
    pub(super) send: unsafe extern "C" fn(Data, c_int, *const c_void, size_t, c_int) -> ssize_t,
    pub(super) sendto: unsafe extern "C" fn(
        Data,
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t,
    pub(super) sendmsg: unsafe extern "C" fn(Data, c_int, *const msghdr, c_int) -> ssize_t,
    /// Variadic in C. In either case the last argument is a number in a register.
    pub(super) fcntl: unsafe extern "C" fn(Data, c_int, c_int, c_long) -> c_int,
    /// Variadic in C. In either case the last argument is a pointer in a register.
    pub(super) ioctl: unsafe extern "C" fn(Data, c_int, c_ulong, *mut c_int) -> c_int,
    pub(super) close: unsafe extern "C" fn(Data, c_int) -> c_int,
    pub(super) shutdown: unsafe extern "C" fn(Data, c_int, c_int) -> c_int,
    pub(super) getsockopt:
        unsafe extern "C" fn(Data, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    pub(super) setsockopt:
        unsafe extern "C" fn(Data, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    pub(super) poll: unsafe extern "C" fn(Data, *mut pollfd, nfds_t, c_int) -> c_int,
    pub(super) netdev_send: unsafe extern "C" fn(Data, *const c_void, size_t) -> c_int,
    pub(super) netdev_receive:
        unsafe extern "C" fn(Data, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    pub(super) usleep: unsafe extern "C" fn(Data, c_uint) -> c_int,
    pub(super) gettimeofday: unsafe extern "C" fn(Data, *mut timeval, *mut c_void) -> c_int,
    pub(super) epoll_create: unsafe extern "C" fn(Data, c_int) -> c_int,
    pub(super) epoll_ctl:
        unsafe extern "C" fn(Data, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    pub(super) epoll_wait:
        unsafe extern "C" fn(Data, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pub(super) pipe: unsafe extern "C" fn(Data, *mut c_int) -> c_int,
    pub(super) splice: unsafe extern "C" fn(
        Data,
        c_int,
        *mut loff_t,
        c_int,
        *mut loff_t,
        size_t,
        c_uint,
    ) -> ssize_t,
}

const _: () = assert!(size_of::<Interface>() == 33 * size_of::<usize>());

/// Fill `interface`, and make a stack in virtual time for the caller. `flags` is the text of
/// `--so_flags`, or null; `flags::parse` documents the words in it.
///
/// # Safety
/// `interface` points to room for 33 pointers; `flags` is null or a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut Interface,
) {
    if interface.is_null() {
        return;
    }
    let text = if flags.is_null() {
        String::new()
    } else {
        // SAFETY: the caller guarantees a string that ends with a zero.
        unsafe { CStr::from_ptr(flags) }.to_string_lossy().into_owned()
    };
    let world = Box::into_raw(Box::new(World::new(flags::parse(&text))));
    served::serve(world);
    // SAFETY: the caller guarantees the room; nothing is read from it.
    unsafe { interface.write(filled(world.cast())) };
}

fn filled(userdata: Data) -> Interface {
    Interface {
        userdata,
        free: entry::free,
        socket: entry::socket,
        bind: entry::bind,
        listen: entry::listen,
        accept: entry::accept,
        connect: entry::connect,
        read: entry::read,
        readv: entry::readv,
        recv: entry::recv,
        recvfrom: entry::recvfrom,
        recvmsg: entry::recvmsg,
        write: entry::write,
        writev: entry::writev,
        send: entry::send,
        sendto: entry::sendto,
        sendmsg: entry::sendmsg,
        fcntl: entry::fcntl,
        ioctl: entry::ioctl,
        close: entry::close,
        shutdown: entry::shutdown,
        getsockopt: entry::getsockopt,
        setsockopt: entry::setsockopt,
        poll: entry::poll,
        netdev_send: entry::netdev_send,
        netdev_receive: entry::netdev_receive,
        usleep: entry::usleep,
        gettimeofday: entry::gettimeofday,
        epoll_create: entry::epoll_create,
        epoll_ctl: entry::epoll_ctl,
        epoll_wait: entry::epoll_wait,
        pipe: entry::pipe,
        splice: entry::splice,
    }
}
