//! Loopback: packets to the stack's own addresses, 127.0.0.0/8 and ::1 come back without a device
//! of the outside. Made when it is first needed, so that others pay nothing for it.
//!
//! Called by: `resolve.rs` and `addresses.rs` for what is sent, `Stack::poll` for what comes back.
//! It is a wire in memory whose near end is a port that no list shows, and whose far end is read
//! here. Its connections have keys of their own: a segment that comes in by a port from such an
//! address finds none of them, and is dropped as a martian as ever. RFC 1122 sections 3.2.1.3 and
//! 3.3.4.2. Limit: the wire's, after which it pushes back like any device. Counter: `looped`.
//! Decision: docs/decisions/0114-loopback.md.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::{Cidr, Counter, DropReason, LinkKind, Mtu};
use device::mem::{self, Mem};
use device::{Burst, Device, Offloads};
use inet::Ip;
use inet::flow::Addrs;
use inet::ip_input::{ipv4_plain, ipv6_plain};
use inet::select::is_link_scoped;
use mbuf::Mbuf;
use tcp::Fate;
use wire::protocol;
use wire::tcp::Header;

use crate::local::LocalAddrs;
use crate::{PortId, Stack, no_connection, rx};

/// The number of its port: the one that is never given to a device.
pub(crate) const PORT: u16 = u16::MAX;
/// Frames and bytes on their way.
const DEPTH: usize = 1_024;
const DEPTH_BYTES: usize = 4 << 20;

/// The wire's far end.
pub(crate) struct Loopback {
    far: Mem,
    /// [`Stack::flow_epoch`] when the port learnt which addresses are ours.
    epoch: u64,
}

impl Loopback {
    pub(crate) fn has_input(&self) -> bool {
        self.far.rx_ready()
    }
}

/// Do packets to `remote` come back to us? A link-local address is that of the link it names.
pub(crate) fn is_ours(stack: &Stack, remote: SocketAddr) -> bool {
    let ip = remote.ip();
    match remote {
        SocketAddr::V6(to) if to.scope_id() != 0 && is_link_scoped(ip) => {
            let port = PortId::of_scope(to.scope_id()).and_then(|id| stack.ports.get(id.0));
            port.is_some_and(|port| port.local.is_ours(ip))
        }
        _ => stack.is_own(ip),
    }
}

/// The address that packets to `remote` are from if they come back to us: as on Linux the same one.
pub(crate) fn source(stack: &Stack, remote: SocketAddr) -> Option<IpAddr> {
    is_ours(stack, remote).then(|| match remote.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    })
}

/// Make it, if it is not there.
pub(crate) fn ensure(stack: &mut Stack) {
    if stack.loopback.is_none() {
        make(stack);
    }
}

#[cold]
fn make(stack: &mut Stack) {
    let offloads = Offloads { tx_checksum: true, rx_checksum: true, ..Offloads::default() };
    let (link, mtu, depth, depth_bytes) = (LinkKind::Ip, Mtu::MAX, DEPTH, DEPTH_BYTES);
    let (near, far) = mem::pair(&mem::Config { link, mtu, depth, depth_bytes, offloads });
    stack.ports.set_loopback(Box::new(near));
    let epoch = learn_addresses(stack);
    stack.loopback = Some(Box::new(Loopback { far, epoch }));
}

/// The port has all addresses of all ports, and the loopback addresses.
#[cold]
fn learn_addresses(stack: &mut Stack) -> u64 {
    let of_ports = stack.ports.iter().flat_map(|port| &port.addresses);
    let usable = of_ports.filter(|address| address.is_usable()).map(|address| address.ip());
    let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let local = LocalAddrs::looping(usable.chain(loopback).map(Cidr::host));
    if let Some(port) = stack.ports.get_mut(PORT) {
        port.local = local;
    }
    stack.flow_epoch()
}

/// Take in a burst of what came back; how many frames that were.
#[cold]
#[inline(never)]
pub(crate) fn input(stack: &mut Stack) -> usize {
    let Some(mut loopback) = stack.loopback.take() else { return 0 };
    let mut frames = Burst::new();
    let count = loopback.far.rx_burst(&mut stack.core.cx.pool, &mut frames);
    if count > 0 && loopback.epoch != stack.flow_epoch() {
        loopback.epoch = learn_addresses(stack);
    }
    stack.loopback = Some(loopback);
    for m in frames {
        if let Err(reason) = frame(stack, m) {
            stack.core.drops.count(reason);
        }
    }
    stack.core.cx.counters.add(Counter::Looped, count as u64);
    count
}

fn frame(stack: &mut Stack, mut m: Mbuf) -> Fate {
    m.set_in_port(PORT);
    let packet = m.as_slice();
    match packet.first().map(|first| first >> 4) {
        Some(6) => match ipv6_plain(packet) {
            Some(ip) if ip.protocol == protocol::TCP => segment(stack, ip, m),
            Some(ip) => rx::transport(stack, ip, m, 0),
            None => rx::other_ipv6(stack, m, 0),
        },
        _ => match ipv4_plain(packet) {
            Some(ip) if ip.protocol == protocol::TCP => segment(stack, ip, m),
            Some(ip) => rx::transport(stack, ip, m, 0),
            None => rx::other_ipv4(stack, m, 0),
        },
    }
}

/// A segment of ours: memory did not change it since it was summed, if it was.
fn segment<A: Addrs>(stack: &mut Stack, ip: Ip<A>, mut m: Mbuf) -> Fate {
    let (at, len) = (ip.transport_at as usize, ip.transport_len as usize);
    let bytes = m.as_slice().get(at..at + len).ok_or(DropReason::TcpShort)?;
    Header::parse(bytes)?;
    let key = ip.flow(Header::raw_ports(bytes)).looped();
    let core = &mut stack.core;
    core.cx.counters.add(Counter::TcpSegmentsIn, 1);
    let (switches, counters) = (core.cx.switches, &mut core.cx.counters);
    let found = stack.connections.find(key, &core.secret, switches, counters);
    let found = found.map(|(handle, _)| handle);
    m.keep(at, len);
    match found {
        Some(handle) => rx::slow_segment(stack, handle, ip, m),
        None => no_connection::input(stack, ip, m),
    }
}
