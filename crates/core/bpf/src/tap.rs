//! A tap: copies packets that match a filter, up to the snapshot length, into buffers for a reader.
//!
//! Called by: the stack's ports, which show each packet before it is changed, and a reader, which
//! takes full buffers and gives them back. A tap belongs to one thread; a reader on another thread
//! moves whole buffers there.
//!
//! Buffers have BSD's names: the store buffer is being filled; the hold buffer is full and waits
//! for the reader; the free buffers will be filled later. There are three buffers, including those
//! that the reader has. If the reader is too slow, packets are dropped and counted; the stack does
//! not wait for it. Counters: [`Counters`].

use core::fmt;

use crate::buffer::{Buffer, record, record_len};
use crate::filter::Filter;
use crate::packet::{Direction, Shown};

/// Maximum size of a buffer in bytes.
pub const BUFFER_BYTES_MAX: usize = 64 << 20;
/// Maximum snapshot length in bytes, as in tcpdump.
pub const SNAPLEN_MAX: u32 = 262_144;

/// The settings of a tap.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of each of the three buffers.
    pub buffer_bytes: usize,
    /// Snapshot length: the maximum bytes kept of a packet. The filter may keep fewer.
    pub snaplen: u32,
    /// Show only packets of this direction; `None` shows both.
    pub only: Option<Direction>,
}

impl Default for Settings {
    /// Buffers of 512 KB, whole packets, both directions.
    fn default() -> Settings {
        Settings { buffer_bytes: 512 << 10, snaplen: SNAPLEN_MAX, only: None }
    }
}

/// Why settings are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapError {
    /// The buffer is too large, or too small for one packet.
    BufferBytes {
        /// The requested size in bytes.
        has: usize,
        /// The smallest size in bytes: room for one record of the snapshot length.
        least: usize,
        /// The largest size in bytes, [`BUFFER_BYTES_MAX`].
        most: usize,
    },
    /// The snapshot length in bytes, which is out of range.
    Snaplen(u32),
}

impl fmt::Display for TapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TapError::BufferBytes { has, least, most } => write!(
                f,
                "a tap's buffer of {has} bytes; use {least} (a packet and its header) to {most}"
            ),
            TapError::Snaplen(bytes) => {
                write!(f, "a snapshot length of {bytes} bytes; use 1 to {SNAPLEN_MAX}")
            }
        }
    }
}

impl core::error::Error for TapError {}

/// The counters of a tap, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets shown to the tap that have the requested direction.
    pub seen: u64,
    /// Packets that the filter matched.
    pub matched: u64,
    /// Packets that matched but were dropped, because no buffer had room.
    pub dropped: u64,
}

/// A filter, with buffers for the packets that match it.
#[derive(Debug)]
pub struct Tap {
    filter: Filter,
    settings: Settings,
    counters: Counters,
    store: Buffer,
    hold: Option<Buffer>,
    free: Vec<Buffer>,
}

/// The number of buffers of a tap, including those that the reader has.
const BUFFERS: usize = 3;

impl Tap {
    /// Make a tap and allocate its three buffers.
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

    /// Filter packets in order and copy those that match. For each copy, call `amend` with the
    /// value that the caller gave with the packet, to finish the copied bytes.
    #[inline]
    pub fn see<'a, T>(
        &mut self,
        packets: impl IntoIterator<Item = (Shown<'a>, T)>,
        amend: impl FnMut(T, &mut [u8]),
    ) {
        // The case without a filter has a loop of its own, so that a tap of all packets runs no
        // filter.
        match self.filter.always() {
            Some(keep) => self.look(packets, amend, |_, _| keep),
            None if self.filter.asks_direction() => self.look(packets, amend, |filter, shown| {
                filter.of(shown.direction).run(&shown.packet)
            }),
            None => self.look(packets, amend, |filter, shown| filter.run(&shown.packet)),
        }
    }

    #[inline(always)]
    fn look<'a, T>(
        &mut self,
        packets: impl IntoIterator<Item = (Shown<'a>, T)>,
        mut amend: impl FnMut(T, &mut [u8]),
        keep: impl Fn(&Filter, &Shown<'_>) -> u32,
    ) {
        // Local variables, so that the state stays in registers from packet to packet: the compiler
        // has to assume that each copy changes what is in memory.
        let Settings { only, snaplen, .. } = self.settings;
        let (mut counters, mut end) = (self.counters, self.store.end());
        let mut room = self.store.room_mut();
        for (shown, with) in packets {
            if only.is_some_and(|only| only != shown.direction) {
                continue;
            }
            counters.seen += 1;
            let keep = keep(&self.filter, &shown).min(snaplen);
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

    /// The store buffer becomes the hold buffer, and a free buffer the new store buffer. `false` if
    /// no buffer is free, or if the reader has not taken the last hold buffer.
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

    /// Take the hold buffer; if there is none, the store buffer with what it has so far. `None` if
    /// both are empty, or if the reader has all other buffers: the tap always keeps one buffer to
    /// fill.
    pub fn take(&mut self) -> Option<Buffer> {
        if self.hold.is_none() && !self.store.is_empty() {
            self.turn();
        }
        self.hold.take()
    }

    /// Give a taken buffer back, so that it is filled again. A buffer that the tap does not lack,
    /// or one of another size, is freed.
    pub fn give_back(&mut self, mut buffer: Buffer) {
        let here = 1 + usize::from(self.hold.is_some()) + self.free.len();
        if here < BUFFERS && buffer.room() == self.settings.buffer_bytes {
            buffer.clear();
            self.free.push(buffer);
        }
    }

    /// The values of the counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
