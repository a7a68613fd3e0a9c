//! The calls of sockets, from `ws_socket` to `ws_close`.
//!
//! Called by: programs. `socket.rs` has what they do; sending and receiving are in `transfer.rs`.

use core::ffi::c_int;
use core::net::SocketAddr;
use core::sync::atomic::Ordering;
use std::net::Shutdown;
use std::sync::Arc;

use libc::{sockaddr, socklen_t};

use crate::error::{Call, Error};
use crate::open::Open;
use crate::socket::{Arrival, Kind, Socket};
use crate::types::{ws_sock, ws_stack};
use crate::{address, entry, handles};

/// Make a socket of a stack: family AF_INET or AF_INET6, kind SOCK_STREAM or SOCK_DGRAM, to which
/// SOCK_NONBLOCK may be added (SOCK_CLOEXEC is ignored), protocol 0 or IPPROTO_TCP or IPPROTO_UDP.
///
/// Returns the socket; -EAFNOSUPPORT, -EPROTONOSUPPORT; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_socket(
    stack: ws_stack,
    family: c_int,
    kind: c_int,
    protocol: c_int,
) -> ws_sock {
    entry::call(|| {
        let stack = handles::stack(stack)?;
        let is_v6 = match family {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => {
                let text = "a socket's family is AF_INET or AF_INET6";
                return Err(Error::new(libc::EAFNOSUPPORT, text));
            }
        };
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let of_kind = match (kind & !flags, protocol) {
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Kind::Stream,
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Kind::Datagrams,
            _ => {
                let text = "sockets are SOCK_STREAM over TCP or SOCK_DGRAM over UDP";
                return Err(Error::new(libc::EPROTONOSUPPORT, text));
            }
        };
        let prepare = |socket: &Socket| {
            socket.nonblocking.store(kind & libc::SOCK_NONBLOCK != 0, Ordering::Relaxed);
        };
        handles::add_socket(&stack, of_kind, is_v6, prepare)
    })
}

/// Bind a socket to an address of its stack, or to 0.0.0.0 or [::] for all; port 0 stands for a
/// free one, which ws_getsockname() tells (of a stream socket once it listens or connects).
///
/// Returns 0; -EADDRNOTAVAIL, -EADDRINUSE, -EINVAL if it is bound already or length is too short,
/// -EAFNOSUPPORT, -ENOBUFS at a limit; -EFAULT if addr is NULL; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_bind(
    socket: ws_sock,
    addr: *const sockaddr,
    length: socklen_t,
) -> c_int {
    entry::status(|| {
        let socket = handles::socket(socket)?;
        // SAFETY: the caller's address.
        socket.bind(unsafe { address::read(addr, length) }?)
    })
}

/// Listen for connections. At most backlog of them wait for ws_accept(); a negative number stands
/// for the system's SOMAXCONN.
///
/// Returns 0; -EADDRINUSE, -EINVAL if the socket is connected, -EOPNOTSUPP for datagrams, -ENOBUFS
/// at a limit; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_listen(socket: ws_sock, backlog: c_int) -> c_int {
    entry::status(|| handles::socket(socket)?.listen(backlog))
}

/// Open the socket of a new handle, which goes if that fails: the program has not seen it yet.
pub(crate) fn open_new(handle: ws_sock, open: Open) -> Call<ws_sock> {
    let socket = handles::socket(handle)?;
    match socket.set_open(open) {
        Ok(_) => Ok(handle),
        Err(error) => {
            // Stale already: the stack was freed in the meantime.
            let _ = handles::remove_socket(handle);
            Err(error)
        }
    }
}

/// Make a socket of what was accepted.
fn adopt(listener: &Socket, arrival: Arrival, remote: SocketAddr) -> Call<i64> {
    let (stack, is_v6) = (listener.stack(), remote.is_ipv6());
    match arrival {
        Arrival::Stream(stream) => {
            let options = listener.settings().of_accepted();
            let keep = |socket: &Socket| *socket.settings() = options;
            let handle = handles::add_socket(stack, Kind::Stream, is_v6, keep)?;
            open_new(handle, Open::Stream(stream.into()))
        }
        Arrival::Request(request) => {
            let keep = |socket: &Socket| socket.ask(request);
            handles::add_socket(stack, Kind::Stream, is_v6, keep)
        }
    }
}

