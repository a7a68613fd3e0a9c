//! Fragments: the verdict of the first one, overlaps, time, the bound.

use super::*;
use crate::states::{Datagram, FirstFragment, Fragments, Later, Verdict};
use base::Limit;

fn first(id: u32, len: u32, verdict: Verdict) -> FirstFragment {
    FirstFragment { datagram: datagram(id), len, verdict }
}

fn datagram(id: u32) -> Datagram {
    Datagram { addrs: [1, 2, 3, 4], id, protocol: 17 }
}

fn start() -> (Fragments, Budget, Instant) {
    (Fragments::new(SECRET), Budget::default(), Instant::from_nanos(1))
}

#[test]
fn later_fragments_inherit_the_verdict_and_the_state() {
    let (mut fragments, mut budget, now) = start();
    let mut world = World::new();
    let id = world.udp(udp(1)).expect("room");
    let pass = Verdict::Pass(id, Direction::Original);
    assert_eq!(fragments.later(&datagram(1), 1_480, now), Later::Unknown);
    for (id, verdict) in [(1, pass), (2, Verdict::Drop), (3, Verdict::PassAlone)] {
        assert_eq!(fragments.first(first(id, 1_480, verdict), &mut budget, now), verdict);
        assert_eq!(fragments.later(&datagram(id), 1_480, now), Later::As(verdict));
        assert_eq!(fragments.later(&datagram(id), 2_960, now), Later::As(verdict));
    }
    assert_eq!(fragments.later(&datagram(4), 1_480, now), Later::Unknown);
}

/// RFC 1858, RFC 3128, RFC 5722.
#[test]
fn a_fragment_that_overlaps_the_first_refuses_the_rest_too() {
    let (mut fragments, mut budget, now) = start();
    fragments.first(first(1, 1_480, Verdict::PassAlone), &mut budget, now);
    assert_eq!(fragments.later(&datagram(1), 8, now), Later::As(Verdict::Drop));
    assert_eq!(fragments.later(&datagram(1), 1_480, now), Later::As(Verdict::Drop));
}

#[test]
fn a_repeated_first_fragment_is_the_same_and_a_different_one_refuses_the_datagram() {
    let (mut fragments, mut budget, now) = start();
    let one = first(1, 1_480, Verdict::PassAlone);
    assert_eq!(fragments.first(one, &mut budget, now), Verdict::PassAlone);
    assert_eq!(fragments.first(one, &mut budget, now), Verdict::PassAlone);
    let other = first(1, 24, Verdict::PassAlone);
    assert_eq!(fragments.first(other, &mut budget, now), Verdict::Drop);
    assert_eq!(fragments.later(&datagram(1), 1_480, now), Later::As(Verdict::Drop));
}

#[test]
fn a_verdict_is_kept_for_two_seconds() {
    let (mut fragments, mut budget, now) = start();
    fragments.first(first(1, 1_480, Verdict::PassAlone), &mut budget, now);
    let late = now + Duration::from_millis(1_999);
    assert_eq!(fragments.later(&datagram(1), 1_480, late), Later::As(Verdict::PassAlone));
    let late = now + Duration::from_millis(2_000);
    assert_eq!(fragments.later(&datagram(1), 1_480, late), Later::Unknown);
    assert_eq!(
        fragments.first(first(1, 24, Verdict::Drop), &mut budget, late),
        Verdict::Drop,
        "the identification is used again"
    );
}

/// RFC 4787 REQ-14a.
#[test]
fn a_flood_of_first_fragments_keeps_the_newest_and_is_counted() {
    let (mut fragments, mut budget, now) = start();
    for id in 0..10_000 {
        let now = now + Duration::from_micros(u64::from(id));
        fragments.first(first(id, 1_480, Verdict::PassAlone), &mut budget, now);
    }
    assert!(budget.hits(Limit::FilterFragments) > 9_000);
    let known = |id: &u32| fragments.later(&datagram(*id), 1_480, now) != Later::Unknown;
    assert!((0..10_000).filter(known).count() <= 256);
}
