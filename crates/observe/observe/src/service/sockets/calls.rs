//! Carries out the calls on clients' sockets. The answer is a result, or an error with advice.
//!
//! Called by: `sockets.rs`, which knows whose socket it is.

use core::net::{IpAddr, SocketAddr};

use base::Owner;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use stack::{
    CallError, ConnectError, ListenConfig, ListenError, ListenerHandle, PingHandle, PortId, Stack,
    TcpHandle, UdpError, UdpHandle,
};
use tcp::{Config, State};

use control::protocol::{Call, Called, Datagram, Echo, Kind, Refusal};

/// The longest time that an answer waits; it is shorter than the client's timeout.
const WAIT_MS: u32 = 2_000;
/// The most bytes of a stream in an answer.
const STREAM_BYTES: usize = 256 << 10;
/// Lower ports are reserved for root, as on Unix.
const FIRST_FREE_PORT: u16 = 1024;
/// The most connections that wait until a client accepts them.
const BACKLOG: usize = 8;

/// The most datagrams, echoes or connections in an answer.
pub(super) const BATCH: usize = 8;

/// The answer to a call.
pub(super) type Done = Result<Called, (Refusal, String)>;

/// The socket that belongs to a client's number; for echoes and datagrams, with the peer.
#[derive(Clone, Copy)]
pub(super) enum Handle {
    Ping(PingHandle, IpAddr),
    Udp(UdpHandle, Option<SocketAddr>),
    Tcp(TcpHandle),
    Listener(ListenerHandle),
}

/// How long the answer to a call may wait, if nothing came.
pub(super) fn later(call: &Call, called: &Called) -> Option<u32> {
    let Call::Receive { wait: Some(wait), .. } = call else { return None };
    (called.is_empty() && called.state == wait.seen).then(|| wait.ms.min(WAIT_MS))
}

/// The port with a name or a scope identifier, which is the text after the `%` of a link-local
/// address.
fn port_of(stack: &Stack, link: &str) -> Result<PortId, (Refusal, String)> {
    let is_it = |id: &PortId| stack.port_name(*id) == link || id.scope_id().to_string() == link;
    stack.port_ids().into_iter().find(is_it).ok_or_else(|| {
        let all: Vec<String> = stack.port_ids().into_iter().map(|id| stack.port_name(id)).collect();
        let why = format!("No such device: there is no port '{link}', but {}", all.join(", "));
        (Refusal::Wrong, why)
    })
}

/// The address with the given link.
fn on_link(
    stack: &Stack,
    to: SocketAddr,
    link: Option<&str>,
) -> Result<SocketAddr, (Refusal, String)> {
    match (to, link) {
        (SocketAddr::V6(mut to), Some(link)) => {
            to.set_scope_id(port_of(stack, link)?.scope_id());
            Ok(SocketAddr::V6(to))
        }
        _ => Ok(to),
    }
}

pub(super) fn open(
    stack: &mut Stack,
    owner: Owner,
    kind: &Kind,
) -> Result<Handle, (Refusal, String)> {
    let now = stack.now();
    let may_bind = |local: SocketAddr| {
        let is_free = local.port() == 0 || local.port() >= FIRST_FREE_PORT || owner.uid == 0;
        let why = "Permission denied: ports below 1024 are root's; give another";
        if is_free { Ok(()) } else { Err((Refusal::Denied, why.to_owned())) }
    };
    match *kind {
        Kind::Ping { host, ref link } => {
            let port = link.as_deref().map(|link| port_of(stack, link)).transpose()?;
            let handle = stack.ping_open(owner).map_err(of_udp)?;
            stack.ping_set_port(handle, port).map_err(of_udp)?;
            Ok(Handle::Ping(handle, host))
        }
        Kind::Udp { local, peer, ref link } => {
            may_bind(local)?;
            let peer = peer.map(|peer| on_link(stack, peer, link.as_deref())).transpose()?;
            let handle = match peer {
                Some(peer) => stack.udp_bind_connected(local, peer, owner),
                None => stack.udp_bind(local, owner),
            };
            let handle = handle.map_err(|why| match why {
                UdpError::NoAddress => not_ours(local),
                other => of_udp(other),
            });
            Ok(Handle::Udp(handle?, peer))
        }
        Kind::Connect { remote, ref link } => {
            let remote = on_link(stack, remote, link.as_deref())?;
            let connected = stack.tcp_connect(remote, None, &Config::default(), owner, now);
            connected.map(Handle::Tcp).map_err(of_connect)
        }
        Kind::Listen { local } => {
            may_bind(local)?;
            if local.port() == 0 {
                let why = "Invalid argument: a listener needs a port; give one from 1024 on";
                return Err((Refusal::Wrong, why.to_owned()));
            }
            let config = ListenConfig { owner, backlog: BACKLOG, ..ListenConfig::default() };
            stack.tcp_listen(local, config).map(Handle::Listener).map_err(|why| match why {
                ListenError::AddressInUse => in_use(),
                ListenError::LimitReached => full(),
                ListenError::NoAddress => not_ours(local),
            })
        }
    }
}

