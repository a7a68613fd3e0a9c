//! The socket calls that move no data, from `socket` to `close`.
//!
//! Called by: `entry/mod.rs`. Each function is one attempt of a call. `AGAIN` means that the call
//! cannot finish yet; `world.rs` decides whether the caller waits.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;

use libc::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM};
use rustix::io::Errno;
use stack::{ListenConfig, ListenError, UdpError};
use tcp::State as TcpState;
use tcp::usrreq::CallError;

use super::control::{connect_error, tcp_error, udp_error};
use super::file::{Endpoint, File, Socket};
use super::profile::System;
use super::world::State;
use super::{Call, fast_open, shown};

/// Flags that may be combined with a socket's type.
const TYPE_FLAGS: i32 = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;

/// `socket`.
pub(super) fn create(state: &mut State, domain: i32, kind: i32, protocol: i32) -> Call<RawFd> {
    if domain != AF_INET && domain != AF_INET6 {
        return Err(Errno::AFNOSUPPORT);
    }
    let endpoint = match (kind & !TYPE_FLAGS, protocol) {
        (SOCK_STREAM, 0 | IPPROTO_TCP) => Endpoint::Fresh,
        (SOCK_DGRAM, 0 | IPPROTO_UDP) => Endpoint::Unbound,
        _ => return Err(Errno::PROTONOSUPPORT),
    };
    let config = state.profile.begin(&mut state.stack, &state.wire);
    let mut socket = Socket::new(domain, endpoint, config);
    socket.nonblocking = kind & SOCK_NONBLOCK != 0;
    state.add(File::Socket(Box::new(socket)))
}

/// `bind`. A UDP socket gets its port here; a TCP socket gets it when it listens or connects.
pub(super) fn bind(state: &mut State, fd: RawFd, local: SocketAddr) -> Call<()> {
    let socket = state.socket(fd)?;
    if socket.local.is_some() {
        return Err(Errno::INVAL);
    }
    socket.local = Some(local);
    if socket.endpoint == Endpoint::Unbound {
        datagram_port(state, fd)?;
    }
    Ok(())
}

/// The stack's UDP socket. If `bind` gave no port, the stack chooses an ephemeral one.
pub(super) fn datagram_port(state: &mut State, fd: RawFd) -> Call<stack::UdpHandle> {
    let socket = state.socket(fd)?;
    let any = unspecified(socket.domain);
    let local = match socket.endpoint {
        Endpoint::Datagram(handle) => return Ok(handle),
        Endpoint::Unbound => socket.local.unwrap_or(SocketAddr::new(any, 0)),
        _ => return Err(Errno::INVAL),
    };
    let bound = if local.port() != 0 {
        state.stack.udp_bind(local, Socket::owner())
    } else {
        let free = |port| state.stack.udp_bind(SocketAddr::new(local.ip(), port), Socket::owner());
        let mut ports = stack::EPHEMERAL_PORTS.map(free);
        ports.find(Result::is_ok).unwrap_or(Err(UdpError::AddressInUse))
    };
    let handle = bound.map_err(udp_error)?;
    state.socket(fd)?.endpoint = Endpoint::Datagram(handle);
    Ok(handle)
}

