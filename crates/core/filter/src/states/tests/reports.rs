//! Events for flow export: their limit, and what is reported of states that last.

use super::*;
use crate::states::{Cursor, Event, Wanted, What, Why};

const ALL: Wanted = Wanted { begun: true, ended: true };
const ACTIVE: Duration = Duration::from_secs(10);

/// All reports of states that last; pages of three records.
fn reports(world: &mut World) -> Vec<Event> {
    let (mut all, mut cursor) = (Vec::new(), Some(Cursor::default()));
    while let Some(at) = cursor {
        cursor = world.states.report_lasting(at, 3, (ACTIVE, world.now), |event| all.push(*event));
    }
    all
}

fn counts(event: &Event) -> [(u64, u64); 2] {
    [Direction::Original, Direction::Reply].map(|direction| event.new_counts(direction))
}

#[test]
fn events_have_their_limit_and_say_why() {
    let mut world = World::new();
    world.states.want(ALL, 3);
    let id = world.udp(udp(1)).expect("room");
    world.answer(id);
    world.states.kill(id, Why::Killed, world.now);
    let begun = world.states.next_event().expect("an event");
    assert_eq!((begun.what, begun.state.packets), (What::Began, [1, 0]));
    let ended = world.states.next_event().expect("an event");
    assert_eq!((ended.what, ended.state.packets), (What::Ended(Why::Killed), [1, 1]));
    assert_eq!(counts(&ended), [(1, 100), (1, 100)]);
    assert_eq!(ended.state.original, udp(1).tuple());
    for n in 0..5 {
        world.udp(udp(n)).expect("room");
    }
    assert_eq!((world.states.events_waiting(), world.states.events_lost()), (3, 2));
    world.states.want(Wanted::default(), 0);
    assert_eq!(world.states.next_event(), None);
    world.udp(udp(9)).expect("room");
    assert_eq!(world.states.events_lost(), 2, "nobody asks, so nothing is lost");
}

#[test]
fn each_packet_of_a_flow_that_lasts_is_reported_once() {
    let mut world = World::new();
    world.states.want(Wanted { begun: false, ended: true }, 100);
    let ids: Vec<StateId> = (0..8).map(|n| world.udp(udp(n)).expect("room")).collect();
    let v6 = world.udp(v6(protocol::UDP, 1, 4_433)).expect("room");
    assert_eq!(reports(&mut world), [], "too early");
    let (mut packets, mut bytes) = (0, 0);
    for _ in 0..4 {
        world.answer(ids[3]);
        world.answer(v6);
        world.wait(ACTIVE + Duration::from_secs(1));
        let all = reports(&mut world);
        assert!(all.iter().all(|event| event.what == What::Lasts));
        let ours = all.iter().find(|event| event.state.original == udp(3).tuple());
        let [_, (more_packets, more_bytes)] = counts(ours.expect("it lasts"));
        (packets, bytes) = (packets + more_packets, bytes + more_bytes);
        assert_eq!(reports(&mut world), [], "once");
    }
    assert_eq!((packets, bytes), (4, 400));
    // The others had their one packet reported, and ended meanwhile with nothing more to report.
    while let Some(event) = world.states.next_event() {
        assert_eq!((event.what, counts(&event)), (What::Ended(Why::Idle), [(0, 0); 2]));
    }
    world.answer(ids[3]);
    world.states.kill(ids[3], Why::Killed, world.now);
    let ended = world.states.next_event().expect("an event");
    assert_eq!(counts(&ended), [(0, 0), (1, 100)]);
    // Another state in its place has nothing reported.
    let next = world.udp(udp(77)).expect("room");
    world.states.kill(next, Why::Killed, world.now);
    let ended = world.states.next_event().expect("an event");
    assert_eq!((counts(&ended), ended.reported.at), ([(1, 100), (0, 0)], None));
}

#[test]
fn a_connection_that_is_over_is_reported_at_once() {
    let mut world = World::new();
    let id = super::timers::established(&mut world, tcp(1), tcp(1).reversed());
    let reset = seg(RST, 1_001, 0, 0);
    let passed = world.states.pass(id, Direction::Original, Transport::Tcp(&reset), 40, world.now);
    assert!(passed.is_ok(), "{passed:?}");
    assert_eq!(reports(&mut world), [], "segments may still come");
    world.wait(Duration::from_secs(2));
    assert!(world.lives(id));
    let all = reports(&mut world);
    assert_eq!(all.len(), 1, "long before the active timeout");
    assert!(all[0].state.phase.is_over());
}
