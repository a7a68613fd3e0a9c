//! The information from router advertisements, and the resulting routes.

use super::*;

const NOW: Instant = Instant::from_nanos(1_000_000_000_000);

fn ip(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn after(seconds: u64) -> Instant {
    NOW + Duration::from_secs(seconds)
}

/// The bytes of an advertisement.
fn message(lifetime_s: u16, flags: u8, options: &[u8]) -> Vec<u8> {
    let mut message = vec![134, 0, 0, 0, 0, flags];
    message.extend_from_slice(&lifetime_s.to_be_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(options);
    message
}

fn prefix(flags: u8, valid_s: u32, preferred_s: u32, prefix: &str, len: u8) -> Vec<u8> {
    let mut option = vec![3, 4, len, flags];
    option.extend_from_slice(&valid_s.to_be_bytes());
    option.extend_from_slice(&preferred_s.to_be_bytes());
    option.extend_from_slice(&[0; 4]);
    option.extend_from_slice(&ip(prefix).octets());
    option
}

fn hear(routers: &mut Routers, from: &str, message: &[u8], budget: &mut Budget) -> Vec<Prefix> {
    let ra = advertisement_input(message, ip(from), 255).expect("well formed");
    routers.learn(ip(from), &ra, Mtu::ETHERNET, NOW, budget)
}

/// Destination and gateway of each route.
fn routes(routers: &Routers) -> Vec<(String, Option<String>)> {
    let text = |r: Route| (r.dest.to_string(), r.via.map(|via| via.to_string()));
    routers.routes(0).into_iter().map(text).collect()
}

fn default_via(routers: &Routers) -> Option<String> {
    routes(routers).into_iter().find(|(dest, _)| dest == "::/0").and_then(|(_, via)| via)
}

/// RFC 4861 6.1.2-a, 6.1.2-b.
#[test]
fn who_may_advertise() {
    let good = message(60, 0, &[]);
    let result = |src, hops| advertisement_input(&good, ip(src), hops).map(|_| ());
    assert_eq!(result("fe80::1", 255), Ok(()));
    assert_eq!(result("fe80::1", 254), Err(DropReason::RaNotFromLink));
    assert_eq!(result("2001:db8::1", 255), Err(DropReason::RaNotFromLink));
    let short = advertisement_input(&good[..15], ip("fe80::1"), 255).map(|_| ());
    assert_eq!(short, Err(DropReason::IcmpMalformed));
}

/// RFC 4861 6.3.4-a, 6.3.5-a, 6.3.6-a; RFC 4191 3-a.
#[test]
fn the_best_router_that_answers_is_the_default() {
    let (mut routers, mut budget) = (Routers::default(), Budget::default());
    hear(&mut routers, "fe80::1", &message(60, 0, &[]), &mut budget);
    hear(&mut routers, "fe80::2", &message(90, 0, &[]), &mut budget);
    assert_eq!(
        default_via(&routers).as_deref(),
        Some("fe80::1"),
        "the default is not the first of equal routers"
    );
    hear(&mut routers, "fe80::3", &message(90, 0x08, &[]), &mut budget);
    assert_eq!(
        default_via(&routers).as_deref(),
        Some("fe80::3"),
        "the default is not the router with preference high"
    );
    assert!(routers.set_silent(ip("fe80::3"), true));
    assert!(
        !routers.set_silent(ip("fe80::3"), true),
        "a router that is already silent counts as a change"
    );
    assert_eq!(default_via(&routers).as_deref(), Some("fe80::1"));
    assert!(routers.set_silent(ip("fe80::3"), false));
    hear(&mut routers, "fe80::3", &message(0, 0x08, &[]), &mut budget);
    assert_eq!(
        default_via(&routers).as_deref(),
        Some("fe80::1"),
        "a router that is no default router any more is used"
    );
    assert_eq!(routers.next_deadline(), after(60));
    routers.expire(after(60));
    assert_eq!(default_via(&routers).as_deref(), Some("fe80::2"));
    assert!(routers.forget_router(ip("fe80::2")));
    assert_eq!(routes(&routers), []);
    assert_eq!(routers.next_deadline(), Instant::NEVER);
}

/// RFC 4191 3-a.
#[test]
fn more_specific_routes() {
    let (mut routers, mut budget) = (Routers::default(), Budget::default());
    let route = |len: u8, preference: u8, lifetime: u8| {
        vec![24, 2, len, preference << 3, 0, 0, 0, lifetime, 0x20, 1, 0xd, 0xb8, 0, 9, 0, 0]
    };
    hear(&mut routers, "fe80::1", &message(60, 0, &route(48, 0, 30)), &mut budget);
    hear(&mut routers, "fe80::2", &message(0, 0, &route(48, 1, 20)), &mut budget);
    let to = |dest: &str, via: &str| (dest.to_owned(), Some(via.to_owned()));
    let expected = [to("2001:db8:9::/48", "fe80::2"), to("::/0", "fe80::1")];
    assert_eq!(routes(&routers), expected);
    routers.expire(after(20));
    assert_eq!(routes(&routers), [to("2001:db8:9::/48", "fe80::1"), to("::/0", "fe80::1")]);
    hear(&mut routers, "fe80::1", &message(60, 0, &route(48, 0, 0)), &mut budget);
    assert_eq!(routes(&routers), [to("::/0", "fe80::1")]);
    // A route option to everywhere replaces the values of the header.
    let everywhere = [24, 1, 0, 0, 0, 0, 0, 0];
    hear(&mut routers, "fe80::1", &message(60, 0, &everywhere), &mut budget);
    assert_eq!(routes(&routers), []);
}

/// RFC 4861 6.3.4-c; RFC 4862 5.5.3-a, 5.5.3-b, 5.5.3-c.
#[test]
fn prefixes_are_for_the_link_or_for_addresses_or_both() {
    let (mut routers, mut budget) = (Routers::default(), Budget::default());
    let options = [
        prefix(0xc0, 100, 50, "2001:db8:1::", 64),
        prefix(0x80, 100, 50, "2001:db8:2::", 60),
        prefix(0x40, 100, 50, "2001:db8:3::", 64),
        prefix(0x40, 50, 100, "2001:db8:4::", 64),
        prefix(0xc0, 100, 50, "fe80::", 64),
        prefix(0xc0, 100, 50, "ff0e::", 64),
        prefix(0xc0, 100, 50, "::", 0),
    ]
    .concat();
    let autonomous = hear(&mut routers, "fe80::1", &message(0, 0, &options), &mut budget);
    let prefixes: Vec<Ipv6Addr> = autonomous.iter().map(|p| p.prefix).collect();
    assert_eq!(prefixes, [ip("2001:db8:1::"), ip("2001:db8:3::")]);
    let on_link = |dest: &str| (dest.to_owned(), None);
    assert_eq!(routes(&routers), [on_link("2001:db8:1::/64"), on_link("2001:db8:2::/60")]);
    let gone = prefix(0x80, 0, 0, "2001:db8:1::", 64);
    hear(&mut routers, "fe80::1", &message(0, 0, &gone), &mut budget);
    assert_eq!(routes(&routers), [on_link("2001:db8:2::/60")]);
    routers.expire(after(100));
    assert_eq!(routes(&routers), []);
}

/// RFC 4861 6.3.4-b, 6.3.4-d.
#[test]
fn settings_are_bounded_and_stay_when_they_are_not_said() {
    let (mut routers, mut budget) = (Routers::default(), Budget::default());
    let mut first = message(0, 0xc0, &[5, 1, 0, 0, 0, 0, 0x05, 0x78]);
    first[4] = 32;
    first[8..16].copy_from_slice(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
    hear(&mut routers, "fe80::1", &first, &mut budget);
    let check = |routers: &Routers| {
        assert_eq!((routers.hop_limit, routers.mtu), (Some(32), Mtu::new(1_400)));
        assert_eq!(routers.reachable, Some(Duration::from_secs(1)));
        assert_eq!(routers.retransmit, Some(Duration::from_secs(10)));
    };
    check(&routers);
    assert_eq!(routers.managed_other, (true, true));
    for mtu in [1_279_u32, 1_501, 70_000, u32::MAX] {
        let option = [vec![5, 1, 0, 0], mtu.to_be_bytes().to_vec()].concat();
        hear(&mut routers, "fe80::1", &message(0, 0, &option), &mut budget);
        check(&routers);
    }
    assert!(routers.routes(0).is_empty());
}

/// RFC 8106 5.3.1-a.
#[test]
fn name_servers_and_domains_have_lifetimes() {
    let (mut routers, mut budget) = (Routers::default(), Budget::default());
    let server = |last: u8, seconds: u8| {
        let mut option = vec![25, 3, 0, 0, 0, 0, 0, seconds, 0x20, 1];
        option.resize(24, 0);
        option[23] = last;
        option
    };
    let domain = |seconds: u8| [&[31, 2, 0, 0, 0, 0, 0, seconds][..], b"\x03lab\0\0\0\0"].concat();
    let options = [server(1, 100), server(2, 50), domain(70)].concat();
    hear(&mut routers, "fe80::1", &message(0, 0, &options), &mut budget);
    let list = |routers: &Routers| routers.servers().collect::<Vec<_>>();
    assert_eq!(list(&routers), [ip("2001::1"), ip("2001::2")]);
    assert_eq!(routers.domains().collect::<Vec<_>>(), ["lab"]);
    hear(&mut routers, "fe80::1", &message(0, 0, &server(1, 0)), &mut budget);
    assert_eq!(list(&routers), [ip("2001::2")]);
    // At the limit a new entry replaces the one that expires first, if the new one lasts longer.
    budget.set(Limit::NameServers, 1);
    hear(&mut routers, "fe80::1", &message(0, 0, &server(3, 40)), &mut budget);
    assert_eq!(list(&routers), [ip("2001::2")]);
    hear(&mut routers, "fe80::1", &message(0, 0, &server(3, 60)), &mut budget);
    assert_eq!(list(&routers), [ip("2001::3")]);
    routers.expire(after(60));
    assert!(list(&routers).is_empty());
    assert_eq!(routers.domains().count(), 1);
    routers.expire(after(70));
    assert_eq!(routers.domains().count(), 0);
}

#[test]
fn every_list_has_a_limit() {
    let (mut routers, mut budget) = (Routers::default(), Budget::default());
    for n in 0..1_000_u16 {
        let text = format!("2001:db8:{n:x}::");
        let network = ip(&text).octets();
        let route = [&[24, 2, 48, 0, 0, 0, 0, 90][..], &network[..8]].concat();
        let server = [&[25, 3, 0, 0, 0, 0, 0, 90][..], &network].concat();
        let domain =
            [&[31, 2, 0, 0, 0, 0, 0, 90, 5][..], format!("{n:05}\0\0").as_bytes()].concat();
        let options = [prefix(0xc0, 90, 90, &text, 64), route, server, domain].concat();
        let from = format!("fe80::{n:x}");
        if n > 0 {
            hear(&mut routers, &from, &message(90, 0, &options), &mut budget);
        }
    }
    let is = |limit: Limit, len: usize| {
        assert_eq!(len, limit.default_value(), "{}", limit.name());
        assert!(budget.hits(limit) > 900);
    };
    is(Limit::Routers, routers.routers.len());
    is(Limit::Prefixes, routers.on_link.len());
    is(Limit::AdvertisedRoutes, routers.specific.len());
    is(Limit::NameServers, routers.servers.len());
    is(Limit::SearchDomains, routers.domains.len());
    assert_eq!(
        default_via(&routers).as_deref(),
        Some("fe80::1"),
        "a known router was replaced at the limit"
    );
}
