//! Punting: what goes to mirrors and what does not, whole and untouched, within limits; and what
//! leaves by mirrors.

mod egress;
mod ingress;
mod limits;
mod macs;

use core::net::IpAddr;

use base::{LinkKind, MacAddr};
use inet::ip_output::Fields;
use inet::neighbour::group_mac;
use mbuf::Pool;
use wire::protocol;

use super::craft::transport_sum;
use super::forward::{HOSTS, MACS, NOW, Router, ip};
use crate::{PortId, PuntClass};

/// The router's own addresses on port 0.
const OURS: &str = "192.0.2.1";
const OURS6: &str = "2001:db8:1::1";

/// A router both of whose ports have mirrors.
fn mirrored() -> Router {
    let mut router = Router::new(1_500);
    for port in [0, 1] {
        router.stack.set_punt(PortId(port), true);
    }
    router
}

/// A frame from a host at a port.
fn frame(port: usize, src: &str, dst: &str, protocol: u8, data: &[u8]) -> Vec<u8> {
    let to = match ip(dst) {
        IpAddr::V4(dst) if dst.is_broadcast() => MacAddr::BROADCAST,
        dst => group_mac(dst).unwrap_or(MACS[port]),
    };
    let fields = Fields { src: ip(src), dst: ip(dst), protocol, tos: 0, ttl: 1 };
    let template = inet::HeaderTemplate::new(LinkKind::Ethernet, HOSTS[port], to, &fields);
    let mut m = Pool::new(1 << 20).copy_of(data).expect("room");
    template.prepend(&mut m).expect("fits");
    m.as_slice().to_vec()
}

/// A UDP datagram with its header.
fn udp(src: &str, dst: &str, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [ports.0, ports.1, 8 + data.len() as u16, 0] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(data);
    let sum = transport_sum(ip(src), ip(dst), protocol::UDP, &bytes).field();
    bytes[6..8].copy_from_slice(&sum);
    bytes
}

fn udp_frame(port: usize, src: &str, dst: &str, ports: (u16, u16)) -> Vec<u8> {
    frame(port, src, dst, protocol::UDP, &udp(src, dst, ports, b"datagram"))
}

/// A TCP segment with its header.
fn tcp(src: &str, dst: &str, ports: (u16, u16), flags: wire::tcp::Flags) -> Vec<u8> {
    let segment = super::craft::Tcp {
        ports,
        seq: base::SeqNumber(1_000),
        ack: base::SeqNumber(0),
        flags,
        window: 1_000,
        urgent: 0,
        options: Vec::new(),
        payload: Vec::new(),
    };
    segment.bytes(ip(src), ip(dst))
}

/// An ICMP or ICMPv6 message with its checksum.
fn icmp(src: &str, dst: &str, mut bytes: Vec<u8>) -> Vec<u8> {
    let (src, dst) = (ip(src), ip(dst));
    let sum = match src.is_ipv4() {
        true => wire::checksum::Ladder::Word64.sum(&bytes),
        false => transport_sum(src, dst, protocol::ICMPV6, &bytes),
    };
    bytes[2..4].copy_from_slice(&sum.field());
    bytes
}

/// Everything that waits for mirrors: the port, the class and the frame.
fn punted(router: &mut Router) -> Vec<(u16, PuntClass, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(one) = router.stack.punted() {
        all.push((one.port.0, one.class, one.frame.as_slice().to_vec()));
        router.stack.pool().free(one.frame);
    }
    assert!(!router.stack.has_punted());
    all
}

/// A frame comes by a port. It is punted whole, with this class; nothing leaves.
#[track_caller]
fn is_punted(router: &mut Router, port: usize, frame: &[u8], class: PuntClass) {
    let sent = router.exchange_at(port, frame);
    assert!(sent.iter().all(Vec::is_empty), "{sent:?}");
    assert_eq!(punted(router), [(port as u16, class, frame.to_vec())]);
}

/// No buffer is lost.
#[track_caller]
fn nothing_is_held(router: &mut Router) {
    router.sent(NOW);
    router.pool.flush();
    router.stack.pool().flush();
    assert_eq!((router.pool.outstanding(), router.stack.pool().outstanding()), (0, 0));
}
