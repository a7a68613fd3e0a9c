//! A router in memory, with a generator in front and a sink behind it, all on one thread: what it
//! costs to forward a packet.
//!
//! Called by: the benchmarks. Time is the caller's to take: [`Rig::offer`], [`Rig::turn`] and
//! [`Rig::drain`] do the work of generator, router and sink, and [`Alone`] that of generator and
//! sink without a router between them, to be subtracted.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{Cidr, DropReason, Instant, Limit, LinkKind, MacAddr};
use device::mem::{self, Mem};
use device::{Burst, Device, vlan};
use inet::HeaderTemplate;
use inet::ip_output::Fields;
use mbuf::Pool;
use stack::{PortConfig, PortId, Route, Stack, StackConfig};

/// Frames that a wire holds.
pub const DEPTH: usize = 1024;

/// The VLANs of both sides.
const VLANS: [u16; 2] = [5, 6];

/// What is forwarded, and over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// IPv6, not IPv4.
    pub v6: bool,
    /// Both links are trunks, and every frame has a tag.
    pub tagged: bool,
    /// Bytes of a frame without its tag and its check sequence.
    pub frame_bytes: usize,
    /// Prefixes behind the next hop, each to be found by its own route.
    pub routes: u32,
}

impl Default for Shape {
    /// 64 bytes of IPv4 without tags, one route.
    fn default() -> Shape {
        Shape { v6: false, tagged: false, frame_bytes: 64, routes: 1 }
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

/// The `n`th prefix behind the sink, of 24 or 48 bits; they are far apart and not in order.
fn prefix(v6: bool, n: u32) -> Cidr {
    // An odd factor is a permutation of the numbers of 20 bits.
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

/// A host in it.
fn in_prefix(prefix: Cidr) -> IpAddr {
    match prefix.addr {
        IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits() | 9).into(),
        IpAddr::V6(a) => Ipv6Addr::from_bits(a.to_bits() | 9).into(),
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
    fn new(shape: Shape) -> Option<Generator> {
        let mut pool = Pool::new(64 << 20);
        let frame = |pool: &mut Pool, n: u32| {
            let dst = in_prefix(prefix(shape.v6, n));
            let header_len = if shape.v6 { 40 } else { 20 };
            let len = shape.frame_bytes.checked_sub(14 + header_len)?;
            let fields = Fields { src: addr(shape.v6, 2, 9), dst, protocol: 17, tos: 0, ttl: 64 };
            let template = HeaderTemplate::new(LinkKind::Ethernet, MACS[0], MACS[1], &fields);
            let mut m = pool.copy_of(&vec![0; len])?;
            template.prepend(&mut m).ok()?;
            let mut bytes = m.as_slice().to_vec();
            pool.free(m);
            if shape.tagged {
                let [id, low] = VLANS[0].to_be_bytes();
                bytes.splice(12..12, [0x81, 0, id, low]);
            }
            Some(bytes)
        };
        let frames = (0..shape.routes).map(|n| frame(&mut pool, n)).collect::<Option<_>>()?;
        Some(Generator { pool, frames, next: 0 })
    }

    /// A burst of `count` frames, 64 at most, onto a wire; how many it took.
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

    /// Take all that a wire has, and give it back to the pool that it is from.
    fn drain(&mut self, wire: &mut Mem) -> usize {
        let (mut count, mut burst) = (0, Burst::new());
        while wire.rx_burst(&mut self.pool, &mut burst) > 0 {
            count += burst.len();
            burst.drain(..).for_each(|m| self.pool.free(m));
        }
        count
    }
}

fn wire(shape: Shape) -> (Mem, Mem) {
    let depth_bytes = DEPTH * (shape.frame_bytes + 4);
    mem::pair(&mem::Config { depth: DEPTH, depth_bytes, ..mem::Config::default() })
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
        Some(Alone { generator: Generator::new(shape)?, near, far })
    }

    /// `count` frames onto the wire and from it; how many passed.
    pub fn pass(&mut self, count: usize) -> usize {
        self.generator.offer(&mut self.near, count);
        self.generator.drain(&mut self.far)
    }
}

/// Generator, router and sink.
pub struct Rig {
    generator: Generator,
    /// The router.
    pub stack: Stack,
    near: Mem,
    far: Mem,
}

impl Rig {
    /// A router with a permanent neighbour at each side. `None` if frames or links of this shape
    /// cannot be made.
    pub fn new(shape: Shape) -> Option<Rig> {
        let mut config = StackConfig::new([0x1812, 0x4632]);
        config.solicited_node_reports = false;
        config.budget.set(Limit::MbufBytes, 64 << 20);
        let mut stack = Stack::new(config);
        let ((near, inside), (outside, far)) = (wire(shape), wire(shape));
        for (side, device) in [inside, outside].into_iter().enumerate() {
            let device = port_of(device, shape, VLANS[side])?;
            let addresses = [false, true].map(|v6| network(v6, 2 + side as u8)).to_vec();
            stack.add_port(device, PortConfig { mac: MACS[1 + side], addresses });
        }
        let sink = addr(shape.v6, 3, 9);
        stack.add_neighbour(PortId(0), addr(shape.v6, 2, 9), MACS[0]);
        stack.add_neighbour(PortId(1), sink, MACS[3]);
        for n in 0..shape.routes {
            stack.add_route(Route::new(prefix(shape.v6, n), Some(sink), 1));
        }
        stack.set_forwarding(true);
        Some(Rig { generator: Generator::new(shape)?, stack, near, far })
    }

    /// Up to `count` frames onto the router's wire; how many it took.
    pub fn offer(&mut self, count: usize) -> usize {
        self.generator.offer(&mut self.near, count)
    }

    /// One turn of the router.
    pub fn turn(&mut self, now: Instant) -> usize {
        self.stack.poll(now)
    }

    /// Take what the router sent; how many frames.
    pub fn drain(&mut self) -> usize {
        self.generator.drain(&mut self.far)
    }

    /// Has the router lost anything, and why?
    pub fn lost(&self) -> Option<(DropReason, u64)> {
        self.stack.drops().nonzero().next()
    }
}

fn port_of(device: Mem, shape: Shape, id: u16) -> Option<Box<dyn Device>> {
    if !shape.tagged {
        return Some(Box::new(device));
    }
    let mut ports = vlan::split(Box::new(device), vlan::TAG, &[vlan::Id::Vlan(id)]).ok()?;
    ports.pop().map(|port| Box::new(port) as Box<dyn Device>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_of_every_shape_arrives_with_one_hop_less() {
        for (v6, tagged, routes) in [(false, false, 1), (true, false, 7), (false, true, 7)] {
            let shape = Shape { v6, tagged, routes, ..Shape::default() };
            let (mut rig, mut alone) =
                (Rig::new(shape).expect("made"), Alone::new(shape).expect("made"));
            let now = Instant::from_nanos(1);
            for _ in 0..3 {
                assert_eq!((rig.offer(200), alone.pass(200)), (200, 200));
                rig.turn(now);
                let mut burst = Burst::new();
                rig.far.rx_burst(&mut rig.generator.pool, &mut burst);
                let frame = burst[0].as_slice();
                let tag = if tagged { 4 } else { 0 };
                assert_eq!(frame.len(), 64 + tag);
                assert_eq!(frame[..6], MACS[3].0);
                assert_eq!(frame[14 + tag + if v6 { 7 } else { 8 }], 63);
                if tagged {
                    assert_eq!(frame[12..16], [0x81, 0, 0, 6]);
                }
                assert_eq!(rig.drain() + burst.len(), 200);
                assert_eq!(rig.lost(), None);
            }
        }
    }
}
