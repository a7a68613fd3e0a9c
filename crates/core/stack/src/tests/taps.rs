//! Taps at the edge to the driver: what they capture, when, and that they do not affect traffic.

mod checksums;

use core::net::SocketAddr;
use std::collections::HashSet;

use base::{Counter, Duration, Instant, IpVersion, LinkKind, Owner, WallTime, addr};
use bpf::{Counters, Direction, Filter, Insn, Program, Record, Settings, Tap};
use device::{Burst, Device, Offloads, mem, vlan as trunk};
use mbuf::{Flags, Mbuf, Pool};
use wire::{ether, ipv4, ipv6, tcp, vlan};

use super::craft::transport_sum;
use crate::pair::{self, End, PairConfig};
use crate::{ListenConfig, TapId, TcpHandle};

const WALL: WallTime = WallTime(1_700_000_000_000_000_000);

/// Computing checksums and cutting super-segments is left to the device.
const ALL: Offloads = Offloads {
    tx_checksum: true,
    rx_checksum: true,
    tso_max_bytes: 65_000,
    uso_max_bytes: 0,
    gro: false,
};

const VERSIONS: [IpVersion; 2] = [IpVersion::V4, IpVersion::V6];
const LINKS: [LinkKind; 2] = [LinkKind::Ethernet, LinkKind::Ip];

fn tap_of(insns: &[Insn], only: Option<Direction>) -> Tap {
    let program = Program::new(insns).expect("it ends in a return");
    let settings = Settings { buffer_bytes: 4 << 20, only, ..Settings::default() };
    Tap::new(Filter::new(program), settings).expect("settings in range")
}

/// A tap that keeps the first `snaplen` bytes of every frame.
fn tap(snaplen: u32, only: Option<Direction>) -> Tap {
    tap_of(&[Insn::new(0x06, 0, 0, snaplen)], only)
}

/// A tap that keeps sent frames of one EtherType.
fn tap_of_type(ethertype: u16) -> Tap {
    let insns = [
        Insn::new(0x28, 0, 0, 12),
        Insn::new(0x15, 0, 1, ethertype.into()),
        Insn::new(0x06, 0, 0, 0xffff),
        Insn::new(0x06, 0, 0, 0),
    ];
    tap_of(&insns, Some(Direction::Out))
}

/// Two stacks, and a connection from the first to the second.
struct Test {
    client: End,
    server: End,
    stream: TcpHandle,
    accepted: Option<TcpHandle>,
    now: Instant,
}

impl Test {
    fn new(offloads: Offloads, depth: usize) -> Test {
        let mut config = PairConfig::new([1, 2]);
        config.wire.offloads = offloads;
        config.wire.depth = depth;
        Test::of(&config)
    }

    fn of(config: &PairConfig) -> Test {
        let (mut client, mut server) = pair::pair(config);
        let (now, to) = (Instant::from_nanos(1_000_000_000), SocketAddr::new(server.addr, 80));
        let listener = server.stack.tcp_listen(to, ListenConfig::default()).expect("free");
        let asked = ::tcp::Config::default();
        let connected = client.stack.tcp_connect(to, None, &asked, Owner::program(), now);
        let stream = connected.expect("a port is free");
        let mut test = Test { client, server, stream, accepted: None, now };
        test.settle();
        test.accepted = test.server.stack.tcp_accept(listener);
        test
    }

    fn settle(&mut self) {
        // A time longer than an ACK is delayed.
        for _ in 0..20 {
            self.now += Duration::from_millis(20);
            self.client.stack.poll(self.now);
            self.server.stack.poll(self.now);
        }
    }

    /// Adds a tap at the sending stack, and sets its clock now.
    fn watch(&mut self, tap: Tap) -> TapId {
        let port = self.client.port;
        self.client.stack.add_tap(port, tap, WALL).expect("the port is there")
    }

    fn write(&mut self, bytes: usize) {
        let written = self.client.stack.tcp_write(self.stream, &vec![7; bytes]);
        assert_eq!(written, Ok(bytes));
        self.client.stack.flush();
    }

