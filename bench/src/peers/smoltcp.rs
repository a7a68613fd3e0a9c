//! smoltcp: two interfaces on one thread, joined by queues of recycled buffers. Called by `core.rs`
//! and by `wirespeed-bench peer smoltcp CASE`. Checksums are computed and verified in both
//! directions, as is smoltcp's default. The application copies at both ends with `send_slice` and
//! `recv_slice`. Nothing sleeps, and no frame is lost. smoltcp's congestion control is off by
//! default and stays off, because this is its fastest setting.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant as Clock};

use anyhow::{Result, anyhow, ensure};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};

use super::kernel::UNIT;
use crate::measure::{Measurement, pattern, thread_cpu_s};

/// Settings that can be changed from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// MTU of the link, IP header included.
    pub mtu: usize,
    /// Bytes of the send buffer and of the receive buffer of each socket.
    pub buffer: usize,
    /// Are frames Ethernet with ARP? Otherwise they are plain IP packets.
    pub ethernet: bool,
    /// Does smoltcp delay ACKs (by 10 ms)? Otherwise it sends an ACK for every segment.
    pub delayed_ack: bool,
}

/// The combinations to try at an MTU. The best one is found once and then used. Ethernet is not
/// among them, because it was 2 to 5 % slower with every buffer size.
pub fn candidates(mtu: usize) -> Vec<Settings> {
    let mut all = Vec::new();
    for buffer in [32, 64, 96, 128, 256, 512, 1024].map(|kib| kib << 10) {
        for delayed_ack in [true, false] {
            all.push(Settings { mtu, buffer, ethernet: false, delayed_ack });
        }
    }
    all
}

/// Moves bytes in one direction for `seconds`.
pub fn bulk(settings: Settings, seconds: f64) -> Result<Measurement> {
    let mut world = World::new(settings)?;
    world.connect()?;
    let source = pattern(UNIT);
    let mut sink = vec![0_u8; UNIT];
    let (start, cpu) = (Clock::now(), thread_cpu_s());
    let limit = Duration::from_secs_f64(seconds);
    let (mut sent, mut received, mut idle) = (0_u64, 0_u64, 0_u32);
    world.client.device.frames = 0;
    loop {
        let elapsed = start.elapsed();
        if elapsed >= limit {
            break;
        }
        sent += world.client.send(&source, (sent % source.len() as u64) as usize)?;
        world.step();
        let got = world.server.receive(&mut sink)?;
        received += got;
        idle = if got == 0 { idle + 1 } else { 0 };
        ensure!(idle < 10_000_000, "smoltcp stopped moving bytes with {settings:?}");
    }
    ensure!(received <= sent, "smoltcp delivered more than was sent");
    Ok(Measurement {
        bytes: received,
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: thread_cpu_s() - cpu,
        units: world.client.device.frames,
        p50_ns: None,
        settings: describe(settings),
    })
}

/// The settings in words.
pub fn describe(s: Settings) -> String {
    format!(
        "smoltcp 0.14, one thread, {} medium, MTU {}, buffers {} KiB, delayed ACK {}",
        if s.ethernet { "Ethernet" } else { "IP" },
        s.mtu,
        s.buffer >> 10,
        if s.delayed_ack { "10 ms" } else { "off" }
    )
}

/// Two ends and their common clock.
struct World {
    client: End,
    server: End,
    epoch: Clock,
}

impl World {
    fn new(settings: Settings) -> Result<World> {
        let spare = Spare::default();
        let client = End::new(settings, 1, spare.clone())?;
        let server = End::new(settings, 2, spare)?;
        Ok(World { client, server, epoch: Clock::now() })
    }

    fn connect(&mut self) -> Result<()> {
        self.server.socket().listen(5001).map_err(|e| anyhow!("smoltcp listen: {e}"))?;
        let (handle, remote) = (self.client.handle, (IpAddress::v4(10, 0, 0, 2), 5001));
        let socket = self.client.sockets.get_mut::<tcp::Socket>(handle);
        let context = self.client.iface.context();
        socket.connect(context, remote, 49152).map_err(|e| anyhow!("smoltcp connect: {e}"))?;
        for _ in 0..1000 {
            self.step();
            if self.client.socket().may_send() && self.server.socket().may_recv() {
                return Ok(());
            }
        }
        Err(anyhow!("smoltcp did not connect in 1000 polls"))
    }

    /// One turn of each end. After each turn the frames are moved to the other end.
    fn step(&mut self) {
        let micros = self.epoch.elapsed().as_micros() as i64;
        let now = Instant::from_micros(micros);
        self.client.poll(now);
        carry(&mut self.client.device, &mut self.server.device);
        self.server.poll(now);
        carry(&mut self.server.device, &mut self.client.device);
    }
}

