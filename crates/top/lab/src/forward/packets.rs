//! The packets that generator and sink send: datagrams of UDP, or segments of TCP connections whose
//! handshakes a router with a stateful filter has to see first.
//!
//! Called by: `forward.rs`, `outside.rs`. All checksums are right. A connection never advances:
//! every turn has the same data, within the window.

use core::net::IpAddr;

use base::{LinkKind, SeqNumber};
use inet::HeaderTemplate;
use inet::ip_output::Fields;
use mbuf::Pool;
use wire::checksum::{Ladder, Sum};
use wire::tcp::{self, Flags};
use wire::{protocol, udp};

use super::{MACS, Shape, VLANS, addr, in_prefix, prefix};

/// What a packet carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// A datagram of UDP.
    #[default]
    Udp,
    /// A segment of TCP.
    Tcp,
}

/// The sequence numbers of the SYNs of both sides.
const SYN_AT: [u32; 2] = [1_000, 5_000];

/// The window that both sides advertise, in bytes.
const WINDOW: u16 = 60_000;

const ETHERNET: usize = 14;

/// The ends of a flow, as packets of one side have them.
struct Flow {
    side: usize,
    addrs: [IpAddr; 2],
    ports: [u16; 2],
}

impl Flow {
    /// The packets of flow `n` from `side`. Up to 60,000 flows have a source port of their own;
    /// more flows differ by their hosts.
    fn of(shape: Shape, side: usize, n: u32) -> Flow {
        let routes = shape.routes.max(1);
        let nth = n / routes;
        let beyond = in_prefix(prefix(shape.v6, n % routes), nth);
        let near = addr(shape.v6, 2, 9 + (n % shape.hosts.clamp(1, 200)) as u8);
        let port = 1_024 + ((nth % 250 * 240 + nth / 250) % 60_000) as u16;
        let (mut addrs, mut ports) = ([near, beyond], [port, 9]);
        if side != 0 {
            addrs.reverse();
            ports.reverse();
        }
        Flow { side, addrs, ports }
    }

    fn sum(&self, protocol: u8, bytes: &[u8]) -> Sum {
        let pseudo = match self.addrs {
            [IpAddr::V4(src), IpAddr::V4(dst)] => Sum::pseudo_v4(src, dst, protocol),
            [IpAddr::V6(src), IpAddr::V6(dst)] => Sum::pseudo_v6(src, dst, protocol),
            _ => Sum::ZERO,
        };
        pseudo.plus(Sum::of_be16(bytes.len() as u16)).plus(Ladder::Word64.sum(bytes))
    }

    /// A datagram of `len` bytes.
    fn datagram(&self, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        for (at, value) in self.ports.into_iter().chain([len as u16]).enumerate() {
            bytes.get_mut(at * 2..at * 2 + 2)?.copy_from_slice(&value.to_be_bytes());
        }
        let field = udp::checksum_field(self.sum(protocol::UDP, &bytes));
        bytes.get_mut(6..8)?.copy_from_slice(&field);
        Some(bytes)
    }

    /// A segment of `len` bytes with its header.
    fn segment(&self, flags: Flags, len: usize) -> Option<Vec<u8>> {
        let [own, other] = [SYN_AT[self.side & 1], SYN_AT[self.side & 1 ^ 1]];
        let is_syn = flags.contains(Flags::SYN);
        let header = tcp::Header {
            src_port: self.ports[0],
            dst_port: self.ports[1],
            seq: SeqNumber(own + u32::from(!is_syn)),
            ack: SeqNumber(if flags.contains(Flags::ACK) { other + 1 } else { 0 }),
            header_len: tcp::HEADER_LEN,
            flags,
            window: WINDOW,
            urgent: 0,
        };
        let mut bytes = vec![0; len];
        if !header.emit(&mut bytes) {
            return None;
        }
        let field = self.sum(protocol::TCP, &bytes).field();
        tcp::set_checksum(&mut bytes, field);
        Some(bytes)
    }

