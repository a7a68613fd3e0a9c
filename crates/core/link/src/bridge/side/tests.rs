//! Two hosts at one side of a bridge and one at the other, in virtual time.

use base::{Duration, Instant, LinkKind, MacAddr};
use device::mem::{self, Mem};

use super::*;
use crate::{Bridge, Mismatch, Settings};

const SINK: u8 = 9;
const ALL: u8 = 0xff;

/// 12 Mb/s: a packet of 1,500 bytes takes 1 ms.
fn line() -> Settings {
    Settings { rate_bps: Some(12_000_000), queue_bytes: 3_000, ..Settings::default() }
}

struct Hosts {
    bridge: Bridge,
    /// Two senders at one side, the sink at the other.
    hosts: [Mem; 3],
    pool: Pool,
    now: Instant,
}

impl Hosts {
    fn new() -> Hosts {
        let [(a, host_a), (b, host_b), (c, host_c)] =
            [0; 3].map(|_| mem::pair(&mem::Config::default()));
        let sides: [Vec<Box<dyn Device>>; 2] = [vec![Box::new(a), Box::new(b)], vec![Box::new(c)]];
        let back = Settings::default();
        let bridge = Bridge::shared(sides, [line(), back], 1, 1 << 26).expect("all are Ethernet");
        let (hosts, now) = ([host_a, host_b, host_c], Instant::ZERO);
        Hosts { bridge, hosts, pool: Pool::new(1 << 24), now }
    }

    /// Send a frame of 1,500 bytes and a header from `host`, with the addresses of stations `from`
    /// and `to`.
    fn send(&mut self, host: usize, from: u8, to: u8) {
        let mut data = vec![0; 1514];
        let dst = if to == ALL { MacAddr([ALL; 6]) } else { MacAddr([2, 0, 0, 0, 0, to]) };
        let src = MacAddr([2, 0, 0, 0, 0, from]);
        assert!(ether::Header { dst, src, ethertype: ether::IPV4 }.emit(&mut data));
        let mut burst = Burst::new();
        burst.push(self.pool.copy_of(&data).expect("the pool is large"));
        assert_eq!(self.hosts[host].tx_burst(&mut self.pool, &mut burst), 1);
    }

    fn turn_after(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        let now = self.now;
        self.bridge.turn(|| now);
    }

    /// The station numbers of the senders of the frames that a host has received.
    fn received(&mut self, host: usize) -> Vec<u8> {
        let mut burst = Burst::new();
        self.hosts[host].rx_burst(&mut self.pool, &mut burst);
        let from = burst.iter().map(|frame| frame.as_slice()[11]).collect();
        burst.drain(..).for_each(|frame| self.pool.free(frame));
        from
    }
}

#[test]
fn devices_of_a_side_share_one_queue_and_take_turns_to_be_first() {
    let mut hosts = Hosts::new();
    for _ in 0..2 {
        // One packet in transmission, two in the queue: three of the six are lost.
        for _ in 0..3 {
            hosts.send(0, 1, SINK);
            hosts.send(1, 2, SINK);
        }
        hosts.turn_after(0);
        hosts.turn_after(1);
        assert_eq!(hosts.received(2).len(), 1, "the first packet arrives after a millisecond");
        hosts.turn_after(2);
        hosts.received(2);
    }
    let link = hosts.bridge.directions()[0].carried().link;
    assert_eq!((link.sent, link.queue_full, link.arrived), (12, 6, 6));
    let mut order = || {
        hosts.send(0, 1, SINK);
        hosts.send(1, 2, SINK);
        hosts.turn_after(0);
        hosts.turn_after(3);
        // An odd number of turns, so that the other device is first next time.
        hosts.turn_after(0);
        hosts.received(2)
    };
    let (first, second) = (order(), order());
    assert_eq!((first[0], first[1]), (second[1], second[0]));
    assert_ne!(first, second);
}

#[test]
fn an_answer_goes_to_who_asked_and_a_group_or_a_stranger_to_all() {
    let mut hosts = Hosts::new();
    hosts.send(0, 1, SINK);
    hosts.send(1, 2, SINK);
    hosts.turn_after(9);
    assert!(
        hosts.received(0).is_empty() && hosts.received(1).is_empty(),
        "a frame went back to the side it came from"
    );
    let answered = |hosts: &mut Hosts, to| {
        hosts.send(2, SINK, to);
        hosts.turn_after(1);
        [hosts.received(0).len(), hosts.received(1).len()]
    };
    assert_eq!(answered(&mut hosts, 1), [1, 0]);
    assert_eq!(answered(&mut hosts, 2), [0, 1]);
    assert_eq!(answered(&mut hosts, ALL), [1, 1]);
    assert_eq!(answered(&mut hosts, 7), [1, 1]);
    // The station moved to the other device.
    hosts.send(1, 1, SINK);
    hosts.turn_after(9);
    assert_eq!(answered(&mut hosts, 1), [0, 1]);
}

#[test]
fn what_has_no_addresses_cannot_share_a_side() {
    let bare = mem::Config { link: LinkKind::Ip, ..mem::Config::default() };
    let device = || -> Box<dyn Device> { Box::new(mem::pair(&bare).0) };
    let sides = [vec![device(), device()], vec![device()]];
    let refused = Bridge::shared(sides, [line(), line()], 1, 1 << 20).err();
    assert_eq!(refused, Some(Mismatch::Shared));
    assert!(Bridge::shared([vec![device()], vec![device()]], [line(), line()], 1, 1 << 20).is_ok());
}
