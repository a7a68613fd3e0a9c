//! Two copies of one router get the same rules and the same packets, one with the switch
//! `forward-burst` on and one with it off: the frames, their order, drops and counters are equal.
//!
//! A run without optimisation sends fewer packets.

use base::{Counter, DropReason, Duration, Instant, Switch};
use filter::firewall::Counts;
use wire::tcp::Flags;

use super::{B, HOSTS, MACS, Router, packets, published};
use crate::tests::craft::Rng;

const PACKETS: usize = if cfg!(debug_assertions) { 60_000 } else { 1_000_000 };
/// The number of packets for each set of rules.
const EACH: usize = 4_000;
/// The most packets in a burst.
const BURST: u32 = 48;

const RULES: [&str; 9] = [
    "pass in lan out wan",
    "pass in lan\npass in wan udp 1024-40000",
    "block to 198.51.100.9 tcp 80\npass tcp\nreject udp 53\npass icmp echo-request",
    "pass in lan tcp {80, 443} states 40 per source\npass in wan stateless udp",
    "pass in lan out wan loose",
    "reject in wan tcp\npass new 50/s",
    "block in wan tcp 80\npass udp 443\npass stateless",
    "pass tcp flags S/SA\npass in lan stateless tcp\npass in lan udp 53 stateless log\npass udp",
    "pass in lan out wan stateless\npass in wan out lan udp stateless",
];
const NATS: [&str; 4] = [
    "",
    "source out wan from 192.0.2.0/24 to port",
    "dest in wan to 198.51.100.1 udp 2000 to 192.0.2.9:53\nsource out wan to 198.51.100.77",
    "both out wan 192.0.2.9 to 198.51.100.99",
];

/// The ends of packets: a host on the LAN, and hosts and addresses on the other side.
const FAR: [&str; 4] = [B, "198.51.100.1", "198.51.100.77", "198.51.100.99"];
const PORTS: [u16; 6] = [53, 80, 443, 2_000, 40_000, 40_001];

/// Gives `port` an IP packet. Addresses and ports are few, so that many packets belong to a state.
fn packet(rng: &mut Rng, port: usize) -> Vec<u8> {
    let near = ("192.0.2.9", rng.pick(&PORTS));
    let far = (rng.pick(&FAR), rng.pick(&PORTS));
    let (from, to) = if port == 0 { (near, far) } else { (far, near) };
    let to = if port == 1 && rng.one_in(2) { (rng.pick(&FAR[1..]), to.1) } else { to };
    let data = vec![7; rng.below(600) as usize];
    let mut packet = match rng.below(12) {
        0..5 => packets::udp(from, to, &data),
        5..10 => {
            let flags = rng.pick(&[Flags::SYN, Flags::SYN | Flags::ACK, Flags::ACK, Flags::ACK]);
            let flags = if rng.one_in(8) { rng.pick(&[Flags::RST, Flags::FIN]) } else { flags };
            let (seq, ack) = (1_000 + rng.below(3), 1_000 + rng.below(3));
            packets::tcp(from, to, seq, ack, flags)
        }
        10 => packets::unreachable(from.0, to.0, &packets::udp(to, from, &data)),
        _ => {
            let pieces = packets::fragments(&packets::udp(from, to, &[7; 1_800]), 600);
            pieces[rng.below(3) as usize].clone()
        }
    };
    if rng.one_in(40) {
        packet[8] = 1;
        packets::fix(&mut packet);
    }
    if rng.one_in(60) {
        let at = rng.below(packet.len() as u32) as usize;
        packet[at] ^= 1 << rng.below(8);
    }
    packet
}

fn frame(port: usize, packet: &[u8]) -> Vec<u8> {
    [&MACS[port].0[..], &HOSTS[port].0, &[8, 0], packet].concat()
}

