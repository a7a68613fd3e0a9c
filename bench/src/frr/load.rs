//! A load of 64-byte frames into a router between two veths, as fast as the router forwards them,
//! and SYNs to the router itself at a steady rate. Called by `punting.rs`. The frames that leave
//! the router are counted by the kernel, and dropped because of their link address.

use core::net::{IpAddr, Ipv4Addr};
use std::fs::File;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base::{LinkKind, MacAddr};
use device::packet::{self, PacketSocket};
use device::{BURST, Burst, Device};
use inet::HeaderTemplate;
use inet::ip_output::Fields;
use mbuf::Pool;
use wire::checksum::Ladder;
use wire::protocol;

use super::space::Space;

/// A host or a port.
pub(super) struct End {
    pub(super) addr: Ipv4Addr,
    pub(super) mac: MacAddr,
}

const fn end(net: u8, host: u8) -> End {
    End { addr: Ipv4Addr::new(198, 18, net, host), mac: MacAddr([2, 0, 0, 0, net, host]) }
}

/// The host that sends, beyond the port `near`; and the router's end there.
pub(super) const SOURCE: End = end(0, 9);
pub(super) const NEAR: End = end(0, 1);
/// The next hop, beyond the port `far`; and the router's end there.
pub(super) const SINK: End = end(1, 9);
pub(super) const FAR: End = end(1, 1);

/// Bytes of a frame without its check sequence.
const FRAME: usize = 64 - 4;
/// Bytes of a UDP datagram in such a frame.
const DATAGRAM: usize = FRAME - 14 - 20;
/// Frames that are sent at once.
const ROUND: u64 = 2 * BURST as u64;
/// Frames that may be on their way when more are sent. The ring of the router's packet socket has
/// room for 512.
const ON_THE_WAY: u64 = 3 * BURST as u64;
/// The time after which frames that do not arrive are lost, and the most of a hundred that may be:
/// a busy machine may not run the router for long enough that its ring is full.
const LOST: Duration = Duration::from_millis(30);
const LOST_PERCENT: u64 = 5;
/// Source ports of the SYNs.
const SYNS: u16 = 4 * BURST as u16;

/// The networks that the load goes to, 24 bits each.
pub(super) fn networks(count: u32) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("{}/24", network(number)))
}

fn network(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from_be_bytes([10, 64, 0, 0]) + (number << 8))
}

/// Packets that an interface has received, by the kernel's count.
pub(super) struct Counted {
    file: File,
    line: String,
}

impl Counted {
    /// Of an interface in a namespace.
    ///
    /// # Errors
    /// There is no such interface.
    pub(super) fn of(space: &Space, interface: &str) -> Result<Counted> {
        // The file goes on to be that of this namespace.
        let open = || File::open("/proc/thread-self/net/dev").context("opening /proc/net/dev");
        let counted = Counted { file: space.within(open)?, line: format!("{interface}:") };
        counted.packets()?;
        Ok(counted)
    }

    /// The packets so far.
    pub(super) fn packets(&self) -> Result<u64> {
        let mut text = String::new();
        let mut file = &self.file;
        file.rewind()?;
        file.read_to_string(&mut text).context("reading /proc/net/dev")?;
        let line = text.lines().find_map(|line| line.trim().strip_prefix(self.line.as_str()));
        let field = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        field.with_context(|| format!("no interface {} in /proc/net/dev", self.line))
    }
}

/// What is sent, and where it arrives.
pub(super) struct Load {
    socket: PacketSocket,
    pool: Pool,
    arrived: Counted,
    datagrams: Frames,
    syns: Frames,
}

/// Frames that are sent in turn.
struct Frames {
    all: Vec<Vec<u8>>,
    next: usize,
}

impl Load {
    /// From `near` to `far` of a namespace, to so many networks.
    ///
    /// # Errors
    /// Without root.
    pub(super) fn new(hosts: &Space, networks: u32) -> Result<Load> {
        let socket = hosts.within(|| {
            let config = packet::Config { offload: false, ..packet::Config::of("near") };
            PacketSocket::open(&config).context("opening the load's socket")
        })?;
        let pool = &mut Pool::new(1 << 20);
        let datagram = |number| {
            let mut bytes = [0; DATAGRAM];
            bytes[..2].copy_from_slice(&5_000_u16.to_be_bytes());
            bytes[2..4].copy_from_slice(&9_u16.to_be_bytes());
            bytes[4..6].copy_from_slice(&(DATAGRAM as u16).to_be_bytes());
            // A checksum of 0 is none (RFC 768).
            let to = Ipv4Addr::from_bits(network(number).to_bits() + 1);
            frame(pool, to, protocol::UDP, &bytes)
        };
        let datagrams =
            Frames { all: (0..networks).map(datagram).collect::<Result<_>>()?, next: 0 };
        let syn = |number| frame(pool, NEAR.addr, protocol::TCP, &syn(30_000 + number));
        let syns = Frames { all: (0..SYNS).map(syn).collect::<Result<_>>()?, next: 0 };
        let arrived = Counted::of(hosts, "far")?;
        Ok(Load { socket, pool: Pool::new(64 << 20), arrived, datagrams, syns })
    }

