//! The two ends of a UDP transfer (RFC 768). Nothing is retransmitted; lost datagrams are counted.
//!
//! Called by: `ends.rs`, a turn at a time.
//!
//! A datagram of 8 bytes or more begins with its number, which distinguishes lost, repeated and
//! reordered datagrams from wrong ones. The rest is the same in all, and is compared in one of 32.

use anyhow::{Result, anyhow, bail};
use wirespeed::pair::End;
use wirespeed::{Cidr, Counter, Instant, Owner, UdpError, UdpHandle};

use super::data::Source;
use super::plan::Plan;

const NUMBER_BYTES: usize = 8;
/// Bytes of datagrams sent in a turn: a receiver on the same thread gets its turn while they are in
/// the cache.
const TURN_BYTES: usize = 64 << 10;
const SAMPLE_EVERY: u64 = 32;

pub(super) struct Sender {
    socket: UdpHandle,
    to: core::net::SocketAddr,
    payload: Vec<u8>,
    number: u64,
}

pub(super) struct Receiver {
    socket: UdpHandle,
    pub(super) length: usize,
    expected: Vec<u8>,
    next: u64,
    received: u64,
    pub(super) out_of_order: u64,
}

/// A socket at each end.
pub(super) fn bound(plan: &Plan, left: &mut End, right: &mut End) -> Result<(Sender, Receiver)> {
    let to = (right.addr, plan.port).into();
    let bind = |end: &mut End| {
        end.stack
            .udp_bind((end.addr, plan.port).into(), Owner::program())
            .map_err(|e| anyhow!("cannot bind UDP port {}: {e:?}", plan.port))
    };
    let host = Cidr::new(right.addr, if right.addr.is_ipv4() { 32 } else { 128 });
    if let (Some(host), Some(gap)) = (host, plan.gap) {
        left.stack.set_burst_gap(host, Some(gap))?;
    }
    let payload: Vec<u8> = (0..plan.length).map(|i| (i * 31 + 7) as u8).collect();
    let receiver = Receiver {
        socket: bind(right)?,
        length: plan.length,
        expected: payload.clone(),
        next: 0,
        received: 0,
        out_of_order: 0,
    };
    Ok((Sender { socket: bind(left)?, to, payload, number: 0 }, receiver))
}

/// Has the device taken all datagrams? What it pushed back waits in the port.
pub(super) fn all_left(end: &End) -> bool {
    let counters = end.stack.counters();
    let made = counters.of(Counter::UdpOut) + counters.of(Counter::FragmentsOut);
    counters.of(Counter::TxFrames) + counters.of(Counter::DatagramsFragmented) >= made
}

impl Sender {
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
        for _ in 0..(TURN_BYTES / self.payload.len()).max(1) {
            let left = source.peek(self.payload.len()).len();
            if left == 0 {
                break;
            }
            if let Some(number) = self.payload.first_chunk_mut::<NUMBER_BYTES>() {
                *number = self.number.to_be_bytes();
            }
            match end.stack.udp_send(self.socket, self.to, &self.payload, now) {
                Ok(()) => {}
                Err(UdpError::WouldBlock) => break,
                Err(UdpError::Broadcast) => {
                    bail!("{} is a broadcast address: send to one host", self.to.ip())
                }
                Err(error) => bail!("cannot send a datagram: {error:?}"),
            }
            source.advance(left);
            self.number += 1;
            sent += 1;
        }
        Ok((sent * self.payload.len() as u64, sent))
    }
}

impl Receiver {
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
