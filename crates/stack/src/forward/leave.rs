//! A frame leaves in a burst: a hop less, and the link header of its next hop.
//!
//! Called by: `forward/burst.rs`, for each frame that has an adjacency. A frame that cannot leave
//! as it is comes back unchanged. A tag is written with the link header, with the priority of the
//! received one (IEEE 802.1Q-2022 section 6.9). Drop: `tx_full`.

use base::DropReason;
use inet::forward::{pass_v4, pass_v6};
use mbuf::{Flags, Mbuf};
use wire::{ipv4, ipv6};

use super::adjacency::{Adjacency, Link};
use super::look::TAGGED;
use crate::Stack;
use crate::port::Port;

/// Where the priority of a tag is in a frame, in the upper half of the byte.
const PRIORITY_AT: usize = 14;
const PRIORITY: u8 = 0xf0;

/// A frame, whose packet of `len` bytes begins at `AT`, to its next hop; returned, and not changed,
/// if it cannot go there as it is.
#[inline(always)]
pub(super) fn leave<const AT: usize>(
    stack: &mut Stack,
    adjacency: &Adjacency,
    mut m: Mbuf,
    len: usize,
) -> Option<Mbuf> {
    let core = &mut stack.core;
    let port = stack.ports.get_mut(adjacency.port()).filter(|port| !port.gone);
    let room = m.headroom() + AT >= TAGGED;
    let Some(port) = port.filter(|_| room) else { return Some(m) };
    let tag_byte =
        if AT == TAGGED { m.as_slice().get(PRIORITY_AT).copied().unwrap_or(0) } else { 0 };
    m.keep(AT, len);
    m.clear(Flags::CSUM_VERIFIED | Flags::SUMMED);
    if let Some(packet) = m.headers_mut(ipv4::HEADER_LEN) {
        match packet[0] >> 4 {
            4 => pass_v4(packet),
            _ => pass_v6(packet),
        }
    }
    if port.has_room(&mut core.cx) {
        put::<AT>(port, adjacency, m, tag_byte & PRIORITY);
    } else {
        core.drops.count(DropReason::TxFull);
    }
    port.forwarded.packets_out += 1;
    None
}

/// The frame behind its link header. `priority` is that of the tag that it came with.
#[inline(always)]
fn put<const AT: usize>(port: &mut Port, adjacency: &Adjacency, mut m: Mbuf, priority: u8) {
    match &adjacency.link {
        Link::Bare => {}
        Link::Ethernet(header) => front::<AT>(&mut m, header, priority),
        Link::Tagged(header) if port.takes_tagged() => {
            let priority = if AT == TAGGED { priority } else { removed_priority(&m) };
            if let Some(room) = m.prepend(header.len()) {
                room.copy_from_slice(header);
                room[PRIORITY_AT] |= priority;
            }
            return port.push_tagged(m);
        }
        // Behind frames of this host, to which the port gives their tags.
        Link::Tagged(_) => front::<AT>(&mut m, &adjacency.link.untagged(), priority),
    }
    port.push(m);
}

/// A link header without a tag. A port that inserts tags finds the priority in the mbuf.
#[inline(always)]
fn front<const AT: usize>(m: &mut Mbuf, header: &[u8], priority: u8) {
    if AT == TAGGED {
        m.set(Flags::VLAN);
        m.set_vlan(u16::from(priority) << 8);
    }
    if let Some(room) = m.prepend(header.len()) {
        room.copy_from_slice(header);
    }
}

/// The priority of the tag that the port removed from a received frame.
#[inline(always)]
fn removed_priority(m: &Mbuf) -> u8 {
    if m.has(Flags::VLAN) { (m.vlan() >> 8) as u8 & PRIORITY } else { 0 }
}

const _: () = assert!(ipv4::HEADER_LEN < ipv6::HEADER_LEN);
