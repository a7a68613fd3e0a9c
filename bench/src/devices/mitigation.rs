//! The effect of interrupt mitigation: a bulk transfer between two threads that sleep when idle, at
//! two levels, and the latency of a flood's datagrams at the highest level. Called by `devices`.
//! Each thread has one stack, over an interface with rings and a link with a rate. Frames arrive
//! one by one, as from hardware. A wake-up is a return from sleep, caused by a doorbell or by the
//! time of an interrupt.
//!
//! A thread that sleeps until the next frame wakes up late, on a virtual machine by tens of
//! microseconds. In that time frames gather at any level. So wake-ups are counted with threads that
//! do not sleep but poll the clock ([`IdlePolicy::Watch`]). The cost of wake-ups is measured with
//! threads that sleep, on the same link. The effect on throughput is measured on a faster link with
//! both threads on one core, where the processor is the limit.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Instant as Clock;

use anyhow::{Context, Result, anyhow, ensure};
use base::{Instant, Owner};
use device::mitigation::{Level, Mitigation};
use device::{Doorbell, nic};
use rustix::thread::set_current_timer_slack;
use stack::pair::{End, PairConfig, end};
use stack::{Armed, CallError, ListenConfig, Stack, TcpHandle};

use crate::harness::{Bench, Figure};
use crate::measure::{Cores, Measurement, pattern, pin, thread_cpu_s};

const PORT: u16 = 5001;
const WRITE: usize = 64 << 10;
const DATAGRAM: usize = 64;

/// Bits per second of the link on which wake-ups are counted, and on which the flood is sent.
const LINK_BPS: u64 = 1_000_000_000;
/// Bits per second of the link that saturates one core which both threads share.
const FAST_LINK_BPS: u64 = 10_000_000_000;

/// The most datagrams of a flood whose latency is recorded.
const SAMPLES: usize = 1 << 20;
/// The number of datagrams from which one percentile is computed.
const WINDOW: usize = 4_096;

/// The behaviour of a thread when it is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdlePolicy {
    /// The thread sleeps, and leaves its core to others.
    Sleep,
    /// The thread polls the clock and the doorbell.
    Watch,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
struct Run {
    level: Level,
    link_bps: u64,
    idle: IdlePolicy,
    cores: Cores,
}

/// A thread's doorbell, and the waker with which devices ring it.
struct Sleeper {
    ring: Arc<Ring>,
    waker: Waker,
    clock: Clock,
    idle: IdlePolicy,
    sleeps: u64,
}

struct Ring {
    bell: Doorbell,
    is_rung: AtomicBool,
}

impl Wake for Ring {
    fn wake(self: Arc<Ring>) {
        self.is_rung.store(true, Ordering::Release);
        self.bell.ring();
    }
}

impl Sleeper {
    /// A sleeper for this thread. Its sleeps are exact: by default Linux adds 50 us of timer slack,
    /// in which four frames instead of one would gather before an interrupt.
    fn new(clock: Clock, idle: IdlePolicy) -> Result<Sleeper> {
        set_current_timer_slack(NonZeroU64::new(1)).context("setting the timer slack")?;
        let ring = Arc::new(Ring { bell: Doorbell::new(), is_rung: AtomicBool::new(false) });
        let waker = Waker::from(ring.clone());
        Ok(Sleeper { ring, waker, clock, idle, sleeps: 0 })
    }

    fn now(&self) -> Instant {
        instant(self.clock)
    }

    /// Arm the doorbell. Call this before polling the stack.
    fn arm(&self) {
        self.ring.is_rung.store(false, Ordering::Release);
        self.ring.bell.arm();
    }

    /// Sleep until there is work for `stack`.
    fn sleep(&mut self, stack: &mut Stack) {
        let until = match stack.arm(&self.waker) {
            Armed::Ready => return self.ring.bell.disarm(),
            Armed::Until(at) => stack.next_deadline().min(at),
            _ => stack.next_deadline(),
        };
        // The sleep is at most 100 ms, because the flag that ends a run wakes no thread.
        let until = until.min(self.now() + base::Duration::from_millis(100));
        match self.idle {
            IdlePolicy::Sleep => self.ring.bell.sleep(Some(until.since(self.now()).into())),
            IdlePolicy::Watch => {
                while self.now() < until && !self.ring.is_rung.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                self.ring.bell.disarm();
            }
        }
        self.sleeps += 1;
    }
}

/// Ends the other thread's run when this thread ends, even by a panic.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The current time, for stacks and interfaces.
fn instant(clock: Clock) -> Instant {
    Instant::from_nanos(clock.elapsed().as_nanos() as u64 + 1)
}

fn ends(run: Run, clock: Clock) -> Result<(End, End, SocketAddr)> {
    let link = nic::Config { rate_bps: run.link_bps, ..nic::Config::default() };
    let (first, second) = nic::pair(&link, Arc::new(move || instant(clock)))?;
    let config = PairConfig::new([0x1991, 0x1992]);
    let (mut client, mut server) = (end(&config, first, 1), end(&config, second, 2));
    for end in [&mut client, &mut server] {
        end.stack.set_mitigation(end.port, Mitigation::Level(run.level))?;
    }
    let to = SocketAddr::new(server.addr, PORT);
    Ok((client, server, to))
}

