//! Frames that ask for offloads and leave whole, by a port whose device does the work.
//!
//! Called by: `burst.rs`, and `merge.rs` for the super-segment that it has made. Decision 0133.
//! Counter: `super_segments_forwarded`.

use arrayvec::IntoIter;
use base::{Counter, DropReason};
use device::BURST;
use inet::forward::Inner;
use mbuf::{Flags, Mbuf};

use super::adjacency::{Adjacency, Link};
use super::leave::leave;
use super::look::{BARE, ETHERNET, Seen, TAGGED};
use crate::forward::plain::offloads::takes;
use crate::stack::Stack;

/// Send the next frame of a burst, which asks for offloads, to its next hop. `None`, with nothing
/// sent, if it has to take the long way. Otherwise as [`leave`].
#[inline(never)]
pub(super) fn leave_whole<const AT: usize>(
    stack: &mut Stack,
    adjacency: &Adjacency,
    seen: Seen,
    frames: &mut IntoIter<Mbuf, BURST>,
) -> Option<u64> {
    let m = frames.as_slice().first()?;
    let packet = m.as_slice().get(AT..AT + usize::from(seen.len))?;
    let inner = Inner::of(packet)?;
    let port = stack.ports.get(adjacency.port()).filter(|port| !port.gone)?;
    let is_described = m.has(Flags::CSUM_PARTIAL) && usize::from(m.csum()) == AT + inner.at;
    if !is_described || !takes(port, m, packet, &inner, adjacency.path_mtu as usize) {
        return None;
    }
    let is_super = m.segment_size() != 0;
    stack.core.cx.counters.add(Counter::SuperSegmentsForwarded, u64::from(is_super));
    leave_as_is::<AT>(stack, adjacency, &inner, seen, frames)
}

/// Send the next frame of a burst, whose offloads the port takes, to its next hop. As [`leave`].
pub(super) fn leave_as_is<const AT: usize>(
    stack: &mut Stack,
    adjacency: &Adjacency,
    inner: &Inner,
    seen: Seen,
    frames: &mut IntoIter<Mbuf, BURST>,
) -> Option<u64> {
    let port = stack.ports.get_mut(adjacency.port()).filter(|port| !port.gone)?;
    // As in `leave`, which must not ask a second time.
    if !port.has_room(&mut stack.core.cx) {
        port.forwarded.packets_out += 1;
        stack.core.drops.count(DropReason::TxFull);
        return frames.next().map(|m| m.len() as u64);
    }
    let link_len = match &adjacency.link {
        Link::Bare => BARE,
        Link::Tagged(_) if port.takes_tagged() => TAGGED,
        Link::Ethernet(_) | Link::Tagged(_) => ETHERNET,
    };
    frames.as_mut_slice().first_mut()?.set_csum((link_len + inner.at) as u16);
    leave::<AT>(stack, adjacency, &[seen], frames)
}
