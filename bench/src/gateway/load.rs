//! The program behind a gateway: `wirespeed-bench load`. It makes traffic as it is told on standard
//! input, one command a line, and answers each with a line. Called by `main.rs`, which `client.rs`
//! starts in the private network of the gateway under test. It ends at the end of its input, so
//! nothing is left of it when the bench ends, however it ends.
//!
//! Commands: `start KIND FLOWS`, `count`, `stop`, `hold FLOWS`, `names COUNT`. The server is
//! `server.rs`.

use std::io::{BufRead, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::server::{self, Ask, datagrams_received};
use crate::measure::pattern;
use crate::peers::kernel::UNIT;

/// What the threads of a load count, and when they end.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    bytes: AtomicU64,
    units: AtomicU64,
    errors: AtomicU64,
}

/// A load that runs.
struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Connections, to end what their threads wait for.
    streams: Vec<TcpStream>,
}

impl Load {
    fn stop(self) -> Result<()> {
        self.shared.stop.store(true, Relaxed);
        for stream in &self.streams {
            // It may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a thread of the load panicked"))?;
        }
        Ok(())
    }
}

/// Obeys the commands until the end of standard input.
///
/// # Errors
/// The server cannot be reached, or a command is unknown.
pub fn run() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .context("raising the limit of open files")?;
    let mut out = std::io::stdout();
    writeln!(out, "ready")?;
    let mut load: Option<Load> = None;
    let mut held = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.context("reading commands")?;
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["start", kind, flows] => {
                load = Some(start(kind, flows.parse()?)?);
                "ok".to_owned()
            }
            ["count"] => match &load {
                Some(load) => {
                    let of = |counter: &AtomicU64| counter.load(Relaxed);
                    let Shared { bytes, units, errors, .. } = &*load.shared;
                    let [bytes, units, errors] = [bytes, units, errors].map(of);
                    format!("{bytes} {units} {errors} {}", datagrams_received()?)
                }
                None => bail!("there is no load to count"),
            },
            ["stop"] => {
                load.take().map_or(Ok(()), Load::stop)?;
                "ok".to_owned()
            }
            ["hold", flows] => {
                held = hold(flows.parse()?)?;
                format!("ok {}", held.len())
            }
            ["names", count] => {
                ask_for_names(count.parse()?)?;
                "ok".to_owned()
            }
            _ => bail!("no command '{line}'"),
        };
        writeln!(out, "{answer}")?;
    }
    drop(held);
    Ok(())
}

/// Connects with CUBIC or, where an ordinary user may not have it, Reno.
fn connect(to: SocketAddr) -> Result<TcpStream> {
    let kind = (AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = socket_with(kind.0, kind.1, kind.2, None).context("making a socket")?;
    if sockopt::set_tcp_congestion(&socket, "cubic").is_err() {
        sockopt::set_tcp_congestion(&socket, "reno").context("setting TCP_CONGESTION")?;
    }
    // The send timeout bounds a connect as well.
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(Duration::from_secs(5)))?;
    rustix::net::connect(&socket, &to).with_context(|| format!("connecting to {to}"))?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(TcpStream::from(socket))
}

fn start(kind: &str, flows: usize) -> Result<Load> {
    let mut load = Load { shared: Arc::default(), threads: vec![], streams: vec![] };
    for flow in 0..flows {
        match kind {
            "up" => load.tcp(Ask::Take, upload)?,
            "down" => load.tcp(Ask::Give, download)?,
            "both" => {
                load.tcp(Ask::Take, upload)?;
                load.tcp(Ask::Give, download)?;
            }
            "echo" => load.tcp(Ask::Echo, round_trips)?,
            "connect" => load.thread(move |shared| connects(shared, flow)),
            "udp-up" => load.udp(|socket, shared| flood(socket, 64, shared))?,
            "udp-down" => load.udp(ask_for_datagrams)?,
            _ => bail!("no load '{kind}'"),
        }
    }
    Ok(load)
}

impl Load {
    fn thread(&mut self, work: impl FnOnce(&Shared) + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        self.threads.push(std::thread::spawn(move || work(&shared)));
    }

    fn tcp(&mut self, ask: Ask, work: fn(TcpStream, &Shared)) -> Result<()> {
        let mut stream = connect(server::stream_address())?;
        stream.set_nodelay(true)?;
        // What is on the way when the load stops is thrown away.
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        stream.write_all(&[ask as u8]).context("asking the server")?;
        self.streams.push(stream.try_clone()?);
        self.thread(move |shared| work(stream, shared));
        Ok(())
    }

    fn udp(&mut self, work: impl FnOnce(UdpSocket, &Shared) + Send + 'static) -> Result<()> {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).context("binding")?;
        socket.connect(server::datagram_address()).context("connecting a UDP socket")?;
        self.thread(move |shared| work(socket, shared));
        Ok(())
    }
}

