//! The cost of the FIB: ns a lookup at 1, 1,000 and 1,000,000 routes, one by one and in bursts of
//! 64, and 100,000 changes of a table of a million routes.
//!
//! Called by: `cargo bench -p wirespeed-inet --bench fib`. Lengths are spread about as in the
//! Internet's tables, which is an estimate; destinations are random among the routes. With `v4` or
//! `v6` behind `--` only that version is measured. The same changes are made three times, and the
//! shortest time of each counts, because another process may have had the core during the others.

use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use base::Cidr;
use wirespeed_inet::route::{GroupIndex, MAIN_TABLE, View};
use wirespeed_inet::{Route, Routes};

const BURST: usize = 64;
const LOOKUPS: usize = 1 << 20;
const CHANGES: usize = 100_000;
/// A table with all of the Internet in it.
const FULL: usize = 1_000_000;

/// xorshift64*: the same routes in each run.
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

    /// A random prefix length; `shares` has the lengths and how many in a hundred prefixes have
    /// each.
    fn length(&mut self, shares: &[(u8, u64)]) -> u8 {
        let mut at = self.below(100);
        for &(length, share) in shares {
            match at.checked_sub(share) {
                None => return length,
                Some(rest) => at = rest,
            }
        }
        shares[0].0
    }
}

fn prefix_v4(random: &mut Random) -> Cidr {
    const SHARES: &[(u8, u64)] = &[
        (24, 60),
        (23, 10),
        (22, 11),
        (21, 5),
        (20, 5),
        (19, 3),
        (18, 2),
        (17, 1),
        (16, 2),
        (25, 1),
    ];
    // 1.0.0.0 to 223.255.255.255.
    let addr = (1 << 24) + random.below(223 << 24) as u32;
    let len = random.length(SHARES);
    Cidr::new(Ipv4Addr::from_bits(addr).into(), len).expect("a length").network()
}

fn prefix_v6(random: &mut Random) -> Cidr {
    const SHARES: &[(u8, u64)] = &[
        (48, 50),
        (32, 12),
        (40, 10),
        (44, 9),
        (46, 4),
        (36, 5),
        (47, 3),
        (42, 3),
        (29, 3),
        (56, 1),
    ];
    // Some 40,000 allocations of 32 bits from 2400::/6.
    let allocation = 0x2400 + random.below(0x800);
    let allocation = allocation << 16 | (allocation * 7 + random.below(20) * 3277) & 0xffff;
    let addr = u128::from(allocation) << 96 | u128::from(random.next()) << 32;
    let len = random.length(SHARES);
    Cidr::new(Ipv6Addr::from_bits(addr).into(), len).expect("a length").network()
}

fn route(dest: Cidr, random: &mut Random) -> Route {
    let number = random.below(64);
    let via: IpAddr = match dest.addr {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, number as u8).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number as u16).into(),
    };
    Route::new(dest, Some(via), (number % 8) as u16)
}

/// A table of `count` routes, and their prefixes.
fn table(count: usize, prefix: fn(&mut Random) -> Cidr) -> (Routes, Vec<Cidr>) {
    let mut random = Random(88_172_645_463_325_252);
    let (mut routes, mut dests) = (Routes::default(), Vec::with_capacity(count));
    while routes.len() < count {
        let dest = prefix(&mut random);
        if routes.at(dest, MAIN_TABLE).next().is_none() {
            assert!(routes.add(route(dest, &mut random)));
            dests.push(dest);
        }
    }
    (routes, dests)
}

/// The best of five, in ns a lookup.
fn time(mut work: impl FnMut() -> u64) -> f64 {
    let once = |_| {
        let begin = Instant::now();
        black_box(work());
        begin.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64
    };
    (0..5).map(once).fold(f64::MAX, f64::min)
}

fn destinations(dests: &[Cidr]) -> Vec<IpAddr> {
    let mut random = Random(7);
    let mut one = |_| {
        let dest = dests[random.below(dests.len() as u64) as usize];
        match dest.addr {
            IpAddr::V4(a) => {
                let host = random.next() as u32
                    & u32::MAX.checked_shr(u32::from(dest.prefix_len)).unwrap_or(0);
                IpAddr::from(Ipv4Addr::from_bits(a.to_bits() | host))
            }
            IpAddr::V6(a) => {
                let host = u128::from(random.next()) << 40 & (u128::MAX >> dest.prefix_len);
                IpAddr::from(Ipv6Addr::from_bits(a.to_bits() | host))
            }
        }
    };
    (0..LOOKUPS).map(&mut one).collect()
}

