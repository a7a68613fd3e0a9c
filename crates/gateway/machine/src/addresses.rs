//! The host's own addresses, which rules call `host`, and news of them.
//!
//! Called by: `machine.rs`; `turns.rs` when there is news. The socket is made before the system
//! calls of the process are filtered. Source: rtnetlink(7).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Messages: an address is there, an address is gone, all addresses, the end.
const NEW_ADDRESS: u16 = 20;
const DEL_ADDRESS: u16 = 21;
const GET_ADDRESS: u16 = 22;
const DONE: u16 = 3;
/// NLM_F_REQUEST and NLM_F_DUMP.
const DUMP: u16 = 0x301;
/// Groups of news: addresses of IPv4 and of IPv6.
const NEWS: u32 = 0x10 | 0x100;
/// Attributes: the address of the other end or our own, and our own.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// The address by which the host sends to others: no packet is sent for this. `None` while it has
/// no way to them.
pub(super) fn outgoing(is_v4: bool) -> Option<IpAddr> {
    // Addresses for documentation (RFC 5737, RFC 3849): only the route to them counts.
    let (any, other): (IpAddr, IpAddr) = match is_v4 {
        true => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        false => {
            let other = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
            (Ipv6Addr::UNSPECIFIED.into(), other.into())
        }
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((other, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The addresses of the host.
pub(super) struct Addresses {
    socket: OwnedFd,
    known: Vec<IpAddr>,
    /// The kernel lost news: all have to be asked again.
    asks: bool,
}

impl Addresses {
    /// All addresses of now, and news of later ones.
    ///
    /// # Errors
    /// The kernel has no rtnetlink for us.
    pub(super) fn read() -> Result<Addresses> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::RAW;
        // Protocol 0 is NETLINK_ROUTE.
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, None)
            .context("there is no rtnetlink")?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, NEWS))
            .context("there is no news of addresses")?;
        let mut addresses = Addresses { socket, known: Vec::new(), asks: true };
        addresses.take_news();
        Ok(addresses)
    }

    pub(super) fn known(&self) -> &[IpAddr] {
        &self.known
    }

    /// Take the news; true if the addresses are others now.
    pub(super) fn take_news(&mut self) -> bool {
        let before = self.known.clone();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if self.asks {
                self.asks = false;
                self.known.clear();
                let mut request = vec![0; 20];
                request[..4].copy_from_slice(&20_u32.to_ne_bytes());
                request[4..6].copy_from_slice(&GET_ADDRESS.to_ne_bytes());
                request[6..8].copy_from_slice(&DUMP.to_ne_bytes());
                let _ = rustix::net::send(&self.socket, &request, SendFlags::empty());
            }
            match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, bytes)) => self.take(buffer.get(..bytes).unwrap_or(&[])),
                Err(rustix::io::Errno::NOBUFS) => self.asks = true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        self.known.sort_unstable();
        self.known != before
    }

    fn take(&mut self, mut messages: &[u8]) {
        while let Some((kind, body, rest)) = message(messages) {
            messages = rest;
            if kind == DONE {
                return;
            }
            let Some(address) = own(body) else { continue };
            if let NEW_ADDRESS | DEL_ADDRESS = kind {
                self.known.retain(|known| *known != address);
            }
            if kind == NEW_ADDRESS {
                self.known.push(address);
            }
        }
    }
}

impl AsFd for Addresses {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A message's type and body, and what follows it.
pub(super) fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(16..len)?;
    Some((kind, body, bytes.get(len.next_multiple_of(4)..).unwrap_or(&[])))
}

/// The host's own address in a `struct ifaddrmsg` with attributes.
fn own(body: &[u8]) -> Option<IpAddr> {
    let mut attributes = body.get(8..)?;
    let mut address = None;
    while let Some(head) = attributes.get(..4) {
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]);
        let value = attributes.get(4..len)?;
        let read = match value.len() {
            4 => value.try_into().ok().map(|octets: [u8; 4]| Ipv4Addr::from(octets).into()),
            16 => value.try_into().ok().map(|octets: [u8; 16]| Ipv6Addr::from(octets).into()),
            _ => None,
        };
        match kind {
            IFA_LOCAL => return read,
            IFA_ADDRESS => address = read,
            _ => {}
        }
        attributes = attributes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_address_is_among_the_hosts() {
        let addresses = Addresses::read().expect("rtnetlink");
        let loopback: IpAddr = Ipv4Addr::LOCALHOST.into();
        assert!(addresses.known().contains(&loopback), "{:?}", addresses.known());
    }

    #[test]
    fn our_own_address_goes_before_the_other_ends() {
        let mut body = vec![2, 32, 0, 0, 1, 0, 0, 0];
        for (kind, last) in [(IFA_ADDRESS, 9), (IFA_LOCAL, 1)] {
            body.extend(8_u16.to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend([192, 0, 2, last]);
        }
        assert_eq!(own(&body), Some(Ipv4Addr::new(192, 0, 2, 1).into()));
        assert_eq!(own(&body[..16]), Some(Ipv4Addr::new(192, 0, 2, 9).into()));
        assert_eq!(own(&[]), None);
        assert_eq!(message(&[255; 16]), None);
    }
}