/// A bulk transfer in one direction for `seconds`. `units` of the result counts the wake-ups of
/// both threads.
fn bulk(run: Run, seconds: f64) -> Result<Measurement> {
    let clock = Clock::now();
    let (mut client, mut server, to) = ends(run, clock)?;
    let listener = server
        .stack
        .tcp_listen(to, ListenConfig::default())
        .map_err(|error| anyhow!("listen: {error:?}"))?;
    let received = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let second = run.cores.second.unwrap_or(run.cores.first);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| -> Result<(f64, u64)> {
            let _ending = Ending(&done);
            pin(&[second])?;
            let mut sleeper = Sleeper::new(clock, run.idle)?;
            let mut into = vec![0; 128 << 10];
            let mut accepted = None;
            let mut before = (0.0, 0);
            while !done.load(Ordering::Acquire) {
                sleeper.arm();
                server.stack.poll(sleeper.now());
                accepted = accepted.or_else(|| server.stack.tcp_accept(listener));
                if let Some(stream) = accepted {
                    let count = read(&mut server.stack, stream, &mut into)?;
                    if received.fetch_add(count, Ordering::Relaxed) == 0 {
                        before = (thread_cpu_s(), sleeper.sleeps);
                    }
                }
                while server.stack.next_event().is_some() {}
                server.stack.flush();
                sleeper.sleep(&mut server.stack);
            }
            Ok((thread_cpu_s() - before.0, sleeper.sleeps - before.1))
        });
        let ending = Ending(&done);
        pin(&[run.cores.first])?;
        let sent = send(&mut client, to, Sleeper::new(clock, run.idle)?, seconds, &received, &done);
        drop(ending);
        let (cpu_s, wakeups) =
            receiving.join().map_err(|_| anyhow!("the receiving thread panicked"))??;
        let mut sent = sent?;
        sent.cpu_s += cpu_s;
        sent.units += wakeups;
        sent.settings = format!("level {}", run.level.number());
        Ok(sent)
    })
}

fn send(
    client: &mut End,
    to: SocketAddr,
    mut sleeper: Sleeper,
    seconds: f64,
    received: &AtomicU64,
    done: &AtomicBool,
) -> Result<Measurement> {
    let data = pattern(WRITE);
    let stream = client
        .stack
        .tcp_connect(to, None, &tcp::Config::default(), Owner::program(), sleeper.now())
        .map_err(|error| anyhow!("connect: {error:?}"))?;
    let (mut start, mut cpu, mut first, mut bytes) = (Clock::now(), 0.0, 0, 0);
    loop {
        sleeper.arm();
        client.stack.poll(sleeper.now());
        while client.stack.tcp_write(stream, &data).is_ok_and(|n| n == data.len()) {}
        client.stack.flush();
        while client.stack.next_event().is_some() {}
        if bytes == 0 {
            // Counting begins after the handshake.
            bytes = received.load(Ordering::Relaxed);
            (start, cpu, first) = (Clock::now(), thread_cpu_s(), sleeper.sleeps);
        } else if start.elapsed().as_secs_f64() >= seconds {
            break;
        }
        ensure!(!done.load(Ordering::Acquire), "the receiving thread has ended");
        sleeper.sleep(&mut client.stack);
    }
    Ok(Measurement {
        bytes: received.load(Ordering::Relaxed) - bytes,
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: thread_cpu_s() - cpu,
        units: sleeper.sleeps - first,
        ..Measurement::default()
    })
}

fn read(stack: &mut Stack, stream: TcpHandle, into: &mut [u8]) -> Result<u64> {
    let mut bytes = 0;
    loop {
        match stack.tcp_read(stream, into) {
            Ok(0) => return Ok(bytes),
            Ok(n) => bytes += n as u64,
            Err(CallError::WouldBlock) => return Ok(bytes),
            Err(error) => return Err(anyhow!("read: {error:?}")),
        }
    }
}

fn wakeups_per_mb(m: &Measurement) -> Result<f64> {
    ensure!(m.bytes > 0, "nothing arrived");
    Ok(m.units as f64 / (m.bytes as f64 / 1e6))
}

fn gbit_per_s(m: &Measurement) -> Result<f64> {
    ensure!(m.wall_s > 0.0, "no time passed");
    Ok(m.bytes as f64 * 8.0 / 1e9 / m.wall_s)
}

fn cpu_ns_per_byte(m: &Measurement) -> Result<f64> {
    ensure!(m.bytes > 0, "nothing arrived");
    Ok(m.cpu_s * 1e9 / m.bytes as f64)
}

fn highest_to_lowest(
    b: &Bench,
    figure: fn(&Measurement) -> Result<f64>,
    lowest: Run,
) -> Result<Figure> {
    let highest = Run { level: Level::MAX, ..lowest };
    b.ratio(figure, |seconds| bulk(highest, seconds), |seconds| bulk(lowest, seconds))
}

