//! Shared by hostile and differential tests: a stack whose wire the test holds at the other end,
//! raw frames written byte by byte, and a small random number generator.

use core::net::{IpAddr, SocketAddr};

use base::{Instant, IpVersion, SeqNumber};
use device::{Burst, Device, mem};
use inet::ip_output::Fields;
use mbuf::{Mbuf, Pool};
use wire::checksum::{Ladder, Sum};
use wire::tcp::{Flags, Header};

use crate::Stack;
use crate::pair::{self, PairConfig};

/// The random number generator splitmix64: the same seed gives the same traffic.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `n - 1`.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        (self.next() >> 32) as u32 % n.max(1)
    }

    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }
}

/// A TCP segment as it is on the wire.
#[derive(Clone, Debug)]
pub(super) struct Tcp {
    pub(super) ports: (u16, u16),
    pub(super) seq: SeqNumber,
    pub(super) ack: SeqNumber,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) urgent: u16,
    /// The length must be a multiple of four bytes.
    pub(super) options: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

impl Tcp {
    /// The segment as bytes, with the checksum for these addresses.
    pub(super) fn bytes(&self, src: IpAddr, dst: IpAddr) -> Vec<u8> {
        let header_len = 20 + self.options.len();
        let mut out = vec![0; header_len];
        let header = Header {
            src_port: self.ports.0,
            dst_port: self.ports.1,
            seq: self.seq,
            ack: self.ack,
            header_len,
            flags: self.flags,
            window: self.window,
            urgent: self.urgent,
        };
        header.emit(&mut out);
        out[20..].copy_from_slice(&self.options);
        out.extend_from_slice(&self.payload);
        let sum = transport_sum(src, dst, wire::protocol::TCP, &out);
        wire::tcp::set_checksum(&mut out, sum.field());
        out
    }
}

pub(super) fn transport_sum(src: IpAddr, dst: IpAddr, protocol: u8, bytes: &[u8]) -> Sum {
    inet::ip_input::pseudo_sum(src, dst, protocol)
        .plus(Sum::of_be16(bytes.len() as u16))
        .plus(Ladder::Word64.sum(bytes))
}

/// The timestamps option with two no-operation options before it.
pub(super) fn timestamps_option(value: u32, echo: u32) -> Vec<u8> {
    let mut out = vec![1, 1, 8, 10];
    out.extend_from_slice(&value.to_be_bytes());
    out.extend_from_slice(&echo.to_be_bytes());
    out
}

/// A stack (end 1), and the other end of its wire, which the test holds (end 2).
pub(super) struct Bench {
    pub(super) stack: Stack,
    pub(super) wire: mem::Mem,
    pub(super) pool: Pool,
    pub(super) ours: IpAddr,
    pub(super) theirs: IpAddr,
}

impl Bench {
    pub(super) fn new(config: &PairConfig) -> Bench {
        let (left, wire) = mem::pair(&config.wire);
        let end = pair::end(config, left, 1);
        let theirs = pair::addresses(2)[usize::from(config.version == IpVersion::V6)].addr;
        let pool = Pool::new(256 << 20);
        Bench { stack: end.stack, wire, pool, ours: end.addr, theirs }
    }

    /// As [`Bench::new`], but no end has the other's link address configured.
    pub(super) fn among_strangers(config: &PairConfig) -> Bench {
        let (left, wire) = mem::pair(&config.wire);
        let mut stack = Stack::new(config.stack.clone());
        let addresses = pair::addresses(1).to_vec();
        stack.add_port(
            Box::new(left),
            crate::PortConfig { mac: pair::mac(1), addresses, ..crate::PortConfig::default() },
        );
        let version = usize::from(config.version == IpVersion::V6);
        let [ours, theirs] = [1, 2].map(|end| pair::addresses(end)[version].addr);
        Bench { stack, wire, pool: Pool::new(256 << 20), ours, theirs }
    }

    /// Polls the stack; returns the frames that it sent.
    pub(super) fn poll(&mut self, now: Instant) -> Vec<Vec<u8>> {
        self.stack.poll(now);
        self.sent()
    }

