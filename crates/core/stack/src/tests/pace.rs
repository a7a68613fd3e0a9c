//! Gaps between the frames to one destination: which receivers they help, and what they do not
//! delay.

use core::net::SocketAddr;

use base::{Cidr, Counter, DropReason, Duration, Instant, IpVersion, Limit, Owner};
use device::busy::Busy;
use device::{mem, nic};

use super::craft::Bench;
use super::frag::{pattern, socket};
use super::icmp::{BOTH, NOW, bench};
use crate::pair::{End, PairConfig, VirtualClock, end};
use crate::{Event, GAP_MAX, GapError, UdpError, UdpHandle};

const GAP: Duration = Duration::from_micros(60);

fn host(bench: &Bench) -> Cidr {
    let bits = if bench.theirs.is_ipv4() { 32 } else { 128 };
    Cidr::new(bench.theirs, bits).expect("a host")
}

/// A sender, and a receiver that needs 50 us for each frame, over 1 Gb/s in virtual time.
struct World {
    sender: End,
    receiver: End,
    clock: VirtualClock,
}

impl World {
    fn new(version: IpVersion) -> World {
        let clock = VirtualClock::default();
        let joined = nic::pair(&nic::Config::default(), clock.of_devices());
        let (first, second) = joined.expect("a link");
        let second = Busy::new(second, Duration::from_micros(50), clock.of_devices());
        let config = PairConfig { version, ..PairConfig::new([1988, 8]) };
        World { sender: end(&config, first, 1), receiver: end(&config, second, 2), clock }
    }

    /// Writes 8 KB `count` times; returns how many arrived, and how long the last one took.
    fn writes(&mut self, count: usize) -> (usize, Duration) {
        let to = SocketAddr::new(self.receiver.addr, 2049);
        let from = SocketAddr::new(self.sender.addr, 800);
        let receiver = self.receiver.stack.udp_bind(to, Owner::program()).expect("free");
        let sender = self.sender.stack.udp_bind(from, Owner::program()).expect("free");
        let data = pattern(8_192);
        let (mut sent, mut arrived, mut last) = (0, 0, Duration::ZERO);
        loop {
            let now = self.clock.now();
            self.sender.stack.poll(now);
            while sent < count {
                match self.sender.stack.udp_send(sender, to, &data, now) {
                    Ok(()) => sent += 1,
                    Err(error) => {
                        assert_eq!(error, UdpError::WouldBlock);
                        break;
                    }
                }
            }
            self.receiver.stack.poll(now);
            while let Some(datagram) = self.receiver.stack.udp_receive(receiver) {
                assert!(datagram.payload.as_slice() == data);
                self.receiver.stack.give_back(datagram.payload);
                arrived += 1;
                last = now.since(Instant::from_nanos(1));
            }
            if !self.clock.advance([&mut self.sender, &mut self.receiver]) {
                assert_eq!(sent, count);
                return (arrived, last);
            }
        }
    }
}

/// NFS writes of 8 KB are six fragments; a receiver that loses the second of two frames gets no
/// whole write, however often it is sent. With a gap it gets them all, as fast as it can take
/// frames.
#[test]
fn eight_kb_writes_reach_a_receiver_that_loses_back_to_back_frames() {
    for version in BOTH {
        let mut world = World::new(version);
        let (arrived, _) = world.writes(100);
        assert_eq!(arrived, 0, "a write arrived without a gap");
        assert!(world.receiver.stack.drops().of(DropReason::FragmentTimeout) > 0);
        let mut world = World::new(version);
        let bits = if version == IpVersion::V4 { 24 } else { 64 };
        let network = Cidr::new(world.receiver.addr, bits).expect("a network");
        world.sender.stack.set_burst_gap(network, Some(GAP)).expect("few gaps");
        let (arrived, took) = world.writes(100);
        assert_eq!(arrived, 100);
        let (least, most) = (GAP.saturating_mul(599), GAP.saturating_mul(601));
        assert!(least <= took && took <= most, "{took:?}");
        for end in [&mut world.sender, &mut world.receiver] {
            assert_eq!(end.stack.drops().total(), 0);
            end.stack.settle();
        }
        assert_eq!(world.sender.stack.pool().outstanding(), 0);
    }
}

