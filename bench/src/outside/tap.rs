//! Our stack over a TAP, with the kernel's TCP at the other end of the wire. Called by `outside`.
//! CPU-seconds include the threads of both ends, as they do in measurements between two kernels.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use base::Owner;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use stack::{CallError, Event, ListenConfig, TcpHandle};

use super::host::{End, Host, KERNEL, OURS, at, wire};
use crate::measure::{Cores, Measurement, pattern, pin, thread_cpu_s};
use crate::namespace::enter;
use crate::peers::kernel::{
    Placement, Settings, UNIT, accept, connect, listen, read_all, write_for,
};

const PORT: u16 = 5001;

/// Bytes of one write by our program.
const WRITE: usize = 16 << 10;

/// The parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The TAP has a virtio header: it handles checksums and super-segments.
    pub(super) offload: bool,
    /// The cores of the kernel's end and of ours.
    pub(super) placement: Placement,
    /// Bytes of our socket buffers. They are small so that data in flight is still in the cache
    /// when it is copied out.
    pub(super) buffer_bytes: u32,
    pub(super) data: Data,
    pub(super) mtu: usize,
}

/// How our program passes data to the stack, and gets data from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// By `tcp_write` and `tcp_read`: copied from and to the program's memory.
    Copied,
    /// In loaned buffers: the program fills a loaned buffer byte by byte, and gets received data in
    /// another loaned buffer.
    Loaned,
}

impl Data {
    fn words(self) -> &'static str {
        match self {
            Data::Copied => "16 KiB writes",
            Data::Loaned => "loaned buffers",
        }
    }
}

impl Shape {
    fn tcp(self) -> tcp::Config {
        tcp::Config {
            receive_buffer_bytes: self.buffer_bytes,
            receive_buffer_max_bytes: 0,
            send_buffer_bytes: self.buffer_bytes,
            send_buffer_max_bytes: 0,
            ..tcp::Config::default()
        }
    }
}

/// The result of one run.
pub(super) struct Ours {
    /// The figures of both ends together.
    pub(super) both: Measurement,
    /// The user time of our thread, in seconds.
    pub(super) user_s: f64,
}

impl Ours {
    /// All figures; `settings` also gives the user time.
    pub(super) fn measurement(self) -> Measurement {
        let units = self.both.bytes / (64 << 10);
        let user_ns = self.user_s * 1e9 / units as f64;
        let settings = format!("{}; user time {user_ns:.0} ns for 64 KB", self.both.settings);
        Measurement { units, settings, ..self.both }
    }

    /// The user time only. `units` of the result counts pieces of 64 KB.
    pub(super) fn user_time(self) -> Measurement {
        let units = self.both.bytes / (64 << 10);
        Measurement { cpu_s: self.user_s, units, ..self.both }
    }
}

/// The kernel writes, and our stack reads.
pub(super) fn receive(cores: Cores, shape: Shape, seconds: f64) -> Result<Ours> {
    let (kernel_core, our_core) = shape.placement.split(cores)?;
    let (host, end) = wire(shape.offload, shape.mtu)?;
    thread::scope(|scope| {
        let kernel = scope.spawn(move || {
            pin(&[kernel_core])?;
            enter(&host.namespace)?;
            let stream = connect(at(OURS, PORT)).context("connecting to our stack")?;
            write_for(stream, Settings::bulk(shape.placement), seconds)
        });
        let ours = scope.spawn(move || {
            pin(&[our_core])?;
            read_until_closed(end, shape, seconds)
        });
        let ours = ours.join().map_err(|_| anyhow!("our end panicked"))?;
        let (wrote, start) = kernel.join().map_err(|_| anyhow!("the kernel's end panicked"))??;
        let (bytes, spent, stop) = ours?;
        ensure!(bytes == wrote.count * UNIT as u64, "bytes were lost on the way");
        Ok(figures(bytes, stop - start, wrote.cpu_s, spent, shape))
    })
}

/// Our stack writes, and the kernel reads.
pub(super) fn send(cores: Cores, shape: Shape, seconds: f64) -> Result<Ours> {
    let (kernel_core, our_core) = shape.placement.split(cores)?;
    let (host, end) = wire(shape.offload, shape.mtu)?;
    let (listening, listens) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let kernel = scope.spawn(move || {
            pin(&[kernel_core])?;
            let Host { namespace } = host;
            enter(&namespace)?;
            let listener = listen(at(KERNEL, PORT))?;
            listening.send(()).context("our end went away")?;
            read_all(accept(&listener)?)
        });
        let ours = scope.spawn(move || {
            pin(&[our_core])?;
            listens.recv().map_err(|_| anyhow!("the kernel's end did not start"))?;
            write_then_close(end, shape, seconds)
        });
        let ours = ours.join().map_err(|_| anyhow!("our end panicked"))?;
        let (read, stop) = kernel.join().map_err(|_| anyhow!("the kernel's end panicked"))??;
        let (bytes, spent, start) = ours?;
        ensure!(read.count == bytes, "bytes were lost on the way");
        Ok(figures(bytes, stop - start, read.cpu_s, spent, shape))
    })
}

/// Transfers in both directions, one after the other, each for half of the time. They are measured
/// by wall time.
pub(super) fn both_ways(cores: Cores, shape: Shape, seconds: f64) -> Result<Measurement> {
    let there = receive(cores, shape, seconds / 2.0)?.both;
    let back = send(cores, shape, seconds / 2.0)?.both;
    Ok(Measurement {
        bytes: there.bytes + back.bytes,
        wall_s: there.wall_s + back.wall_s,
        cpu_s: there.cpu_s + back.cpu_s,
        ..back
    })
}

