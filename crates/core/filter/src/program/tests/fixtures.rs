//! Random rules as text, and random packets near them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::protocol::{ICMP, ICMPV6};

use crate::packet::{Packet, ROUTER, Tuple};
use crate::rules::{Rules, has_ports};
use crate::text::{Source, parse};

pub(super) const PORTS: &[(&str, u16)] = &[("lan", 0), ("wan", 1), ("guests", 2), ("dmz", 300)];

/// xorshift64*.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((self.next() >> 32) * n) >> 32
    }

    pub(super) fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn one<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len() as u64) as usize]
    }
}

/// An address of few, so that rules and packets meet: at the edges of networks.
fn some_addr(random: &mut Random, is_v4: bool) -> IpAddr {
    let edge = [0u32, 1, 0xff, 0x100, 0xffff, 0x1_0000, 0x12_3456][random.below(7) as usize];
    if is_v4 {
        let base = [0x0a00_0000, 0xc0a8_0000, 0xc633_6400, 0][random.below(4) as usize];
        let addr = if random.one_in(20) { random.next() as u32 } else { base + edge };
        return Ipv4Addr::from_bits(addr).into();
    }
    let base = [0x2001_0db8u128 << 96, 0x2001_0db8_0001 << 80, 0xfd00 << 112, 0];
    let base = base[random.below(4) as usize];
    let shift = [0, 48, 64, 80][random.below(4) as usize];
    let low = u128::from(random.below(3));
    let addr = if random.one_in(20) { random.wide() } else { base + (u128::from(edge) << shift) };
    Ipv6Addr::from_bits(addr.wrapping_add(low)).into()
}

fn some_host(random: &mut Random, is_v4: bool) -> String {
    let addr = some_addr(random, is_v4);
    let lens: &[u8] =
        if is_v4 { &[0, 8, 12, 15, 16, 17, 24, 31] } else { &[0, 7, 32, 48, 63, 64, 65, 96, 127] };
    let len = lens[random.below(lens.len() as u64) as usize];
    match random.below(8) {
        0..3 => addr.to_string(),
        3 => format!("@{}", random.one(&["private", "special", "own", "filed", "multicast"])),
        _ => base::Cidr::new(addr, len).expect("a length").network().to_string(),
    }
}

fn some_hosts(random: &mut Random) -> String {
    let is_v4 = random.below(3) > 0;
    let not = if random.one_in(5) { "!" } else { "" };
    match random.below(8) {
        0 => "any".to_owned(),
        1..3 => {
            let count = 1 + random.below(5);
            let is_mixed = random.one_in(4);
            let items = (0..count).map(|n| some_host(random, is_v4 != (is_mixed && n == 1)));
            let items: Vec<String> = items.collect();
            format!("{not}{{{}}}", items.join(", "))
        }
        3 => format!("{not}self"),
        _ => format!("{not}{}", some_host(random, is_v4)),
    }
}

const SERVICES: &[&str] = &[
    "tcp",
    "tcp 443",
    "tcp 80,443",
    "udp 1024-2048",
    "{tcp, udp} 53",
    "{tcp, udp} {dns, 80-90}",
    "icmp",
    "icmp echo-request",
    "icmp {unreachable, 8/0}",
    "icmpv6 {echo-request, packet-too-big}",
    "proto 47",
    "esp",
    "gre",
    "proto {1, 200}",
    "sctp 0-443",
    "tcp flags S/SA",
    "tcp 443 flags A/SAFR",
    "udp",
    "{icmp, icmpv6}",
    "udp 65535",
];

fn some_match(random: &mut Random, is_dest: bool) -> String {
    let mut clauses = Vec::new();
    let ports = ["lan", "wan", "{lan, guests}", "dmz"];
    if is_dest || random.one_in(3) {
        clauses.push(format!("in {}", random.one(&ports)));
    }
    if !is_dest && random.one_in(4) {
        clauses.push(format!("out {}", random.one(&ports)));
    }
    if !random.one_in(3) {
        let port = if random.one_in(6) { " port 1000-2000" } else { "" };
        clauses.push(format!("from {}{port}", some_hosts(random)));
    }
    if random.one_in(2) {
        clauses.push(format!("to {}", some_hosts(random)));
    }
    if random.one_in(2) {
        clauses.push(random.one(SERVICES).to_owned());
    }
    clauses.join(" ")
}