/// A driver thread that is late does not shorten later gaps to make up for it.
#[test]
fn a_gap_is_kept_when_polls_are_late() {
    for version in BOTH {
        let mut bench = bench(version);
        bench.stack.set_burst_gap(host(&bench), Some(GAP)).expect("few gaps");
        let (udp, remote) = socket(&mut bench);
        bench.stack.udp_send(udp, remote, &pattern(8_192), NOW).expect("queued");
        assert_eq!(bench.sent().len(), 1, "not one frame left at once");
        assert_eq!(bench.stack.next_deadline(), NOW + GAP);
        let us = Duration::from_micros;
        for (at, expected) in [(59, 0), (60, 1), (119, 0), (500, 1), (559, 0), (560, 1), (620, 1)] {
            let frames = bench.poll(NOW + us(at));
            assert_eq!(frames.len(), expected, "{at} us");
        }
        assert_eq!(bench.poll(NOW + us(679)).len() + bench.poll(NOW + us(680)).len(), 1);
        assert_eq!(bench.stack.next_deadline(), Instant::NEVER);
        // The gap also applies after the last fragment.
        bench.stack.udp_send(udp, remote, b"whole", NOW + us(700)).expect("queued");
        assert_eq!(bench.sent().len(), 0);
        assert_eq!(bench.poll(NOW + us(740)).len(), 1);
        assert_eq!(bench.stack.drops().total(), 0);
    }
}

/// Frames to other destinations leave at once, even if the queue of one is full.
#[test]
fn a_gap_delays_its_own_destination_alone() {
    let mut bench = bench(IpVersion::V4);
    let slow = host(&bench);
    bench.stack.set_burst_gap("192.0.2.0/24".parse().expect("a network"), Some(GAP)).expect("few");
    for exempt in ["192.0.2.64/26", "192.0.2.9/32"] {
        let exempt = exempt.parse().expect("a network");
        bench.stack.set_burst_gap(exempt, Some(Duration::ZERO)).expect("few");
    }
    bench.stack.set_burst_gap(slow, Some(GAP.saturating_mul(2))).expect("few");
    for (addr, gap) in [
        ("192.0.2.2", Some(GAP.saturating_mul(2))),
        ("192.0.2.3", Some(GAP)),
        ("192.0.2.65", None),
        ("192.0.2.9", None),
        ("198.51.100.1", None),
        ("2001:db8::2", None),
    ] {
        assert_eq!(bench.stack.burst_gap(addr.parse().expect("an address")), gap, "{addr}");
    }
    let (udp, remote) = socket(&mut bench);
    let port = bench.stack.port_ids()[0];
    for other in ["192.0.2.9", "192.0.2.3"] {
        let other = other.parse().expect("an address");
        assert!(bench.stack.add_neighbour(port, other, crate::pair::mac(2)));
    }
    while bench.stack.udp_send(udp, remote, &pattern(1_000), NOW).is_ok() {}
    assert_eq!(bench.sent().len(), 1);
    let send = |bench: &mut Bench, to: &str, len| {
        let to = SocketAddr::new(to.parse().expect("an address"), 7);
        bench.stack.udp_send(udp, to, &pattern(len), NOW).expect("sent");
        bench.sent().len()
    };
    assert_eq!(
        send(&mut bench, "192.0.2.9", 8_192),
        6,
        "frames without a gap did not leave at once"
    );
    assert_eq!(send(&mut bench, "192.0.2.3", 8_192), 1, "a destination does not have its own gap");
    // Once the gap is removed, waiting frames leave at once, and in order.
    let waiting = bench.stack.pace.waiting();
    assert_eq!(waiting, bench.stack.budget().of(Limit::GapQueue) + 5);
    bench.stack.set_burst_gap(slow, Some(Duration::ZERO)).expect("known");
    let polls = (0..1_000).map(|ns| bench.poll(NOW + Duration::from_nanos(ns)).len());
    assert_eq!(polls.sum::<usize>(), waiting - 5);
}

