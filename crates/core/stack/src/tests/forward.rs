//! Forwarding between two ports: packets that pass and how they are changed, and packets that do
//! not, each with its drop reason. RFC 1812 sections 4.3, 5.2 and 5.3.

mod discard;
mod merging;
mod neighbours;
mod next_hop_v6;
mod offloads_and_tags;
mod redirects;
mod shared_paths;
mod sources;

use core::net::{IpAddr, Ipv4Addr};

use base::{Counter, DropReason, Duration, Instant, LinkKind, MacAddr, Mtu};
use device::{Burst, Device, Offloads, mem};
use inet::icmp::{ErrorKind, Message, Unreachable};
use inet::ip_input::{ipv4_any, ipv6_any};
use inet::ip_output::Fields;
use mbuf::Pool;
use wire::ether;

use crate::{PortConfig, PortId, Stack, StackConfig};

pub(super) const NOW: Instant = Instant::from_nanos(5_000_000_000);
/// The router's ports.
pub(super) const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
/// A host on each side.
pub(super) const HOSTS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 1, 1]), MacAddr([2, 0, 0, 0, 1, 2])];
pub(super) const A: &str = "192.0.2.9";
pub(super) const B: &str = "198.51.100.9";
const A6: &str = "2001:db8:1::9";
const B6: &str = "2001:db8:2::9";

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(super) struct Router {
    pub(super) stack: Stack,
    wires: [mem::Mem; 2],
    pub(super) pool: Pool,
}

impl Router {
    pub(super) fn new(mtu: usize) -> Router {
        Router::between(mtu, [Offloads::default(); 2])
    }

    /// A router whose two devices have these offloads.
    pub(super) fn between(mtu: usize, offloads: [Offloads; 2]) -> Router {
        let config = StackConfig::new([5, 6]);
        let mut stack = Stack::new(StackConfig { solicited_node_reports: false, ..config });
        let networks =
            [["192.0.2.1/24", "2001:db8:1::1/64"], ["198.51.100.1/24", "2001:db8:2::1/64"]];
        let mtus = [Mtu::ETHERNET, Mtu::new(mtu).expect("an MTU")];
        let wires = [0, 1].map(|n| {
            let config =
                mem::Config { mtu: mtus[n], offloads: offloads[n], ..mem::Config::default() };
            let (near, wire) = mem::pair(&config);
            let addresses = networks[n].iter().map(|a| a.parse().expect("a network")).collect();
            stack.add_port(
                Box::new(near),
                PortConfig { mac: MACS[n], addresses, ..PortConfig::default() },
            );
            wire
        });
        for (port, host, addrs) in [(0, HOSTS[0], [A, A6]), (1, HOSTS[1], [B, B6])] {
            for addr in addrs {
                assert!(stack.add_neighbour(PortId(port), ip(addr), host));
            }
        }
        stack.set_forwarding(true);
        Router { stack, wires, pool: Pool::new(64 << 20) }
    }

    /// Put a frame on the wire of port 0; returns the frames that left by each port.
    pub(super) fn exchange(&mut self, frame: &[u8]) -> [Vec<Vec<u8>>; 2] {
        let m = self.pool.copy_of(frame).expect("room");
        self.offer(m);
        self.sent(NOW)
    }

    /// Put a frame on the wire of `port`; returns the frames that left by each port.
    pub(super) fn exchange_at(&mut self, port: usize, frame: &[u8]) -> [Vec<Vec<u8>>; 2] {
        let m = self.pool.copy_of(frame).expect("room");
        self.offer_at(port, m);
        self.sent(NOW)
    }

    /// Put frames on the wire of `port` in one burst, and poll at `now`; returns the frames that
    /// left by each port.
    pub(super) fn exchange_burst(
        &mut self,
        port: usize,
        frames: &[Vec<u8>],
        now: Instant,
    ) -> [Vec<Vec<u8>>; 2] {
        let mut burst: Burst =
            frames.iter().map(|frame| self.pool.copy_of(frame).expect("room")).collect();
        assert_eq!(self.wires[port].tx_burst(&mut self.pool, &mut burst), frames.len());
        self.sent(now)
    }

    fn offer(&mut self, m: mbuf::Mbuf) {
        self.offer_at(0, m);
    }

    pub(super) fn offer_at(&mut self, port: usize, m: mbuf::Mbuf) {
        let mut burst = Burst::new();
        burst.push(m);
        assert_eq!(self.wires[port].tx_burst(&mut self.pool, &mut burst), 1);
    }

    pub(super) fn sent(&mut self, now: Instant) -> [Vec<Vec<u8>>; 2] {
        self.stack.poll(now);
        self.stack.flush();
        let pool = &mut self.pool;
        self.wires.each_mut().map(|wire| {
            let mut frames = Vec::new();
            let mut burst = Burst::new();
            while wire.rx_burst(pool, &mut burst) > 0 {
                for m in burst.drain(..) {
                    frames.push(m.as_slice().to_vec());
                    pool.free(m);
                }
            }
            frames
        })
    }

