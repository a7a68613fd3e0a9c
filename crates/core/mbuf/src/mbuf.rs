//! The mbuf handle, and the methods that read and change the header it points to.
//!
//! Called by: all code that handles packets. The head of `lib.rs` defines what may be written
//! through a handle; `writable_up_to`, `headers_mut` and `prepend` enforce it.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ptr::NonNull;

use base::{Duration, Instant};

use crate::class::{Class, HEADROOM, LINE};
use crate::store::{self, Header};

/// Properties of a packet, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    pub(crate) const SHARED: u8 = 1;
    /// The device verified the transport checksum.
    pub const CSUM_VERIFIED: u8 = 2;
    /// The transport checksum field contains the sum of the pseudo-header; a device is to finish
    /// it.
    pub const CSUM_PARTIAL: u8 = 4;
    /// [`Mbuf::csum`] is the sum of the data.
    pub const SUMMED: u8 = 8;
    /// The frame was sent to a broadcast or multicast MAC address.
    pub const LINK_GROUP: u8 = 16;
    /// The sender asked for immediate delivery after this data (PSH).
    pub const PUSH: u8 = 32;
    /// [`Mbuf::vlan`] contains a tag.
    pub const VLAN: u8 = 64;
    /// [`Mbuf::time`] is a departure time: the frame waits for it.
    pub const PACED: u8 = 128;
}

/// For fewer bytes than this, copying costs less than keeping the buffer.
pub(crate) const SMALL: usize = 256;

const _: () = assert!(size_of::<Option<Mbuf>>() == 8);

/// A unique handle of a packet, or of a part of one: 8 bytes.
#[repr(transparent)]
pub struct Mbuf {
    pub(crate) header: NonNull<Header>,
    pub(crate) _owns: PhantomData<Header>,
}

// SAFETY: the header's metadata belongs to the handle; only the owning pool accesses the reference
// count; the data is exclusive to the handle or read-only (see `writable_up_to`).
unsafe impl Send for Mbuf {}

impl Drop for Mbuf {
    /// Works on any thread; [`crate::Pool::free`] is faster if the pool is available.
    fn drop(&mut self) {
        // SAFETY: the handle is unique and ends here; its owner outlives it (store::give_back).
        unsafe { store::give_back(self.header, self.header) }
    }
}

