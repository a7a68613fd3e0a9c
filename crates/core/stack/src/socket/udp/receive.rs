//! Puts received datagrams into their socket's queue, and returns them to programs: one, many, or
//! several of equal length in one buffer, as with Linux's UDP_GRO.
//!
//! Called by: `input.rs` and `groups`, programs. Datagrams are joined here, where they are copied
//! anyway; the packet path joins none. Counter: `udp_coalesced`.

use core::net::SocketAddr;

use base::{Counter, DropReason, Limit};
use tcp::Fate;

use super::{Datagram, SEGMENTS_MAX};
use crate::handles::{Event, UdpHandle};
use crate::stack::Stack;

/// The datagrams that were copied out of a socket's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpReceived {
    /// Number of bytes copied.
    pub len: usize,
    /// Bytes of each datagram except the last, which may be shorter. For a single datagram, its
    /// length.
    pub segment_size: usize,
    /// The sender.
    pub from: SocketAddr,
    /// The address of ours that the datagrams were sent to.
    pub to: SocketAddr,
}

impl Stack {
    /// Take the oldest datagram out of the queue.
    #[inline]
    pub fn udp_receive(&mut self, handle: UdpHandle) -> Option<Datagram> {
        let socket = self.udp.get_mut(handle)?;
        let datagram = socket.queue.pop_front()?;
        socket.queued_bytes -= datagram.cost();
        Some(datagram)
    }

    /// Move the oldest datagrams, at most `most`, to the end of `into`; returns their number.
    pub fn udp_receive_many(
        &mut self,
        handle: UdpHandle,
        into: &mut Vec<Datagram>,
        most: usize,
    ) -> usize {
        let Some(socket) = self.udp.get_mut(handle) else { return 0 };
        let count = socket.queue.len().min(most);
        let before = into.len();
        into.extend(socket.queue.drain(..count));
        socket.queued_bytes -= into[before..].iter().map(Datagram::cost).sum::<usize>();
        count
    }

    /// Copy the oldest datagram to `into`. If it is longer than `into`, the remaining bytes are
    /// lost, as with `recvfrom`. If the socket coalesces ([`super::UdpOptions::coalesces`]), the
    /// next datagrams with the same two ends and the same length are copied as well, as many as fit
    /// whole, at most `SEGMENTS_MAX` in all; a shorter one ends the run.
    pub fn udp_receive_into(&mut self, handle: UdpHandle, into: &mut [u8]) -> Option<UdpReceived> {
        let first = self.udp_receive(handle)?;
        let segment_size = first.payload.len().min(into.len());
        into[..segment_size].copy_from_slice(&first.payload.as_slice()[..segment_size]);
        let (from, to) = (first.from, first.to);
        let mut received = UdpReceived { len: segment_size, segment_size, from, to };
        let is_whole = segment_size == first.payload.len();
        self.core.cx.pool.free(first.payload);
        let coalesces = self.udp.get(handle).is_some_and(|socket| socket.options.coalesces);
        if coalesces && is_whole && segment_size > 0 {
            self.coalesce(handle, &mut received, into);
        }
        Some(received)
    }

    /// Append the next datagrams that have the ends and the length of the first.
    fn coalesce(&mut self, handle: UdpHandle, received: &mut UdpReceived, into: &mut [u8]) {
        let Some(socket) = self.udp.get_mut(handle) else { return };
        let core = &mut self.core;
        for _ in 1..SEGMENTS_MAX {
            let Some(next) = socket.queue.front() else { break };
            let (len, end) = (next.payload.len(), received.len + next.payload.len());
            let is_like = next.from == received.from && next.to == received.to;
            if !is_like || len == 0 || len > received.segment_size || end > into.len() {
                break;
            }
            into[received.len..end].copy_from_slice(next.payload.as_slice());
            received.len = end;
            socket.queued_bytes -= next.cost();
            if let Some(next) = socket.queue.pop_front() {
                core.cx.pool.free(next.payload);
            }
            core.cx.counters.add(Counter::UdpCoalesced, 1);
            if len < received.segment_size {
                break;
            }
        }
    }

    /// Does a datagram wait?
    pub fn udp_readable(&self, handle: UdpHandle) -> bool {
        self.udp.get(handle).is_some_and(|socket| !socket.queue.is_empty())
    }

    /// Copy the oldest datagram to `into` and leave it in the queue; returns the number of bytes
    /// copied, and the sender.
    pub fn udp_peek(&self, handle: UdpHandle, into: &mut [u8]) -> Option<(usize, SocketAddr)> {
        let datagram = self.udp.get(handle)?.queue.front()?;
        let payload = datagram.payload.as_slice();
        let n = payload.len().min(into.len());
        into[..n].copy_from_slice(&payload[..n]);
        Some((n, datagram.from))
    }
}

/// Put a datagram into its socket's queue. If the queue was empty, the socket gets an event.
#[inline(always)]
pub(crate) fn deliver(
    stack: &mut Stack,
    handle: UdpHandle,
    datagram: Datagram,
    without_checksum: bool,
) -> Fate {
    let cx = &mut stack.core.cx;
    let socket = stack.udp.get_mut(handle).ok_or(DropReason::UdpNoSocket)?;
    if without_checksum {
        // RFC 6935 5-a, RFC 6936 4-b, 4-c.
        if !socket.options.accepts_zero_checksum {
            return Err(DropReason::UdpZeroChecksum);
        }
        cx.counters.add(Counter::UdpZeroChecksumIn, 1);
    }
    let queued_bytes = socket.queued_bytes + datagram.cost();
    if queued_bytes > cx.budget.of(Limit::UdpQueueBytes) {
        cx.budget.admits(Limit::UdpQueueBytes, usize::MAX);
        return Err(DropReason::UdpQueueFull);
    }
    socket.queued_bytes = queued_bytes;
    socket.queue.push_back(datagram);
    if socket.queue.len() == 1 {
        stack.ready.push_back(Event::Udp(handle));
    }
    cx.counters.add(Counter::UdpIn, 1);
    Ok(())
}
