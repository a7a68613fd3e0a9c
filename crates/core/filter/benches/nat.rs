//! The cost of NAT: ns to rewrite a packet, fast form and general one, and ns to make and end a
//! mapping while 10 %, 90 % and 99.9 % of an outside address's ports are in use.
//!
//! Called by: `cargo bench -p wirespeed-filter --bench nat`. Packets are 64 bytes and rewritten in
//! a burst of 64, there and back. The same work is done several times, and the shortest time of
//! each counts, because another process may have had the core during the others.

use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use base::{Budget, Cidr, Limit};
use wire::protocol::UDP;
use wirespeed_filter::Tuple;
use wirespeed_filter::nat::{
    Addresses, Checksum, Mapped, Mappings, Options, PORTS, PlainV4, PlainV6, Pool, PoolId, Request,
    Shards, Sockets, rewrite,
};

const BURST: usize = 64;
const ROUNDS: usize = 20_000;
const REPEATS: usize = 7;
const CHANGES: u16 = 4_096;

/// The shortest of several times, over `count` steps, in ns a step.
fn best(count: usize, mut work: impl FnMut() -> Duration) -> f64 {
    let shortest = (0..REPEATS).map(|_| work()).min().unwrap_or_default();
    shortest.as_nanos() as f64 / count as f64
}

fn udp(tuple: &Tuple) -> Vec<u8> {
    let mut packet = match (tuple.src, tuple.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut b = vec![0x45, 0, 0, 50, 0, 1, 0, 0, 64, UDP, 0x12, 0x34];
            b.extend(src.octets());
            b.extend(dst.octets());
            b
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut b = vec![0x60, 0, 0, 0, 0, 30, UDP, 64];
            b.extend(src.octets());
            b.extend(dst.octets());
            b
        }
        _ => Vec::new(),
    };
    packet.extend(tuple.src_port.to_be_bytes());
    packet.extend(tuple.dst_port.to_be_bytes());
    packet.extend([0, 30, 0x56, 0x78]);
    packet.extend([7; 22]);
    packet
}

/// Rewrites bursts from one tuple to the other and back.
fn bursts(tuples: &[Tuple; 2], mut step: impl FnMut(usize, &mut [u8])) -> f64 {
    let mut packets: Vec<Vec<u8>> = (0..BURST).map(|_| udp(&tuples[0])).collect();
    best(ROUNDS * BURST, || {
        let start = Instant::now();
        for round in 0..ROUNDS {
            for packet in &mut packets {
                step(round % 2, black_box(packet));
            }
        }
        start.elapsed()
    })
}

fn rewriting(name: &str, addrs: [IpAddr; 3]) {
    let [inside, outside, remote] = addrs;
    let tuple = |src, src_port| Tuple { src, dst: remote, protocol: UDP, src_port, dst_port: 53 };
    let tuples = [tuple(inside, 5_000), tuple(outside, 6_000)];
    let ends = [(tuples[0], tuples[1]), (tuples[1], tuples[0])];
    let general = bursts(&tuples, |way, packet| {
        let _ = black_box(rewrite(packet, &ends[way].1, Options::default()));
    });
    let fast = if inside.is_ipv4() {
        let plain = ends.map(|(from, to)| PlainV4::new(&from, &to).expect("IPv4"));
        bursts(&tuples, |way, packet| assert!(plain[way].apply(packet, Checksum::Whole)))
    } else {
        let plain = ends.map(|(from, to)| PlainV6::new(&from, &to).expect("IPv6"));
        bursts(&tuples, |way, packet| assert!(plain[way].apply(packet, Checksum::Whole)))
    };
    println!("rewrite {name}, ns a packet: fast form {fast:.2}, general {general:.2}");
}

/// One outside address, with mappings of its own for each flow.
struct Nat {
    table: Mappings,
    budget: Budget,
    pool: PoolId,
}

impl Nat {
    fn new() -> Nat {
        let budget = Budget::default();
        let mut table = Mappings::new(Shards::ALONE, [1, 2], &budget);
        let network = Cidr::host(Ipv4Addr::new(203, 0, 113, 1).into());
        let pool = table.add_pool(Pool::new(Addresses::Network(network))).expect("a pool");
        Nat { table, budget, pool }
    }

    fn acquire(&mut self, host: u16, src_port: u16) -> Mapped {
        let tuple = Tuple {
            src: IpAddr::from([10, 0, (host >> 8) as u8, host as u8]),
            dst: IpAddr::from([192, 0, 2, 1]),
            protocol: UDP,
            src_port,
            dst_port: 53,
        };
        let now = base::Instant::ZERO;
        let sockets = Sockets::NONE;
        let request = Request { pool: self.pool, tuple, port_address: None, sockets, now };
        self.table.acquire(&request, &mut self.budget).expect("a mapping")
    }
}

/// Mappings of new endpoints whose own port is out of range, so that each is searched for; then
/// their end.
fn mappings(permille: usize) {
    let mut nat = Nat::new();
    let all = usize::from(PORTS.1 - PORTS.0) + 1;
    for at in 0..all * permille / 1_000 {
        nat.acquire((at / 16) as u16, at as u16);
    }
    let changes = CHANGES.min((all - nat.table.len()) as u16);
    let (mut making, mut ending) = (f64::MAX, f64::MAX);
    for _ in 0..REPEATS {
        let start = Instant::now();
        let made: Vec<Mapped> =
            (0..changes).map(|at| nat.acquire(60_000 + at / 16, 61_000 + at % 16)).collect();
        making = making.min(start.elapsed().as_nanos() as f64);
        let start = Instant::now();
        for mapped in made {
            nat.table.release(mapped.id, [192, 0, 2, 1].into(), base::Instant::ZERO);
        }
        ending = ending.min(start.elapsed().as_nanos() as f64);
    }
    let (making, ending) = (making / f64::from(changes), ending / f64::from(changes));
    let percent = permille as f64 / 10.0;
    println!("mappings, {percent} % of ports in use, ns: made {making:.0}, ended {ending:.0}");
}

/// A mapping that is there already, among as many as the limit admits.
fn joining() {
    let mut nat = Nat::new();
    let all = (PORTS.1 - PORTS.0) / 2;
    (0..all).for_each(|at| {
        nat.acquire(at / 16, at);
    });
    let ns = best(usize::from(all), || {
        let start = Instant::now();
        (0..all).for_each(|at| {
            black_box(nat.acquire(at / 16, at));
        });
        start.elapsed()
    });
    let limit = Limit::NatMappings.default_value();
    println!("mapping of a further flow, {all} mappings of {limit}, ns: {ns:.0}");
}

fn main() {
    let v6 = |last| IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, last, 0, 0, 0, last));
    rewriting("IPv4", [[10, 0, 0, 1].into(), [203, 0, 113, 1].into(), [192, 0, 2, 1].into()]);
    rewriting("IPv6", [v6(1), v6(2), v6(3)]);
    [100, 900, 999].into_iter().for_each(mappings);
    joining();
}
