//! The same random traffic through a router of one stack and through routers of two and three
//! shards: the same bytes leave by the same ports, and the frames of each flow leave in their
//! order.

use std::collections::BTreeMap;

use wire::{icmp, protocol};

use super::*;
use crate::Stack;

/// One stack that is no shard.
struct Single {
    stack: Stack,
    wires: [mem::Mem; 2],
}

impl Single {
    fn new() -> Single {
        let config = StackConfig { solicited_node_reports: false, ..StackConfig::new([5, 6]) };
        let mut stack = Stack::new(config);
        let depth = mem::Config { depth: 4096, depth_bytes: 8 << 20, ..mem::Config::default() };
        let wires = [0, 1].map(|n| {
            let (near, far) = mem::pair(&depth);
            let addresses = NETWORKS[n].iter().map(|a| a.parse().expect("a network")).collect();
            stack.add_port(
                Box::new(near),
                PortConfig { mac: MACS[n], addresses, ..PortConfig::default() },
            );
            far
        });
        stack.set_forwarding(true);
        for (port, n) in (0..2).flat_map(|port| (9..=40).map(move |n| (port, n))) {
            for v6 in [false, true] {
                stack.add_neighbour(PortId(port as u16), host(port, n, v6), HOSTS[port]);
            }
        }
        Single { stack, wires }
    }
}

/// The next frame of random traffic to a port; it contains `number`, so that its order is visible.
fn random_frame(random: &mut Random, port: usize, number: u32) -> Vec<u8> {
    let v6 = random.below(3) == 0;
    let ends = [port, 1 - port].map(|p| host(p, 9 + random.below(32) as u8, v6));
    let ports = [1_000 + random.below(4) as u16, 2_000 + random.below(4) as u16];
    let (from, to) = (SocketAddr::new(ends[0], ports[0]), SocketAddr::new(ends[1], ports[1]));
    let data = [&number.to_be_bytes()[..], &[7; 60]].concat();
    let plain = datagram(from, to, &data);
    let frame =
        |protocol, ttl, payload: &[u8]| frame(port, from.ip(), to.ip(), protocol, ttl, payload);
    match random.below(12) {
        0 if !v6 => {
            let mut part = frame(protocol::UDP, 64, &plain);
            let offset = 8 * random.below(3) as u16;
            fragment(&mut part, random.below(4) as u16, offset, random.below(2) == 0);
            part
        }
        // The error "port unreachable" about a flow that the host of the other port began.
        1 if !v6 => {
            let back = super::frame(port, to.ip(), from.ip(), protocol::UDP, 60, &plain);
            let mut message = [&[3, 3, 0, 0, 0, 0, 0, 0], &back[14..]].concat();
            let sum = Ladder::Word64.sum(&message);
            message[2..4].copy_from_slice(&sum.field());
            assert!(icmp::Header::parse(&message).is_ok());
            frame(protocol::ICMP, 64, &message)
        }
        // A packet on its last hop: the router reports that.
        2 => frame(protocol::UDP, 1, &plain),
        // A packet to the router: to the address of this port or of the other.
        5 if !v6 => {
            let mut message = [&[8, 0, 0, 0], &data[..]].concat();
            let sum = Ladder::Word64.sum(&message);
            message[2..4].copy_from_slice(&sum.field());
            let to = host(random.below(2), 1, false);
            super::frame(port, from.ip(), to, protocol::ICMP, 64, &message)
        }
        3 => frame(132, 64, &plain),
        4 => frame(protocol::TCP, 64, &plain),
        _ => frame(protocol::UDP, 64, &plain),
    }
}

fn sorted(mut frames: Sent) -> Sent {
    frames.sort();
    frames
}

/// The frames of each flow in their order. The key is the two ends, the protocol, and whether the
/// frame is a fragment.
fn flows(frames: &Sent) -> BTreeMap<Vec<u8>, Sent> {
    let mut flows: BTreeMap<Vec<u8>, Sent> = BTreeMap::new();
    for frame in frames {
        let key = match frame[14] >> 4 {
            4 => [&frame[20..22], &frame[23..24], &frame[26..38]].concat(),
            _ => [&frame[20..21], &frame[22..58]].concat(),
        };
        flows.entry(key).or_default().push(frame.clone());
    }
    flows
}

#[test]
fn shards_forward_what_one_stack_forwards() {
    for (seed, count) in (1..=6).flat_map(|seed| [(seed, 2), (seed, 3)]) {
        let mut random = Random(seed * 0x9e37_79b9);
        let (mut single, mut world) = (Single::new(), World::router(count));
        let mut forwarded = 0;
        for step in 0..30 {
            for n in 0..1 + random.below(100) {
                let port = random.below(2);
                let frame = random_frame(&mut random, port, step * 100 + n as u32);
                // All frames arrive by the first queue, or each flow by one queue, whichever shard
                // it belongs to.
                let queue = if seed % 2 == 0 { 0 } else { usize::from(frame[14 + 19]) % count };
                world.offer(port, queue, &frame);
                let mut burst = Burst::new();
                burst.push(world.pool.copy_of(&frame).expect("room"));
                single.wires[port].tx_burst(&mut world.pool, &mut burst);
            }
            while single.stack.poll(NOW) > 0 {}
            world.poll();
            let sent = world.sent();
            for (port, queues) in sent.iter().enumerate() {
                let expected = taken(&mut single.wires[port], &mut world.pool);
                forwarded += expected.len();
                let mut expected_flows = flows(&expected);
                for flow in queues.iter().flat_map(flows) {
                    assert_eq!(expected_flows.remove(&flow.0), Some(flow.1), "seed {seed}");
                }
                assert_eq!(sorted(queues.concat()), sorted(expected), "seed {seed}, {count}");
            }
        }
        assert!(forwarded > 500, "{forwarded}");
        for shard in &mut world.shards {
            let forwarded = shard.enter().counters().of(base::Counter::Forwarded);
            let has_frames = seed % 2 != 0 || shard.index() == 0;
            assert_eq!(forwarded > 100, has_frames, "{forwarded} by shard {}", shard.index());
        }
        drop(single);
        assert_eq!(world.outstanding(), 0);
    }
}
