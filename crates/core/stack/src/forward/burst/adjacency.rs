//! Adjacencies: for next hops in use, the port and the finished link header of their frames. A
//! neighbour with an IPv6 address may be the next hop of both versions, and has one of each (RFC
//! 8950).
//!
//! Called by: `forward/burst.rs`. An entry holds until something changes from which it was made
//! (`burst::generation_of`), and no longer than a second if its neighbour is not permanent: then
//! the next packet goes the long way (`plain.rs`), which notes that the neighbour is used. RFC 4861
//! section 7.3.3.

use core::net::IpAddr;

use base::{Instant, IpVersion};
use device::vlan::Tag;
use inet::NextHop;

use super::look::{ETHERNET, TAGGED};

/// Bytes of both link addresses.
const ADDRESSES: usize = 12;

/// Buckets, a power of two, and entries of each. Tests have so few that next hops compete.
const BUCKETS: usize = if cfg!(test) { 2 } else { 512 };
const WAYS: usize = 2;

/// How packets leave to one next hop.
#[derive(Clone, Copy)]
pub(super) struct Adjacency {
    hop: NextHop,
    /// The version of the packets, which the link header names.
    version: IpVersion,
    /// The largest packet that leaves in a run of plain frames: `path_mtu`, or 0 if the port has
    /// its segments merged first.
    pub(super) mtu: u32,
    /// The largest packet that port, route and neighbour take.
    pub(super) path_mtu: u32,
    /// It holds before this time, and in this generation of the stack.
    until: Instant,
    generation: u64,
    /// No other entry has had this number, not even in this slot.
    serial: u32,
    pub(super) link: Link,
}

/// The finished link header of frames to a next hop.
#[derive(Clone, Copy)]
pub(super) enum Link {
    Bare,
    Ethernet([u8; ETHERNET]),
    /// With the port's tag, its priority zero.
    Tagged([u8; TAGGED]),
}

impl Link {
    /// The header without the tag.
    #[cold]
    pub(super) fn untagged(&self) -> [u8; ETHERNET] {
        let mut header = [0; ETHERNET];
        match self {
            Link::Bare => {}
            Link::Ethernet(own) => header = *own,
            Link::Tagged(own) => {
                header[..ADDRESSES].copy_from_slice(&own[..ADDRESSES]);
                header[ADDRESSES..].copy_from_slice(&own[ADDRESSES + Tag::LEN..]);
            }
        }
        header
    }
}

/// Where an adjacency is, if it still is the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    index: u16,
    serial: u32,
}

impl Adjacency {
    const NONE: Adjacency = Adjacency {
        hop: NextHop {
            port: 0,
            neighbour: IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
            mtu: None,
        },
        version: IpVersion::V4,
        mtu: 0,
        path_mtu: 0,
        until: Instant::ZERO,
        generation: 0,
        serial: 0,
        link: Link::Bare,
    };

    /// How packets of this version and of at most `mtu` bytes leave to this next hop, before
    /// `until`.
    pub(super) fn new(
        hop: &NextHop,
        version: IpVersion,
        mtu: u32,
        link: Link,
        until: Instant,
    ) -> Adjacency {
        Adjacency { hop: *hop, version, mtu, path_mtu: mtu, until, link, ..Adjacency::NONE }
    }

    /// The same for a port whose segments are merged.
    pub(super) fn merging(self, merging: bool) -> Adjacency {
        Adjacency { mtu: if merging { 0 } else { self.path_mtu }, ..self }
    }

    /// Are the segments of its port merged?
    #[inline(always)]
    pub(super) fn merges(&self) -> bool {
        self.mtu == 0
    }

    #[inline(always)]
    pub(super) fn port(&self) -> u16 {
        self.hop.port
    }
}

/// The tag comes behind the addresses.
pub(super) fn tagged(header: &[u8; ETHERNET], tag: Tag) -> [u8; TAGGED] {
    let mut tagged = [0; TAGGED];
    tagged[..ADDRESSES].copy_from_slice(&header[..ADDRESSES]);
    tagged[ADDRESSES..ADDRESSES + Tag::LEN].copy_from_slice(&tag.bytes());
    tagged[ADDRESSES + Tag::LEN..].copy_from_slice(&header[ADDRESSES..]);
    tagged
}

/// Adjacencies by next hop. A bucket that is full loses the entry that was made first.
pub(in crate::forward) struct Adjacencies {
    entries: Box<[[Adjacency; WAYS]; BUCKETS]>,
    made: u32,
}

impl Adjacencies {
    pub(in crate::forward) fn new() -> Adjacencies {
        Adjacencies { entries: Box::new([[Adjacency::NONE; WAYS]; BUCKETS]), made: 0 }
    }

    /// The adjacency of a next hop of packets of this version that holds now, in this generation
    /// of the stack.
    #[inline(always)]
    pub(super) fn find(
        &self,
        (hop, version): (&NextHop, IpVersion),
        generation: u64,
        now: Instant,
    ) -> Option<Slot> {
        let bucket = bucket_of(hop);
        let is_it = |a: &Adjacency| a.hop == *hop && a.version == version;
        let holds = |a: &Adjacency| is_it(a) && a.generation == generation && a.until > now;
        let way = self.entries[bucket].iter().position(holds)?;
        let serial = self.entries[bucket][way].serial;
        Some(Slot { index: (bucket * WAYS + way) as u16, serial })
    }

    /// Keep one for this generation.
    pub(super) fn insert(&mut self, made: Adjacency, generation: u64) -> Slot {
        let bucket = bucket_of(&made.hop);
        let ways = &mut self.entries[bucket];
        // An entry for the same next hop that no longer holds is replaced first.
        let way = ways.iter().position(|a| a.hop == made.hop && a.version == made.version);
        let oldest = || usize::from(ways[0].serial > ways[1].serial);
        let way = way.unwrap_or_else(oldest);
        self.made = self.made.wrapping_add(1);
        ways[way] = Adjacency { generation, serial: self.made, ..made };
        Slot { index: (bucket * WAYS + way) as u16, serial: self.made }
    }

    /// The adjacency in a slot, unless another one is there now.
    #[inline(always)]
    pub(super) fn at(&self, slot: Slot) -> Option<&Adjacency> {
        let index = usize::from(slot.index);
        let entry = &self.entries.get(index / WAYS)?[index % WAYS];
        (entry.serial == slot.serial).then_some(entry)
    }
}

#[inline(always)]
fn bucket_of(hop: &NextHop) -> usize {
    let bits = match hop.neighbour {
        IpAddr::V4(a) => u64::from(a.to_bits()),
        IpAddr::V6(a) => (a.to_bits() >> 64) as u64 ^ (a.to_bits() as u64).rotate_left(23),
    };
    let bits = bits ^ u64::from(hop.port) << 48;
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55) as usize % BUCKETS
}