    fn seen(&mut self, id: TapId, look: impl FnMut(Record<'_>)) -> Counters {
        let tap = self.client.stack.tap(id).expect("it is there");
        let buffer = tap.take().expect("something matched");
        buffer.records().for_each(look);
        tap.give_back(buffer);
        tap.counters()
    }
}

/// Is the transport checksum of this frame, over its whole payload, right?
fn is_whole(frame: &[u8], link: LinkKind) -> bool {
    let packet = &frame[vlan::ip_at(frame, link).expect("IP")..];
    if packet[0] >> 4 == 4 {
        let ip = ipv4::Header::parse(packet).expect("IPv4");
        let segment = &packet[ip.header_len..usize::from(ip.total_len)];
        transport_sum(ip.src.into(), ip.dst.into(), ip.protocol, segment).is_whole()
    } else {
        let ip = ipv6::Header::parse(packet).expect("IPv6");
        let segment = &packet[ipv6::HEADER_LEN..][..usize::from(ip.payload_len)];
        transport_sum(ip.src.into(), ip.dst.into(), ip.next_header, segment).is_whole()
    }
}

#[test]
fn both_ways_are_seen_with_the_time_of_day() {
    let mut t = Test::new(Offloads::default(), 1024);
    let (both, sent) = (t.watch(tap(96, None)), t.watch(tap(96, Some(Direction::Out))));
    let start = t.now;
    t.write(100);
    t.settle();
    let mut records = Vec::new();
    let counters = t.seen(both, |r| records.push((r.direction, r.time, r.wire_len, r.bytes.len())));
    assert_eq!(records[0], (Direction::Out, WALL, 14 + 20 + 32 + 100, 96));
    let (direction, time, wire_len, kept) = records[1];
    assert_eq!((direction, wire_len, kept), (Direction::In, 14 + 20 + 32, 66));
    assert!(time > WALL && time.0 < WALL.0 + t.now.since(start).as_nanos());
    assert_eq!(counters, Counters { seen: 2, matched: 2, dropped: 0 });
    assert_eq!(t.seen(sent, |_| ()), Counters { seen: 1, matched: 1, dropped: 0 });
}

/// A frame's bytes, and its offload requests.
type Carried = (Vec<u8>, bool, u16, u16);

fn pass(from: &mut mem::Mem, to: &mut mem::Mem, pool: &mut Pool, frames: &mut Vec<Carried>) {
    let mut burst = Burst::new();
    while from.rx_burst(pool, &mut burst) > 0 {
        let carried = |m: &Mbuf| {
            let is_partial = m.has(Flags::CSUM_PARTIAL);
            (m.as_slice().to_vec(), is_partial, m.csum(), m.segment_size())
        };
        frames.extend(burst.iter().map(carried));
        to.tx_burst(pool, &mut burst);
        assert!(burst.is_empty(), "the wire did not take all frames");
    }
}

/// Every frame of a transfer as its receiver gets it, with these taps at the sender.
fn carried(taps: Vec<Tap>) -> Vec<Carried> {
    let mut config = PairConfig::new([1, 2]);
    config.wire.offloads = ALL;
    let [(a, mut near), (b, mut far)] = [mem::pair(&config.wire), mem::pair(&config.wire)];
    let (mut client, mut server) = (pair::end(&config, a, 1), pair::end(&config, b, 2));
    for tap in taps {
        client.stack.add_tap(client.port, tap, WALL).expect("the port is there");
    }
    let (mut now, to) = (Instant::from_nanos(1_000_000_000), SocketAddr::new(server.addr, 80));
    server.stack.tcp_listen(to, ListenConfig::default()).expect("free");
    let asked = ::tcp::Config::default();
    let connected = client.stack.tcp_connect(to, None, &asked, Owner::program(), now);
    let stream = connected.expect("a port is free");
    let (mut pool, mut frames) = (Pool::new(1 << 20), Vec::new());
    for step in 0..40 {
        if step == 10 {
            assert_eq!(client.stack.tcp_write(stream, &[7; 20_000]), Ok(20_000));
            client.stack.flush();
        }
        now += Duration::from_millis(20);
        client.stack.poll(now);
        pass(&mut near, &mut far, &mut pool, &mut frames);
        server.stack.poll(now);
        pass(&mut far, &mut near, &mut pool, &mut frames);
    }
    frames
}

#[test]
fn a_receiver_cannot_tell_whether_somebody_watches() {
    let unwatched = carried(Vec::new());
    let is_super = |frame: &Carried| frame.1 && frame.3 > 0;
    assert!(unwatched.iter().any(is_super), "no super-segment left");
    let watched = carried(vec![tap(0xffff, None), tap_of_type(ether::IPV4), tap(96, None)]);
    assert_eq!(unwatched.len(), watched.len());
    assert!(unwatched == watched, "taps changed the frames");
}

#[test]
fn taps_of_a_port_each_have_a_filter_and_a_refusal_keeps_nothing() {
    let mut t = Test::new(Offloads::default(), 1024);
    let nothing = t.watch(tap_of(&[Insn::new(0x06, 0, 0, 0)], Some(Direction::Out)));
    let [v4, v6] = [ether::IPV4, ether::IPV6].map(|ethertype| t.watch(tap_of_type(ethertype)));
    let stack = &mut t.client.stack;
    let local = SocketAddr::new(addr::unspecified(IpVersion::V4), 2_000);
    let socket = stack.udp_bind(local, Owner::program()).expect("a free port");
    for (count, cidr) in [3, 2].into_iter().zip(pair::addresses(2)) {
        for _ in 0..count {
            let to = SocketAddr::new(cidr.addr, 9);
            stack.udp_send(socket, to, b"whose filter takes it?", t.now).expect("it is sent");
        }
    }
    stack.flush();
    for (id, ethertype, matched) in [(v4, ether::IPV4, 3), (v6, ether::IPV6, 2)] {
        let mut kept = 0;
        let counters = t.seen(id, |record| {
            assert_eq!(ether::Header::parse(record.bytes).map(|h| h.ethertype), Ok(ethertype));
            kept += 1;
        });
        assert_eq!(counters, Counters { seen: 5, matched, dropped: 0 });
        assert_eq!(kept, matched);
    }
    let nothing = t.client.stack.tap(nothing).expect("it is there");
    assert!(nothing.take().is_none(), "a tap kept a frame that its filter refused");
    assert_eq!(nothing.counters(), Counters { seen: 5, matched: 0, dropped: 0 });
}

#[test]
fn what_a_full_device_pushes_back_is_seen_once() {
    let mut t = Test::new(Offloads::default(), 4);
    let id = t.watch(tap(96, Some(Direction::Out)));
    let counted = |t: &Test, counter| t.client.stack.counters().of(counter);
    let before = [Counter::TxFrames, Counter::TcpRetransmits].map(|c| counted(&t, c));
    t.write(60_000);
    t.client.stack.flush();
    t.client.stack.flush();
    for _ in 0..30 {
        t.settle();
        let accepted = t.accepted.expect("it was accepted");
        let _ = t.server.stack.tcp_read(accepted, &mut [0; 65_536]);
    }
    let mut numbers = HashSet::new();
    let mut records = 0;
    let counters = t.seen(id, |record| {
        let segment = &record.bytes[ether::HEADER_LEN + ipv4::HEADER_LEN..];
        numbers.insert(tcp::Header::parse(segment).expect("TCP").seq);
        records += 1;
    });
    assert!(counted(&t, Counter::TxPushedBack) > 0, "the device never pushed back");
    let sent = counted(&t, Counter::TxFrames) - before[0];
    assert_eq!(counters, Counters { seen: sent, matched: sent, dropped: 0 });
    assert_eq!(records, sent, "not each frame that the device got was captured once");
    let again = counted(&t, Counter::TcpRetransmits) - before[1];
    assert_eq!(numbers.len() as u64 + again, sent, "a frame was captured twice");
    assert!(numbers.len() > 60_000 / 1_448);
}

#[test]
fn a_tap_that_was_removed_sees_no_more_and_gives_what_it_holds() {
    let mut t = Test::new(Offloads::default(), 1024);
    let id = t.watch(tap(96, None));
    t.write(10);
    t.settle();
    let mut held = t.client.stack.remove_tap(id).expect("it is there");
    assert_eq!(held.take().map(|buffer| buffer.records().count()), Some(2));
    t.write(10);
    t.settle();
    assert!(t.client.stack.tap(id).is_none() && t.client.stack.remove_tap(id).is_none());
    let again = t.watch(tap(96, None));
    assert_ne!(id, again, "a tap's number was used again");
    let nowhere = crate::PortId(77);
    assert!(t.client.stack.add_tap(nowhere, tap(96, None), WALL).is_none());
}

#[test]
fn a_port_of_a_trunk_is_seen_with_the_tags_that_the_wire_has() {
    for offloads in [Offloads::default(), ALL] {
        let mut config = PairConfig::new([1, 2]);
        config.wire.offloads = offloads;
        let (a, b) = mem::pair(&config.wire);
        let [a, b] = [a, b].map(|trunk| {
            let ports = trunk::split(Box::new(trunk), trunk::TAG, &[trunk::Id::Vlan(5)]);
            ports.expect("a good trunk").remove(0)
        });
        let (mut client, mut server) = (pair::end(&config, a, 1), pair::end(&config, b, 2));
        let id = client.stack.add_tap(client.port, tap(0xffff, None), WALL).expect("a port");
        let (mut now, to) = (Instant::from_nanos(1_000_000_000), SocketAddr::new(server.addr, 80));
        server.stack.tcp_listen(to, ListenConfig::default()).expect("free");
        let asked = ::tcp::Config::default();
        let connected = client.stack.tcp_connect(to, None, &asked, Owner::program(), now);
        let stream = connected.expect("a port is free");
        for step in 0..20 {
            if step == 10 {
                assert_eq!(client.stack.tcp_write(stream, &[7; 3000]), Ok(3000));
                client.stack.flush();
            }
            now += Duration::from_millis(20);
            client.stack.poll(now);
            server.stack.poll(now);
        }
        let buffer = client.stack.tap(id).and_then(Tap::take).expect("frames passed");
        let mut ways = HashSet::new();
        for record in buffer.records() {
            assert_eq!(record.bytes[12..16], [0x81, 0, 0, 5]);
            assert_eq!(record.bytes.len(), record.wire_len as usize);
            let ethertype = u16::from_be_bytes([record.bytes[16], record.bytes[17]]);
            assert!(ethertype == ether::ARP || is_whole(record.bytes, LinkKind::Ethernet));
            ways.insert(record.direction == Direction::Out);
        }
        assert_eq!(ways.len(), 2, "not both directions were captured");
    }
}
