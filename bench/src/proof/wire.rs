//! Linux over `wirespeed wire`: whether Linux measures the configured rate and round trip, and the
//! throughput of a link without impairments. Called by `proof`.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use device::Device;
use link::real::{Runner, Timing};
use link::{Bridge, Settings};

use crate::harness::{Bench, Better, Figure, best_of};
use crate::measure::{Cores, Measurement, median, pin};
use crate::namespace::enter;
use crate::outside::raw::{self, hosts};
use crate::outside::wall_gbit_per_s;
use crate::peers::kernel::{Path, Settings as Kernel, transfer};

const SINK: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(10, 95, 0, 2)), 9);
/// The payload of a datagram in a full packet, and the packet, in bytes.
const PAYLOAD: usize = 1472;
const PACKET: f64 = 1500.0;

const RATE_BPS: f64 = 100e6;
const DELAY: Duration = Duration::from_millis(50);
/// Bytes of memory for packets that wait or are in flight on the link.
const MEMORY_BYTES: usize = 1 << 30;

/// Two Linux hosts, and the link between them.
struct Joined {
    hosts: [File; 2],
    runner: Runner,
}

impl Joined {
    fn new(offload: bool, settings: &Settings, timing: Timing) -> Result<Joined> {
        let (hosts, taps) = hosts(offload)?;
        let ends = taps.map(|tap| Box::new(tap) as Box<dyn Device>);
        let both = [settings.clone(), settings.clone()];
        let runner = Runner::new(Bridge::new(ends, both, 1, MEMORY_BYTES)?, timing)?;
        Ok(Joined { hosts, runner })
    }

    /// Run `what` while a thread on `core` carries the packets.
    fn during<T>(&mut self, core: usize, what: impl FnOnce(&[File; 2]) -> Result<T>) -> Result<T> {
        let over = AtomicBool::new(false);
        let Joined { hosts, runner } = self;
        thread::scope(|scope| {
            let carrier = scope.spawn(|| -> Result<()> {
                pin(&[core])?;
                while !over.load(Ordering::Relaxed) {
                    let until = runner.now() + base::Duration::from_millis(20);
                    runner.run_until(until).map_err(|gone| anyhow!("{gone}"))?;
                }
                Ok(())
            });
            let result = what(hosts);
            over.store(true, Ordering::Relaxed);
            carrier.join().map_err(|_| anyhow!("the carrying thread panicked"))??;
            result
        })
    }
}

/// The larger of the errors of the rate and of the round trip, in percent. Both are measured with
/// UDP between two kernels.
pub(super) fn error_of_the_knobs(b: &Bench) -> Result<Figure> {
    let settings = Settings {
        rate_bps: Some(RATE_BPS as u64),
        delay: DELAY.into(),
        queue_bytes: 1_250_000,
        ..Settings::default()
    };
    let mut joined = Joined::new(false, &settings, Timing::Sleep)?;
    let core = b.cores.second.unwrap_or(b.cores.first);
    let rounds = if b.is_quick { 2 } else { 7 };
    let mut samples = Vec::new();
    let (mut rates, mut trips) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (rate_bps, trip_s) =
            joined.during(core, |hosts| Ok((rate(hosts)?, round_trip(hosts)?)))?;
        // The time to transmit a packet of 92 bytes is needed in each direction.
        let expected = 2.0 * DELAY.as_secs_f64() + 2.0 * 92.0 * 8.0 / RATE_BPS;
        let errors = [rate_bps / RATE_BPS - 1.0, trip_s / expected - 1.0];
        samples.push(errors.map(f64::abs).into_iter().fold(0.0, f64::max) * 100.0);
        rates.push(rate_bps / 1e6);
        trips.push(trip_s * 1e3);
    }
    let note = format!("{:.2} Mb/s and {:.3} ms, medians", median(&rates), median(&trips));
    Ok(Figure { value: median(&samples), samples, note })
}

