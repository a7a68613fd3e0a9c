//! A listener of ours at a TAP. At the TAP's other end is the kernel with two programs: an honest
//! one, and one that sends SYNs from forged addresses as fast as the device takes them. Called by
//! `proof`. The flood and the honest flow share the device, the stack and this machine's cores.
//! Without a flood both ends reach the flow's rate easily.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use base::{MacAddr, SeqNumber};
use device::tap::{Config, Setup, Tap};
use net::{Net, TcpListener, blocking};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use stack::{PortConfig, Stack, StackConfig};
use wire::checksum::{Ladder, Sum};
use wire::tcp::{Flags, Header};
use wire::{ipv4, protocol, tcp};

use crate::harness::{Bench, Figure};
use crate::measure::{median, pin};
use crate::namespace::{enter, ip};
use crate::outside::host::in_new_namespace;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 94, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 94, 0, 2);
const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0x94, 0, 2]);
const PORT: u16 = 80;
/// The forged addresses are in a network of their own, behind the kernel.
const FORGED: [u8; 2] = [10, 93];

/// Room for ten milliseconds of the flood, so that no frame is lost while another thread uses the
/// stack's core.
const QUEUE_FRAMES: u32 = 4_000;
/// The rate of the honest flow in bits per second.
const FLOW_BPS: f64 = 1e9;
/// The time between two connections, and the time that each may take.
const EVERY: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(3);

/// Our stack, the kernel's namespace, and the server.
struct Fixture {
    namespace: File,
    /// The core of our stack and the server. All other threads use the other core.
    core: usize,
    net: Net,
    driver: Option<net::DriverThread>,
    read: AtomicU64,
    /// How many SYNs were sent so far. Each is different.
    syns: AtomicU64,
    over: AtomicBool,
}

impl Fixture {
    fn new(b: &Bench) -> Result<Fixture> {
        let (namespace, tap) = in_new_namespace(|| {
            let mut tap = Tap::open(&Config { vnet_hdr: true, ..Config::default() })?;
            let addresses = vec![format!("{KERNEL}/24").parse().map_err(|e| anyhow!("{e:?}"))?];
            let queue_frames = Some(QUEUE_FRAMES);
            tap.configure(&Setup { addresses, queue_frames, up: true, ..Setup::default() })?;
            ip(&format!("neigh add {OURS} lladdr {OUR_MAC} dev {}", tap.name()))?;
            Ok(tap)
        })?;
        let kernel_mac = tap.kernel_mac().context("the TAP has no hardware address")?;
        let mut stack = Stack::new(StackConfig::new([0x1988, 0x1989]));
        let addresses = vec![format!("{OURS}/24").parse().map_err(|e| anyhow!("{e:?}"))?];
        let port = stack.add_port(
            Box::new(tap),
            PortConfig { mac: OUR_MAC, addresses, ..PortConfig::default() },
        );
        stack.add_neighbour(port, KERNEL.into(), kernel_mac);
        let forged = format!("{}.{}.0.0/16", FORGED[0], FORGED[1]);
        let dest = forged.parse().map_err(|e| anyhow!("{e:?}"))?;
        let via = Some(KERNEL.into());
        stack.add_route(stack::Route::new(dest, via, port.0));
        // The stack's threads inherit the affinity of this thread.
        let core = b.cores.second.unwrap_or(b.cores.first);
        pin(&[core])?;
        let spawned = Net::spawn_thread(stack);
        pin(&[b.cores.first])?;
        let (net, driver) = spawned?;
        let (read, syns, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Ok(Fixture { namespace, core, net, driver: Some(driver), read, syns, over })
    }

    /// Accept connections, and read all their data.
    fn serve(&self) -> Result<()> {
        pin(&[self.core])?;
        let at = SocketAddr::new(OURS.into(), PORT);
        let listener = blocking::TcpListener::from(TcpListener::bind(&self.net, at)?);
        listener.set_nonblocking(true)?;
        let mut into = vec![0; 128 << 10];
        let mut open: Vec<blocking::TcpStream> = Vec::new();
        while !self.over.load(Ordering::Relaxed) {
            let mut idle = true;
            while let Ok((stream, _)) = listener.accept() {
                stream.set_nonblocking(true)?;
                open.push(stream);
            }
            open.retain_mut(|stream| match stream.read(&mut into) {
                Ok(0) => false,
                Ok(n) => {
                    self.read.fetch_add(n as u64, Ordering::Relaxed);
                    idle = false;
                    true
                }
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            });
            if idle {
                thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(())
    }

    /// Send SYNs at full speed until the run is over. Returns how many were sent.
    fn flood(&self) -> Result<u64> {
        enter(&self.namespace)?;
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255)))
            .context("a raw socket needs CAP_NET_RAW")?;
        let to = SockAddr::from(SocketAddr::new(OURS.into(), 0));
        let before = self.syns.load(Ordering::Relaxed);
        let mut count = before;
        while !self.over.load(Ordering::Relaxed) {
            for _ in 0..64 {
                // Errors are ignored: if the queue is full, the device's rate is the limit.
                let _ = socket.send_to(&forged_syn(count as u32)?, &to);
                count += 1;
            }
        }
        self.syns.store(count, Ordering::Relaxed);
        Ok(count - before)
    }

