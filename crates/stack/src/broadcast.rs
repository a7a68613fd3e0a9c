//! Link-level broadcasts and multicasts: what comes by one is checked before anything else reads
//! it, and neighbours whose broadcast address differs from ours are remembered by name.
//!
//! Called by: `rx.rs`, for frames to a group address alone. Nothing that came so is forwarded,
//! answered with an ICMP error, or makes us ask by ARP. RFC 1122 sections 3.2.2 and 3.3.6. Limits:
//! `other_broadcasters`, and one [`Event`] a minute. Counter: `broadcasts_other_form`.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};

use base::{Counter, DropReason, Duration, Instant, Limit, MacAddr};
use inet::ether::Carries;
use inet::flow::Addrs;
use inet::ip_input::{ipv4_any, ipv4_plain, ipv6_plain};
use inet::{Ip, ip_input};
use mbuf::{Flags, Mbuf};
use tcp::Fate;
use wire::{ether, protocol};

use crate::local::BroadcastForm;
use crate::{Event, PortId, Stack, arp, frag, local, rx};

/// From one [`Event::OtherBroadcast`] to the next.
const NOTICE_INTERVAL: Duration = Duration::from_secs(60);

/// A neighbour that broadcasts to another address than its port does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherBroadcaster {
    /// Where it was heard.
    pub port: PortId,
    /// Its link address.
    pub mac: MacAddr,
    /// Its IP address, as its last broadcast said.
    pub source: Ipv4Addr,
    /// What it broadcast to last.
    pub destination: Ipv4Addr,
    /// What the port broadcasts to; `None` if it has no network with a broadcast address.
    pub ours: Option<Ipv4Addr>,
    /// How the two differ.
    pub form: BroadcastForm,
    /// Its broadcasts of this kind since it was first heard.
    pub count: u64,
    /// When the last of them came.
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

/// Those that were heard.
#[derive(Default)]
pub(crate) struct OtherBroadcasters {
    rows: Vec<OtherBroadcaster>,
    noticed_at: Option<Instant>,
}

/// A frame to a link-level group, in `m`; its IP header begins at `at`.
/// RFC 1122 3.3.6-b.
#[cold]
#[inline(never)]
pub(crate) fn input(stack: &mut Stack, carries: Carries, mut m: Mbuf, at: usize) -> Fate {
    m.set(Flags::LINK_GROUP);
    let packet = m.as_slice().get(at..).unwrap_or_default();
    match carries {
        Carries::Arp => arp::input(stack, &m),
        Carries::Ipv4 => {
            let (ip, part) = match ipv4_plain(packet) {
                Some(ip) => (ip, None),
                None => ipv4_any(packet)?,
            };
            check(stack, &ip, &m)?;
            if let Some(part) = part {
                return frag::input(stack, ip, part, m, at);
            }
            drop_unwanted(stack, &ip, &m, at)?;
            rx::transport(stack, ip, m, at)
        }
        Carries::Ipv6 => {
            let Some(ip) = ipv6_plain(packet) else { return rx::other_ipv6(stack, m, at) };
            check(stack, &ip, &m)?;
            drop_unwanted(stack, &ip, &m, at)?;
            rx::transport(stack, ip, m, at)
        }
    }
}

/// Is the destination a broadcast address, or a group? A unicast one means that the sender's
/// broadcast address is none here: whoever forwards or answers that feeds a storm.
pub(crate) fn check<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    let dst = ip.dst();
    if dst.is_multicast() {
        return Ok(());
    }
    let port = stack.ports.get(m.in_port()).ok_or(DropReason::TxNoPort)?;
    let IpAddr::V4(dst) = dst else { return Err(DropReason::IpLinkBroadcast) };
    let is_broadcast = port.local.is_broadcast(dst);
    if let Some(form) = port.local.other_form(dst) {
        note(stack, ip.src(), dst, form, m);
    }
    if is_broadcast || is_offer(stack, ip, m) { Ok(()) } else { Err(DropReason::IpLinkBroadcast) }
}

/// Does a port without an address wait for it?
fn is_offer<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf) -> bool {
    let link = stack.ports.get(m.in_port()).map_or(0, |port| port.limits.link.header_len());
    let udp = m.as_slice().get(link + ip.transport_at as usize..).unwrap_or_default();
    local::offer(stack, ip, m.in_port(), udp).is_some()
}

