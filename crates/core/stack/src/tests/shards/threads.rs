//! Two shards on two threads, while routes change: every frame arrives once, in the order of its
//! flow, and all buffers return to their pools.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;

use wire::protocol;

use super::*;
use crate::Route;

const FRAMES: u32 = 20_000;

#[test]
fn shards_on_two_threads_lose_nothing_and_keep_the_order() {
    let World { shards, wires, mut pool } = World::router(2);
    let [mut inside, mut outside] = wires;
    let done = AtomicBool::new(false);
    let finished = std::thread::scope(|scope| {
        let drive = |mut shard: Shard| {
            let done = &done;
            scope.spawn(move || {
                let via = Some(host(1, 9, false));
                let dest = "203.0.113.0/24".parse().expect("a network");
                let mut turn = 0_u32;
                while !done.load(Ordering::Acquire) || shard.poll(NOW) > 0 {
                    shard.poll(NOW);
                    turn += 1;
                    if shard.index() == 0 && turn.is_multiple_of(8) {
                        let mut stack = shard.enter();
                        stack.add_route(Route::new(dest, via, 1));
                        stack.remove_route(dest, PortId(1));
                    }
                    std::thread::yield_now();
                }
                shard
            })
        };
        let threads: Vec<_> = shards.into_iter().map(drive).collect();
        let mut seen: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let (mut random, mut next, mut arrived) = (Random(77), 0, 0);
        while arrived < FRAMES {
            // No more frames are on their way than the rings between the shards hold.
            if next < FRAMES && next - arrived < 400 {
                offer(&mut random, &mut inside, &mut pool, next);
                next += 1;
            }
            for frame in outside.iter_mut().flat_map(|wire| taken(wire, &mut pool)) {
                let number = u32::from_be_bytes(frame[42..46].try_into().expect("four bytes"));
                let before = seen.insert(frame[26..38].to_vec(), number);
                assert!(
                    before.is_none_or(|before| before < number),
                    "a frame of a flow arrived out of order"
                );
                arrived += 1;
            }
        }
        done.store(true, Ordering::Release);
        threads.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    let mut world = World { shards: finished, wires: [inside, outside], pool };
    for shard in &mut world.shards {
        assert!(shard.enter().counters().of(base::Counter::Forwarded) > 1_000);
        assert_eq!(shard.enter().drops().total(), 0);
    }
    assert_eq!(world.outstanding(), 0);
}

/// Each flow arrives by one queue, which may be its shard's or the other one.
fn offer(random: &mut Random, wires: &mut [mem::Mem], pool: &mut Pool, number: u32) {
    let n = 9 + random.below(30) as u8;
    let from = SocketAddr::new(host(0, n, false), 1_000);
    let to = SocketAddr::new(host(1, 9, false), 2_000);
    let whole = datagram(from, to, &number.to_be_bytes());
    let frame = frame(0, from.ip(), to.ip(), protocol::UDP, 64, &whole);
    let mut burst = Burst::new();
    burst.push(pool.copy_of(&frame).expect("room"));
    assert_eq!(wires[usize::from(n) % 2].tx_burst(pool, &mut burst), 1);
}
