//! Forwarding: the settings of a router, and the state that it keeps for forwarding. Off by
//! default.
//!
//! Called by: the files of this folder. `ingress.rs` takes a router's bursts in, `plain.rs`
//! forwards packets one by one, and `burst.rs` plain ones together. RFC 1812, RFC 8200.

mod adjacency;
mod begin;
mod burst;
mod elsewhere;
mod filtered;
mod firewall;
mod ingress;
mod leave;
pub(crate) mod links;
mod look;
mod merge;
mod offloads;
mod plain;
mod redirect_out;
mod source;

use core::net::{Ipv4Addr, Ipv6Addr};

use adjacency::Adjacencies;
use base::Instant;
pub(crate) use firewall::Held;
pub(crate) use ingress::{Received, receive};
use mbuf::Mbuf;
pub(crate) use plain::unreachable;

use crate::port::Ports;

/// Settings and state of forwarding.
#[derive(Default)]
pub(crate) struct Forwarding {
    pub(crate) on: bool,
    directed_broadcasts: bool,
    no_redirects: bool,
    /// Made when forwarding is first switched on.
    bursts: Option<Box<Bursts>>,
    links: Links,
    /// Frames of the current burst to an address of ours on another port. That port is set as the
    /// one they came by, and the host's path gets them.
    pub(crate) to_host: Vec<Mbuf>,
    /// Fragments that wait for the first one of their datagram.
    pub(crate) held: Held,
}

impl Forwarding {
    /// Forwarding, directed broadcasts, redirects.
    pub(crate) fn settings(&self) -> (bool, bool, bool) {
        (self.on, self.directed_broadcasts, !self.no_redirects)
    }

    /// When the ports' links are looked at next.
    pub(crate) fn next_look(&self) -> Instant {
        self.links.next_deadline()
    }

    #[inline(always)]
    fn sends_redirects(&self) -> bool {
        !self.no_redirects
    }
}

/// State that the burst path keeps from one burst to the next.
struct Bursts {
    /// The stack's generation when `locals` was built.
    generation: u64,
    locals: Locals,
    adjacencies: Adjacencies,
}

impl Bursts {
    fn new() -> Bursts {
        // No stack is in this generation: it counts from zero.
        Bursts { generation: u64::MAX, locals: Locals::new(), adjacencies: Adjacencies::new() }
    }
}

/// When ports are asked next.
struct Links {
    due: Instant,
    /// The program reports link changes ([`crate::Stack::set_link_news`]).
    has_news: bool,
}

impl Default for Links {
    fn default() -> Links {
        Links { due: Instant::NEVER, has_news: false }
    }
}

impl Links {
    fn next_deadline(&self) -> Instant {
        self.due
    }
}

// Destinations that are this host: every port's own addresses, and the broadcast addresses of its
// networks. Built anew when addresses change, so that a packet is compared with all of them at
// once.
//
// An address may be found here that is none of the packet's own port: the long way (`plain.rs`)
// checks that again. RFC 1812 sections 5.2.3 and 5.3.5.

/// Bits of the filter in front of the lists: with a hundred addresses, one foreign address in forty
/// passes it.
const FILTER_BITS: u32 = 12;
const FILTER_WORDS: usize = 1 << (FILTER_BITS - 6);

/// All of these addresses, sorted, behind a filter.
struct Locals {
    filter: [u64; FILTER_WORDS],
    v4: Vec<Ipv4Addr>,
    v6: Vec<Ipv6Addr>,
}

impl Locals {
    const fn new() -> Locals {
        Locals { filter: [0; FILTER_WORDS], v4: Vec::new(), v6: Vec::new() }
    }

    /// Collect the addresses of a stack as it is now.
    #[cold]
    fn rebuild(&mut self, ports: &Ports) {
        self.v4.clear();
        self.v6.clear();
        for port in ports.iter() {
            self.v4.extend(port.local.special_v4());
            self.v6.extend(port.local.special_v6());
        }
        self.v4.sort_unstable();
        self.v6.sort_unstable();
        self.filter = [0; FILTER_WORDS];
        let v4 = self.v4.iter().map(|&addr| place_v4(addr));
        for place in v4.chain(self.v6.iter().map(|&addr| place_v6(addr))) {
            self.filter[place >> 6] |= 1 << (place & 63);
        }
    }

    #[inline(always)]
    fn has_v4(&self, addr: Ipv4Addr) -> bool {
        self.may_have(place_v4(addr)) && self.v4.binary_search(&addr).is_ok()
    }

    #[inline(always)]
    fn has_v6(&self, addr: Ipv6Addr) -> bool {
        self.may_have(place_v6(addr)) && self.v6.binary_search(&addr).is_ok()
    }

    #[inline(always)]
    fn may_have(&self, place: usize) -> bool {
        self.filter[place >> 6] >> (place & 63) & 1 != 0
    }
}

/// Below `1 << FILTER_BITS`.
#[inline(always)]
fn place_v4(addr: Ipv4Addr) -> usize {
    (addr.to_bits().wrapping_mul(0x9e37_79b1) >> (32 - FILTER_BITS)) as usize
}

#[inline(always)]
fn place_v6(addr: Ipv6Addr) -> usize {
    let bits = addr.to_bits();
    let both = (bits >> 64) as u64 ^ (bits as u64).rotate_left(23);
    (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER_BITS)) as usize
}
