//! Callbacks that panic, as those of a program in Rust that calls through C may: the library goes
//! on, and its calls return error numbers. A program in C cannot panic (`tests/c`).

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "the calls of C")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::size_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use capi::*;

/// How often each callback was called.
#[derive(Default)]
struct Calls {
    received: AtomicU32,
    sent: AtomicU32,
    released: AtomicU32,
    logged: AtomicU32,
    traced: AtomicU32,
}

/// Count a call of a callback, and panic.
fn panic_in(user: *mut c_void, which: impl Fn(&Calls) -> &AtomicU32) -> ! {
    // SAFETY: `user` is a `Calls` that lives longer than its stack.
    let calls = unsafe { &*user.cast::<Calls>() };
    which(calls).fetch_add(1, Ordering::Relaxed);
    panic!("a callback, made by hand");
}

unsafe extern "C-unwind" fn receive(user: *mut c_void, _: *mut u8, _: usize) -> i64 {
    panic_in(user, |calls| &calls.received)
}

unsafe extern "C-unwind" fn receive_nothing(_: *mut c_void, _: *mut u8, _: usize) -> i64 {
    0
}

unsafe extern "C-unwind" fn transmit(user: *mut c_void, _: *const u8, _: usize) -> c_int {
    panic_in(user, |calls| &calls.sent)
}

unsafe extern "C-unwind" fn release(user: *mut c_void) {
    panic_in(user, |calls| &calls.released)
}

unsafe extern "C-unwind" fn log(user: *mut c_void, _: c_int, _: *const c_char) {
    panic_in(user, |calls| &calls.logged)
}

unsafe extern "C-unwind" fn trace(user: *mut c_void, _: *const ws_frame) {
    panic_in(user, |calls| &calls.traced)
}

/// A polled stack whose log and trace panic.
fn stack(calls: &Calls) -> ws_stack {
    // SAFETY: the header says that zeros are valid.
    let mut config: ws_config = unsafe { std::mem::zeroed() };
    config.size = size_of::<ws_config>();
    config.flags = WS_POLLED;
    config.log = Some(log);
    config.trace = Some(trace);
    config.user = (&raw const *calls).cast_mut().cast();
    // SAFETY: the structure says its size.
    let stack = unsafe { ws_stack_new(&raw const config) };
    assert!(stack > 0);
    stack
}

/// A port whose device panics.
fn port(
    stack: ws_stack,
    calls: &Calls,
    receive: unsafe extern "C-unwind" fn(*mut c_void, *mut u8, usize) -> i64,
) -> c_int {
    let device = ws_device {
        size: size_of::<ws_device>(),
        user: (&raw const *calls).cast_mut().cast(),
        receive: Some(receive),
        transmit: Some(transmit),
        release: Some(release),
        link: WS_LINK_IP,
        mtu: 0,
    };
    // SAFETY: the structure says its size.
    let port = unsafe { ws_port_device(stack, &raw const device) };
    assert!(port >= 0);
    port
}

#[test]
fn a_device_whose_functions_panic_is_gone_and_the_stack_goes_on() {
    let calls = Calls::default();
    let stack = stack(&calls);
    let reads = port(stack, &calls, receive);
    assert_eq!(ws_stack_poll(stack, 1), 0);
    assert_eq!(ws_stack_poll(stack, 2), 0);
    assert_eq!(calls.received.load(Ordering::Relaxed), 1, "it was not asked again");

    let writes = port(stack, &calls, receive_nothing);
    // SAFETY: the text ends with a zero byte.
    let added = unsafe { ws_address_add(stack, writes, c"192.0.2.1/24".as_ptr()) };
    assert_eq!(added, 0);
    let socket = ws_socket(stack, libc::AF_INET, libc::SOCK_DGRAM, 0);
    // SAFETY: zeros are an address.
    let mut to: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    to.sin_family = libc::AF_INET as libc::sa_family_t;
    to.sin_addr.s_addr = u32::from_be_bytes([192, 0, 2, 2]).to_be();
    to.sin_port = 9_u16.to_be();
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    for now in 3..6 {
        // SAFETY: the bytes and the address are ours.
        let sent = unsafe {
            ws_sendto(socket, c"x".as_ptr().cast(), 1, 0, (&raw const to).cast(), length)
        };
        assert!(sent == 1 || sent < 0);
        assert_eq!(ws_stack_poll(stack, now), 0);
    }
    assert_eq!(calls.sent.load(Ordering::Relaxed), 1, "it got no other frame");

    for port in [reads, writes] {
        assert_eq!(ws_port_remove(stack, port), 0);
        assert_eq!(ws_port_remove(stack, port), -libc::ENODEV);
    }
    assert_eq!(calls.released.load(Ordering::Relaxed), 2);
    assert_eq!(ws_stack_free(stack), 0);
    assert!(calls.logged.load(Ordering::Relaxed) > 3);
    assert!(calls.traced.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_stack_is_freed_though_its_callbacks_panic() {
    let calls = Calls::default();
    let stack = stack(&calls);
    port(stack, &calls, receive);
    assert_eq!(ws_stack_free(stack), 0);
    assert_eq!(ws_stack_free(stack), -libc::EBADF);
    assert_eq!(calls.released.load(Ordering::Relaxed), 1);
    // SAFETY: nothing is stored.
    assert!(unsafe { ws_last_error(null_mut(), 0) } > 0);
}
