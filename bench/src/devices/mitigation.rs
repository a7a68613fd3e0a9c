//! What interrupt mitigation buys: bulk between two threads that sleep when they have nothing to
//! do, at two levels, and how long a flood's datagrams take at the highest.
//! Called by `devices`. One stack a thread over memory; a wake-up is a return from sleep, by a ring
//! or by the level's time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Instant as Clock;

use anyhow::{Context, Result, anyhow, ensure};
use base::{Instant, Owner};
use device::Doorbell;
use device::mitigation::{Level, Mitigation};
use stack::pair::{End, PairConfig, pair};
use stack::{Armed, CallError, ListenConfig, Stack, TcpHandle};

use crate::harness::{Bench, Figure};
use crate::measure::{Cores, Measurement, pattern, pin, thread_cpu_s};

const PORT: u16 = 5001;
const WRITE: usize = 64 << 10;
const DATAGRAM: usize = 64;

/// Datagrams of a flood whose latency counts, at most.
const SAMPLES: usize = 1 << 20;

/// A thread's bell, and what devices ring it by.
struct Sleeper {
    bell: Doorbell,
    waker: Waker,
    clock: Clock,
    sleeps: u64,
}

struct Ring(Doorbell);

impl Wake for Ring {
    fn wake(self: Arc<Ring>) {
        self.0.ring();
    }
}

impl Sleeper {
    fn new(clock: Clock) -> Sleeper {
        let bell = Doorbell::new();
        let waker = Waker::from(Arc::new(Ring(bell.clone())));
        Sleeper { bell, waker, clock, sleeps: 0 }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.elapsed().as_nanos() as u64 + 1)
    }

    /// Until there is something for `stack`; arm the bell before the stack is looked at.
    fn sleep(&mut self, stack: &mut Stack) {
        let until = match stack.arm(&self.waker) {
            Armed::Ready => return self.bell.disarm(),
            Armed::Until(at) => stack.next_deadline().min(at),
            _ => stack.next_deadline(),
        };
        // Not for ever: the end of a run is told by a flag.
        let most = base::Duration::from_millis(100);
        self.bell.sleep(Some(until.since(self.now()).min(most).into()));
        self.sleeps += 1;
    }
}

fn ends(level: Level) -> Result<(End, End, SocketAddr)> {
    let (mut client, mut server) = pair(&PairConfig::new([0x1991, 0x1992]));
    for end in [&mut client, &mut server] {
        end.stack.set_mitigation(end.port, Mitigation::Level(level))?;
    }
    let to = SocketAddr::new(server.addr, PORT);
    Ok((client, server, to))
}

/// Bytes one way for `seconds`; `units` counts wake-ups of both threads.
fn bulk(level: Level, cores: Cores, seconds: f64) -> Result<Measurement> {
    let (mut client, mut server, to) = ends(level)?;
    let clock = Clock::now();
    let listener = server
        .stack
        .tcp_listen(to, ListenConfig::default())
        .map_err(|error| anyhow!("listen: {error:?}"))?;
    let received = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let second = cores.second.unwrap_or(cores.first);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| -> Result<(f64, u64)> {
            pin(&[second])?;
            let mut sleeper = Sleeper::new(clock);
            let mut into = vec![0; 128 << 10];
            let mut accepted = None;
            let mut before = (0.0, 0);
            while !done.load(Ordering::Acquire) {
                sleeper.bell.arm();
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
        pin(&[cores.first])?;
        let sent = send(&mut client, to, clock, seconds, &received);
        done.store(true, Ordering::Release);
        let (cpu_s, wakeups) =
            receiving.join().map_err(|_| anyhow!("the receiving thread panicked"))??;
        let mut sent = sent?;
        sent.cpu_s += cpu_s;
        sent.units += wakeups;
        sent.settings = format!("level {}", level.number());
        Ok(sent)
    })
}