pub(super) fn send(
    stack: &mut Stack,
    handle: Handle,
    to: Option<SocketAddr>,
    seq: u16,
    data: &str,
) -> Done {
    let Ok(data) = STANDARD.decode(data) else {
        let why = "Invalid argument: the data is not base64; use tools of the program's version";
        return Err((Refusal::Wrong, why.to_owned()));
    };
    let now = stack.now();
    let sent = match handle {
        Handle::Ping(handle, host) => {
            stack.ping_send(handle, host, seq, &data, now).map_err(of_udp)?;
            data.len()
        }
        Handle::Udp(handle, peer) => {
            let Some(to) = peer.or(to) else {
                let why = "Destination address required: the socket is not connected; give an \
                           address";
                return Err((Refusal::Wrong, why.to_owned()));
            };
            stack.udp_send(handle, to, &data, now).map_err(of_udp)?;
            data.len()
        }
        Handle::Tcp(handle) => match stack.tcp_write(handle, &data) {
            Ok(count) => count,
            Err(CallError::WouldBlock) => 0,
            Err(why) => return Err((Refusal::Gone, ended(&why))),
        },
        Handle::Listener(_) => {
            let why = "Transport endpoint is not connected: send on a connection that the listener \
                       accepted";
            return Err((Refusal::Wrong, why.to_owned()));
        }
    };
    Ok(Called { sent: Some(sent as u64), at_ns: Some(now.as_nanos()), ..Called::default() })
}

pub(super) fn receive(stack: &mut Stack, handle: Handle) -> Called {
    let mut called = Called::default();
    match handle {
        Handle::Ping(handle, _) => {
            while called.echoes.len() < BATCH
                && let Some(came) = stack.ping_receive(handle)
            {
                let (from, seq, ttl, at_ns) = (came.from, came.seq, came.ttl, came.at.as_nanos());
                let (bytes, error) = match came.outcome {
                    Ok(payload) => {
                        let bytes = payload.len() as u64;
                        stack.give_back(payload);
                        (Some(bytes), None)
                    }
                    Err(why) => (None, Some(why.to_string())),
                };
                called.echoes.push(Echo { from, seq, ttl, at_ns, bytes, error });
            }
        }
        Handle::Udp(handle, _) => {
            while called.datagrams.len() < BATCH
                && let Some(came) = stack.udp_receive(handle)
            {
                let data = STANDARD.encode(came.payload.as_slice());
                called.datagrams.push(Datagram { from: came.from, data });
                stack.give_back(came.payload);
            }
            let error = stack.udp_take_error(handle);
            called.error = error.map(|(to, why)| format!("{to} cannot be reached: {why}"));
        }
        Handle::Tcp(handle) => stream(stack, handle, &mut called),
        Handle::Listener(_) => {}
    }
    called
}

/// The data that waits in a connection, and the connection's state.
fn stream(stack: &mut Stack, handle: TcpHandle, called: &mut Called) {
    let waiting = stack.tcp_readable(handle).map_or(0, |(count, _)| count);
    // If there is nothing to read, an attempt to read one byte shows whether the connection is
    // over.
    let mut room = vec![0; waiting.clamp(1, STREAM_BYTES)];
    let (count, error) = match stack.tcp_read(handle, &mut room) {
        Ok(count) => (count, None),
        Err(CallError::WouldBlock) => (0, None),
        Err(why) => (0, Some(ended(&why))),
    };
    let (state, failed) = stack.tcp_state(handle).unwrap_or((State::Closed, None));
    called.data = STANDARD.encode(&room[..count]);
    called.eof = stack.tcp_readable(handle).is_none_or(|(count, is_over)| count == 0 && is_over);
    state.name().clone_into(&mut called.state);
    called.error = error.or(failed.map(|why| format!("{why}: connect again")));
}

pub(super) fn close(stack: &mut Stack, handle: Handle) {
    match handle {
        Handle::Ping(handle, _) => stack.ping_close(handle),
        Handle::Udp(handle, _) => stack.udp_close(handle),
        Handle::Tcp(handle) => stack.tcp_close(handle),
        Handle::Listener(handle) => stack.tcp_unlisten(handle),
    }
}

fn ended(why: &CallError) -> String {
    format!("{why}: connect again")
}

/// The error for an address that is not the stack's. A client of the control socket never sends
/// from another host's address: `udp_bind_transparent` is for the program itself.
fn not_ours(local: SocketAddr) -> (Refusal, String) {
    let what = "none of the stack's ports has this address; give one that `wirespeed ip addr` \
                shows";
    (Refusal::Wrong, format!("Cannot assign requested address: {}: {what}", local.ip()))
}

fn in_use() -> (Refusal, String) {
    let why = "Address already in use: give another port, or see `wirespeed show sockets`";
    (Refusal::Exists, why.to_owned())
}

fn full() -> (Refusal, String) {
    let why = "No buffer space available: the stack has as many sockets as its limits allow; raise \
               them under [limits]";
    (Refusal::Full, why.to_owned())
}

fn unreachable(why: &str) -> (Refusal, String) {
    let what = "see the routes for this user with `wirespeed ip route get ADDRESS uid N`";
    (Refusal::Unreachable, format!("Network is unreachable: {why}; {what}"))
}

fn of_udp(why: UdpError) -> (Refusal, String) {
    match why {
        UdpError::AddressInUse => in_use(),
        UdpError::LimitReached => full(),
        UdpError::WouldBlock => {
            (Refusal::Busy, "Resource temporarily unavailable: try again".to_owned())
        }
        UdpError::Unsendable(reason) => unreachable(reason.meaning()),
        UdpError::NoAddress => unreachable("no address of the destination's version"),
        other => (Refusal::Wrong, format!("Invalid argument: {other}; see `wirespeed nc --help`")),
    }
}

fn of_connect(why: ConnectError) -> (Refusal, String) {
    match why {
        ConnectError::Unreachable(reason) => unreachable(reason.meaning()),
        ConnectError::NoAddress => unreachable("no address of the destination's version"),
        ConnectError::AddressInUse => in_use(),
        ConnectError::LimitReached => full(),
    }
}
