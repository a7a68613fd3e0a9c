//! The RIB against a plain map that computes everything anew, and what the map does not show.

mod plain;

use base::{Duration, Instant};

use super::*;

fn dest(prefix: &str) -> Dest {
    Dest { table: 254, prefix: prefix.parse().expect("a prefix") }
}

fn offer(next: u32) -> Offer<u32> {
    Offer { next: Next::These(next), metric: 20, protocol: 186, at_s: 7 }
}

fn by_id(id: u32) -> Offer<u32> {
    Offer { next: Next::Id(id), ..offer(0) }
}

/// Calls of the forwarding table.
type Fib = Vec<(Dest, Option<u32>)>;

fn into(fib: &mut Fib) -> impl FnMut(Dest, Option<Best<'_, u32>>) {
    |dest, to| fib.push((dest, to.map(|best| *best.next)))
}

#[test]
fn an_equal_offer_changes_nothing() {
    let (mut rib, mut fib) = (Rib::new(10), Fib::new());
    rib.set(Origin::Fpm, dest("10.0.0.0/8"), offer(1), &mut into(&mut fib)).expect("there is room");
    let again = Offer { at_s: 99, ..offer(1) };
    rib.set(Origin::Fpm, dest("10.0.0.0/8"), again, &mut into(&mut fib)).expect("there is room");
    assert_eq!(fib, [(dest("10.0.0.0/8"), Some(1))]);
    let known: Vec<_> = rib.candidates(dest("10.0.0.0/8")).map(|known| known.since_s).collect();
    assert_eq!(known, [7]);
    assert_eq!(rib.sets(), 1);
}

#[test]
fn a_number_may_come_after_its_routes_and_change_for_all_of_them() {
    let (mut rib, mut fib) = (Rib::new(10), Fib::new());
    for prefix in ["10.0.0.0/8", "2001:db8::/32"] {
        rib.set(Origin::Fpm, dest(prefix), by_id(15), &mut into(&mut fib)).expect("there is room");
    }
    assert_eq!(fib, []);
    for to in [Some(1), Some(2), None] {
        assert!(rib.set_id(Origin::Fpm, 15, to));
        // In steps of one prefix.
        while !rib.refresh(1, &mut into(&mut fib)) {}
        assert_eq!(fib, [(dest("10.0.0.0/8"), to), (dest("2001:db8::/32"), to)]);
        fib.clear();
    }
    assert!(!rib.set_id(Origin::Fpm, 15, None), "nothing changes");
}

#[test]
fn a_number_is_kept_without_routes_and_freed_without_content() {
    let mut rib: Rib<u32> = Rib::new(10);
    assert!(!rib.set_id(Origin::Fpm, 15, Some(1)));
    let (one, nothing) = (dest("10.0.0.0/8"), &mut |_: Dest, _: Option<Best<'_, u32>>| ());
    rib.set(Origin::Fpm, one, by_id(15), nothing).expect("there is room");
    rib.remove(Origin::Fpm, one, nothing);
    assert_eq!(rib.sets(), 1);
    rib.set(Origin::Fpm, one, by_id(15), nothing).expect("there is room");
    assert_eq!(rib.best(one), Some(&1));
    rib.set_id(Origin::Fpm, 15, None);
    rib.remove(Origin::Fpm, one, nothing);
    assert_eq!((rib.sets(), rib.len()), (0, 0));
}

#[test]
fn a_sweep_removes_what_was_not_sent_again_and_spares_unnamed_tables() {
    let (mut rib, mut fib) = (Rib::new(10), Fib::new());
    let far = Dest { table: 100, ..dest("10.3.0.0/16") };
    rib.begin(Origin::Fpm);
    for dest in [dest("10.1.0.0/16"), dest("10.2.0.0/16"), far] {
        rib.set(Origin::Fpm, dest, offer(1), &mut |_, _| ()).expect("there is room");
    }
    rib.set(Origin::File, dest("10.4.0.0/16"), offer(1), &mut |_, _| ()).expect("there is room");
    rib.begin(Origin::Fpm);
    assert!(rib.candidates(dest("10.1.0.0/16")).all(|known| known.is_stale));
    rib.set(Origin::Fpm, dest("10.2.0.0/16"), offer(1), &mut into(&mut fib)).expect("room");
    // One prefix at a time, of which there are four.
    for _ in 0..4 {
        assert_eq!(rib.sweep(Origin::Fpm, 1, &mut into(&mut fib)), None);
    }
    let swept = rib.sweep(Origin::Fpm, 1, &mut into(&mut fib));
    assert_eq!(swept, Some(Swept { routes: 1, unnamed_tables: vec![100] }));
    assert_eq!(fib, [(dest("10.1.0.0/16"), None)]);
    assert_eq!(rib.best(far), Some(&1));
}

#[test]
fn at_the_limit_known_prefixes_still_change() {
    let mut rib = Rib::new(1);
    let nothing = &mut |_: Dest, _: Option<Best<'_, u32>>| ();
    rib.set(Origin::Fpm, dest("10.1.0.0/16"), offer(1), nothing).expect("there is room");
    assert_eq!(rib.set(Origin::Fpm, dest("10.2.0.0/16"), offer(1), nothing), Err(Full));
    rib.set(Origin::Fpm, dest("10.1.0.0/16"), offer(2), nothing).expect("it is known");
    assert_eq!(rib.best(dest("10.1.0.0/16")), Some(&2));
}

#[test]
fn a_replay_lasts_a_minute_and_until_five_seconds_of_silence() {
    let second = |s| Instant::ZERO + Duration::from_secs(s);
    let mut replay = Replay::begin(second(100));
    assert_eq!(replay.due(), second(160));
    replay.hear(second(158));
    assert_eq!(replay.due(), second(163));
}

#[test]
fn a_number_that_changes_within_a_round_is_looked_at_again() {
    let (mut rib, mut fib) = (Rib::new(10), Fib::new());
    for (prefix, id) in [("10.0.0.0/8", 1), ("10.1.0.0/16", 2)] {
        rib.set(Origin::Fpm, dest(prefix), by_id(id), &mut |_, _| ()).expect("there is room");
    }
    rib.set_id(Origin::Fpm, 2, Some(2));
    assert!(!rib.refresh(1, &mut into(&mut fib)));
    rib.set_id(Origin::Fpm, 1, Some(1));
    while !rib.refresh(1, &mut into(&mut fib)) {}
    assert!(fib.contains(&(dest("10.0.0.0/8"), Some(1))), "{fib:?}");
}