/// A program that writes faster than the gaps admit is pushed back, and woken when the queue is
/// half empty.
#[test]
fn a_full_queue_pushes_back_whole_datagrams() {
    let mut bench = bench(IpVersion::V4);
    bench.stack.set_burst_gap(host(&bench), Some(GAP)).expect("few gaps");
    let (udp, remote) = socket(&mut bench);
    let data = pattern(8_192);
    let mut sent = 0;
    while bench.stack.udp_send(udp, remote, &data, NOW).is_ok() {
        sent += 1;
    }
    assert_eq!(bench.stack.udp_send(udp, remote, &data, NOW), Err(UdpError::WouldBlock));
    let most = bench.stack.budget().of(Limit::GapQueue);
    assert!((most..most + 6).contains(&bench.stack.pace.waiting()));
    assert_eq!(bench.stack.counters().of(Counter::DatagramsFragmented), sent);
    assert!(bench.stack.is_pushed_back());
    // An answer that its receiver does not ask for again is dropped under a reason of its own.
    let echo = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
    let request = bench.frame(wire::protocol::ICMP, &echo);
    let mut frames = bench.exchange(&request, NOW);
    assert_eq!(bench.stack.drops().of(DropReason::TxGapFull), 1);
    let mut now = NOW;
    while bench.stack.is_pushed_back() {
        assert!(!bench.stack.found_room());
        now = bench.stack.next_deadline();
        frames.extend(bench.poll(now));
    }
    assert!(bench.stack.found_room() && !bench.stack.found_room());
    assert_eq!(bench.stack.pace.waiting(), most / 2);
    while bench.stack.next_deadline() != Instant::NEVER {
        now = bench.stack.next_deadline();
        frames.extend(bench.poll(now));
    }
    assert_eq!(frames.len() as u64, 6 * sent);
    assert_eq!(now.since(NOW), GAP.saturating_mul(6 * sent - 1));
    bench.stack.settle();
    assert_eq!((bench.stack.drops().total(), bench.stack.pool().outstanding()), (1, 0));
}

/// Frames to other destinations that always wait in the port do not keep out frames with a gap.
#[test]
fn a_busy_port_lets_frames_with_a_gap_pass() {
    let wire = mem::Config { depth: 64, ..mem::Config::default() };
    let mut bench = Bench::new(&PairConfig { wire, ..PairConfig::new([5, 6]) });
    bench.stack.set_burst_gap(host(&bench), Some(GAP)).expect("few gaps");
    let (udp, remote) = socket(&mut bench);
    let port = bench.stack.port_ids()[0];
    let other = SocketAddr::from(([192, 0, 2, 9], 7));
    assert!(bench.stack.add_neighbour(port, other.ip(), crate::pair::mac(2)));
    for _ in 0..10 {
        bench.stack.udp_send(udp, remote, &pattern(500), NOW).expect("queued");
    }
    let (mut now, mut arrived) = (NOW, 0);
    for _ in 0..100 {
        while bench.stack.udp_send(udp, other, &pattern(100), now).is_ok() {}
        let slow = |frame: &&Vec<u8>| frame[33] == 2;
        let more = bench.poll(now).iter().filter(slow).count();
        assert!(more <= 1);
        arrived += more;
        now += GAP;
    }
    assert_eq!(arrived, 10);
}

/// A device that takes nothing does not turn gaps into a burst when it takes something again.
#[test]
fn a_full_device_does_not_gather_frames() {
    let wire = mem::Config { depth: 4, ..mem::Config::default() };
    let mut bench = Bench::new(&PairConfig { wire, ..PairConfig::new([5, 6]) });
    bench.stack.set_burst_gap(host(&bench), Some(GAP)).expect("few gaps");
    let (udp, remote) = socket(&mut bench);
    bench.stack.udp_send(udp, remote, &pattern(20_000), NOW).expect("queued");
    let total = 1 + bench.stack.pace.waiting();
    let mut now = NOW;
    for _ in 0..100 {
        now += GAP;
        bench.stack.poll(now);
    }
    // The device took no frame: one waits in the port, the others in their queue.
    let mut frames = bench.sent().len();
    assert_eq!((frames, frames + 1 + bench.stack.pace.waiting()), (4, total));
    // The waiting frame leaves alone, whenever there is room, and the next one leaves a gap later.
    now += Duration::from_millis(1);
    frames += bench.poll(now).len();
    assert_eq!(frames, 5);
    while bench.stack.next_deadline() != Instant::NEVER {
        assert!(bench.stack.next_deadline() >= now + GAP);
        now = bench.stack.next_deadline();
        let more = bench.poll(now).len();
        assert!(more <= 1);
        frames += more;
    }
    assert_eq!((frames, bench.stack.drops().total()), (total, 0));
}

