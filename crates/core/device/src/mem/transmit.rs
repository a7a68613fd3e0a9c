//! The transmit half of [`Mem`]: sends the frames that fit into the ring and the byte limit, and
//! pushes back or frees the others.
//!
//! Called by: `mem.rs`. Counters: `refused`, `undeliverable`.

use core::sync::atomic::Ordering;

use mbuf::{Mbuf, Pool};
use rtrb::chunks::ChunkError;

use super::Mem;
use crate::{Burst, Device};

impl Mem {
    /// Bytes sent that the peer has not taken, by the last read of its counter.
    #[inline(always)]
    pub(super) fn in_flight_bytes(&self) -> u64 {
        self.sent_bytes - self.taken_seen.get()
    }

    #[inline(always)]
    pub(super) fn fits(&self, bytes: u64) -> bool {
        let in_flight = self.in_flight_bytes();
        in_flight + bytes <= self.depth_bytes || in_flight == 0
    }

    #[inline(always)]
    pub(super) fn see_taken(&self) {
        self.taken_seen.set(self.peer.taken.0.load(Ordering::Acquire));
    }

    /// The largest frame with a segment size; it is passed on as it is.
    #[inline(always)]
    fn super_max_bytes(&self) -> usize {
        self.limits.offloads.tso_max_bytes.max(self.limits.offloads.uso_max_bytes)
    }

    #[inline(always)]
    pub(super) fn too_long(&self, frame: &Mbuf) -> bool {
        let len = frame.len();
        len > self.limits.max_frame && (frame.segment_size() == 0 || len > self.super_max_bytes())
    }

    /// Send from the front of `from` until it is empty, the ring is full or a frame is too long.
    #[inline]
    pub(super) fn send(&mut self, from: &mut Burst) -> usize {
        if let [frame] = from.as_slice()
            && !self.too_long(frame)
        {
            return self.send_one(from);
        }
        let longest = self.limits.max_frame.max(self.super_max_bytes());
        let most = from.len() as u64 * longest as u64;
        if self.in_flight_bytes() + most > self.depth_bytes {
            self.see_taken();
        }
        let (count, mut bytes) = self.count_fitting(from);
        if count == 0 {
            return 0;
        }
        let chunk = match self.tx.write_chunk_uninit(count) {
            Ok(chunk) => chunk,
            Err(ChunkError::TooFewSlots(room)) => {
                bytes = from[..room].iter().map(|f| f.len() as u64).sum();
                match self.tx.write_chunk_uninit(room) {
                    Ok(chunk) if room > 0 => chunk,
                    _ => return 0,
                }
            }
        };
        self.sent_bytes += bytes;
        let count = chunk.len();
        chunk.fill_from_iter(from.drain(..count))
    }

    /// Send a burst of one frame. Here `push` costs less than preparing a chunk of the ring.
    #[inline]
    fn send_one(&mut self, from: &mut Burst) -> usize {
        let bytes = from.first().map_or(0, |frame| frame.len() as u64);
        if !self.fits(bytes) {
            self.see_taken();
        }
        if !self.fits(bytes) || self.tx.is_full() {
            return 0;
        }
        let sent = from.pop().is_some_and(|frame| self.tx.push(frame).is_ok());
        debug_assert!(sent, "there was room, and nobody else sends");
        self.sent_bytes += bytes;
        1
    }

    /// How many of these frames fit by bytes, up to the first one that is too long, and how many
    /// bytes they have. It uses the peer's counter as last read.
    #[inline(always)]
    fn count_fitting(&self, frames: &[Mbuf]) -> (usize, u64) {
        let in_flight = self.in_flight_bytes();
        // On an empty link any frame fits.
        let first = frames.first().map_or(0, |frame| frame.len() as u64);
        let least = if in_flight == 0 { first } else { 0 };
        let room = self.depth_bytes.saturating_sub(in_flight).max(least);
        let mut left = room;
        for (count, frame) in frames.iter().enumerate() {
            match left.checked_sub(frame.len() as u64) {
                Some(less) if !self.too_long(frame) => left = less,
                _ => return (count, room - left),
            }
        }
        (frames.len(), room - left)
    }

    /// Does the first of these frames still not fit? This is decided only for a frame that is at
    /// least as long as the pushed-back one.
    #[inline(always)]
    pub(super) fn is_still_pushed_back(&self, from: &[Mbuf]) -> bool {
        from.first().is_some_and(|frame| frame.len() as u64 >= self.pushed_back_bytes)
            && !self.tx_ready()
    }

    /// After a burst: remember the length of the first frame that stayed, if any, and tell the peer
    /// whether to report room.
    #[cold]
    #[inline(never)]
    pub(super) fn remember_push_back(&mut self, first: Option<u64>) {
        self.pushed_back_bytes = first.unwrap_or(0);
        self.here.rare.0.wants_room.store(first.is_some(), Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn free_undeliverable(&mut self, pool: &mut Pool, from: &mut Burst) {
        self.undeliverable += from.len() as u64;
        from.drain(..).for_each(|frame| pool.free(frame));
    }

    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&mut self, pool: &mut Pool, frame: Mbuf) {
        self.refused += 1;
        pool.free(frame);
    }
}
