//! Walks: pages, ending states, the bound of each step.

use super::*;
use crate::states::{Cursor, Why};
use std::collections::HashSet;

fn filled() -> (World, HashSet<StateId>) {
    let mut world = World::new();
    let mut ids = HashSet::new();
    for n in 0..700 {
        ids.insert(world.udp(udp(n)).expect("room"));
        ids.insert(world.udp(v6(17, n, 9)).expect("room"));
    }
    (world, ids)
}

#[test]
fn pages_show_each_state_once() {
    let (world, ids) = filled();
    let (mut seen, mut cursor) = (Vec::new(), Some(Cursor::default()));
    while let Some(at) = cursor {
        let before = seen.len();
        cursor = world.states.page(at, 33, world.now, |id, _| seen.push(id));
        assert!(seen.len() - before <= 33);
    }
    assert_eq!(seen.len(), 1_400);
    assert_eq!(seen.into_iter().collect::<HashSet<_>>(), ids);
}

#[test]
fn an_empty_table_has_no_page() {
    let world = World::new();
    assert_eq!(world.states.page(Cursor::default(), 5, world.now, |_, _| panic!()), None);
}

#[test]
fn states_that_are_meant_end_in_bounded_steps() {
    let (mut world, _) = filled();
    let (mut cursor, mut ended, mut steps) = (Some(Cursor::default()), 0, 0);
    while let Some(at) = cursor {
        let step = world.states.kill_if(at, 100, Why::Killed, world.now, |_, state| {
            state.original.src_port % 2 == 0 && state.original.src.is_ipv4()
        });
        (cursor, steps) = (step.0, steps + 1);
        ended += step.1;
        assert!(step.1 <= 100);
    }
    assert_eq!((ended, steps), (350, 14));
    assert_eq!(world.states.len(), 1_050);
    assert_eq!(world.states.find(&udp(2)), None);
    assert!(world.states.find(&udp(3)).is_some());
}

#[test]
fn a_state_is_shown_with_its_times_and_counters() {
    let mut world = World::new();
    let id = world.udp(udp(1)).expect("room");
    let begin = world.now;
    world.wait(Duration::from_secs(3));
    world.answer(id);
    world.wait(Duration::from_secs(4));
    let state = world.states.state(id, world.now).expect("alive");
    assert_eq!(state.reply, udp(1).tuple().reversed());
    assert_eq!((state.packets, state.bytes), ([1, 1], [100, 100]));
    assert_eq!((state.in_port, state.out_port, state.rule), (1, 2, 3));
    let near = |time: Instant, after: u64| {
        let secs = time.since(begin + Duration::from_secs(after) - Duration::from_secs(1));
        (800..=1_200).contains(&secs.as_millis())
    };
    assert!(near(state.created, 0) && near(state.seen, 3) && near(state.expires, 303));
    assert_eq!(world.states.ports(id, Direction::Original), Some([1, 2]));
    assert_eq!(world.states.ports(id, Direction::Reply), Some([2, 1]));
}
