//! The kernel's TCP: bulk transfers and 64-byte writes between two threads of this process. Called
//! by `core.rs`, `peers/mod.rs` and `wirespeed-bench peer kernel CASE`. Both ends use CUBIC,
//! because the machine's default may be another algorithm. Linux tunes the buffers, as is its
//! default. Reads and writes have 128 KiB. Both ends are pinned, to one core or to two. `cpu_s` is
//! user plus system time of the two threads, which includes their softirq work.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, bind, socket_with};

use crate::measure::{Cores, Measurement, pattern, pin, thread_cpu_s};

/// Bytes of a read and of a bulk write.
pub const UNIT: usize = 128 << 10;

/// Where the two ends run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Both on the first core.
    OneCore,
    /// One on each of two cores.
    TwoCores,
}

impl Placement {
    /// Every placement that these cores allow.
    pub fn all(cores: Cores) -> Vec<Placement> {
        match cores.second {
            Some(_) => vec![Placement::OneCore, Placement::TwoCores],
            None => vec![Placement::OneCore],
        }
    }

    /// The placement in words, for a note.
    pub fn words(self) -> &'static str {
        match self {
            Placement::OneCore => "both ends on one core",
            Placement::TwoCores => "one end on each of two cores",
        }
    }

    /// The cores of the writing (or first) and the reading (or second) end.
    pub fn split(self, cores: Cores) -> Result<(usize, usize)> {
        match (self, cores.second) {
            (Placement::OneCore, _) => Ok((cores.first, cores.first)),
            (Placement::TwoCores, Some(second)) => Ok((cores.first, second)),
            (Placement::TwoCores, None) => bail!("two cores are needed; this process has one"),
        }
    }
}

/// Settings that can be changed from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a write.
    pub write: usize,
    /// Does the writer set TCP_NODELAY?
    pub nodelay: bool,
    /// Where the ends run.
    pub placement: Placement,
}

impl Settings {
    /// Settings of a bulk transfer: writes of 128 KiB.
    pub fn bulk(placement: Placement) -> Settings {
        Settings { write: UNIT, nodelay: false, placement }
    }
}

/// All settings for writes of 64 bytes that these cores allow.
pub fn small_write_candidates(cores: Cores) -> Vec<Settings> {
    let placements = Placement::all(cores).into_iter();
    let both = |placement| {
        [false, true].map(|nodelay| Settings { write: 64, nodelay, placement }).into_iter()
    };
    placements.flat_map(both).collect()
}

/// A bulk transfer over loopback (MTU 65536) for `seconds`; `units` counts writes.
pub fn loopback(cores: Cores, settings: Settings, seconds: f64) -> Result<Measurement> {
    let path = Path { listen: IpAddr::V4(Ipv4Addr::LOCALHOST), name: "loopback" };
    transfer(cores, settings, seconds, &path, || Ok(()), || Ok(()))
}

/// Where a transfer goes.
pub struct Path {
    /// The reader's address.
    pub listen: IpAddr,
    /// The path's name in notes.
    pub name: &'static str,
}

/// The result at one end of a transfer.
pub struct EndOfTransfer {
    /// The number of writes, or of bytes read.
    pub count: u64,
    /// CPU time of the end's thread, in seconds.
    pub cpu_s: f64,
}

