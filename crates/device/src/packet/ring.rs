//! The receive ring that the kernel fills and we empty: memory of both, and who owns which part.
//!
//! Called by: `packet.rs`. Source: Linux `uapi/linux/if_packet.h`, and
//! `Documentation/networking/packet_mmap.rst`.
//!
//! A part is a block (TPACKET_V3, any number of frames in it) or a slot (TPACKET_V2, one frame).
//! Each begins with a status word: the kernel stores `USER` when it has filled the part and does
//! not touch it until we store `KERNEL`. Nothing of a part is read before the load that saw `USER`
//! (acquire), nor after our store (release): that is the invariant of every `unsafe` here. Offsets
//! and lengths in it are checked against the part, so a kernel that erred costs a part, no more.
#![allow(unsafe_code)]

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::AsFd;

use rustix::io::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::vnet;

/// Bytes of the ring's bookkeeping for a frame, at most: its head, the link's address, alignment,
/// the virtio header. A block has 48 more.
pub(super) const OVERHEAD: usize = 256;

/// Bytes of a frame that counts for one where only bytes are limited: a quarter of a full-size one,
/// as in `mitigation.rs`.
const COUNTED: usize = 1_514_usize.div_ceil(4);

/// What heads are aligned to, `TPACKET_ALIGNMENT`.
const ALIGNMENT: usize = 16;

/// Where `sll_pkttype` is in `struct sockaddr_ll`.
const PACKET_TYPE: usize = 10;

/// Where the parts of the ring are, and of which kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) blocks: bool,
    /// Bytes from one part to the next within a run of them, and parts in a run: a run is a block
    /// of the kernel's, and a block of TPACKET_V3 is one part.
    pub(super) part_len: usize,
    pub(super) parts_a_run: usize,
    pub(super) run_len: usize,
    pub(super) runs: usize,
}

impl Shape {
    /// Frames that such a ring holds.
    pub(super) const fn depth(&self) -> usize {
        let frames = if self.blocks { self.part_len / (COUNTED + OVERHEAD) } else { 1 };
        frames * self.parts_a_run * self.runs
    }
}

/// A received frame in the ring.
pub(super) struct Slot<'a> {
    /// The virtio header in front of it.
    pub(super) header: [u8; vnet::LEN_MAX],
    /// As much of it as the ring holds.
    pub(super) bytes: &'a [u8],
    /// Its length on the wire.
    pub(super) len: usize,
    /// A tag that the kernel took out: protocol identifier and control information.
    pub(super) tag: Option<(u16, u16)>,
    /// When the kernel saw it, in nanoseconds since 1970.
    pub(super) time_ns: u64,
    /// This machine sent it.
    pub(super) is_sent: bool,
}

/// The mapped memory, and how far it was read.
pub(super) struct Ring {
    start: NonNull<u8>,
    shape: Shape,
    current: usize,
    /// Frames of the current block that were not read yet, and where the next one is in it.
    left: u32,
    next: usize,
    /// Parts emptied since the ring was last found empty: losses take a ring that was full.
    emptied: usize,
    losing: bool,
}

// SAFETY: the mapping belongs to this value alone, and may be used from any one thread.
unsafe impl Send for Ring {}

/// The head of a frame, whatever the version.
struct Head {
    status: u32,
    len: usize,
    snaplen: usize,
    mac: usize,
    tag: (u16, u16),
    time: (u32, u32),
    /// Where the link's address is, `struct sockaddr_ll`.
    address: usize,
}

impl Ring {
    /// Map the ring of a socket that was given one of this shape.
    pub(super) fn map(fd: impl AsFd, shape: Shape) -> Result<Ring> {
        let (len, protection) = (shape.run_len * shape.runs, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, wherever the kernel has room for it.
        let start = unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, fd, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)?;
        Ok(Ring { start, shape, current: 0, left: 0, next: 0, emptied: 0, losing: false })
    }

    /// Frames that it holds.
    pub(super) fn depth(&self) -> usize {
        self.shape.depth()
    }

    fn parts(&self) -> usize {
        self.shape.parts_a_run * self.shape.runs
    }

    /// Where the current part begins.
    #[inline]
    fn at(&self) -> usize {
        let (run, part) = match self.shape.parts_a_run {
            1 => (self.current, 0),
            n => (self.current / n, self.current % n),
        };
        run * self.shape.run_len + part * self.shape.part_len
    }

    /// The status word of the current part: behind version and private offset in a block.
    #[inline]
    fn status(&self) -> &AtomicU32 {
        let at = self.at() + if self.shape.blocks { 8 } else { 0 };
        // SAFETY: every part begins inside the mapping and is longer than its head; parts are
        // multiples of 16 bytes long; the kernel and we touch this word atomically.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// A value of the current part, which must be ours; `None` if it is not inside.
    #[inline]
    fn read<T: Copy>(&self, offset: usize) -> Option<T> {
        self.range(offset, size_of::<T>())?;
        // SAFETY: inside the part (checked), which is ours; the structs read are of integers.
        Some(unsafe { self.start.as_ptr().add(self.at() + offset).cast::<T>().read_unaligned() })
    }

    /// Bytes of the current part, which must be ours; `None` if they are not inside.
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

    /// Did the kernel perhaps lose frames since this was last asked?
    pub(super) fn may_have_lost(&mut self) -> bool {
        core::mem::take(&mut self.losing)
    }

    /// Look at the next frame and give its place back; `None` if there is none. What `look` is
    /// given is `None` where the kernel's words make no sense.
    #[inline]
    pub(super) fn take<R>(&mut self, look: impl FnOnce(Option<Slot<'_>>) -> R) -> Option<R> {
        if self.left == 0 && !self.open() {
            // A full ring was emptied: what came meanwhile found no room.
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

    /// Begin with the current part, if it is ours and has frames.
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

    /// The head of the next frame in a block, and how far it is to the one behind it. Where there
    /// is none the rest of the block is lost.
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