/// Does this call end the load? It ends when it is told to stop; another end is an error.
fn ends<T>(result: std::io::Result<T>, shared: &Shared) -> Option<T> {
    match result {
        Ok(done) if !shared.stop.load(Relaxed) => Some(done),
        Ok(_) => None,
        Err(_) => {
            if !shared.stop.load(Relaxed) {
                shared.errors.fetch_add(1, Relaxed);
            }
            None
        }
    }
}

fn upload(mut stream: TcpStream, shared: &Shared) {
    let data = pattern(UNIT);
    while let Some(()) = ends(stream.write_all(&data), shared) {
        shared.units.fetch_add(1, Relaxed);
    }
}

fn download(mut stream: TcpStream, shared: &Shared) {
    let mut sink = vec![0; UNIT];
    while let Some(bytes) = ends(stream.read(&mut sink), shared) {
        if bytes == 0 {
            shared.errors.fetch_add(1, Relaxed);
            return;
        }
        shared.bytes.fetch_add(bytes as u64, Relaxed);
    }
}

/// 64 bytes there and back, one after the other.
fn round_trips(mut stream: TcpStream, shared: &Shared) {
    let (message, mut answer) = ([7; 64], [0; 64]);
    loop {
        let result = stream.write_all(&message).and_then(|()| stream.read_exact(&mut answer));
        if ends(result, shared).is_none() {
            return;
        }
        shared.units.fetch_add(1, Relaxed);
    }
}

/// Connections that the server closes at once.
fn connects(shared: &Shared, flow: usize) {
    let to = server::short_address(flow);
    while !shared.stop.load(Relaxed) {
        let closed = connect(to).and_then(|mut stream| Ok(stream.read(&mut [0])?));
        match closed {
            Ok(0) => shared.units.fetch_add(1, Relaxed),
            Ok(_) | Err(_) => shared.errors.fetch_add(1, Relaxed),
        };
    }
}

/// Datagrams as fast as the kernel takes them.
fn flood(socket: UdpSocket, bytes: usize, shared: &Shared) {
    let data = pattern(bytes);
    while !shared.stop.load(Relaxed) {
        match socket.send(&data) {
            Ok(_) => shared.units.fetch_add(1, Relaxed),
            // The queue of the interface is full.
            Err(_) => shared.errors.fetch_add(1, Relaxed),
        };
    }
}

/// Ask the server for datagrams, again and again, and read them.
fn ask_for_datagrams(socket: UdpSocket, shared: &Shared) {
    if socket.set_read_timeout(Some(server::ASK_AGAIN)).is_err() {
        return;
    }
    let mut into = [0; 2048];
    let mut asked: Option<std::time::Instant> = None;
    while !shared.stop.load(Relaxed) {
        if asked.is_none_or(|at| at.elapsed() >= server::ASK_AGAIN) {
            let sent = socket.send(&[0]);
            shared.errors.fetch_add(u64::from(sent.is_err()), Relaxed);
            asked = Some(std::time::Instant::now());
        }
        for _ in 0..64 {
            match socket.recv(&mut into) {
                Ok(bytes) => shared.bytes.fetch_add(bytes as u64, Relaxed),
                Err(_) => break,
            };
            shared.units.fetch_add(1, Relaxed);
        }
    }
}

/// Where the resolver of `wirespeed netns` is.
const RESOLVER: (&str, u16) = ("10.0.2.3", server::NAMES);

/// Ask the resolver for the addresses of so many names (RFC 1035 section 4.1).
fn ask_for_names(count: u16) -> Result<()> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).context("binding")?;
    socket.connect(RESOLVER).context("connecting to the resolver")?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut into = [0; 512];
    for number in 0..count {
        let [high, low] = number.to_be_bytes();
        let mut message = vec![high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in [&format!("n{number}"), "names", "example"] {
            message.push(label.len() as u8);
            message.extend(label.bytes());
        }
        message.extend([0, 0, 1, 0, 1]);
        socket.send(&message).context("asking for a name")?;
        let bytes = socket.recv(&mut into).context("waiting for a name")?;
        let is_answer = into[..bytes].starts_with(&message[..2]) && bytes > 8;
        ensure!(is_answer && into[3] & 15 == 0 && into[7] > 0, "a name was not answered");
    }
    Ok(())
}

/// Connections that have carried 64 bytes there and back, and are idle.
fn hold(flows: usize) -> Result<Vec<TcpStream>> {
    let one = || -> Result<TcpStream> {
        let mut stream = connect(server::stream_address())?;
        let mut message = [7; 65];
        message[0] = Ask::Echo as u8;
        stream.write_all(&message)?;
        stream.read_exact(&mut message[1..]).context("reading an echo")?;
        ensure!(message[1..] == [7; 64], "the echo is another one");
        Ok(stream)
    };
    (0..flows).map(|_| one()).collect()
}