/// Moves the frames from one end to the other.
fn carry(from: &mut Wire, to: &mut Wire) {
    if to.rx.is_empty() {
        mem::swap(&mut from.tx, &mut to.rx);
    } else {
        to.rx.append(&mut from.tx);
    }
}

/// One interface with one socket.
struct End {
    device: Wire,
    iface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
}

impl End {
    fn new(settings: Settings, host: u8, spare: Spare) -> Result<End> {
        let mut device = Wire::new(settings, spare);
        let address = match settings.ethernet {
            true => HardwareAddress::Ethernet(EthernetAddress([2, 0, 0, 0, 0, host])),
            false => HardwareAddress::Ip,
        };
        let mut config = Config::new(address);
        config.random_seed = u64::from(host);
        let mut iface = Interface::new(config, &mut device, Instant::ZERO);
        let mut full = false;
        iface.update_ip_addrs(|addrs| {
            full = addrs.push(IpCidr::new(IpAddress::v4(10, 0, 0, host), 24)).is_err();
        });
        ensure!(!full, "smoltcp has no room for an address");
        let buffer = || tcp::SocketBuffer::new(vec![0; settings.buffer]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        if !settings.delayed_ack {
            socket.set_ack_delay(None);
        }
        let mut sockets = SocketSet::new(vec![]);
        let handle = sockets.add(socket);
        Ok(End { device, iface, sockets, handle })
    }

    fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    fn poll(&mut self, now: Instant) {
        self.iface.poll(now, &mut self.device, &mut self.sockets);
    }

    /// Writes as much of `source` as the socket takes, from offset `at` on.
    fn send(&mut self, source: &[u8], mut at: usize) -> Result<u64> {
        let socket = self.socket();
        let mut total = 0;
        while socket.can_send() {
            let n = socket.send_slice(&source[at..]).map_err(|e| anyhow!("send: {e}"))?;
            total += n as u64;
            at = (at + n) % source.len();
        }
        Ok(total)
    }

    /// Reads all received data.
    fn receive(&mut self, sink: &mut [u8]) -> Result<u64> {
        let socket = self.socket();
        let mut total = 0;
        while socket.can_recv() {
            let n = socket.recv_slice(sink).map_err(|e| anyhow!("recv: {e}"))?;
            total += n as u64;
        }
        Ok(total)
    }
}

/// Free buffers; the last one returned is used first. Each buffer keeps the length of a full frame,
/// so that it is cleared once in its life and not once for each frame.
type Spare = Rc<RefCell<Vec<Vec<u8>>>>;

/// A buffer, and the length of the frame in it.
type Frame = (Vec<u8>, usize);

/// A device whose frames the caller moves and whose buffers are used again.
struct Wire {
    tx: VecDeque<Frame>,
    rx: VecDeque<Frame>,
    spare: Spare,
    frames: u64,
    mtu: usize,
    medium: Medium,
}

impl Wire {
    fn new(settings: Settings, spare: Spare) -> Wire {
        let (medium, header) = match settings.ethernet {
            true => (Medium::Ethernet, 14),
            false => (Medium::Ip, 0),
        };
        let mtu = settings.mtu + header;
        Wire { tx: VecDeque::new(), rx: VecDeque::new(), spare, frames: 0, mtu, medium }
    }
}

impl Device for Wire {
    type RxToken<'a> = RxToken<'a>;
    type TxToken<'a> = TxToken<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = self.medium;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(RxToken<'_>, TxToken<'_>)> {
        let frame = self.rx.pop_front()?;
        let Wire { spare, tx, frames, mtu, .. } = self;
        Some((RxToken { frame, spare }, TxToken { spare, tx, frames, mtu: *mtu }))
    }

    fn transmit(&mut self, _now: Instant) -> Option<TxToken<'_>> {
        let Wire { spare, tx, frames, mtu, .. } = self;
        Some(TxToken { spare, tx, frames, mtu: *mtu })
    }
}

struct RxToken<'a> {
    frame: Frame,
    spare: &'a Spare,
}

impl phy::RxToken for RxToken<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let (buffer, len) = self.frame;
        let result = f(&buffer[..len]);
        self.spare.borrow_mut().push(buffer);
        result
    }
}

struct TxToken<'a> {
    spare: &'a Spare,
    tx: &'a mut VecDeque<Frame>,
    frames: &'a mut u64,
    mtu: usize,
}

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let spare = self.spare.borrow_mut().pop();
        let mut buffer = spare.unwrap_or_else(|| vec![0; self.mtu]);
        let result = f(&mut buffer[..len]);
        self.tx.push_back((buffer, len));
        *self.frames += 1;
        result
    }
}
