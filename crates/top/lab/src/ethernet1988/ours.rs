//! Two stacks of ours on the same Ethernet, in virtual time: `device::nic`, half duplex.
//!
//! Called by: `ethernet1988.rs`. Processors take no time, so that only the wire limits the
//! throughput.

use std::net::SocketAddr;

use base::{Duration, Instant, Mtu, Owner};
use device::nic;
use stack::pair::{End, PairConfig, VirtualClock, end};
use stack::{CallError, ListenConfig, TcpHandle};

use super::cable::{DELAY_NS, frame_ns};
use super::costs::{HEADER_BYTES, PACKET_BYTES};
use super::world::Counts;
use crate::Error;

const RATE_BPS: u64 = 10_000_000;
/// The timestamps option (RFC 7323).
const TIMESTAMP_BYTES: u64 = 12;
const PORT: u16 = 5001;
const WRITE_BYTES: usize = 64 << 10;
/// Longer than any run takes.
const LONGEST: Duration = Duration::from_secs(3_600);

/// Both ends.
pub(super) struct Ours {
    client: End,
    server: End,
    stream: TcpHandle,
    listener: stack::ListenerHandle,
    accepted: Option<TcpHandle>,
    clock: VirtualClock,
    received: u64,
    data: Vec<u8>,
    into: Vec<u8>,
}

fn failed(what: &str, why: impl std::fmt::Debug) -> Error {
    Error::Failed(format!("{what}: {why:?}. Please report this line"))
}

impl Ours {
    /// Both ends with socket buffers of this many bytes, or with the default ones.
    pub(super) fn new(buffer: Option<u64>, seed: u64) -> Result<Ours, Error> {
        let clock = VirtualClock::default();
        let mtu = Mtu::new((PACKET_BYTES + HEADER_BYTES + TIMESTAMP_BYTES) as usize);
        let link = nic::Config {
            mtu: mtu.ok_or_else(|| failed("no MTU", PACKET_BYTES))?,
            rate_bps: RATE_BPS,
            delay: Duration::from_nanos(DELAY_NS),
            duplex: nic::Duplex::Half { seed },
            ..nic::Config::default()
        };
        let joined = nic::pair(&link, clock.of_devices());
        let (first, second) = joined.map_err(|error| failed("no wire", error))?;
        let config = PairConfig::new([seed, 0x1988]);
        let (mut client, mut server) = (end(&config, first, 1), end(&config, second, 2));
        let to = SocketAddr::new(server.addr, PORT);
        let mut tcp = tcp::Config::default();
        if let Some(bytes) = buffer {
            tcp.set_fixed_buffers(bytes as u32, bytes as u32);
        }
        let listen = ListenConfig { tcp, ..ListenConfig::default() };
        let listening = server.stack.tcp_listen(to, listen);
        let listener = listening.map_err(|error| failed("listen", error))?;
        let connecting = client.stack.tcp_connect(to, None, &tcp, Owner::program(), clock.now());
        let stream = connecting.map_err(|error| failed("connect", error))?;
        let (data, into) = (vec![7; WRITE_BYTES], vec![0; 2 * WRITE_BYTES]);
        let (accepted, received) = (None, 0);
        Ok(Ours { client, server, stream, listener, accepted, clock, received, data, into })
    }

    /// Run until the receiver has read this many bytes.
    pub(super) fn run(&mut self, bytes: u64) -> Result<Counts, Error> {
        loop {
            let now = self.clock.now();
            self.client.stack.poll(now);
            let write = |stack: &mut stack::Stack| stack.tcp_write(self.stream, &self.data);
            while write(&mut self.client.stack).is_ok_and(|taken| taken == WRITE_BYTES) {}
            self.server.stack.poll(now);
            self.accepted = self.accepted.or_else(|| self.server.stack.tcp_accept(self.listener));
            self.read()?;
            if self.received >= bytes {
                return Ok(self.counts(now));
            }
            let goes_on = self.clock.advance([&mut self.client, &mut self.server]);
            if !goes_on || now.since(Instant::ZERO) > LONGEST {
                return Err(failed("a transfer that does not end", self.received));
            }
        }
    }

    fn read(&mut self) -> Result<(), Error> {
        let Some(stream) = self.accepted else { return Ok(()) };
        loop {
            match self.server.stack.tcp_read(stream, &mut self.into) {
                Ok(0) | Err(CallError::WouldBlock) => return Ok(()),
                Ok(n) => self.received += n as u64,
                Err(error) => return Err(failed("read", error)),
            }
        }
    }

    /// Processors take no time, and collisions are not counted: both are 0.
    fn counts(&self, now: Instant) -> Counts {
        let of = |end: &End, counter| end.stack.counters().of(counter);
        let data = of(&self.client, base::Counter::TcpSegmentsOut);
        let acks = of(&self.server, base::Counter::TcpSegmentsOut);
        let headers = HEADER_BYTES + TIMESTAMP_BYTES;
        let wire_ns = data * frame_ns(PACKET_BYTES + headers) + acks * frame_ns(headers);
        Counts {
            now_ns: now.as_nanos(),
            bytes: self.received,
            packets: data,
            wire_ns,
            ..Counts::default()
        }
    }
}
