//! Attacks on neighbour discovery and autoconfiguration: floods of advertisements and of
//! solicitations, an attacker who claims every address, and forged entries. RFC 6583, RFC 4861
//! section 11, RFC 4862 section 6.

use base::{Counter, Limit, Owner};
use inet::neighbour::State;

use super::*;
use crate::Progress;
use crate::tests::craft::Rng;

/// Attacks like flood_router26: ever new routers, prefixes, routes and DNS servers. Every list
/// stays within its limit, entries that were known before stay, and the work is bounded.
#[test]
fn ra_flood_is_bounded() {
    let mut link = Link::configured(AutoConfig::default());
    let good = advertisement(1_800, &[link_address(1), prefix("2001:db8:1::", 7_200, 7_200)]);
    link.hear("fe80::1", &good);
    link.pass(secs(3));
    let ours = link.of(Origin::Stable, AddressState::Preferred);
    let mut rng = Rng(5);
    for n in 0..3_000_u32 {
        let network = format!("2001:db8:{:x}::", 2 + rng.below(60_000));
        let octets = v6(&network).octets();
        let route = [&[24, 2, 48, 0, 0, 0, 3, 0][..], &octets[..8]].concat();
        let server = [&[25, 3, 0, 0, 0, 0, 3, 0][..], &octets].concat();
        let options = [link_address(n as u8), prefix(&network, 7_200, 7_200), route, server];
        let from = format!("fe80::{:x}:{:x}", 1 + rng.below(9_999), 1 + rng.below(9_999));
        link.hear(&from, &advertisement(1_800, &options));
        if n % 200 == 199 {
            link.pass(Duration::from_millis(200));
            // The known router advertises again meanwhile.
            let before = link.bench.stack.counters().of(Counter::RouterAdvertisements);
            link.hear("fe80::1", &good);
            let after = link.bench.stack.counters().of(Counter::RouterAdvertisements);
            assert_eq!(after, before + 1);
        }
    }
    link.pass(secs(5));
    let budget = link.bench.stack.budget();
    assert!(link.addresses().len() <= budget.of(Limit::Addresses));
    assert!(link.addresses().len() <= 1 + 2 * budget.of(Limit::Prefixes));
    let routes = budget.of(Limit::Prefixes) + budget.of(Limit::AdvertisedRoutes) + 1;
    assert!(link.routes_of(RouteOrigin::Advertised) <= routes);
    assert!(link.bench.stack.neighbours.len() <= budget.of(Limit::Neighbours));
    assert!(link.dropped(DropReason::RaRateLimited) > 1_000);
    assert_eq!(link.next_hop("2001:db9::1"), Some(v6("fe80::1")), "the first router is not used");
    assert!(link.of(Origin::Stable, AddressState::Preferred).contains(&ours[0]));
    assert_eq!(link.bench.stack.pool().outstanding(), 0);
}

/// dos-new-ip6: an attacker claims every address that the port probes. The port tries three
/// addresses.
/// RFC 4862 5.4.5-b, RFC 7217 6-a.
#[test]
fn dad_dos_ends_after_three_tries() {
    let mut link = Link::new();
    link.stack().autoconfigure(PORT, AutoConfig::default()).expect("Ethernet");
    let mut probed: Vec<Ipv6Addr> = Vec::new();
    for _ in 0..200 {
        for probe in link.pass(Duration::from_millis(100)) {
            assert_eq!(probe.kind(), 135);
            probed.push(probe.target());
            let claim = neighbour_advertisement(probe.target(), 0x20, 9);
            link.hear(&probe.target().to_string(), &claim);
        }
    }
    assert_eq!(probed.len(), 3);
    probed.dedup();
    assert_eq!(probed.len(), 3, "not three different addresses were probed");
    let status = link.bench.stack.autoconf(PORT).expect("there");
    assert_eq!(status.progress, Progress::Duplicate);
    assert_eq!(link.bench.stack.counters().of(Counter::DadDuplicates), 3);
    assert_eq!(link.addresses().len(), 1, "the last address is not shown");
    assert_eq!(link.pass(secs(10_000)), []);
    // The same for the addresses of an advertised prefix.
    let mut link = Link::configured(stable_only());
    link.hear("fe80::1", &advertisement(1_800, &[prefix("2001:db8:1::", 7_200, 7_200)]));
    let mut count = 0;
    for _ in 0..200 {
        for probe in link.pass(Duration::from_millis(100)) {
            count += 1;
            let claim = neighbour_advertisement(probe.target(), 0x20, 9);
            link.hear(&probe.target().to_string(), &claim);
        }
    }
    assert_eq!(count, 3);
    assert_eq!(link.next_hop("2001:db8:ffff::1"), Some(v6("fe80::1")), "the route was lost");
}