macro_rules! metadata {
    ($($(#[$doc:meta])* $name:ident, $set:ident: $type:ty, $field:ident;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(&self) -> $type { self.header().meta.get().$field }
        #[doc = concat!("Set [`Mbuf::", stringify!($name), "`].")]
        #[inline(always)]
        pub fn $set(&mut self, value: $type) {
            self.header().meta.update(|meta| meta.$field = value);
        }
    )* };
}

impl Mbuf {
    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the handle is unique and its header lives until the handle is returned. The
        // count, which another thread may change, is a cell, and this thread does not read it.
        unsafe { self.header.as_ref() }
    }

    #[inline(always)]
    pub(crate) fn into_raw(self) -> NonNull<Header> {
        let header = self.header;
        core::mem::forget(self);
        header
    }

    metadata! {
        /// The port that received the packet.
        in_port, set_in_port: u16, in_port;
        /// The mark for routing rules and filters.
        mark, set_mark: u32, mark;
        /// The flow hash; 0 if none was computed.
        flow_hash, set_flow_hash: u32, flow_hash;
        /// The 802.1Q tag control information; valid with `Flags::VLAN`.
        vlan, set_vlan: u16, vlan;
        /// Payload bytes per wire segment of a super-segment; 0 for an ordinary segment.
        segment_size, set_segment_size: u16, segment_size;
        /// With `Flags::SUMMED`: the one's-complement sum of the data in memory order.
        /// With `Flags::CSUM_PARTIAL`: the offset of the transport header from the data.
        csum, set_csum: u16, csum;
    }

    /// Arrival time on receive, departure time on transmit.
    #[inline]
    pub fn time(&self) -> Instant {
        Instant::ZERO + Duration::from_nanos(self.header().meta.get().time_ns)
    }

    /// Set [`Mbuf::time`].
    #[inline]
    pub fn set_time(&mut self, time: Instant) {
        self.header().meta.update(|meta| meta.time_ns = time.as_nanos());
    }

    /// Does the frame have a departure time after `now`?
    #[inline(always)]
    pub fn departs_after(&self, now: Instant) -> bool {
        self.has(Flags::PACED) && self.time() > now
    }

    /// Are all of these [`Flags`] set?
    #[inline(always)]
    pub fn has(&self, flags: u8) -> bool {
        self.header().flags.get() & flags == flags
    }

    /// Set these [`Flags`].
    #[inline(always)]
    pub fn set(&mut self, flags: u8) {
        self.header().flags.update(|own| *own |= flags & !Flags::SHARED);
    }

    /// Clear these [`Flags`].
    #[inline(always)]
    pub fn clear(&mut self, flags: u8) {
        self.header().flags.update(|own| *own &= !(flags & !Flags::SHARED));
    }

    /// Bytes of data.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.header().len.get() as usize
    }

    /// Is there no data?
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.header().len.get() == 0
    }

    /// The data, which is always contiguous.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        let h = self.header();
        // SAFETY: `data..data + len` is inside the cluster (every method that moves them checks)
        // and was initialised when the slab was allocated; shared bytes are never written.
        unsafe { core::slice::from_raw_parts(h.data.get(), h.len.get() as usize) }
    }

    /// Is all the data writable through this handle?
    #[inline(always)]
    pub fn is_exclusive(&self) -> bool {
        self.header().flags.get() & Flags::SHARED == 0
    }

    /// The data for writing, unless another handle shares it.
    #[inline]
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        self.headers_mut(self.len())
    }

    /// The first `n` bytes for writing: the headers, which belong to this handle even if the
    /// payload that follows them is shared.
    #[inline]
    pub fn headers_mut(&mut self, n: usize) -> Option<&mut [u8]> {
        if n > self.len() || !self.writable_up_to(self.offset() + n) {
            return None;
        }
        // SAFETY: inside the data, and exclusive to this handle (both checked above).
        Some(unsafe { core::slice::from_raw_parts_mut(self.header().data.get(), n) })
    }

    /// Is every cluster byte before `offset` writable through this handle?
    #[inline(always)]
    pub(crate) fn writable_up_to(&self, offset: usize) -> bool {
        let h = self.header();
        h.flags.get() & Flags::SHARED == 0
            || (h.class == Class::Share && offset <= h.refs_or_private_end.get() as usize)
    }

    #[inline(always)]
    pub(crate) fn cluster_start(&self) -> *mut u8 {
        // SAFETY: a cluster follows its header in the same object.
        unsafe { self.header().base.get().as_ptr().cast::<u8>().add(LINE) }
    }

    /// Offset of the data from the cluster's start.
    #[inline(always)]
    pub(crate) fn offset(&self) -> usize {
        self.header().data.get() as usize - self.cluster_start() as usize
    }

    /// Cluster bytes in front of the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.offset()
    }

    /// Bytes of memory that this handle keeps in use: its whole cluster, or, if the cluster is
    /// shared, the bytes up to the end of its data.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        if !self.is_exclusive() || self.header().class == Class::Share {
            return self.offset() + self.len();
        }
        self.header().class.cluster()
    }

    /// Bytes after the data that this handle may fill; 0 if the cluster is shared.
    #[inline]
    pub fn tailroom(&self) -> usize {
        if !self.is_exclusive() || self.header().class == Class::Share {
            return 0;
        }
        self.header().class.cluster() - self.offset() - self.len()
    }

    /// Grow the data by `n` bytes at the front and return these bytes for writing. `None` if there
    /// is no room or the room belongs to another handle.
    #[inline(always)]
    pub fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        let offset = self.offset();
        if n > offset || !self.writable_up_to(offset) {
            return None;
        }
        let h = self.header();
        // SAFETY: `n <= offset`, so the new start is still inside the cluster.
        let data = unsafe { h.data.get().sub(n) };
        h.data.set(data);
        h.len.set(h.len.get() + n as u32);
        // SAFETY: inside the cluster, and writable by this handle alone (checked above).
        Some(unsafe { core::slice::from_raw_parts_mut(data, n) })
    }

    /// The free bytes after the data. Once some are filled, [`Mbuf::extend`] makes them data.
    #[inline]
    pub fn tail_mut(&mut self) -> &mut [u8] {
        let room = self.tailroom();
        // SAFETY: `tailroom` counts bytes inside the cluster, and is 0 unless it is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.header().data.get().add(self.len()), room) }
    }

    /// Grow the data by the first `n` bytes of [`Mbuf::tail_mut`]; at most all of them.
    #[inline]
    pub fn extend(&mut self, n: usize) {
        let n = n.min(self.tailroom());
        self.header().len.update(|len| *len += n as u32);
    }

    /// Grow the data by `n` bytes at the end, which `fill` writes; `None` if there is no room.
    #[inline(always)]
    pub fn put<R>(&mut self, n: usize, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let tail = self.tail_mut();
        let result = fill(tail.get_mut(..n)?);
        self.header().len.update(|len| *len += n as u32);
        Some(result)
    }

    /// Append as much of `bytes` as fits; returns the number of bytes.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let tail = self.tail_mut();
        let n = bytes.len().min(tail.len());
        tail[..n].copy_from_slice(&bytes[..n]);
        self.extend(n);
        n
    }

    /// Is the data so short that copying it costs less than keeping the buffer?
    #[inline(always)]
    pub fn is_small(&self) -> bool {
        self.len() < SMALL
    }

    /// Append all the data of `next`, or none: `false` if `next` is not small, or its data does not
    /// fit.
    pub fn absorb(&mut self, next: &Mbuf) -> bool {
        if !next.is_small() || self.tailroom() < next.len() {
            return false;
        }
        self.append(next.as_slice());
        self.clear(Flags::SUMMED);
        true
    }

    /// Remove `n` bytes from the front, at most all.
    #[inline(always)]
    pub fn trim_front(&mut self, n: usize) {
        let h = self.header();
        let n = n.min(h.len.get() as usize);
        // SAFETY: `n <= len`, so the new start is at most the end of the data.
        h.data.set(unsafe { h.data.get().add(n) });
        h.len.set(h.len.get() - n as u32);
    }

    /// Keep `len` bytes, beginning at `from`, or fewer if there are fewer. This removes a header
    /// and the padding at once.
    #[inline(always)]
    pub fn keep(&mut self, from: usize, len: usize) {
        if from.saturating_add(len) > self.len() {
            return self.keep_less(from, len);
        }
        let h = self.header();
        // SAFETY: `from + len` is at most the old length (checked above).
        h.data.set(unsafe { h.data.get().add(from) });
        h.len.set(len as u32);
    }

    #[cold]
    fn keep_less(&mut self, from: usize, len: usize) {
        self.trim_front(from);
        self.truncate(len);
    }

    /// Keep the first `len` bytes.
    #[inline(always)]
    pub fn truncate(&mut self, len: usize) {
        let h = self.header();
        h.len.set(len.min(h.len.get() as usize) as u32);
    }

    /// Let the data of an empty buffer begin `offset` bytes into its cluster, for a driver that
    /// aligns headers. No effect if `offset` is beyond the headroom, or on a buffer with data.
    pub fn reserve_front(&mut self, offset: usize) {
        if self.is_empty() && self.is_exclusive() && offset <= HEADROOM {
            let start = self.cluster_start();
            // SAFETY: `offset <= HEADROOM`, inside the cluster of every class.
            self.header().data.set(unsafe { start.add(offset) });
        }
    }
}

impl core::fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let h = self.header();
        write!(f, "Mbuf({} bytes, {:?}, flags {:#04x})", h.len.get(), h.class, h.flags.get())
    }
}