fn lookups(name: &str, routes: &Routes, dests: &[Cidr]) {
    let view = routes.view();
    let dsts = destinations(dests);
    let sum = |group: GroupIndex| group.index() as u64;
    let one = time(|| dsts.iter().map(|&dst| sum(view.lookup(dst, MAIN_TABLE))).sum());
    let hops = time(|| {
        let hop = |&dst| view.next_hop(view.lookup(dst, MAIN_TABLE), dst, 0);
        dsts.iter().map(|dst| hop(dst).map_or(0, |hop| u64::from(hop.port))).sum()
    });
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for dst in dsts {
        match dst {
            IpAddr::V4(dst) => v4.push(dst),
            IpAddr::V6(dst) => v6.push(dst),
        }
    }
    let mut out = [GroupIndex::NONE; BURST];
    let mut burst = |with_hop: bool| {
        let mut total = 0;
        for dsts in v4.chunks_exact(BURST) {
            view.lookup_burst_v4(dsts, &mut out, MAIN_TABLE);
            total += of_burst(&view, with_hop, dsts, &out);
        }
        for dsts in v6.chunks_exact(BURST) {
            view.lookup_burst_v6(dsts, &mut out, MAIN_TABLE);
            total += of_burst(&view, with_hop, dsts, &out);
        }
        total
    };
    let (groups, hops_of_bursts) = (time(|| burst(false)), time(|| burst(true)));
    println!(
        "{name}: {} routes: {one:.1} ns a lookup, {hops:.1} with next hop; in bursts {groups:.1}, \
         {hops_of_bursts:.1}",
        routes.len()
    );
}

fn of_burst<A: Copy + Into<IpAddr>>(
    view: &View<'_>,
    with_hop: bool,
    dsts: &[A],
    groups: &[GroupIndex],
) -> u64 {
    if !with_hop {
        return groups.iter().map(|group| group.index() as u64).sum();
    }
    let hops = dsts.iter().zip(groups).map(|(&dst, &group)| view.next_hop(group, dst.into(), 0));
    hops.map(|hop| hop.map_or(0, |hop| u64::from(hop.port))).sum()
}

/// A stream of withdrawals, announcements and new next hops: how long each takes.
fn stream(routes: &mut Routes, dests: &[Cidr]) -> Vec<Duration> {
    let mut random = Random(99);
    let mut times = Vec::with_capacity(CHANGES);
    let mut withdrawn = Vec::new();
    for _ in 0..CHANGES {
        let (kind, dest) = (random.below(3), dests[random.below(dests.len() as u64) as usize]);
        let back = if kind == 1 { withdrawn.pop() } else { None };
        let new = route(back.unwrap_or(dest), &mut random);
        let begin = Instant::now();
        if kind == 0 {
            routes.remove_exact(dest, MAIN_TABLE, |_| true);
        } else {
            routes.add(new);
        }
        times.push(begin.elapsed());
        if kind == 0 {
            withdrawn.push(dest);
        }
    }
    times
}

fn changes(name: &str, prefix: fn(&mut Random) -> Cidr) {
    let mut times = vec![Duration::MAX; CHANGES];
    let mut totals = Vec::new();
    for _ in 0..3 {
        let (mut routes, dests) = table(FULL, prefix);
        let once = stream(&mut routes, &dests);
        totals.push(once.iter().map(Duration::as_secs_f64).sum());
        times.iter_mut().zip(once).for_each(|(least, time)| *least = time.min(*least));
    }
    let total = totals.into_iter().fold(f64::MAX, f64::min);
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    println!(
        "{name}: {CHANGES} changes of {FULL} routes: {total:.3} s; us each: median {:.2}, \
         99.9 % {:.1}, longest {:.1}",
        at(0.5),
        at(0.999),
        at(1.0)
    );
}

/// The default route comes and goes above a full table.
fn default_route(name: &str, routes: &mut Routes, dest: Cidr) {
    let mut longest = 0.0_f64;
    for n in 0..100 {
        let begin = Instant::now();
        routes.add(Route::new(dest, None, n % 8));
        routes.remove_exact(dest, MAIN_TABLE, |_| true);
        longest = longest.max(begin.elapsed().as_secs_f64() * 1e6);
    }
    println!("{name}: the default route added and removed: longest {longest:.1} us");
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    for (name, prefix) in [("v4", prefix_v4 as fn(&mut Random) -> Cidr), ("v6", prefix_v6)] {
        if !wanted.is_empty() && wanted.iter().all(|arg| arg != name) {
            continue;
        }
        for count in [1, 1_000, FULL] {
            let begin = Instant::now();
            let (mut routes, dests) = table(count, prefix);
            let loaded = begin.elapsed().as_secs_f64();
            lookups(name, &routes, &dests);
            if count == FULL {
                println!("{name}: loaded in {loaded:.2} s");
                let any = if name == "v4" { "0.0.0.0/0" } else { "::/0" };
                default_route(name, &mut routes, any.parse().expect("a prefix"));
            }
        }
        changes(name, prefix);
    }
}
