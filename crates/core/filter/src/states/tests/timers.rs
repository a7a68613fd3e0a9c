//! Timeouts: RFC 4787 section 4.3, RFC 5382 section 5, RFC 5508 section 3.2, RFC 7857 section 2.

use super::*;
use crate::states::{Phase, Why};

const SECOND: Duration = Duration::from_secs(1);

/// How long a state lives from now on, in seconds.
fn lifetime(world: &mut World, id: StateId) -> u64 {
    let begin = world.now;
    while world.lives(id) && world.now.since(begin) < Duration::from_secs(20_000) {
        world.wait(SECOND);
    }
    world.now.since(begin).as_millis() / 1000
}

/// A timer is never early, and late by a tick or two, which is within a second.
#[track_caller]
fn assert_lives(world: &mut World, id: StateId, secs: u64) {
    let lived = lifetime(world, id);
    assert!((secs..=secs + 1).contains(&lived), "{lived} s instead of {secs}");
}

#[test]
fn udp_lives_for_30_seconds_without_an_answer_and_5_minutes_with_one() {
    let mut world = World::new();
    let id = world.udp(udp(1)).expect("room");
    assert_lives(&mut world, id, 30);
    let id = world.udp(udp(1)).expect("room");
    world.wait(SECOND);
    world.answer(id);
    assert_lives(&mut world, id, 300);
}

/// RFC 4787 REQ-5.
#[test]
fn udp_with_nat_lives_for_two_minutes_without_an_answer() {
    let mut world = World::new();
    let reply = udp(9).reversed();
    let id = world.insert(&NewState { reply, ..new(udp(1), Transport::Other) }).expect("room");
    assert_lives(&mut world, id, 120);
}

/// RFC 4787 REQ-5a, RFC 5508 REQ-2.
#[test]
fn a_question_to_port_53_lives_for_17_seconds_and_icmp_for_60() {
    let mut world = World::new();
    let id = world.udp(v4(protocol::UDP, 1, 53)).expect("room");
    world.answer(id);
    assert_lives(&mut world, id, 17);
    let id = world.insert(&new(v4(protocol::ICMP, 1, 7), Transport::Query)).expect("room");
    assert_lives(&mut world, id, 60);
    let id = world.insert(&new(v6(protocol::ICMPV6, 1, 7), Transport::Query)).expect("room");
    let passed = world.states.pass(id, Direction::Reply, Transport::Answer, 64, world.now);
    assert!(passed.is_ok());
    assert_lives(&mut world, id, 60);
}

#[test]
fn other_protocols_live_for_one_minute_or_ten() {
    let mut world = World::new();
    let id = world.udp(v4(47, 1, 0)).expect("room");
    assert_lives(&mut world, id, 60);
    let id = world.udp(v4(50, 1, 0)).expect("room");
    world.answer(id);
    assert_lives(&mut world, id, 600);
}

/// RFC 4787 REQ-6, REQ-6a.
#[test]
fn each_packet_of_either_direction_begins_the_time_again() {
    let mut world = World::new();
    let id = world.udp(udp(1)).expect("room");
    world.answer(id);
    for direction in [Direction::Original, Direction::Reply, Direction::Reply] {
        world.wait(Duration::from_secs(299));
        let passed = world.states.pass(id, direction, Transport::Other, 1, world.now);
        assert!(passed.is_ok());
    }
    assert_lives(&mut world, id, 300);
}

/// RFC 5382 REQ-5.
#[test]
fn tcp_lives_for_two_hours_and_four_minutes_after_the_handshake() {
    let mut world = World::new();
    let id = established(&mut world, tcp(1), tcp(1).reversed());
    assert_lives(&mut world, id, 7_440);
}

/// A state after the handshake: sequence numbers 1,000 and 9,000 are behind the SYNs.
pub(super) fn established(world: &mut World, original: Key, reply: Key) -> StateId {
    let syn = seg(SYN, 999, 0, 0);
    let state = NewState { reply, ..new(original, Transport::Tcp(&syn)) };
    let id = world.insert(&state).expect("room");
    pass(world, id, Direction::Reply, seg(SYN_ACK, 8_999, 1_000, 0));
    pass(world, id, Direction::Original, seg(ACK, 1_000, 9_000, 0));
    assert_eq!(phase(world, id), Phase::TcpEstablished);
    id
}

pub(super) fn phase(world: &World, id: StateId) -> Phase {
    world.states.state(id, world.now).expect("alive").phase
}

#[track_caller]
pub(super) fn pass(world: &mut World, id: StateId, direction: Direction, segment: Segment) {
    let passed = world.states.pass(id, direction, Transport::Tcp(&segment), 100, world.now);
    assert!(passed.is_ok(), "{segment:?}: {passed:?}");
}

/// RFC 5382 REQ-5, RFC 7857 2.1-b.
#[test]
fn a_syn_without_an_answer_lives_for_two_minutes_and_with_nat_for_four() {
    for (reply, secs) in [(tcp(1).reversed(), 120), (tcp(9).reversed(), 240)] {
        let mut world = World::new();
        let syn = seg(SYN, 999, 0, 0);
        let state = NewState { reply, ..new(tcp(1), Transport::Tcp(&syn)) };
        let id = world.insert(&state).expect("room");
        assert_lives(&mut world, id, secs);
    }
}

