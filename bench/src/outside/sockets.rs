//! Sockets of crate `net` over a link in memory, and the kernel's sockets over loopback: echoes of
//! 64 bytes by blocking threads and by tasks, bulk transfers by tasks. Called by `outside`. There
//! are two stacks, each with its driver. All connections have `TCP_NODELAY`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use net::blocking;
use net::{Net, TcpListener, TcpStream};
use stack::pair::{End, PairConfig, pair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::measure::{Cores, Measurement, pattern, pin, thread_cpu_s};
use crate::peers::kernel::{Placement, UNIT, connect, listen};

const PORT: u16 = 7;
const MESSAGE: usize = 64;

/// Round trips before the first counted one.
const WARM_UP: usize = 500;

/// How many [`UNIT`]s of a bulk transfer are sent before the first byte counts.
const WARM_UP_UNITS: u64 = 128;

/// Bytes of one write in a bulk transfer. Each write is a call that takes the lock and wakes the
/// other end.
const WRITE: usize = 64 << 10;

/// The most bytes of one read in a bulk transfer: as many as the reader of the polled API asks for.
const READ: usize = 128 << 10;

/// The most bytes on the wire in a bulk transfer. It is more than one loop that polls both ends
/// would need, because four tasks take turns, and each should find some work. Still more would not
/// fit into the cache.
const BULK_DEPTH: usize = 96 << 10;

fn ends() -> (End, End, SocketAddr) {
    ends_with(&PairConfig::new([0x1988, 0x1989]))
}

fn ends_with(config: &PairConfig) -> (End, End, SocketAddr) {
    let (client, server) = pair(config);
    let to = SocketAddr::new(server.addr, PORT);
    (client, server, to)
}

/// An echo between two blocking threads, each with its own stack. The driver of each stack is a
/// thread too.
pub(super) fn blocking_ping_pong(
    cores: Cores,
    placement: Placement,
    seconds: f64,
) -> Result<Measurement> {
    let (asking, answering) = placement.split(cores)?;
    let (client, server, to) = ends();
    pin(&[asking])?;
    let (client, client_driver) = Net::spawn_thread(client.stack)?;
    pin(&[answering])?;
    let (server, server_driver) = Net::spawn_thread(server.stack)?;
    let listener = blocking::TcpListener::bind(&server, to)?;
    let answers = thread::spawn(move || -> Result<()> {
        pin(&[answering])?;
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut message = [0; MESSAGE];
        while stream.read_exact(&mut message).is_ok() {
            stream.write_all(&message)?;
        }
        Ok(())
    });
    pin(&[asking])?;
    let mut stream = blocking::TcpStream::connect(&client, to)?;
    stream.set_nodelay(true)?;
    let mut message = [7; MESSAGE];
    let mut samples = Vec::new();
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < seconds {
        let before = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        samples.push(before.elapsed().as_nanos() as u32);
    }
    drop(stream);
    answers.join().map_err(|_| anyhow!("the answering thread panicked"))??;
    client_driver.stop()?;
    server_driver.stop()?;
    latency(samples, start, format!("our blocking sockets, {}", placement.words()))
}

fn latency(samples: Vec<u32>, start: Instant, settings: String) -> Result<Measurement> {
    let mut counted = samples.get(WARM_UP..).unwrap_or_default().to_vec();
    ensure!(!counted.is_empty(), "fewer than {WARM_UP} round trips: allow more time");
    let middle = counted.len() / 2;
    let p50_ns = f64::from(*counted.select_nth_unstable(middle).1);
    Ok(Measurement {
        bytes: (samples.len() * MESSAGE) as u64,
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: start.elapsed().as_secs_f64(),
        units: samples.len() as u64,
        p50_ns: Some(p50_ns),
        settings: format!("{settings}, p50 {p50_ns:.0} ns"),
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting tokio")
}

/// An echo over our sockets: both ends and their drivers are tasks on one thread.
pub(super) fn tokio_echo(seconds: f64) -> Result<Measurement> {
    runtime()?.block_on(async {
        let (client, server, to) = ends();
        let ((client, _), (server, _)) =
            (Net::spawn_tokio(client.stack), Net::spawn_tokio(server.stack));
        let listener = TcpListener::bind(&server, to)?;
        let answers = tokio::spawn(async move {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            answer(stream).await
        });
        let stream = TcpStream::connect(&client, to).await?;
        stream.set_nodelay(true)?;
        let measured = ask(stream, seconds, "our sockets, both ends on one thread of tokio").await;
        answers.await??;
        client.shut_down();
        server.shut_down();
        measured
    })
}

/// Where the kernel's echo server may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// In a task of the client's runtime.
    SameThread,
    /// In a runtime of its own on the second core.
    OtherCore,
}

/// An echo over the kernel's loopback.
pub(super) fn kernel_tokio_echo(
    cores: Cores,
    answers: Answers,
    seconds: f64,
) -> Result<Measurement> {
    pin(&[cores.first])?;
    let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    listener.set_nonblocking(true)?;
    let to = listener.local_addr()?;
    let serve = move || async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        answer(stream).await
    };
    let ask_kernel = async |settings: &str| {
        let stream = connect(to)?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let stream = tokio::net::TcpStream::from_std(stream)?;
        ask(stream, seconds, settings).await
    };
    match (answers, cores.second) {
        (Answers::OtherCore, Some(second)) => thread::scope(|scope| {
            let other = scope.spawn(move || -> Result<()> {
                pin(&[second])?;
                runtime()?.block_on(serve())
            });
            let asked =
                runtime()?.block_on(ask_kernel("kernel loopback with tokio, a thread each"));
            other.join().map_err(|_| anyhow!("the answering thread panicked"))??;
            asked
        }),
        _ => runtime()?.block_on(async {
            let answering = tokio::spawn(serve());
            let asked = ask_kernel("kernel loopback with tokio, both ends on one thread").await;
            answering.await??;
            asked
        }),
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<()> {
    let mut message = [0; MESSAGE];
    while stream.read_exact(&mut message).await.is_ok() {
        stream.write_all(&message).await?;
    }
    Ok(())
}

async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    seconds: f64,
    settings: &str,
) -> Result<Measurement> {
    let mut message = [7; MESSAGE];
    let mut samples = Vec::new();
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < seconds {
        let before = Instant::now();
        stream.write_all(&message).await?;
        stream.read_exact(&mut message).await?;
        samples.push(before.elapsed().as_nanos() as u32);
    }
    drop(stream);
    latency(samples, start, settings.to_owned())
}

/// A bulk transfer between two tasks on one thread, MTU 1500.
pub(super) fn tokio_bulk(seconds: f64) -> Result<Measurement> {
    let mut config = PairConfig::new([0x1988, 0x1989]);
    config.wire.depth_bytes = BULK_DEPTH;
    runtime()?.block_on(async {
        let (client, server, to) = ends_with(&config);
        let ((client, _), (server, _)) =
            (Net::spawn_tokio(client.stack), Net::spawn_tokio(server.stack));
        let listener = TcpListener::bind(&server, to)?;
        let reads = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            let mut into = vec![0; READ];
            let mut bytes = 0;
            loop {
                match stream.read(&mut into).await? {
                    0 => return Ok::<u64, anyhow::Error>(bytes),
                    n => bytes += n as u64,
                }
            }
        });
        let stream = TcpStream::connect(&client, to).await?;
        let (start, cpu, written) = write_for(stream, seconds).await?;
        let read = tokio::time::timeout(Duration::from_secs(10), reads).await???;
        ensure!(read == written + WARM_UP_UNITS * UNIT as u64, "bytes were lost on the way");
        let measured = Measurement {
            bytes: written,
            wall_s: start.elapsed().as_secs_f64(),
            cpu_s: thread_cpu_s() - cpu,
            settings: "tokio tasks on one thread, 64 KiB writes".to_owned(),
            ..Measurement::default()
        };
        client.shut_down();
        server.shut_down();
        Ok(measured)
    })
}

/// Write for `seconds`, and close. Returns when counting began, the thread's CPU time at that
/// moment, and the bytes written from then on.
async fn write_for(mut stream: TcpStream, seconds: f64) -> Result<(Instant, f64, u64)> {
    let data = pattern(UNIT);
    // Congestion windows open and caches fill before the clock starts, as on the other side of the
    // row.
    for _ in 0..WARM_UP_UNITS {
        stream.write_all(&data).await?;
    }
    let (start, cpu) = (Instant::now(), thread_cpu_s());
    let mut written = 0;
    while start.elapsed().as_secs_f64() < seconds {
        for part in data.chunks(WRITE) {
            stream.write_all(part).await?;
        }
        written += UNIT as u64;
    }
    stream.shutdown().await?;
    Ok((start, cpu, written))
}
