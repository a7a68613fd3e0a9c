//! The network namespace of the routing daemons: its interfaces, and a socket for its routes.
//!
//! Called by: `parent.rs`, `zebra.rs`. A thread enters the namespace, because a process has one
//! namespace for each thread; the sockets that it opens stay there. The worker reads the routes and
//! asks for dumps; without privileges it can change nothing by that socket. setns(2), rtnetlink(7).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use device::namespace::Namespace;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt;

/// RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;
/// Bytes that may wait in the socket: a message of a route takes about 1 KB of it.
const BUFFER: usize = 32 << 20;

/// Call `act` in a network namespace; `None` is the process's own.
///
/// # Errors
/// The namespace is not there or may not be entered, and what to do; those of `act`.
pub(super) fn within<T: Send>(
    namespace: Option<&str>,
    act: impl FnOnce() -> io::Result<T> + Send,
) -> Result<T, String> {
    let done = match namespace {
        None => act(),
        Some(name) => {
            let namespace = Namespace::named(name).map_err(|why| why.to_string())?;
            namespace.inside(act).map_err(|why| why.to_string())?
        }
    };
    done.map_err(|why| why.to_string())
}

/// A socket that hears of routes, links and addresses of a namespace.
///
/// # Errors
/// Why there is none, and what to do.
pub(super) fn routes(namespace: Option<&str>) -> Result<OwnedFd, String> {
    within(namespace, || {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.set_non_blocking(true)?;
        let fd = socket.as_fd().try_clone_to_owned()?;
        // With less, more dumps are needed.
        if sockopt::set_socket_recv_buffer_size_force(&fd, BUFFER).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&fd, BUFFER);
        }
        socket.bind(&SocketAddr::new(0, GROUPS))?;
        Ok(fd)
    })
    .map_err(|why| format!("frr: cannot read the kernel's routes: {why}"))
}
