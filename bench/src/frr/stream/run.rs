//! One run: a router takes the stream. Called by `stream.rs`.

use std::collections::HashSet;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::super::feed;
use super::super::figures::Run;
use super::super::router::{Metrics, Router};
use super::super::scene::{Control, Ground};
use super::super::space::{Space, until};
use super::super::world::World;
use super::record::{ROUTES_V4, ROUTES_V6, Recording};
use crate::measure::{Cores, pin, pin_thread};

/// How long a router may take for a million routes.
const LIMIT: Duration = Duration::from_secs(120);
/// The time between two looks at the number of routes.
const LOOK: Duration = Duration::from_millis(25);
/// Prefixes whose entries of 4 bytes are on one page of an array for 24 bits.
const ON_A_PAGE: u32 = 1024;
const PAGE: usize = 4096;

/// Runs a router that takes the stream.
///
/// # Errors
/// It does not take it.
pub(super) fn run(world: &World, recording: &Recording, traffic: Option<&Cores>) -> Result<Run> {
    let (control, ground) = (Control::new()?, Ground::new()?);
    let config = ground.config(&control.space);
    let router = Router::start(world, &ground.space, "streamed", &config)?;
    if let Some(cores) = traffic {
        apart(router.worker()?, cores)?;
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let traffic = traffic.map(|cores| {
            let stop = &stop;
            let lan = &ground.lan;
            scope.spawn(move || {
                pin(&[cores.first])?;
                send_packets(lan, stop)
            })
        });
        let done = measured(&router, &control.space, recording);
        stop.store(true, Ordering::Relaxed);
        let sent = traffic.map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked")));
        sent.transpose()?.transpose()?;
        done
    })
}

/// Give the thread that takes the routes a core of its own, and the packets another one: the CPU
/// time of a thread includes interrupts, and veths forward packets in those.
fn apart(worker: u32, cores: &Cores) -> Result<()> {
    let second = cores.second.context("a second core is needed")?;
    for thread in std::fs::read_dir(format!("/proc/{worker}/task")).context("it has ended")? {
        let id: u32 = thread?.file_name().to_string_lossy().parse()?;
        pin_thread(Some(id), &[if id == worker { second } else { cores.first }])?;
    }
    Ok(())
}

/// Datagrams of 18 bytes, so frames of 60, through the router until it is told to stop.
fn send_packets(lan: &Space, stop: &AtomicBool) -> Result<()> {
    lan.within(|| {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        while !stop.load(Ordering::Relaxed) {
            // A refusal of the host beyond is no error: nobody listens there.
            for _ in 0..16 {
                let _ = socket.send(&[0; 18]);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    })
}

fn measured(router: &Router<'_>, control: &Space, recording: &Recording) -> Result<Run> {
    let worker = router.worker()?;
    let processes = [router.id(), worker];
    let routes = ROUTES_V4 + ROUTES_V6;
    let before_bytes = resident(&processes)?;
    let before_cpu_s = cpu_s(worker)?;
    let before = router.beside(Metrics::read)?;
    let mut stream = control.within(|| {
        TcpStream::connect(("127.0.0.1", 2620)).context("the router does not listen for zebra")
    })?;
    let begun = Instant::now();
    let (seconds, after) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            router.beside(|| {
                let all = before.value("routes")? + routes as u64;
                let has_all = || {
                    let now = Metrics::read()?;
                    Ok(now.value("routes")? >= all && now.value("fpm_pending")? == 0)
                };
                until("the FIB has all routes", LIMIT, LOOK, has_all)?;
                Ok((begun.elapsed().as_secs_f64(), Metrics::read()?))
            })
        });
        stream.write_all(&recording.bytes).context("the router closed the connection")?;
        watcher.join().map_err(|_| anyhow!("a thread panicked"))?
    })?;
    let packets = after.value("forwarded_total")? - before.value("forwarded_total")?;
    let pause_us = after.value("fpm_longest_pause_ns")? as f64 * 1e-3;
    let array_bytes = arrays();
    let grown = resident(&processes)? - before_bytes;
    Ok(Run {
        seconds,
        worker_cpu_s: cpu_s(worker)? - before_cpu_s,
        bytes_a_route: (grown - array_bytes as f64) / routes as f64,
        array_bytes,
        pause_us,
        packets_a_second: packets as f64 / seconds,
    })
}

/// Bytes of the pages of the arrays for 24 bits that have an entry of one of the prefixes.
fn arrays() -> usize {
    let pages = |first: u32, length: u8| {
        let count = 1 << 24_u8.saturating_sub(length);
        first / ON_A_PAGE..=(first + count - 1) / ON_A_PAGE
    };
    let v4 = feed::v4(ROUTES_V4).into_iter().flat_map(|(p, len)| pages(p.to_bits() >> 8, len));
    let v4: HashSet<u32> = v4.collect();
    let v6 = feed::v6(ROUTES_V6);
    let v6 = v6.into_iter().flat_map(|(p, len)| pages((p.to_bits() >> 104) as u32, len));
    let v6: HashSet<u32> = v6.collect();
    (v4.len() + v6.len()) * PAGE
}

/// Bytes of memory that the processes have for themselves.
fn resident(processes: &[u32]) -> Result<f64> {
    let of = |id: &u32| {
        let path = format!("/proc/{id}/smaps_rollup");
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
        let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kb.context("smaps_rollup has no Rss")? * 1024.0)
    };
    processes.iter().map(of).sum()
}

/// CPU time of all threads of a process so far, in seconds.
fn cpu_s(process: u32) -> Result<f64> {
    let mut sum = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task")).context("it has ended")? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let ns = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
        sum += ns.context("schedstat has no run time: the kernel needs CONFIG_SCHED_INFO")? * 1e-9;
    }
    Ok(sum)
}
