//! The receive ring, which the kernel fills and we empty: shared memory, and who owns which part.
//!
//! Called by: `packet.rs`. Source: Linux `uapi/linux/if_packet.h`, and
//! `Documentation/networking/packet_mmap.rst`.
//!
//! A part is a block (TPACKET_V3, any number of frames) or a slot (TPACKET_V2, one frame). Each
//! part begins with a status word. The kernel stores `USER` when it has filled the part, and does
//! not touch the part until we store `KERNEL`. Nothing of a part is read before the load that saw
//! `USER` (acquire), nor after our store (release): that is the invariant of every `unsafe` here.
//! Offsets and lengths are checked against the part, so that a wrong one from the kernel only loses
//! the part.
#![allow(unsafe_code)]

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::AsFd;

use rustix::io::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::vnet;

/// The most bytes of a frame's metadata in the ring: header, link address, alignment, virtio
/// header. A block has 48 bytes more.
pub(super) const OVERHEAD: usize = 256;

/// Bytes per frame in a ring that is limited in bytes: a quarter of a full-size frame, as in
/// `mitigation.rs`.
const COUNTED: usize = 1_514_usize.div_ceil(4);

/// The alignment of frame headers, `TPACKET_ALIGNMENT`.
const ALIGNMENT: usize = 16;

/// The offset of `sll_pkttype` in `struct sockaddr_ll`.
const PACKET_TYPE: usize = 10;

/// The layout of a ring. A run is a block of the kernel: several slots of TPACKET_V2, or one block
/// of TPACKET_V3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) blocks: bool,
    /// Bytes from one part to the next within a run.
    pub(super) part_len: usize,
    pub(super) parts_a_run: usize,
    pub(super) run_len: usize,
    pub(super) runs: usize,
}

impl Shape {
    /// Capacity in frames.
    pub(super) const fn depth(&self) -> usize {
        let frames = if self.blocks { self.part_len / (COUNTED + OVERHEAD) } else { 1 };
        frames * self.parts_a_run * self.runs
    }
}

/// A received frame in the ring.
pub(super) struct Slot<'a> {
    /// The frame's virtio header.
    pub(super) header: [u8; vnet::LEN_MAX],
    /// The frame's bytes, as many as the ring contains.
    pub(super) bytes: &'a [u8],
    /// The frame's length on the wire.
    pub(super) len: usize,
    /// A VLAN tag that the kernel removed: TPID and TCI.
    pub(super) tag: Option<(u16, u16)>,
    /// The kernel's timestamp, in nanoseconds since 1970.
    pub(super) time_ns: u64,
    /// Did this machine send the frame?
    pub(super) is_sent: bool,
}

/// The mapped memory, and the read position.
pub(super) struct Ring {
    start: NonNull<u8>,
    shape: Shape,
    current: usize,
    /// Unread frames of the current block, and the offset of the next one in it.
    left: u32,
    next: usize,
    /// How many parts were emptied since the ring was last found empty. Only a full ring loses
    /// frames.
    emptied: usize,
    losing: bool,
}

// SAFETY: the mapping belongs to this value alone, and may be used from any one thread.
unsafe impl Send for Ring {}

/// The metadata of a frame, of either version.
struct Head {
    status: u32,
    len: usize,
    snaplen: usize,
    mac: usize,
    tag: (u16, u16),
    time: (u32, u32),
    /// The offset of the frame's `struct sockaddr_ll`.
    address: usize,
}

impl Ring {
    /// Map the ring of a socket, which was made with this shape.
    pub(super) fn map(fd: impl AsFd, shape: Shape) -> Result<Ring> {
        let (len, protection) = (shape.run_len * shape.runs, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, wherever the kernel has room for it.
        let start = unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, fd, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Ring { start, shape, current: 0, left: 0, next: 0, emptied: 0, losing: false })
    }

    /// Capacity in frames.
    pub(super) fn depth(&self) -> usize {
        self.shape.depth()
    }

    fn parts(&self) -> usize {
        self.shape.parts_a_run * self.shape.runs
    }

    /// The offset of the current part in the mapping.
    #[inline]
    fn at(&self) -> usize {
        let (run, part) = match self.shape.parts_a_run {
            1 => (self.current, 0),
            n => (self.current / n, self.current % n),
        };
        run * self.shape.run_len + part * self.shape.part_len
    }

