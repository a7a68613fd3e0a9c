//! Bytes of memory of a route, at a million: alone in this process, because all of its memory
//! counts.

use std::net::{Ipv4Addr, Ipv6Addr};

use base::Cidr;
use wirespeed_rib::{Dest, Next, Offer, Origin, Rib};

const IPV4: u32 = 900_000;
const IPV6: u32 = 100_000;
/// What the issue allows, in bytes.
const MOST: usize = 120;

/// Bytes in memory.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("statm has numbers") * 4096
}

#[test]
fn a_million_routes_fit() {
    let mut rib: Rib<[u64; 8]> = Rib::new(2_000_000);
    let before = resident();
    let v4 = (0..IPV4).map(|n| Cidr { addr: Ipv4Addr::from_bits(n << 8).into(), prefix_len: 24 });
    let v6 = (0..IPV6).map(|n| {
        let addr = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n) << 64);
        Cidr { addr: addr.into(), prefix_len: 64 }
    });
    for (n, prefix) in v4.chain(v6).enumerate() {
        let next = Next::These([n as u64 % 100; 8]);
        let offer = Offer { next, metric: 20, protocol: 186, at_s: 0 };
        rib.set(Origin::Fpm, Dest { table: 254, prefix }, offer, &mut |_, _| ()).expect("room");
    }
    let bytes = (resident() - before) / rib.len();
    assert!(bytes < MOST, "{bytes} bytes a route");
    println!("{bytes} bytes a route, {} sets", rib.sets());
}