    /// Sends for `seconds`, with so many SYNs a second. Returns how many frames were forwarded.
    ///
    /// # Errors
    /// More than a few of a hundred frames were lost.
    pub(super) fn run(&mut self, seconds: f64, syns_per_s: f64) -> Result<u64> {
        let before = self.arrived.packets()?;
        let (begun, mut progress) = (Instant::now(), Instant::now());
        let (mut sent, mut syns, mut there, mut lost) = (0, 0, 0, 0);
        loop {
            let elapsed = begun.elapsed().as_secs_f64();
            let is_over = elapsed >= seconds;
            let due = (elapsed.min(seconds) * syns_per_s) as u64 - syns;
            let Load { socket, pool, datagrams, syns: frames, .. } = self;
            syns += frames.send(socket, pool, due.min(BURST as u64))?;
            let now = self.arrived.packets()? - before;
            if now != there {
                (there, progress) = (now, Instant::now());
            }
            let on_the_way = u64::saturating_sub(sent, there + lost);
            if !is_over && on_the_way < ON_THE_WAY {
                for _ in 0..ROUND / BURST as u64 {
                    sent += datagrams.send(socket, pool, BURST as u64)?;
                }
            }
            if on_the_way > 0 && progress.elapsed() > LOST {
                lost += on_the_way;
                ensure!(
                    lost * 100 <= (sent + 20 * ROUND) * LOST_PERCENT,
                    "{there} of {sent} frames were forwarded"
                );
                progress = Instant::now();
            }
            if is_over && on_the_way == 0 {
                return Ok(there);
            }
        }
    }
}

impl Frames {
    /// Sends so many frames, at most a burst. Returns how many.
    fn send(&mut self, socket: &mut PacketSocket, pool: &mut Pool, count: u64) -> Result<u64> {
        let mut burst = Burst::new();
        while (burst.len() as u64) < count {
            let Some(frame) = self.all.get(self.next) else { bail!("there are no frames") };
            self.next = (self.next + 1) % self.all.len();
            burst.push(pool.copy_of(frame).context("no memory is left")?);
        }
        if !burst.is_empty() {
            socket.tx_burst(pool, &mut burst);
        }
        ensure!(burst.is_empty(), "the interface accepts no frames: make its queue longer");
        Ok(count)
    }
}

/// A frame from [`SOURCE`] to the router's port.
fn frame(pool: &mut Pool, to: Ipv4Addr, protocol: u8, bytes: &[u8]) -> Result<Vec<u8>> {
    let (src, dst) = (IpAddr::V4(SOURCE.addr), IpAddr::V4(to));
    let fields = Fields { src, dst, protocol, tos: 0, ttl: 64 };
    let template = HeaderTemplate::new(LinkKind::Ethernet, SOURCE.mac, NEAR.mac, &fields);
    let mut m = pool.copy_of(bytes).context("no memory is left")?;
    let done = template.prepend(&mut m);
    let frame = m.as_slice().to_vec();
    pool.free(m);
    done.map_err(|why| anyhow::anyhow!("no room for headers: {}", why.name()))?;
    Ok(frame)
}

/// A SYN to port 22 of the router (RFC 9293 section 3.1).
fn syn(source: u16) -> Vec<u8> {
    let mut segment = [0; 20];
    segment[..2].copy_from_slice(&source.to_be_bytes());
    segment[2..4].copy_from_slice(&22_u16.to_be_bytes());
    // Five words of header; SYN; a window.
    segment[12..16].copy_from_slice(&[5 << 4, 2, 0xff, 0xff]);
    let (src, dst) = (SOURCE.addr.octets(), NEAR.addr.octets());
    let pseudo = [&src[..], &dst[..], &[0, protocol::TCP, 0, 20], &segment[..]].concat();
    segment[16..18].copy_from_slice(&Ladder::Word64.sum(&pseudo).field());
    segment.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_64_bytes_and_syns_a_right_sum() {
        let pool = &mut Pool::new(1 << 20);
        let made = frame(pool, SINK.addr, protocol::UDP, &[0; DATAGRAM]).expect("room");
        assert_eq!(made.len(), FRAME);
        let segment = syn(30_001);
        let (src, dst) = (SOURCE.addr.octets(), NEAR.addr.octets());
        let all = [&src[..], &dst[..], &[0, protocol::TCP, 0, 20], &segment].concat();
        assert_eq!(Ladder::Word64.sum(&all).field(), [0, 0]);
        assert_eq!(networks(2).collect::<Vec<_>>(), ["10.64.0.0/24", "10.64.1.0/24"]);
    }
}