/// parasite6: forged advertisements do not create entries. They change an entry only with the
/// override flag, and then at most once a second.
/// RFC 4861 7.2.5-a.
#[test]
fn ns_spoof_does_not_overwrite() {
    let mut link = Link::new();
    link.stack().add_address(PORT, Address::fixed(cidr("fe80::5/64"))).expect("added");
    let peer = v6("fe80::6");
    let unasked = neighbour_advertisement(peer, 0x60, 9);
    link.hear_from("fe80::6", "fe80::5", 255, &unasked);
    assert_eq!(
        link.bench.stack.neighbour_state(PORT, peer.into()),
        None,
        "an unsolicited advertisement made an entry"
    );
    assert_eq!(link.dropped(DropReason::NdUnsolicited), 1);
    let socket = link.stack().udp_bind(SocketAddr::new(v6("fe80::5").into(), 9), Owner::program());
    let socket = socket.expect("free");
    let mac_used = |link: &mut Link| {
        let to = SocketAddr::new(peer.into(), 9);
        let now = link.now;
        link.stack().udp_send(socket, to, b"x", now).expect("routed");
        let frames = link.bench.sent();
        frames.last().map(|frame| frame[5])
    };
    mac_used(&mut link);
    link.hear_from("fe80::6", "fe80::5", 255, &neighbour_advertisement(peer, 0x60, 6));
    assert_eq!(link.bench.stack.neighbour_state(PORT, peer.into()), Some(State::Reachable));
    link.bench.sent();
    link.pass(secs(2));
    link.hear_from("fe80::6", "fe80::5", 255, &neighbour_advertisement(peer, 0x00, 9));
    assert_eq!(mac_used(&mut link), Some(6), "it changed an entry without the override flag");
    assert_ne!(link.bench.stack.neighbour_state(PORT, peer.into()), Some(State::Reachable));
    // A solicitation from a forged source with another link address, for the port's address: the
    // entry changes, as RFC 4861 section 7.2.3 requires: a few times at once, then once a second.
    let mut forged = solicitation(v6("fe80::5"));
    forged.extend_from_slice(&link_address(9));
    link.hear_from("fe80::6", &group_of(v6("fe80::5")), 255, &forged);
    let mut back = solicitation(v6("fe80::5"));
    back.extend_from_slice(&link_address(7));
    link.hear_from("fe80::6", &group_of(v6("fe80::5")), 255, &back);
    assert_eq!(mac_used(&mut link), Some(7), "the last change was not followed");
    assert_ne!(link.bench.stack.neighbour_state(PORT, peer.into()), Some(State::Reachable));
    // An entry that the user has set is never changed.
    link.stack().add_neighbour(PORT, peer.into(), base::MacAddr([2, 0, 0, 0, 0, 3]));
    link.pass(secs(2));
    link.hear_from("fe80::6", "fe80::5", 255, &neighbour_advertisement(peer, 0x60, 9));
    link.hear_from("fe80::6", &group_of(v6("fe80::5")), 255, &forged);
    assert_eq!(mac_used(&mut link), Some(3));
}

