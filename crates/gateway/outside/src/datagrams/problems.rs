//! The error queue of a socket (IP_RECVERR, ip(7)): which datagram was not delivered, why, and who
//! says so. This is how traceroute works through a gateway without privileges.
//!
//! Called by: `host/outside.rs`, for the engine. RFC 792, RFC 4443.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io::IoSliceMut;
use std::os::fd::AsRawFd;

use gateway::{Failure, Problem};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use rustix::io::Errno;
use stack::{ErrorKind, Unreachable};

use super::receive::address;
use super::{ECHO_HEADER_BYTES, Socket};
use crate::counts::Counts;
use crate::errors::{errno, failure};

/// The origin of an error: the host itself, or a message of ICMP or ICMPv6 (SO_EE_ORIGIN_*).
const LOCAL: u8 = 1;
const ICMP: u8 = 2;
const ICMP_V6: u8 = 3;
/// Bytes of a returned datagram that are read: routers return less.
const QUOTE_BYTES: usize = 2_048;
/// Errors in a row that say nothing, after which others have their turn.
const IGNORED_MAX: usize = 64;

/// The next error about something that was sent.
pub(crate) fn next_problem(
    socket: &Socket,
    control: &mut [u8],
    counts: &mut Counts,
) -> Option<Problem> {
    let mut quote = [0; QUOTE_BYTES];
    for _ in 0..IGNORED_MAX {
        let (to, error, bytes) = match read(socket, &mut quote, control) {
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(_) => return None,
        };
        let (Some(to), Some((error, offender))) = (to, error) else {
            counts.errors_ignored += 1;
            continue;
        };
        let (mut seq, mut payload_len) = (0, bytes);
        if socket.is_echo {
            if bytes < ECHO_HEADER_BYTES {
                counts.errors_ignored += 1;
                continue;
            }
            seq = u16::from_be_bytes([quote[6], quote[7]]);
            payload_len = bytes - ECHO_HEADER_BYTES;
        }
        let offender = offender.unwrap_or(to.ip());
        return Some(Problem { to, seq, error, offender, payload_len });
    }
    None
}

type ErrorReport = (Option<SocketAddr>, Option<(ErrorKind, Option<IpAddr>)>, usize);

/// Read one error: the destination, what went wrong and who says so, the bytes that came back.
fn read(socket: &Socket, quote: &mut [u8], control: &mut [u8]) -> Result<ErrorReport, Errno> {
    let mut parts = [IoSliceMut::new(quote)];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let got = recvmsg::<SockaddrStorage>(socket.fd.as_raw_fd(), &mut parts, Some(control), flags);
    let got = got.map_err(errno)?;
    let mut found = None;
    for message in got.cmsgs().into_iter().flatten() {
        let (error, offender) = match message {
            ControlMessageOwned::Ipv4RecvErr(error, offender) => {
                let ip = offender.map(|from| Ipv4Addr::from(from.sin_addr.s_addr.to_ne_bytes()));
                (error, ip.map(IpAddr::V4))
            }
            ControlMessageOwned::Ipv6RecvErr(error, offender) => {
                let ip = offender.map(|from| Ipv6Addr::from(from.sin6_addr.s6_addr));
                (error, ip.map(IpAddr::V6))
            }
            _ => continue,
        };
        let message = (error.ee_type, error.ee_code);
        let about = match error.ee_origin {
            ICMP => icmp(message, error.ee_info),
            ICMP_V6 => icmp_v6(message, error.ee_info),
            LOCAL => local(Errno::from_raw_os_error(error.ee_errno as i32), error.ee_info),
            _ => None,
        };
        let offender = offender.filter(|ip| !ip.is_unspecified() && error.ee_origin != LOCAL);
        found = about.map(|about| (about, offender));
    }
    Ok((got.address.and_then(address), found, got.bytes))
}

/// An ICMP message, by its type and code.
fn icmp(message: (u8, u8), mtu: u32) -> Option<ErrorKind> {
    let why = match message {
        (3, 0 | 5 | 6 | 8 | 11) => Unreachable::Net,
        (3, 1 | 7 | 12) => Unreachable::Host,
        (3, 2) => Unreachable::Protocol,
        (3, 3) => Unreachable::Port,
        (3, 4) => return Some(ErrorKind::TooBig(mtu as usize)),
        (3, 9 | 10 | 13..=15) => Unreachable::Prohibited,
        (11, _) => return Some(ErrorKind::Transient),
        _ => return None,
    };
    Some(ErrorKind::Unreachable(why))
}

/// An ICMPv6 message, by its type and code.
fn icmp_v6(message: (u8, u8), mtu: u32) -> Option<ErrorKind> {
    let why = match message {
        (1, 0 | 2) => Unreachable::Net,
        (1, 1 | 5 | 6) => Unreachable::Prohibited,
        (1, 3) => Unreachable::Host,
        (1, 4) => Unreachable::Port,
        (2, _) => return Some(ErrorKind::TooBig(mtu as usize)),
        (3, _) => return Some(ErrorKind::Transient),
        (4, 1) => Unreachable::Protocol,
        _ => return None,
    };
    Some(ErrorKind::Unreachable(why))
}

/// An error of the host itself.
fn local(error: Errno, mtu: u32) -> Option<ErrorKind> {
    if error == Errno::MSGSIZE {
        return Some(ErrorKind::TooBig(mtu as usize));
    }
    match failure(error) {
        Failure::Refused => Some(ErrorKind::Unreachable(Unreachable::Port)),
        Failure::Unreachable(why) => Some(ErrorKind::Unreachable(why)),
        Failure::TimedOut => Some(ErrorKind::Unreachable(Unreachable::Host)),
        Failure::Reset | Failure::Full => None,
    }
}
