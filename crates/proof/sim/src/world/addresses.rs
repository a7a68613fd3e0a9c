//! The addresses of hosts, by the numbers of their networks and their own.
//!
//! Called by: `topology`, tests.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{Cidr, IpVersion, MacAddr};

/// A host's address on a network.
pub fn address(network: u8, host: usize, version: IpVersion) -> Cidr {
    let number = host as u8 + 1;
    match version {
        IpVersion::V4 => {
            Cidr { addr: IpAddr::V4(Ipv4Addr::new(10, 0, network, number)), prefix_len: 24 }
        }
        IpVersion::V6 => {
            let ip =
                Ipv6Addr::new(0x2001, 0xdb8, 0, u16::from(network), 0, 0, 0, u16::from(number));
            Cidr { addr: IpAddr::V6(ip), prefix_len: 64 }
        }
    }
}

/// A host's link address on a network.
pub fn mac(network: u8, host: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, network, host as u8 + 1])
}
