//! Routers: how they are solicited, read and preferred, and what happens when they are silent. RFC
//! 4861 section 6.3, RFC 7559, RFC 4191, RFC 8106.

use base::{Counter, Mtu, Owner};

use super::*;
use crate::Progress;

/// RFC 4861 6.3.7-a, 6.3.7-b; RFC 7559 2-a, 2-b.
#[test]
fn routers_are_solicited_until_one_answers() {
    let mut link = Link::new();
    link.stack().autoconfigure(PORT, stable_only()).expect("Ethernet");
    let sent = link.pass(secs(40_000));
    let times: Vec<Instant> = sent.iter().filter(|m| m.kind() == 133).map(|m| m.at).collect();
    assert!(times[0].since(NOW) <= secs(2));
    let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert!(gaps[0] >= Duration::from_millis(3_600) && gaps[0] <= Duration::from_millis(4_400));
    assert!(gaps.windows(2).all(|pair| pair[1] > pair[0] || pair[1] > secs(3_200)));
    assert!(gaps.iter().all(|gap| *gap <= secs(3_960)), "{gaps:?}");
    assert!((15..25).contains(&times.len()), "{}", times.len());
    // A router with lifetime 0 (no default router) does not end the solicitation of routers.
    link.hear("fe80::1", &advertisement(0, &[]));
    assert_eq!(link.pass(secs(8_000)).len(), 2);
    link.hear("fe80::1", &advertisement(1_800, &[]));
    assert_eq!(link.pass(secs(8_000)), []);
    assert_eq!(link.bench.stack.counters().of(Counter::RouterAdvertisements), 2);
}

/// RFC 4861 6.1.2-a, 6.1.2-b.
#[test]
fn rogue_ra_with_hop_limit_64_is_dropped() {
    let mut link = Link::configured(stable_only());
    let ra = advertisement(1_800, &[prefix("2001:db8:bad::", 7_200, 7_200)]);
    link.hear_from("fe80::bad", ALL_NODES, 64, &ra);
    link.hear_from("fe80::bad", ALL_NODES, 254, &ra);
    link.hear_from("2001:db8::bad", ALL_NODES, 255, &ra);
    assert_eq!(link.dropped(DropReason::RaNotFromLink), 3);
    let mut short = ra.clone();
    short.truncate(15);
    link.hear("fe80::bad", &short);
    let mut endless = ra.clone();
    endless[17] = 0;
    link.hear("fe80::bad", &endless);
    assert_eq!(link.dropped(DropReason::IcmpMalformed), 2);
    assert_eq!(link.next_hop("2001:db8:ffff::1"), None);
    assert_eq!(link.addresses().len(), 1);
    assert_eq!(link.bench.stack.autoconf(PORT).expect("there").progress, Progress::Soliciting);
    // A port that is not autoconfigured ignores advertisements.
    let mut link = Link::new();
    link.stack().add_address(PORT, Address::fixed(cidr("fe80::5/64"))).expect("added");
    link.hear("fe80::1", &ra);
    assert_eq!(link.dropped(DropReason::RaIgnored), 1);
}

/// RFC 4861 6.3.5-a, 6.3.6-a, 7.3.3-a: traffic moves from a silent router to one that answers.
#[test]
fn a_router_that_does_not_answer_is_replaced() {
    let mut link = Link::configured(stable_only());
    let options = [prefix("2001:db8:1::", 7_200, 7_200)];
    link.hear("fe80::a", &advertisement(1_800, &options));
    link.hear("fe80::b", &advertisement(1_800, &[link_address(11)]));
    link.pass(secs(3));
    let source = link.bench.stack.source_for(far(9)).expect("an address");
    let local = SocketAddr::new(source, 9);
    let socket = link.stack().udp_bind(local, Owner::program()).expect("free");
    assert_eq!(link.next_hop("2001:db8:ffff::1"), Some(v6("fe80::a")));
    let now = link.now;
    link.stack().udp_send(socket, far(9), b"x", now).expect("routed");
    let asked = link.pass(secs(4));
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|m| m.target() == v6("fe80::a")));
    assert_eq!(link.next_hop("2001:db8:ffff::1"), Some(v6("fe80::b")));
    let now = link.now;
    link.stack().udp_send(socket, far(9), b"x", now).expect("routed");
    let frames = link.bench.sent();
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0][..6], [2, 0, 0, 0, 0, 11], "the advertised link address was not used");
    // The first router advertises again, and is preferred among equal routers.
    link.hear("fe80::a", &advertisement(1_800, &[link_address(10)]));
    assert_eq!(link.next_hop("2001:db8:ffff::1"), Some(v6("fe80::a")));
}