    /// The frame with this transport packet.
    fn frame(&self, shape: Shape, protocol: u8, bytes: &[u8], pool: &mut Pool) -> Option<Vec<u8>> {
        let macs = if self.side == 0 { [MACS[0], MACS[1]] } else { [MACS[3], MACS[2]] };
        let [src, dst] = self.addrs;
        let fields = Fields { src, dst, protocol, tos: 0, ttl: 64 };
        let template = HeaderTemplate::new(LinkKind::Ethernet, macs[0], macs[1], &fields);
        let mut m = pool.copy_of(bytes)?;
        template.prepend(&mut m).ok()?;
        let mut frame = m.as_slice().to_vec();
        pool.free(m);
        if shape.tagged {
            let [id, low] = VLANS[self.side & 1].to_be_bytes();
            frame.splice(12..12, [0x81, 0, id, low]);
        }
        Some(frame)
    }
}

fn header_len(shape: Shape) -> usize {
    if shape.v6 { 40 } else { 20 }
}

/// The frames that a side sends, in their order; `None` if a frame has no room for its headers.
pub(super) fn frames(shape: Shape, side: usize) -> Option<Vec<Vec<u8>>> {
    let mut pool = Pool::new(1 << 20);
    let count = shape.flows.max(shape.sizes.len() as u32);
    let frame = |n: u32| {
        let flow = Flow::of(shape, side, n % shape.flows.max(1));
        let size = shape.sizes.get(n as usize % shape.sizes.len().max(1))?;
        let len = size.checked_sub(ETHERNET + header_len(shape))?;
        let (protocol, bytes) = match shape.transport {
            Transport::Udp => (protocol::UDP, flow.datagram(len)?),
            Transport::Tcp => (protocol::TCP, flow.segment(Flags::ACK, len)?),
        };
        flow.frame(shape, protocol, &bytes, &mut pool)
    };
    (0..count).map(frame).collect()
}

/// A segment without data of each of these flows, from `side`.
pub fn segments(shape: Shape, side: usize, flows: &[u32], flags: Flags) -> Option<Vec<Vec<u8>>> {
    let mut pool = Pool::new(1 << 20);
    let segment = |&n: &u32| {
        let flow = Flow::of(shape, side, n);
        let bytes = flow.segment(flags, tcp::HEADER_LEN)?;
        flow.frame(shape, protocol::TCP, &bytes, &mut pool)
    };
    flows.iter().map(segment).collect()
}

/// The SYN-ACK of the far side to a SYN that has passed the router; `None` if the frame is not a
/// TCP segment.
pub fn answer(syn: &[u8]) -> Option<Vec<u8>> {
    let is_v6 = syn.get(ETHERNET)? >> 4 == 6;
    let at = ETHERNET + if is_v6 { 40 } else { 20 };
    let (addrs, size) = if is_v6 { (ETHERNET + 8, 16) } else { (ETHERNET + 12, 4) };
    let came = tcp::Header::parse(syn.get(at..)?).ok().filter(|h| h.flags.contains(Flags::SYN))?;
    let addr = |from: usize| -> Option<IpAddr> {
        let bytes = syn.get(from..from + size)?;
        let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
        v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
    };
    let flow = Flow {
        side: 1,
        addrs: [addr(addrs + size)?, addr(addrs)?],
        ports: [came.dst_port, came.src_port],
    };
    let bytes = flow.segment(Flags::SYN.with(Flags::ACK), tcp::HEADER_LEN)?;
    let shape = Shape { v6: is_v6, ..Shape::default() };
    flow.frame(shape, protocol::TCP, &bytes, &mut Pool::new(1 << 16))
}

/// The numbers below `count` in another order, far from each other.
pub fn shuffled(count: u32) -> impl Iterator<Item = u32> {
    // Multiplication by a prime that does not divide `count` permutes the numbers.
    (0..count).map(move |n| (u64::from(n) * 611_953 % u64::from(count.max(1))) as u32)
}

/// The SYN of flow `n` from another source: of another host, or as it is after a router has
/// translated it.
pub fn syn_from(shape: Shape, n: u32, source: IpAddr) -> Option<Vec<u8>> {
    let mut flow = Flow::of(shape, 0, n);
    flow.addrs[0] = source;
    let bytes = flow.segment(Flags::SYN, tcp::HEADER_LEN)?;
    flow.frame(shape, protocol::TCP, &bytes, &mut Pool::new(1 << 16))
}
