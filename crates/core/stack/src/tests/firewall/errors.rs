//! ICMP queries (echo) through the firewall, and ICMP errors about packets without a state.

use super::*;

/// There are two states: each querier chooses its identifier, so two may choose the same one.
#[test]
fn two_hosts_query_each_other_with_one_identifier() {
    let mut router = router("pass", "");
    for id in [0, 7, u16::MAX] {
        let echo = |kind, from, to| packets::echo(kind, from, to, id);
        one(cross(&mut router, 0, &echo(8, A, B)), 1);
        one(cross(&mut router, 1, &echo(8, B, A)), 0);
        let here = one(cross(&mut router, 1, &echo(0, B, A)), 0);
        one(cross(&mut router, 0, &echo(0, A, B)), 1);
        // An error about an answer belongs to the flow of its query.
        one(cross(&mut router, 0, &packets::unreachable(A, B, &here)), 1);
    }
    assert_eq!(router.stack.filter().expect("rules").states().len(), 6);
    assert!(
        cross(&mut router, 1, &packets::echo(0, B, A, 9))[0].is_empty(),
        "an answer without a query passed"
    );
    assert_eq!(router.drops(DropReason::FilterNoState), 1);
}

/// RFC 5508 REQ-1, REQ-1a.
#[test]
fn a_query_from_outside_does_not_follow_the_mapping_of_its_identifier() {
    const ID: [u8; 2] = 5_000_u16.to_be_bytes();
    let nat = "source out wan from 192.0.2.0/24 to port filtering independent";
    let mut router = router("pass", nat);
    let out = one(cross(&mut router, 0, &packets::echo(8, A, B, 5_000)), 1);
    assert_eq!((&out[12..16], &out[24..26]), (&[198, 51, 100, 1][..], &ID[..]));
    // The router answers the query itself: the querier chose the identifier.
    let answer = one(cross(&mut router, 1, &packets::echo(8, B, WAN, 5_000)), 1);
    assert_eq!((answer[20], &answer[24..26]), (0, &ID[..]));
    let back = one(cross(&mut router, 1, &packets::echo(0, B, WAN, 5_000)), 0);
    assert_eq!((&back[16..20], &back[24..26]), (&[192, 0, 2, 9][..], &ID[..]));
    // Another host that uses the same identifier gets another one, and gets its answers.
    let out = one(cross(&mut router, 0, &packets::echo(8, "192.0.2.10", B, 5_000)), 1);
    let id = u16::from_be_bytes([out[24], out[25]]);
    assert_ne!(id, 5_000);
    router.stack.add_neighbour(PortId(0), ip("192.0.2.10"), HOSTS[0]);
    let back = one(cross(&mut router, 1, &packets::echo(0, B, WAN, id)), 0);
    assert_eq!((&back[16..20], &back[24..26]), (&[192, 0, 2, 10][..], &ID[..]));
}

/// RFC 5508 REQ-4, REQ-5.
#[test]
fn an_error_passes_as_the_answer_to_the_packet_that_it_quotes() {
    let rules = "pass in lan out wan udp 443 stateless\npass in wan out lan from any port 443 udp \
                 stateless";
    let mut router = router(rules, "");
    let out = one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    one(cross(&mut router, 1, &packets::unreachable(B, A, &out)), 0);
    // From a router on the way.
    one(cross(&mut router, 1, &packets::unreachable("198.51.100.77", A, &out)), 0);
    let mut wrong = 0;
    for quoted in [udp(HERE, (B, 444)), tcp(HERE, THERE, 1, 0, Flags::SYN)] {
        assert!(cross(&mut router, 1, &packets::unreachable(B, A, &quoted))[0].is_empty());
        wrong += 1;
        assert_eq!(router.drops(DropReason::FilterIcmp), wrong);
    }
    let unknown = packets::unreachable(A, B, &udp((B, 444), HERE));
    assert!(cross(&mut router, 0, &unknown)[1].is_empty(), "an error from inside passed");
    // An error from the other side, about an answer.
    let answer = one(cross(&mut router, 1, &udp(THERE, HERE)), 0);
    one(cross(&mut router, 0, &packets::unreachable(A, B, &answer)), 1);
}

#[test]
fn a_rule_about_icmp_passes_an_error_if_it_makes_no_states() {
    for (rule, passes) in [("icmp 3/3 stateless", true), ("icmp 3/1 stateless", false), ("", false)]
    {
        let mut router = router(&format!("pass in wan out lan {rule}"), "");
        let error = packets::unreachable(B, A, &udp(HERE, THERE));
        assert_eq!(cross(&mut router, 1, &error)[0].len(), usize::from(passes), "{rule}");
        assert_eq!(router.drops(DropReason::FilterIcmp), u64::from(!passes));
    }
}
