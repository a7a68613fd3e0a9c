//! Adjacencies: for next hops in use, the port and the finished link header of their frames.
//!
//! Called by: `forward/burst.rs`. An entry holds until anything changes that it was made from
//! (`Stack::generation`), and no longer than a second if its neighbour is not permanent: then the
//! next packet goes the long way, which notes that the neighbour is used. RFC 4861 section 7.3.3.

use base::{Duration, Instant, LinkKind, MacAddr, Mtu};
use device::vlan::Tag;
use inet::NextHop;
use wire::ether;

use core::net::IpAddr;

use super::look::{ETHERNET, TAGGED};
use crate::{Stack, mtu};

/// Bytes of both link addresses.
const ADDRESSES: usize = 12;

/// Buckets, a power of two, and entries of each. Tests have so few that next hops compete.
const BUCKETS: usize = if cfg!(test) { 2 } else { 512 };
const WAYS: usize = 2;

/// A neighbour's use is noted as often.
const NOTED_EVERY: Duration = Duration::from_secs(1);

/// How packets leave to one next hop.
#[derive(Clone, Copy)]
pub(super) struct Adjacency {
    hop: NextHop,
    /// The largest packet that port, route and neighbour take.
    pub(super) mtu: u32,
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
        mtu: 0,
        until: Instant::ZERO,
        generation: 0,
        serial: 0,
        link: Link::Bare,
    };

    /// What the long way would find for this next hop of a packet of the same version, without
    /// asking anybody and without changing anything. `None` if it would do more than send.
    fn find(stack: &Stack, hop: &NextHop) -> Option<Adjacency> {
        let port = stack.ports.get(hop.port)?;
        let mtu = mtu::of_hop(stack, hop).map_or(0, Mtu::bytes) as u32;
        let found = Adjacency { hop: *hop, mtu, until: Instant::NEVER, ..Adjacency::NONE };
        if port.limits.link == LinkKind::Ip {
            return Some(found);
        }
        if port.local.is_group(hop.neighbour) {
            return None;
        }
        let now = stack.core.cx.now;
        let (mac, until) = stack.neighbours.usable((hop.port, hop.neighbour), now)?;
        let until = if until == Instant::NEVER { until } else { until.min(now + NOTED_EVERY) };
        let header = header(mac, port.mac, hop.neighbour);
        let link =
            port.own_tag.map_or(Link::Ethernet(header), |tag| Link::Tagged(tagged(&header, tag)));
        Some(Adjacency { until, link, ..found })
    }

    #[inline(always)]
    pub(super) fn port(&self) -> u16 {
        self.hop.port
    }
}

fn header(dst: MacAddr, src: MacAddr, to: IpAddr) -> [u8; ether::HEADER_LEN] {
    let ethertype = if to.is_ipv6() { ether::IPV6 } else { ether::IPV4 };
    let mut header = [0; ether::HEADER_LEN];
    ether::Header { dst, src, ethertype }.emit(&mut header);
    header
}

/// The tag comes behind the addresses.
fn tagged(header: &[u8; ETHERNET], tag: Tag) -> [u8; TAGGED] {
    let mut tagged = [0; TAGGED];
    tagged[..ADDRESSES].copy_from_slice(&header[..ADDRESSES]);
    tagged[ADDRESSES..ADDRESSES + Tag::LEN].copy_from_slice(&tag.bytes());
    tagged[ADDRESSES + Tag::LEN..].copy_from_slice(&header[ADDRESSES..]);
    tagged
}

/// Adjacencies by next hop. A bucket that is full loses the entry that was made first.
pub(super) struct Adjacencies {
    entries: Box<[[Adjacency; WAYS]; BUCKETS]>,
    made: u32,
}

impl Adjacencies {
    pub(super) fn new() -> Adjacencies {
        Adjacencies { entries: Box::new([[Adjacency::NONE; WAYS]; BUCKETS]), made: 0 }
    }

    /// The adjacency of a next hop for packets to `dst`, and whether it was made by this call;
    /// `None` if there is none without going the long way.
    #[inline(always)]
    pub(super) fn find(
        &mut self,
        stack: &Stack,
        generation: u64,
        hop: &NextHop,
        dst: IpAddr,
    ) -> Option<(Slot, bool)> {
        // The header has the EtherType of the next hop's version.
        if hop.neighbour.is_ipv4() != dst.is_ipv4() {
            return None;
        }
        let bucket = bucket_of(hop);
        let holds = |a: &Adjacency| {
            a.hop == *hop && a.generation == generation && a.until > stack.core.cx.now
        };
        match self.entries[bucket].iter().position(holds) {
            Some(way) => {
                let serial = self.entries[bucket][way].serial;
                Some((Slot { index: (bucket * WAYS + way) as u16, serial }, false))
            }
            None => self.make(stack, generation, hop).map(|slot| (slot, true)),
        }
    }

    #[cold]
    #[inline(never)]
    fn make(&mut self, stack: &Stack, generation: u64, hop: &NextHop) -> Option<Slot> {
        let made = Adjacency::find(stack, hop)?;
        let bucket = bucket_of(hop);
        let ways = &mut self.entries[bucket];
        // One for the same next hop that holds no more leaves first.
        let way = ways.iter().position(|a| a.hop == *hop);
        let oldest = || usize::from(ways[0].serial > ways[1].serial);
        let way = way.unwrap_or_else(oldest);
        self.made = self.made.wrapping_add(1);
        ways[way] = Adjacency { generation, serial: self.made, ..made };
        Some(Slot { index: (bucket * WAYS + way) as u16, serial: self.made })
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
