//! A router in memory, with a generator in front and a sink behind it, all on one thread: what it
//! costs to forward a packet. `experiment.rs` is `wirespeed lab forward`; `cost.rs` measures this
//! router; `outside.rs` measures a router between two interfaces of Linux, ours or the kernel.
//!
//! Called by: the lab, the benchmarks. The caller measures the time: [`Rig::offer`], [`Rig::turn`]
//! and [`Rig::drain`] do the work of generator, router and sink. [`Alone`] does the work of
//! generator and sink without a router, whose time is subtracted.

mod cases;
pub mod cost;
pub(crate) mod experiment;
#[cfg(target_os = "linux")]
pub mod outside;
pub mod packets;
#[cfg(test)]
mod tests;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use base::{Cidr, DropReason, Instant, Limit, MacAddr, Mtu};
use device::mem::{self, Mem};
use device::{Burst, Device, vlan};
use filter::Published;
use mbuf::Pool;
pub use packets::Transport;
use packets::frames;
use stack::shard::{Home, Shard};
use stack::{PortConfig, PortId, Route, Stack, StackConfig};
use wire::tcp::Flags;

/// Frames that a wire holds.
pub const DEPTH: usize = 1024;

/// Frames of a round: four bursts, few enough to stay in the cache.
const ROUND: usize = 256;

/// The VLANs of both sides.
const VLANS: [u16; 2] = [5, 6];

/// Frames of 64 bytes.
pub const SMALL: &[usize] = &[64];

/// Frames of the largest size of Ethernet.
pub const FULL: &[usize] = &[1_514];

/// The simple mix of the Internet: of twelve frames seven have 64 bytes, four have packets of 576
/// bytes, and one is full. The average is 360 bytes.
pub const IMIX: &[usize] = &[64, 590, 64, 64, 590, 64, 1_514, 64, 590, 64, 590, 64];

/// The direction in which packets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Direction {
    /// From one host to the prefixes behind the next hop, each of which has a route.
    #[default]
    There,
    /// The answers: from those prefixes to the one host, which is on the link.
    Back,
    /// Both directions at once, with half of the packets each.
    Both,
}

impl Direction {
    /// Is side 0 (the one host) or 1 (the prefixes) a source of packets?
    pub(crate) fn has_source(self, side: usize) -> bool {
        match self {
            Direction::There => side == 0,
            Direction::Back => side == 1,
            Direction::Both => true,
        }
    }
}

/// The packets that are forwarded, and the kind of the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// IPv6, not IPv4.
    pub v6: bool,
    /// Both links are trunks, and every frame has a tag.
    pub tagged: bool,
    /// Bytes of the frames without tag and check sequence. The sizes repeat in this order.
    pub sizes: &'static [usize],
    /// Prefixes behind the next hop, each to be found by its own route.
    pub routes: u32,
    /// Flows, spread over the prefixes; flows to the same prefix go to different hosts.
    pub flows: u32,
    /// Hosts that they come from, 1 to 200.
    pub hosts: u32,
    /// The direction in which the packets go.
    pub direction: Direction,
    /// What the packets carry.
    pub transport: Transport,
    /// The most states that a filter may have, all of which one source may have; `None` leaves the
    /// default limits.
    pub states: Option<usize>,
}

impl Default for Shape {
    /// 64 bytes of IPv4 and UDP without tags, one route and one flow.
    fn default() -> Shape {
        Shape {
            v6: false,
            tagged: false,
            sizes: SMALL,
            routes: 1,
            flows: 1,
            hosts: 1,
            direction: Direction::There,
            transport: Transport::Udp,
            states: None,
        }
    }
}

impl Shape {
    /// Bytes of a frame on average.
    pub fn mean_bytes(&self) -> f64 {
        self.sizes.iter().sum::<usize>() as f64 / self.sizes.len() as f64
    }
}

/// The link addresses of generator, router (both ports) and sink.
const MACS: [MacAddr; 4] = {
    const fn mac(last: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, last])
    }
    [mac(1), mac(2), mac(3), mac(4)]
};

fn addr(v6: bool, net: u8, host: u8) -> IpAddr {
    match v6 {
        true => Ipv6Addr::new(0x2001, 0xdb8, net.into(), 0, 0, 0, 0, host.into()).into(),
        false => Ipv4Addr::new(192, 0, net, host).into(),
    }
}

