//! A port's addresses in a form that is fast to compare with packets: IPv4 and IPv6 separately, and
//! IPv4 as 32-bit words. Also the neighbours whose broadcast address differs from ours.
//!
//! Called by: `for_us.rs` for each datagram and each segment of no connection, so it has to be
//! fast. RFC 1122 sections 3.2.1.3 and 3.3.6. Limit: `other_broadcasters`.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use base::{Budget, Cidr, Duration, Instant, Limit, MacAddr};
use inet::ip_input::is_martian_source;

use crate::handles::PortId;

/// The addresses of a port, in the form in which the addresses of packets are compared with them.
#[derive(Clone, Default)]
pub(crate) struct LocalAddrs {
    v4: Vec<LocalV4>,
    v6: Vec<Ipv6Addr>,
    /// The subnet-router anycast addresses of the port's networks, which a router has (RFC 4291
    /// section 2.6.1).
    anycast: Vec<Ipv6Addr>,
    /// The broadcast addresses of all ports, sorted, if there are several ports.
    broadcasts: Arc<[u32]>,
    /// The port is the loopback port: packets are from our addresses to our addresses.
    loops: bool,
}

#[derive(Clone)]
struct LocalV4 {
    addr: u32,
    /// Mask of the host part; zero if the network has no broadcast address (prefix lengths 31 and
    /// 32).
    host: u32,
    /// The address that hosts of the network broadcast to; the port's own address if there is none.
    broadcast: u32,
}

/// How another broadcast address differs from the port's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BroadcastForm {
    /// The host part, or the whole address, is zeros: 4.2BSD's form.
    Zeros,
    /// The host part is ones: the standard form (RFC 1122 section 3.3.6).
    Ones,
    /// Neither form for a network of this port: the other host has another prefix length, or the
    /// port has no broadcast address.
    OtherNetwork,
}

impl LocalV4 {
    fn new(addr: Ipv4Addr, prefix_len: u8) -> LocalV4 {
        let host = u32::MAX.checked_shr(u32::from(prefix_len)).unwrap_or(0);
        let (addr, host) = (addr.to_bits(), if host > 1 { host } else { 0 });
        LocalV4 { addr, host, broadcast: addr | host }
    }

    /// Is `addr` a directed broadcast address: is its host part all ones, or all zeros as in
    /// 4.2BSD, or is it the address that was set?
    #[inline(always)]
    fn is_broadcast(&self, addr: u32) -> bool {
        let host = addr & self.host;
        // Nearly no address has a host part of all ones or zeros, so this is tested first.
        let in_form = (host == 0 || host == self.host)
            && self.host != 0
            && (self.addr ^ addr) & !self.host == 0;
        in_form || self.is_own_broadcast(addr)
    }

    #[inline(always)]
    fn is_own_broadcast(&self, addr: u32) -> bool {
        addr == self.broadcast && addr != self.addr
    }

    /// May hosts of this network, or of a larger one around it, broadcast to `to`?
    fn may_broadcast_to(&self, to: u32) -> bool {
        // No network around this one is larger than those of class A.
        let fits = |len: u32| {
            let host = u32::MAX >> len;
            let part = to & host;
            (len >= 8 || host == self.host)
                && host & self.host == self.host
                && (self.addr ^ to) & !host == 0
                && (part == 0 || part == host)
        };
        to == u32::MAX || (self.host != 0 && to != self.addr && (1..31).any(fits))
    }
}

impl LocalAddrs {
    pub(crate) fn new(addresses: impl Iterator<Item = Cidr>) -> LocalAddrs {
        let (mut v4, mut v6, mut anycast) = (Vec::new(), Vec::new(), Vec::new());
        for cidr in addresses {
            match cidr.addr {
                IpAddr::V4(addr) => v4.push(LocalV4::new(addr, cidr.prefix_len)),
                IpAddr::V6(addr) => {
                    v6.push(addr);
                    anycast.extend(subnet_router(cidr));
                }
            }
        }
        anycast.retain(|addr| !v6.contains(addr));
        LocalAddrs { v4, v6, anycast, broadcasts: Arc::default(), loops: false }
    }

    /// The addresses of the loopback port.
    pub(crate) fn looping(addresses: impl Iterator<Item = Cidr>) -> LocalAddrs {
        LocalAddrs { loops: true, ..LocalAddrs::new(addresses) }
    }

