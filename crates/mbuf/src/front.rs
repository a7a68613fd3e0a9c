//! The same headers in front of many payloads: for each a handle to send it by.
//!
//! Called by: whoever sends a run of segments that differ in little. Payloads of a run are mostly
//! alike themselves, down to the word that says how a buffer is held: one comparison takes the
//! place of all questions, and what is not like the others is asked them.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ptr::NonNull;
use std::sync::Arc;

use crate::Pool;
use crate::class::{Class, HEADROOM, LINE};
use crate::mbuf::{Flags, Mbuf};
use crate::store::{Header, Meta};

/// Bytes of headers that a [`Front`] has room for.
pub const FRONT_MAX: usize = 96;

/// What one instruction copies; a vector stays in its register from one payload to the next.
#[cfg(target_arch = "x86_64")]
type Chunk = core::arch::x86_64::__m128i;
#[cfg(not(target_arch = "x86_64"))]
type Chunk = [u8; 16];

type Chunks = [Chunk; FRONT_MAX / size_of::<Chunk>()];

/// Headers for many payloads.
pub struct Front {
    chunks: Chunks,
    len: usize,
    /// What frames have of their own, not from their payloads.
    framing: u64,
    flags: u8,
    like: Like,
}

/// How a payload is held that needs no other look (the words of [`held`]).
struct Like {
    /// By one handle, with nothing but headroom in front.
    alone: u64,
    /// The same when there are two.
    kept: u64,
    /// The other, headers included.
    sent: u64,
}

impl Front {
    /// What `frame` has in front of `payload`, which it was made of, for payloads like that. `None`
    /// if that is more than fits, or if other handles may write where it is.
    #[inline(always)]
    pub fn of(frame: &Mbuf, payload: &Mbuf) -> Option<Front> {
        // Fields in one word: loom's are not.
        if cfg!(loom) {
            return None;
        }
        let len = frame.len().checked_sub(payload.len()).filter(|&len| len <= FRONT_MAX)?;
        let end = frame.offset() + len;
        if end < FRONT_MAX || !frame.writable_up_to(end) {
            return None;
        }
        // SAFETY: the `FRONT_MAX` bytes before `end` are in the cluster, this handle's alone; any
        // bytes are a chunk.
        let chunks = unsafe {
            let from = frame.header().data.get().add(len).sub(FRONT_MAX).cast::<Chunk>();
            core::array::from_fn(|i| from.add(i).read_unaligned())
        };
        let (framing, flags) = (frame.header().framing(), frame.header().flags.get());
        Some(Front { chunks, len, framing, flags, like: Like::of(payload, frame) })
    }

    /// Bytes of headers, [`FRONT_MAX`] at most.
    #[inline(always)]
    pub fn headers_len(&self) -> usize {
        self.len
    }

    /// With what is before them.
    fn headers(&self) -> [u8; FRONT_MAX] {
        let mut headers = [0; FRONT_MAX];
        // SAFETY: as many bytes as there are, and a chunk is bytes.
        unsafe { write(headers.as_mut_ptr().cast(), self.chunks) };
        headers
    }
}

impl Like {
    /// Like `payload` before it went in `frame`.
    #[inline(always)]
    fn of(payload: &Mbuf, frame: &Mbuf) -> Like {
        let (p, f) = (payload.header(), frame.header());
        // As none is, a share least of all.
        let refs = if p.class == Class::Share { 0 } else { 1 };
        let own = p.flags.get();
        let asked = f.flags.get() & Flags::CSUM_PARTIAL;
        let flags = (own & !Flags::SUMMED) | asked | Flags::SHARED;
        Like {
            alone: held(p.len.get(), refs, own & !Flags::SHARED, p.class),
            kept: held(p.len.get(), 2, own | Flags::SHARED, p.class),
            sent: held(f.len.get(), HEADROOM as u16, flags, Class::Share),
        }
    }
}

/// Each by a store of its own: in a loop it would be a copy from memory.
///
/// # Safety
/// They are the caller's to write.
#[inline(always)]
unsafe fn write(to: *mut Chunk, [a, b, c, d, e, f]: Chunks) {
    // SAFETY: by contract.
    unsafe {
        to.write_unaligned(a);
        to.add(1).write_unaligned(b);
        to.add(2).write_unaligned(c);
        to.add(3).write_unaligned(d);
        to.add(4).write_unaligned(e);
        to.add(5).write_unaligned(f);
    }
}

/// Shares of a pool, lent for a while.
pub struct Shares<'p> {
    pool: &'p mut Pool,
    /// The pool's list, which has none meanwhile.
    free: Option<NonNull<Header>>,
    taken: usize,
}

impl Pool {
    /// Make many shares.
    #[inline(always)]
    pub fn shares<R>(&mut self, work: impl FnOnce(&mut Shares) -> R) -> R {
        let free = self.store.free[Class::Share as usize].take();
        // Lent and not given: nobody can forget it, so what it took is counted.
        work(&mut Shares { pool: self, free, taken: 0 })
    }

