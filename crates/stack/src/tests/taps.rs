//! Taps at the driver's edge: what they see, when, and that nobody else notices.

use core::net::SocketAddr;

use base::{Duration, Instant, Owner, WallTime};
use bpf::{Counters, Direction, Filter, Insn, Program, Record, Settings, Tap};
use device::Offloads;
use wire::checksum::{Ladder, Sum};
use wire::{ether, ipv4, tcp};

use crate::pair::{End, PairConfig, pair};
use crate::{ListenConfig, TapId, TcpHandle};

const WALL: WallTime = WallTime(1_700_000_000_000_000_000);

/// Keeps so many bytes of every frame.
fn tap(snaplen: u32, only: Option<Direction>) -> Tap {
    let all = Program::new(&[Insn::new(0x06, 0, 0, snaplen)]).expect("a return");
    let settings = Settings { buffer_bytes: 4 << 20, only, ..Settings::default() };
    Tap::new(Filter::new(all), settings).expect("settings in range")
}

/// Two ends and a connection from the first to the second.
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
        let (mut client, mut server) = pair(&config);
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
        // Longer than an ACK is delayed.
        for _ in 0..20 {
            self.now += Duration::from_millis(20);
            self.client.stack.poll(self.now);
            self.server.stack.poll(self.now);
        }
    }

    /// A tap at the sending end, its clock set now.
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

/// Is the TCP checksum of this frame right, over all that it carries?
fn is_whole(frame: &[u8]) -> bool {
    let packet = &frame[ether::HEADER_LEN..];
    let ip = ipv4::Header::parse(packet).expect("IPv4");
    let segment = &packet[ip.header_len..usize::from(ip.total_len)];
    let pseudo = Sum::pseudo_v4(ip.src, ip.dst, ipv4::TCP);
    let length = Sum::of_be16(segment.len() as u16);
    pseudo.plus(length).plus(Ladder::best().sum(segment)).is_whole()
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

#[test]
fn what_the_device_would_finish_is_finished_in_the_copy_alone() {
    let offloads = Offloads { tx_checksum: true, rx_checksum: true, tso_max_bytes: 65_000 };
    let mut t = Test::new(offloads, 1024);
    let id = t.watch(tap(0xffff, Some(Direction::Out)));
    let short = t.watch(tap(40, Some(Direction::Out)));
    t.write(20_000);
    t.settle();
    let (mut bytes, mut supers) = (0, 0);
    t.seen(id, |record| {
        assert!(is_whole(record.bytes), "{} bytes", record.bytes.len());
        bytes += record.bytes.len() - 14 - 20 - 32;
        supers += usize::from(record.segment_bytes == 1_448);
    });
    assert_eq!(bytes, 20_000);
    assert!(supers > 0, "super-segments are noted");
    t.seen(short, |record| assert_eq!(record.bytes.len(), 40, "no room for a checksum"));
    let mut into = vec![0; 30_000];
    let accepted = t.accepted.expect("it was accepted");
    assert_eq!(t.server.stack.tcp_read(accepted, &mut into), Ok(20_000));
}

#[test]
fn what_a_full_device_pushes_back_is_seen_once() {
    let mut t = Test::new(Offloads::default(), 4);
    let id = t.watch(tap(96, Some(Direction::Out)));
    t.write(60_000);
    t.client.stack.flush();
    t.client.stack.flush();
    for _ in 0..30 {
        t.settle();
        let accepted = t.accepted.expect("it was accepted");
        let _ = t.server.stack.tcp_read(accepted, &mut [0; 65_536]);
    }
    let mut ends = Vec::new();
    t.seen(id, |record| {
        let segment = &record.bytes[ether::HEADER_LEN + ipv4::HEADER_LEN..];
        ends.push(tcp::Header::parse(segment).expect("TCP").seq);
    });
    let count = ends.len();
    ends.dedup();
    assert_eq!(ends.len(), count, "each once");
    assert!(count >= 60_000 / 1_448);
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
    assert_ne!(id, again, "no other has its number");
    let nowhere = crate::PortId(77);
    assert!(t.client.stack.add_tap(nowhere, tap(96, None), WALL).is_none());
}
