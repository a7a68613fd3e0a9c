//! The cost of rules: ns a first packet with 10, 100, 1,000 and 4,096 rules, with sets of 10 and
//! 1,000,000 networks, by the program and by the plain list, and what it takes to compile them.
//!
//! Called by: `cargo bench -p wirespeed-filter --bench rules`. A rule has a port in, a source, a
//! destination and a port of TCP or UDP, all random. Half of the packets have source and
//! destination of one random rule each, the others are random. Each figure is the best of several,
//! because another process may have had the core during the others. With words behind `--`, only
//! cases whose name has them are measured: `'IPv4, 100 rules'`.

use core::fmt::Write as _;
use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use base::Cidr;
use wirespeed_filter::program::list;
use wirespeed_filter::text::{Source, parse};
use wirespeed_filter::{Packet, Program, Rules, Set, Tuple};

const PACKETS: usize = 1 << 16;
const PORTS: &[(&str, u16)] = &[("lan", 0), ("wan", 1), ("guests", 2), ("dmz", 3)];

/// xorshift64*: the same rules in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        ((self.next() >> 32) * n) >> 32
    }

    /// An address from 1.0.0.0 to 223.255.255.255, or from 2001::/16.
    fn addr(&mut self, is_v4: bool) -> IpAddr {
        if is_v4 {
            return Ipv4Addr::from_bits((1 << 24) + self.below(223 << 24) as u32).into();
        }
        let low = u128::from(self.next()) << 64 | u128::from(self.next());
        Ipv6Addr::from_bits(0x2001 << 112 | low >> 16).into()
    }

    fn network(&mut self, is_v4: bool) -> Cidr {
        let len = if is_v4 { 12 + self.below(13) } else { 29 + self.below(36) };
        Cidr::new(self.addr(is_v4), len as u8).expect("a length").network()
    }
}

/// Random rules, and where each of them applies.
fn rules(count: usize, is_v4: bool, first: &str) -> (Rules, Vec<[Cidr; 2]>) {
    let mut random = Random(88_172_645_463_325_252);
    let (mut text, mut ends) = (String::from(first), Vec::new());
    for _ in 0..count {
        let [from, to] = [random.network(is_v4), random.network(is_v4)];
        let (port, _) = PORTS[random.below(4) as usize];
        let protocol = ["tcp", "udp"][random.below(2) as usize];
        let service = 1 + random.below(1_024);
        writeln!(text, "pass in {port} from {from} to {to} {protocol} {service}").expect("text");
        ends.push([from, to]);
    }
    text.truncate(text.trim_end().len());
    let sets = [("set".to_owned(), Vec::new())];
    let source = Source { rules: &text, sets: &sets, ..Source::default() };
    (parse(&source, PORTS, &|_| Err("no files".into())).expect("rules"), ends)
}

fn packets(ends: &[[Cidr; 2]], is_v4: bool) -> Vec<Packet> {
    let mut random = Random(7);
    let within = |random: &mut Random, of: usize| {
        let network = ends[random.below(ends.len() as u64) as usize][of];
        match (network.addr, random.addr(is_v4)) {
            (IpAddr::V4(a), IpAddr::V4(host)) => {
                let mask = u32::MAX.checked_shr(network.prefix_len.into()).unwrap_or(0);
                IpAddr::from(Ipv4Addr::from_bits(a.to_bits() | host.to_bits() & mask))
            }
            (IpAddr::V6(a), IpAddr::V6(host)) => {
                let mask = u128::MAX.checked_shr(network.prefix_len.into()).unwrap_or(0);
                IpAddr::from(Ipv6Addr::from_bits(a.to_bits() | host.to_bits() & mask))
            }
            (addr, _) => addr,
        }
    };
    let one = |number: usize| {
        let [src, dst] = match number % 2 {
            0 => [random.addr(is_v4), random.addr(is_v4)],
            _ => [within(&mut random, 0), within(&mut random, 1)],
        };
        Packet {
            tuple: Tuple {
                src,
                dst,
                protocol: [6, 17][random.below(2) as usize],
                src_port: random.next() as u16,
                dst_port: 1 + random.below(1_024) as u16,
            },
            in_port: random.below(4) as u16,
            out_port: random.below(4) as u16,
            icmp: None,
            tcp_flags: 2,
        }
    };
    (0..PACKETS).map(one).collect()
}

/// The best of `times`, in ns a packet.
fn time(packets: &[Packet], times: u32, mut judge: impl FnMut(&Packet) -> Option<u16>) -> f64 {
    let once = |_| {
        let begin = Instant::now();
        let found = packets.iter().map(|packet| u64::from(judge(packet).is_some())).sum::<u64>();
        black_box(found);
        begin.elapsed().as_secs_f64() * 1e9 / packets.len() as f64
    };
    (0..times).map(once).fold(f64::MAX, f64::min)
}

fn report(name: &str, rules: &Rules, packets: &[Packet]) {
    if std::env::args().skip(1).any(|part| !part.starts_with('-') && !name.contains(&part)) {
        return;
    }
    let begin = Instant::now();
    let program = Program::compile(rules).expect("rules that fit");
    let compiled = begin.elapsed().as_secs_f64() * 1e3;
    let judged = time(packets, 25, |packet| program.judge(packet).rule);
    // The list takes long: a part of the packets.
    let few = &packets[..packets.len() / 64];
    let listed = time(few, 5, |packet| list::judge(rules, packet));
    println!("{name}: {judged:.1} ns a packet, list {listed:.0}; compiled in {compiled:.1} ms");
}

fn main() {
    for is_v4 in [true, false] {
        let version = if is_v4 { "IPv4" } else { "IPv6" };
        for count in [10, 100, 1_000, 4_096] {
            let (rules, ends) = rules(count, is_v4, "");
            report(&format!("{version}, {count} rules"), &rules, &packets(&ends, is_v4));
        }
        for count in [10, 1_000_000] {
            let (mut rules, ends) = rules(100, is_v4, "block from @set\n");
            let mut random = Random(11);
            let longest = |random: &mut Random| {
                let len = if is_v4 { 24 } else { 48 };
                Cidr::new(random.addr(is_v4), len).expect("a length").network()
            };
            let networks: Vec<Cidr> = (0..count).map(|_| longest(&mut random)).collect();
            rules.sets[0] = Set::new("set", &networks);
            let name = format!("{version}, 100 rules and a set of {count}");
            report(&name, &rules, &packets(&ends, is_v4));
        }
    }
}
