//! Inside hosts that reach each other by their outside addresses. RFC 4787 section 6, RFC 5382
//! section 7.2, RFC 5508 section 5, RFC 6296 section 4.3.

use filter::nat::Prefix;

use super::*;

/// Another host on the LAN.
const C: &str = "192.0.2.10";
const MASQUERADE: &str = "source out wan from 192.0.2.0/24 to port";

/// A router with these rules that knows the link address of host `C` too.
fn with_hosts(rules: &str, nat: &str) -> Router {
    let mut router = router(rules, nat);
    router.stack.add_neighbour(PortId(0), ip(C), HOSTS[0]);
    router
}

fn nothing() -> [Vec<Vec<u8>>; 2] {
    [vec![], vec![]]
}

/// RFC 4787 REQ-9, RFC 5382 REQ-8.
#[test]
fn an_inside_host_reaches_its_neighbour_by_the_outside_address() {
    let rules = "pass in lan\npass in wan";
    let nat = "dest in {lan, wan} udp 8443 to 192.0.2.9:443";
    let mut router = with_hosts(rules, nat);
    let out = one(cross(&mut router, 0, &udp(("192.0.2.10", 7_000), (WAN, 8_443))), 0);
    let [from, to] = ends(&out);
    assert_eq!(to, (A.to_owned(), 443));
    assert_eq!(from.0, LAN, "the answer did not come through the router");
    let back = one(cross(&mut router, 0, &udp((A, 443), (LAN, from.1))), 0);
    assert_eq!(ends(&back), [(WAN.to_owned(), 8_443), ("192.0.2.10".to_owned(), 7_000)]);
}

#[test]
fn a_rule_for_inside_hosts_alone_shows_no_outside_address() {
    let nat = format!("dest in lan to any udp 53 to {C}\n{MASQUERADE}");
    let mut router = with_hosts("pass in lan", &nat);
    let out = one(cross(&mut router, 0, &udp(HERE, (B, 53))), 0);
    let [from, to] = ends(&out);
    assert_eq!((from.0.as_str(), to), (LAN, (C.to_owned(), 53)));
}

#[test]
fn a_published_server_sees_the_outside_endpoint_of_an_inside_host() {
    let nat = format!("dest in {{lan, wan}} to self udp 8443 to {C}:443\n{MASQUERADE}");
    let mut router = with_hosts("pass in lan", &nat);
    let out = one(cross(&mut router, 0, &udp(HERE, (WAN, 8_443))), 0);
    assert_eq!(ends(&out), [(WAN.to_owned(), 40_000), (C.to_owned(), 443)]);
}

/// RFC 4787 REQ-9, REQ-9a, RFC 5382 REQ-8, REQ-8a.
#[test]
fn the_other_host_sees_the_outside_endpoint_of_the_sender() {
    for protocol in [17, 6] {
        let nat = format!("{MASQUERADE} filtering independent");
        let mut router = with_hosts("pass in lan loose", &nat);
        let send = |from, to| match protocol {
            17 => udp(from, to),
            _ => tcp(from, to, 1_000, 0, Flags::SYN),
        };
        one(cross(&mut router, 0, &send(HERE, THERE)), 1);
        let out = one(cross(&mut router, 0, &send((C, 5_000), (WAN, 40_000))), 0);
        assert_eq!(ends(&out), [(WAN.to_owned(), 5_000), (A.to_owned(), 40_000)]);
        let answer = match protocol {
            17 => udp(HERE, (WAN, 5_000)),
            _ => tcp(HERE, (WAN, 5_000), 9_000, 1_001, Flags::SYN | Flags::ACK),
        };
        let back = one(cross(&mut router, 0, &answer), 0);
        assert_eq!(ends(&back), [(WAN.to_owned(), 40_000), (C.to_owned(), 5_000)]);
        // Hosts outside see the same endpoint.
        let out = one(cross(&mut router, 0, &send((C, 5_000), THERE)), 1);
        assert_eq!(ends(&out)[0], (WAN.to_owned(), 5_000));
    }
}

