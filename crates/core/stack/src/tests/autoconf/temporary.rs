//! Temporary addresses, over several days. RFC 8981 section 3.

use base::Limit;

use super::*;

const DAY: u64 = 86_400;

fn preferred(link: &Link) -> Vec<Ipv6Addr> {
    link.of(Origin::Temporary, AddressState::Preferred)
}

fn say(link: &mut Link, valid_s: u32, preferred_s: u32) {
    link.hear("fe80::1", &advertisement(0, &[prefix("2001:db8:1::", valid_s, preferred_s)]));
}

/// RFC 8981 3.4-a, 3.4-b, 3.4-c, 3.5-a.
#[test]
fn a_new_address_every_day_and_none_for_longer_than_two() {
    let mut link = Link::configured(AutoConfig::default());
    say(&mut link, u32::MAX, u32::MAX);
    link.pass(secs(3));
    let [first] = preferred(&link)[..] else { panic!("one") };
    let stable = link.of(Origin::Stable, AddressState::Preferred);
    assert_eq!(stable.len(), 1);
    let near = SocketAddr::new(v6("2001:db8:1::99").into(), 1);
    assert_eq!(
        link.bench.stack.source_for(near),
        Some(first.into()),
        "the temporary address is not the source"
    );
    let mut seen = vec![first];
    for _ in 0..6 * 24 * 10 {
        link.pass(secs(360));
        let now = preferred(&link);
        assert!(!now.is_empty(), "no temporary address is preferred");
        seen.extend(now.iter().filter(|ip| !seen.contains(ip)).copied().collect::<Vec<_>>());
        let all = link.addresses();
        assert!(all.iter().filter(|a| a.origin == Origin::Temporary).count() <= 4);
        assert!(all.iter().all(
            |a| a.origin != Origin::Temporary || a.valid_until.since(link.now) <= secs(2 * DAY)
        ));
    }
    // In six days, with an address every 0.6 to 1 day.
    assert!((6..=11).contains(&seen.len()), "{}", seen.len());
    assert!(!link.addresses().iter().any(|a| a.ip() == IpAddr::V6(first)));
    assert_eq!(
        link.of(Origin::Stable, AddressState::Preferred),
        stable,
        "the stable address changed"
    );
}

/// RFC 8981 3.4-a: the lifetimes are limited by the prefix's lifetimes, and by those that were
/// intended at first.
#[test]
fn lifetimes_are_those_of_the_prefix_at_most() {
    let mut link = Link::configured(AutoConfig::default());
    say(&mut link, 3_600, 1_800);
    link.pass(secs(3));
    let ours = |link: &Link| {
        let all = link.addresses();
        all.into_iter().find(|a| a.origin == Origin::Temporary).expect("there")
    };
    let made = link.now;
    assert!(ours(&link).preferred_until <= made + secs(1_800));
    assert!(ours(&link).valid_until <= made + secs(3_600));
    say(&mut link, u32::MAX, u32::MAX);
    let bounds = (made + secs(DAY), made + secs(2 * DAY));
    assert!(ours(&link).preferred_until <= bounds.0 && ours(&link).valid_until <= bounds.1);
    assert!(ours(&link).preferred_until >= made + secs(DAY * 6 / 10 - 10));
    say(&mut link, 3_600, 0);
    link.pass(secs(10));
    assert!(preferred(&link).is_empty(), "one was made of a deprecated prefix");
}

/// RFC 8981 3.4-d.
#[test]
fn three_duplicates_in_a_row_are_enough() {
    let mut link = Link::configured(AutoConfig::default());
    say(&mut link, 7_200, 7_200);
    let mut probed = Vec::new();
    for _ in 0..40 {
        let sent = link.pass(Duration::from_millis(250));
        for probe in sent.iter().filter(|message| message.kind() == 135) {
            // The probe of the stable address is not answered.
            let target = probe.target();
            let is_temporary =
                link.of(Origin::Temporary, AddressState::Tentative).contains(&target);
            if is_temporary {
                probed.push(target);
                link.hear(&target.to_string(), &neighbour_advertisement(target, 0x20, 9));
            }
        }
    }
    assert_eq!(probed.len(), 3);
    assert_eq!(
        link.addresses().len(),
        2,
        "not only the link-local and the stable address are left"
    );
}

#[test]
fn their_number_has_a_limit() {
    let mut config = PairConfig::new([3, 3]);
    config.stack.budget.set(Limit::TemporaryAddresses, 1);
    let mut link = Link::with_config(&config);
    link.stack().autoconfigure(PORT, AutoConfig::default()).expect("Ethernet");
    link.pass(secs(3));
    say(&mut link, u32::MAX, u32::MAX);
    for _ in 0..24 * 4 {
        link.pass(secs(3_600));
        let all = link.addresses();
        assert!(all.iter().filter(|a| a.origin == Origin::Temporary).count() <= 1);
    }
    assert!(link.bench.stack.budget().hits(Limit::TemporaryAddresses) > 0);
}
