//! Bytes of memory of a route, at a million: alone in this process, because all of its memory
//! counts. The arrays that are indexed by address do not.

use std::net::{Ipv4Addr, Ipv6Addr};

use base::Cidr;
use wirespeed_inet::{Route, Routes};

const IPV4: u32 = 900_000;
const IPV6: u32 = 100_000;
/// What a route may take, in bytes.
const MOST: usize = 60;
/// The array for 24 bits of IPv4, of which all pages are written to.
const ARRAY: usize = 64 << 20;

/// Bytes in memory.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("statm has numbers") * 4096
}

/// Add these prefixes; returns the bytes of memory that they took.
fn add(routes: &mut Routes, prefixes: impl Iterator<Item = Cidr>) -> usize {
    let before = resident();
    for (n, dest) in prefixes.enumerate() {
        let via = Ipv4Addr::new(192, 0, 2, (n % 100) as u8).into();
        assert!(routes.add(Route::new(dest, Some(via), (n % 8) as u16)));
    }
    resident() - before
}

#[test]
fn a_million_routes_fit() {
    let mut routes = Routes::default();
    // Multiplication by an odd number spreads the prefixes: they come in no order.
    let v4 = (0..IPV4).map(|n| {
        let addr = Ipv4Addr::from_bits((n.wrapping_mul(2_654_435_761) & 0x00ff_ffff) << 8);
        Cidr { addr: addr.into(), prefix_len: 24 }
    });
    // All of them begin with 12 equal bits, as those of the Internet do, so that few pages of the
    // array are used.
    let v6 = (0..IPV6).map(|n| {
        let bits = u128::from(n.wrapping_mul(0x9e37_79b1)) << 84;
        Cidr { addr: Ipv6Addr::from_bits(0x2001 << 112 | bits).into(), prefix_len: 44 }
    });
    let [v4, v6] = [add(&mut routes, v4) - ARRAY, add(&mut routes, v6)];
    let bytes = (v4 + v6) / routes.len();
    println!("IPv4 {}, IPv6 {}, in all {bytes} bytes a route", v4 / 900_000, v6 / 100_000);
    assert_eq!(routes.len(), (IPV4 + IPV6) as usize);
    assert!(bytes < MOST, "{bytes} bytes a route");
}