    /// The status word of the current part; in a block it follows version and private offset.
    #[inline]
    fn status(&self) -> &AtomicU32 {
        let at = self.at() + if self.shape.blocks { 8 } else { 0 };
        // SAFETY: every part begins inside the mapping and is longer than its head; parts are
        // multiples of 16 bytes long; the kernel and we touch this word atomically.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Read a value of the current part, which must be ours; `None` if it is out of bounds.
    #[inline]
    fn read<T: Copy>(&self, offset: usize) -> Option<T> {
        self.range(offset, size_of::<T>())?;
        // SAFETY: inside the part (checked), which is ours; the structs read are of integers.
        Some(unsafe { self.start.as_ptr().add(self.at() + offset).cast::<T>().read_unaligned() })
    }

    /// Bytes of the current part, which must be ours; `None` if they are out of bounds.
    #[inline]
    fn slice(&self, offset: usize, len: usize) -> Option<&[u8]> {
        self.range(offset, len)?;
        // SAFETY: inside the part (checked), which is ours while `self` is borrowed: giving it
        // back takes `&mut self`.
        let from = unsafe { self.start.as_ptr().add(self.at() + offset) };
        // SAFETY: as above.
        Some(unsafe { core::slice::from_raw_parts(from, len) })
    }

    #[inline]
    fn range(&self, offset: usize, len: usize) -> Option<()> {
        (offset.checked_add(len)? <= self.shape.part_len).then_some(())
    }

    /// Is there a frame?
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.left > 0 || self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// May the kernel have lost frames since the last call?
    pub(super) fn may_have_lost(&mut self) -> bool {
        core::mem::take(&mut self.losing)
    }

    /// Call `look` with the next frame, then give its place back to the kernel; `None` if there is
    /// no frame. `look` gets `None` if the frame's metadata is invalid.
    #[inline]
    pub(super) fn take<R>(&mut self, look: impl FnOnce(Option<Slot<'_>>) -> R) -> Option<R> {
        if self.left == 0 && !self.open() {
            // A full ring was emptied, so later frames may have found no room.
            self.losing |= core::mem::take(&mut self.emptied) + 1 >= self.parts();
            return None;
        }
        let (head, step) = if self.shape.blocks { self.head_in_block() } else { self.head() };
        let slot = head.as_ref().and_then(|head| self.slot(head));
        let result = look(slot);
        self.losing |= head.is_some_and(|head| head.status & libc::TP_STATUS_LOSING != 0);
        self.left -= 1;
        self.next += step;
        if self.left == 0 {
            self.give_back();
        }
        Some(result)
    }

    /// Start reading the current part, if it is ours and has frames.
    #[inline]
    fn open(&mut self) -> bool {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return false;
        }
        if !self.shape.blocks {
            (self.left, self.next) = (1, 0);
            return true;
        }
        self.losing |= status & libc::TP_STATUS_LOSING != 0;
        let head = self.read::<libc::tpacket_hdr_v1>(8);
        self.left = head.map_or(0, |head| head.num_pkts);
        self.next = head.map_or(0, |head| head.offset_to_first_pkt as usize);
        if self.left == 0 {
            self.give_back();
        }
        self.left > 0
    }

    fn give_back(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.current = (self.current + 1) % self.parts();
        self.emptied += 1;
    }

    /// The metadata of the next frame in a block, and the distance to the frame after it. If it is
    /// out of bounds, the rest of the block is lost.
    #[inline]
    fn head_in_block(&mut self) -> (Option<Head>, usize) {
        let Some(head) = self.read::<libc::tpacket3_hdr>(self.next) else {
            self.left = 1;
            return (None, 0);
        };
        let known = Head {
            status: head.tp_status,
            len: head.tp_len as usize,
            snaplen: head.tp_snaplen as usize,
            mac: self.next + usize::from(head.tp_mac),
            tag: (head.hv1.tp_vlan_tpid, head.hv1.tp_vlan_tci as u16),
            time: (head.tp_sec, head.tp_nsec),
            address: self.next + size_of::<libc::tpacket3_hdr>().next_multiple_of(ALIGNMENT),
        };
        (Some(known), head.tp_next_offset as usize)
    }

    #[inline]
    fn head(&self) -> (Option<Head>, usize) {
        let head = self.read::<libc::tpacket2_hdr>(0).map(|head| Head {
            status: head.tp_status,
            len: head.tp_len as usize,
            snaplen: head.tp_snaplen as usize,
            mac: usize::from(head.tp_mac),
            tag: (head.tp_vlan_tpid, head.tp_vlan_tci),
            time: (head.tp_sec, head.tp_nsec),
            address: size_of::<libc::tpacket2_hdr>().next_multiple_of(ALIGNMENT),
        });
        (head, 0)
    }

    #[inline]
    fn slot(&self, head: &Head) -> Option<Slot<'_>> {
        let mut header = [0; vnet::LEN_MAX];
        let before = self.slice(head.mac.checked_sub(vnet::LEN)?, vnet::LEN)?;
        header[..vnet::LEN].copy_from_slice(before);
        let tagged = head.status & libc::TP_STATUS_VLAN_VALID != 0;
        let typed = head.status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
        let tag = (if typed { head.tag.0 } else { 0x8100 }, head.tag.1);
        Some(Slot {
            header,
            bytes: self.slice(head.mac, head.snaplen)?,
            len: head.len,
            tag: tagged.then_some(tag),
            time_ns: u64::from(head.time.0) * 1_000_000_000 + u64::from(head.time.1),
            is_sent: self.read::<u8>(head.address + PACKET_TYPE)? == libc::PACKET_OUTGOING,
        })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let len = self.shape.run_len * self.shape.runs;
        // SAFETY: the mapping is this value's, made with this length, and nobody refers to it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), len) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours");
    }
}
