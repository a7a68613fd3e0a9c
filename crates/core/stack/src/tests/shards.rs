//! Shards: two or three of them do what one stack does, whichever queue a frame arrives by.

mod equal;
mod host;
mod nat;
mod policy;
mod threads;
mod transit;

use core::net::{IpAddr, SocketAddr};

use base::{Instant, LinkKind, MacAddr};
use device::{Burst, Device, mem};
use inet::HeaderTemplate;
use inet::ip_output::Fields;
use mbuf::Pool;
use wire::checksum::Ladder;

use crate::shard::Shard;
use crate::{PortConfig, PortId, StackConfig};

const NOW: Instant = Instant::from_nanos(5_000_000_000);
/// The MAC addresses of the router's ports, and of a host at each.
const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
const HOSTS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 1, 1]), MacAddr([2, 0, 0, 0, 1, 2])];
const NETWORKS: [[&str; 2]; 2] =
    [["192.0.2.1/24", "2001:db8:1::1/64"], ["198.51.100.1/24", "2001:db8:2::1/64"]];

/// The frames that a port sent, in order.
type Sent = Vec<Vec<u8>>;

/// A host or router of several shards, with two ports; each shard has a wire at each port.
struct World {
    shards: Vec<Shard>,
    /// The far ends of the wires, by port and shard.
    wires: [Vec<mem::Mem>; 2],
    pool: Pool,
}

fn host(port: usize, n: u8, v6: bool) -> IpAddr {
    match (port, v6) {
        (0, false) => [192, 0, 2, n].into(),
        (_, false) => [198, 51, 100, n].into(),
        (port, true) => [0x2001, 0xdb8, port as u16 + 1, 0, 0, 0, 0, u16::from(n)].into(),
    }
}

impl World {
    fn new(count: usize) -> World {
        let config = StackConfig { solicited_node_reports: false, ..StackConfig::new([5, 6]) };
        let mut shards = Shard::group(&config, count);
        let depth = mem::Config { depth: 4096, depth_bytes: 8 << 20, ..mem::Config::default() };
        let wires = [0, 1].map(|n| {
            let (near, far): (Vec<_>, Vec<_>) = (0..count).map(|_| mem::pair(&depth)).unzip();
            let devices = near.into_iter().map(|d| Box::new(d) as Box<dyn Device>).collect();
            let addresses = NETWORKS[n].iter().map(|a| a.parse().expect("a network")).collect();
            let id = Shard::add_port(
                &mut shards,
                devices,
                &PortConfig { mac: MACS[n], addresses, ..PortConfig::default() },
            );
            assert_eq!(id, PortId(n as u16));
            far
        });
        World { shards, wires, pool: Pool::new(64 << 20) }
    }

    /// A router that knows the link addresses of hosts 9 to 40 in both networks.
    fn router(count: usize) -> World {
        let mut world = World::new(count);
        let mut first = world.shards[0].enter();
        first.set_forwarding(true);
        for (port, n) in (0..2).flat_map(|port| (9..=40).map(move |n| (port, n))) {
            for v6 in [false, true] {
                assert!(first.add_neighbour(PortId(port as u16), host(port, n, v6), HOSTS[port]));
            }
        }
        drop(first);
        world
    }

    /// Puts a frame on the wire of a port that leads to the queue of a shard.
    fn offer(&mut self, port: usize, queue: usize, frame: &[u8]) {
        let mut burst = Burst::new();
        burst.push(self.pool.copy_of(frame).expect("room"));
        let wire = &mut self.wires[port][queue];
        assert_eq!(wire.tx_burst(&mut self.pool, &mut burst), 1, "the wire did not take the frame");
    }

    fn poll(&mut self) {
        for _ in 0..3 {
            for shard in &mut self.shards {
                while shard.poll(NOW) > 0 {}
            }
        }
    }

    /// The frames that left by each port and queue since the last call.
    fn sent(&mut self) -> [Vec<Sent>; 2] {
        let pool = &mut self.pool;
        self.wires.each_mut().map(|wires| wires.iter_mut().map(|w| taken(w, pool)).collect())
    }

    /// The number of buffers of the shards and of the far ends that are in use.
    fn outstanding(&mut self) -> usize {
        self.poll();
        self.pool.flush();
        let all: usize = self.shards.iter_mut().map(|s| s.enter().pool().outstanding()).sum();
        all + self.pool.outstanding()
    }
}

fn taken(wire: &mut mem::Mem, pool: &mut Pool) -> Sent {
    let (mut frames, mut burst) = (Vec::new(), Burst::new());
    while wire.rx_burst(pool, &mut burst) > 0 {
        for m in burst.drain(..) {
            frames.push(m.as_slice().to_vec());
            pool.free(m);
        }
    }
    frames
}

/// A frame from a host at a port to the router.
fn frame(port: usize, src: IpAddr, dst: IpAddr, protocol: u8, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let fields = Fields { src, dst, protocol, tos: 0, ttl };
    let template = HeaderTemplate::new(LinkKind::Ethernet, HOSTS[port], MACS[port], &fields);
    let mut pool = Pool::new(1 << 20);
    let mut m = pool.copy_of(payload).expect("room");
    template.prepend(&mut m).expect("fits");
    m.as_slice().to_vec()
}

/// A UDP datagram without a checksum, which only IPv4 allows.
fn datagram(from: SocketAddr, to: SocketAddr, data: &[u8]) -> Vec<u8> {
    let len = (data.len() + 8) as u16;
    let words = [from.port(), to.port(), len, 0].map(u16::to_be_bytes).concat();
    [&words, data].concat()
}

/// Makes an IPv4 frame a fragment.
fn fragment(frame: &mut [u8], id: u16, offset: u16, more: bool) {
    frame[18..20].copy_from_slice(&id.to_be_bytes());
    let bits = (offset / 8) | if more { 0x2000 } else { 0 };
    frame[20..22].copy_from_slice(&bits.to_be_bytes());
    frame[24..26].fill(0);
    let sum = Ladder::Word64.sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.field());
}

/// Pseudo-random numbers from a seed (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}
