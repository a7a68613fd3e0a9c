//! Route changes while packets are forwarded. Called by `router`. One thread has a full routing
//! table and applies a stream of changes to it. Another thread forwards bursts by the same FIB: it
//! checks headers, looks up destinations and decrements TTLs. The forwarding thread is not a whole
//! stack, because a stack is one shard and changes its own routes between its bursts. Each thread
//! has its own core.

use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Clock};

use anyhow::{Context, Result, anyhow, ensure};
use base::Cidr;
use device::BURST;
use inet::forward::{pass_v4, plain_v4};
use inet::route::{Fib, GroupIndex, MAIN_TABLE, flow_v4};
use inet::{Route, Routes};
use nix::sys::resource::{UsageWho, getrusage};

use crate::harness::{Bench, Figure};
use crate::measure::{median, pin};

/// The number of routes in the table, about as many as in the Internet's table, and the number of
/// changes in a run.
const ROUTES: usize = 1_000_000;
const CHANGES: usize = 100_000;
/// How many different packets are forwarded in turn.
const PACKETS: usize = 1 << 16;
const GATEWAYS: u64 = 64;
/// The number of runs; each has its own stream of changes.
const RUNS: usize = 7;
/// If the gap between two bursts is at least this long, we check whether the kernel has run another
/// thread on the core in the meantime.
const DOUBTED: Duration = Duration::from_micros(5);

/// How many of a hundred prefixes have each length, about as in the Internet's tables (an
/// estimate).
const LENGTHS: [(u8, u64); 9] =
    [(24, 60), (23, 10), (22, 12), (21, 5), (20, 5), (19, 3), (18, 2), (17, 1), (16, 2)];

/// xorshift64*. It produces the same streams in each run of the bench.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) * n) >> 32
    }

    fn prefix(&mut self) -> Result<Cidr> {
        let mut at = self.below(100);
        let mut len = LENGTHS[0].0;
        for (length, share) in LENGTHS {
            if at < share {
                len = length;
                break;
            }
            at -= share;
        }
        // An address from 1.0.0.0 to 223.255.255.255.
        let addr = Ipv4Addr::from_bits(((1 << 24) + self.below(223 << 24)) as u32);
        let prefix = Cidr::new(addr.into(), len).context("no prefix of that length")?;
        Ok(prefix.network())
    }

    fn route(&mut self, dest: Cidr) -> Route {
        let number = self.below(GATEWAYS) as u8;
        let via = Ipv4Addr::new(192, 0, 2, number).into();
        Route::new(dest, Some(via), u16::from(number % 8))
    }
}

enum Change {
    Announce(Route),
    Withdraw(Cidr),
}

/// A stream of changes: announcements of new prefixes, other next hops for known prefixes,
/// withdrawals, and flaps, in which an announcement follows a withdrawal. An announcement with a
/// next hop over another port adds a route to the prefix, so the table grows.
fn stream(seed: u64, known: &[Cidr]) -> Result<Vec<Change>> {
    let (mut random, mut changes) = (Random(seed), Vec::with_capacity(CHANGES + 1));
    let mut withdrawn = Vec::new();
    while changes.len() < CHANGES {
        let dest = known[random.below(known.len() as u64) as usize];
        match random.below(10) {
            0..4 => changes.push(Change::Announce(random.route(dest))),
            4..7 => {
                changes.push(Change::Withdraw(dest));
                changes.push(Change::Announce(random.route(dest)));
            }
            7 => {
                let new = random.prefix()?;
                changes.push(Change::Announce(random.route(new)));
            }
            8 => {
                changes.push(Change::Withdraw(dest));
                withdrawn.push(dest);
            }
            _ => {
                let back = withdrawn.pop().unwrap_or(dest);
                changes.push(Change::Announce(random.route(back)));
            }
        }
    }
    changes.truncate(CHANGES);
    Ok(changes)
}

fn table() -> Result<(Routes, Vec<Cidr>)> {
    let mut random = Random(88_172_645_463_325_252);
    let (mut routes, mut known) = (Routes::default(), Vec::with_capacity(ROUTES));
    while routes.len() < ROUTES {
        let dest = random.prefix()?;
        if routes.at(dest, MAIN_TABLE).next().is_none() {
            ensure!(routes.add(random.route(dest)), "the table does not accept the route {dest}");
            known.push(dest);
        }
    }
    Ok((routes, known))
}

/// IPv4 headers of packets to random hosts in the prefixes of the routes.
fn packets(known: &[Cidr]) -> Result<Vec<[u8; 20]>> {
    let mut random = Random(7);
    let mut packets = Vec::with_capacity(PACKETS);
    while packets.len() < PACKETS {
        let IpAddr::V4(net) = known[random.below(known.len() as u64) as usize].addr else {
            return Err(anyhow!("a prefix of another version"));
        };
        let header = wire::ipv4::Header {
            header_len: 20,
            tos: 0,
            total_len: 20,
            id: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: 17,
            src: Ipv4Addr::new(10, 1, 0, 9),
            dst: Ipv4Addr::from_bits(net.to_bits() | 9),
        };
        let mut packet = [0; 20];
        ensure!(header.emit(&mut packet), "no header");
        // Packets to some random prefixes, for example loopback or link-local addresses, are left
        // out.
        if plain_v4(&packet).is_some() {
            packets.push(packet);
        }
    }
    Ok(packets)
}

