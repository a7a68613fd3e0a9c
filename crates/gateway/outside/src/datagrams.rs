//! Sockets for the datagrams and echoes of a session.
//!
//! Called by: `host/outside.rs`, for the engine. `send.rs` and `gather.rs` send, `receive.rs`
//! receives, `problems.rs` reads the error queue. Echoes need ping sockets (icmp(7)), which the
//! kernel permits to the groups of `net.ipv4.ping_group_range`.

mod gather;
mod problems;
mod receive;
mod send;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use base::IpVersion;
use gateway::{SessionKey, Token};
use nix::sys::socket::{setsockopt, sockopt as option};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

pub(crate) use gather::Gather;
pub(crate) use problems::next_problem;

/// Room for the control messages of a received datagram: a TTL, a size of segments, an error with
/// the address of who reports it.
pub(crate) const CONTROL_BYTES: usize = 256;
/// Bytes of the header of an echo request or reply.
const ECHO_HEADER_BYTES: usize = 8;

/// A socket of the host for datagrams or for echoes.
#[derive(Debug)]
pub struct Socket {
    /// Shared with what is gathered for it.
    fd: Arc<OwnedFd>,
    token: Token,
    is_echo: bool,
    is_v6: bool,
    /// With which TTL and type of service the socket sends now, once the first was set.
    sends_with: Option<(u8, u8)>,
    /// Where the last datagram went, and at which failure of gathered ones: see `gather.rs`.
    last_to: Option<(SocketAddr, u64)>,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Socket {
    /// Open the socket of a session.
    pub(crate) fn open(token: Token, key: &SessionKey) -> Result<Socket, Errno> {
        let (is_v6, is_echo, port) = match *key {
            SessionKey::Udp(guest) => (guest.is_ipv6(), false, guest.port()),
            SessionKey::Echo(guest, _) => (guest.is_ipv6(), true, 0),
            SessionKey::Names(version) => (version == IpVersion::V6, false, 0),
        };
        let fd = socket(is_v6, is_echo)?;
        set_options(&fd, is_v6, is_echo);
        if !is_echo {
            bind(&fd, is_v6, port)?;
        }
        let fd = Arc::new(fd);
        Ok(Socket { fd, token, is_echo, is_v6, sends_with: None, last_to: None })
    }

    /// A socket for datagrams at the address of this end of a connection.
    pub(crate) fn beside(own: SocketAddr) -> Result<Socket, Errno> {
        let mut own = own;
        own.set_ip(own.ip().to_canonical());
        if own.is_ipv4() {
            own = SocketAddr::new(own.ip(), 0);
        }
        own.set_port(0);
        let fd = socket(own.is_ipv6(), false)?;
        rustix::net::bind(&fd, &own)?;
        Socket::of(fd)
    }

    /// A socket for datagrams that somebody has bound. It has no token yet.
    pub(crate) fn of(fd: OwnedFd) -> Result<Socket, Errno> {
        let own = SocketAddr::try_from(rustix::net::getsockname(&fd)?)?;
        rustix::io::ioctl_fionbio(&fd, true)?;
        set_options(&fd, own.is_ipv6(), false);
        let (fd, token, is_v6) = (Arc::new(fd), Token(0), own.is_ipv6());
        Ok(Socket { fd, token, is_echo: false, is_v6, sends_with: None, last_to: None })
    }

    /// Receive each datagram by a call of its own.
    pub(crate) fn take_one_by_one(&self) {
        let _ = setsockopt(&self.fd, option::UdpGroSegment, &false);
    }

    /// The address and port to which it is bound.
    pub fn local(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(rustix::net::getsockname(&self.fd).ok()?).ok()
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    pub(crate) fn set_token(&mut self, token: Token) {
        self.token = token;
    }
}

fn socket(is_v6: bool, is_echo: bool) -> Result<OwnedFd, Errno> {
    let (family, echo) = match is_v6 {
        true => (AddressFamily::INET6, ipproto::ICMPV6),
        false => (AddressFamily::INET, ipproto::ICMP),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(family, SocketType::DGRAM, flags, is_echo.then_some(echo))
}

/// Ask for errors of the network and for TTLs, and for several datagrams in one call. A kernel that
/// does not know one of these still carries datagrams.
fn set_options(fd: &OwnedFd, is_v6: bool, is_echo: bool) {
    if is_v6 {
        let _ = sockopt::set_ipv6_v6only(fd, true);
        let _ = setsockopt(fd, option::Ipv6RecvErr, &true);
        let _ = setsockopt(fd, option::Ipv6RecvHopLimit, &true);
    } else {
        let _ = setsockopt(fd, option::Ipv4RecvErr, &true);
        let _ = setsockopt(fd, option::Ipv4RecvTtl, &true);
    }
    if !is_echo {
        let _ = setsockopt(fd, option::UdpGroSegment, &true);
    }
}

/// Bind to the port that the guest has, if it is free (RFC 4787 REQ-3) and permitted; else to a
/// random one.
fn bind(fd: &OwnedFd, is_v6: bool, port: u16) -> Result<(), Errno> {
    let ip = match is_v6 {
        true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    match rustix::net::bind(fd, &SocketAddr::new(ip, port)) {
        Err(Errno::ADDRINUSE | Errno::ACCESS | Errno::PERM) if port != 0 => {
            rustix::net::bind(fd, &SocketAddr::new(ip, 0))
        }
        bound => bound,
    }
}
