//! The median round trip of 64 bytes over the kernel's TCP and loopback. Called by `core.rs` and by
//! `wirespeed-bench peer kernel CASE`. Both ends use TCP_NODELAY and CUBIC. Blocking ends are two
//! threads on one core or on two. Spinning ends use nonblocking sockets, which two threads on two
//! cores, or one thread, poll.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::kernel::{Placement, accept, connect, listen};
use crate::measure::{Cores, Measurement, pin, thread_cpu_s};

/// Bytes of a message.
const MESSAGE: usize = 64;

/// Round trips before the first one that counts.
const WARM_UP: usize = 1000;

/// How the two ends wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Two threads that sleep in `read`.
    Blocking(Placement),
    /// Two threads on two cores, each of which repeats `read` until it succeeds.
    SpinningTwoCores,
    /// One thread that has both ends and polls them in turn.
    SpinningOneThread,
}

impl Waiting {
    /// The blocking variants that these cores allow.
    pub fn blocking(cores: Cores) -> Vec<Waiting> {
        Placement::all(cores).into_iter().map(Waiting::Blocking).collect()
    }

    /// The spinning variants that these cores allow.
    pub fn spinning(cores: Cores) -> Vec<Waiting> {
        let two = cores.second.map(|_| Waiting::SpinningTwoCores);
        two.into_iter().chain([Waiting::SpinningOneThread]).collect()
    }

    fn words(self) -> String {
        match self {
            Waiting::Blocking(placement) => format!("blocking, {}", placement.words()),
            Waiting::SpinningTwoCores => "spinning, a thread on each of two cores".into(),
            Waiting::SpinningOneThread => "spinning, one thread polls both ends".into(),
        }
    }
}

/// Makes round trips for `seconds`. `p50_ns` of the result is their median, `units` their number.
pub fn ping_pong(cores: Cores, waiting: Waiting, seconds: f64) -> Result<Measurement> {
    let (client, server) = connected()?;
    if !matches!(waiting, Waiting::Blocking(_)) {
        client.set_nonblocking(true)?;
        server.set_nonblocking(true)?;
    }
    let start = Instant::now();
    let (samples, cpu_s) = match waiting {
        Waiting::Blocking(placement) => two_threads(cores, placement, client, server, seconds)?,
        Waiting::SpinningTwoCores => {
            two_threads(cores, Placement::TwoCores, client, server, seconds)?
        }
        Waiting::SpinningOneThread => one_thread(cores, client, server, seconds)?,
    };
    let mut counted = samples.get(WARM_UP..).unwrap_or_default().to_vec();
    ensure!(!counted.is_empty(), "fewer than {WARM_UP} round trips in {seconds} s: allow more");
    let middle = counted.len() / 2;
    let (_, median, _) = counted.select_nth_unstable(middle);
    let p50_ns = *median as f64;
    Ok(Measurement {
        bytes: (samples.len() * MESSAGE) as u64,
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s,
        units: samples.len() as u64,
        p50_ns: Some(p50_ns),
        settings: format!("kernel loopback, TCP_NODELAY, {}, p50 {p50_ns:.0} ns", waiting.words()),
    })
}

/// Two ends of one connection over loopback.
fn connected() -> Result<(TcpStream, TcpStream)> {
    let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let client = connect(listener.local_addr()?)?;
    let server = accept(&listener)?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    Ok((client, server))
}

/// One thread sends requests, another one answers until the first one closes.
fn two_threads(
    cores: Cores,
    placement: Placement,
    mut client: TcpStream,
    mut server: TcpStream,
    seconds: f64,
) -> Result<(Vec<u32>, f64)> {
    let (asking, answering) = placement.split(cores)?;
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let answers = scope.spawn(move || -> Result<f64> {
            pin(&[answering])?;
            let cpu = thread_cpu_s();
            let mut message = [0_u8; MESSAGE];
            while receive(&mut server, &mut message, done)? {
                send(&mut server, &message)?;
            }
            Ok(thread_cpu_s() - cpu)
        });
        let asks = scope.spawn(move || -> Result<(Vec<u32>, f64)> {
            let outcome = ask_for(asking, &mut client, seconds, done);
            done.store(true, Ordering::Release);
            outcome
        });
        let asked = asks.join().map_err(|_| anyhow!("the asking thread panicked"))?;
        let answered = answers.join().map_err(|_| anyhow!("the answering thread panicked"))?;
        let (samples, cpu_s) = asked?;
        Ok((samples, cpu_s + answered?))
    })
}

/// The end of [`two_threads`] that sends requests.
fn ask_for(
    core: usize,
    client: &mut TcpStream,
    seconds: f64,
    done: &AtomicBool,
) -> Result<(Vec<u32>, f64)> {
    pin(&[core])?;
    let cpu = thread_cpu_s();
    let mut message = [7_u8; MESSAGE];
    let samples = timed(seconds, || {
        send(client, &message)?;
        ensure!(receive(client, &mut message, done)?, "the answering end closed");
        Ok(())
    })?;
    client.shutdown(std::net::Shutdown::Both)?;
    Ok((samples, thread_cpu_s() - cpu))
}

/// One thread has both ends.
fn one_thread(
    cores: Cores,
    mut client: TcpStream,
    mut server: TcpStream,
    seconds: f64,
) -> Result<(Vec<u32>, f64)> {
    let done = &AtomicBool::new(false);
    let player = move || -> Result<(Vec<u32>, f64)> {
        pin(&[cores.first])?;
        let cpu = thread_cpu_s();
        let mut message = [7_u8; MESSAGE];
        let samples = timed(seconds, || {
            send(&mut client, &message)?;
            ensure!(receive(&mut server, &mut message, done)?, "the answering end closed");
            send(&mut server, &message)?;
            ensure!(receive(&mut client, &mut message, done)?, "the asking end closed");
            Ok(())
        })?;
        Ok((samples, thread_cpu_s() - cpu))
    };
    thread::scope(|scope| scope.spawn(player).join())
        .map_err(|_| anyhow!("the polling thread panicked"))?
}

/// Calls `round` until the time is over. Returns how long each call took, in nanoseconds.
fn timed(seconds: f64, mut round: impl FnMut() -> Result<()>) -> Result<Vec<u32>> {
    let limit = Duration::from_secs_f64(seconds);
    let mut samples = Vec::with_capacity((seconds * 200_000.0) as usize);
    let start = Instant::now();
    let mut before = start;
    while before - start < limit {
        round()?;
        let after = Instant::now();
        samples.push(u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX));
        before = after;
    }
    Ok(samples)
}

/// Writes one message. 64 bytes never fill a socket's buffer, so a full buffer is an error.
fn send(stream: &mut TcpStream, message: &[u8; MESSAGE]) -> Result<()> {
    stream.write_all(message).context("writing 64 bytes")
}

/// Reads one message; a blocking socket sleeps, a nonblocking one spins. Returns false at the end
/// of the stream.
fn receive(stream: &mut TcpStream, message: &mut [u8; MESSAGE], done: &AtomicBool) -> Result<bool> {
    let mut have = 0;
    while have < MESSAGE {
        match stream.read(&mut message[have..]) {
            Ok(0) if have == 0 => return Ok(false),
            Ok(0) => bail!("the connection closed in the middle of a message"),
            Ok(n) => have += n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                if done.load(Ordering::Acquire) {
                    return Ok(false);
                }
            }
            Err(_) if done.load(Ordering::Acquire) => return Ok(false),
            Err(e) => return Err(e).context("reading 64 bytes"),
        }
    }
    Ok(true)
}
