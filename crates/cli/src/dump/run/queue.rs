//! Packets of several ports, put in the order of their times.
//!
//! Called by: `process`. A packet is held back until no port can have an earlier one. What is held
//! is bounded, in packets and in bytes: past that, a port that does not answer is not waited for,
//! and packets come out of order.

use std::collections::VecDeque;

use super::packet::Packet;

/// Packets that are held back at most.
pub(super) const HELD_PACKETS_MAX: usize = 100_000;

/// Bytes of packets that are held back at most.
pub(super) const HELD_BYTES_MAX: usize = 64 << 20;

/// What waits for others, and what may come out.
#[derive(Default)]
pub(super) struct Queue {
    held: Vec<Packet>,
    held_bytes: usize,
    ready: VecDeque<Packet>,
}

impl Queue {
    /// A packet that came.
    pub(super) fn push(&mut self, packet: Packet) {
        self.held_bytes += packet.bytes.len();
        self.held.push(packet);
    }

    /// Nothing comes any more that is earlier than this; what is not later may come out.
    pub(super) fn advance(&mut self, horizon_ns: u64) {
        self.held.sort_by_key(|packet| packet.time_ns);
        let is_full = self.held.len() > HELD_PACKETS_MAX || self.held_bytes > HELD_BYTES_MAX;
        let count = match is_full {
            true => self.held.len(),
            false => self.held.partition_point(|packet| packet.time_ns <= horizon_ns),
        };
        for packet in self.held.drain(..count) {
            self.held_bytes -= packet.bytes.len();
            self.ready.push_back(packet);
        }
    }

    /// The next packet, if it may come out.
    pub(super) fn pop(&mut self) -> Option<Packet> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::run::packet::Link;

    fn packet(time_ns: u64, len: usize) -> Packet {
        Packet {
            time_ns,
            link: Link::RAW,
            port: 0,
            direction: None,
            wire_len: len as u32,
            segment_bytes: 0,
            bytes: vec![0; len],
        }
    }

    fn times(queue: &mut Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop()).map(|packet| packet.time_ns).collect()
    }

    #[test]
    fn packets_come_out_in_order_once_nothing_earlier_can_come() {
        let mut queue = Queue::default();
        [5, 3, 9].into_iter().for_each(|time_ns| queue.push(packet(time_ns, 10)));
        queue.advance(5);
        assert_eq!(times(&mut queue), [3, 5]);
        queue.push(packet(7, 10));
        queue.advance(u64::MAX);
        assert_eq!(times(&mut queue), [7, 9]);
        assert_eq!(queue.held_bytes, 0);
    }

    #[test]
    fn what_is_held_back_is_bounded_by_its_bytes() {
        let mut queue = Queue::default();
        let len = 1 << 20;
        let most = HELD_BYTES_MAX / len;
        (0..most).for_each(|number| queue.push(packet(number as u64 + 1, len)));
        queue.advance(0);
        assert_eq!(times(&mut queue).len(), 0);
        queue.push(packet(0, 1));
        queue.advance(0);
        assert_eq!(times(&mut queue).len(), most + 1);
    }

    #[test]
    fn what_is_held_back_is_bounded_by_its_number() {
        let mut queue = Queue::default();
        (0..HELD_PACKETS_MAX).for_each(|number| queue.push(packet(number as u64 + 1, 0)));
        queue.advance(0);
        assert_eq!(queue.pop(), None);
        queue.push(packet(1, 0));
        queue.advance(0);
        assert_eq!(times(&mut queue).len(), HELD_PACKETS_MAX + 1);
    }
}