fn some_nat(random: &mut Random) -> String {
    match random.below(6) {
        0 => {
            let target = random.one(&["port", "203.0.113.0/28", "2001:db8:9::1"]);
            let which = some_match(random, true).replacen("in ", "out ", 1);
            format!("source {which} to {target}")
        }
        1 => format!("keep {}", some_match(random, true).replacen("in ", "out ", 1)),
        2 => "prefix out wan fd00::/48 to 2001:db8:1::/48".to_owned(),
        3 => "both out {wan, dmz} 10.0.0.0/24 to 198.51.100.0/24".to_owned(),
        _ => {
            let target = random.one(&["10.0.0.5", "10.0.0.5:443", "[fd00::5]:80", "fd00::7"]);
            format!("dest {} to {target}", some_match(random, true))
        }
    }
}

/// Rules without mistakes; lines that contradict themselves are not taken.
pub(super) fn random_rules(random: &mut Random, count: usize) -> Rules {
    let sets = [
        ("own".to_owned(), (0..9).map(|n| some_addr(random, n % 2 == 0).to_string()).collect()),
        ("filed".to_owned(), vec!["file:list".to_owned()]),
    ];
    let file = |_: &str| Ok("10.0.0.0/9 # half\n2001:db8::/48\n10.1.0.0/16\n".to_owned());
    let is_good = |source: &Source<'_>| parse(source, PORTS, &file).is_ok();
    let (mut lines, mut nat) = (Vec::new(), Vec::new());
    while lines.len() < count {
        let action = random.one(&["pass", "block", "reject"]);
        let line = format!("{action} {}", some_match(random, false));
        // A rule about everything would hide those behind it.
        if line.len() > 12 && is_good(&Source { rules: &line, sets: &sets, ..Source::default() }) {
            lines.push(line);
        }
    }
    while nat.len() < count.div_ceil(8) {
        let line = some_nat(random);
        if is_good(&Source { nat: &line, sets: &sets, ..Source::default() }) {
            nat.push(line);
        }
    }
    let (rules, nat) = (lines.join("\n"), nat.join("\n"));
    let source = Source { rules: &rules, nat: &nat, sets: &sets, default: "block" };
    parse(&source, PORTS, &file).expect("lines without mistakes")
}

pub(super) fn some_packet(random: &mut Random) -> Packet {
    let is_v4 = random.below(3) > 0;
    let protocols = [6, 6, 6, 17, 17, if is_v4 { ICMP } else { ICMPV6 }, 1, 47, 50, 132, 200, 255];
    let protocol = protocols[random.below(12) as usize];
    let ports = [0, 1, 2, 300, 299, 301, ROUTER, ROUTER - 1];
    let numbers = [0, 53, 80, 90, 91, 443, 999, 1_000, 1_024, 2_000, 2_048, 65_535];
    let mut number = || numbers[random.below(12) as usize];
    let (src_port, dst_port) = if has_ports(protocol) { (number(), number()) } else { (0, 0) };
    let types = [0, 1, 2, 3, 8, 128, 129, 255];
    let is_icmp = matches!(protocol, ICMP | ICMPV6) && !random.one_in(20);
    Packet {
        tuple: Tuple {
            src: some_addr(random, is_v4),
            dst: some_addr(random, is_v4),
            protocol,
            src_port,
            dst_port,
        },
        in_port: ports[random.below(8) as usize],
        out_port: ports[random.below(8) as usize],
        icmp: is_icmp
            .then(|| (types[random.below(8) as usize], [0, 1, 4, 255][random.below(4) as usize])),
        tcp_flags: if protocol == 6 {
            [2, 0x12, 0x10, 0, 0xff][random.below(5) as usize]
        } else {
            0
        },
    }
}
