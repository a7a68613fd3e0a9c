//! Sorts the packets of several ports by time.
//!
//! Called by: `process`. A packet is held until no port can have an earlier one. The held packets
//! are bounded in number and bytes; past that they are released out of order, without waiting for a
//! port that does not answer.

use std::collections::VecDeque;

use super::source::Packet;

/// Maximum number of held packets.
pub(super) const HELD_PACKETS_MAX: usize = 100_000;

/// Maximum bytes of held packets.
pub(super) const HELD_BYTES_MAX: usize = 64 << 20;

/// The held packets, and those ready to be taken.
#[derive(Default)]
pub(super) struct Queue {
    held: Vec<Packet>,
    held_bytes: usize,
    ready: VecDeque<Packet>,
}

impl Queue {
    /// Add a packet.
    pub(super) fn push(&mut self, packet: Packet) {
        self.held_bytes += packet.bytes.len();
        self.held.push(packet);
    }

    /// No packet before `horizon_ns` will come any more: release those up to it.
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

    /// The next packet that is ready.
    pub(super) fn pop(&mut self) -> Option<Packet> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::run::source::Link;

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
