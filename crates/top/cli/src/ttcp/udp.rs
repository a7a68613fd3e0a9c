//! The ends of a UDP transfer (RFC 768). Nothing is retransmitted; lost datagrams are counted.
//!
//! Called by: `ends.rs`, a turn at a time.
//!
//! A datagram of 8 bytes or more begins with its number, which distinguishes lost, repeated and
//! reordered datagrams from wrong ones. The rest is the same in all, and is compared in one of 32.

use anyhow::{Result, anyhow, bail};
use wirespeed::pair::End;
use wirespeed::{Counter, Instant, Mtu, MtuDiscovery, Owner, UdpError, UdpHandle, UdpOptions};

use crate::Usage;

use super::data::Source;
use super::plan::Plan;

const NUMBER_BYTES: usize = 8;
/// Bytes of datagrams sent in a turn: a receiver on the same thread gets its turn while they are in
/// the cache.
const TURN_BYTES: usize = 64 << 10;
const SAMPLE_EVERY: u64 = 32;
/// Bytes of a call.
const CALL_BYTES: usize = 65_535;

pub(super) struct Sender {
    socket: UdpHandle,
    to: core::net::SocketAddr,
    length: usize,
    /// The datagrams of a call, one behind the other.
    payload: Vec<u8>,
    number: u64,
    pub(super) used: Used,
}

/// How datagrams were sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    /// The largest packet that the path carries.
    pub(super) path_mtu: Mtu,
    /// Datagrams of a call, at most.
    pub(super) per_call: usize,
    pub(super) calls: u64,
}

pub(super) struct Receiver {
    socket: UdpHandle,
    pub(super) length: usize,
    expected: Vec<u8>,
    next: u64,
    received: u64,
    pub(super) out_of_order: u64,
}

/// A socket at an end.
pub(super) fn bind(port: u16, end: &mut End) -> Result<UdpHandle> {
    let bound = end.stack.udp_bind((end.addr, port).into(), Owner::program());
    bound.map_err(|e| anyhow!("cannot bind UDP port {port}: {e}"))
}

/// The bytes of a datagram behind its number, and before that is written.
fn datagram(plan: &Plan) -> Vec<u8> {
    (0..plan.length).map(|i| (i * 31 + 7) as u8).collect()
}

/// Ask the stack what the path carries, and decide how datagrams are handed over.
///
/// # Errors
/// [`Usage`]: a datagram is larger than that, and is not to leave in fragments.
fn used(plan: &Plan, end: &mut End, socket: UdpHandle, to: core::net::SocketAddr) -> Result<Used> {
    let options = UdpOptions { mtu_discovery: plan.mtu_discovery, ..UdpOptions::default() };
    end.stack.udp_set_options(socket, options).map_err(|e| anyhow!("no UDP socket: {e}"))?;
    let path_mtu = end.stack.udp_path_mtu(socket, to);
    let path_mtu = path_mtu.map_err(|e| anyhow!("cannot send to {}: {e}", to.ip()))?;
    let most = path_mtu.bytes() - if to.is_ipv4() { 20 + 8 } else { 40 + 8 };
    let fits = plan.length <= most;
    if !fits && plan.mtu_discovery != MtuDiscovery::Want {
        bail!(Usage(format!(
            "message too long, mtu={}: send datagrams of -l {most} or less, or ask for fragments \
             with -M want",
            path_mtu.bytes()
        )));
    }
    let per_call = if fits { plan.segments.min(CALL_BYTES / plan.length).max(1) } else { 1 };
    Ok(Used { path_mtu, per_call, calls: 0 })
}

/// Has the device taken all datagrams? What it pushed back waits in the port.
pub(super) fn all_left(end: &End) -> bool {
    let counters = end.stack.counters();
    let made = counters.of(Counter::UdpOut) + counters.of(Counter::FragmentsOut);
    counters.of(Counter::TxFrames) + counters.of(Counter::DatagramsFragmented) >= made
}

