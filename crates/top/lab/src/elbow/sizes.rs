//! The sizes of argument: one byte on each side of every power of two, and of every argument that
//! fills its last segment or fragment; and the sizes of the measurements of 1989.
//!
//! Called by: `elbow.rs`, the benchmarks.

use super::point::Transport;

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

/// Bytes of data in a full Ethernet packet: a TCP segment with timestamps, or an IP fragment.
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
        let published = PUBLISHED.iter().chain(&PUBLISHED_REMEDY);
        sizes.extend(published.map(|(size, _)| size));
        sizes.extend(EDGES);
    }
    sizes.retain(|&size| size <= largest);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

// The measurements of 1989, of the defect and of the remedy, and the sizes where their elbows begin
// and end.
//
// Source: the reports of a user and of the vendor, of May and June 1989: 100 calls of a null
// procedure, 20 times, between two workstations on a 10 Mb/s Ethernet that nobody else used.

/// Milliseconds a call over TCP between two hosts as measured in 1989, by bytes of argument.
pub(super) const PUBLISHED: [(u32, f64); 8] = [
    (0, 7.1),
    (512, 9.1),
    (1024, 11.6),
    (2048, 15.7),
    (4000, 24.2),
    (4096, 199.8),
    (8000, 40.8),
    (8192, 199.9),
];

/// The same times with the vendor's remedy.
pub(super) const PUBLISHED_REMEDY: [(u32, f64); 12] = [
    (0, 9.4),
    (512, 9.7),
    (1024, 11.6),
    (2048, 15.0),
    (4000, 19.9),
    (4096, 22.8),
    (8000, 33.7),
    (8192, 38.1),
    (8300, 37.0),
    (16_300, 63.0),
    (16_392, 87.2),
    (16_400, 105.4),
];

/// Sizes around the elbows: the smallest and the largest argument of each elbow, and their
/// neighbours. A call with an argument of 4,044 bytes and its two record marks takes 4,096 bytes in
/// the stream; from 4,969 on the second write fills a cluster. The other sizes are those for the
/// third write, and for the second write with the remedy.
pub(super) const EDGES: [u32; 16] = [
    4_044, 4_045, 4_952, 4_968, 4_969, 8_040, 8_041, 8_090, 8_960, 8_964, 8_965, 24_524, 24_525,
    24_700, 24_968, 24_969,
];