    /// Run the flow for this time. Returns its rate in bits per second.
    fn flow(&self, seconds: f64) -> Result<f64> {
        enter(&self.namespace)?;
        let mut stream = connect()?;
        stream.set_write_timeout(Some(Duration::from_millis(200)))?;
        let data = vec![0x5a; 64 << 10];
        let (begun, before) = (Instant::now(), self.read.load(Ordering::Relaxed));
        let mut written = 0_usize;
        while begun.elapsed().as_secs_f64() < seconds {
            let due = (begun.elapsed().as_secs_f64() * FLOW_BPS / 8.0) as usize;
            // If the flow is late, it catches up at about twice its rate.
            for _ in 0..4 {
                if written < due && begun.elapsed().as_secs_f64() < seconds {
                    written += stream.write(&data).unwrap_or(0);
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        let read = self.read.load(Ordering::Relaxed) - before;
        Ok(read as f64 * 8.0 / begun.elapsed().as_secs_f64())
    }

    /// Open connections for this time. Returns how many were opened, and how many of them were
    /// established within [`PATIENCE`].
    fn connections(&self, seconds: f64) -> Result<(u64, u64)> {
        enter(&self.namespace)?;
        let begun = Instant::now();
        let waiting = thread::scope(|scope| {
            let mut asked = Vec::new();
            while begun.elapsed().as_secs_f64() < seconds {
                asked.push(scope.spawn(|| connect().is_ok()));
                thread::sleep(EVERY);
            }
            asked.into_iter().map(|one| one.join().unwrap_or(false)).collect::<Vec<bool>>()
        });
        let done = waiting.iter().filter(|&&done| done).count();
        Ok((waiting.len() as u64, done as u64))
    }

    /// Run `what` with a server, and with the flood if `with_flood` is set. Returns the result of
    /// `what`, and the number of SYNs per second.
    fn during<T: Send>(
        &self,
        with_flood: bool,
        what: impl FnOnce() -> Result<T> + Send,
    ) -> Result<(T, f64)> {
        self.over.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            let server = scope.spawn(|| self.serve());
            let begun = Instant::now();
            let flood = with_flood.then(|| scope.spawn(|| self.flood()));
            thread::sleep(Duration::from_millis(300));
            let result = scope.spawn(what).join();
            self.over.store(true, Ordering::Relaxed);
            let sent = flood.map(|flood| flood.join().map_err(|_| anyhow!("the flood panicked")));
            let sent = sent.transpose()?.transpose()?.unwrap_or(0);
            server.join().map_err(|_| anyhow!("the server panicked"))??;
            let result = result.map_err(|_| anyhow!("the client panicked"))??;
            Ok((result, sent as f64 / begun.elapsed().as_secs_f64()))
        })
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            // An error of the driver has been reported already.
            let _ = driver.stop();
        }
    }
}

fn connect() -> Result<TcpStream> {
    let to = SocketAddr::new(OURS.into(), PORT);
    Ok(TcpStream::connect_timeout(&to, PATIENCE)?)
}

/// An IPv4 packet with SYN number `n`, which has its own source address and port.
fn forged_syn(n: u32) -> Result<Vec<u8>> {
    let spread = n.wrapping_mul(0x9e37_79b9);
    let [a, b, c, d] = spread.to_be_bytes();
    let src = Ipv4Addr::new(FORGED[0], FORGED[1], a, b.max(1));
    let mut packet = vec![0; 40];
    let ip = ipv4::Header {
        header_len: 20,
        tos: 0,
        total_len: 40,
        id: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: protocol::TCP,
        src,
        dst: OURS,
    };
    ensure!(ip.emit(&mut packet), "no room for a header");
    let segment = &mut packet[20..];
    let header = Header {
        src_port: u16::from_be_bytes([c, d]).max(1024),
        dst_port: PORT,
        seq: SeqNumber(spread ^ n),
        ack: SeqNumber(0),
        header_len: 20,
        flags: Flags::SYN,
        window: 65_535,
        urgent: 0,
    };
    ensure!(header.emit(segment), "no room for a header");
    let sum = Sum::pseudo_v4(src, OURS, protocol::TCP).plus(Sum::of_be16(20));
    tcp::set_checksum(segment, sum.plus(Ladder::best().sum(segment)).field());
    Ok(packet)
}

/// The rate of the flow during the flood divided by its rate without a flood.
pub(super) fn goodput(b: &Bench) -> Result<Figure> {
    let fixture = Fixture::new(b)?;
    let (rounds, seconds) = if b.is_quick { (2, 1.0) } else { (7, 2.0) };
    let (mut samples, mut alone, mut syns) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (quiet, _) = fixture.during(false, || fixture.flow(seconds))?;
        let (flooded, per_s) = fixture.during(true, || fixture.flow(seconds))?;
        samples.push(flooded / quiet);
        alone.push(quiet);
        syns.push(per_s);
    }
    let note = format!(
        "the flow alone {:.2} Gb/s; {:.0} SYNs a second",
        median(&alone) / 1e9,
        median(&syns)
    );
    Ok(Figure { value: median(&samples), samples, note })
}

/// The share of connections requested during the flood that are established.
pub(super) fn connections(b: &Bench) -> Result<Figure> {
    let fixture = Fixture::new(b)?;
    let seconds = if b.is_quick { 2.0 } else { 10.0 };
    let ((asked, done), per_s) = fixture.during(true, || fixture.connections(seconds))?;
    ensure!(asked > 0, "no connection was requested");
    let value = done as f64 / asked as f64;
    let note = format!("{done} of {asked} within {PATIENCE:?}; {per_s:.0} SYNs a second");
    Ok(Figure { value, samples: vec![value], note })
}
