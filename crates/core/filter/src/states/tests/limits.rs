//! Limits: the table, its waiting half, sources, rates.

use super::timers::established;
use super::*;
use crate::states::{Rate, Why};
use base::Limit;

fn limited(states: usize) -> World {
    let mut world = World::new();
    world.budget.set(Limit::FilterStates, states);
    world
}

#[test]
fn waiting_states_hold_half_of_the_table_and_the_oldest_goes_first() {
    let mut world = limited(100);
    let ids: Vec<StateId> = (0..60).map(|n| world.udp(udp(n)).expect("room")).collect();
    assert_eq!((world.states.len(), world.states.waiting()), (50, 50));
    assert!(ids[..10].iter().all(|&id| !world.lives(id)), "the oldest");
    assert!(ids[10..].iter().all(|&id| world.lives(id)));
}

#[test]
fn a_full_table_evicts_unreplied_flows_and_then_refuses() {
    let mut world = limited(100);
    for n in 0..99 {
        let id = world.udp(udp(n)).expect("room");
        world.answer(id);
    }
    let one = world.udp(udp(99)).expect("room");
    let other = world.udp(udp(100)).expect("it takes the place of the one before");
    assert!(!world.lives(one));
    world.answer(other);
    assert_eq!(world.udp(udp(101)), Err(DropReason::FilterStateLimit));
    assert_eq!(world.states.len(), 100);
    assert!(world.budget.hits(Limit::FilterStates) >= 2);
}

#[test]
fn connections_that_are_over_go_before_others() {
    let mut world = limited(10);
    let over = established(&mut world, tcp(1), tcp(1).reversed());
    let rst = seg(RST, 9_000, 0, 0);
    let passed = world.states.pass(over, Direction::Reply, Transport::Tcp(&rst), 40, world.now);
    assert!(passed.is_ok());
    for n in 0..8 {
        let id = world.udp(udp(n)).expect("room");
        world.answer(id);
    }
    let waiting = world.udp(udp(8)).expect("room");
    assert_eq!(world.states.len(), 10);
    world.udp(udp(9)).expect("the place of the one that is over");
    assert!(!world.lives(over) && world.lives(waiting));
}

#[test]
fn a_table_of_no_states_refuses_all() {
    let mut world = limited(0);
    assert_eq!(world.udp(udp(1)), Err(DropReason::FilterStateLimit));
}

#[test]
fn a_flood_of_syns_leaves_established_flows_alone() {
    let mut world = limited(1_000);
    let ids: Vec<StateId> =
        (0..400).map(|n| established(&mut world, tcp(n), tcp(n).reversed())).collect();
    let syn = seg(SYN, 1, 0, 0);
    for n in 0..20_000 {
        world.insert(&new(v4(6, 1 << 20 | n, 80), Transport::Tcp(&syn))).expect("room");
    }
    assert!(ids.iter().all(|&id| world.lives(id)));
    assert_eq!(world.states.len(), 900);
}

/// RFC 6888 REQ-5, REQ-5A.
#[test]
fn a_source_has_no_more_states_than_it_may_and_as_many_again_when_they_end() {
    let mut world = World::new();
    world.budget.set(Limit::FilterStatesPerSource, 5);
    // Numbers 0 to 255 are of one source.
    let ids: Vec<StateId> = (0..5).map(|n| world.udp(udp(n)).expect("room")).collect();
    assert_eq!(world.udp(udp(5)), Err(DropReason::FilterSourceLimit));
    assert!(world.udp(udp(256)).is_ok(), "another source");
    world.states.kill(ids[0], Why::Killed, world.now);
    assert!(world.udp(udp(5)).is_ok());
    assert_eq!(world.udp(udp(6)), Err(DropReason::FilterSourceLimit));
    assert_eq!(world.budget.hits(Limit::FilterStatesPerSource), 2);
}

