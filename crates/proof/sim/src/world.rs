//! A world: hosts, links and applications in virtual time, from one seed.
//!
//! Called by: `scenario`, `goodput`, tests. `topology` builds a world, `events.rs` runs it. Add
//! hosts, then links, hubs or routers between them, then flows. Then call [`World::run_until`] and
//! [`World::run_to_end`].

mod topology;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::VecDeque;

use base::{Cidr, Duration, Instant, IpVersion, LinkKind, MacAddr, Mtu};
use device::fault::Rng;
use link::{Direction, Loss, Settings};
use mbuf::Pool;
use stack::Stack;

use crate::adversary::AttachedAdversary;
use crate::app::Endpoint;
use crate::background::BackgroundFlow;
use crate::event_queue::EventQueue;
use crate::flow::Flow;
use crate::gateway::Machine;
use crate::host::{Host, PortSettings};
use crate::oracle::{Liveness, Oracles};
use crate::pattern::Pattern;
use crate::router::{Router, RouterCounts};
use crate::seen::Seen;
use crate::trace::Trace;

/// Bytes of the wire's own buffers, which hold copies, and the segments of super-segments.
const WIRE_BYTES: usize = 1 << 30;

/// Where a direction of a link leads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Host {
        host: usize,
        port: usize,
    },
    Hub(usize),
    Adversary(usize),
    /// A router, and the number of the network from which it receives the packets.
    Router(usize, u8),
}

/// A function that is called with each TCP segment that a host sends into a direction, before the
/// link gets the segment. It returns `false` to drop the segment.
pub type Hook = Box<dyn FnMut(Instant, &Seen) -> bool>;

/// A direction of a link, and where it leads.
pub(crate) struct Lane {
    pub(crate) model: Direction,
    pub(crate) to: Target,
    pub(crate) kind: LinkKind,
    pub(crate) hook: Option<Hook>,
    /// Frames that the hook dropped.
    pub(crate) dropped_by_hook: u64,
}

/// A hub's port: the link address at it, and the directions from it and to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HubPort {
    pub(crate) mac: MacAddr,
    pub(crate) to: usize,
    pub(crate) from: usize,
}

/// A host behind a router.
#[derive(Clone, Debug)]
pub struct RouterLeg {
    /// The host.
    pub host: usize,
    /// The number of the host's network; no other host is on it.
    pub network: u8,
    /// The host's port.
    pub port: PortSettings,
    /// The link to the router.
    pub there: Settings,
    /// The link from the router.
    pub back: Settings,
    /// The MTU of the link from the router, which sends no longer packet.
    pub mtu: Mtu,
}

/// Something that happens to a host or to the network.
#[derive(Clone, Debug)]
pub enum ScheduledEvent {
    /// A host does nothing for this long.
    Pause(usize, Duration),
    /// A host's clock jumps by this many nanoseconds.
    ClockJump(usize, i64),
    /// All free buffers of a host are taken.
    Exhaust(usize),
    /// A host gets the buffers back that [`ScheduledEvent::Exhaust`] took.
    Release(usize),
    /// The links of a host's ports lose their carrier, for good.
    Unplug(usize),
    /// Every link loses its impairments from now on, except this loss.
    Recover(Loss),
}

/// A world.
pub struct World {
    pub(crate) now: Instant,
    pub(crate) event_queue: EventQueue,
    pub(crate) hosts: Vec<Host>,
    /// Each host's source in the event queue.
    pub(crate) host_sources: Vec<usize>,
    pub(crate) host_ends: Vec<Vec<usize>>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) lane_sources: Vec<usize>,
    pub(crate) hubs: Vec<Vec<HubPort>>,
    pub(crate) ends: Vec<Endpoint>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) adversaries: Vec<AttachedAdversary>,
    pub(crate) routers: Vec<Router>,
    pub(crate) background_flows: Vec<BackgroundFlow>,
    /// At most one.
    pub(crate) gateway: Option<Machine>,
    /// Ends whose connects are to be refused.
    pub(crate) refused: Vec<usize>,
    pub(crate) pool: Pool,
    pub(crate) pattern: Pattern,
    pub(crate) scheduled_events: VecDeque<(Instant, ScheduledEvent)>,
    pub(crate) scheduled_source: usize,
    pub(crate) check_source: usize,
    pub(crate) oracles: Option<Oracles>,
    pub(crate) liveness: Liveness,
    pub(crate) trace: Option<Trace>,
    pub(crate) clock_jumped: Vec<bool>,
    /// A hash over every frame that was sent. Two runs are compared by it.
    pub(crate) digest: u64,
    /// Events handled so far.
    pub(crate) events: u64,
    rng: Rng,
}