/// RFC 5382 REQ-5, RFC 7857 2.1-b.
#[test]
fn a_closing_connection_lives_for_four_minutes_though_its_visit_was_far_ahead() {
    let mut world = World::new();
    let id = established(&mut world, tcp(1), tcp(1).reversed());
    world.wait(Duration::from_secs(100));
    pass(&mut world, id, Direction::Original, seg(FIN_ACK, 1_000, 9_000, 0));
    pass(&mut world, id, Direction::Reply, seg(FIN_ACK, 9_000, 1_000, 0));
    assert_eq!(phase(&world, id), Phase::TcpClosing);
    assert_lives(&mut world, id, 240);
}

/// RFC 5382 5-b.
#[test]
fn a_connection_that_one_side_has_closed_lives_as_long_as_an_established_one() {
    let mut world = World::new();
    let id = established(&mut world, tcp(1), tcp(1).reversed());
    pass(&mut world, id, Direction::Original, seg(FIN_ACK, 1_000, 9_000, 0));
    assert_eq!(phase(&world, id), Phase::TcpHalfClosed);
    assert_lives(&mut world, id, 7_440);
}

/// RFC 7857 2.2-b.
#[test]
fn a_reset_connection_lives_for_ten_seconds_and_with_nat_for_four_minutes() {
    for (reply, secs) in [(tcp(1).reversed(), 10), (tcp(9).reversed(), 240)] {
        let mut world = World::new();
        let id = established(&mut world, tcp(1), reply);
        pass(&mut world, id, Direction::Reply, seg(RST, 9_000, 0, 0));
        assert_lives(&mut world, id, secs);
    }
}

/// ICMP errors do not end it either. RFC 4787 REQ-12, RFC 5382 REQ-10, RFC 5508 REQ-6.
#[test]
fn dropped_packets_and_icmp_errors_do_not_prolong_a_state() {
    let mut world = World::new();
    let id = established(&mut world, tcp(1), tcp(1).reversed());
    world.wait(Duration::from_secs(7_000));
    let far = seg(ACK, 800_000_000, 9_000, 10);
    let dropped = world.states.pass(id, Direction::Original, Transport::Tcp(&far), 100, world.now);
    assert_eq!(dropped, Err(DropReason::FilterWindow));
    let quoted = Some(SeqNumber(1_000));
    assert_eq!(world.states.pass_error(id, Direction::Original, quoted, 56), Ok(()));
    assert_lives(&mut world, id, 440);
}

/// RFC 4787 REQ-5b.
#[test]
fn timeouts_can_be_changed_and_hold_at_the_next_change_of_phase() {
    let mut world = World::new();
    let timeouts = Timeouts { udp: Duration::from_secs(5), ..Timeouts::default() };
    world.states.set_timeouts(&timeouts);
    let id = world.udp(udp(1)).expect("room");
    world.answer(id);
    assert_lives(&mut world, id, 5);
}

#[test]
fn all_timeouts_shrink_from_60_percent_on_and_the_hand_finds_the_idle() {
    let mut world = World::new();
    world.budget.set(base::Limit::FilterStates, 1_000);
    let mut ids = Vec::new();
    for n in 0..900 {
        let id = world.udp(udp(n)).expect("room");
        world.answer(id);
        ids.push(id);
    }
    // At 90 % a half is left of 300 s: after 150 s the first ones go, until 60 % are left.
    world.wait(Duration::from_secs(140));
    assert_eq!(world.states.len(), 900);
    world.wait(Duration::from_secs(20));
    let left = world.states.len();
    assert!((500..900).contains(&left), "{left}");
    world.wait(Duration::from_secs(130));
    assert!(world.states.len() >= 500, "no more than that for want of room");
    world.wait(Duration::from_secs(30));
    assert_eq!(world.states.len(), 0);
}

#[test]
fn a_turn_visits_no_more_states_than_it_may() {
    let mut world = World::new();
    for n in 0..500 {
        world.udp(udp(n)).expect("room");
    }
    world.now += Duration::from_secs(60);
    assert_eq!(world.states.advance(world.now, 10, &world.budget), 10);
    assert_eq!(world.states.len(), 490);
    assert_eq!(world.states.next_deadline(world.now, &world.budget), Some(world.now));
    while world.states.advance(world.now, 10, &world.budget) > 0 {}
    assert_eq!(world.states.len(), 0);
    assert_eq!(world.states.next_deadline(world.now, &world.budget), None);
}

#[test]
fn a_year_of_silence_is_one_step() {
    let mut world = World::new();
    let id = world.udp(udp(1)).expect("room");
    world.now += Duration::from_secs(365 * 24 * 3600);
    world.states.advance(world.now, 1, &world.budget);
    assert!(!world.lives(id));
    let id = world.udp(udp(1)).expect("room");
    assert_lives(&mut world, id, 30);
    world.states.want(crate::states::Wanted { begun: false, ended: true }, 10);
    let id = world.udp(udp(1)).expect("room");
    assert_lives(&mut world, id, 30);
    let event = world.states.next_event().expect("an event");
    assert_eq!(event.what, crate::states::What::Ended(Why::Idle));
}