#[test]
fn a_source_of_ipv6_is_a_network_of_64_bits() {
    let mut world = World::new();
    world.budget.set(Limit::FilterStatesPerSource, 1);
    let key = |last: u16, net: u16| {
        let src = Ipv6Addr::new(0x2001, 0xdb8, 0, net, 0, 0, 0, last);
        Key::of(&Tuple { src: src.into(), ..v6(17, 0, 9).tuple() }).expect("one version")
    };
    assert!(world.udp(key(1, 1)).is_ok());
    assert_eq!(world.udp(key(2, 1)), Err(DropReason::FilterSourceLimit));
    assert!(world.udp(key(1, 2)).is_ok());
}

#[test]
fn a_rule_limits_the_states_of_each_source_and_only_its_own() {
    let mut world = World::new();
    let limits = SourceLimits { states: Some(2), rate: None };
    let with = |n, rule| NewState { limits, rule, ..new(udp(n), Transport::Other) };
    assert!(world.insert(&with(0, 1)).is_ok() && world.insert(&with(1, 1)).is_ok());
    assert_eq!(world.insert(&with(2, 1)), Err(DropReason::FilterSourceLimit));
    assert!(world.insert(&with(2, 2)).is_ok(), "another rule");
    assert!(world.insert(&with(300, 1)).is_ok(), "another source");
}

#[test]
fn a_state_that_is_adopted_counts_for_its_new_rule() {
    let mut world = World::new();
    let limits = SourceLimits { states: Some(1), rate: None };
    let id = world.insert(&NewState { limits, ..new(udp(0), Transport::Other) }).expect("room");
    assert!(world.states.is_stale(id, 2) && !world.states.is_stale(id, 1));
    world.states.adopt(id, 7, 2, true, 100, world.now);
    assert!(!world.states.is_stale(id, 2));
    assert_eq!(world.states.rule(id), Some(7));
    let with = |n, rule| NewState { limits, rule, generation: 2, ..new(udp(n), Transport::Other) };
    assert_eq!(world.insert(&with(1, 7)), Err(DropReason::FilterSourceLimit));
    assert!(world.insert(&with(1, 3)).is_ok());
    world.states.kill(id, Why::Rules, world.now);
    assert!(world.insert(&with(2, 7)).is_ok());
}

/// RFC 6888 REQ-4C, REQ-5B.
#[test]
fn new_flows_of_a_source_are_admitted_at_the_rate_of_the_rule() {
    let mut world = World::new();
    let rate = Some(Rate { per_second: 10, per_source: true });
    let limits = SourceLimits { states: None, rate };
    let mut admitted = [0; 2];
    for n in 0..300_u32 {
        for source in 0..2 {
            let key = udp(source << 8 << 4 | n & 0xff | n >> 8 << 8);
            let state = NewState { limits, ..new(key, Transport::Other) };
            match world.insert(&state) {
                Ok(_) => admitted[source as usize] += 1,
                Err(reason) => assert_eq!(reason, DropReason::FilterRate),
            }
            if n >= 255 {
                return assert_rates(admitted);
            }
        }
        world.now += Duration::from_millis(10);
    }
}

/// Ten at once, and ten a second for 2.5 seconds.
fn assert_rates(admitted: [u32; 2]) {
    assert!(admitted.iter().all(|count| (34..=36).contains(count)), "{admitted:?}");
}

#[test]
fn a_rate_without_per_source_is_of_all_sources_together() {
    let mut world = World::new();
    let rate = Some(Rate { per_second: 3, per_source: false });
    let limits = SourceLimits { states: None, rate };
    let admitted = (0..10).filter(|n| {
        let state = NewState { limits, ..new(udp(n << 8), Transport::Other) };
        world.insert(&state).is_ok()
    });
    assert_eq!(admitted.count(), 3);
}

#[test]
fn more_sources_than_there_are_places_are_forgotten_without_harm() {
    let mut world = World::new();
    world.budget.set(Limit::FilterSources, 16);
    for n in 0..1_000 {
        world.udp(udp(n << 8)).expect("room");
    }
    assert!(world.states.sources_forgotten() > 900);
    world.wait(Duration::from_secs(40));
    assert_eq!(world.states.len(), 0);
}