    pub(super) fn drops(&self, reason: DropReason) -> u64 {
        self.stack.drops().of(reason)
    }
}

/// A frame from the host at port 0 to the router.
pub(super) fn frame(src: &str, dst: &str, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let fields = Fields { src: ip(src), dst: ip(dst), protocol: 99, tos: 0, ttl };
    let template = inet::HeaderTemplate::new(LinkKind::Ethernet, HOSTS[0], MACS[0], &fields);
    let mut pool = Pool::new(1 << 20);
    let mut m = pool.copy_of(payload).expect("room");
    template.prepend(&mut m).expect("fits");
    m.as_slice().to_vec()
}

fn set_flags(frame: &mut [u8], flags: u8) {
    frame[20] = flags;
    super::craft::number(frame, 7);
}

fn link(frame: &[u8]) -> (MacAddr, MacAddr) {
    let header = ether::Header::parse(frame).expect("a frame");
    (header.src, header.dst)
}

/// The kind of the ICMP error in a frame that the router sent to the host at port 0. The error must
/// be from `from`, and to `to`.
pub(super) fn error(frame: &[u8], from: &str, to: &str) -> ErrorKind {
    assert_eq!(link(frame), (MACS[0], HOSTS[0]));
    let packet = &frame[14..];
    let message = if packet[0] >> 4 == 6 {
        let (ip, _) = ipv6_any(packet).expect("sound");
        assert_eq!((ip.src().to_string(), ip.dst().to_string()), (from.into(), to.into()));
        inet::icmp::icmp_input(&ip, &packet[40..])
    } else {
        let (ip, _) = ipv4_any(packet).expect("sound");
        assert_eq!((ip.src().to_string(), ip.dst().to_string()), (from.into(), to.into()));
        inet::icmp::icmp_input(&ip, &packet[20..])
    };
    match message.expect("sound") {
        Message::Error(kind) => kind,
        other => panic!("{other:?}"),
    }
}

/// RFC 1812 5.3.1-a, 5.3.4-a.
#[test]
fn a_packet_crosses_with_one_hop_less() {
    for (src, dst) in [(A, B), (A6, B6)] {
        let mut router = Router::new(1_500);
        let mut sent_frame = frame(src, dst, 9, b"hello");
        // Link padding must not be forwarded.
        sent_frame.extend([0; 20]);
        let [back, out] = router.exchange(&sent_frame);
        assert!(back.is_empty() && out.len() == 1, "{dst}");
        assert_eq!(link(&out[0]), (MACS[1], HOSTS[1]));
        let mut expected = sent_frame[14..sent_frame.len() - 20].to_vec();
        assert!(inet::forward::hop(&mut expected));
        assert_eq!(out[0][14..], expected);
        let ttl = if dst == B { out[0][22] } else { out[0][21] };
        assert_eq!(ttl, 8);
        assert_eq!(router.stack.counters().of(Counter::Forwarded), 1);
        assert_eq!(router.stack.drops().total(), 0);
        // With forwarding off (the default), a stack is a host.
        router.stack.set_forwarding(false);
        let sent = router.exchange(&sent_frame);
        assert!(sent.iter().all(Vec::is_empty) && router.drops(DropReason::IpNotForUs) == 1);
        router.pool.flush();
        assert_eq!(router.pool.outstanding(), 0, "a buffer was not returned");
    }
}