/// Drop what nobody here takes before its checksum is read: a storm is made of such frames.
fn drop_unwanted<A: Addrs>(stack: &Stack, ip: &Ip<A>, m: &Mbuf, at: usize) -> Fate {
    match ip.protocol {
        // RFC 9293 MUST-57.
        protocol::TCP => Err(DropReason::TcpGroupAddress),
        protocol::UDP => {
            let ports = m.as_slice().get(at + ip.transport_at as usize..).unwrap_or_default();
            let &[_, _, a, b, ..] = ports else { return Err(DropReason::UdpShort) };
            let port = u16::from_be_bytes([a, b]);
            let has_socket = stack.udp.has_port(port) || stack.groups.has_port(port);
            if has_socket { Ok(()) } else { Err(DropReason::UdpNoSocket) }
        }
        _ => Ok(()),
    }
}

/// Count a broadcast of another form, and remember who sent it.
#[cold]
fn note(stack: &mut Stack, source: IpAddr, destination: Ipv4Addr, form: BroadcastForm, m: &Mbuf) {
    let (Some(port), Ok(header)) =
        (stack.ports.get(m.in_port()), ether::Header::parse(m.as_slice()))
    else {
        return;
    };
    let IpAddr::V4(source) = source else { return };
    let core = &mut stack.core;
    core.cx.counters.add(Counter::BroadcastsOtherForm, 1);
    // What did not come from a host does not tell which one is configured otherwise.
    if ip_input::is_martian_source(source.into()) || header.src.is_group() {
        return;
    }
    let now = core.cx.now;
    let others = &mut stack.other_broadcasters;
    let known = |row: &&mut OtherBroadcaster| row.port == port.id && row.mac == header.src;
    if let Some(row) = others.rows.iter_mut().find(known) {
        (row.source, row.destination, row.form, row.last_at) = (source, destination, form, now);
        row.count += 1;
    } else {
        let ours = port.addresses.iter().find_map(|a| match a.ip() {
            IpAddr::V4(addr) => port.local.broadcast(addr),
            IpAddr::V6(_) => None,
        });
        if !core.cx.budget.admits(Limit::OtherBroadcasters, others.rows.len()) {
            let oldest = others.rows.iter().enumerate().min_by_key(|(_, row)| row.last_at);
            let Some((oldest, _)) = oldest else { return };
            others.rows.remove(oldest);
        }
        let (mac, count, last_at) = (header.src, 1, now);
        let row = OtherBroadcaster {
            port: port.id,
            mac,
            source,
            destination,
            ours,
            form,
            count,
            last_at,
        };
        others.rows.push(row);
    }
    if others.noticed_at.is_none_or(|at| now.since(at) >= NOTICE_INTERVAL) {
        others.noticed_at = Some(now);
        stack.ready.push_back(Event::OtherBroadcast(port.id));
    }
}

impl Stack {
    /// Have the network of `addr`, an IPv4 address of a port, broadcast to `to` instead of the
    /// address whose host part is ones: to the form of zeros that 4.2BSD had, to that of a larger
    /// network around it, or to 255.255.255.255. It lasts until the port's addresses change.
    /// Datagrams to either form are received in any case (RFC 1122 section 3.3.6).
    ///
    /// `false`, with nothing changed, if `addr` is no address of the port, or `to` cannot be the
    /// broadcast address of its network.
    pub fn set_broadcast(&mut self, port: PortId, addr: Ipv4Addr, to: Ipv4Addr) -> bool {
        let port = self.ports.get_mut(port.0);
        let is_set = port.is_some_and(|port| port.local.set_broadcast(addr, to));
        self.ports.share_broadcasts();
        self.path_mtus.note_change();
        is_set
    }

    /// What the network of `addr`, an IPv4 address of a port, broadcasts to; `None` for another
    /// address, or a network of one or two addresses.
    pub fn broadcast(&self, port: PortId, addr: Ipv4Addr) -> Option<Ipv4Addr> {
        self.ports.get(port.0)?.local.broadcast(addr)
    }

    /// Neighbours whose broadcast address is not that of their port, longest known first. Each
    /// prints as one line. [`Event::OtherBroadcast`] tells that there is news, once a minute.
    pub fn other_broadcasters(&self) -> &[OtherBroadcaster] {
        &self.other_broadcasters.rows
    }
}
