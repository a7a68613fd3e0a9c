//! Makes a recording: Linux sends bulk data to a stack of ours over a TAP without offload, and the
//! header fields of its segments are recorded as they are read. Called by `main.rs`. It needs a
//! network namespace, and so CAP_SYS_ADMIN. A relay between the TAP and the stack sees each burst
//! as the TAP returns it.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant as Clock};

use anyhow::{Context, Result, anyhow, ensure};
use base::{Cidr, Instant, LinkKind, MacAddr, SeqNumber};
use device::tap::{Config, Setup, Tap};
use device::{Burst, Device, mem};
use mbuf::Pool;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sim::seen;
use stack::{ListenConfig, PortConfig, Stack, StackConfig};

use super::{Recording, Segment};
use crate::namespace::{enter, ip};
use crate::outside::host::in_new_namespace;
use crate::peers::kernel::{self, UNIT};

pub(super) const PORT: u16 = 5001;
pub(super) const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0x93, 0, 2]);
/// How many segments are skipped before the recording begins: slow start is another kind of
/// traffic.
const SKIPPED: usize = 20_000;

/// The kind of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// How many connections send at the same time.
    pub flows: u8,
}

/// Records this many data segments.
///
/// # Errors
/// If a namespace or a TAP cannot be made, or if a segment was lost.
pub fn record(kind: Kind, segments: usize) -> Result<Recording> {
    while_linux_sends(kind, |tap| receive(kind, tap, SKIPPED + segments))
}

/// Call `receive` with a TAP over which the kernel sends until `receive` returns.
pub(super) fn while_linux_sends<T>(
    kind: Kind,
    receive: impl FnOnce(Tap) -> Result<T>,
) -> Result<T> {
    let (namespace, tap) = host_with_tap(kind)?;
    let to = SocketAddr::new(kind.ours().addr, PORT);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..kind.flows {
            let (namespace, done) = (namespace.try_clone()?, &done);
            scope.spawn(move || -> Result<()> {
                enter(&namespace)?;
                let mut stream = connect(to)?;
                // When the receiver has enough segments it stops answering. Then a timeout ends the
                // write.
                stream.set_write_timeout(Some(Duration::from_millis(200)))?;
                let data = vec![0x5a; UNIT];
                while !done.load(Ordering::Relaxed) {
                    if let Err(error) = stream.write_all(&data)
                        && !done.load(Ordering::Relaxed)
                    {
                        return Err(error.into());
                    }
                }
                Ok(())
            });
        }
        let received = receive(tap);
        done.store(true, Ordering::Relaxed);
        received
    })
}

/// Connects, and tries again if needed: the kernel's IPv6 address may be tentative for a while.
fn connect(to: SocketAddr) -> Result<TcpStream> {
    let start = Clock::now();
    loop {
        match kernel::connect(to) {
            Err(_) if start.elapsed() < Duration::from_secs(5) => {
                thread::sleep(Duration::from_millis(50));
            }
            done => return done,
        }
    }
}

/// Runs our end and the relay until enough was recorded. Then the TAP is removed, which ends the
/// kernel's connections.
fn receive(kind: Kind, mut tap: Tap, most: usize) -> Result<Recording> {
    let fd = tap.as_fd().context("the TAP is gone")?.try_clone_to_owned()?;
    let (inside, mut wire) = mem::pair(&mem::Config { depth_bytes: 4 << 20, ..Default::default() });
    let mut stack = Stack::new(StackConfig::new([0x1988, 0x1989]));
    let addresses = vec![kind.ours()];
    let port = stack.add_port(
        Box::new(inside),
        PortConfig { mac: OUR_MAC, addresses, ..PortConfig::default() },
    );
    let kernel_mac = tap.kernel_mac().context("no link address")?;
    stack.add_neighbour(port, kind.kernel().addr, kernel_mac);
    // The buffers are so small that the data in flight fits into the TAP's queue. Otherwise
    // segments would be dropped and retransmitted.
    let tcp = tcp::Config {
        receive_buffer_bytes: (1 << 20) / u32::from(kind.flows),
        receive_buffer_max_bytes: 0,
        ..tcp::Config::default()
    };
    let listen = ListenConfig { backlog: 256, tcp, ..ListenConfig::default() };
    let listener = stack
        .tcp_listen(SocketAddr::new(kind.ours().addr, PORT), listen)
        .map_err(|e| anyhow!("listen: {e:?}"))?;
    let (clock, mut pool) = (Clock::now(), Pool::new(64 << 20));
    let (mut handles, mut into) = (Vec::new(), vec![0; UNIT]);
    let (mut noted, mut flows) = (Vec::new(), HashMap::new());
    while noted.len() < most {
        ensure!(clock.elapsed() < Duration::from_secs(30), "{} segments in 30 s", noted.len());
        let mut burst = Burst::new();
        tap.rx_burst(&mut pool, &mut burst);
        note(kind.v6, &burst, &mut flows, &mut noted)?;
        while !burst.is_empty() {
            wire.tx_burst(&mut pool, &mut burst);
            stack.poll(Instant::from_nanos(clock.elapsed().as_nanos() as u64 + 1));
        }
        while stack.next_event().is_some() {}
        handles.extend(core::iter::from_fn(|| stack.tcp_accept(listener)));
        for &handle in &handles {
            while stack.tcp_read(handle, &mut into).is_ok_and(|n| n > 0) {}
        }
        let work = stack.poll(Instant::from_nanos(clock.elapsed().as_nanos() as u64 + 1));
        while wire.rx_burst(&mut pool, &mut burst) > 0 {
            while !burst.is_empty() {
                tap.tx_burst(&mut pool, &mut burst);
            }
        }
        if work == 0 {
            let timeout = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout))?;
        }
    }
    let kept = noted.split_off(SKIPPED);
    Ok(Recording { v6: kind.v6, flows: kind.flows, segments: relative(kept) })
}

