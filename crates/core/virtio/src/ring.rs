//! One virtqueue of a guest (VIRTIO 1.2 section 2.7): chains of buffers that the driver makes
//! available, and those that we give back as used.
//!
//! Called by: `receive.rs`, `transmit.rs`, `guest.rs`. Crate `virtio-queue` reads the available
//! ring and the descriptors, with its bounds. The used ring is written here, because the buffers of
//! one frame have to become visible together (section 5.1.6.4), and so is what suppresses
//! notifications.

use core::sync::atomic::{Ordering, fence};
use std::os::fd::OwnedFd;

use base::DropReason;
use virtio_bindings::bindings::virtio_ring::{VRING_AVAIL_F_NO_INTERRUPT, VRING_USED_F_NO_NOTIFY};
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Buffers of one frame at most; more are a mistake of the driver, or an attack.
pub const PIECES_MAX: usize = 1024;

/// Entries of a ring at most (section 2.7).
const SIZE_MAX: u16 = 32_768;

/// A buffer of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) at: GuestAddress,
    pub(crate) len: u32,
}

/// Which buffers of a chain are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Those that the guest has filled.
    Filled,
    /// Those that we may fill.
    Empty,
}

/// The ring breaks the rules: nothing in it can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// A virtqueue.
pub(crate) struct Ring {
    queue: Queue,
    /// The next entry of the used ring; how far the driver sees it; how far it was when the driver
    /// was last asked whether it wants to be called.
    used: u16,
    seen: u16,
    asked: u16,
    /// Is the driver asked to notify us?
    notifies: bool,
    /// Did the frontend start and enable it?
    pub(crate) is_started: bool,
    pub(crate) is_enabled: bool,
    is_broken: bool,
    /// Readable when the driver has made buffers available; `None` if it does not say so.
    pub(crate) kick: Option<OwnedFd>,
    /// Written when the driver should look at what is used.
    pub(crate) call: Option<OwnedFd>,
}

impl Ring {
    pub(crate) fn new() -> Ring {
        Ring {
            queue: Queue::new(SIZE_MAX).expect("a power of two"),
            used: 0,
            seen: 0,
            asked: 0,
            notifies: true,
            is_started: false,
            is_enabled: false,
            is_broken: false,
            kick: None,
            call: None,
        }
    }

    /// May it be used?
    #[inline]
    pub(crate) fn runs(&self) -> bool {
        self.is_started && self.is_enabled && !self.is_broken
    }

    /// Does it break the rules?
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The number of its entries. `false`: not a power of two up to 32,768.
    pub(crate) fn set_size(&mut self, size: u32) -> bool {
        u16::try_from(size).is_ok_and(|size| self.queue.try_set_size(size).is_ok())
    }

    /// The addresses of the descriptors, of the available and of the used ring, in the guest.
    /// `false`: not aligned.
    pub(crate) fn set_addresses(&mut self, [table, available, used]: [u64; 3]) -> bool {
        let [table, available, used] = [table, available, used].map(GuestAddress);
        self.queue.try_set_desc_table_address(table).is_ok()
            && self.queue.try_set_avail_ring_address(available).is_ok()
            && self.queue.try_set_used_ring_address(used).is_ok()
    }

    /// The entry of the available ring that comes next.
    pub(crate) fn base(&self) -> u16 {
        self.queue.next_avail()
    }

    pub(crate) fn set_base(&mut self, base: u16) {
        self.queue.set_next_avail(base);
    }

    pub(crate) fn set_event_idx(&mut self, is_on: bool) {
        self.queue.set_event_idx(is_on);
    }

    /// Begin, or go on in other memory. `false`: the ring is not in the guest's memory, so it stays
    /// stopped.
    pub(crate) fn start(&mut self, memory: &GuestMemoryMmap) -> bool {
        self.queue.set_ready(true);
        self.is_broken = false;
        let used = self.queue.used_idx(memory, Ordering::Acquire);
        self.is_started = self.queue.is_valid(memory) && used.is_ok();
        if let (true, Ok(used)) = (self.is_started, used) {
            (self.used, self.seen, self.asked) = (used.0, used.0, used.0);
            self.notifies = true;
        } else {
            self.queue.set_ready(false);
        }
        self.is_started
    }

    /// Stop, until the frontend sets it up again.
    pub(crate) fn stop(&mut self) {
        self.queue.set_ready(false);
        self.is_started = false;
        self.is_broken = false;
        self.call = None;
    }

    /// Note that the ring breaks the rules.
    pub(crate) fn give_up(&mut self, _: Broken) {
        self.is_broken = true;
    }

    /// How far the driver has made buffers available.
    #[inline]
    pub(crate) fn available(&self, memory: &GuestMemoryMmap) -> Result<u16, Broken> {
        let index = self.queue.avail_idx(memory, Ordering::Acquire).map_err(|_| Broken)?.0;
        // More than the ring has room for.
        let has_room = index.wrapping_sub(self.base()) <= self.queue.size();
        has_room.then_some(index).ok_or(Broken)
    }

