//! The table against a map: random insertions, look-ups and endings, with and without NAT.

use std::collections::HashMap;

use super::*;
use crate::states::Why;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Insert { n: u32, v6: bool, nat: Option<u16> },
    Find { n: u32, v6: bool },
    Kill { n: u32, v6: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let key = (0..600_u32, any::<bool>());
    prop_oneof![
        4 => (key.clone(), prop::option::of(1..2_000_u16))
            .prop_map(|((n, v6), nat)| Step::Insert { n, v6, nat }),
        2 => key.clone().prop_map(|(n, v6)| Step::Find { n, v6 }),
        2 => key.prop_map(|(n, v6)| Step::Kill { n, v6 }),
    ]
}

fn key_of(n: u32, is_v6: bool) -> Key {
    if is_v6 { v6(17, n, 9) } else { v4(17, n, 9) }
}

/// The reply tuple after source NAT to a port.
fn translated(key: Key, port: u16) -> Key {
    let reply = key.reversed().tuple();
    Key::of(&Tuple { dst_port: port, ..reply }).expect("one version")
}

type Map = HashMap<Key, (StateId, Direction)>;

fn check(world: &World, map: &Map, key: Key) {
    assert_eq!(world.states.find(&key), map.get(&key).copied(), "{key:?}");
    let back = key.reversed();
    assert_eq!(world.states.find(&back), map.get(&back).copied(), "answer to {key:?}");
}

fn run(steps: &[Step]) {
    let (mut world, mut map) = (World::new(), Map::new());
    for step in steps {
        match *step {
            Step::Insert { n, v6, nat } => {
                let original = key_of(n, v6);
                let reply = nat.map_or(original.reversed(), |port| translated(original, port));
                let is_free = !map.contains_key(&original) && !map.contains_key(&reply);
                let made = world.insert(&NewState { reply, ..new(original, Transport::Other) });
                assert_eq!(made.is_ok(), is_free, "{original:?} {reply:?}");
                if let Ok(id) = made {
                    map.insert(original, (id, Direction::Original));
                    map.insert(reply, (id, Direction::Reply));
                }
            }
            Step::Find { n, v6 } => check(&world, &map, key_of(n, v6)),
            Step::Kill { n, v6 } => {
                if let Some((id, _)) = map.get(&key_of(n, v6)).copied() {
                    assert!(world.states.kill(id, Why::Killed, world.now).is_some());
                    assert!(!world.lives(id));
                    map.retain(|_, (found, _)| *found != id);
                }
            }
        }
    }
    assert_eq!(world.states.len() * 2, map.len());
    for (&key, &found) in &map {
        assert_eq!(world.states.find(&key), Some(found));
    }
    for n in 0..600 {
        check(&world, &map, key_of(n, n % 2 == 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_table_does_what_a_map_does(steps in prop::collection::vec(step(), 1..1_500)) {
        run(&steps);
    }
}

#[test]
fn every_state_is_found_while_the_index_grows() {
    let (mut world, mut ids) = (World::new(), Vec::new());
    for n in 0..40_000 {
        ids.push(world.udp(udp(n)).expect("room"));
        // The neighbours of each split bucket are looked at once in a while.
        if n % 997 == 0 {
            for (n, &id) in ids.iter().enumerate() {
                let found = world.states.find(&udp(n as u32).reversed());
                assert_eq!(found, Some((id, Direction::Reply)), "{n}");
            }
        }
    }
}

#[test]
fn prefetching_changes_nothing() {
    let mut world = World::new();
    let key = udp(1);
    let hash = world.states.hasher().of(&key);
    let _ = world.states.guess(hash, world.states.first_bucket(hash));
    assert_eq!(world.states.find(&key), None);
    let id = world.udp(key).expect("room");
    let _ = world.states.guess(hash, world.states.first_bucket(hash));
    assert_eq!(world.states.find(&key), Some((id, Direction::Original)));
}

#[test]
fn an_id_is_stale_once_its_state_has_ended() {
    let mut world = World::new();
    let id = world.udp(udp(1)).expect("room");
    world.states.kill(id, Why::Killed, world.now);
    let next = world.udp(udp(2)).expect("room");
    assert_eq!(id.slot, next.slot, "the place is used again");
    assert_ne!(id, next);
    let passed = world.states.pass(id, Direction::Original, Transport::Other, 1, world.now);
    assert_eq!(passed, Err(DropReason::FilterNoState));
    assert_eq!(world.states.state(id, world.now), None);
    assert_eq!(world.states.translation(id, Direction::Original), None);
}
