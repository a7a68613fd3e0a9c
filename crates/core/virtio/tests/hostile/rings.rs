//! Rings whose indices, addresses, lengths and chains are wrong.

use std::cell::RefCell;

use base::DropReason;
use device::{Burst, Device};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert};
use proptest::test_runner::{Config, TestRunner};
use vm_memory::{Bytes, GuestAddress};

use crate::guest::driver::{NEXT, TABLE, WRITE, describe_at};
use crate::guest::{ALL, BYTES, MEMORY, MRG_RXBUF, RX, SIZE, TX, VERSION_1};
use crate::world::{BIG, SMALL, World, beside};

/// A descriptor: its place, address, length, flags and next one.
type Link = (u16, u64, u32, u16, u16);

/// Make a chain of the ring by which the guest sends available.
fn send_chain(world: &mut World, chain: &[Link]) {
    let guest = &mut world.guest;
    for &(id, at, len, flags, next) in chain {
        guest.rings[TX].describe(&guest.memory, id, (at, len), (flags, next));
    }
    guest.rings[TX].offer(&guest.memory, chain[0].0);
}

/// The rings are set up again, and frames pass.
fn recovers(mut world: World) {
    let World { mut port, mut pool, mut guest, path } = world;
    guest = beside(&mut port, &mut pool, move || {
        guest.restart();
        guest
    });
    world = World { port, pool, guest, path };
    assert!(world.port.link_up());
    assert!(world.guest.send([0; 10], &[5; 60]));
    assert_eq!(world.received(), [[5; 60]]);
    assert_eq!(world.sent(&[&[6; 60]]), 1);
    assert_eq!(world.guest.receive().expect("a frame").1, [6; 60]);
}

#[test]
fn chains_that_are_no_frames_are_dropped_and_the_next_frame_is_not() {
    let end = MEMORY + BYTES;
    let at = MEMORY + (20 << 20);
    let table = at + 0x8_0000;
    // Descriptors of a table: nested, and its own next for ever.
    let chains: &[&[Link]] = &[
        &[(0, 0, 100, 0, 0)],
        &[(0, end - 10, 100, 0, 0)],
        &[(0, end, 100, 0, 0)],
        &[(0, u64::MAX - 1, 100, 0, 0)],
        &[(0, at, u32::MAX, 0, 0)],
        &[(0, at, 0, 0, 0)],
        &[(0, at, 12, 0, 0)],
        &[(0, at, 3, 0, 0)],
        &[(0, at, 100, WRITE, 0)],
        &[(0, at, 12, NEXT, 1), (1, end, 60, 0, 0)],
        &[(0, at, 12, NEXT, 1), (1, at, 70_000, 0, 0)],
        &[(0, at, 60_000, NEXT, 1), (1, at, 60_000, NEXT, 0)],
        &[(0, at, 0, NEXT, 1), (1, at, 0, NEXT, 0)],
        &[(0, at, u32::MAX, NEXT, 1), (1, at, u32::MAX, NEXT, 2), (2, at, 100, 0, 0)],
        &[(0, table, 0, TABLE, 0)],
        &[(0, table, 17, TABLE, 0)],
        &[(0, end, 16, TABLE, 0)],
        &[(0, end - 8, 16, TABLE, 0)],
        &[(0, table, u32::MAX - 15, TABLE, 0)],
        &[(0, table, 16, TABLE, 0)],
        &[(0, table + 16, 65_535 * 16, TABLE, 0)],
    ];
    for (number, chain) in chains.iter().enumerate() {
        let mut world = World::new(ALL, SMALL);
        let memory = &world.guest.memory;
        describe_at(memory, table, (table, 16), (TABLE, 0));
        for n in 0..65_535 {
            // Each descriptor has no bytes and another one behind it.
            describe_at(memory, table + 16 + n * 16, (at, 0), (NEXT, n as u16 + 1));
        }
        send_chain(&mut world, chain);
        assert!(world.received().is_empty(), "chain {number}");
        let drops = world.port.drops().expect("it counts");
        let all = drops.of(DropReason::DeviceBadHeader) + drops.of(DropReason::DeviceFrameTooBig);
        assert_eq!(all, 1, "chain {number}");
        assert!(world.port.link_up(), "chain {number}");
        assert_eq!(world.guest.rings[TX].used_index(&world.guest.memory), 1, "it is given back");
        send_chain(&mut world, &[(3, at, 100, 0, 0)]);
        assert_eq!(world.received().len(), 1, "chain {number}");
    }
}

#[test]
fn a_frame_may_be_in_as_many_pieces_as_it_has_bytes() {
    let mut world = World::new(ALL, SMALL);
    let (at, table) = (MEMORY + (20 << 20), MEMORY + (21 << 20));
    let memory = &world.guest.memory;
    let bytes: Vec<u8> = (0..112).map(|n| if n < 12 { 0 } else { n }).collect();
    memory.write_slice(&bytes, GuestAddress(at)).expect("room");
    for n in 0..112_u64 {
        let more = if n == 111 { 0 } else { NEXT };
        describe_at(memory, table + 16 * n, (at + n, 1), (more, n as u16 + 1));
    }
    send_chain(&mut world, &[(0, table, 112 * 16, TABLE, 0)]);
    assert_eq!(world.received(), [bytes[12..].to_vec()]);
}