/// Take a connection from a listener; from a forwarder, a connection that ws_admit() has not
/// answered yet. The peer's address is stored in addr, as accept(2) does, unless addr is NULL. The
/// new socket blocks, whatever the listener does.
///
/// Returns the new socket; -EAGAIN if none waits and the call must not; -EINVAL if the socket does
/// not listen; -EFAULT if length is NULL and addr is not; -EBADF, also when another thread closes
/// the listener.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_accept(
    socket: ws_sock,
    addr: *mut sockaddr,
    length: *mut socklen_t,
) -> ws_sock {
    entry::call(|| {
        let socket = handles::socket(socket)?;
        if !addr.is_null() && length.is_null() {
            return Err(Error::null("the length of the address"));
        }
        let (arrival, remote) = socket.accept()?;
        let accepted = adopt(&socket, arrival, remote)?;
        // SAFETY: the caller's pointers.
        unsafe { address::write(remote, addr, length) }?;
        Ok(accepted)
    })
}

/// Connect a stream socket; set the peer of a datagram socket, once. After an error close the
/// socket and make another one.
///
/// Returns 0; -EINPROGRESS if the call must not wait, or SO_SNDTIMEO is over: WS_OUT says when it
/// is done, and SO_ERROR how; -EALREADY, -EISCONN; -ECONNREFUSED, -ETIMEDOUT, -ENETUNREACH,
/// -EHOSTUNREACH, -EADDRINUSE, -EADDRNOTAVAIL, -ENOBUFS at a limit; -EINVAL, -EAFNOSUPPORT, -EFAULT
/// for the address; -EBADF, also when another thread closes the socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_connect(
    socket: ws_sock,
    addr: *const sockaddr,
    length: socklen_t,
) -> c_int {
    entry::status(|| {
        let socket = handles::socket(socket)?;
        // SAFETY: the caller's address.
        socket.connect(unsafe { address::read(addr, length) }?)
    })
}

/// End one direction of a connection, or both: how is SHUT_RD, SHUT_WR or SHUT_RDWR. Data that was
/// sent before still goes out.
///
/// Returns 0; -ENOTCONN, -EINVAL if how is none of them; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_shutdown(socket: ws_sock, how: c_int) -> c_int {
    entry::status(|| {
        let socket = handles::socket(socket)?;
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Error::invalid("how is SHUT_RD, SHUT_WR or SHUT_RDWR")),
        };
        Ok(socket.stream()?.shutdown(how)?)
    })
}

/// Close a socket. Data that was sent still goes out, unless SO_LINGER says otherwise; unread data
/// makes it a reset. A connection of a forwarder that was not admitted is refused. Calls in other
/// threads that wait for the socket return.
///
/// Returns 0; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_close(socket: ws_sock) -> c_int {
    entry::status(|| {
        let socket = handles::remove_socket(socket)?;
        socket.close();
        if Arc::strong_count(&socket) > 1
            && let Some(Open::Stream(stream)) = socket.open()
        {
            // Another thread uses the stream, maybe it waits: it finds the end. An error means that
            // the connection is over anyway.
            let _ = stream.shutdown(Shutdown::Both);
        }
        Ok(())
    })
}

/// Store the local address of a socket as getsockname(2) does; of a connection from a forwarder,
/// that is the destination that the peer asked for.
///
/// Returns 0; -EFAULT if addr or length is NULL; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_getsockname(
    socket: ws_sock,
    addr: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    entry::status(|| {
        let local = handles::socket(socket)?.local_addr()?;
        // SAFETY: the caller's pointers.
        unsafe { named(local, addr, length) }
    })
}

/// Store the peer's address of a socket as getpeername(2) does.
///
/// Returns 0; -ENOTCONN; -EFAULT if addr or length is NULL; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_getpeername(
    socket: ws_sock,
    addr: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    entry::status(|| {
        let peer = handles::socket(socket)?.peer_addr()?;
        // SAFETY: the caller's pointers.
        unsafe { named(peer, addr, length) }
    })
}

/// # Safety
/// As [`address::write`].
unsafe fn named(value: SocketAddr, addr: *mut sockaddr, length: *mut socklen_t) -> Call<()> {
    if addr.is_null() {
        return Err(Error::null("the address"));
    }
    // SAFETY: the same promise.
    unsafe { address::write(value, addr, length) }
}

/// Make a socket nonblocking (on is not 0), or blocking again. Calls on a nonblocking socket return
/// -EAGAIN instead of waiting, and ws_connect() -EINPROGRESS.
///
/// Returns 0; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn ws_set_nonblocking(socket: ws_sock, on: c_int) -> c_int {
    entry::status(|| {
        handles::socket(socket)?.nonblocking.store(on != 0, Ordering::Relaxed);
        Ok(())
    })
}
