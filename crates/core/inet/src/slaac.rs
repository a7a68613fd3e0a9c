//! Makes addresses of a host from a prefix, and decides how long it keeps them.
//!
//! Called by: `stack/autoconf`. RFC 4862 sections 5.3 and 5.5.3, RFC 4291 appendix A (modified
//! EUI-64), RFC 7217 (stable and opaque), RFC 8981 (temporary), RFC 5453 (reserved identifiers).

use core::net::Ipv6Addr;

use base::{Duration, Instant, KeyedHash, MacAddr};

/// Bits of the prefix, and of the interface identifier.
pub const PREFIX_LEN: u8 = 64;
/// How many identifiers are tried in a prefix before no address is made in it: IDGEN_RETRIES of RFC
/// 7217 section 7, TEMP_IDGEN_RETRIES of RFC 8981 section 3.8.
pub const TRIES_MAX: u8 = 3;
/// RFC 4862 section 5.5.3: an advertisement cannot shorten the lifetime of an address below this.
const TWO_HOURS: Duration = Duration::from_secs(2 * 3_600);

/// TEMP_VALID_LIFETIME of RFC 8981 section 3.8.
pub const TEMPORARY_VALID: Duration = Duration::from_secs(2 * 86_400);
/// TEMP_PREFERRED_LIFETIME of RFC 8981 section 3.8.
pub const TEMPORARY_PREFERRED: Duration = Duration::from_secs(86_400);
/// MAX_DESYNC_FACTOR of RFC 8981 section 3.8.
pub const DESYNC_MAX: Duration = Duration::from_secs(86_400 * 4 / 10);
/// REGEN_ADVANCE of RFC 8981 section 3.8, with one probe and a second between probes: the next
/// temporary address is made this long before the present one is deprecated.
pub const REGENERATE_BEFORE: Duration = Duration::from_secs(5);

/// How interface identifiers are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identifiers {
    /// From a keyed hash of the prefix: the identifier is the same on every visit to a network, and
    /// another on each network. RFC 7217, recommended by RFC 8064.
    #[default]
    StablePrivacy,
    /// From the link address, by which a host can be recognised in every network. RFC 4291 appendix
    /// A.
    Eui64,
}

/// The address with this prefix and interface identifier.
pub fn address(prefix: Ipv6Addr, identifier: u64) -> Ipv6Addr {
    let high = prefix.to_bits() >> 64 << 64;
    Ipv6Addr::from_bits(high | u128::from(identifier))
}

/// The modified EUI-64 identifier of a link address.
pub fn eui64(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// The identifier of RFC 7217 for a prefix. The port's link address is Net_Iface; `counter` is
/// DAD_Counter, the number of identifiers that turned out to be another host's.
/// RFC 7217 5-a.
pub fn stable(secret: &KeyedHash, prefix: Ipv6Addr, mac: MacAddr, counter: u8) -> u64 {
    const TAG: u64 = u64::from_be_bytes(*b"RFC 7217");
    let high = (prefix.to_bits() >> 64) as u64;
    let [a, b, c, d, e, f] = mac.0;
    let interface = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    first_free(|n| secret.hash_2_4([TAG, high, interface, u64::from(counter), n]))
}

/// A random identifier, RFC 8981 section 3.3.1; `draw` returns random numbers.
pub fn random(draw: impl FnMut(u64) -> u64) -> u64 {
    first_free(draw)
}

/// The first candidate that is not reserved. RFC 7217 5-b.
fn first_free(mut candidate: impl FnMut(u64) -> u64) -> u64 {
    // One identifier in 2^57 is reserved. A hundred in a row would mean that the numbers are not
    // random.
    (0..100).map(&mut candidate).find(|&id| !is_reserved(id)).unwrap_or(1 << 32)
}

/// Is the identifier reserved: that of the subnet-router anycast address, one for anycast (RFC
/// 2526), or one of IANA's Ethernet block (RFC 5453)?
pub fn is_reserved(identifier: u64) -> bool {
    const ANYCAST: core::ops::RangeInclusive<u64> = 0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff;
    identifier == 0 || ANYCAST.contains(&identifier) || identifier >> 24 == 0x02_005e_fffe
}

/// The end of a lifetime of `seconds`; all ones is for ever (RFC 4861 section 4.6.2).
pub fn until(now: Instant, seconds: u32) -> Instant {
    match seconds {
        u32::MAX => Instant::NEVER,
        seconds => now + Duration::from_secs(u64::from(seconds)),
    }
}

/// Until when an address that was valid until `old` is valid after an advertisement. The lifetime
/// can be extended at once, but not be shortened to less than two hours, so that a forged
/// advertisement does not take an address away.
/// RFC 4862 5.5.3-e.
pub fn valid_until(old: Instant, advertised: Instant, now: Instant) -> Instant {
    let least = now + TWO_HOURS;
    if advertised > least || advertised > old { advertised } else { old.min(least) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddr = MacAddr([0x02, 0, 0x5e, 0x10, 0x20, 0x30]);

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().expect("an address")
    }

    /// RFC 4291 appendix A. The example of RFC 2464 section 4 is the second.
    #[test]
    fn modified_eui64() {
        assert_eq!(address(ip("fe80::"), eui64(MAC)), ip("fe80::5eff:fe10:2030"));
        let other = MacAddr([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(eui64(other), 0x3656_78ff_fe9a_bcde);
    }

    /// RFC 7217 5-a, 5-b.
    #[test]
    fn stable_identifiers_differ_by_everything_that_goes_into_them() {
        let (one, two) = (KeyedHash::new(1, 2), KeyedHash::new(1, 3));
        let here = ip("2001:db8:1::");
        let id = stable(&one, here, MAC, 0);
        assert_eq!(id, stable(&one, ip("2001:db8:1::99"), MAC, 0), "more than the prefix counts");
        let others = [
            stable(&two, here, MAC, 0),
            stable(&one, ip("2001:db8:2::"), MAC, 0),
            stable(&one, here, MacAddr([2, 0, 0, 0, 0, 1]), 0),
            stable(&one, here, MAC, 1),
        ];
        assert!(others.iter().all(|&other| other != id));
    }

    #[test]
    fn reserved_identifiers_are_passed_over() {
        for reserved in [0, 0xfdff_ffff_ffff_ff80, u64::MAX - (2 << 56), 0x0200_5eff_fe00_0001] {
            assert!(is_reserved(reserved), "{reserved:x}");
            assert_eq!(random(|n| if n < 3 { reserved } else { 7 }), 7);
        }
        assert!(!is_reserved(1) && !is_reserved(0xfdff_ffff_ffff_ff7f));
        assert!(!is_reserved(random(|_| 0)), "even if all are");
    }

    /// RFC 4862 5.5.3-e.
    #[test]
    fn the_rule_of_two_hours() {
        let now = Instant::ZERO + Duration::from_secs(1_000_000);
        let after = |s| now + Duration::from_secs(s);
        for (old, advertised, expected) in [
            (after(100), after(200), after(200)),
            (after(100_000), after(7_201), after(7_201)),
            (after(100_000), after(7_000), after(7_200)),
            (after(100_000), now, after(7_200)),
            (after(7_000), after(10), after(7_000)),
            (after(7_000), now, after(7_000)),
            (Instant::NEVER, now, after(7_200)),
            (after(9), Instant::NEVER, Instant::NEVER),
        ] {
            assert_eq!(valid_until(old, advertised, now), expected, "{old:?} {advertised:?}");
        }
        assert_eq!(until(now, u32::MAX), Instant::NEVER);
        assert_eq!(until(now, 9), after(9));
    }
}