/// The parameters of a run at level 0 with a core for each thread.
fn run(b: &Bench, idle: IdlePolicy) -> Run {
    Run { level: Level::default(), link_bps: LINK_BPS, idle, cores: b.cores }
}

pub(super) fn wakeups(b: &Bench) -> Result<Figure> {
    highest_to_lowest(b, wakeups_per_mb, run(b, IdlePolicy::Watch))
}

pub(super) fn throughput(b: &Bench) -> Result<Figure> {
    let cores = Cores { second: None, ..b.cores };
    let busy = Run { link_bps: FAST_LINK_BPS, cores, ..run(b, IdlePolicy::Sleep) };
    highest_to_lowest(b, gbit_per_s, busy)
}

pub(super) fn cpu_per_byte(b: &Bench) -> Result<Figure> {
    highest_to_lowest(b, cpu_ns_per_byte, run(b, IdlePolicy::Sleep))
}

/// Datagrams at full speed, each with the time at which it was written; the result is the 99th
/// percentile of their latency to the application, in units of the highest level's time bound. The
/// percentile is computed for every [`WINDOW`] datagrams, and the result is the median of these
/// percentiles: if the host of a virtual machine takes a processor away for 50 ms, that affects
/// only some of them.
pub(super) fn flood_latency(b: &Bench) -> Result<Figure> {
    let bound_ns = Level::MAX.threshold().within.as_nanos() as f64;
    let rounds = if b.is_quick { 3 } else { 9 };
    let mut samples = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let highest = Run { level: Level::MAX, ..run(b, IdlePolicy::Sleep) };
        let mut latencies = flood(highest, b.seconds)?;
        // The first window is left out: its datagrams were sent while the threads were starting.
        for window in latencies.chunks_exact_mut(WINDOW).skip(1) {
            let (_, p99_ns, _) = window.select_nth_unstable(WINDOW * 99 / 100);
            samples.push(*p99_ns as f64 / bound_ns);
        }
    }
    ensure!(samples.len() >= rounds, "only {} windows of {WINDOW} datagrams", samples.len());
    let note = format!(
        "{} times {WINDOW} datagrams, bound {} us, median of their 99th percentiles",
        samples.len(),
        bound_ns / 1e3
    );
    Ok(Figure { value: crate::measure::median(&samples), samples, note })
}

/// The latencies of the datagrams that arrived, in ns.
fn flood(run: Run, seconds: f64) -> Result<Vec<u64>> {
    let clock = Clock::now();
    let (mut client, mut server, to) = ends(run, clock)?;
    let done = AtomicBool::new(false);
    let second = run.cores.second.unwrap_or(run.cores.first);
    let bound =
        server.stack.udp_bind(to, Owner::program()).map_err(|error| anyhow!("bind: {error:?}"))?;
    thread::scope(|scope| {
        let receiving = scope.spawn(|| -> Result<Vec<u64>> {
            let _ending = Ending(&done);
            pin(&[second])?;
            let mut sleeper = Sleeper::new(clock, run.idle)?;
            let mut latencies = Vec::with_capacity(SAMPLES);
            while !done.load(Ordering::Acquire) {
                sleeper.arm();
                server.stack.poll(sleeper.now());
                while server.stack.next_event().is_some() {}
                while let Some(datagram) = server.stack.udp_receive(bound) {
                    let now = sleeper.now().as_nanos();
                    let stamp = datagram.payload.as_slice().first_chunk().copied();
                    let sent = stamp.map_or(0, u64::from_le_bytes);
                    if latencies.len() < SAMPLES {
                        latencies.push(now.saturating_sub(sent));
                    }
                    server.stack.give_back(datagram.payload);
                }
                server.stack.flush();
                sleeper.sleep(&mut server.stack);
            }
            Ok(latencies)
        });
        let ending = Ending(&done);
        pin(&[run.cores.first])?;
        let sent = flood_for(&mut client, to, Sleeper::new(clock, run.idle)?, seconds);
        drop(ending);
        let latencies =
            receiving.join().map_err(|_| anyhow!("the receiving thread panicked"))??;
        sent.context("sending")?;
        Ok(latencies)
    })
}

fn flood_for(client: &mut End, to: SocketAddr, mut sleeper: Sleeper, seconds: f64) -> Result<()> {
    let from = SocketAddr::new(client.addr, 0);
    let socket = client
        .stack
        .udp_bind(from, Owner::program())
        .map_err(|error| anyhow!("bind: {error:?}"))?;
    let mut message = [0; DATAGRAM];
    let start = Clock::now();
    while start.elapsed().as_secs_f64() < seconds {
        sleeper.arm();
        client.stack.poll(sleeper.now());
        let mut full = false;
        for _ in 0..device::BURST {
            let now = sleeper.now();
            message[..8].copy_from_slice(&now.as_nanos().to_le_bytes());
            if client.stack.udp_send(socket, to, &message, now).is_err() {
                full = true;
                break;
            }
        }
        client.stack.flush();
        if full {
            sleeper.sleep(&mut client.stack);
        } else {
            sleeper.ring.bell.disarm();
        }
    }
    Ok(())
}