/// A segment, and its timestamps as they were sent.
struct Noted {
    segment: Segment,
    value: u32,
    echo: u32,
}

/// Records the data segments of a burst. `flows` maps each connection to its number and its next
/// sequence number.
fn note(
    v6: bool,
    burst: &Burst,
    flows: &mut HashMap<u16, (u8, SeqNumber)>,
    noted: &mut Vec<Noted>,
) -> Result<()> {
    let mut starts_burst = true;
    for frame in burst {
        let bytes = frame.as_slice();
        let Some(seen) = seen::segment(bytes, LinkKind::Ethernet).filter(|s| s.len > 0) else {
            continue;
        };
        let timestamps = seen.timestamps.context("a segment without timestamps")?;
        let number = flows.len() as u8;
        let (flow, next) = flows.entry(seen.src.port()).or_insert((number, seen.seq));
        ensure!(seen.seq == *next, "a segment was lost or retransmitted: record again");
        *next = seen.end();
        let segment = Segment {
            flow: *flow,
            flags: seen.flags.0,
            tos: if v6 { bytes[14] << 4 | bytes[15] >> 4 } else { bytes[15] },
            starts_burst: core::mem::take(&mut starts_burst),
            len: seen.len as u16,
            window: seen.window,
            id: if v6 { 0 } else { u16::from_be_bytes([bytes[18], bytes[19]]) },
            value: 0,
            echo: 0,
        };
        noted.push(Noted { segment, value: timestamps.value, echo: timestamps.echo });
    }
    Ok(())
}

/// Makes the timestamps relative to each flow's first segment.
fn relative(noted: Vec<Noted>) -> Vec<Segment> {
    let mut firsts = HashMap::new();
    let relative = |Noted { segment, value, echo }| {
        let &mut (first_value, first_echo) = firsts.entry(segment.flow).or_insert((value, echo));
        let value = u32::wrapping_sub(value, first_value) as u16;
        Segment { value, echo: u32::wrapping_sub(echo, first_echo) as u16, ..segment }
    };
    noted.into_iter().map(relative).collect()
}

impl Kind {
    /// The kernel's address and prefix.
    pub(super) fn kernel(self) -> Cidr {
        self.address(1)
    }

    pub(super) fn ours(self) -> Cidr {
        self.address(2)
    }

    fn address(self, number: u8) -> Cidr {
        if self.v6 {
            let addr = Ipv6Addr::new(0xfd00, 0x93, 0, 0, 0, 0, 0, u16::from(number));
            Cidr { addr: addr.into(), prefix_len: 64 }
        } else {
            Cidr { addr: Ipv4Addr::new(10, 93, 0, number).into(), prefix_len: 24 }
        }
    }
}

/// A namespace with a TAP in it. The TAP is up and has the kernel's address; our link address is in
/// the kernel's neighbour table.
fn host_with_tap(kind: Kind) -> Result<(File, Tap)> {
    in_new_namespace(move || {
        // An IPv6 address cannot be used while duplicate address detection runs, so turn that off.
        // A kernel without IPv6 has no such files; then setting the address fails.
        for what in ["all", "default"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{what}/accept_dad"), "0");
        }
        let mut tap = Tap::open(&Config { vnet_hdr: false, ..Config::default() })?;
        tap.configure(&Setup { addresses: vec![kind.kernel()], up: true, ..Setup::default() })?;
        let ours = kind.ours().addr;
        ip(&format!("neigh add {ours} lladdr {OUR_MAC} dev {}", tap.name()))?;
        Ok(tap)
    })
}