/// RFC 4861 7.2.5-b, 6.3.5-a.
#[test]
fn who_is_no_router_any_more_is_not_used() {
    let mut link = Link::configured(stable_only());
    for (n, router) in ["fe80::a", "fe80::b", "fe80::c"].into_iter().enumerate() {
        link.hear(router, &advertisement(1_800, &[link_address(10 + n as u8)]));
    }
    assert_eq!(link.next_hop("2001:db8:ffff::1"), Some(v6("fe80::a")));
    let own = link.link_local().expect("there").to_string();
    let still = neighbour_advertisement(v6("fe80::a"), 0xa0, 10);
    link.hear_from("fe80::a", &own, 255, &still);
    assert_eq!(link.next_hop("2001:db8:ffff::1"), Some(v6("fe80::a")));
    let no_more = neighbour_advertisement(v6("fe80::a"), 0x20, 10);
    link.hear_from("fe80::a", &own, 255, &no_more);
    assert_eq!(link.next_hop("2001:db8:ffff::1"), Some(v6("fe80::b")));
    link.hear("fe80::b", &advertisement(0, &[]));
    assert_eq!(link.next_hop("2001:db8:ffff::1"), Some(v6("fe80::c")));
    link.pass(secs(1_800));
    assert_eq!(link.next_hop("2001:db8:ffff::1"), None, "a router is used after its lifetime");
}

/// A gateway that the user has set is not replaced by advertisements.
#[test]
fn a_users_route_stays() {
    let mut link = Link::configured(stable_only());
    let everywhere = inet::Route::new(cidr("::/0"), Some(v6("fe80::77").into()), PORT.0);
    link.stack().add_route(everywhere);
    link.hear("fe80::1", &advertisement(1_800, &[]));
    assert_eq!(link.next_hop("2001:db8:ffff::1"), Some(v6("fe80::77")));
    link.hear("fe80::1", &advertisement(0, &[]));
    assert_eq!(link.next_hop("2001:db8:ffff::1"), Some(v6("fe80::77")));
}

/// RFC 4861 6.3.4-b, 6.3.4-d; RFC 8106 5.3.1-a.
#[test]
fn settings_servers_and_domains() {
    let mut link = Link::configured(stable_only());
    let server = [vec![25, 3, 0, 0, 0, 0, 0, 100], v6("2001:db8::53").octets().to_vec()].concat();
    let domain = b"\x1f\x02\0\0\0\0\0\x64\x03lab\0\0\0\0".to_vec();
    let mtu = vec![5, 1, 0, 0, 0, 0, 5, 0x78];
    let mut ra = advertisement(1_800, &[server, domain, mtu]);
    ra[5] = 0xc0;
    link.hear("fe80::1", &ra);
    assert_eq!(link.bench.stack.dns_servers(PORT), [v6("2001:db8::53")]);
    assert_eq!(link.bench.stack.dns_search(PORT), ["lab"]);
    let status = link.bench.stack.autoconf(PORT).expect("there");
    assert_eq!((status.hop_limit, status.mtu), (Some(64), Mtu::new(1_400)));
    assert!(status.managed && status.other);
    assert_eq!(status.routers.len(), 1);
    let default = link.bench.stack.routes.iter().find(|r| r.dest.prefix_len == 0);
    assert_eq!(default.expect("there").mtu, Mtu::new(1_400));
    link.pass(secs(100));
    assert_eq!(link.bench.stack.dns_servers(PORT), [] as [Ipv6Addr; 0]);
    assert_eq!(link.bench.stack.dns_search(PORT), [] as [&str; 0]);
}

/// RFC 4861 6.3.4-b: neighbours are solicited at the interval that the router advertises.
#[test]
fn the_time_between_solicitations_is_the_routers() {
    let mut link = Link::configured(stable_only());
    let mut ra = advertisement(1_800, &[prefix("2001:db8:1::", 7_200, 7_200)]);
    ra[12..16].copy_from_slice(&500_u32.to_be_bytes());
    link.hear("fe80::1", &ra);
    link.pass(secs(3));
    let local = SocketAddr::new(link.bench.stack.source_for(far(9)).expect("an address"), 9);
    let socket = link.stack().udp_bind(local, Owner::program()).expect("free");
    let now = link.now;
    link.stack().udp_send(socket, far(9), b"x", now).expect("routed");
    let asked = link.pass(secs(2));
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[1].at.since(asked[0].at), Duration::from_millis(500));
}
