//! Prefixes for the rows of bench `frr`, and the configuration of a BIRD that announces them.
//! Called by `routes.rs` and `stream.rs`. The prefixes are the same in each run; their lengths are
//! about those of the Internet's tables.

use std::collections::HashSet;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// How many of a hundred prefixes have each length.
const LENGTHS_V4: [(u8, u64); 7] =
    [(24, 62), (23, 10), (22, 13), (21, 5), (20, 5), (19, 3), (18, 2)];
const LENGTHS_V6: [(u8, u64); 4] = [(48, 60), (44, 15), (40, 10), (32, 15)];

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) * n) >> 32
    }

    fn length(&mut self, lengths: &[(u8, u64)]) -> u8 {
        let mut at = self.below(100);
        for &(length, share) in lengths {
            if at < share {
                return length;
            }
            at -= share;
        }
        lengths[0].0
    }
}

/// Different prefixes of IPv4 from 11.0.0.0 to 126.255.255.255, where no network of a row is.
pub(super) fn v4(count: usize) -> Vec<(Ipv4Addr, u8)> {
    let (mut random, mut known) = (Random(88_172_645_463_325_252), HashSet::new());
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let length = random.length(&LENGTHS_V4);
        let bits = ((11 << 24) + random.below(116 << 24)) as u32 & (u32::MAX << (32 - length));
        if known.insert((bits, length)) {
            all.push((Ipv4Addr::from_bits(bits), length));
        }
    }
    all
}

/// Different prefixes of IPv6 in 2400::/12.
pub(super) fn v6(count: usize) -> Vec<(Ipv6Addr, u8)> {
    let (mut random, mut known) = (Random(7_046_029_254_386_353_131), HashSet::new());
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let length = random.length(&LENGTHS_V6);
        let bits =
            u128::from(random.below(1 << 20)) << 96 | u128::from(random.below(1 << 16)) << 80;
        let bits = (0x240 << 116 | bits) & (u128::MAX << (128 - length));
        if known.insert((bits, length)) {
            all.push((Ipv6Addr::from_bits(bits), length));
        }
    }
    all
}

/// BIRD at 192.0.2.1, which announces these prefixes to 192.0.2.2 by BGP while its protocols `feed`
/// and `feed6` are enabled. They are not at first.
pub(super) fn bird(v4: &[(Ipv4Addr, u8)], v6: &[(Ipv6Addr, u8)]) -> String {
    let mut config = "router id 192.0.2.1;\nprotocol device {}\n\
                      protocol bgp up {\n local 192.0.2.1 as 65020;\n \
                      neighbor 192.0.2.2 as 65010;\n \
                      connect delay time 1;\n connect retry time 2;\n \
                      ipv4 { import all; export all; next hop self; };\n \
                      ipv6 { import all; export all; next hop self; };\n}\n"
        .to_owned();
    config += "protocol static feed {\n disabled;\n ipv4;\n";
    for (prefix, length) in v4 {
        // Writing to a string does not fail.
        let _ = writeln!(config, " route {prefix}/{length} blackhole;");
    }
    config += "}\nprotocol static feed6 {\n disabled;\n ipv6;\n";
    for (prefix, length) in v6 {
        let _ = writeln!(config, " route {prefix}/{length} blackhole;");
    }
    config + "}\n"
}

/// The bgpd beside it.
pub(super) const BGPD: &str = "router bgp 65010\n bgp router-id 192.0.2.2\n \
                               no bgp ebgp-requires-policy\n neighbor 192.0.2.1 remote-as 65020\n \
                               neighbor 192.0.2.1 timers connect 2\n \
                               address-family ipv6 unicast\n  neighbor 192.0.2.1 activate\n \
                               exit-address-family\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_have_no_host_bits_and_are_the_same_each_time() {
        let all = v4(1000);
        assert_eq!(all, v4(1000));
        assert!(all.iter().all(|(p, len)| p.to_bits() & (u32::MAX >> len) == 0));
        assert!(all.iter().all(|(p, _)| (11..=126).contains(&p.octets()[0])));
        let all = v6(1000);
        assert!(all.iter().all(|(p, len)| p.to_bits() & (u128::MAX >> len) == 0));
        assert!(all.iter().all(|(p, _)| p.segments()[0] >> 4 == 0x240));
    }
}