    /// The broadcast addresses of the port's networks, in every form.
    pub(crate) fn broadcasts(&self) -> impl Iterator<Item = u32> {
        let special = self.special_v4().map(Ipv4Addr::to_bits);
        special.filter(|&addr| self.v4.iter().any(|own| own.is_broadcast(addr)))
    }

    /// Note the broadcast addresses of all ports: no packet may have one as its source.
    pub(crate) fn note_broadcasts(&mut self, all: &Arc<[u32]>) {
        self.broadcasts = Arc::clone(all);
    }

    /// Take over the broadcast addresses that were set in `old`, for the addresses that `self` has
    /// as well.
    pub(crate) fn with_broadcasts_of(mut self, old: &LocalAddrs) -> LocalAddrs {
        self.broadcasts = Arc::clone(&old.broadcasts);
        for own in &mut self.v4 {
            let before = old.v4.iter().find(|b| b.addr == own.addr && b.host == own.host);
            own.broadcast = before.map_or(own.broadcast, |before| before.broadcast);
        }
        self
    }

    /// Set the address that the network of `addr` broadcasts to. `false`, with nothing changed, if
    /// `addr` is no address of ours, or `to` cannot be the broadcast address of its network or of
    /// one around it.
    pub(crate) fn set_broadcast(&mut self, addr: Ipv4Addr, to: Ipv4Addr) -> bool {
        let own = self.v4.iter_mut().find(|own| own.addr == addr.to_bits());
        match own.filter(|own| own.may_broadcast_to(to.to_bits())) {
            Some(own) => {
                own.broadcast = to.to_bits();
                true
            }
            None => false,
        }
    }

    /// The broadcast address of the network of `addr`, an address of ours.
    pub(crate) fn broadcast(&self, addr: Ipv4Addr) -> Option<Ipv4Addr> {
        let own = self.v4.iter().find(|own| own.addr == addr.to_bits())?;
        (own.broadcast != own.addr).then(|| own.broadcast.into())
    }

    /// How the destination of a packet to a broadcast MAC address differs from this port's
    /// broadcast address; `None` if it does not.
    pub(crate) fn other_form(&self, dst: Ipv4Addr) -> Option<BroadcastForm> {
        let bits = dst.to_bits();
        if dst.is_broadcast() || self.v4.iter().any(|own| own.is_own_broadcast(bits)) {
            return None;
        }
        let near = |own: &&LocalV4| own.host != 0 && (own.addr ^ bits) & !own.host == 0;
        Some(match self.v4.iter().find(near).map(|own| bits & own.host) {
            _ if bits == 0 => BroadcastForm::Zeros,
            Some(0) => BroadcastForm::Zeros,
            Some(part) if self.is_group(dst.into()) && part != 0 => BroadcastForm::Ones,
            _ => BroadcastForm::OtherNetwork,
        })
    }

    /// Our IPv4 addresses on this port, and all addresses that [`LocalAddrs::is_broadcast`] accepts
    /// for their networks.
    pub(crate) fn special_v4(&self) -> impl Iterator<Item = Ipv4Addr> {
        let of_network = |own: &LocalV4| [own.addr & !own.host, own.addr | own.host];
        self.v4.iter().flat_map(move |own| {
            let [zeros, ones] = of_network(own);
            [own.addr, zeros, ones, own.broadcast].map(Ipv4Addr::from_bits)
        })
    }

    /// Our IPv6 addresses on this port, and the anycast addresses of a router.
    pub(crate) fn special_v6(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.v6.iter().chain(&self.anycast).copied()
    }

    /// Is `addr` a subnet-router anycast address of this port? Only a router has such addresses.
    #[cold]
    pub(crate) fn is_anycast(&self, addr: IpAddr) -> bool {
        matches!(addr, IpAddr::V6(addr) if self.anycast.contains(&addr))
    }