/// Each packet is dropped under its reason, and nothing leaves by either port.
/// RFC 1812 5.2.2-a, 5.3.7-a, 5.3.5.2-a, 5.3.4-a.
#[test]
fn what_must_not_be_forwarded_is_not() {
    let mut source_route = frame(A, B, 9, &[131, 7, 4, 10, 0, 0, 1, 0]);
    source_route[14] = 0x47;
    source_route[24..26].fill(0);
    let sum = wire::checksum::Ladder::Word64.sum(&source_route[14..42]);
    source_route[24..26].copy_from_slice(&sum.field());
    let mut corrupt = frame(A, B, 9, b"x");
    corrupt[23] ^= 1;
    let mut by_broadcast = frame(A, B, 9, b"x");
    by_broadcast[..6].fill(0xff);
    let mut by_multicast = frame(A6, B6, 9, b"x");
    by_multicast[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    let mut of_another_station = frame(A, B, 9, b"x");
    of_another_station[5] = 77;
    let cases = [
        (source_route, DropReason::Ipv4SourceRoute),
        (corrupt, DropReason::Ipv4Checksum),
        (by_broadcast, DropReason::IpLinkBroadcast),
        (by_multicast, DropReason::IpLinkBroadcast),
        (of_another_station, DropReason::EtherNotForUs),
        (frame("127.0.0.1", B, 9, b"x"), DropReason::IpMartianSource),
        (frame("192.0.2.255", B, 9, b"x"), DropReason::IpMartianSource),
        (frame("192.0.2.1", B, 9, b"x"), DropReason::IpMartianSource),
        (frame("198.51.100.1", B, 9, b"x"), DropReason::IpMartianSource),
        (frame("::1", B6, 9, b"x"), DropReason::IpMartianSource),
        (frame(A, "127.0.0.1", 9, b"x"), DropReason::IpMartianDestination),
        (frame(A, "0.0.0.1", 9, b"x"), DropReason::IpMartianDestination),
        (frame(A6, "::1", 9, b"x"), DropReason::IpMartianDestination),
        (frame(A, "169.254.3.4", 9, b"x"), DropReason::IpLinkLocal),
        (frame(A6, "fe80::5", 9, b"x"), DropReason::IpLinkLocal),
        (frame(A, "198.51.100.255", 9, b"x"), DropReason::IpDirectedBroadcast),
        (frame(A, "198.51.100.0", 9, b"x"), DropReason::IpDirectedBroadcast),
    ];
    for (bytes, why) in cases {
        let mut router = Router::new(1_500);
        let any = "0.0.0.0/0".parse().expect("a network");
        router.stack.add_route(inet::Route::new(any, None, 1));
        let sent = router.exchange(&bytes);
        assert!(sent.iter().all(Vec::is_empty), "{why:?}: {sent:?}");
        assert_eq!((router.drops(why), router.stack.drops().total()), (1, 1), "{why:?}");
        assert_eq!(router.stack.counters().of(Counter::Forwarded), 0);
    }
    // The limited broadcast address, the directed one and multicast groups are not forwarded,
    // whatever the frame's destination MAC address.
    for dst in ["255.255.255.255", "192.0.2.255", "224.0.0.9"] {
        let mut router = Router::new(1_500);
        assert!(router.exchange(&frame(A, dst, 9, b"x")).iter().all(Vec::is_empty), "{dst}");
        assert_eq!(router.stack.counters().of(Counter::Forwarded), 0);
    }
}

/// RFC 2644 demands this switch, and that it is off by default.
#[test]
fn a_directed_broadcast_passes_if_it_is_switched_on() {
    for form in ["198.51.100.255", "198.51.100.0"] {
        let mut router = Router::new(1_500);
        router.stack.set_directed_broadcasts(true);
        let [back, out] = router.exchange(&frame(A, form, 9, b"x"));
        assert!(back.is_empty() && out.len() == 1, "{form}");
        assert_eq!(link(&out[0]), (MACS[1], MacAddr::BROADCAST));
    }
}

/// RFC 1812 4.3.2.7-a, 5.2.7.1-a, 5.3.1-a; RFC 4443 3.1-b, 3.3-a; RFC 8200 3-a; RFC 5508 REQ-10a,
/// REQ-10e, 7.2-a.
#[test]
fn the_source_is_told_what_became_of_its_packet() {
    let net = ErrorKind::Unreachable(Unreachable::Net);
    for (src, dst, far, us) in
        [(A, B, "203.0.113.1", "192.0.2.1"), (A6, B6, "2001:db8:9::1", "2001:db8:1::1")]
    {
        for (ttl, dst, kind, why) in [
            (1, dst, ErrorKind::Transient, DropReason::IpHopLimit),
            (0, dst, ErrorKind::Transient, DropReason::IpHopLimit),
            (9, far, net, DropReason::IpNoRoute),
        ] {
            let mut router = Router::new(1_500);
            let [back, out] = router.exchange(&frame(src, dst, ttl, b"hello"));
            assert!(out.is_empty() && back.len() == 1, "{dst} {ttl}");
            assert_eq!(error(&back[0], us, src), kind);
            assert_eq!((router.drops(why), router.stack.drops().total()), (1, 1));
        }
    }
    // No error is sent about an ICMP error, nor about a later fragment.
    let mut about_error = frame(A, B, 1, &[3, 1, 0, 0, 0, 0, 0, 0]);
    about_error[23] = 1;
    super::craft::number(&mut about_error, 1);
    let mut later = frame(A, B, 1, &[0; 16]);
    later[21] = 2;
    set_flags(&mut later, 0);
    for bytes in [about_error, later] {
        let mut router = Router::new(1_500);
        assert!(router.exchange(&bytes).iter().all(Vec::is_empty));
        assert_eq!(router.drops(DropReason::IpHopLimit), 1);
    }
}

/// A flood of packets whose hops are used up causes as many errors as the limit for one destination
/// admits.
/// RFC 1812 4.3.2.8-a, RFC 5508 REQ-10f.
#[test]
fn errors_are_rate_limited() {
    let mut router = Router::new(1_500);
    let most = router.stack.budget().of(base::Limit::IcmpErrorsPerDestination);
    let mut told = 0;
    for _ in 0..most + 500 {
        told += router.exchange(&frame(A, B, 1, b"x"))[0].len();
    }
    assert_eq!(told, most);
}

/// RFC 1812 5.2.6-a, RFC 4443 3.2-a, RFC 4787 REQ-13, REQ-13a, 10-a, RFC 5508 7.1.1-a, 7.1.1-b.
#[test]
fn what_is_too_large_is_cut_or_its_source_is_told_the_mtu() {
    let data: Vec<u8> = (0..1_480u32).map(|n| (n * 7) as u8).collect();
    let mut router = Router::new(1_300);
    let mut cut = frame(A, B, 9, &data);
    set_flags(&mut cut, 0);
    let [back, out] = router.exchange(&cut);
    assert!(back.is_empty() && out.len() == 2);
    let mut whole = Vec::new();
    for (n, part) in out.iter().enumerate() {
        assert_eq!(link(part), (MACS[1], HOSTS[1]));
        let (ip, piece) = ipv4_any(&part[14..]).expect("sound");
        let piece = piece.expect("a fragment");
        assert_eq!((piece.begin as usize, piece.more, piece.id), (whole.len(), n == 0, 7));
        assert!(ip.ttl == 8 && part.len() <= 14 + 1_300);
        whole.extend_from_slice(&part[34..]);
    }
    assert_eq!(whole, data);
    for (src, dst, us) in [(A, B, "192.0.2.1"), (A6, B6, "2001:db8:1::1")] {
        let mut router = Router::new(1_300);
        let bytes = frame(src, dst, 9, &data[..1_400]);
        let [back, out] = router.exchange(&bytes);
        assert!(out.is_empty() && back.len() == 1, "{dst}");
        assert_eq!(error(&back[0], us, src), ErrorKind::TooBig(1_300));
        assert_eq!(router.drops(DropReason::IpTooBig), 1);
    }
}

/// The next hop's link address is not known yet: the packet waits for it, and if no answer comes,
/// its source gets an error.
#[test]
fn a_packet_waits_for_its_next_hop() {
    for answers in [false, true] {
        let mut router = Router::new(1_500);
        let [back, out] = router.exchange(&frame(A, "198.51.100.77", 9, b"x"));
        assert!(
            back.is_empty() && out.len() == 1 && out[0][..6] == [0xff; 6],
            "no ARP request left"
        );
        if !answers {
            let mut told = Vec::new();
            for ms in (0..4_000).step_by(100) {
                told.extend(router.sent(NOW + Duration::from_millis(ms))[0].clone());
            }
            let host = ErrorKind::Unreachable(Unreachable::Host);
            assert!(told.len() == 1 && error(&told[0], "192.0.2.1", A) == host);
            assert_eq!(router.drops(DropReason::IpNoNeighbour), 1);
            continue;
        }
        let mut reply = vec![0; 14];
        ether::Header { dst: MACS[1], src: HOSTS[1], ethertype: ether::ARP }.emit(&mut reply);
        let [sender, target] = [77, 1].map(|n| Ipv4Addr::new(198, 51, 100, n));
        let operation = wire::arp::Operation::Reply;
        reply.extend(inet::nd::arp_output(operation, (HOSTS[1], sender), (MACS[1], target)));
        let mut burst = Burst::new();
        burst.push(router.pool.copy_of(&reply).expect("room"));
        router.wires[1].tx_burst(&mut router.pool, &mut burst);
        let [_, out] = router.sent(NOW);
        assert!(out.len() == 1 && link(&out[0]) == (MACS[1], HOSTS[1]) && out[0][22] == 8);
    }
}

#[test]
fn any_address_of_a_router_answers_at_any_port() {
    let mut router = Router::new(1_500);
    let mut echo = vec![8, 0, 0, 0, 0, 1, 0, 1];
    let sum = wire::checksum::Ladder::Word64.sum(&echo);
    echo[2..4].copy_from_slice(&sum.field());
    for to in ["192.0.2.1", "198.51.100.1"] {
        let mut request = frame(A, to, 9, &echo);
        request[23] = 1;
        super::craft::number(&mut request, 1);
        let [back, out] = router.exchange(&request);
        assert!(out.is_empty() && back.len() == 1, "{to}");
        let (ip, _) = ipv4_any(&back[0][14..]).expect("sound");
        assert_eq!((ip.src().to_string(), back[0][34]), (to.to_owned(), 0));
    }
    assert_eq!(router.stack.counters().of(Counter::Forwarded), 0);
}
