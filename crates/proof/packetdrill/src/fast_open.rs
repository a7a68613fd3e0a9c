//! TCP Fast Open with Linux's calls: a `sendto` that connects, a `connect` that is deferred to the
//! first write, and the listener's options.
//!
//! Called by: `socket.rs`, `transfer.rs` and `options.rs`. Each of these calls reads
//! `net.ipv4.tcp_fastopen` anew, because scripts change it while they run. Source: Linux's
//! ip-sysctl documentation, tcp(7), sendto(2).

use core::net::SocketAddr;
use std::os::fd::RawFd;

use libc::{TCP_FASTOPEN, TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_KEY, TCP_FASTOPEN_NO_COOKIE};
use rustix::io::Errno;
use stack::{FastConnect, FastOpenConfig, TcpHandle};

use super::Call;
use super::control::{connect_error, tcp_error};
use super::file::{Endpoint, FastOpen, Socket};
use super::world::{State, Wait};

/// Bits of `net.ipv4.tcp_fastopen`: clients enabled, servers enabled, clients send data without a
/// cookie, servers accept data without a cookie, every listener enabled without `TCP_FASTOPEN`.
const CLIENT: u64 = 1;
const SERVER: u64 = 2;
const CLIENT_WITHOUT_COOKIE: u64 = 4;
const SERVER_WITHOUT_COOKIE: u64 = 0x200;
const EVERY_LISTENER: u64 = 0x400;

/// The Fast Open settings of a listener with this `backlog`.
pub(super) fn of_listener(state: &mut State, fd: RawFd, backlog: usize) -> Call<FastOpenConfig> {
    let bits = state.profile.fast_open();
    let told = state.socket(fd)?.fast_open;
    let of_all = if bits & EVERY_LISTENER != 0 { backlog } else { 0 };
    let pending_max = if bits & SERVER != 0 { told.queue.unwrap_or(of_all) } else { 0 };
    let without_cookie = bits & SERVER_WITHOUT_COOKIE != 0 || told.no_cookie;
    Ok(FastOpenConfig { pending_max, without_cookie, key: told.key })
}

/// `setsockopt`, for the options of Fast Open.
pub(super) fn set(state: &mut State, fd: RawFd, name: i32, value: &[u8], n: i32) -> Call<()> {
    let client = state.profile.fast_open() & CLIENT != 0;
    let socket = state.socket(fd)?;
    let listens = matches!(socket.endpoint, Endpoint::Listening(_));
    let fresh = socket.endpoint == Endpoint::Fresh;
    let told = &mut socket.fast_open;
    match name {
        TCP_FASTOPEN if n >= 0 && (fresh || listens) => told.queue = usize::try_from(n).ok(),
        TCP_FASTOPEN_KEY => {
            told.key = Some(<[u8; 16]>::try_from(value).map_err(|_| Errno::INVAL)?);
        }
        TCP_FASTOPEN_NO_COOKIE if (0..=1).contains(&n) && (fresh || listens) => {
            told.no_cookie = n != 0;
        }
        TCP_FASTOPEN_CONNECT if (0..=1).contains(&n) && !client => return Err(Errno::OPNOTSUPP),
        TCP_FASTOPEN_CONNECT if (0..=1).contains(&n) && fresh => told.connects = n != 0,
        _ => return Err(Errno::INVAL),
    }
    let Endpoint::Listening(listener) = state.socket(fd)?.endpoint else { return Ok(()) };
    let settings = of_listener(state, fd, usize::MAX)?;
    state.stack.tcp_set_fast_open(listener, settings).ok_or(Errno::BADF)
}

/// `getsockopt`, for the options of Fast Open.
pub(super) fn get(told: &FastOpen, name: i32) -> i32 {
    match name {
        TCP_FASTOPEN => told.queue.map_or(0, |n| i32::try_from(n).unwrap_or(i32::MAX)),
        TCP_FASTOPEN_NO_COOKIE => i32::from(told.no_cookie),
        _ => i32::from(told.connects),
    }
}

fn needs_no_cookie(state: &mut State, fd: RawFd) -> Call<bool> {
    let of_all = state.profile.fast_open() & CLIENT_WITHOUT_COOKIE != 0;
    Ok(of_all || state.socket(fd)?.fast_open.no_cookie)
}