    /// Is `addr` one of our addresses on this port?
    #[inline]
    pub(crate) fn is_ours(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(a) => {
                self.v4.iter().any(|own| own.addr == a.to_bits()) || self.loops && a.is_loopback()
            }
            IpAddr::V6(a) => self.v6.contains(&a),
        }
    }

    /// Can `addr` be the address of another host? It must not be multicast, broadcast or our own:
    /// an answer would come back to us, or go to all hosts of a network of this port or of another.
    #[inline]
    pub(crate) fn may_send(&self, addr: IpAddr) -> bool {
        let is_of_another = !is_martian_source(addr)
            && !self.is_group(addr)
            && !self.is_ours(addr)
            && !self.is_any_broadcast(addr);
        is_of_another || self.loops && self.is_ours(addr)
    }

    /// Is `addr` a broadcast address of any port? `false` if there is only one port.
    #[inline]
    pub(crate) fn is_any_broadcast(&self, addr: IpAddr) -> bool {
        let IpAddr::V4(addr) = addr else { return false };
        !self.broadcasts.is_empty() && self.broadcasts.binary_search(&addr.to_bits()).is_ok()
    }

    /// Is `addr` a broadcast address on this port, in either form, or a multicast group?
    /// RFC 1122 3.3.6-a.
    #[inline]
    pub(crate) fn is_group(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(a) => a.is_multicast() || self.is_broadcast(a),
            IpAddr::V6(a) => a.is_multicast(),
        }
    }

    /// Is `addr` an IPv4 broadcast address on this port: limited or directed, of ones or of zeros?
    #[inline]
    pub(crate) fn is_broadcast(&self, addr: Ipv4Addr) -> bool {
        let bits = addr.to_bits();
        // All zeros is 4.2BSD's limited broadcast.
        bits == u32::MAX || bits == 0 || self.v4.iter().any(|own| own.is_broadcast(bits))
    }
}

/// The subnet-router anycast address of a network. `None` for a link-local network, and for a
/// network of one or two addresses (RFC 6164 section 5).
fn subnet_router(cidr: Cidr) -> Option<Ipv6Addr> {
    match cidr.network().addr {
        IpAddr::V6(net) if cidr.prefix_len < 127 && !net.is_unicast_link_local() => Some(net),
        _ => None,
    }
}

/// The shortest time from one [`crate::Event::OtherBroadcast`] to the next.
const NOTICE_INTERVAL: Duration = Duration::from_secs(60);

/// A neighbour that broadcasts to another address than the port at which it was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherBroadcaster {
    /// The port at which the neighbour was heard.
    pub port: PortId,
    /// The neighbour's link address.
    pub mac: MacAddr,
    /// The neighbour's IP address: the source of its last broadcast.
    pub source: Ipv4Addr,
    /// The destination of its last broadcast.
    pub destination: Ipv4Addr,
    /// The broadcast address of the port; `None` if it has no network with one.
    pub ours: Option<Ipv4Addr>,
    /// How `destination` differs from `ours`.
    pub form: BroadcastForm,
    /// The neighbour's broadcasts of this kind since it was first heard.
    pub count: u64,
    /// When the last of these broadcasts came.
    pub last_at: Instant,
}

impl fmt::Display for OtherBroadcaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherBroadcaster { mac, source, destination, .. } = self;
        write!(f, "{source} ({mac}) broadcasts to {destination}, ")?;
        match self.ours {
            Some(ours) => write!(f, "this port to {ours}: set both to the same address"),
            None => f.write_str("but its port has no broadcast address: check the prefix length"),
        }
    }
}

/// The neighbours that broadcast to another address than their port.
#[derive(Default)]
pub(crate) struct OtherBroadcasters {
    rows: Vec<OtherBroadcaster>,
    noticed_at: Option<Instant>,
}

impl OtherBroadcasters {
    /// Note a broadcast of this kind from a neighbour; `true` if it is time for an event.
    pub(crate) fn note(&mut self, heard: OtherBroadcaster, budget: &mut Budget) -> bool {
        let now = heard.last_at;
        let known = |row: &&mut OtherBroadcaster| row.port == heard.port && row.mac == heard.mac;
        if let Some(row) = self.rows.iter_mut().find(known) {
            let OtherBroadcaster { source, destination, form, .. } = heard;
            (row.source, row.destination, row.form, row.last_at) = (source, destination, form, now);
            row.count += 1;
        } else {
            if !budget.admits(Limit::OtherBroadcasters, self.rows.len()) {
                let oldest = self.rows.iter().enumerate().min_by_key(|(_, row)| row.last_at);
                let Some((oldest, _)) = oldest else { return false };
                self.rows.remove(oldest);
            }
            self.rows.push(heard);
        }
        let is_due = self.noticed_at.is_none_or(|at| now.since(at) >= NOTICE_INTERVAL);
        if is_due {
            self.noticed_at = Some(now);
        }
        is_due
    }

    /// All rows; the neighbour known for the longest time is first.
    pub(crate) fn rows(&self) -> &[OtherBroadcaster] {
        &self.rows
    }
}

#[cfg(test)]
mod tests;