impl Sender {
    /// # Errors
    /// Those of [`used`].
    pub(super) fn new(
        plan: &Plan,
        end: &mut End,
        socket: UdpHandle,
        to: core::net::SocketAddr,
    ) -> Result<Sender> {
        let used = used(plan, end, socket, to)?;
        let payload = datagram(plan).repeat(used.per_call);
        Ok(Sender { socket, to, length: plan.length, payload, number: 0, used })
    }

    /// Send until the device pushes back or the turn is over; returns bytes and datagrams. Only the
    /// byte count of `source` matters; a rest smaller than a datagram makes one more.
    #[inline]
    pub(super) fn send(
        &mut self,
        end: &mut End,
        source: &mut Source,
        now: Instant,
    ) -> Result<(u64, u64)> {
        let mut sent = 0;
        let turn = (TURN_BYTES / self.length).max(1) as u64;
        while sent < turn {
            let ahead = source.ahead(self.payload.len());
            if ahead == 0 {
                break;
            }
            let given = ahead.div_ceil(self.length);
            let taken = self.call(end, given, now)?;
            source.advance(ahead.min(taken * self.length));
            sent += taken as u64;
            if taken < given {
                break;
            }
        }
        Ok((sent * self.length as u64, sent))
    }

    /// Hand over the next datagrams; returns how many the device had room for.
    #[inline]
    fn call(&mut self, end: &mut End, given: usize, now: Instant) -> Result<usize> {
        let payload = &mut self.payload[..given * self.length];
        for (number, datagram) in (self.number..).zip(payload.chunks_exact_mut(self.length)) {
            if let Some(at) = datagram.first_chunk_mut::<NUMBER_BYTES>() {
                *at = number.to_be_bytes();
            }
        }
        let result = if given == 1 {
            end.stack.udp_send(self.socket, self.to, payload, now).map(|()| payload.len())
        } else {
            end.stack.udp_send_segments(self.socket, self.to, payload, self.length, now)
        };
        let taken = match result {
            Ok(bytes) => bytes / self.length,
            Err(UdpError::WouldBlock) => return Ok(0),
            Err(UdpError::Broadcast) => {
                bail!("{} is a broadcast address: send to one host", self.to.ip())
            }
            Err(error) => bail!("cannot send a datagram: {error}"),
        };
        self.number += taken as u64;
        self.used.calls += 1;
        Ok(taken)
    }
}

impl Receiver {
    pub(super) fn new(plan: &Plan, socket: UdpHandle) -> Receiver {
        let (length, expected) = (plan.length, datagram(plan));
        Receiver { socket, length, expected, next: 0, received: 0, out_of_order: 0 }
    }

    /// Receive all pending datagrams; returns how many.
    #[inline]
    pub(super) fn receive(&mut self, end: &mut End) -> Result<u64> {
        let mut datagrams = 0;
        while let Some(datagram) = end.stack.udp_receive(self.socket) {
            self.check(datagram.payload.as_slice())?;
            end.stack.give_back(datagram.payload);
            datagrams += 1;
        }
        Ok(datagrams)
    }

    #[inline]
    fn check(&mut self, bytes: &[u8]) -> Result<()> {
        self.received += 1;
        if bytes.len() != self.length {
            bail!("wrong data: a datagram of {} bytes arrived as {}", self.length, bytes.len());
        }
        let Some(number) = bytes.first_chunk::<NUMBER_BYTES>() else { return Ok(()) };
        let number = u64::from_be_bytes(*number);
        self.out_of_order += u64::from(number < self.next);
        self.next = self.next.max(number + 1);
        let sampled = self.received.is_multiple_of(SAMPLE_EVERY) || self.received < SAMPLE_EVERY;
        if sampled && bytes[NUMBER_BYTES..] != self.expected[NUMBER_BYTES..] {
            bail!("wrong data: datagram {number} is not what was sent");
        }
        Ok(())
    }
}
