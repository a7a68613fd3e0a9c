//! Addresses of sockets as the C library has them in memory, from and to universal addresses
//! (UADDR2TADDR and TADDR2UADDR, RFC 1833 section 2.2.1; `struct netbuf`), and what the network ids
//! are.
//!
//! Called by: `service.rs`. The family is in this machine's byte order, as in all that reads it:
//! the procedures are for programs that leave it to the port mapper.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{DATAGRAMS, Entry, LOCAL, Rpcb, STREAMS, UDP, network, socket_address};
use super::{is_path, universal_address};
use crate::xdr::Bytes;

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
/// Linux's.
const AF_INET6: u16 = 10;
/// Bytes of `sockaddr_in` and `sockaddr_in6`.
const INET_BYTES: usize = 16;
const INET6_BYTES: usize = 28;

/// The most bytes that the buffer may have, and those that it has.
pub(super) type Netbuf = (u32, Bytes);

/// `sockaddr` of a universal address; nothing for what is none.
pub(super) fn to_sockaddr(address: &str) -> Netbuf {
    let mut bytes = Vec::new();
    match socket_address(address) {
        Some(SocketAddr::V4(at)) => {
            bytes.extend(AF_INET.to_ne_bytes());
            bytes.extend(at.port().to_be_bytes());
            bytes.extend(at.ip().octets());
            bytes.resize(INET_BYTES, 0);
        }
        Some(SocketAddr::V6(at)) => {
            bytes.extend(AF_INET6.to_ne_bytes());
            bytes.extend(at.port().to_be_bytes());
            bytes.extend(at.flowinfo().to_be_bytes());
            bytes.extend(at.ip().octets());
            bytes.resize(INET6_BYTES, 0);
        }
        None if is_path(address) => {
            bytes.extend(AF_UNIX.to_ne_bytes());
            bytes.extend(address.as_bytes());
            bytes.push(0);
        }
        None => {}
    }
    (bytes.len() as u32, Bytes(bytes))
}

/// The universal address of a `sockaddr`; empty for what is none.
pub(super) fn from_sockaddr(bytes: &[u8]) -> String {
    let Some((family, rest)) = bytes.split_first_chunk::<2>() else { return String::new() };
    let at = match (u16::from_ne_bytes(*family), rest.split_first_chunk::<2>()) {
        (AF_INET, Some((port, rest))) => rest
            .first_chunk::<4>()
            .map(|&ip| SocketAddr::new(Ipv4Addr::from(ip).into(), u16::from_be_bytes(*port))),
        (AF_INET6, Some((port, rest))) => rest
            .get(4..)
            .and_then(|rest| rest.first_chunk::<16>())
            .map(|&ip| SocketAddr::new(Ipv6Addr::from(ip).into(), u16::from_be_bytes(*port))),
        (AF_UNIX, _) => {
            let path = rest.split(|&byte| byte == 0).next().unwrap_or_default();
            let path = str::from_utf8(path).ok().filter(|path| is_path(path));
            return path.unwrap_or_default().to_owned();
        }
        _ => None,
    };
    at.map(universal_address).unwrap_or_default()
}

/// The protocol family of a network id.
pub(super) fn family(netid: &str) -> Option<&'static str> {
    match network(netid) {
        Some((_, ip)) => Some(if ip.is_ipv4() { "inet" } else { "inet6" }),
        None => (netid == LOCAL).then_some("loopback"),
    }
}

/// A mapping for GETADDRLIST, with the address at which the caller reaches it.
pub(super) fn entry(mapping: &Rpcb, address: String) -> Entry {
    let protocol = network(&mapping.netid).map(|(protocol, _)| protocol);
    let is_udp = protocol == Some(UDP);
    Entry {
        address,
        netid: mapping.netid.clone(),
        semantics: if is_udp { DATAGRAMS } else { STREAMS },
        family: family(&mapping.netid).unwrap_or("-").to_owned(),
        protocol: match protocol {
            None => "-",
            Some(_) if is_udp => "udp",
            Some(_) => "tcp",
        }
        .to_owned(),
    }
}
