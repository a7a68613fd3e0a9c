//! The endpoints of the router's own sockets, and those of translated flows: neither takes the
//! other's.
//!
//! Called by: `firewall.rs` for a new flow of NAT; the calls that bind sockets. An address that is
//! not ours is a socket's only if it is bound to that address. A connection is asked for by both of
//! its ends, since many have one port. RFC 4787 REQ-3, RFC 6056 section 3.2.

use core::net::{IpAddr, SocketAddr};

use base::KeyedHash;
use filter::packet::Tuple;
use inet::FlowKey;
use wire::protocol;

use crate::connections::Connections;
use crate::port::Ports;
use crate::socket::listener::Listeners;
use crate::socket::ping::PingSockets;
use crate::socket::udp::UdpSockets;
use crate::stack::Stack;

/// All sockets of a shard.
pub(super) struct Own<'a> {
    pub(super) ports: &'a Ports,
    pub(super) connections: &'a Connections,
    pub(super) listeners: &'a Listeners,
    pub(super) udp: &'a UdpSockets,
    pub(super) pings: &'a PingSockets,
    pub(super) secret: &'a KeyedHash,
}

impl Own<'_> {
    /// Has a socket the source endpoint of a flow, as it is behind its translation?
    pub(super) fn has(&self, tuple: &Tuple) -> bool {
        let (addr, port) = (tuple.src, tuple.src_port);
        let is_ours = || self.ports.iter().any(|port| port.local.is_ours(addr));
        match tuple.protocol {
            protocol::TCP => {
                let key = FlowKey::new(addr, port, tuple.dst, tuple.dst_port);
                self.listeners.has(Some(addr), port)
                    || self.listeners.has(None, port) && is_ours()
                    || self.connections.is_taken(&key, self.secret)
            }
            protocol::UDP => {
                self.udp.is_bound(Some(addr), port) || self.udp.is_bound(None, port) && is_ours()
            }
            protocol::ICMP | protocol::ICMPV6 => self.pings.sender(port).is_some() && is_ours(),
            _ => false,
        }
    }
}

impl Stack {
    /// Have translated flows this port of an address, or of any address of ours? A socket must not
    /// be bound to it, since it would get nothing of what comes there. Only the flows of this shard
    /// are known.
    pub(crate) fn is_translated(&self, protocol: u8, ip: Option<IpAddr>, port: u16) -> bool {
        let Some(firewall) = self.firewall.as_deref().filter(|firewall| firewall.translates())
        else {
            return false;
        };
        let is_in_use = |addr| firewall.mappings().is_in_use(protocol, addr, port);
        match ip {
            Some(addr) => is_in_use(addr),
            None => {
                let mut ports = self.ports.iter();
                ports.any(|port| port.addresses.iter().map(inet::Address::ip).any(is_in_use))
            }
        }
    }

    /// [`Stack::is_translated`] for TCP at a local endpoint, whose address may be unspecified.
    pub(crate) fn is_translated_tcp(&self, local: SocketAddr) -> bool {
        let ip = (!local.ip().is_unspecified()).then_some(local.ip());
        self.is_translated(protocol::TCP, ip, local.port())
    }
}