fn send(
    client: &mut End,
    to: SocketAddr,
    clock: Clock,
    seconds: f64,
    received: &AtomicU64,
) -> Result<Measurement> {
    let mut sleeper = Sleeper::new(clock);
    let data = pattern(WRITE);
    let stream = client
        .stack
        .tcp_connect(to, None, &tcp::Config::default(), Owner::program(), sleeper.now())
        .map_err(|error| anyhow!("connect: {error:?}"))?;
    let (mut start, mut cpu, mut first, mut bytes) = (Clock::now(), 0.0, 0, 0);
    loop {
        sleeper.bell.arm();
        client.stack.poll(sleeper.now());
        while client.stack.tcp_write(stream, &data).is_ok_and(|n| n == data.len()) {}
        client.stack.flush();
        while client.stack.next_event().is_some() {}
        if bytes == 0 {
            // The handshake does not count.
            bytes = received.load(Ordering::Relaxed);
            (start, cpu, first) = (Clock::now(), thread_cpu_s(), sleeper.sleeps);
        } else if start.elapsed().as_secs_f64() >= seconds {
            break;
        }
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

fn highest_to_lowest(b: &Bench, figure: fn(&Measurement) -> Result<f64>) -> Result<Figure> {
    b.ratio(
        figure,
        |seconds| bulk(Level::MAX, b.cores, seconds),
        |seconds| bulk(Level::default(), b.cores, seconds),
    )
}

pub(super) fn wakeups(b: &Bench) -> Result<Figure> {
    highest_to_lowest(b, wakeups_per_mb)
}

pub(super) fn throughput(b: &Bench) -> Result<Figure> {
    highest_to_lowest(b, gbit_per_s)
}

pub(super) fn cpu_per_byte(b: &Bench) -> Result<Figure> {
    highest_to_lowest(b, cpu_ns_per_byte)
}

/// Datagrams as fast as they go, each with the time it was written; the 99th percentile of what
/// they took to the application, in units of the highest level's time bound.
pub(super) fn flood_latency(b: &Bench) -> Result<Figure> {
    let bound_ns = Level::MAX.threshold().within.as_nanos() as f64;
    let rounds = if b.is_quick { 3 } else { 9 };
    let mut samples = Vec::with_capacity(rounds);
    let mut datagrams = 0;
    for _ in 0..rounds {
        let mut latencies = flood(Level::MAX, b.cores, b.seconds)?;
        ensure!(latencies.len() >= 1_000, "only {} datagrams arrived", latencies.len());
        datagrams += latencies.len();
        let at = latencies.len() * 99 / 100;
        let p99_ns = *latencies.select_nth_unstable(at).1;
        samples.push(p99_ns as f64 / bound_ns);
    }
    let note = format!("{datagrams} datagrams, bound {} us", bound_ns / 1e3);
    Ok(Figure { value: crate::measure::median(&samples), samples, note })
}

/// The latencies of what arrived, in ns.
fn flood(level: Level, cores: Cores, seconds: f64) -> Result<Vec<u64>> {
    let (mut client, mut server, to) = ends(level)?;
    let clock = Clock::now();
    let done = AtomicBool::new(false);
    let second = cores.second.unwrap_or(cores.first);
    let bound =
        server.stack.udp_bind(to, Owner::program()).map_err(|error| anyhow!("bind: {error:?}"))?;
    thread::scope(|scope| {
        let receiving = scope.spawn(|| -> Result<Vec<u64>> {
            pin(&[second])?;
            let mut sleeper = Sleeper::new(clock);
            let mut latencies = Vec::with_capacity(SAMPLES);
            while !done.load(Ordering::Acquire) {
                sleeper.bell.arm();
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
        pin(&[cores.first])?;
        let sent = flood_for(&mut client, to, clock, seconds);
        done.store(true, Ordering::Release);
        let latencies =
            receiving.join().map_err(|_| anyhow!("the receiving thread panicked"))??;
        sent.context("sending")?;
        Ok(latencies)
    })
}

fn flood_for(client: &mut End, to: SocketAddr, clock: Clock, seconds: f64) -> Result<()> {
    let from = SocketAddr::new(client.addr, 0);
    let socket = client
        .stack
        .udp_bind(from, Owner::program())
        .map_err(|error| anyhow!("bind: {error:?}"))?;
    let mut sleeper = Sleeper::new(clock);
    let mut message = [0; DATAGRAM];
    let start = Clock::now();
    while start.elapsed().as_secs_f64() < seconds {
        sleeper.bell.arm();
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
            sleeper.bell.disarm();
        }
    }
    Ok(())
}
