//! The network of both routers: two ports, their addresses, and the hosts behind each, which are
//! others for each number so that no state of one case is met in the next.
//!
//! Called by: `kernel.rs`, `ours.rs`, the generators.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const NAMES: [&str; 2] = ["lan", "wan"];
/// The router's addresses at each port.
pub(crate) const ADDRESSES: [[&str; 2]; 2] =
    [["192.0.2.1/24", "fd00:a::1/64"], ["198.51.100.1/24", "fd00:b::1/64"]];
/// The networks behind each port.
pub(crate) const ROUTES: [[&str; 2]; 2] =
    [["10.0.0.0/9", "fd00:1::/32"], ["10.128.0.0/9", "fd00:2::/32"]];
/// The gateways of our ports, which are links of several hosts.
pub(crate) const GATEWAYS: [[&str; 2]; 2] =
    [["192.0.2.2", "fd00:a::2"], ["198.51.100.2", "fd00:b::2"]];

/// The last octets of the hosts on each side.
pub(crate) const HOSTS: [u8; 5] = [9, 10, 77, 130, 200];

/// A host behind `port` in the network `number`.
pub(crate) fn host(number: u32, port: usize, v6: bool, last: u8) -> IpAddr {
    let [_, _, high, low] = number.to_be_bytes();
    if v6 {
        let side = 1 + port as u16;
        Ipv6Addr::new(0xfd00, side, number as u16, 0, 0, 0, 0, last.into()).into()
    } else {
        Ipv4Addr::new(10, (port as u8) << 7 | high & 0x7f, low, last).into()
    }
}

/// A network around a host: all of them, some of them or this one.
pub(crate) fn network(number: u32, port: usize, v6: bool, last: u8, bits: u8) -> String {
    let mask = if bits >= 8 { 0 } else { 0xff_u8 << bits };
    let len = if v6 { 128 } else { 32 } - bits;
    format!("{}/{len}", host(number, port, v6, last & mask))
}
