//! Handles received UDP datagrams: checks each, and puts it into its socket's queue or refuses it.
//!
//! Called by: `rx.rs`. Consecutive datagrams often belong to one flow, so the result of the last
//! lookup is used again (switch `flow-cache`). RFC 768, RFC 1122 section 4.1.3, RFC 6935.

use core::net::SocketAddr;

use base::{DropReason, Switch};
use inet::flow::Addrs;
use inet::icmp::Unreachable;
use inet::{FlowKey, Ip, Vrf};
use mbuf::{Flags as MbufFlags, Mbuf};
use tcp::Fate;

use super::receive::deliver;
use super::{Datagram, supers};
use crate::for_us::{for_us_or_group, offer};
use crate::handles::UdpHandle;
use crate::punt::ingress as punt;
use crate::stack::Stack;
use crate::{foreign, groups, icmp, vrf};

/// Process a UDP datagram; its IP header begins at `at`.
pub(crate) fn input<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, mut m: Mbuf, at: usize) -> Fate {
    let (begin, len) = (at + ip.transport_at as usize, ip.transport_len as usize);
    let bytes = m.as_slice().get(begin..begin + len).unwrap_or_default();
    let key = bytes.first_chunk().map_or(FlowKey::NONE, |b| ip.flow(u32::from_ne_bytes(*b)));
    let epoch = stack.flow_epoch();
    let found = match stack.core.cx.switches.on(Switch::FlowCache) {
        true => stack.udp.recent(&key, m.in_port(), epoch),
        false => None,
    };
    let mut found = found;
    if found.is_none() {
        match for_us_or_group(stack, ip, &m) {
            Ok(()) => {}
            Err(_) if foreign::newcomers::is_broadcast_of_one(stack, ip) => {}
            Err(reason) => match offer(stack, ip, m.in_port(), bytes) {
                Some(handle) => found = Some(handle),
                None if punt::takes_group(stack, ip, &m, at) => {
                    return punt::take(stack, ip, m, at);
                }
                None => return foreign::input::udp(stack, ip, m, (begin, len), reason),
            },
        }
    }
    let cx = &stack.core.cx;
    let verify = cx.switches.on(Switch::ChecksumRx) && !m.has(MbufFlags::CSUM_VERIFIED);
    let header = inet::udp::udp_input(ip, bytes, verify, cx.ladder)?;
    let from = SocketAddr::new(ip.src(), header.src_port);
    let to = SocketAddr::new(ip.dst(), header.dst_port);
    let without_checksum = header.checksum == [0, 0] && from.is_ipv6();
    let is_super = m.segment_size() != 0;
    // No host sends such super-datagrams: their checksums are unfinished, and datagrams to a group
    // are sent one by one.
    if is_super && (without_checksum || to.ip().is_multicast()) {
        return Err(DropReason::UdpSuperDatagram);
    }
    if to.ip().is_multicast() {
        let header_len = wire::udp::HEADER_LEN;
        m.keep(begin + header_len, usize::from(header.length) - header_len);
        let in_port = m.in_port();
        let datagram = Datagram { from, to, payload: m };
        return groups::deliver(stack, in_port, datagram, without_checksum);
    }
    let handle = match found {
        Some(handle) => handle,
        None => match find(stack, (to, from), m.in_port()) {
            Ok(handle) => {
                note_flow(stack, key, handle, &m, to);
                handle
            }
            // Without a checksum the port number may be wrong, so no error is sent about it. RFC
            // 6936 4-d.
            Err(_) if without_checksum => return Err(DropReason::UdpZeroChecksum),
            Err(DropReason::UdpNoSocket) if punt::takes_datagram(stack, &m, to.ip()) => {
                return punt::take(stack, ip, m, at);
            }
            Err(DropReason::UdpNoSocket)
                if stack.foreign.takes.unclaimed && is_ours(stack, &m, to) =>
            {
                return unclaimed(stack, ip, m, begin, &header);
            }
            Err(reason) => {
                if reason == DropReason::UdpNoSocket {
                    // The error quotes the packet, which is still whole (RFC 1122 section 4.1.3.1).
                    icmp::refuse(stack, ip, &m, at, Unreachable::Port);
                }
                return Err(reason);
            }
        },
    };
    let header_len = wire::udp::HEADER_LEN;
    m.keep(begin + header_len, usize::from(header.length) - header_len);
    if is_super {
        return supers::deliver(stack, handle, (from, to), m);
    }
    deliver(stack, handle, Datagram { from, to, payload: m }, without_checksum)
}

/// The socket of a datagram, which is in the VRF that the datagram came in.
fn find(
    stack: &mut Stack,
    (to, from): (SocketAddr, SocketAddr),
    in_port: u16,
) -> Result<UdpHandle, DropReason> {
    let handle = stack.udp.find(to, from)?;
    let vrf = stack.udp.get(handle).map_or(Vrf::NONE, |socket| socket.ip.vrf);
    let is_admitted = vrf::admits(stack, in_port, to.ip(), vrf);
    if is_admitted { Ok(handle) } else { Err(DropReason::UdpNoSocket) }
}

/// A datagram for an address of ours that no socket takes is the program's; it begins at `begin`.
#[cold]
fn unclaimed<A: Addrs>(
    stack: &mut Stack,
    ip: &Ip<A>,
    mut m: Mbuf,
    begin: usize,
    header: &wire::udp::Header,
) -> Fate {
    let header_len = wire::udp::HEADER_LEN;
    m.keep(begin + header_len, usize::from(header.length) - header_len);
    foreign::input::unclaimed(stack, ip, m, (header.src_port, header.dst_port))
}

/// Is it an address of ours, and no broadcast or group?
fn is_ours(stack: &Stack, m: &Mbuf, to: SocketAddr) -> bool {
    stack.ports.get(m.in_port()).is_some_and(|port| port.local.is_ours(to.ip()))
}

/// Remember the flow, because the next datagram may belong to it. A datagram to a group is always
/// looked up: memberships change without [`Stack::flow_epoch`].
#[inline(never)]
fn note_flow(stack: &mut Stack, key: FlowKey, handle: UdpHandle, m: &Mbuf, to: SocketAddr) {
    if is_ours(stack, m, to) {
        stack.udp.note_recent(key, m.in_port(), stack.flow_epoch(), handle);
    }
}
