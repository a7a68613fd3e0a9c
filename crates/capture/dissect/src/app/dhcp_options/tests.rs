//! Options made by hand; the expected texts are those of tcpdump.

use super::*;
use crate::tests::printed_by;

fn printed(bytes: &[u8]) -> (String, Done) {
    printed_by(print, 1, bytes)
}

#[test]
fn a_lease_is_printed_with_all_that_belongs_to_it() {
    let bytes = [
        &[53, 1, 5, 54, 4, 192, 0, 2, 1, 51, 4, 0, 0, 14, 16, 0, 0][..],
        &[6, 8, 192, 0, 2, 53, 192, 0, 2, 54, 12, 4, b'h', b'o', b's', b't'],
        &[61, 7, 1, 2, 0, 0, 0, 0, 1, 55, 5, 1, 3, 6, 15, 200, 19, 1, 1, 255, 1],
    ]
    .concat();
    let lines = [
        "DHCP-Message (53), length 1: ACK",
        "Server-ID (54), length 4: 192.0.2.1",
        "Lease-Time (51), length 4: 3600",
        "Domain-Name-Server (6), length 8: 192.0.2.53,192.0.2.54",
        "Hostname (12), length 4: \"host\"",
        "Client-ID (61), length 7: ether 02:00:00:00:00:01",
        "Parameter-Request (55), length 5: ",
        "  Subnet-Mask (1), Default-Gateway (3), Domain-Name-Server (6), Domain-Name (15)",
        "  Unknown (200)",
        "IPF (19), length 1: Y",
    ];
    let expected: String = lines.iter().map(|line| format!("\n\t    {line}")).collect();
    assert_eq!(printed(&bytes), (expected, Ok(())));
}

#[test]
fn routes_and_relays_are_followed_and_wrong_lengths_named() {
    let (text, _) = printed(&[121, 13, 0, 192, 0, 2, 1, 24, 198, 51, 100, 192, 0, 2, 2]);
    assert!(text.ends_with(": (default:192.0.2.1),(198.51.100.0/24:192.0.2.2)"), "{text}");
    let (text, _) = printed(&[82, 8, 1, 2, b'g', b'1', 9, 2, 3, 4]);
    let end = ": \n\t      Circuit-ID SubOption 1, length 2: g1\
               \n\t      Unknown SubOption 9, length 2: \n\t\t0x0000:  0304";
    assert!(text.ends_with(end), "{text}");
    let (text, _) = printed(&[77, 5, 2, b'a', b'b', 9, b'c']);
    assert!(text.contains("instance#1: \"ab\", length 2\n\t      instance#2: [length 1 < "));
    assert!(printed(&[1, 3, 1, 2, 3]).0.ends_with("\n\t  trailing data length 3"));
    assert!(printed(&[81, 1, 0]).0.ends_with("[length < 3 bytes] (invalid)"));
}

#[test]
fn an_option_that_was_cut_off_is_named_and_no_more() {
    assert_eq!(printed(&[1, 4, 255]), ("\n\t    Subnet-Mask (1), length 4: ".to_owned(), Err(Cut)));
    assert_eq!(printed(&[1]).1, Err(Cut));
}
