//! What our router in memory does while it forwards: it reloads rules with a million states, or
//! gets a flood of SYNs. Called by `filter`.

use anyhow::{Context, Result, ensure};
use base::{Duration, Instant};
use core::net::{IpAddr, Ipv4Addr};
use device::BURST;
use lab::forward::{Rig, Shape, packets};

use super::memory::{flows, many, router};
use super::rules::stateful;
use crate::harness::{Bench, Figure};
use crate::measure::{median, thread_cpu_s};

/// How many reloads the row measures.
const RELOADS: u32 = 7;
/// Established connections in the table during the flood. There are as many half-open ones, so that
/// the table is full.
const ESTABLISHED: u32 = 60_000;
/// SYNs per second of the router's own CPU time.
const SYNS_PER_S: f64 = 100_000.0;
/// The number of prepared SYNs. They are sent in turn, and their states have ended long before they
/// are sent again.
const SYNS: u32 = 262_144;

/// Sends one burst through a router. Returns the CPU seconds of the router's turn.
fn burst(rig: &mut Rig, now: Instant, change: impl FnOnce(&mut Rig)) -> Result<f64> {
    let offered = rig.offer(BURST);
    let begun = thread_cpu_s();
    change(rig);
    rig.turn(now);
    let spent = thread_cpu_s() - begun;
    let passed = rig.drain();
    ensure!(passed == offered, "{passed} of {offered} passed: {:?}", rig.lost());
    Ok(spent)
}

/// The longest time that a burst takes during 100 ms, in us.
fn longest(rig: &mut Rig, now: &mut Instant) -> Result<f64> {
    let (mut total, mut most) = (0.0, 0.0_f64);
    while total < 0.1 {
        *now += Duration::from_micros(5);
        let spent = burst(rig, *now, |_| {})?;
        total += spent;
        most = most.max(spent);
    }
    Ok(most * 1e6)
}

/// The rules are compiled in advance, as a router does outside the packet path. For the burst after
/// the reload, and for those of the next 100 ms, the rules have to be applied again to all states.
pub(super) fn longest_pause(_: &Bench) -> Result<Figure> {
    let mut rig = router(many(false), Some(stateful(1_000)))?;
    let (mut now, mut samples, mut note) = (Instant::from_nanos(2), Vec::new(), String::new());
    for generation in 2..2 + RELOADS {
        let quiet = longest(&mut rig, &mut now)?;
        // Every other rule set has one rule less, so that counters move to other rules.
        let published = stateful(1_000 - generation as usize % 2).published(generation)?;
        now += Duration::from_micros(5);
        // Keep the old rules alive here: in a router, other shards or the compiling thread still
        // hold them, and free them.
        let old = rig.with_stack(|stack| stack.filter().map(|f| f.published().clone()));
        let change = |rig: &mut Rig| rig.with_stack(|stack| stack.set_filter(Some(published)));
        let first = burst(&mut rig, now, change)? * 1e6;
        drop(old);
        let later = longest(&mut rig, &mut now)?;
        samples.push(first.max(later));
        note = format!(
            "{first:.1} us for the change with the burst behind it, {later:.1} the longest later \
             one, {quiet:.1} without a change, {BURST} packets each; the last reload"
        );
    }
    Ok(Figure { value: median(&samples), samples, note })
}

/// A router whose table is full, SYNs to send to it, and its clock.
struct Flooded {
    rig: Rig,
    syns: Vec<Vec<u8>>,
    next: usize,
    now: Instant,
}

impl Flooded {
    fn new() -> Result<Flooded> {
        let shape = Shape { states: Some(2 * ESTABLISHED as usize), ..flows() };
        let mut rig = Rig::new(shape).context("no router of this shape")?;
        let published = stateful(100).published(1)?;
        rig.with_stack(|stack| stack.set_filter(Some(published)));
        let now = Instant::from_nanos(1);
        let all = Shape { flows: ESTABLISHED, ..shape };
        let done = rig.shake_hands(all, now);
        done.with_context(|| format!("the handshakes did not pass: {:?}", rig.lost()))?;
        let syn = |n: u32| {
            let source = Ipv4Addr::from_bits(0x2000_0000 + (n.wrapping_mul(0x9e37_79b1) >> 2));
            packets::syn_from(shape, n, IpAddr::V4(source))
        };
        let syns = (0..SYNS).map(syn).collect::<Option<Vec<_>>>().context("no SYNs")?;
        let mut flooded = Flooded { rig, syns, next: 0, now };
        while flooded.states() < 2 * ESTABLISHED as usize {
            flooded.turn(0, BURST)?;
            ensure!(flooded.next < SYNS as usize / 2, "{} states only", flooded.states());
        }
        Ok(flooded)
    }

    fn states(&mut self) -> usize {
        self.rig.with_stack(|stack| stack.filter().map_or(0, |f| f.states().len()))
    }

    /// One turn with packets of established flows, followed by SYNs. Returns the turn's CPU
    /// seconds.
    fn turn(&mut self, established: usize, syns: usize) -> Result<f64> {
        let offered = self.rig.offer(established);
        if self.next + syns > self.syns.len() {
            self.next = 0;
        }
        self.rig.send(0, &self.syns[self.next..self.next + syns]);
        self.next += syns;
        let begun = thread_cpu_s();
        self.rig.turn(self.now);
        let spent = thread_cpu_s() - begun;
        self.now += Duration::from_nanos((spent * 1e9) as u64 + 1);
        let passed = self.rig.drain();
        let all = offered + syns;
        ensure!(passed == all, "{passed} of {all} passed: {:?}", self.rig.lost());
        Ok(spent)
    }

    /// Packets of established flows per second of the router's CPU time.
    fn goodput(&mut self, seconds: f64, syns_per_s: f64) -> Result<f64> {
        let (mut spent, mut packets, mut syns) = (0.0, 0, 0);
        while spent < seconds {
            let due = (spent * syns_per_s) as usize - syns;
            spent += self.turn(4 * BURST, due.min(BURST))?;
            syns += due.min(BURST);
            packets += 4 * BURST;
        }
        Ok(packets as f64 / spent)
    }
}

pub(super) fn flood(b: &Bench) -> Result<Figure> {
    let mut router = Flooded::new()?;
    let (mut samples, mut note) = (Vec::new(), String::new());
    router.goodput(b.trial_s, SYNS_PER_S)?;
    for _ in 0..b.pairs {
        let with = router.goodput(b.seconds, SYNS_PER_S)?;
        let states = router.states();
        let without = router.goodput(b.seconds, 0.0)?;
        samples.push(with / without);
        note = format!(
            "{:.2} of {:.2} Mpps, {states} states of {}, the last pair",
            with * 1e-6,
            without * 1e-6,
            2 * ESTABLISHED
        );
    }
    Ok(Figure { value: median(&samples), samples, note })
}