#[test]
fn headers_that_lie_are_dropped() {
    let mut world = World::new(ALL, SMALL);
    // Flags, kind, header length, segment size, where the sum begins, and the offset of its field.
    for header in [
        [1, 0, 0, 0, 0, 0, 255, 255, 255, 255],
        [1, 0, 0, 0, 0, 0, 90, 0, 10, 0],
        [0, 1, 54, 0, 0, 1, 34, 0, 16, 0],
        [1, 1, 54, 0, 0, 0, 34, 0, 16, 0],
        [1, 3, 54, 0, 0, 1, 34, 0, 16, 0],
        [1, 255, 54, 0, 0, 1, 34, 0, 16, 0],
    ] {
        assert!(world.guest.send(header, &[1; 100]));
        assert!(world.received().is_empty(), "{header:?}");
    }
    assert_eq!(world.dropped(DropReason::DeviceBadHeader), 6);
    assert!(world.guest.send([0; 10], &[1; 2_000]), "longer than the MTU, and no super-segment");
    assert!(world.received().is_empty());
    assert_eq!(world.dropped(DropReason::DeviceFrameTooBig), 1);
}

#[test]
fn a_ring_with_an_impossible_index_stops_until_it_is_set_up_again() {
    for jump in [SIZE + 1, 0x8000, u16::MAX] {
        let mut world = World::new(ALL, SMALL);
        let guest = &mut world.guest;
        guest.rings[TX].set_index(&guest.memory, jump);
        assert!(world.port.rx_ready());
        assert!(world.received().is_empty());
        assert!(!world.port.link_up() && !world.port.rx_ready());
        let why = world.port.failure().expect("a reason").to_string();
        assert!(why.contains("ring"), "{why}");
        assert_eq!(world.sent(&[&[1; 60]]), 1, "nobody can have it");
        assert_eq!(world.dropped(DropReason::DeviceLinkDown), 1);
        recovers(world);
    }
    let mut world = World::new(ALL, SMALL);
    let guest = &mut world.guest;
    guest.rings[TX].offer(&guest.memory, SIZE);
    assert!(world.received().is_empty() && !world.port.link_up());
    recovers(world);
}

#[test]
fn buffers_that_cannot_be_filled_stop_the_ring_or_lose_the_frame() {
    let end = MEMORY + BYTES;
    let at = MEMORY + (20 << 20);
    // Each one is the first buffer; is the ring at fault, or only too small?
    for (features, first, stops) in [
        (ALL, (end, 1_500, WRITE), true),
        (ALL, (u64::MAX - 4, 1_500, WRITE), true),
        (ALL, (at, 5, WRITE), true),
        (ALL, (at, 1_500, 0), true),
        (VERSION_1, (at, 50, WRITE), false),
        (ALL & !MRG_RXBUF, (end - 30, 1_500, WRITE), true),
    ] {
        let mut world = World::new(features, SMALL);
        let (address, len, flags) = first;
        let guest = &mut world.guest;
        let head = SIZE - 1 - (SIZE - 1);
        guest.rings[RX].describe(&guest.memory, head, (address, len), (flags, 0));
        assert_eq!(world.sent(&[&[1; 60]]), 1, "{first:?}");
        assert_eq!(!world.port.link_up(), stops, "{first:?}");
        let drops = world.port.drops().expect("it counts");
        assert_eq!(drops.nonzero().map(|(_, count)| count).sum::<u64>(), 1, "{first:?}");
        recovers(world);
    }
}

#[test]
fn whatever_is_in_the_rings_nothing_panics_and_nothing_is_endless() {
    // One of the guest's memory is enough: what it did to the rings is undone by setting them up.
    let world = RefCell::new(Some(World::new(ALL, BIG)));
    let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    let words = vec((any::<u16>(), any::<u32>(), 0..6_u8, 0..6_u8, any::<u16>()), 1..64);
    let rings = (words.clone(), words, any::<u16>(), any::<u16>());
    TestRunner::new(config)
        .run(&rings, |(tx, rx, sent, made)| {
            let mut now = world.take().expect("it was put back");
            for (number, words) in [(TX, tx), (RX, rx)] {
                let guest = &now.guest;
                let ring = &guest.rings[number];
                for (slot, &(id, len, place, flags, next)) in words.iter().enumerate() {
                    let at = match place {
                        0 => MEMORY + BYTES - u64::from(id),
                        1 => u64::from(len),
                        2 => u64::MAX - u64::from(id),
                        _ => ring.buffer(id % SIZE),
                    };
                    let len = if flags % 2 == 0 { len % 70_000 } else { len };
                    let flags = u16::from(flags) | if number == RX { WRITE } else { 0 };
                    ring.describe(&guest.memory, id % SIZE, (at, len), (flags, next % (SIZE + 3)));
                    let entry = ring.available + 4 + 2 * (slot as u64 % u64::from(SIZE));
                    let head = if next % 7 == 0 { id } else { id % SIZE };
                    guest.memory.write_obj(head, GuestAddress(entry)).expect("room");
                }
            }
            let (sent, made) = (sent % (SIZE + 2), made % (SIZE + 2));
            now.guest.rings[TX].set_index(&now.guest.memory, sent);
            now.guest.rings[RX].set_index(&now.guest.memory, made);
            let mut burst = Burst::new();
            for _ in 0..8 {
                now.port.rx_ready();
                now.port.rx_burst(&mut now.pool, &mut burst);
                burst.drain(..).for_each(|frame| now.pool.free(frame));
                now.sent(&[&[1; 60], &[2; 1_500], &[3; 1_514]]);
                now.port.tx_ready();
            }
            prop_assert!(now.pool.in_use_bytes() < 1 << 20, "frames were kept");
            let World { mut port, mut pool, mut guest, path } = now;
            guest = beside(&mut port, &mut pool, move || {
                guest.restart();
                guest
            });
            world.replace(Some(World { port, pool, guest, path }));
            Ok(())
        })
        .expect("no case fails");
    recovers(world.take().expect("it was put back"));
}