/// The CPU time that our thread has used.
struct Spent {
    cpu_s: f64,
    user_s: f64,
}

impl Spent {
    fn so_far() -> Result<Spent> {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).context("asking for user time")?;
        let user_s = usage.user_time().num_microseconds() as f64 * 1e-6;
        Ok(Spent { cpu_s: thread_cpu_s(), user_s })
    }

    fn since(self) -> Result<Spent> {
        let now = Spent::so_far()?;
        Ok(Spent { cpu_s: now.cpu_s - self.cpu_s, user_s: now.user_s - self.user_s })
    }
}

fn figures(bytes: u64, wall: Duration, kernel_cpu_s: f64, spent: Spent, shape: Shape) -> Ours {
    let offload = if shape.offload { "with" } else { "without" };
    let settings = format!(
        "TAP MTU {} {offload} vnet_hdr, {}, buffers {} KiB, {}",
        shape.mtu,
        shape.data.words(),
        shape.buffer_bytes >> 10,
        shape.placement.words()
    );
    let cpu_s = spent.cpu_s + kernel_cpu_s;
    let wall_s = wall.as_secs_f64();
    let both = Measurement { bytes, wall_s, cpu_s, settings, ..Measurement::default() };
    Ours { both, user_s: spent.user_s }
}

fn read_until_closed(mut end: End, shape: Shape, seconds: f64) -> Result<(u64, Spent, Instant)> {
    let listen = ListenConfig { tcp: shape.tcp(), ..ListenConfig::default() };
    let listener =
        end.stack.tcp_listen(at(OURS, PORT), listen).map_err(|e| anyhow!("listen: {e:?}"))?;
    let mut into = vec![0; UNIT];
    let (mut bytes, mut spent, mut handle) = (0, None, None);
    let limit = Instant::now() + Duration::from_secs_f64(seconds + 10.0);
    while Instant::now() < limit {
        end.turn()?;
        while let Some(event) = end.stack.next_event() {
            if matches!(event, Event::Accept(_)) {
                handle = end.stack.tcp_accept(listener);
                spent = Some(Spent::so_far()?);
            }
        }
        let Some(h) = handle else { continue };
        loop {
            let read = match shape.data {
                Data::Copied => end.stack.tcp_read(h, &mut into),
                Data::Loaned => take(&mut end, h),
            };
            match read {
                Ok(0) => {
                    let spent = spent.context("nothing was accepted")?.since()?;
                    let stop = Instant::now();
                    end.stack.tcp_close(h);
                    end.turn()?;
                    return Ok((bytes, spent, stop));
                }
                Ok(n) => bytes += n as u64,
                Err(CallError::WouldBlock) => break,
                Err(error) => bail!("read: {error:?}"),
            }
        }
    }
    bail!("the kernel's end did not close in time")
}

fn write_then_close(mut end: End, shape: Shape, seconds: f64) -> Result<(u64, Spent, Instant)> {
    let data = pattern(UNIT);
    let now = end.now();
    let config = shape.tcp();
    let handle = end
        .stack
        .tcp_connect(at(KERNEL, PORT), None, &config, Owner::program(), now)
        .map_err(|e| anyhow!("connect: {e:?}"))?;
    let limit = Instant::now() + Duration::from_secs(5);
    while !is_connected(&mut end, handle) {
        ensure!(Instant::now() < limit, "the kernel did not answer");
        end.turn()?;
    }
    let (spent, start) = (Spent::so_far()?, Instant::now());
    let (mut at, mut bytes) = (0, 0);
    while start.elapsed().as_secs_f64() < seconds {
        loop {
            let written = match shape.data {
                Data::Copied => end.stack.tcp_write(handle, &data[at..(at + WRITE).min(UNIT)]),
                Data::Loaned => make(&mut end, handle, bytes as u8),
            };
            match written {
                Ok(n) => {
                    bytes += n as u64;
                    at = (at + n) % UNIT;
                }
                Err(CallError::WouldBlock) => break,
                Err(error) => bail!("write: {error:?}"),
            }
        }
        end.stack.flush();
        end.turn()?;
    }
    end.stack.tcp_shutdown_write(handle);
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        end.turn()?;
        match end.stack.tcp_read(handle, &mut [0; 1]) {
            Ok(_) => return Ok((bytes, spent.since()?, start)),
            Err(CallError::WouldBlock) => {
                ensure!(Instant::now() < limit, "the kernel's end did not close in time")
            }
            Err(error) => bail!("read: {error:?}"),
        }
    }
}

/// Takes the oldest received buffer and gives it back. Returns its length, or 0 at the end of the
/// stream.
fn take(end: &mut End, handle: TcpHandle) -> Result<usize, CallError> {
    let Some(buffer) = end.stack.tcp_read_mbuf(handle)? else { return Ok(0) };
    let len = buffer.len();
    end.stack.give_back(buffer);
    Ok(len)
}

/// Fills a loaned buffer with `byte` and sends it.
fn make(end: &mut End, handle: TcpHandle, byte: u8) -> Result<usize, CallError> {
    end.stack.tcp_writable(handle)?;
    let (mut buffer, len) = end.stack.tcp_alloc(handle).ok_or(CallError::WouldBlock)?;
    buffer.put(len, |bytes| bytes.fill(byte));
    end.stack.tcp_write_mbuf(handle, buffer).map_err(|(error, buffer)| {
        end.stack.give_back(buffer);
        error
    })?;
    Ok(len)
}

fn is_connected(end: &mut End, handle: TcpHandle) -> bool {
    while let Some(event) = end.stack.next_event() {
        if let Event::Tcp(of, events) = event
            && of == handle
            && events.has(tcp::Events::CONNECTED)
        {
            return true;
        }
    }
    false
}