impl World {
    /// An empty world. With `oracles` the laws are checked, which takes time.
    pub fn new(seed: u64, oracles: bool, trace: Option<Trace>) -> World {
        let mut event_queue = EventQueue::default();
        let (scheduled_source, check_source) = (event_queue.add(), event_queue.add());
        World {
            now: Instant::ZERO,
            event_queue,
            hosts: Vec::new(),
            host_sources: Vec::new(),
            host_ends: Vec::new(),
            lanes: Vec::new(),
            lane_sources: Vec::new(),
            hubs: Vec::new(),
            ends: Vec::new(),
            flows: Vec::new(),
            adversaries: Vec::new(),
            routers: Vec::new(),
            background_flows: Vec::new(),
            gateway: None,
            refused: Vec::new(),
            pool: Pool::new(WIRE_BYTES),
            pattern: Pattern::new(seed),
            scheduled_events: VecDeque::new(),
            scheduled_source,
            check_source,
            oracles: oracles.then(Oracles::default),
            liveness: Liveness::new(Instant::NEVER, Duration::ZERO),
            trace,
            clock_jumped: Vec::new(),
            digest: 0,
            events: 0,
            rng: Rng::new(seed ^ 0x11ac_7105),
        }
    }

    /// Messages that a background flow's stack took, and those that arrived or were answered.
    pub fn background_counts(&self, background_flow: usize) -> (u64, u64) {
        (
            self.background_flows[background_flow].sent,
            self.background_flows[background_flow].arrived,
        )
    }

    /// Schedule an event; events are kept in order of time.
    pub fn schedule(&mut self, at: Instant, what: ScheduledEvent) {
        let place = self.scheduled_events.partition_point(|(other, _)| *other <= at);
        self.scheduled_events.insert(place, (at, what));
        let first = self.scheduled_events.front().map_or(Instant::NEVER, |(at, _)| *at);
        self.event_queue.set(self.scheduled_source, first);
    }

    /// From `from` on, no connection may stall for longer than `bound`.
    pub fn expect_progress(&mut self, from: Instant, bound: Duration) {
        self.liveness = Liveness::new(from, bound);
        self.event_queue.set(self.check_source, from);
    }

    /// The world's time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A host's stack.
    pub fn stack(&self, host: usize) -> &Stack {
        &self.hosts[host].stack
    }

    /// An end of a flow's connection: the one that connects, or the one that accepts.
    pub fn end(&self, flow: usize, accepts: bool) -> &Endpoint {
        let flow = &self.flows[flow];
        &self.ends[if accepts { flow.server } else { flow.client }]
    }

    /// How often a host's devices interrupted it.
    pub fn interrupts(&self, host: usize) -> u64 {
        self.hosts[host].interrupts
    }

    /// CPU time that a host has spent on receiving.
    pub fn busy(&self, host: usize) -> Duration {
        self.hosts[host].busy
    }

    /// Bytes that the accepting end of a flow has read.
    pub fn received(&self, flow: usize) -> u64 {
        self.end(flow, true).read
    }

    /// `tcp::Info` of the connecting end of a flow, while it is open.
    pub fn info(&self, flow: usize) -> Option<tcp::Info> {
        let end = self.end(flow, false);
        self.hosts[end.host].stack.tcp_info(end.handle?)
    }

    /// Counters of a direction of a link, by its number. Directions are numbered in the order in
    /// which links are added.
    pub fn link_counts(&self, direction: usize) -> &link::Counts {
        self.lanes[direction].model.counts()
    }

    /// Counts of a router, by its number.
    pub fn router_counts(&self, router: usize) -> RouterCounts {
        self.routers[router].counts
    }

    /// Set the hook of a direction of a link, by its number; it replaces an earlier hook.
    pub fn set_hook(&mut self, direction: usize, hook: Hook) {
        self.lanes[direction].hook = Some(hook);
    }

    /// Segments that a direction's hook has dropped.
    pub fn dropped_by_hook(&self, direction: usize) -> u64 {
        self.lanes[direction].dropped_by_hook
    }

    /// A hash over every frame that was sent and its time: the same for the same seed and the same
    /// code.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }
}

/// A host's address on a network.
pub fn address(network: u8, host: usize, version: IpVersion) -> Cidr {
    let number = host as u8 + 1;
    match version {
        IpVersion::V4 => {
            Cidr { addr: IpAddr::V4(Ipv4Addr::new(10, 0, network, number)), prefix_len: 24 }
        }
        IpVersion::V6 => {
            let ip =
                Ipv6Addr::new(0x2001, 0xdb8, 0, u16::from(network), 0, 0, 0, u16::from(number));
            Cidr { addr: IpAddr::V6(ip), prefix_len: 64 }
        }
    }
}

/// A host's link address on a network.
pub fn mac(network: u8, host: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, network, host as u8 + 1])
}