/// RFC 4861 7.2.5-c.
#[test]
fn an_answer_without_a_link_address_confirms_it() {
    let mut link = Link::new();
    link.stack().add_address(PORT, Address::fixed(cidr("fe80::5/64"))).expect("added");
    let peer = v6("fe80::6");
    let state = |link: &Link| link.bench.stack.neighbour_state(PORT, peer.into());
    let bare = neighbour_advertisement(peer, 0x60, 6)[..24].to_vec();
    link.hear_from("fe80::6", "fe80::5", 255, &bare);
    assert_eq!(state(&link), None);
    let mut hello = solicitation(v6("fe80::5"));
    hello.extend_from_slice(&link_address(6));
    link.hear_from("fe80::6", &group_of(v6("fe80::5")), 255, &hello);
    assert_eq!(state(&link), Some(State::Stale));
    link.hear_from("fe80::6", "fe80::5", 255, &bare);
    assert_eq!(state(&link), Some(State::Reachable));
    // The advertisement must contain the link address that an incomplete entry waits for.
    let socket = link.stack().udp_bind(SocketAddr::new(v6("fe80::5").into(), 9), Owner::program());
    let (now, to) = (link.now, SocketAddr::new(v6("fe80::7").into(), 9));
    link.stack().udp_send(socket.expect("free"), to, b"x", now).expect("routed");
    let bare = neighbour_advertisement(v6("fe80::7"), 0x60, 6)[..24].to_vec();
    link.hear_from("fe80::7", "fe80::5", 255, &bare);
    let asked = link.bench.stack.neighbour_state(PORT, v6("fe80::7").into());
    assert_eq!(asked, Some(State::Incomplete));
}

/// ndpexhaust26: packets that cause answers to every address of a network. The table, the pending
/// queues and the solicitations are bounded, and a neighbour in use keeps its entry.
/// RFC 6583.
#[test]
fn nd_cache_exhaustion_is_bounded() {
    let mut config = PairConfig::new([9, 9]);
    config.stack.budget.set(Limit::Neighbours, 128);
    config.stack.budget.set(Limit::NeighbourQueueTotal, 64);
    config.stack.budget.set(Limit::SolicitationsPerSecond, 100);
    config.stack.budget.set(Limit::EchoRepliesPerSecond, 100_000);
    let mut link = Link::with_config(&config);
    link.stack().add_address(PORT, Address::fixed(cidr("2001:db8::5/64"))).expect("added");
    let peer = "2001:db8::6";
    let ours = v6("2001:db8::5");
    let mut hello = solicitation(ours);
    hello.extend_from_slice(&link_address(6));
    let mut asked = 0;
    for n in 0..4_000_u32 {
        // Echo requests from ever new source addresses.
        let from = format!("2001:db8::{:x}:{:x}", 1 + n / 1_000, 7 + n % 1_000);
        let sent = link.hear_from(&from, "2001:db8::5", 64, &[128, 0, 0, 0, 0, 1, 0, 1]);
        asked += sent.iter().filter(|m| m.kind() == 135).count();
        if n % 100 == 0 {
            link.hear_from(peer, &group_of(ours), 255, &hello);
            let answers = link.hear_from(peer, "2001:db8::5", 64, &[128, 0, 0, 0, 0, 1, 0, 1]);
            assert_eq!(answers.iter().filter(|m| m.kind() == 129).count(), 1, "{n}");
            link.pass(Duration::from_millis(25));
        }
        assert!(link.bench.stack.neighbours.len() <= 128);
        assert!(link.bench.stack.neighbours.pending() <= 64);
    }
    assert!(asked <= 200, "{asked}");
    assert!(link.bench.stack.budget().hits(Limit::Neighbours) > 0);
    link.pass(secs(10));
    assert_eq!(link.bench.stack.neighbours.pending(), 0);
    assert_eq!(link.bench.stack.pool().outstanding(), 0);
}
