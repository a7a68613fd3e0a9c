//! The port mapper, which keeps the addresses where programs listen (RFC 1833): version 2 (`PMAP`),
//! versions 3 and 4 (`RPCBIND`).
//!
//! Called by: servers that are port mappers, and clients that look up a program. [`PortMapper`] is
//! the service. A port in version 2 is an address over IPv4 in versions 3 and 4.

mod mappings;
mod service;
mod statistics;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub use mappings::{Mappings, SetError};
pub use service::PortMapper;
pub use statistics::{Lookups, RemoteCalls, Statistics};

use crate::limits::PATH_MAX;
use crate::xdr::{Bytes, List};

/// The number of the RPC program.
pub const PROGRAM: u32 = 100_000;
/// Its port, for UDP and TCP.
pub const PORT: u16 = 111;
/// IPPROTO_TCP, in version 2.
pub const TCP: u32 = 6;
/// IPPROTO_UDP, in version 2.
pub const UDP: u32 = 17;

/// Procedures of version 2; the first four are also those of versions 3 and 4.
pub mod procedure {
    /// Add a mapping.
    pub const SET: u32 = 1;
    /// Remove the mappings of a version of a program.
    pub const UNSET: u32 = 2;
    /// Get the port (version 2) or the address (versions 3 and 4) of a version of a program.
    pub const GET: u32 = 3;
    /// List all mappings.
    pub const DUMP: u32 = 4;
    /// Call a program through the port mapper (PMAPPROC_CALLIT, RPCBPROC_BCAST).
    pub const CALLIT: u32 = 5;
    /// Get the time of day (versions 3 and 4).
    pub const GETTIME: u32 = 6;
    /// Convert a universal address to a socket address (versions 3 and 4).
    pub const UADDR2TADDR: u32 = 7;
    /// Convert a socket address to a universal address (versions 3 and 4).
    pub const TADDR2UADDR: u32 = 8;
    /// Like GET, but only for exactly that version (version 4).
    pub const GETVERSADDR: u32 = 9;
    /// Like CALLIT, but errors are returned (version 4).
    pub const INDIRECT: u32 = 10;
    /// List all addresses of a version in the protocol family over which the call came (version 4).
    pub const GETADDRLIST: u32 = 11;
    /// Get the counters of the port mapper (version 4).
    pub const GETSTAT: u32 = 12;
}

crate::xdr! {
    /// A mapping of version 2.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Mapping {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// [`TCP`] or [`UDP`].
        pub protocol: u32,
        /// The port on which the program listens.
        pub port: u32,
    }

    /// A mapping of versions 3 and 4.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Rpcb {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// The network id: `udp`, `tcp`, `udp6`, `tcp6`.
        pub netid: String,
        /// The universal address, for example `192.0.2.1.0.111`.
        pub address: String,
        /// The owner: who has set the mapping.
        pub owner: String,
    }

    /// An address in the results of GETADDRLIST.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Entry {
        /// The universal address.
        pub address: String,
        /// The network id.
        pub netid: String,
        /// The semantics of the transport: [`DATAGRAMS`] or [`STREAMS`].
        pub semantics: u32,
        /// `inet`, `inet6`, `loopback`.
        pub family: String,
        /// `udp`, `tcp`, or `-`.
        pub protocol: String,
    }
}

/// Semantics of a transport: datagrams, without connections.
pub const DATAGRAMS: u32 = 1;
/// Semantics of a transport: streams that are closed gracefully.
pub const STREAMS: u32 = 3;
/// The network id of Unix sockets, whose universal addresses are paths.
pub const LOCAL: &str = "local";
/// The Unix socket at which programs of this machine first look for the port mapper.
pub const SOCKET: &str = "/run/rpcbind.sock";

/// The results of DUMP of version 2.
pub type MappingList = List<Mapping>;
/// The results of DUMP of versions 3 and 4.
pub type RpcbList = List<Rpcb>;
/// The results of GETADDRLIST.
pub type EntryList = List<Entry>;

/// The universal address of a socket (RFC 5665 section 5.2.3): the IP address, and after it the
/// port as two numbers.
pub fn universal_address(address: SocketAddr) -> String {
    let port = address.port();
    format!("{}.{}.{}", address.ip(), port >> 8, port & 255)
}

/// The socket address of a universal address; `None` if the text is not one.
pub fn socket_address(text: &str) -> Option<SocketAddr> {
    let (rest, low) = text.rsplit_once('.')?;
    let (ip, high) = rest.rsplit_once('.')?;
    let (high, low) = (high.parse::<u8>().ok()?, low.parse::<u8>().ok()?);
    let port = u16::from_be_bytes([high, low]);
    Some(SocketAddr::new(ip.parse::<IpAddr>().ok()?, port))
}

/// Is the text the universal address of a Unix socket, which is an absolute path?
pub(crate) fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.len() <= PATH_MAX && !text.contains('\0')
}

/// The protocol number and the unspecified address of a network id over IP.
pub fn network(netid: &str) -> Option<(u32, IpAddr)> {
    Some(match netid {
        "udp" => (UDP, Ipv4Addr::UNSPECIFIED.into()),
        "tcp" => (TCP, Ipv4Addr::UNSPECIFIED.into()),
        "udp6" => (UDP, Ipv6Addr::UNSPECIFIED.into()),
        "tcp6" => (TCP, Ipv6Addr::UNSPECIFIED.into()),
        _ => return None,
    })
}

/// The network id of a protocol over IPv4.
fn netid_of(protocol: u32) -> Option<&'static str> {
    match protocol {
        TCP => Some("tcp"),
        UDP => Some("udp"),
        _ => None,
    }
}

// Socket addresses as the C library has them in memory, converted from and to universal addresses
// (UADDR2TADDR and TADDR2UADDR, RFC 1833 section 2.2.1; `struct netbuf`), and properties of the
// network ids.
//
// The family is in this machine's byte order, because readers expect that: the two procedures are
// for programs that let the port mapper do the conversion.

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
/// Linux's number for AF_INET6.
const AF_INET6: u16 = 10;
/// Bytes of `sockaddr_in` and `sockaddr_in6`.
const INET_BYTES: usize = 16;
const INET6_BYTES: usize = 28;

/// A `struct netbuf`: the maximum length of the buffer, and its bytes.
type Netbuf = (u32, Bytes);

/// The `sockaddr` of a universal address; empty if the text is not one.
fn to_sockaddr(address: &str) -> Netbuf {
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

/// The universal address of a `sockaddr`; empty if the bytes are not one.
fn from_sockaddr(bytes: &[u8]) -> String {
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
fn family(netid: &str) -> Option<&'static str> {
    match network(netid) {
        Some((_, ip)) => Some(if ip.is_ipv4() { "inet" } else { "inet6" }),
        None => (netid == LOCAL).then_some("loopback"),
    }
}

/// A mapping as an entry of GETADDRLIST, with the address at which the caller reaches the program.
fn entry(mapping: &Rpcb, address: String) -> Entry {
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
