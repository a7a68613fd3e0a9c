//! Link-local addresses, and the addresses of advertised prefixes. RFC 4862 sections 5.3 and 5.5,
//! RFC 7217.

use super::*;
use crate::{Identifiers, Progress};

fn stable(link: &Link) -> Vec<Ipv6Addr> {
    link.of(Origin::Stable, AddressState::Preferred)
}

fn progress(link: &Link) -> Progress {
    link.bench.stack.autoconf(PORT).expect("autoconfigured").progress
}

/// RFC 4862 5.3-a, 5.5.3-d; RFC 4861 6.3.7-a.
#[test]
fn from_nothing_to_a_global_address() {
    let mut link = Link::new();
    link.stack().autoconfigure(PORT, stable_only()).expect("Ethernet");
    assert_eq!(progress(&link), Progress::Checking);
    let sent = link.pass(secs(3));
    let kinds: Vec<u8> = sent.iter().map(Message::kind).collect();
    assert_eq!(kinds, [135, 133], "not a probe and then a router solicitation");
    let own = link.link_local().expect("link-local");
    assert!(own.is_unicast_link_local());
    assert_eq!((sent[1].src, sent[1].dst), (own, v6("ff02::2")));
    assert_eq!(sent[1].bytes[8..], [&[1, 1][..], &pair::mac(1).0].concat());
    assert_eq!(progress(&link), Progress::Soliciting);

    let options = [link_address(7), prefix("2001:db8:1::", 7_200, 3_600)];
    link.hear("fe80::1", &advertisement(1_800, &options));
    assert_eq!(progress(&link), Progress::Routed);
    assert_eq!(link.next_hop("2001:db8:ffff::1"), Some(v6("fe80::1")));
    assert_eq!(
        link.next_hop("2001:db8:1::99"),
        Some(v6("2001:db8:1::99")),
        "a prefix that is on the link has a gateway"
    );
    let sent = link.pass(secs(3));
    assert_eq!(sent.iter().map(Message::kind).collect::<Vec<_>>(), [135]);
    let [ours] = stable(&link)[..] else { panic!("one address") };
    assert_eq!(sent[0].target(), ours);
    assert_eq!(inet::slaac::address(ours, 0), v6("2001:db8:1::"));
    assert_eq!(link.bench.stack.source_for(far(80)), Some(ours.into()));
    assert_eq!(link.pass(secs(1_000)), [], "another message was sent");
}

/// RFC 7217 5-a, 5-b.
#[test]
fn the_same_secret_gives_the_same_addresses() {
    let with = |seed: u64, secret| {
        let mut link = Link::with_config(&PairConfig::new([seed, 1]));
        let config = AutoConfig { secret, ..stable_only() };
        link.stack().autoconfigure(PORT, config).expect("Ethernet");
        link.pass(secs(3));
        link.hear("fe80::1", &advertisement(1_800, &[prefix("2001:db8:1::", 7_200, 3_600)]));
        link.pass(secs(3));
        (link.link_local().expect("link-local"), stable(&link))
    };
    let secret = Some([7, 8]);
    assert_eq!(with(1, secret), with(2, secret));
    assert_ne!(with(1, secret), with(1, Some([7, 9])));
    assert_ne!(with(1, None), with(2, None));
}

#[test]
fn identifiers_may_be_of_the_link_address() {
    let config = AutoConfig { identifiers: Identifiers::Eui64, ..stable_only() };
    let link = Link::configured(config);
    let expected = inet::slaac::address(v6("fe80::"), inet::slaac::eui64(pair::mac(1)));
    assert_eq!(link.link_local(), Some(expected));
}

/// A port that already has a link-local address keeps it, and solicits routers from it.
#[test]
fn a_users_link_local_address_is_kept() {
    let mut link = Link::new();
    link.stack().add_address(PORT, Address::fixed(cidr("fe80::5/64"))).expect("added");
    link.stack().autoconfigure(PORT, stable_only()).expect("Ethernet");
    let sent = link.pass(secs(2));
    assert_eq!(sent.iter().map(|m| (m.kind(), m.src)).collect::<Vec<_>>(), [(133, v6("fe80::5"))]);
    assert!(sent[0].at > NOW, "the first message left without a delay");
    assert_eq!(link.addresses().len(), 1);
}

