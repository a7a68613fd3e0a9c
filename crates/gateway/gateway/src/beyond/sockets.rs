//! Sockets for datagrams and echoes of an outside that is a stack.
//!
//! Called by: `beyond.rs`.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::VecDeque;

use base::{DropReason, Instant, IpVersion, Owner};
use stack::{
    Echo, PingHandle, Stack, UdpError, UdpErrorReport, UdpHandle, UdpOptions, Unreachable,
};

use crate::datagrams::SessionKey;
use crate::outside::{Failure, Incoming, Outgoing, Problem};

/// The TTL that guests see.
const TTL: u8 = 63;

/// A socket of the outside.
pub struct Socket {
    pub(super) handle: Handle,
    /// Echoes that were taken while errors were looked for.
    echoes: VecDeque<Echo>,
    /// Errors that were taken together.
    errors: VecDeque<UdpErrorReport>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Handle {
    Udp(UdpHandle),
    Ping(PingHandle),
}

impl From<UdpHandle> for Socket {
    /// A socket of a published port.
    fn from(own: UdpHandle) -> Socket {
        Socket::of(Handle::Udp(own))
    }
}

impl Socket {
    fn of(handle: Handle) -> Socket {
        Socket { handle, echoes: VecDeque::new(), errors: VecDeque::new() }
    }
}

fn failure(error: UdpError) -> Failure {
    match error {
        UdpError::AddressInUse | UdpError::LimitReached | UdpError::WouldBlock => Failure::Full,
        UdpError::Closed | UdpError::InvalidSegments | UdpError::TooBig(_) => Failure::Full,
        UdpError::Broadcast | UdpError::Group => Failure::Unreachable(Unreachable::Prohibited),
        UdpError::NoAddress | UdpError::Unsendable(DropReason::IpNoRoute) => {
            Failure::Unreachable(Unreachable::Net)
        }
        UdpError::Unsendable(_) => Failure::Full,
    }
}

pub(super) fn open(stack: &mut Stack, key: &SessionKey) -> Result<Socket, Failure> {
    let handle = match *key {
        SessionKey::Echo(..) => stack.ping_open(Owner::program()).map(Handle::Ping),
        SessionKey::Names(version) => {
            let any = match version {
                IpVersion::V4 => Ipv4Addr::UNSPECIFIED.into(),
                IpVersion::V6 => Ipv6Addr::UNSPECIFIED.into(),
            };
            stack.udp_bind(SocketAddr::new(any, 0), Owner::program()).map(Handle::Udp)
        }
        SessionKey::Udp(guest) => {
            let any = match guest {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let bind = |stack: &mut Stack, port| {
                stack.udp_bind(SocketAddr::new(any, port), Owner::program())
            };
            let bound = match bind(stack, guest.port()) {
                Err(UdpError::AddressInUse) => bind(stack, 0),
                bound => bound,
            };
            bound.map(Handle::Udp)
        }
    };
    let handle = handle.map_err(failure)?;
    if let Handle::Udp(own) = handle {
        // Errors with their senders, as traceroute shows them.
        let options =
            UdpOptions { error_queue: true, ..stack.udp_options(own).unwrap_or_default() };
        let _ = stack.udp_set_options(own, options);
    }
    Ok(Socket::of(handle))
}

pub(super) fn send(
    stack: &mut Stack,
    socket: &mut Socket,
    what: &Outgoing<'_>,
    now: Instant,
) -> Result<(), Failure> {
    if let Handle::Udp(own) = socket.handle
        && let Some(ip) = stack.udp_ip_mut(own)
    {
        (ip.ttl, ip.tos) = (what.ttl, what.tos);
    }
    match socket.handle {
        Handle::Ping(own) => {
            let sent = stack.ping_send(own, what.to.ip(), what.seq, what.payload, now);
            sent.map(|_| ()).map_err(failure)
        }
        Handle::Udp(own) if what.segment_size > 0 => {
            let mut segments = what.payload.chunks(usize::from(what.segment_size));
            segments.try_for_each(|one| stack.udp_send(own, what.to, one, now)).map_err(failure)
        }
        Handle::Udp(own) => stack.udp_send(own, what.to, what.payload, now).map_err(failure),
    }
}

pub(super) fn receive(stack: &mut Stack, socket: &mut Socket, into: &mut [u8]) -> Option<Incoming> {
    let (from, seq, payload) = match socket.handle {
        Handle::Udp(own) => {
            let datagram = stack.udp_receive(own)?;
            (datagram.from, 0, datagram.payload)
        }
        Handle::Ping(_) => {
            let echo = socket.echoes.pop_front()?;
            (SocketAddr::new(echo.from, 0), echo.seq, echo.outcome.ok()?)
        }
    };
    let bytes = payload.len().min(into.len());
    into[..bytes].copy_from_slice(&payload.as_slice()[..bytes]);
    stack.give_back(payload);
    Some(Incoming { from, ttl: TTL, seq, bytes, segment_size: 0 })
}

/// Errors about echoes have no destination here: they are dropped.
pub(super) fn take_error(stack: &mut Stack, socket: &mut Socket) -> Option<Problem> {
    match socket.handle {
        Handle::Udp(own) => {
            if socket.errors.is_empty() {
                socket.errors.extend(stack.udp_take_errors(own));
            }
            let UdpErrorReport { kind, from, remote, payload_len, .. } =
                socket.errors.pop_front()?;
            Some(Problem { to: remote, seq: 0, error: kind, offender: from, payload_len })
        }
        Handle::Ping(own) => {
            while let Some(echo) = stack.ping_receive(own) {
                if echo.outcome.is_ok() {
                    socket.echoes.push_back(echo);
                }
            }
            None
        }
    }
}

pub(super) fn close(stack: &mut Stack, socket: Socket) {
    for echo in socket.echoes {
        if let Ok(payload) = echo.outcome {
            stack.give_back(payload);
        }
    }
    match socket.handle {
        Handle::Udp(own) => stack.udp_close(own),
        Handle::Ping(own) => stack.ping_close(own),
    }
}