/// Two hosts behind one NAT do so when a third host has told them each other's endpoint. RFC 4787
/// 6-a.
#[test]
fn hosts_that_send_to_each_other_meet_by_address_dependent_filtering() {
    let mut router = with_hosts("pass in lan", MASQUERADE);
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    let first = udp((C, 5_000), (WAN, 40_000));
    assert_eq!(cross(&mut router, 0, &first), nothing());
    assert_eq!(cross(&mut router, 0, &first), nothing(), "a second packet passed too");
    assert_eq!(router.drops(DropReason::NatFiltered), 2);
    let out = one(cross(&mut router, 0, &udp(HERE, (WAN, 5_000))), 0);
    assert_eq!(ends(&out), [(WAN.to_owned(), 40_000), (C.to_owned(), 5_000)]);
    let back = one(cross(&mut router, 0, &first), 0);
    assert_eq!(ends(&back), [(WAN.to_owned(), 5_000), (A.to_owned(), 40_000)]);
    // From a third host, to which the first one has not sent.
    assert_eq!(cross(&mut router, 1, &udp((B, 9), (WAN, 5_000))), nothing());
}

#[test]
fn a_mapping_that_a_refused_packet_has_opened_ends() {
    let mut router = with_hosts("pass in lan", MASQUERADE);
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    one(cross(&mut router, 1, &udp(THERE, (WAN, 40_000))), 0);
    assert_eq!(cross(&mut router, 0, &udp((C, 5_000), (WAN, 40_000))), nothing());
    let count = |router: &Router| router.stack.filter().expect("rules").mappings().len();
    assert_eq!(count(&router), 2);
    let later = router.stack.now() + base::Duration::from_secs(121);
    assert!(router.stack.next_deadline() <= later);
    router.stack.poll(later);
    assert_eq!(count(&router), 1, "only the answered flow's mapping stays");
}

#[test]
fn rules_decide_before_a_refused_packet_opens_a_mapping() {
    let mut router = with_hosts("block from 192.0.2.10\npass in lan", MASQUERADE);
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    assert_eq!(cross(&mut router, 0, &udp((C, 5_000), (WAN, 40_000))), nothing());
    assert_eq!(router.drops(DropReason::FilterRule), 1);
    assert_eq!(router.stack.filter().expect("rules").mappings().len(), 1);
}

/// RFC 4787 6-a, RFC 5508 REQ-7.
#[test]
fn networks_that_are_exchanged_reach_each_other_by_outside_addresses() {
    let mut router =
        with_hosts("pass in lan out lan", "both out wan 192.0.2.0/24 to 203.0.113.0/24");
    let out = one(cross(&mut router, 0, &udp(HERE, ("203.0.113.10", 53))), 0);
    assert_eq!(ends(&out), [("203.0.113.9".to_owned(), 40_000), (C.to_owned(), 53)]);
    let back = one(cross(&mut router, 0, &udp((C, 53), ("203.0.113.9", 40_000))), 0);
    assert_eq!(ends(&back), [("203.0.113.10".to_owned(), 53), (A.to_owned(), 40_000)]);
    let out = one(cross(&mut router, 0, &packets::echo(8, A, "203.0.113.10", 7)), 0);
    assert_eq!((&out[12..16], &out[16..20]), (&[203, 0, 113, 9][..], &[192, 0, 2, 10][..]));
    // An error about the flow. RFC 5508 REQ-7a.
    let error = packets::unreachable(C, "203.0.113.9", &out);
    let back = one(cross(&mut router, 0, &error), 0);
    assert_eq!((&back[12..16], &back[16..20]), (&[203, 0, 113, 10][..], &[192, 0, 2, 9][..]));
}

/// RFC 6296 4.3-a, 4.3-b.
#[test]
fn hosts_of_a_prefix_reach_each_other_by_its_outside_addresses() {
    let (inside, outside) = ("2001:db8:1::/64", "2001:db8:9::/64");
    let mut router =
        with_hosts("pass in lan out lan", &format!("prefix out wan {inside} to {outside}"));
    let prefix = |text: &str| text.parse().expect("a prefix");
    let prefix = Prefix::new(prefix(inside), prefix(outside)).expect("a translation");
    let [here, there] = ["2001:db8:1::9", "2001:db8:1::10"];
    router.stack.add_neighbour(PortId(0), ip(there), HOSTS[0]);
    let seen = |addr: &str| prefix.outbound(addr.parse().expect("IPv6")).expect("translated");
    let to = seen(there).to_string();
    let sent = cross(&mut router, 0, &packets::udp_v6((here, 4_000), (&to, 53), b"question"));
    assert_eq!((sent[0].len(), sent[1].len()), (1, 0), "{sent:?}");
    assert_eq!(packets::ends_v6(&sent[0][0]), [(seen(here).into(), 4_000), (ip(there), 53)]);
    let from = seen(here).to_string();
    let sent = cross(&mut router, 0, &packets::udp_v6((there, 53), (&from, 4_000), b"answer"));
    assert_eq!(packets::ends_v6(&sent[0][0]), [(seen(there).into(), 53), (ip(here), 4_000)]);
}