fn preemptions() -> Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).context("reading the context switches")?;
    Ok(usage.involuntary_context_switches() + usage.voluntary_context_switches())
}

/// What the forwarding thread has counted.
#[derive(Default)]
struct Forwarded {
    packets: u64,
    longest: Duration,
    /// How many gaps were excluded because the kernel ran another thread on the core.
    excluded: u64,
}

/// Forward until `stop` is set. Gaps count once `begun` is set.
fn forward(fib: &Fib, packets: &[[u8; 20]], state: &State) -> Result<Forwarded> {
    let (mut reader, mut seen) = (fib.reader(), Forwarded::default());
    let (mut switches, mut last) = (preemptions()?, Clock::now());
    let mut bursts = packets.chunks_exact(BURST).cycle();
    let mut dsts = [Ipv4Addr::UNSPECIFIED; BURST];
    let mut groups = [GroupIndex::NONE; BURST];
    state.ready.store(true, Ordering::Release);
    while !state.stop.load(Ordering::Relaxed) {
        let burst = bursts.next().context("no packets")?;
        for (dst, packet) in dsts.iter_mut().zip(burst) {
            *dst = plain_v4(packet).context("a header that is not plain")?.dst;
        }
        let view = reader.pin();
        view.lookup_burst_v4(&dsts, &mut groups, MAIN_TABLE);
        for ((packet, &dst), &group) in burst.iter().zip(&dsts).zip(&groups) {
            let flow = flow_v4(Ipv4Addr::UNSPECIFIED, dst);
            let mut packet = *packet;
            pass_v4(&mut packet);
            black_box((view.next_hop(group, dst.into(), flow), packet));
        }
        drop(view);
        let now = Clock::now();
        let gap = now - last;
        last = now;
        if gap > DOUBTED {
            let (before, after) = (switches, preemptions()?);
            switches = after;
            last = Clock::now();
            seen.excluded += u64::from(after != before);
            if after != before {
                continue;
            }
        }
        if state.counts.load(Ordering::Relaxed) {
            seen.packets += BURST as u64;
            seen.longest = seen.longest.max(gap);
        }
    }
    Ok(seen)
}

#[derive(Default)]
struct State {
    ready: AtomicBool,
    counts: AtomicBool,
    stop: AtomicBool,
}

/// Apply one stream of changes while the second core forwards. Returns the seconds that this took,
/// and the counts of the forwarding thread. With an empty stream it takes 150 ms.
fn run(
    b: &Bench,
    routes: &mut Routes,
    packets: &[[u8; 20]],
    changes: Vec<Change>,
) -> Result<(f64, Forwarded)> {
    let second = b.cores.second.context("both threads need a core of their own: allow two CPUs")?;
    let (fib, state) = (routes.fib(), State::default());
    std::thread::scope(|scope| {
        let forwarding = scope.spawn(|| {
            pin(&[second])?;
            forward(&fib, packets, &state)
        });
        while !state.ready.load(Ordering::Acquire) && !forwarding.is_finished() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(5));
        state.counts.store(true, Ordering::Relaxed);
        let begun = Clock::now();
        if changes.is_empty() {
            std::thread::sleep(Duration::from_millis(150));
        }
        for change in changes {
            match change {
                Change::Announce(route) => _ = routes.add(route),
                Change::Withdraw(dest) => _ = routes.remove_exact(dest, MAIN_TABLE, |_| true),
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        state.stop.store(true, Ordering::Relaxed);
        let seen = forwarding.join().map_err(|_| anyhow!("forwarding panicked"))??;
        Ok((seconds, seen))
    })
}

/// The median of `figure` over the runs. `figure` gets the seconds of a run and the counts of the
/// forwarding thread.
fn runs(b: &Bench, figure: impl Fn(f64, &Forwarded) -> f64) -> Result<Figure> {
    let (mut routes, known) = table()?;
    let packets = packets(&known)?;
    let (_, quiet) = run(b, &mut routes, &packets, Vec::new())?;
    let (mut samples, mut note) = (Vec::with_capacity(RUNS), String::new());
    for n in 0..RUNS as u64 {
        let changes = stream(1 + n, &known)?;
        let (seconds, seen) = run(b, &mut routes, &packets, changes)?;
        samples.push(figure(seconds, &seen));
        note = format!(
            "{CHANGES} changes of {} routes in {seconds:.3} s, {:.1} Mpps meanwhile; longest gap \
             {:.1} us, not counting {} gaps in which the kernel ran other threads; without changes \
             {:.1} us; the last run",
            routes.len(),
            seen.packets as f64 / seconds * 1e-6,
            seen.longest.as_secs_f64() * 1e6,
            seen.excluded,
            quiet.longest.as_secs_f64() * 1e6,
        );
    }
    Ok(Figure { value: median(&samples), samples, note })
}

pub(super) fn changes(b: &Bench) -> Result<Figure> {
    runs(b, |seconds, _| seconds)
}

/// The median of the longest time between the ends of two consecutive bursts of a run.
pub(super) fn longest_pause(b: &Bench) -> Result<Figure> {
    runs(b, |_, seen| seen.longest.as_secs_f64() * 1e6)
}
