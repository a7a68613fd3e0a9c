//! Addresses of this host: every port's own addresses, the broadcast addresses of its networks, and
//! the anycast addresses of routers. The list is rebuilt when addresses change, so that one lookup
//! compares a packet with the addresses of all ports.
//!
//! Called by: `burst.rs`. An address that is found here may belong to another port than the one
//! that the packet arrived on. The long way (`plain.rs`) takes such packets, and checks the address
//! for that port. RFC 1812 sections 5.2.3 and 5.3.5.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::port::Ports;

/// Bits of the filter in front of the lists: with a hundred addresses, one foreign address in forty
/// passes it.
const FILTER_BITS: u32 = 12;
const FILTER_WORDS: usize = 1 << (FILTER_BITS - 6);

/// All of these addresses, sorted, behind a filter.
pub(super) struct Locals {
    filter: [u64; FILTER_WORDS],
    v4: Vec<Ipv4Addr>,
    v6: Vec<Ipv6Addr>,
}

impl Locals {
    pub(super) const fn new() -> Locals {
        Locals { filter: [0; FILTER_WORDS], v4: Vec::new(), v6: Vec::new() }
    }

    /// Collect the addresses of a stack as it is now.
    #[cold]
    pub(super) fn rebuild(&mut self, ports: &Ports) {
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
    pub(super) fn has_v4(&self, addr: Ipv4Addr) -> bool {
        self.may_have(place_v4(addr)) && self.v4.binary_search(&addr).is_ok()
    }

    #[inline(always)]
    pub(super) fn has_v6(&self, addr: Ipv6Addr) -> bool {
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