    pub(super) fn listen_at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ours, port)
    }

    /// An Ethernet frame from the peer that carries `transport`.
    pub(super) fn frame(&self, protocol: u8, transport: &[u8]) -> Vec<u8> {
        frame_between(self.theirs, self.ours, protocol, transport)
    }

    pub(super) fn tcp_frame(&self, segment: &Tcp) -> Vec<u8> {
        self.frame(wire::protocol::TCP, &segment.bytes(self.theirs, self.ours))
    }

    /// Puts a frame on the wire; returns `false` if the wire had no room.
    pub(super) fn inject(&mut self, frame: &[u8]) -> bool {
        let mut burst = Burst::new();
        burst.push(self.pool.copy_of(frame).expect("the peer's pool is large"));
        self.wire.tx_burst(&mut self.pool, &mut burst);
        burst.is_empty()
    }

    /// Every frame that the stack has sent, including those that wait in its burst.
    pub(super) fn sent(&mut self) -> Vec<Vec<u8>> {
        self.stack.flush();
        let mut frames = Vec::new();
        self.stack.flush();
        loop {
            let mut burst = Burst::new();
            if self.wire.rx_burst(&mut self.pool, &mut burst) == 0 {
                self.pool.flush();
                return frames;
            }
            for m in burst {
                frames.push(m.as_slice().to_vec());
                self.pool.free(m);
            }
        }
    }

    /// Puts a frame on the wire and polls; returns the frames that the stack sent in answer.
    pub(super) fn exchange(&mut self, frame: &[u8], now: Instant) -> Vec<Vec<u8>> {
        assert!(self.inject(frame));
        self.stack.poll(now);
        self.sent()
    }

    /// The number of the peer's buffers that the stack still holds.
    pub(super) fn peers_buffers_out(&mut self) -> usize {
        self.pool.outstanding()
    }
}

/// An Ethernet frame from end 2 to end 1 with these IP addresses.
pub(super) fn frame_between(src: IpAddr, dst: IpAddr, protocol: u8, transport: &[u8]) -> Vec<u8> {
    let fields = Fields { src, dst, protocol, tos: 0, ttl: 64 };
    let link = base::LinkKind::Ethernet;
    let template = inet::HeaderTemplate::new(link, pair::mac(2), pair::mac(1), &fields);
    POOL.with_borrow_mut(|pool| {
        let mut m: Mbuf = pool.copy_of(transport).expect("small");
        template.prepend(&mut m).expect("fits");
        let frame = m.as_slice().to_vec();
        pool.free(m);
        frame
    })
}

/// Sets CE (congestion experienced) in a frame, as a router on the path does (RFC 3168 section 5).
pub(super) fn mark(frame: &mut [u8]) {
    if frame[14] >> 4 == 6 {
        frame[15] |= 0x30;
        return;
    }
    frame[15] |= 3;
    frame[24..26].fill(0);
    let sum = wire::checksum::Ladder::Word64.sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.field());
}

/// Gives an IPv4 packet an identification; an IPv6 packet stays as it is.
pub(super) fn number(frame: &mut [u8], id: u16) {
    if frame[14] >> 4 == 6 {
        return;
    }
    frame[18..20].copy_from_slice(&id.to_be_bytes());
    frame[24..26].fill(0);
    let sum = wire::checksum::Ladder::Word64.sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.field());
}

thread_local! {
    /// The pool in which frames are built. A pool for each frame would have to zero half a
    /// megabyte.
    static POOL: core::cell::RefCell<Pool> = core::cell::RefCell::new(Pool::new(1 << 20));
}

/// The TCP header of a frame that the stack sent, and its payload.
pub(super) fn parse_tcp(frame: &[u8]) -> Option<(Header, Vec<u8>)> {
    let ip_len = match frame.get(14)? >> 4 {
        4 => 20,
        _ => 40,
    };
    let segment = frame.get(14 + ip_len..)?;
    let header = Header::parse(segment).ok()?;
    Some((header, segment[header.header_len..].to_vec()))
}