/// Waiting frames that no longer fit when the MTU is lowered are dropped under a reason of their
/// own; the others leave.
#[test]
fn frames_that_outgrew_their_link_are_dropped() {
    for version in BOTH {
        let mut bench = bench(version);
        bench.stack.set_burst_gap(host(&bench), Some(GAP)).expect("few gaps");
        let (udp, remote) = socket(&mut bench);
        for len in [100, 1_400, 200, 1_400] {
            bench.stack.udp_send(udp, remote, &pattern(len), NOW).expect("queued");
        }
        let mut frames = bench.sent();
        let narrow = base::Mtu::new(1_280).expect("an MTU");
        let port = bench.stack.port_ids()[0];
        bench.stack.set_neighbour_mtu(port, bench.theirs, Some(narrow)).expect("few");
        bench.stack.udp_send(udp, remote, &pattern(300), NOW).expect("queued");
        while bench.stack.next_deadline() != Instant::NEVER {
            let now = bench.stack.next_deadline();
            frames.extend(bench.poll(now));
        }
        let headers = if version == IpVersion::V4 { 42 } else { 62 };
        let sizes: Vec<usize> = frames.iter().map(|frame| frame.len() - headers).collect();
        assert_eq!(sizes, [100, 200, 300]);
        assert_eq!(bench.stack.drops().of(DropReason::IpTooBig), 2);
        bench.stack.settle();
        assert_eq!(bench.stack.pool().outstanding(), 0);
    }
}

#[test]
fn gaps_have_limits() {
    let mut bench = bench(IpVersion::V4);
    let to = |n: u32| Cidr::new(core::net::Ipv4Addr::from_bits(n << 8).into(), 24).expect("24");
    let too_long = GAP_MAX + Duration::from_nanos(1);
    let refused = bench.stack.set_burst_gap(to(1), Some(too_long));
    assert_eq!(refused, Err(GapError::TooLong));
    let most = bench.stack.budget().of(Limit::BurstGaps) as u32;
    for n in 0..most {
        assert_eq!(bench.stack.set_burst_gap(to(n), Some(GAP)), Ok(()));
    }
    assert_eq!(bench.stack.set_burst_gap(to(most), Some(GAP)), Err(GapError::LimitReached));
    assert_eq!(bench.stack.set_burst_gap(to(most - 1), Some(GAP_MAX)), Ok(()), "known");
    assert_eq!(bench.stack.set_burst_gap(to(0), None), Ok(()));
    assert_eq!(bench.stack.set_burst_gap(to(most), Some(GAP)), Ok(()));
    assert!(bench.stack.budget().hits(Limit::BurstGaps) == 1);
}

/// As many destinations as the limit admits have gaps at a time; a destination whose gap is over
/// makes room for another.
#[test]
fn destinations_with_a_gap_are_bounded() {
    let mut config = PairConfig::new([5, 6]);
    config.stack.budget.set(Limit::GapDestinations, 8);
    config.wire.link = base::LinkKind::Ip;
    let mut bench = Bench::new(&config);
    bench.stack.set_burst_gap("192.0.2.0/24".parse().expect("24"), Some(GAP)).expect("few gaps");
    let (udp, _) = socket(&mut bench);
    let send = |bench: &mut Bench, host: u8, now| {
        let to = SocketAddr::from(([192, 0, 2, host], 7));
        bench.stack.udp_send(udp, to, b"data", now)
    };
    for host in 10..18 {
        assert_eq!(send(&mut bench, host, NOW), Ok(()));
    }
    let full = Err(UdpError::Unsendable(DropReason::TxGapFull));
    assert_eq!(send(&mut bench, 18, NOW), full);
    assert_eq!(send(&mut bench, 18, NOW + GAP), Ok(()));
    assert_eq!(bench.sent().len(), 9);
}

/// Frames that wait for a port that is removed are dropped, and their senders are woken.
#[test]
fn a_port_takes_what_waits_with_it() {
    let mut bench = bench(IpVersion::V6);
    bench.stack.set_burst_gap(host(&bench), Some(GAP)).expect("few gaps");
    let (udp, remote): (UdpHandle, _) = socket(&mut bench);
    while bench.stack.udp_send(udp, remote, &pattern(8_192), NOW).is_ok() {}
    let waiting = bench.stack.pace.waiting() as u64;
    let port = bench.stack.port_ids()[0];
    drop(bench.stack.remove_port(port));
    assert_eq!(bench.stack.drops().of(DropReason::TxNoPort), waiting);
    assert!(!bench.stack.is_pushed_back() && bench.stack.found_room());
    assert_eq!((bench.stack.pace.waiting(), bench.stack.next_deadline()), (0, Instant::NEVER));
    assert_ne!(bench.stack.next_event(), Some(Event::Udp(udp)));
}