/// Bits per second of IP packets that arrive, while more are sent than the link carries.
fn rate(hosts: &[File; 2]) -> Result<f64> {
    const SENT: Duration = Duration::from_millis(1500);
    thread::scope(|scope| {
        let sink = scope.spawn(|| -> Result<f64> {
            enter(&hosts[1])?;
            let socket = UdpSocket::bind(SINK)?;
            socket.set_read_timeout(Some(Duration::from_millis(400)))?;
            let mut into = vec![0; 2048];
            let mut moments = Vec::new();
            while socket.recv(&mut into).is_ok() {
                moments.push(Instant::now());
            }
            // The first packets find an empty queue, so they are left out.
            let steady = moments.get(200..).unwrap_or_default();
            let [first, .., last] = steady else { return Err(anyhow!("too little arrived")) };
            Ok((steady.len() - 1) as f64 * PACKET * 8.0 / (*last - *first).as_secs_f64())
        });
        let source = scope.spawn(|| -> Result<()> {
            enter(&hosts[0])?;
            let socket = UdpSocket::bind("10.95.0.1:0")?;
            let (begun, data) = (Instant::now(), [0; PAYLOAD]);
            let mut sent = 0;
            while begun.elapsed() < SENT {
                // Send a third more than the link carries.
                let due = (begun.elapsed().as_secs_f64() * RATE_BPS * 1.33 / (PACKET * 8.0)) as u64;
                while sent < due {
                    let _ = socket.send_to(&data, SINK);
                    sent += 1;
                }
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        source.join().map_err(|_| anyhow!("the sender panicked"))??;
        sink.join().map_err(|_| anyhow!("the receiver panicked"))?
    })
}

/// The median round trip of a datagram of 64 bytes, in seconds.
fn round_trip(hosts: &[File; 2]) -> Result<f64> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let echo = scope.spawn(|| -> Result<()> {
            enter(&hosts[1])?;
            let socket = UdpSocket::bind(SINK)?;
            socket.set_read_timeout(Some(Duration::from_millis(100)))?;
            let mut into = [0; 64];
            while !over.load(Ordering::Relaxed) {
                if let Ok((n, from)) = socket.recv_from(&mut into) {
                    socket.send_to(&into[..n], from)?;
                }
            }
            Ok(())
        });
        let asked = scope.spawn(|| -> Result<Vec<f64>> {
            enter(&hosts[0])?;
            let socket = UdpSocket::bind("10.95.0.1:0")?;
            socket.set_read_timeout(Some(Duration::from_secs(2)))?;
            // Wait until the packets of the rate measurement have passed, and until the echo
            // program listens.
            thread::sleep(Duration::from_millis(300));
            let mut trips = Vec::new();
            for _ in 0..15 {
                let begun = Instant::now();
                socket.send_to(&[0; 64], SINK)?;
                socket.recv(&mut [0; 64]).context("no echo")?;
                trips.push(begun.elapsed().as_secs_f64());
            }
            Ok(trips)
        });
        let trips = asked.join().map_err(|_| anyhow!("the asker panicked"))?;
        over.store(true, Ordering::Relaxed);
        echo.join().map_err(|_| anyhow!("the echo panicked"))??;
        let trips = trips?;
        ensure!(!trips.is_empty(), "no round trip was measured");
        Ok(median(&trips))
    })
}

/// The rate of the kernel's TCP between two TAPs without offload, over our link without
/// impairments, divided by its rate over plain reads and writes.
pub(super) fn against_raw(b: &Bench) -> Result<Figure> {
    let nothing = Settings { queue_bytes: 1 << 30, ..Settings::default() };
    let mut joined = Joined::new(false, &nothing, Timing::Sleep)?;
    let mut ours = |(settings, core): (Kernel, usize), seconds: f64| {
        joined.during(core, |hosts| bulk(b.cores, hosts, settings, seconds))
    };
    let candidates = raw::Wire::candidates(b.cores);
    let best = best_of(&candidates, 2, Better::Higher, |settings| {
        wall_gbit_per_s(&ours(settings, b.trial_s)?)
    })?;
    let wire = raw::Wire::new(false)?;
    let theirs = |settings, seconds| Ok(wire.bulk(b.cores, settings, seconds)?.0);
    let fastest = best_of(&candidates, 2, Better::Higher, |settings| {
        wall_gbit_per_s(&theirs(settings, b.trial_s)?)
    })?;
    let ours = std::cell::RefCell::new(ours);
    b.ratio(
        wall_gbit_per_s,
        |seconds| (ours.borrow_mut())(best, seconds),
        |seconds| theirs(fastest, seconds),
    )
}

fn bulk(cores: Cores, hosts: &[File; 2], settings: Kernel, seconds: f64) -> Result<Measurement> {
    let path = Path { listen: SINK.ip(), name: "our link" };
    let [writer, reader] = hosts;
    transfer(cores, settings, seconds, &path, || enter(writer), || enter(reader))
}
