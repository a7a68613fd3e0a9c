//! News of links: a netlink socket at which the kernel says that an interface went up or down, came
//! or went, in this network namespace and in those that its interfaces were moved to.
//!
//! Called by: the privileged process of `wirespeed up`, which rings the worker, because the worker
//! has no netlink socket. Messages are not parsed: any message is a reason to check all ports.
//! Sources: netlink(7), rtnetlink(7), eventfd(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// RTMGRP_LINK: messages about interfaces.
const GROUP: u32 = 1;
/// The most messages that are taken in one go.
const MESSAGES: usize = 256;

/// A socket for [`hear`], and whether it gets messages about interfaces of other namespaces too,
/// which needs CAP_NET_BROADCAST.
///
/// # Errors
/// The system's: a kernel without netlink, no descriptor left.
pub fn open() -> io::Result<(OwnedFd, bool)> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    let hears_all = socket.set_listen_all_namespaces(true).is_ok();
    socket.bind(&SocketAddr::new(0, GROUP))?;
    Ok((socket.as_fd().try_clone_to_owned()?, hears_all))
}

/// A descriptor by which one process tells another one that there is news.
///
/// # Errors
/// The system's.
pub fn bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Tell the other process; it may have been told already.
pub fn ring(bell: BorrowedFd<'_>) {
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// Were we told since the last call?
pub fn was_rung(bell: BorrowedFd<'_>) -> bool {
    rustix::io::read(bell, &mut [0; 8]).is_ok()
}

/// Read the messages of the kernel; was there any?
pub fn hear(socket: BorrowedFd<'_>) -> bool {
    let mut is_news = false;
    for _ in 0..MESSAGES {
        match recv(socket, &mut [0; 1], RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
            Ok(_) => is_news = true,
            // Messages were lost: they were news, too.
            Err(Errno::NOBUFS) => is_news = true,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    is_news
}