fn network(v6: bool, net: u8) -> Cidr {
    Cidr { addr: addr(v6, net, 1), prefix_len: if v6 { 64 } else { 24 } }
}

/// The `n`th prefix behind the sink, of 24 or 48 bits. The prefixes are far apart and not in order.
fn prefix(v6: bool, n: u32) -> Cidr {
    // Multiplication by an odd number permutes the numbers of 20 bits.
    let n = n.wrapping_mul(0x9_e377) & 0xf_ffff;
    match v6 {
        true => {
            let (high, low) = ((n >> 16) as u16, n as u16);
            let addr = Ipv6Addr::new(0x2400 + high, low, 0, 0, 0, 0, 0, 0);
            Cidr { addr: addr.into(), prefix_len: 48 }
        }
        false => {
            let addr = Ipv4Addr::from_bits((16 << 24) + (n << 8));
            Cidr { addr: addr.into(), prefix_len: 24 }
        }
    }
}

/// One of 250 hosts in a prefix.
fn in_prefix(prefix: Cidr, host: u32) -> IpAddr {
    let host = 1 + host % 250;
    match prefix.addr {
        IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits() | host).into(),
        IpAddr::V6(a) => Ipv6Addr::from_bits(a.to_bits() | u128::from(host)).into(),
    }
}

/// Makes the frames.
struct Generator {
    pool: Pool,
    /// One frame for each destination.
    frames: Vec<Vec<u8>>,
    next: usize,
}

impl Generator {
    /// The generator of a side; it has no frames if the side is not a source.
    fn new(shape: Shape, side: usize) -> Option<Generator> {
        let is_source = shape.direction.has_source(side);
        let frames = if is_source { frames(shape, side)? } else { Vec::new() };
        Some(Generator { pool: Pool::new(64 << 20), frames, next: 0 })
    }

    /// Put a burst of `count` frames, but at most 64, onto a wire. Returns how many frames the wire
    /// took.
    fn burst(&mut self, wire: &mut Mem, count: usize) -> usize {
        let mut burst = Burst::new();
        while burst.len() < count.min(burst.capacity()) {
            let Some(frame) = self.frames.get(self.next) else { break };
            self.next = if self.next + 1 < self.frames.len() { self.next + 1 } else { 0 };
            let Some(m) = self.pool.copy_of(frame) else { break };
            burst.push(m);
        }
        let taken = wire.tx_burst(&mut self.pool, &mut burst);
        burst.drain(..).for_each(|m| self.pool.free(m));
        taken
    }

    fn offer(&mut self, wire: &mut Mem, count: usize) -> usize {
        let mut offered = 0;
        while offered < count {
            let taken = self.burst(wire, count - offered);
            if taken == 0 {
                break;
            }
            offered += taken;
        }
        offered
    }

    /// Take all frames from a wire, and give them back to their pools. Returns how many there were.
    fn drain(&mut self, wire: &mut Mem) -> usize {
        let (mut count, mut burst) = (0, Burst::new());
        while wire.rx_burst(&mut self.pool, &mut burst) > 0 {
            count += burst.len();
            burst.drain(..).for_each(|m| self.pool.free(m));
        }
        count
    }
}

/// Ethernet's MTU, or that of the largest frame; a trunk has room for the tag of a full frame.
fn mtu(shape: Shape) -> Mtu {
    let largest = shape.sizes.iter().copied().max().unwrap_or(0).saturating_sub(14);
    let tag = if shape.tagged { 4 } else { 0 };
    Mtu::new(largest.max(1_500) + tag).unwrap_or(Mtu::ETHERNET)
}

fn wire(shape: Shape) -> (Mem, Mem) {
    let depth_bytes = DEPTH * (shape.sizes.iter().copied().max().unwrap_or(0) + 4);
    mem::pair(&mem::Config { depth: DEPTH, depth_bytes, mtu: mtu(shape), ..mem::Config::default() })
}

/// Generator and sink at both ends of one wire.
pub struct Alone {
    generator: Generator,
    near: Mem,
    far: Mem,
}

impl Alone {
    /// `None` if frames of this shape cannot be made.
    pub fn new(shape: Shape) -> Option<Alone> {
        let (near, far) = wire(shape);
        let side = usize::from(shape.direction == Direction::Back);
        Some(Alone { generator: Generator::new(shape, side)?, near, far })
    }