/// Runs a writer and a reader, each on a thread that `enter_*` may first move into a namespace.
pub fn transfer(
    cores: Cores,
    settings: Settings,
    seconds: f64,
    path: &Path,
    enter_writer: impl FnOnce() -> Result<()> + Send,
    enter_reader: impl FnOnce() -> Result<()> + Send,
) -> Result<Measurement> {
    let (writer_core, reader_core) = settings.placement.split(cores)?;
    let (listening, address) = mpsc::channel::<SocketAddr>();
    let (wrote, read, wall_s) = thread::scope(|scope| {
        let reader = scope.spawn(move || -> Result<(EndOfTransfer, Instant)> {
            pin(&[reader_core])?;
            enter_reader()?;
            let listener = listen(SocketAddr::new(path.listen, 0))?;
            listening.send(listener.local_addr()?).context("the writing end has ended")?;
            read_all(accept(&listener)?)
        });
        let writer = scope.spawn(move || -> Result<(EndOfTransfer, Instant)> {
            pin(&[writer_core])?;
            enter_writer()?;
            let to = address.recv().map_err(|_| anyhow!("the reading end did not start"))?;
            let stream = connect(to).with_context(|| format!("over {}", path.name))?;
            write_for(stream, settings, seconds)
        });
        let (wrote, read) = (writer.join(), reader.join());
        let read = read.map_err(|_| anyhow!("the reading thread panicked"))?;
        // The reader's error is reported first: if the reader never listened, the writer's error is
        // only a consequence.
        let (read, end) = read?;
        let (wrote, start) = wrote.map_err(|_| anyhow!("the writing thread panicked"))??;
        Ok::<_, anyhow::Error>((wrote, read, (end - start).as_secs_f64()))
    })?;
    ensure!(read.count == wrote.count * settings.write as u64, "bytes were lost on the way");
    Ok(Measurement {
        bytes: read.count,
        wall_s,
        cpu_s: wrote.cpu_s + read.cpu_s,
        units: wrote.count,
        p50_ns: None,
        settings: describe(settings, path.name),
    })
}

fn describe(settings: Settings, path: &str) -> String {
    let nodelay = if settings.nodelay { ", TCP_NODELAY" } else { "" };
    let unit = match settings.write {
        UNIT => "128 KiB writes".to_owned(),
        other => format!("{other}-byte writes"),
    };
    let placement = settings.placement.words();
    format!("kernel {path}, cubic, {unit}{nodelay}, 128 KiB reads, {placement}")
}

/// Accept one connection, or fail after five seconds.
pub fn accept(listener: &TcpListener) -> Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(5) {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_micros(200));
            }
            Err(e) => return Err(e).context("accepting"),
        }
    }
    bail!("nobody connected in 5 s")
}

/// A listener whose connections use CUBIC.
pub fn listen(at: SocketAddr) -> Result<TcpListener> {
    let socket = cubic_socket(at)?;
    bind(&socket, &at).context("binding")?;
    net::listen(&socket, 128).context("listening")?;
    Ok(TcpListener::from(socket))
}

/// Makes a connection that uses CUBIC. Fails after five seconds.
pub fn connect(to: SocketAddr) -> Result<TcpStream> {
    let socket = cubic_socket(to)?;
    // The send timeout bounds a connect as well.
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(Duration::from_secs(5)))?;
    net::connect(&socket, &to).with_context(|| format!("connecting to {to}"))?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(TcpStream::from(socket))
}

/// Sets CUBIC before the connection is made. If the machine's default is BBR, a connection would
/// keep pacing after a later change to CUBIC, and pacing makes the kernel slower.
fn cubic_socket(at: SocketAddr) -> Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .context("making a socket")?;
    sockopt::set_tcp_congestion(&socket, "cubic")
        .context("setting TCP_CONGESTION to cubic (try `modprobe tcp_cubic`)")?;
    Ok(socket)
}

/// Writes until the time is over, then closes its direction of the connection. Returns the number
/// of writes.
pub fn write_for(
    mut stream: TcpStream,
    settings: Settings,
    seconds: f64,
) -> Result<(EndOfTransfer, Instant)> {
    stream.set_nodelay(settings.nodelay)?;
    let data = pattern(settings.write);
    // The clock is read once for every 128 KiB, whatever the size of a write.
    let burst = UNIT.div_ceil(settings.write) as u64;
    let limit = Duration::from_secs_f64(seconds);
    let (start, cpu) = (Instant::now(), thread_cpu_s());
    let mut count = 0;
    while start.elapsed() < limit {
        for _ in 0..burst {
            stream.write_all(&data).context("writing")?;
        }
        count += burst;
    }
    stream.shutdown(Shutdown::Write)?;
    Ok((EndOfTransfer { count, cpu_s: thread_cpu_s() - cpu }, start))
}

/// Reads until the end of the stream. Returns the number of bytes.
pub fn read_all(mut stream: TcpStream) -> Result<(EndOfTransfer, Instant)> {
    let mut sink = vec![0_u8; UNIT];
    let cpu = thread_cpu_s();
    let mut count = 0;
    loop {
        match stream.read(&mut sink).context("reading")? {
            0 => break,
            n => count += n as u64,
        }
    }
    Ok((EndOfTransfer { count, cpu_s: thread_cpu_s() - cpu }, Instant::now()))
}