    /// [`Shares::behind`] for any payload. `None` when no memory is left.
    #[cold]
    pub fn share_behind(
        &mut self,
        mbuf: &mut Mbuf,
        front: &Front,
        fill: impl FnOnce(&mut [u8; FRONT_MAX]),
    ) -> Option<Mbuf> {
        let mut headers = front.headers();
        fill(&mut headers);
        let mut m = match self.share_for_send(mbuf) {
            Some(share) => share,
            None => self.copy_range(mbuf, 0, mbuf.len())?,
        };
        m.prepend(front.len)?.copy_from_slice(headers.get(FRONT_MAX - front.len..)?);
        m.clear(Flags::SUMMED);
        m.set(front.flags & Flags::CSUM_PARTIAL);
        // SAFETY: the handle is ours alone.
        unsafe { Header::frame(m.header.as_ptr(), front.framing) };
        Some(m)
    }
}

impl Shares<'_> {
    /// [`Pool::share_for_send`] with headers in front, which `fill` may change: it sees them at the
    /// end of its array, where they will stay; what is in front of them lands in the headroom.
    /// `None` if the payload is not like that of [`Front::of`], or no share is at hand:
    /// [`Pool::share_behind`] may help.
    #[inline(always)]
    pub fn behind(
        &mut self,
        mbuf: &mut Mbuf,
        front: &Front,
        fill: impl FnOnce(&mut [u8; FRONT_MAX]),
    ) -> Option<Mbuf> {
        let from = mbuf.header.as_ptr();
        // Of a share, which is not like the first, it is never looked at.
        let data = from.wrapping_byte_add(LINE + HEADROOM).cast::<u8>();
        let h = mbuf.header();
        let is_ours = h.owner.as_ptr().cast_const() == Arc::as_ptr(&self.pool.shared);
        // The count of another pool's buffer is that pool's to read.
        if !is_ours || h.held() != front.like.alone || h.data.get() != data {
            return None;
        }
        let header = self.take()?;
        // SAFETY: the cluster is this pool's and has one handle, so the count is ours to set. The
        // bytes before its data are the new handle's alone from here on: they are in front of all
        // that `mbuf` can see, and before `private_end`. There are `HEADROOM` of them, as many as
        // the front at least; so the new handle's data, `len` bytes longer, is in the cluster.
        unsafe {
            Header::hold(from, front.like.kept);
            let area = data.sub(FRONT_MAX);
            write(area.cast(), front.chunks);
            fill(&mut *area.cast());
            let to = header.as_ref();
            to.data.set(data.sub(front.len));
            to.base.set(mbuf.header);
            to.meta.set((*from).meta.get());
            Header::frame(header.as_ptr(), front.framing);
            Header::hold(header.as_ptr(), front.like.sent);
        }
        Some(Mbuf { header, _owns: PhantomData })
    }

    /// As `Store::take`; the next one lies close by and need not be fetched.
    #[inline(always)]
    fn take(&mut self) -> Option<NonNull<Header>> {
        let header = self.free?;
        // SAFETY: a header on a free list belongs to whoever has the list alone.
        self.free = unsafe { header.as_ref().next.get() };
        self.taken += 1;
        Some(header)
    }
}

impl Drop for Shares<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.pool.store.free[Class::Share as usize] = self.free;
        self.pool.store.outstanding += self.taken;
    }
}

const HELD_AT: usize = core::mem::offset_of!(Header, len);
const FRAMING_AT: usize = core::mem::offset_of!(Header, meta) + core::mem::offset_of!(Meta, csum);
const _: () = assert!(cfg!(loom) || HELD_AT == LINE - 8 && FRAMING_AT == LINE - 16);

/// Length, count, flags and class of a header, as they lie in it.
#[inline(always)]
fn held(len: u32, refs_or_private_end: u16, flags: u8, class: Class) -> u64 {
    let low = (u64::from(refs_or_private_end), u64::from(flags), class as u64);
    if cfg!(target_endian = "little") {
        u64::from(len) | low.0 << 32 | low.1 << 48 | low.2 << 56
    } else {
        u64::from(len) << 32 | low.0 << 16 | low.1 << 8 | low.2
    }
}

impl Header {
    /// [`held`] of this one.
    #[inline(always)]
    fn held(&self) -> u64 {
        // SAFETY: the fields from `len` on are eight bytes without padding, aligned as a word.
        unsafe { (&raw const *self).byte_add(HELD_AT).cast::<u64>().read() }
    }

    /// Set all that is in [`held`].
    ///
    /// # Safety
    /// `this` is the caller's alone, and so is the count of handles; the class stays what it was.
    #[inline(always)]
    unsafe fn hold(this: *mut Header, held: u64) {
        // SAFETY: by contract, and as in `held`; the word was made of a class.
        unsafe { this.byte_add(HELD_AT).cast::<u64>().write(held) }
    }

    /// Of the metadata what is said of a frame as a frame, as it lies there: `csum`, `in_port`,
    /// `segment_size` and `vlan`.
    #[inline(always)]
    fn framing(&self) -> u64 {
        // SAFETY: as in `held`.
        unsafe { (&raw const *self).byte_add(FRAMING_AT).cast::<u64>().read() }
    }

    /// Set all that is in [`Header::framing`].
    ///
    /// # Safety
    /// `this` is the caller's alone.
    #[inline(always)]
    unsafe fn frame(this: *mut Header, framing: u64) {
        // SAFETY: by contract, and as in `held`.
        unsafe { this.byte_add(FRAMING_AT).cast::<u64>().write(framing) }
    }
}

const _: () = assert!(FRONT_MAX <= HEADROOM);