    /// Put `count` frames onto the wire and take them from it. Returns how many passed.
    pub fn pass(&mut self, count: usize) -> usize {
        self.generator.offer(&mut self.near, count);
        self.generator.drain(&mut self.far)
    }
}

/// Two sides, each a generator and a sink, and a router between them.
pub struct Rig {
    sides: [Generator; 2],
    wires: [Mem; 2],
    direction: Direction,
    router: Router,
}

impl Rig {
    /// `None` if frames or links of this shape cannot be made.
    pub fn new(shape: Shape) -> Option<Rig> {
        let ((near, inside), (outside, far)) = (wire(shape), wire(shape));
        let router = Router::Stack(alone([Box::new(inside), Box::new(outside)], shape)?);
        let sides = [Generator::new(shape, 0)?, Generator::new(shape, 1)?];
        Some(Rig { sides, wires: [near, far], direction: shape.direction, router })
    }

    /// A router of `count` shards, each with its own queues, generator and sink: the frames of a
    /// side are those of the flows that belong to the shard by these rules, or without any. `None`
    /// if frames or links of this shape cannot be made, or if a shard has no flow.
    pub fn of_shards(
        shape: Shape,
        count: usize,
        rules: Option<Arc<Published>>,
    ) -> Option<Vec<Rig>> {
        let wires = || (0..count).map(|_| wire(shape)).unzip::<_, _, Vec<_>, Vec<_>>();
        let ((near, inside), (outside, far)) = (wires(), wires());
        let mut shards = shards([inside, outside], shape)?;
        shards.first_mut()?.enter().set_filter(rules);
        let rig = |((mut shard, near), far): ((Shard, Mem), Mem)| {
            let mut sides = [Generator::new(shape, 0)?, Generator::new(shape, 1)?];
            drop(shard.enter());
            let home = Home::Shard(shard.index());
            for (side, generator) in sides.iter_mut().enumerate() {
                generator.frames.retain(|f| shard.home(PortId(side as u16), f) == home);
                if generator.frames.is_empty() && shape.direction.has_source(side) {
                    return None;
                }
            }
            let router = Router::Shard(shard);
            Some(Rig { sides, wires: [near, far], direction: shape.direction, router })
        };
        shards.into_iter().zip(near).zip(far).map(rig).collect()
    }

    /// Put up to `count` frames onto the router's wires. Returns how many frames the wires took.
    pub fn offer(&mut self, count: usize) -> usize {
        let [near, far] = &mut self.wires;
        match self.direction {
            Direction::There => self.sides[0].offer(near, count),
            Direction::Back => self.sides[1].offer(far, count),
            Direction::Both => {
                let half = count / 2;
                self.sides[0].offer(near, half) + self.sides[1].offer(far, count - half)
            }
        }
    }

    /// Let the router poll its ports once.
    pub fn turn(&mut self, now: Instant) -> usize {
        match &mut self.router {
            Router::Stack(stack) => stack.poll(now),
            Router::Shard(shard) => shard.poll(now),
        }
    }

    /// Take the frames that the router sent. Returns how many there were.
    pub fn drain(&mut self) -> usize {
        let [near, far] = &mut self.wires;
        match self.direction {
            Direction::There => self.sides[0].drain(far),
            Direction::Back => self.sides[1].drain(near),
            Direction::Both => self.sides[0].drain(far) + self.sides[1].drain(near),
        }
    }

    /// Run `call` with the router's stack.
    pub fn with_stack<T>(&mut self, call: impl FnOnce(&mut Stack) -> T) -> T {
        match &mut self.router {
            Router::Stack(stack) => call(stack),
            Router::Shard(shard) => call(&mut shard.enter()),
        }
    }

    /// Put these frames onto the wire of a side; frames that do not fit into its ring are dropped.
    pub fn send(&mut self, side: usize, frames: &[Vec<u8>]) {
        let (wire, pool) = (&mut self.wires[side & 1], &mut self.sides[side & 1].pool);
        for frames in frames.chunks(device::BURST) {
            let mut burst: Burst = frames.iter().filter_map(|frame| pool.copy_of(frame)).collect();
            wire.tx_burst(pool, &mut burst);
            burst.drain(..).for_each(|m| pool.free(m));
        }
    }