/// Drops, counters except those of bursts, and the counts of each rule.
fn visible(router: &Router) -> [Vec<u64>; 3] {
    let drops = DropReason::ALL.iter().map(|&reason| router.drops(reason)).collect();
    let counters = Counter::ALL.iter().filter(|&&counter| counter != Counter::ForwardedInBursts);
    let counters = counters.map(|&counter| router.stack.counters().of(counter)).collect();
    let rules = router.stack.filter().map_or(&[][..], |firewall| firewall.counts());
    let last = |c: &Counts| c.last_hit.map_or(0, Instant::as_nanos);
    let rules = rules.iter().flat_map(|c| [c.packets, c.bytes, c.flows, last(c)]).collect();
    [drops, counters, rules]
}

fn twins(seed: u64) -> u64 {
    let mut rng = Rng(seed);
    let (rules, nat) = (rng.pick(&RULES), rng.pick(&NATS));
    let mut twins = [true, false].map(|in_bursts| {
        let mut router = super::router(rules, nat);
        router.stack.set_switch(Switch::ForwardBurst, in_bursts);
        router
    });
    let (mut now, mut left, mut forwarded) = (Instant::from_nanos(5_000_000_000), EACH, 0);
    while left > 0 {
        let port = rng.below(2) as usize;
        let count = (1 + rng.below(BURST) as usize).min(left);
        let frames: Vec<_> = (0..count).map(|_| frame(port, &packet(&mut rng, port))).collect();
        if rng.one_in(30) {
            let rules = published(rng.pick(&RULES), nat, left as u32);
            twins.iter_mut().for_each(|twin| twin.stack.set_filter(Some(rules.clone())));
        }
        now += Duration::from_millis(u64::from(rng.below(400)));
        let [on, off] = twins.each_mut().map(|twin| twin.exchange_burst(port, &frames, now));
        assert_eq!(on, off, "seed {seed}, rules {rules}, nat {nat}");
        let [on, off] = twins.each_ref().map(visible);
        assert_eq!(on, off, "seed {seed}, rules {rules}, nat {nat}");
        left -= count;
    }
    for twin in &twins {
        forwarded += twin.stack.counters().of(Counter::Forwarded);
    }
    forwarded
}

#[test]
fn with_rules_and_nat_bursts_are_forwarded_as_single_packets_are() {
    let forwarded: u64 = (0..(PACKETS / EACH) as u64).map(twins).sum();
    println!("{forwarded} of {} packets were forwarded", 2 * PACKETS);
    assert!(forwarded > PACKETS as u64 / 4, "only {forwarded}");
}

/// The connection was reset and its tuple is used again: the segment after the SYN belongs to the
/// new connection, whatever it would mean in the old one.
#[test]
fn a_packet_behind_one_that_begins_its_flow_again_is_of_the_new_flow() {
    let (near, far) = (("192.0.2.9", 4_000), (B, 80));
    let there = |seq, ack, flags| frame(0, &packets::tcp(near, far, seq, ack, flags));
    let answer = frame(1, &packets::tcp(far, near, 5_000, 1_001, Flags::SYN | Flags::ACK));
    let (syn, rst) = (there(1_000, 0, Flags::SYN), there(1_001, 5_001, Flags::RST));
    let bursts = [
        (0, vec![syn]),
        (1, vec![answer]),
        (0, vec![there(1_001, 5_001, Flags::ACK), rst.clone()]),
        (0, vec![there(900_000, 0, Flags::SYN), rst]),
    ];
    let [on, off] = [true, false].map(|in_bursts| {
        let mut router = super::router("pass in lan out wan", "");
        router.stack.set_switch(Switch::ForwardBurst, in_bursts);
        let mut now = Instant::from_nanos(5_000_000_000);
        let left = bursts.each_ref().map(|(port, frames)| {
            now += Duration::from_millis(1);
            router.exchange_burst(*port, frames, now)
        });
        (left, visible(&router))
    });
    assert_eq!(on, off);
}
