//! Frames leave in a burst: with a hop limit lower by one, and the link header of their next hop.
//!
//! Called by: `forward/burst.rs`, for frames to one next hop that follow each other: port, header
//! and counters are looked at once for all of them. A tag is written with the link header, with the
//! priority of the received one (IEEE 802.1Q-2022 section 6.9). Drop: `tx_full`.

use arrayvec::IntoIter;
use base::DropReason;
use device::BURST;
use inet::forward::{pass_v4, pass_v6};
use mbuf::{Flags, Mbuf};
use wire::{ipv4, ipv6};

use super::adjacency::{Adjacency, Link};
use super::look::{BARE, ETHERNET, Seen, TAGGED};
use crate::port::Port;
use crate::stack::Stack;

/// Where the priority of a tag is in a frame, in the upper half of the byte.
const PRIORITY_AT: usize = 14;
const PRIORITY: u8 = 0xf0;

/// Send the next frames of a burst to their next hop: as many as there are in `seen`. Their packets
/// begin at `AT`, and they have room for any link header. Returns how many bytes they had as
/// received; `None`, with nothing sent, if the port is gone.
#[inline(always)]
pub(super) fn leave<const AT: usize>(
    stack: &mut Stack,
    adjacency: &Adjacency,
    mut seen: &[Seen],
    frames: &mut IntoIter<Mbuf, BURST>,
) -> Option<u64> {
    let core = &mut stack.core;
    let port = stack.ports.get_mut(adjacency.port()).filter(|port| !port.gone)?;
    port.forwarded.packets_out += seen.len() as u64;
    let mut bytes = 0;
    while !seen.is_empty() {
        if !port.has_room(&mut core.cx) {
            core.drops.count(DropReason::TxFull);
            bytes += frames.next().map_or(0, |m| m.len() as u64);
            seen = &seen[1..];
            continue;
        }
        let (now, later) = seen.split_at(seen.len().min(port.room()));
        seen = later;
        bytes += match &adjacency.link {
            Link::Bare => put::<AT, BARE>(port, [], now, frames),
            Link::Ethernet(header) => put::<AT, ETHERNET>(port, *header, now, frames),
            Link::Tagged(header) if port.takes_tagged() => {
                port.count_tagged(now.len());
                put::<AT, TAGGED>(port, *header, now, frames)
            }
            // They follow frames of this host, to which the port adds tags.
            tagged @ Link::Tagged(_) => put::<AT, ETHERNET>(port, tagged.untagged(), now, frames),
        };
    }
    Some(bytes)
}

/// Queue frames, for which the port has room, with a link header of `N` bytes. Returns how many
/// bytes they had as received. A separate function, so that registers suffice.
#[inline(never)]
fn put<const AT: usize, const N: usize>(
    port: &mut Port,
    header: [u8; N],
    seen: &[Seen],
    frames: &mut IntoIter<Mbuf, BURST>,
) -> u64 {
    let (mut received, mut sent) = (0, 0);
    for (m, seen) in frames.as_mut_slice().iter_mut().zip(seen) {
        received += m.len();
        let priority = if AT == N { 0 } else { priority::<AT>(m) };
        // Bytes for which both headers have room stay in place.
        m.keep(AT.saturating_sub(N), AT.min(N) + usize::from(seen.len));
        if N > AT {
            let _ = m.prepend(N - AT);
        }
        m.clear(Flags::CSUM_VERIFIED | Flags::SUMMED);
        if AT == TAGGED && N == ETHERNET {
            // A port that inserts tags finds the priority in the mbuf.
            m.set(Flags::VLAN);
            m.set_vlan(u16::from(priority) << 8);
        }
        let head = m.headers_mut(N + ipv4::HEADER_LEN);
        if let Some((front, packet)) = head.and_then(|head| head.split_first_chunk_mut::<N>()) {
            // The packet first, and the priority by a store alone: a load right behind the stores
            // of the link header waits for them.
            match seen.is_v6() {
                false => pass_v4(packet),
                true => pass_v6(packet),
            }
            if N == TAGGED {
                let priority = if AT == N { front[PRIORITY_AT] & PRIORITY } else { priority };
                *front = header;
                front[PRIORITY_AT] = header[PRIORITY_AT] | priority;
            } else {
                *front = header;
            }
        }
        sent += N + usize::from(seen.len);
    }
    port.uncounted().extend(frames.take(seen.len()));
    // Without tags, as in the host's path.
    let tags = if N == TAGGED { seen.len() * (TAGGED - ETHERNET) } else { 0 };
    port.count_bytes(sent - tags);
    received as u64
}

/// The priority of a received frame's tag, which is still in it, or which the port removed.
#[inline(always)]
fn priority<const AT: usize>(m: &Mbuf) -> u8 {
    let byte = match AT {
        TAGGED => m.as_slice().get(PRIORITY_AT).copied().unwrap_or(0),
        _ if m.has(Flags::VLAN) => (m.vlan() >> 8) as u8,
        _ => 0,
    };
    byte & PRIORITY
}

const _: () = assert!(ipv4::HEADER_LEN < ipv6::HEADER_LEN);
