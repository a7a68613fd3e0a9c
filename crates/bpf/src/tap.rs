//! A tap: packets that match a filter are copied, as far as asked for, into buffers for a reader.
//!
//! Called by: the driver's edge, which shows each packet before anyone may change it, and a reader,
//! who takes full buffers away and gives them back. A tap belongs to one thread; a reader on
//! another thread moves whole buffers there.
//!
//! Buffers have BSD's names: the store buffer is being filled, the hold buffer is full and waits
//! for the reader, free ones are next. There are three, so that each has one while the reader has
//! one. Where the reader is too slow, packets are dropped and counted; nothing waits for it.
//! Counters: [`Counters`].

use crate::buffer::{Buffer, record, record_len};
use crate::filter::Filter;
use crate::packet::Packet;
use crate::shown::{Direction, Shown};

/// Bytes of a buffer at most.
pub const BUFFER_BYTES_MAX: usize = 64 << 20;
/// Bytes kept of a packet at most, as in tcpdump.
pub const SNAPLEN_MAX: u32 = 262_144;

/// What a tap is to do.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of each of the three buffers.
    pub buffer_bytes: usize,
    /// Bytes kept of a packet at most; the filter may ask for fewer.
    pub snaplen: u32,
    /// One direction alone.
    pub only: Option<Direction>,
}

impl Default for Settings {
    /// Buffers of 512 KB, whole packets, both directions.
    fn default() -> Settings {
        Settings { buffer_bytes: 512 << 10, snaplen: SNAPLEN_MAX, only: None }
    }
}

/// Settings that make no tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapError {
    /// A buffer too large, or too small for one packet.
    #[error("a tap's buffer of {has} bytes; use {least} (a packet and its header) to {most}")]
    BufferBytes {
        /// What was asked for.
        has: usize,
        /// Room for one record of the snapshot length.
        least: usize,
        /// [`BUFFER_BYTES_MAX`].
        most: usize,
    },
    /// A snapshot length out of range.
    #[error("a snapshot length of {0} bytes; use 1 to {SNAPLEN_MAX}")]
    Snaplen(u32),
}

/// What became of the packets that a tap was shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Shown, of the directions asked for.
    pub seen: u64,
    /// Matched by the filter.
    pub matched: u64,
    /// Matched, and not kept: both buffers were full.
    pub dropped: u64,
}

/// A filter, and what matched it.
#[derive(Debug)]
pub struct Tap {
    filter: Filter,
    settings: Settings,
    counters: Counters,
    store: Buffer,
    hold: Option<Buffer>,
    free: Vec<Buffer>,
}

/// Buffers of a tap, those with the reader among them.
const BUFFERS: usize = 3;

impl Tap {
    /// A tap with its three buffers.
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn new(filter: Filter, settings: Settings) -> Result<Tap, TapError> {
        if !(1..=SNAPLEN_MAX).contains(&settings.snaplen) {
            return Err(TapError::Snaplen(settings.snaplen));
        }
        let (has, least) = (settings.buffer_bytes, record_len(settings.snaplen as usize));
        if !(least..=BUFFER_BYTES_MAX).contains(&has) {
            return Err(TapError::BufferBytes { has, least, most: BUFFER_BYTES_MAX });
        }
        Ok(Tap {
            filter,
            settings,
            counters: Counters::default(),
            store: Buffer::new(has),
            hold: None,
            free: (1..BUFFERS).map(|_| Buffer::new(has)).collect(),
        })
    }

    /// Look at packets in their order: of those that match copy what is asked for, and let `amend`
    /// finish the copy. It gets what came with the packet.
    #[inline]
    pub fn see<'a, T>(
        &mut self,
        packets: impl IntoIterator<Item = (Shown<'a>, T)>,
        amend: impl FnMut(T, &mut [u8]),
    ) {
        // A loop for each, so that a tap that takes everything asks nothing.
        match self.filter.always() {
            Some(keep) => self.look(packets, amend, |_, _| keep),
            None => self.look(packets, amend, |filter, packet| filter.run(packet)),
        }
    }

    #[inline(always)]
    fn look<'a, T>(
        &mut self,
        packets: impl IntoIterator<Item = (Shown<'a>, T)>,
        mut amend: impl FnMut(T, &mut [u8]),
        keep: impl Fn(&Filter, &Packet<'_>) -> u32,
    ) {
        // All of it from packet to packet in registers: whatever is in memory, the compiler has to
        // take for changed by each copy.
        let Settings { only, snaplen, .. } = self.settings;
        let (mut counters, mut end) = (self.counters, self.store.end());
        let mut room = self.store.room_mut();
        for (shown, with) in packets {
            if only.is_some_and(|only| only != shown.direction) {
                continue;
            }
            counters.seen += 1;
            let keep = keep(&self.filter, &shown.packet).min(snaplen);
            if keep == 0 {
                continue;
            }
            counters.matched += 1;
            let captured = shown.packet.captured_bytes().min(keep as usize);
            if let Some((copy, then)) = record(room, end, &shown, captured) {
                end = then;
                amend(with, copy);
                continue;
            }
            self.store.set_end(end);
            let has_turned = self.turn();
            end = self.store.end();
            room = self.store.room_mut();
            match has_turned.then(|| record(room, end, &shown, captured)).flatten() {
                Some((copy, then)) => {
                    end = then;
                    amend(with, copy);
                }
                None => counters.dropped += 1,
            }
        }
        self.store.set_end(end);
        self.counters = counters;
    }

    /// The store buffer becomes the hold buffer, the free one is filled from now on. False if there
    /// is none or the reader has not taken the last.
    #[cold]
    #[inline(never)]
    fn turn(&mut self) -> bool {
        if self.hold.is_some() {
            return false;
        }
        let Some(free) = self.free.pop() else { return false };
        self.hold = Some(core::mem::replace(&mut self.store, free));
        true
    }

    /// What waits for the reader: a full buffer, or what there is. None if there is nothing, or if
    /// the reader has all other buffers: what is not given back is missing from then on.
    pub fn take(&mut self) -> Option<Buffer> {
        if self.hold.is_none() && !self.store.is_empty() {
            self.turn();
        }
        self.hold.take()
    }

    /// A buffer that was taken, for use again. One too many, or of another size, is let go.
    pub fn give_back(&mut self, mut buffer: Buffer) {
        let here = 1 + usize::from(self.hold.is_some()) + self.free.len();
        if here < BUFFERS && buffer.room() == self.settings.buffer_bytes {
            buffer.clear();
            self.free.push(buffer);
        }
    }

    /// Seen, matched, dropped.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