    /// Send frames from a side, and take those that leave by the other side within one turn.
    fn exchange(&mut self, side: usize, frames: &[Vec<u8>], now: Instant) -> Vec<Vec<u8>> {
        self.send(side, frames);
        self.turn(now);
        let (wire, pool) = (&mut self.wires[side & 1 ^ 1], &mut self.sides[side & 1 ^ 1].pool);
        let (mut left, mut burst) = (Vec::new(), Burst::new());
        while wire.rx_burst(pool, &mut burst) > 0 {
            left.extend(burst.iter().map(|m| m.as_slice().to_vec()));
            burst.drain(..).for_each(|m| pool.free(m));
        }
        left
    }

    /// Make the handshakes of all TCP flows through the router, in another order than the
    /// generator's. `None` if a segment did not pass.
    pub fn shake_hands(&mut self, shape: Shape, now: Instant) -> Option<()> {
        let order: Vec<u32> = packets::shuffled(shape.flows).collect();
        for flows in order.chunks(ROUND) {
            let make = |flags| packets::segments(shape, 0, flows, flags);
            let syns = self.exchange(0, &make(Flags::SYN)?, now);
            let answers: Option<Vec<_>> = syns.iter().map(|syn| packets::answer(syn)).collect();
            let back = self.exchange(1, &answers?, now);
            let there = self.exchange(0, &make(Flags::ACK)?, now);
            if [syns, back, there].iter().any(|frames| frames.len() != flows.len()) {
                return None;
            }
        }
        Some(())
    }

    /// The reason and number of packets that the router dropped, if it dropped any.
    pub fn lost(&mut self) -> Option<(DropReason, u64)> {
        match &mut self.router {
            Router::Stack(stack) => stack.drops().nonzero().next(),
            Router::Shard(shard) => shard.enter().drops().nonzero().next(),
        }
    }
}

/// The router: a stack, or a shard of one.
enum Router {
    Stack(Stack),
    Shard(Shard),
}

fn config(shape: Shape) -> StackConfig {
    let mut config = StackConfig::new([0x1812, 0x4632]);
    config.solicited_node_reports = false;
    config.budget.set(Limit::MbufBytes, 64 << 20);
    if let Some(states) = shape.states {
        config.budget.set(Limit::FilterStates, states);
        let of_one = config.budget.of(Limit::FilterStatesPerSource);
        config.budget.set(Limit::FilterStatesPerSource, of_one.max(shape.flows as usize));
    }
    config
}

/// The port of a side.
fn port_config(side: usize) -> PortConfig {
    let addresses = [false, true].map(|v6| network(v6, 2 + side as u8)).to_vec();
    PortConfig { mac: MACS[1 + side], addresses, ..PortConfig::default() }
}

/// A router with these two ports, and with a permanent neighbour at each.
fn alone(ports: [Box<dyn Device>; 2], shape: Shape) -> Option<Stack> {
    let mut stack = Stack::new(config(shape));
    for (side, device) in ports.into_iter().enumerate() {
        stack.add_port(port_of(device, shape, VLANS[side])?, port_config(side));
    }
    furnish(&mut stack, shape);
    Some(stack)
}

/// The same router as shards; each side has a queue for each.
fn shards(queues: [Vec<Mem>; 2], shape: Shape) -> Option<Vec<Shard>> {
    let count = queues[0].len();
    let mut shards = Shard::group(&config(shape), count);
    for (side, queues) in queues.into_iter().enumerate() {
        let port = |device| port_of(Box::new(device), shape, VLANS[side]);
        let devices = queues.into_iter().map(port).collect::<Option<Vec<_>>>()?;
        Shard::add_port(&mut shards, devices, &port_config(side));
    }
    furnish(&mut shards.first_mut()?.enter(), shape);
    Some(shards)
}

/// Give the router its neighbours and routes.
fn furnish(stack: &mut Stack, shape: Shape) {
    let sink = addr(shape.v6, 3, 9);
    stack.add_neighbour(PortId(0), addr(shape.v6, 2, 9), MACS[0]);
    stack.add_neighbour(PortId(1), sink, MACS[3]);
    for n in 0..shape.routes {
        stack.add_route(Route::new(prefix(shape.v6, n), Some(sink), 1));
    }
    stack.set_forwarding(true);
}

fn port_of(device: Box<dyn Device>, shape: Shape, id: u16) -> Option<Box<dyn Device>> {
    if !shape.tagged {
        return Some(device);
    }
    let mut ports = vlan::split(device, vlan::TAG, &[vlan::Id::Vlan(id)]).ok()?;
    ports.pop().map(|port| Box::new(port) as Box<dyn Device>)
}
