//! A frame that the guest sends: from its memory into one buffer of ours.
//!
//! Called by: `vhost_user.rs`. Counters: none; it returns the reason of a drop.
//!
//! The bytes are copied once, as a kernel does for a TAP. They are not used where they are: the
//! guest could change a header after it was checked, and a slice of bytes that change is undefined
//! behaviour in Rust (docs/decisions/0144).

use base::DropReason;
use device::Limits;
use device::vnet::{self, GSO_NONE, Header};
use mbuf::{Mbuf, Pool};
use vm_memory::{Bytes, GuestMemoryMmap};

use crate::guest::{FROM_GUEST, Guest};
use crate::ring::{Broken, PIECES_MAX, Piece, Side};

/// What the ring had.
pub(crate) enum Taken {
    Frame(Mbuf),
    /// A frame that was dropped.
    Dropped(DropReason),
    Empty,
}

/// Take the next frame of the guest, if there is one; `pieces` is for use within.
pub(crate) fn take(
    guest: &mut Guest,
    pieces: &mut Vec<Piece>,
    limits: &Limits,
    pool: &mut Pool,
) -> Result<Taken, Broken> {
    let header_len = guest.header_len();
    let memory = guest.memory.regions();
    let ring = &mut guest.rings[FROM_GUEST];
    pieces.clear();
    let Some(head) = ring.next(memory, Side::Filled, pieces)? else { return Ok(Taken::Empty) };
    let taken = match copied(memory, pieces, header_len, limits, pool) {
        Ok(frame) => Taken::Frame(frame),
        Err(reason) => Taken::Dropped(reason),
    };
    ring.give_back(memory, head, 0)?;
    Ok(taken)
}

fn copied(
    memory: &GuestMemoryMmap,
    pieces: &[Piece],
    header_len: usize,
    limits: &Limits,
    pool: &mut Pool,
) -> Result<Mbuf, DropReason> {
    let all: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
    let len = all.saturating_sub(header_len as u64);
    if len == 0 || pieces.len() >= PIECES_MAX {
        return Err(DropReason::DeviceBadHeader);
    }
    let mut from = Copied { memory, pieces, within: 0 };
    let mut bytes = [0; vnet::LEN_MAX];
    let header = bytes.get_mut(..header_len).ok_or(DropReason::DeviceBadHeader)?;
    from.read(header)?;
    let header = Header::from_bytes(&in_order(bytes));
    let is_super = header.gso_type() != GSO_NONE;
    // Segmentation needs an unfinished checksum: section 5.1.6.2.
    if is_super && !header.needs_checksum() {
        return Err(DropReason::DeviceBadHeader);
    }
    // Two tags fit in front of a super-segment, too.
    let most = if is_super { limits.offloads.tso_max_bytes + 8 } else { limits.max_frame };
    let len = usize::try_from(len).ok().filter(|&len| len <= most);
    let len = len.ok_or(DropReason::DeviceFrameTooBig)?;
    let mut frame = pool.alloc(len).ok_or(DropReason::MbufExhausted)?;
    let read = frame.put(len, |room| from.read(room)).unwrap_or(Err(DropReason::MbufExhausted));
    let fits =
        read.and_then(|()| header.describe(&mut frame).map_err(|_| DropReason::DeviceBadHeader));
    match fits {
        Ok(()) => Ok(frame),
        Err(reason) => {
            pool.free(frame);
            Err(reason)
        }
    }
}

/// The header's fields are little-endian on the ring, and native in [`Header`].
pub(crate) fn in_order<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    if cfg!(target_endian = "big") {
        // Two bytes of flags, then fields of two bytes.
        bytes[2..].chunks_exact_mut(2).for_each(<[u8]>::reverse);
    }
    bytes
}

/// Reads buffers of the guest one after the other.
struct Copied<'a> {
    memory: &'a GuestMemoryMmap,
    pieces: &'a [Piece],
    /// Bytes of the first piece that were read.
    within: u32,
}

impl Copied<'_> {
    /// Fill `into`.
    fn read(&mut self, mut into: &mut [u8]) -> Result<(), DropReason> {
        while !into.is_empty() {
            let piece = self.pieces.first().ok_or(DropReason::DeviceBadHeader)?;
            let rest = (piece.len - self.within) as usize;
            let (part, others) = into.split_at_mut(rest.min(into.len()));
            let at = piece.at.0.checked_add(u64::from(self.within));
            let at = vm_memory::GuestAddress(at.ok_or(DropReason::DeviceBadHeader)?);
            self.memory.read_slice(part, at).map_err(|_| DropReason::DeviceBadHeader)?;
            if part.len() == rest {
                self.pieces = &self.pieces[1..];
                self.within = 0;
            } else {
                self.within += part.len() as u32;
            }
            into = others;
        }
        Ok(())
    }
}
