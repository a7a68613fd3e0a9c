//! A frame for the guest: from a buffer of ours into the buffers that the guest has made available.
//!
//! Called by: `vhost_user.rs`. Counters: none; it returns the reason of a drop. VIRTIO 1.2 section
//! 5.1.6.4.

use base::{DropReason, LinkKind};
use device::vnet::{self, GSO_ECN, GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, Header};
use mbuf::Mbuf;
use vm_memory::{Bytes, GuestMemoryMmap};

use crate::guest::{Guest, TO_GUEST, feature};
use crate::receive::in_order;
use crate::ring::{Broken, PIECES_MAX, Piece, Side};

/// What happened to a frame.
pub(crate) enum Put {
    /// The guest has it, once the ring is published.
    Done,
    Dropped(DropReason),
    /// The guest leaves checksums or segmentation to us: finish the frame, then put its parts.
    Unfinished,
    /// There are too few buffers; this far the ring was available.
    Full(u16),
}

/// A chain, and the bytes that fit into it.
#[derive(Clone, Copy)]
pub(crate) struct Chain {
    head: u16,
    room: u64,
}

/// Memory for use within [`put`].
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) pieces: Vec<Piece>,
    chains: Vec<Chain>,
}

/// Put a frame into the guest's buffers.
pub(crate) fn put(guest: &mut Guest, scratch: &mut Scratch, frame: &Mbuf) -> Result<Put, Broken> {
    let Ok(header) = Header::of(frame, LinkKind::Ethernet) else {
        return Ok(Put::Dropped(DropReason::DeviceRefused));
    };
    if !is_left_to_guest(&header, guest.features) {
        return Ok(Put::Unfinished);
    }
    let header_len = guest.header_len();
    let needed = (header_len + frame.len()) as u64;
    match reserve(guest, scratch, header_len, needed)? {
        Put::Done => {}
        other => return Ok(other),
    }
    let mut bytes = [0; 12];
    bytes[..vnet::LEN].copy_from_slice(&in_order(header.to_bytes()));
    let count = scratch.chains.len() as u16;
    bytes[vnet::LEN..].copy_from_slice(&count.to_le_bytes());
    let memory = guest.memory.regions();
    write(memory, &scratch.pieces, [bytes.get(..header_len).unwrap_or(&bytes), frame.as_slice()])?;
    let mut rest = needed;
    for chain in &scratch.chains {
        let used = rest.min(chain.room);
        rest -= used;
        guest.rings[TO_GUEST].give_back(memory, chain.head, used as u32)?;
    }
    Ok(Put::Done)
}

/// Does the guest do what the header asks for?
fn is_left_to_guest(header: &Header, features: u64) -> bool {
    let has = |wanted: u64| features & wanted == wanted;
    let kind = header.gso_type();
    let has_checksum = !header.needs_checksum() || has(feature::GUEST_CSUM);
    let has_ecn = kind & GSO_ECN == 0 || has(feature::GUEST_ECN);
    let has_kind = match kind & !GSO_ECN {
        GSO_NONE => true,
        GSO_TCPV4 => has(feature::GUEST_TSO4),
        GSO_TCPV6 => has(feature::GUEST_TSO6),
        GSO_UDP_L4 => has(feature::GUEST_USO),
        _ => false,
    };
    has_checksum && has_ecn && has_kind
}

/// Take chains with room for `needed` bytes: [`Put::Done`], or nothing is taken.
fn reserve(
    guest: &mut Guest,
    Scratch { pieces, chains }: &mut Scratch,
    header_len: usize,
    needed: u64,
) -> Result<Put, Broken> {
    let merges = guest.features & feature::MRG_RXBUF != 0;
    let memory = guest.memory.regions();
    let ring = &mut guest.rings[TO_GUEST];
    let (base, known) = (ring.base(), ring.available(memory)?);
    let is_all = ring.is_full_of(known);
    pieces.clear();
    chains.clear();
    let mut all = 0;
    while all < needed {
        let before = pieces.len();
        let is_too_big = (!merges && before > 0) || before >= PIECES_MAX;
        let next = if is_too_big { None } else { ring.next(memory, Side::Empty, pieces)? };
        let Some(head) = next else {
            ring.set_base(base);
            let never = is_too_big || is_all;
            return Ok(if never {
                Put::Dropped(DropReason::DeviceFrameTooBig)
            } else {
                Put::Full(known)
            });
        };
        let room: u64 = pieces[before..].iter().map(|piece| u64::from(piece.len)).sum();
        // A chain has room for the header, or the driver does not know what a network card is.
        if room < header_len as u64 {
            return Err(Broken);
        }
        chains.push(Chain { head, room });
        all += room;
    }
    Ok(Put::Done)
}

fn write(memory: &GuestMemoryMmap, pieces: &[Piece], parts: [&[u8]; 2]) -> Result<(), Broken> {
    let mut pieces = pieces.iter().copied();
    let mut room = Piece { at: vm_memory::GuestAddress(0), len: 0 };
    for mut bytes in parts {
        while !bytes.is_empty() {
            if room.len == 0 {
                room = pieces.next().ok_or(Broken)?;
                continue;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(room.len as usize));
            memory.write_slice(part, room.at).map_err(|_| Broken)?;
            // No overflow: the bytes were written there.
            room.at.0 += part.len() as u64;
            room.len -= part.len() as u32;
            bytes = rest;
        }
    }
    Ok(())
}