    /// Is there no entry that another one could be added to?
    pub(crate) fn is_full_of(&self, available: u16) -> bool {
        available.wrapping_sub(self.base()) >= self.queue.size()
    }

    /// Take the next chain, and add its buffers of one side to `into`, which has [`PIECES_MAX`] of
    /// them at most. `None`: there is no chain. The chain's first descriptor is its name in the
    /// used ring.
    #[inline]
    pub(crate) fn next(
        &mut self,
        memory: &GuestMemoryMmap,
        side: Side,
        into: &mut Vec<Piece>,
    ) -> Result<Option<u16>, Broken> {
        if self.available(memory)? == self.base() {
            return Ok(None);
        }
        let size = self.queue.size();
        let chain = self.queue.iter(memory).map_err(|_| Broken)?.next().ok_or(Broken)?;
        let head = chain.head_index();
        if head >= size {
            return Err(Broken);
        }
        for (count, descriptor) in chain.enumerate() {
            if count >= PIECES_MAX || into.len() >= PIECES_MAX {
                break;
            }
            if descriptor.is_write_only() == (side == Side::Empty) && descriptor.len() > 0 {
                into.push(Piece { at: descriptor.addr(), len: descriptor.len() });
            }
        }
        Ok(Some(head))
    }

    /// Give a chain back in which `len` bytes were written. The driver sees it after
    /// [`Ring::publish`].
    #[inline]
    pub(crate) fn give_back(
        &mut self,
        memory: &GuestMemoryMmap,
        head: u16,
        len: u32,
    ) -> Result<(), Broken> {
        let entry = u64::from(self.used % self.queue.size());
        let at = self.used_at(4 + 8 * entry)?;
        let [id, len] = [u32::from(head), len].map(u32::to_le_bytes);
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&id);
        bytes[4..].copy_from_slice(&len);
        memory.write_slice(&bytes, at).map_err(|_| Broken)?;
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    /// Let the driver see all chains that were given back, and call it if it wants that.
    #[inline]
    pub(crate) fn publish(&mut self, memory: &GuestMemoryMmap) -> Result<(), Broken> {
        if self.used == self.seen {
            return Ok(());
        }
        let index = self.used_at(2)?;
        memory.store(self.used.to_le(), index, Ordering::Release).map_err(|_| Broken)?;
        self.seen = self.used;
        // The driver writes what it wants, then looks at the index: section 2.7.7.2.
        fence(Ordering::SeqCst);
        let is_wanted = if self.queue.event_idx_enabled() {
            let event = self.available_at(4 + 2 * u64::from(self.queue.size()))?;
            let event = u16::from_le(memory.load(event, Ordering::Relaxed).map_err(|_| Broken)?);
            let since = self.used.wrapping_sub(self.asked);
            self.used.wrapping_sub(event).wrapping_sub(1) < since
        } else {
            let flags = self.available_at(0)?;
            let flags = u16::from_le(memory.load(flags, Ordering::Relaxed).map_err(|_| Broken)?);
            u32::from(flags) & VRING_AVAIL_F_NO_INTERRUPT == 0
        };
        self.asked = self.used;
        if is_wanted && let Some(call) = &self.call {
            // A counter that is full is readable, too.
            let _ = rustix::io::write(call, &1_u64.to_ne_bytes());
        }
        Ok(())
    }

    /// Ask the driver to notify us when it makes more available than `known`; returns how far it is
    /// now, which may be further.
    pub(crate) fn wait(&mut self, memory: &GuestMemoryMmap, known: u16) -> Result<u16, Broken> {
        self.notifies = true;
        if self.queue.event_idx_enabled() {
            self.write_used(memory, 4 + 8 * u64::from(self.queue.size()), known)?;
        } else {
            self.write_used(memory, 0, 0)?;
        }
        // The driver makes a buffer available, then looks whether we wait: section 2.7.10.
        fence(Ordering::SeqCst);
        self.available(memory)
    }

    /// Ask the driver for no notifications.
    #[inline]
    pub(crate) fn wait_no_longer(&mut self, memory: &GuestMemoryMmap) -> Result<(), Broken> {
        // With event indices the driver notifies us once for each index that we wait for.
        if self.notifies && !self.queue.event_idx_enabled() {
            self.write_used(memory, 0, VRING_USED_F_NO_NOTIFY as u16)?;
        }
        self.notifies = false;
        Ok(())
    }

    fn write_used(&self, memory: &GuestMemoryMmap, offset: u64, value: u16) -> Result<(), Broken> {
        let at = self.used_at(offset)?;
        memory.store(value.to_le(), at, Ordering::Relaxed).map_err(|_| Broken)
    }

    fn used_at(&self, offset: u64) -> Result<GuestAddress, Broken> {
        self.queue.used_ring().checked_add(offset).map(GuestAddress).ok_or(Broken)
    }

    fn available_at(&self, offset: u64) -> Result<GuestAddress, Broken> {
        self.queue.avail_ring().checked_add(offset).map(GuestAddress).ok_or(Broken)
    }

    /// The reason of the drops that a broken ring causes.
    pub(crate) const BROKEN: DropReason = DropReason::DeviceBadHeader;
}
