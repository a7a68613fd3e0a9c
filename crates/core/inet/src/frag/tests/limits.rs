//! The held fragments are bounded, for each source and for all, in bytes, in number and in time.

use base::{DropReason, Duration, Limit};

use super::{Cut, Host, NOW, cut_at, packet, packet_of, pattern, template};
use crate::frag::TIMEOUT;

fn first() -> Cut {
    Cut { begin: 0, more: true, data: pattern(64) }
}

/// RFC 1122 3.3.2-a, RFC 8200 4.5-c.
#[test]
fn a_datagram_that_is_not_complete_in_time_is_dropped() {
    for (v6, begin) in [(false, 0), (true, 0), (false, 8), (true, 8)] {
        let mut host = Host::new();
        let cut = Cut { begin, ..first() };
        let bytes = packet(v6, 1, &cut);
        assert_eq!(host.give(&bytes, NOW), Ok(None));
        // Further fragments do not extend the datagram's time.
        let later = NOW + Duration::from_secs(30);
        assert_eq!(host.give(&packet(v6, 1, &Cut { begin: 800, ..first() }), later), Ok(None));
        let ends = NOW + TIMEOUT;
        assert_eq!(host.frags.next_deadline(), ends);
        let just_before = NOW + Duration::from_millis(59_999);
        assert!(host.frags.expire(just_before, &mut host.drops).is_none());
        let expired = host.frags.expire(ends, &mut host.drops).expect("its time is up");
        let quoted = expired.first.map(|m| m.as_slice().to_vec());
        assert_eq!(
            quoted,
            (begin == 0).then_some(bytes),
            "the expired datagram does not have its first fragment"
        );
        assert!(host.frags.expire(ends, &mut host.drops).is_none());
        assert_eq!(host.drops.of(DropReason::FragmentTimeout), 2);
        host.settle();
        assert_eq!((host.frags.sources(), host.frags.next_deadline()), (0, base::Instant::NEVER));
    }
}

#[test]
fn one_source_evicts_its_own_and_nobody_elses() {
    for v6 in [false, true] {
        let mut host = Host::new();
        let other = match v6 {
            true => template("2001:db8:1::2", "2001:db8::1"),
            false => template("192.0.2.77", "192.0.2.1"),
        };
        let [front, rest] = cut_at(&pattern(100), &[48]).try_into().expect("two");
        assert_eq!(host.give(&packet_of(&other, 1, &front), NOW), Ok(None));
        for id in 0..5_000 {
            assert_eq!(host.give(&packet(v6, id, &first()), NOW), Ok(None));
        }
        let most = host.budget.of(Limit::FragmentDatagramsPerSource);
        assert_eq!((host.frags.len(), host.frags.sources()), (most + 1, 2));
        assert_eq!(host.drops.of(DropReason::FragmentEvicted), 5_000 - most as u64);
        assert_eq!(host.budget.hits(Limit::FragmentDatagramsPerSource), 5_000 - most as u64);
        // The same with the limit in bytes.
        host.budget.set(Limit::FragmentDatagramsPerSource, usize::MAX);
        for id in 0..5_000 {
            assert_eq!(host.give(&packet(v6, 10_000 + id, &first()), NOW), Ok(None));
        }
        assert!(host.budget.hits(Limit::FragmentBytesPerSource) > 0);
        assert!(host.frags.bytes() <= host.budget.of(Limit::FragmentBytesPerSource) + 4_096);
        let whole = host.give(&packet_of(&other, 1, &rest), NOW);
        assert!(matches!(whole, Ok(Some(_))), "the datagram of the other source is not complete");
    }
}

/// A host can have any address of its network.
#[test]
fn all_addresses_of_an_ipv6_network_are_one_source() {
    let mut host = Host::new();
    for n in 0..1_000 {
        let own = template(&format!("2001:db8::{n:x}:2"), "2001:db8::1");
        assert_eq!(host.give(&packet_of(&own, 1, &first()), NOW), Ok(None));
    }
    assert_eq!(host.frags.sources(), 1);
    assert_eq!(host.frags.len(), host.budget.of(Limit::FragmentDatagramsPerSource));
}

#[test]
fn many_sources_evict_the_oldest() {
    let from =
        |n: u32| template(&std::net::Ipv4Addr::from(0x0a00_0000 + n).to_string(), "192.0.2.1");
    let mut host = Host::new();
    for n in 0..3_000 {
        assert_eq!(host.give(&packet_of(&from(n), 1, &first()), NOW), Ok(None));
    }
    let most = host.budget.of(Limit::FragmentDatagrams);
    assert_eq!((host.frags.len(), host.frags.sources()), (most, most));
    assert_eq!(host.budget.hits(Limit::FragmentDatagrams), 3_000 - most as u64);
    let rest = Cut { begin: 64, more: false, data: pattern(8) };
    assert_eq!(
        host.give(&packet_of(&from(1), 1, &rest), NOW),
        Ok(None),
        "the datagram is complete although its first fragment was evicted"
    );
    assert!(matches!(host.give(&packet_of(&from(2_999), 1, &rest), NOW), Ok(Some(_))));
    // The limit in bytes: as many fragments are held as there is memory for.
    host.budget.set(Limit::FragmentDatagrams, usize::MAX);
    for n in 5_000..9_000 {
        assert_eq!(host.give(&packet_of(&from(n), 1, &first()), NOW), Ok(None));
    }
    assert!(host.budget.hits(Limit::FragmentBytes) > 0);
}

/// Tiny fragments in an order that is bad for lists; each fragment holds a buffer.
#[test]
fn a_datagram_has_so_many_fragments_and_no_more() {
    let mut host = Host::new();
    let most = host.budget.of(Limit::FragmentsPerDatagram);
    for n in (1..=most).rev() {
        let cut = Cut { begin: n * 16, more: true, data: pattern(8) };
        assert_eq!(host.give(&packet(false, 1, &cut), NOW), Ok(None));
    }
    let one_more = Cut { begin: 8, more: true, data: pattern(8) };
    let refused = Err((DropReason::FragmentLimit, None));
    assert_eq!(host.give(&packet(false, 1, &one_more), NOW), refused);
    assert_eq!(host.drops.of(DropReason::FragmentLimit), most as u64 + 1);
    assert_eq!((host.frags.held(), host.budget.hits(Limit::FragmentsPerDatagram)), (0, 1));
}

/// A limit of zero turns reassembly off.
#[test]
fn limits_of_zero_admit_no_fragment() {
    for limit in [
        Limit::FragmentBytes,
        Limit::FragmentBytesPerSource,
        Limit::FragmentDatagrams,
        Limit::FragmentDatagramsPerSource,
    ] {
        let mut host = Host::new();
        host.budget.set(limit, 0);
        for id in 0..3 {
            let refused = Err((DropReason::FragmentEvicted, None));
            assert_eq!(host.give(&packet(true, id, &first()), NOW), refused);
            assert!(host.frags.is_empty() && host.frags.sources() == 0);
        }
        assert_eq!(host.budget.hits(limit), 3);
    }
}

#[test]
fn a_port_that_goes_takes_its_datagrams_along() {
    let mut host = Host::new();
    assert_eq!(host.give(&packet(false, 1, &first()), NOW), Ok(None));
    host.frags.forget_port(1, &mut host.drops);
    assert_eq!(host.frags.len(), 1);
    host.frags.forget_port(0, &mut host.drops);
    assert_eq!((host.frags.len(), host.drops.of(DropReason::FragmentEvicted)), (0, 1));
    host.settle();
}