fn unspecified(domain: i32) -> IpAddr {
    if domain == AF_INET6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// `listen`. As on Linux, one connection more than `backlog` may wait.
pub(super) fn listen(state: &mut State, fd: RawFd, backlog: i32) -> Call<()> {
    let socket = state.socket(fd)?;
    let any = SocketAddr::new(unspecified(socket.domain), 0);
    match socket.endpoint {
        Endpoint::Fresh => {}
        Endpoint::Listening(_) => return Ok(()),
        Endpoint::Connection(_) => return Err(Errno::INVAL),
        Endpoint::Unbound | Endpoint::Datagram(_) => return Err(Errno::OPNOTSUPP),
    }
    let local = socket.local.unwrap_or(any);
    let (tcp, ip) = (socket.config, socket.ip);
    let backlog = usize::try_from(backlog).unwrap_or(0);
    let config = ListenConfig {
        backlog: backlog + 1,
        tcp,
        ip,
        fast_open: fast_open::of_listener(state, fd, backlog)?,
        ..ListenConfig::default()
    };
    // In the stack, port 0 at the unspecified address means every destination. A script does not
    // want that.
    if local.port() == 0 {
        return Err(Errno::INVAL);
    }
    let handle = state.stack.tcp_listen(local, config).map_err(|error| match error {
        ListenError::AddressInUse => Errno::ADDRINUSE,
        ListenError::LimitReached => Errno::NOBUFS,
        ListenError::NoAddress => Errno::ADDRNOTAVAIL,
    })?;
    state.socket(fd)?.endpoint = Endpoint::Listening(handle);
    shown::write(state);
    Ok(())
}

/// `accept`. Returns the new socket, its domain and the peer's address.
pub(super) fn accept(state: &mut State, fd: RawFd) -> Call<(RawFd, i32, SocketAddr)> {
    let Endpoint::Listening(listener) = state.socket(fd)?.endpoint else {
        return Err(Errno::INVAL);
    };
    let handle = state.stack.tcp_accept(listener).ok_or(Errno::AGAIN)?;
    let (_, peer) = state.stack.tcp_addresses(handle).ok_or(Errno::CONNABORTED)?;
    let socket = Socket::accepted(state.socket(fd)?, handle);
    let domain = socket.domain;
    let accepted = state.add(File::Socket(Box::new(socket)))?;
    state.by_connection.insert(handle, accepted);
    Ok((accepted, domain, peer))
}

/// `connect`. The first attempt sends the SYN, further ones check the result.
pub(super) fn connect(
    state: &mut State,
    fd: RawFd,
    remote: SocketAddr,
    began: &mut bool,
) -> Call<()> {
    let now = state.now;
    let socket = state.socket(fd)?;
    let handle = match socket.endpoint {
        Endpoint::Connection(handle) => handle,
        Endpoint::Listening(_) => return Err(Errno::ISCONN),
        Endpoint::Unbound | Endpoint::Datagram(_) => {
            socket.peer = Some(remote);
            let handle = datagram_port(state, fd)?;
            return state.stack.udp_connect(handle, remote).map_err(udp_error);
        }
        Endpoint::Fresh => {
            if let Some(outcome) = fast_open::connect(state, fd, remote) {
                *began = true;
                return outcome;
            }
            let socket = state.socket(fd)?;
            let (local, config, ip) = (socket.local, socket.config, socket.ip);
            let handle = state
                .stack
                .tcp_connect_with(remote, local, &config, Socket::owner(), ip, now)
                .map_err(connect_error)?;
            let socket = state.socket(fd)?;
            socket.endpoint = Endpoint::Connection(handle);
            socket.connecting = true;
            state.by_connection.insert(handle, fd);
            *began = true;
            return Err(Errno::AGAIN);
        }
    };
    let (stage, error) = state.stack.tcp_state(handle).ok_or(Errno::BADF)?;
    let socket = state.socket(fd)?;
    if !socket.connecting {
        return Err(Errno::ISCONN);
    }
    if let Some(error) = error {
        socket.connecting = false;
        socket.error_reported = true;
        return Err(tcp_error(error));
    }
    match stage {
        TcpState::SynSent | TcpState::SynReceived => Err(Errno::AGAIN),
        _ => {
            socket.connecting = false;
            Ok(())
        }
    }
}

/// `connect` with `AF_UNSPEC`: the connection is reset, or the listener closed, and the socket may
/// connect or listen again. A UDP socket keeps its peer, because the stack cannot remove it.
pub(super) fn disconnect(state: &mut State, fd: RawFd) -> Call<()> {
    match state.socket(fd)?.endpoint {
        Endpoint::Fresh | Endpoint::Unbound => return Ok(()),
        Endpoint::Datagram(_) => return Err(Errno::AFNOSUPPORT),
        Endpoint::Listening(listener) => {
            state.stack.tcp_unlisten(listener);
            shown::write(state);
        }
        Endpoint::Connection(handle) => {
            state.by_connection.remove(&handle);
            state.stack.tcp_abort(handle);
        }
    }
    state.socket(fd)?.disconnect();
    Ok(())
}

/// The error of a non-blocking `connect` while the handshake is in progress.
pub(super) fn connect_pending(began: bool) -> Errno {
    if began { Errno::INPROGRESS } else { Errno::ALREADY }
}

/// `shutdown`.
pub(super) fn shutdown(state: &mut State, fd: RawFd, how: i32) -> Call<()> {
    let system = state.profile.system;
    let socket = state.socket(fd)?;
    let Endpoint::Connection(handle) = socket.endpoint else { return Err(Errno::NOTCONN) };
    if !(libc::SHUT_RD..=libc::SHUT_RDWR).contains(&how) {
        return Err(Errno::INVAL);
    }
    if how != libc::SHUT_WR {
        socket.shut_read = true;
        if system == System::FreeBsd {
            state.stack.tcp_shutdown_read(handle);
        }
    }
    if how != libc::SHUT_RD {
        state.stack.tcp_shutdown_write(handle);
    }
    Ok(())
}

/// `close`. `SO_LINGER` with a time of 0 sends a RST; otherwise TCP closes normally.
pub(super) fn close(state: &mut State, fd: RawFd) -> Call<()> {
    let file = state.remove(fd)?;
    for file in state.files.values_mut() {
        if let File::Epoll(epoll) = file {
            epoll.forget(fd);
        }
    }
    let File::Socket(socket) = file else { return Ok(()) };
    match socket.endpoint {
        Endpoint::Fresh | Endpoint::Unbound => {}
        Endpoint::Listening(listener) => {
            state.stack.tcp_unlisten(listener);
            shown::write(state);
        }
        Endpoint::Connection(handle) => {
            state.by_connection.remove(&handle);
            if socket.linger == Some(0) {
                state.stack.tcp_abort(handle);
            } else {
                state.stack.tcp_close(handle);
            }
        }
        Endpoint::Datagram(handle) => state.stack.udp_close(handle),
    }
    Ok(())
}

/// The `errno` of a failed call on a connection. The connection's error is reported once; later
/// writes get `EPIPE`, and later reads get `ENOTCONN`.
pub(super) fn refusal(state: &mut State, fd: RawFd, error: CallError, writes: bool) -> Errno {
    match error {
        CallError::WouldBlock => Errno::AGAIN,
        CallError::Closed => Errno::PIPE,
        CallError::Failed(error) => {
            let told = state.socket(fd).map(|s| core::mem::replace(&mut s.error_reported, true));
            match told {
                Ok(false) => tcp_error(error),
                _ if writes => Errno::PIPE,
                _ => Errno::NOTCONN,
            }
        }
    }
}
