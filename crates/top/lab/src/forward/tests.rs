//! The packets that the router in memory forwards, and the cases.

use super::cases::{Choice, Over};
use super::*;

fn frames_of(wire: &mut Mem, side: &mut Generator) -> Vec<Vec<u8>> {
    let (mut found, mut burst) = (Vec::new(), Burst::new());
    while wire.rx_burst(&mut side.pool, &mut burst) > 0 {
        found.extend(burst.iter().map(|m| m.as_slice().to_vec()));
        burst.drain(..).for_each(|m| side.pool.free(m));
    }
    found
}

#[test]
fn every_frame_of_every_shape_arrives_with_one_hop_less() {
    let flags = [false, true];
    let directions = [Direction::There, Direction::Back, Direction::Both];
    let all = flags.into_iter().flat_map(|v6| flags.map(|tagged| (v6, tagged)));
    for ((v6, tagged), direction) in all.flat_map(|at| directions.map(|way| (at, way))) {
        let plain = Shape::default();
        let shape = Shape { v6, tagged, sizes: IMIX, routes: 7, flows: 24, direction, ..plain };
        let mut rig = Rig::new(shape).expect("made");
        let mut alone = Alone::new(shape).expect("made");
        for _ in 0..3 {
            assert_eq!((rig.offer(240), alone.pass(240)), (240, 240), "{shape:?}");
            rig.turn(Instant::from_nanos(1));
            let ([near, far], [there, back]) = (&mut rig.wires, &mut rig.sides);
            let (there, back) = (frames_of(far, there), frames_of(near, back));
            let expected = match direction {
                Direction::There => (240, 0),
                Direction::Back => (0, 240),
                Direction::Both => (120, 120),
            };
            assert_eq!((there.len(), back.len()), expected, "{shape:?}");
            for (frames, mac, vlan) in [(there, MACS[3], 6), (back, MACS[0], 5)] {
                let tag = if tagged { 4 } else { 0 };
                let bytes: usize = frames.iter().map(|frame| frame.len() - tag).sum();
                assert_eq!(bytes, frames.len() / 12 * 4_322, "{shape:?}");
                for frame in frames {
                    assert_eq!(frame[..6], mac.0, "{shape:?}");
                    assert_eq!(frame[14 + tag + if v6 { 7 } else { 8 }], 63, "{shape:?}");
                    if tagged {
                        assert_eq!(frame[12..16], [0x81, 0, 0, vlan], "{shape:?}");
                    }
                }
            }
            assert_eq!(rig.lost(), None, "{shape:?}");
        }
    }
}

#[test]
fn flows_differ_and_go_to_as_many_prefixes_as_there_are_routes() {
    let shape = Shape { routes: 10, flows: 1_000, ..Shape::default() };
    let frames = frames(shape, 0).expect("made");
    let of = |at: std::ops::Range<usize>| {
        let parts = frames.iter().map(|frame| frame[at.clone()].to_vec());
        parts.collect::<std::collections::BTreeSet<_>>().len()
    };
    assert_eq!((of(30..33), of(30..34), of(30..38)), (10, 1_000, 1_000));
}

#[test]
fn the_cases_are_one_thing_at_a_time_or_all_that_is_asked_for() {
    let all = Choice::default().cases(false);
    let of = |over| all.iter().filter(|case| case.over == over).count();
    assert_eq!(Over::ALL.map(of), [10; 4]);
    let quick = Choice::default().cases(true);
    assert!(quick.iter().all(|case| case.over == Over::Mem || case.shape.routes < 1_000_000));
    let asked = Choice {
        over: vec![Over::Mem],
        routes: vec![1, 1_000],
        ip: vec![4, 6],
        ..Choice::default()
    };
    assert_eq!(asked.cases(false).len(), 4);
    assert_eq!(asked.cases(true).len(), 4);
}

#[test]
fn counts_are_read_with_their_suffix() {
    for (text, count) in [("1", 1), ("10k", 10_000), ("1M", 1_000_000), ("1_000", 1_000)] {
        assert_eq!(cases::count(text), Ok(count), "{text}");
    }
    for text in ["", "0", "k", "-1", "2M", "1e3", "99999999999k", "1G"] {
        let said = cases::count(text).expect_err(text);
        assert!(said.contains("as 1, 10k or 1M"), "{text}: {said}");
    }
}

#[test]
fn each_shard_forwards_the_frames_of_its_own_flows() {
    let shape = Shape { flows: 100, direction: Direction::Both, ..Shape::default() };
    let mut rigs = Rig::of_shards(shape, 2, None).expect("made");
    let mut flows = 0;
    for rig in &mut rigs {
        flows += rig.sides[0].frames.len();
        assert_eq!(rig.offer(240), 240);
        rig.turn(Instant::from_nanos(1));
        assert_eq!((rig.drain(), rig.lost()), (240, None));
    }
    assert_eq!(flows, 100);
    assert!(Rig::of_shards(Shape::default(), 2, None).is_none(), "one flow is of one shard");
}

#[test]
fn connections_shake_hands_through_the_router() {
    for v6 in [false, true] {
        let shape =
            Shape { v6, flows: 600, transport: Transport::Tcp, sizes: &[84], ..Shape::default() };
        let mut rig = Rig::new(shape).expect("made");
        assert_eq!(rig.shake_hands(shape, Instant::from_nanos(1)), Some(()));
        assert_eq!(rig.lost(), None);
    }
}

#[test]
fn sixty_thousand_flows_have_a_port_each_and_a_million_a_tuple_each() {
    let tuples = |count: u32| {
        let all = packets::shuffled(count);
        let tuple = |n| packets::segments(Shape::default(), 0, &[n], Flags::SYN).expect("frame");
        let of = |frame: Vec<u8>| [frame[30..34].to_vec(), frame[34..38].to_vec()].concat();
        all.map(|n| of(tuple(n).remove(0))).collect::<std::collections::HashSet<_>>()
    };
    let ports: std::collections::HashSet<_> =
        tuples(60_000).iter().map(|tuple| [tuple[4], tuple[5]]).collect();
    assert_eq!(ports.len(), 60_000);
    assert_eq!(tuples(1_000_000).len(), 1_000_000);
}
