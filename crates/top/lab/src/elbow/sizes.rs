//! The sizes of argument: one byte on each side of every power of two, and of every argument that
//! fills its last segment or fragment; and the sizes of the measurements of 1989.
//!
//! Called by: `elbow.rs`, the benchmarks.

use super::point::Transport;
use super::published;

/// Bytes in front of the argument: the call (RFC 5531 section 9) and the argument's length.
pub(super) const BEFORE: u32 = 40 + 4;
/// The record mark (RFC 5531 section 11).
const MARK: u32 = 4;
const UDP_HEADER: u32 = 8;

/// The largest argument.
pub(super) fn largest(transport: Transport) -> u32 {
    match transport {
        Transport::Tcp => 65_536,
        Transport::Udp => 60_000,
    }
}

/// Bytes of data in a full packet of an Ethernet: of TCP with timestamps, of a fragment.
pub(super) fn packet(transport: Transport) -> u32 {
    match transport {
        Transport::Tcp => 1_448,
        Transport::Udp => 1_480,
    }
}

/// All sizes, ascending; `unit` bytes of data are in a full packet.
pub fn sizes(transport: Transport, unit: u32, is_quick: bool) -> Vec<u32> {
    let largest = largest(transport);
    let before = BEFORE + if transport == Transport::Tcp { MARK } else { UDP_HEADER };
    let mut sizes = vec![0, largest];
    let mut around = |size: u32| sizes.extend([size.saturating_sub(1), size, size + 1]);
    (2..=16).map(|power| 1 << power).for_each(&mut around);
    let fills = (1..).map(|packets| packets * unit).map(|bytes| bytes.saturating_sub(before));
    let step = if is_quick { 4 } else { 1 };
    fills.take_while(|&size| size <= largest).step_by(step).for_each(&mut around);
    if transport == Transport::Tcp {
        let published = published::PUBLISHED.iter().chain(&published::PUBLISHED_REMEDY);
        sizes.extend(published.map(|(size, _)| size));
        sizes.extend(published::EDGES);
    }
    sizes.retain(|&size| size <= largest);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
