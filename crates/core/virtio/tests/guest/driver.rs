//! The driver's side of one virtqueue: buffers of one size, a descriptor each.

use std::sync::atomic::{Ordering, fence};

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

use super::{EVENT_IDX, MEMORY, SIZE, eventfd};

/// Bytes between two buffers.
const STRIDE: u64 = 68 << 10;

/// A descriptor's flags: another one follows; we may write; a table of descriptors.
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const TABLE: u16 = 4;

/// A virtqueue, as its driver sees it.
pub(crate) struct Driver {
    pub(crate) table: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
    buffers: u64,
    room: u32,
    receives: bool,
    has_event_idx: bool,
    free: Vec<u16>,
    /// How far it is available, and how far used buffers were taken.
    pub(crate) made: u16,
    taken: u16,
    pub(crate) kick: EventFd,
    pub(crate) call: EventFd,
}

impl Driver {
    pub(crate) fn new(number: usize, room: u32, features: u64) -> Driver {
        let base = MEMORY + number as u64 * (12 << 20);
        Driver {
            table: base,
            available: base + 0x4000,
            used: base + 0x6000,
            buffers: base + 0x1_0000,
            room,
            receives: number == super::RX,
            has_event_idx: features & EVENT_IDX != 0,
            free: Vec::new(),
            made: 0,
            taken: 0,
            kick: eventfd(),
            call: eventfd(),
        }
    }

    /// Begin with an empty ring; one that receives is filled.
    pub(crate) fn reset(&mut self, memory: &GuestMemoryMmap) {
        (self.made, self.taken) = (0, 0);
        self.free = (0..SIZE).rev().collect();
        memory.write_slice(&[0; 0x2000], GuestAddress(self.available)).expect("room");
        memory.write_slice(&[0; 0x2000], GuestAddress(self.used)).expect("room");
        if self.receives {
            self.refill(memory);
        }
    }

    pub(crate) fn base(&self) -> u16 {
        self.taken
    }

    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    pub(crate) fn buffer(&self, id: u16) -> u64 {
        self.buffers + u64::from(id) * STRIDE
    }

    /// Write a descriptor.
    pub(crate) fn describe(
        &self,
        memory: &GuestMemoryMmap,
        id: u16,
        (at, len): (u64, u32),
        (flags, next): (u16, u16),
    ) {
        describe_at(memory, self.table + 16 * u64::from(id), (at, len), (flags, next));
    }

    /// Make a chain available.
    pub(crate) fn offer(&mut self, memory: &GuestMemoryMmap, head: u16) {
        let slot = self.available + 4 + 2 * u64::from(self.made % SIZE);
        memory.write_obj(head.to_le(), GuestAddress(slot)).expect("room");
        self.made = self.made.wrapping_add(1);
        self.set_index(memory, self.made);
    }

    /// Write the index of the available ring, and notify the port if it wants that.
    pub(crate) fn set_index(&mut self, memory: &GuestMemoryMmap, index: u16) {
        let at = GuestAddress(self.available + 2);
        memory.store(index.to_le(), at, Ordering::Release).expect("room");
        fence(Ordering::SeqCst);
        let wants = if self.has_event_idx {
            let at = GuestAddress(self.used + 4 + 8 * u64::from(SIZE));
            let event: u16 = memory.load(at, Ordering::Relaxed).expect("room");
            event == index.wrapping_sub(1)
        } else {
            let flags: u16 = memory.load(GuestAddress(self.used), Ordering::Relaxed).expect("room");
            flags & 1 == 0
        };
        if wants {
            self.kick.write(1).expect("room");
        }
    }

    /// Ask to be called for the next used buffer.
    pub(crate) fn ask_for_calls(&self, memory: &GuestMemoryMmap) {
        let at = self.available + 4 + 2 * u64::from(SIZE);
        memory.store(self.taken.to_le(), GuestAddress(at), Ordering::SeqCst).expect("room");
    }

    /// Send these bytes in one buffer; `false`: none is free.
    pub(crate) fn send(&mut self, memory: &GuestMemoryMmap, bytes: &[u8]) -> bool {
        let Some(id) = self.free.pop() else { return false };
        let at = self.buffer(id);
        memory.write_slice(bytes, GuestAddress(at)).expect("room");
        self.describe(memory, id, (at, bytes.len() as u32), (0, 0));
        self.offer(memory, id);
        true
    }

    /// Take buffers back.
    pub(crate) fn collect(&mut self, memory: &GuestMemoryMmap, mut each: impl FnMut(u16, u32)) {
        while let Some((id, len)) = self.next_used(memory) {
            each(id, len);
            self.free.push(id);
        }
    }

    /// A filled buffer: its address, and how many bytes were written. It stays out of the ring
    /// until [`Driver::refill`].
    pub(crate) fn take(&mut self, memory: &GuestMemoryMmap) -> Option<(u64, u32)> {
        let (id, len) = self.next_used(memory)?;
        self.free.push(id);
        Some((self.buffer(id), len))
    }

    /// Make all free buffers available for frames.
    pub(crate) fn refill(&mut self, memory: &GuestMemoryMmap) {
        while let Some(id) = self.free.pop() {
            self.describe(memory, id, (self.buffer(id), self.room), (WRITE, 0));
            self.offer(memory, id);
        }
    }

    pub(crate) fn has_used(&self, memory: &GuestMemoryMmap) -> bool {
        self.used_index(memory) != self.taken
    }

    pub(crate) fn used_index(&self, memory: &GuestMemoryMmap) -> u16 {
        let at = GuestAddress(self.used + 2);
        u16::from_le(memory.load(at, Ordering::Acquire).expect("room"))
    }

    fn next_used(&mut self, memory: &GuestMemoryMmap) -> Option<(u16, u32)> {
        if !self.has_used(memory) {
            return None;
        }
        let at = self.used + 4 + 8 * u64::from(self.taken % SIZE);
        let [id, len]: [u32; 2] =
            [0, 4].map(|by| u32::from_le(memory.read_obj(GuestAddress(at + by)).expect("room")));
        self.taken = self.taken.wrapping_add(1);
        Some((id as u16, len))
    }
}

/// Write a descriptor at an address.
pub(crate) fn describe_at(
    memory: &GuestMemoryMmap,
    place: u64,
    (at, len): (u64, u32),
    (flags, next): (u16, u16),
) {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&at.to_le_bytes());
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    bytes[12..14].copy_from_slice(&flags.to_le_bytes());
    bytes[14..].copy_from_slice(&next.to_le_bytes());
    memory.write_slice(&bytes, GuestAddress(place)).expect("room");
}
