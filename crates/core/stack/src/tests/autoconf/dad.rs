//! Duplicate address detection. RFC 4862 section 5.4, RFC 7527.

use base::{Counter, LinkKind};

use super::*;
use crate::Event;

const OURS: &str = "2001:db8::77";

fn tentative() -> Address {
    let fixed = Address::fixed(cidr("2001:db8::77/64"));
    Address { state: AddressState::Tentative, ..fixed }
}

/// A link whose port checks an address, before its first probe.
fn checking() -> Link {
    let mut link = Link::new();
    link.stack().add_address(PORT, tentative()).expect("added");
    link
}

fn state(link: &Link) -> AddressState {
    link.addresses()[0].state
}

/// RFC 4862 5.4-a, 5.4.2-a, 5.4.2-b.
#[test]
fn an_address_is_asked_for_before_it_is_used() {
    let mut times = Vec::new();
    for seed in 0..20 {
        let mut link = Link::with_config(&PairConfig::new([seed, 1]));
        link.stack().add_address(PORT, tentative()).expect("added");
        let sent = link.pass(secs(1));
        let [probe] = &sent[..] else { panic!("one probe: {sent:?}") };
        assert_eq!((probe.kind(), probe.target()), (135, v6(OURS)));
        assert_eq!((probe.src, probe.dst), (v6("::"), v6("ff02::1:ff00:77")));
        times.push(probe.at.since(NOW));
        let wait = (probe.at + secs(1)).since(link.now).saturating_sub(Duration::from_millis(1));
        assert_eq!(link.pass(wait), []);
        assert_eq!(link.stack().next_event(), None);
        assert_eq!(state(&link), AddressState::Tentative);
        link.pass(Duration::from_millis(1));
        assert_eq!(state(&link), AddressState::Preferred);
        assert_eq!(link.stack().next_event(), Some(Event::Address(PORT)));
        assert_eq!(link.stack().next_event(), None);
        assert!(link.bench.stack.has_address(v6(OURS).into()));
        assert_eq!(link.bench.stack.counters().of(Counter::DadProbes), 1);
        assert_eq!(link.bench.stack.next_deadline(), Instant::NEVER);
    }
    times.sort();
    assert!(times[0] < Duration::from_millis(300) && times[19] > Duration::from_millis(700));
}

/// RFC 4862 5.4.3-a: a host that solicits an address under check gets no answer yet.
#[test]
fn solicitations_for_a_tentative_address_are_not_answered() {
    let mut link = checking();
    link.pass(Duration::from_millis(1_100));
    let sent = link.hear_from("fe80::99", &group_of(v6(OURS)), 255, &solicitation(v6(OURS)));
    assert_eq!(sent, []);
    assert_eq!(link.dropped(DropReason::NdTentative), 1);
    link.pass(secs(1));
    assert_eq!(state(&link), AddressState::Preferred);
    let sent = link.hear_from("fe80::99", &group_of(v6(OURS)), 255, &solicitation(v6(OURS)));
    assert_eq!(sent[0].kind(), 135, "not a solicitation for the asker's link address");
}

/// RFC 4862 5.4.3-b, 5.4.4-a, 5.4.5-a: messages of other hosts before the port's probe and after
/// it.
#[test]
fn another_hosts_probe_or_advertisement_ends_it() {
    for wait in [0, 1_100] {
        for is_probe in [false, true] {
            let mut link = checking();
            link.pass(Duration::from_millis(wait));
            if is_probe {
                link.hear_from("::", &group_of(v6(OURS)), 255, &solicitation(v6(OURS)));
            } else {
                link.hear(OURS, &neighbour_advertisement(v6(OURS), 0x20, 9));
            }
            assert_eq!(state(&link), AddressState::Duplicated);
            assert_eq!(link.stack().next_event(), Some(Event::Address(PORT)));
            assert_eq!(link.dropped(DropReason::NeighbourConflict), 1);
            assert_eq!(link.bench.stack.counters().of(Counter::DadDuplicates), 1);
            assert_eq!(link.pass(secs(10)), []);
            assert_eq!(state(&link), AddressState::Duplicated, "the address became usable again");
            assert!(!link.bench.stack.has_address(v6(OURS).into()));
        }
    }
}

/// A message that a router forwarded (its hop limit is less than 255) proves no duplicate.
#[test]
fn a_forged_advertisement_from_afar_is_not_believed() {
    let mut link = checking();
    link.pass(Duration::from_millis(1_100));
    link.hear_from(OURS, ALL_NODES, 254, &neighbour_advertisement(v6(OURS), 0x20, 9));
    link.pass(secs(1));
    assert_eq!(state(&link), AddressState::Preferred);
}

/// RFC 7527 section 4.2: the port's own probe, returned by the link, proves no duplicate.
#[test]
fn our_own_probe_looped_back_is_recognised() {
    let mut link = checking();
    let probe = link.pass(secs(1)).remove(0);
    link.hear_from("::", &group_of(v6(OURS)), 255, &probe.bytes);
    assert_eq!(link.dropped(DropReason::NdLooped), 1);
    link.pass(secs(2));
    assert_eq!(state(&link), AddressState::Preferred);
    // With another nonce the probe is another host's.
    let mut link = checking();
    let mut other = link.pass(secs(1)).remove(0).bytes;
    other[31] ^= 1;
    link.hear_from("::", &group_of(v6(OURS)), 255, &other);
    assert_eq!(state(&link), AddressState::Duplicated);
}

#[test]
fn an_address_in_use_is_defended() {
    let mut link = Link::new();
    link.stack().add_address(PORT, Address::fixed(cidr("2001:db8::77/64"))).expect("added");
    assert!(link.bench.stack.has_address(v6(OURS).into()), "the address was not usable at once");
    let sent = link.hear_from("::", &group_of(v6(OURS)), 255, &solicitation(v6(OURS)));
    assert_eq!((sent[0].kind(), sent[0].dst), (136, v6(ALL_NODES)));
}

#[test]
fn a_removed_address_is_checked_no_more() {
    let mut link = checking();
    assert!(link.stack().remove_address(PORT, v6(OURS).into()));
    assert_eq!(link.pass(secs(5)), []);
    assert_eq!(link.bench.stack.next_deadline(), Instant::NEVER);
    link.stack().add_address(PORT, tentative()).expect("added");
    link.stack().add_address(PORT, Address::fixed(cidr("2001:db8::77/64"))).expect("changed");
    assert_eq!(link.pass(secs(5)), [], "an address of the user was checked again");
}

/// On a wire of bare IP packets there is no other host, so no probe is sent.
#[test]
fn a_port_of_ip_packets_has_no_neighbour_discovery() {
    let mut config = PairConfig::new([1, 1]);
    config.wire.link = LinkKind::Ip;
    let mut link = Link::with_config(&config);
    link.stack().add_address(PORT, tentative()).expect("added");
    assert_eq!(state(&link), AddressState::Preferred);
    let refused = link.stack().autoconfigure(PORT, AutoConfig::default());
    assert_eq!(refused, Err(crate::AutoconfError::NoLinkLayer));
    let mut probe = solicitation(v6(OURS));
    let (src, dst) = (v6("fe80::9").into(), v6(OURS).into());
    let sum = transport_sum(src, dst, 58, &probe);
    probe[2..4].copy_from_slice(&sum.field());
    let mut packet = frame_between(src, dst, 58, &probe).split_off(14);
    packet[7] = 255;
    assert!(link.bench.exchange(&packet, NOW).is_empty());
    assert_eq!(link.dropped(DropReason::NdNoLinkAddress), 1);
}
