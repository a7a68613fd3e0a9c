//! What passes before any rule.

use super::ask;
use crate::passes_always;

fn passes(text: &str) -> bool {
    passes_always(&ask(text).packet)
}

/// RFC 4890 4.4.1-a, 4.4.1-b.
#[test]
fn neighbours_and_routers_are_found_whatever_the_rules_say() {
    assert!(passes("in lan out self fe80::1 > ff02::1 icmpv6 router-advertisement"));
    assert!(passes("in lan out self fe80::1 > ff02::1:ff00:5 icmpv6 neighbour-solicitation"));
    assert!(passes("in lan out self 2001:db8::1 > 2001:db8::5 icmpv6 neighbour-advertisement"));
    assert!(passes("in self out lan :: > ff02::1:ff00:5 icmpv6 neighbour-solicitation"));
    assert!(passes("in self out lan fe80::2 > ff02::16 icmpv6 mldv2-report"));
    assert!(passes("in lan out self 192.0.2.9 > 224.0.0.22 igmp"));
}

/// RFC 4890 4.3.3-a, 4.4.4-a.
#[test]
fn other_packets_need_a_rule() {
    assert!(!passes("in lan out wan fe80::1 > 2001:db8::5 icmpv6 neighbour-advertisement"));
    assert!(!passes("in lan out self 2001:db8::1 > ff02::1 icmpv6 router-advertisement"));
    assert!(!passes("in lan out self fe80::1 > fe80::2 icmpv6 redirect"));
    assert!(!passes("in lan out self fe80::1 > fe80::2 icmpv6 echo-request"));
    assert!(!passes("in lan out self 192.0.2.9 > 192.0.2.1 icmp echo-request"));
    assert!(!passes("in lan out self 192.0.2.9:68 > 255.255.255.255:67 udp"));
}
