//! States with NAT: both tuples, what packets leave with, checksums, ICMP.

use super::*;
use wire::checksum::Sum;

/// From 10.0.0.0 behind 203.0.113.5, port 61,000 outside.
fn source_nat(original: Key) -> Key {
    let outside = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 5));
    let reply = original.reversed().tuple();
    Key::of(&Tuple { dst: outside, dst_port: 61_000, ..reply }).expect("one version")
}

fn translated(world: &mut World, original: Key) -> StateId {
    let reply = source_nat(original);
    let first = Transport::Other;
    world.insert(&NewState { reply, tag: 77, ..new(original, first) }).expect("room")
}

#[test]
fn both_tuples_find_the_state_and_neither_reversed_one_does() {
    let mut world = World::new();
    let (original, reply) = (udp(1), source_nat(udp(1)));
    let id = translated(&mut world, original);
    assert_eq!(world.states.find(&original), Some((id, Direction::Original)));
    assert_eq!(world.states.find(&reply), Some((id, Direction::Reply)));
    assert_eq!(world.states.find(&original.reversed()), None);
    assert_eq!(world.states.find(&reply.reversed()), None);
    assert_eq!(world.states.tag(id), Some(77));
}

#[test]
fn a_packet_leaves_with_the_reversed_tuple_of_the_other_direction() {
    let mut world = World::new();
    let (original, reply) = (udp(1), source_nat(udp(1)));
    let id = translated(&mut world, original);
    let out = world.states.translation(id, Direction::Original).expect("translated");
    assert_eq!(out.key, reply.reversed());
    let back = world.states.translation(id, Direction::Reply).expect("translated");
    assert_eq!(back.key, original.reversed());
    let plain = world.udp(udp(2)).expect("room");
    assert_eq!(world.states.translation(plain, Direction::Original), None);
}

/// The sum of a pseudo-header and the ports.
fn sum(key: &Key) -> Sum {
    let tuple = key.tuple();
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (tuple.src, tuple.dst) else { panic!("IPv4") };
    let ports = Sum::of_be16(tuple.src_port).plus(Sum::of_be16(tuple.dst_port));
    Sum::pseudo_v4(src, dst, tuple.protocol).plus(ports).plus(Sum::of_be16(0x1234))
}

#[test]
fn the_differences_turn_right_checksums_into_right_checksums() {
    let mut world = World::new();
    for n in 0..500 {
        let original = v4(protocol::UDP, n * 7_919, 4_433);
        let reply = Tuple { dst_port: n as u16 * 131, ..source_nat(original).tuple() };
        let reply = Key::of(&reply).expect("one version");
        let state = NewState { reply, ..new(original, Transport::Other) };
        let Ok(id) = world.insert(&state) else { continue };
        for (direction, before) in [(Direction::Original, original), (Direction::Reply, reply)] {
            let how = world.states.translation(id, direction).expect("translated");
            let after = sum(&before).plus(how.transport);
            assert_eq!(after.plus(Sum(!sum(&how.key).0)).0, 0xffff, "{n} {direction:?}");
        }
    }
    assert!(world.states.len() > 400);
}

#[test]
fn a_reply_tuple_that_another_state_has_is_refused() {
    let mut world = World::new();
    translated(&mut world, udp(1));
    let reply = source_nat(udp(1));
    assert!(!world.states.is_free(&reply));
    let state = NewState { reply, ..new(udp(2), Transport::Other) };
    assert_eq!(world.insert(&state), Err(DropReason::NatNoPort));
    assert_eq!(world.udp(udp(1)), Err(DropReason::NatNoPort));
    let mixed = NewState { reply: v6(17, 1, 1), ..new(udp(3), Transport::Other) };
    assert_eq!(world.insert(&mixed), Err(DropReason::NatNoPort));
    assert_eq!(world.states.len(), 1);
}

/// RFC 5508 REQ-1.
#[test]
fn a_query_begins_a_flow_and_an_answer_does_not() {
    let mut world = World::new();
    let key = v4(protocol::ICMP, 1, 20_001);
    assert_eq!(world.insert(&new(key, Transport::Answer)), Err(DropReason::FilterNoState));
    let id = world.insert(&new(key, Transport::Query)).expect("room");
    let mut pass = |direction, transport| {
        world.states.pass(id, direction, transport, 64, world.now).map(|_| ())
    };
    assert_eq!(pass(Direction::Original, Transport::Query), Ok(()));
    assert_eq!(pass(Direction::Reply, Transport::Answer), Ok(()));
    assert_eq!(pass(Direction::Reply, Transport::Query), Err(DropReason::FilterIcmp));
    assert_eq!(pass(Direction::Original, Transport::Answer), Err(DropReason::FilterIcmp));
}

#[test]
fn an_icmp_error_passes_if_it_quotes_a_segment_of_the_window() {
    let mut world = World::new();
    let id = super::timers::established(&mut world, tcp(1), tcp(1).reversed());
    let mut error =
        |seq| world.states.pass_error(id, Direction::Original, Some(SeqNumber(seq)), 56);
    assert_eq!(error(1_000), Ok(()));
    assert_eq!(error(999), Ok(()), "the SYN");
    assert_eq!(error(1_001), Err(DropReason::FilterIcmp), "not sent yet");
    assert_eq!(error(1_000_u32.wrapping_sub(200_000)), Err(DropReason::FilterIcmp));
    let state = world.states.state(id, world.now).expect("alive");
    assert_eq!(state.packets, [2, 3], "errors count for the direction that they go in");
}