/// `connect` of a socket with `TCP_FASTOPEN_CONNECT`. If the SYN may carry the first write, the SYN
/// is deferred until that write; otherwise a SYN that asks for a cookie is sent. `None` if the
/// option is off.
pub(super) fn connect(state: &mut State, fd: RawFd, remote: SocketAddr) -> Option<Call<()>> {
    let may = state.profile.fast_open() & CLIENT != 0;
    let socket = state.socket(fd).ok()?;
    if !socket.fast_open.connects || !may {
        return None;
    }
    if socket.fast_open.deferred.is_some() {
        return Some(Err(Errno::ISCONN));
    }
    let local = socket.local;
    if needs_no_cookie(state, fd) == Ok(true) || state.stack.fast_open_knows(remote, local) {
        let socket = state.socket(fd).ok()?;
        socket.fast_open.deferred = Some(remote);
        return Some(Ok(()));
    }
    Some(open(state, fd, remote, &[]).and(Err(Errno::AGAIN)))
}

/// Send the SYN with as much of `first` as it carries. The socket gets this connection.
fn open(
    state: &mut State,
    fd: RawFd,
    remote: SocketAddr,
    first: &[u8],
) -> Call<(TcpHandle, usize)> {
    let without_cookie = needs_no_cookie(state, fd)?;
    let now = state.now;
    let socket = state.socket(fd)?;
    let config = socket.config;
    let connect = FastConnect {
        remote,
        local: socket.local,
        config: &config,
        owner: Socket::owner(),
        ip: socket.ip,
        first,
        without_cookie,
    };
    let (handle, carried) = state.stack.tcp_connect_first(&connect, now).map_err(connect_error)?;
    let socket = state.socket(fd)?;
    socket.endpoint = Endpoint::Connection(handle);
    socket.connecting = true;
    state.by_connection.insert(handle, fd);
    Ok((handle, carried))
}

/// `sendto` with `MSG_FASTOPEN`, or the write to which a `connect` was deferred. If the call
/// blocks, later attempts write what did not fit into the SYN.
pub(super) fn send(
    state: &mut State,
    fd: RawFd,
    bytes: &[u8],
    flags: i32,
    to: Option<SocketAddr>,
    done: &mut usize,
) -> Call<usize> {
    let waits = state.wait_to_write(fd, flags) != Wait::No;
    let may = state.profile.fast_open() & CLIENT != 0;
    let socket = state.socket(fd)?;
    let remote = match socket.fast_open.deferred.take() {
        Some(remote) => remote,
        // This includes an address of family `AF_UNSPEC`.
        None => to.filter(|_| may).ok_or(Errno::OPNOTSUPP)?,
    };
    let (_, carried) = open(state, fd, remote, bytes)?;
    *done = carried;
    let socket = state.socket(fd)?;
    if carried > 0 {
        let wants = flags & libc::MSG_ZEROCOPY != 0 && socket.zero_copy();
        socket.notifications.wrote(carried, wants && (carried == bytes.len() || !waits));
    }
    socket.fast_open.waits = waits;
    match carried {
        _ if waits => Err(Errno::AGAIN),
        0 => Err(Errno::INPROGRESS),
        carried => Ok(carried),
    }
}

/// A write during the handshake or right after it. `AGAIN` means that the call keeps waiting.
/// Otherwise the result says whether the SYN carried everything (`whole`), so that there is nothing
/// left to write.
pub(super) fn go_on(
    state: &mut State,
    fd: RawFd,
    handle: TcpHandle,
    flags: i32,
    whole: bool,
) -> Call<bool> {
    let (stage, error) = state.stack.tcp_state(handle).ok_or(Errno::PIPE)?;
    let socket = state.socket(fd)?;
    let own = socket.fast_open.waits;
    if stage == tcp::State::SynSent && error.is_none() {
        let again = flags & libc::MSG_FASTOPEN != 0 && !own;
        return Err(if again { Errno::ALREADY } else { Errno::AGAIN });
    }
    if !own {
        return Ok(false);
    }
    socket.fast_open.waits = false;
    socket.connecting = false;
    if let Some(error) = error {
        // The error is reported even if the SYN carried some of the data.
        socket.error_reported = true;
        return Err(tcp_error(error));
    }
    Ok(whole)
}