/// RFC 4862 5.5.3-e, 5.5.4-a.
#[test]
fn lifetimes_are_renewed_and_end() {
    let mut link = Link::configured(stable_only());
    let say = |link: &mut Link, valid, preferred| {
        link.hear("fe80::1", &advertisement(0, &[prefix("2001:db8:1::", valid, preferred)]));
    };
    say(&mut link, 10_000, 20);
    link.pass(secs(3));
    assert_eq!(stable(&link).len(), 1);
    let until = |link: &Link| {
        let addresses = link.addresses();
        let ours = addresses.iter().find(|a| a.origin == Origin::Stable).expect("there");
        (ours.preferred_until.since(link.now), ours.valid_until.since(link.now))
    };
    link.pass(secs(17));
    assert_eq!(link.of(Origin::Stable, AddressState::Deprecated).len(), 1);
    say(&mut link, 10_000, 9_000);
    assert_eq!(stable(&link).len(), 1, "the address is not preferred again");
    assert_eq!(until(&link), (secs(9_000), secs(10_000)));
    // A forged advertisement with lifetimes of 0 ends the preference, but leaves a valid lifetime
    // of two hours.
    say(&mut link, 0, 0);
    assert_eq!(until(&link).1, secs(7_200));
    link.pass(secs(1));
    assert_eq!(link.of(Origin::Stable, AddressState::Deprecated).len(), 1);
    say(&mut link, 60, 60);
    assert_eq!(until(&link).1, secs(7_199), "the lifetime was shortened again");
    link.pass(secs(7_199));
    assert!(link.of(Origin::Stable, AddressState::Deprecated).is_empty());
    assert!(stable(&link).is_empty());
    say(&mut link, 100, 100);
    link.pass(secs(3));
    assert_eq!(stable(&link).len(), 1, "the address was not made again");
}

/// RFC 4862 5.5.3-a, 5.5.3-c, 5.5.3-d: prefixes of which no address is made.
#[test]
fn prefixes_that_are_not_for_addresses() {
    let mut link = Link::configured(stable_only());
    let mut long = prefix("2001:db8:4::", 100, 100);
    long[2] = 80;
    let options = [
        prefix_with(0x80, "2001:db8:1::", 100, 100),
        prefix("2001:db8:2::", 100, 200),
        prefix("2001:db8:3::", 0, 0),
        prefix("fe80::", 100, 100),
        long,
    ];
    link.hear("fe80::1", &advertisement(0, &options));
    link.pass(secs(3));
    assert_eq!(link.addresses().len(), 1, "an address other than the link-local one was made");
    assert_eq!(link.next_hop("2001:db8:1::9"), Some(v6("2001:db8:1::9")));
    // A prefix that is for addresses but not on the link: neighbours with this prefix are reached
    // by the router (RFC 5942).
    let options = [prefix_with(0x40, "2001:db8:5::", 100, 100)];
    link.hear("fe80::1", &advertisement(1_800, &options));
    link.pass(secs(3));
    assert_eq!(stable(&link).len(), 1);
    assert_eq!(link.next_hop("2001:db8:5::9"), Some(v6("fe80::1")));
}

/// RFC 4862 5.4.5-b: if the address made of the MAC address is a duplicate, no other is tried.
#[test]
fn a_duplicate_link_address_ends_autoconfiguration() {
    let mut link = Link::new();
    let config = AutoConfig { identifiers: Identifiers::Eui64, ..stable_only() };
    link.stack().autoconfigure(PORT, config).expect("Ethernet");
    let probe = link.pass(secs(1)).remove(0);
    link.hear(&probe.target().to_string(), &neighbour_advertisement(probe.target(), 0x20, 9));
    assert_eq!(progress(&link), Progress::Duplicate);
    assert_eq!(link.pass(secs(100)), []);
    link.hear("fe80::1", &advertisement(1_800, &[prefix("2001:db8:1::", 7_200, 3_600)]));
    assert_eq!(link.dropped(DropReason::RaIgnored), 1);
    assert_eq!(link.addresses()[0].state, AddressState::Duplicated, "the duplicate is not shown");
}

#[test]
fn what_was_configured_goes_when_it_is_stopped() {
    let mut link = Link::configured(AutoConfig::default());
    link.stack().add_address(PORT, Address::fixed(cidr("2001:db8::5/64"))).expect("added");
    link.hear("fe80::1", &advertisement(1_800, &[prefix("2001:db8:1::", 7_200, 3_600)]));
    link.pass(secs(3));
    assert_eq!(link.addresses().len(), 4);
    assert!(link.stack().stop_autoconf(PORT));
    assert!(!link.stack().stop_autoconf(PORT), "twice");
    assert_eq!(link.addresses(), [Address::fixed(cidr("2001:db8::5/64"))]);
    assert_eq!(link.next_hop("2001:db8:ffff::1"), None);
    assert_eq!(link.bench.stack.next_deadline(), Instant::NEVER);
    link.stack().autoconfigure(PORT, AutoConfig::default()).expect("again");
    assert!(link.stack().remove_port(PORT).is_some());
    assert!(link.bench.stack.autoconf(PORT).is_none());
    assert_eq!(link.bench.stack.next_deadline(), Instant::NEVER);
}
