//! A world: hosts, links and applications in virtual time, from one seed.
//!
//! Called by: `scenario`, `goodput`, tests. How it runs is in `events.rs`. Add hosts, then links,
//! hubs or routers between them, then flows; then call [`World::run_until`] and
//! [`World::run_to_end`].

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::VecDeque;

use base::{Cidr, Duration, Instant, IpVersion, LinkKind, MacAddr, Mtu};
use device::fault::Rng;
use link::{Direction, Loss, Settings};
use mbuf::Pool;
use stack::{ListenConfig, ListenError, PortConfig, PortId, Route, Stack};

use crate::adversary::AttachedAdversary;
use crate::app::{Endpoint, Opening};
use crate::background::{BackgroundFlow, BackgroundSettings};
use crate::event_queue::EventQueue;
use crate::flow::{Flow, FlowSettings};
use crate::host::{Host, HostSettings, PortSettings};
use crate::oracle::{Liveness, Oracles};
use crate::pattern::Pattern;
use crate::router::{self, Leg, Router, RouterCounts};
use crate::seen::Seen;
use crate::trace::Trace;

/// Buffers of the wire itself: copies, cut segments.
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
    /// A router, by the leg of this network.
    Router(usize, u8),
}

/// Is called with each TCP segment that a host sends into a direction, before the link gets it;
/// returns `false` to drop the segment.
pub type Hook = Box<dyn FnMut(Instant, &Seen) -> bool>;

/// A direction with its end.
pub(crate) struct Lane {
    pub(crate) model: Direction,
    pub(crate) to: Target,
    pub(crate) kind: LinkKind,
    pub(crate) hook: Option<Hook>,
    /// Frames that the hook dropped.
    pub(crate) dropped_by_hook: u64,
}

/// A hub's port: the link address behind it, and the directions to and from it.
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
    /// The number of its network, which no other host is on.
    pub network: u8,
    /// Its port.
    pub port: PortSettings,
    /// To the router.
    pub there: Settings,
    /// From the router.
    pub back: Settings,
    /// The MTU of that direction; the router sends no longer packet.
    pub mtu: Mtu,
}

/// Something that happens to a host or to the network.
#[derive(Clone, Debug)]
pub enum ScheduledEvent {
    /// A host does nothing for this long.
    Pause(usize, Duration),
    /// A host's clock jumps by this many nanoseconds.
    ClockJump(usize, i64),
    /// All the buffers that a host has left are taken.
    Exhaust(usize),
    /// It gets them back.
    Release(usize),
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
    pub(crate) pool: Pool,
    pub(crate) pattern: Pattern,
    pub(crate) scheduled_events: VecDeque<(Instant, ScheduledEvent)>,
    pub(crate) scheduled_source: usize,
    pub(crate) check_source: usize,
    pub(crate) oracles: Option<Oracles>,
    pub(crate) liveness: Liveness,
    pub(crate) trace: Option<Trace>,
    pub(crate) clock_jumped: Vec<bool>,
    /// A hash over every frame that was sent, to compare two runs.
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

    /// One more host; its number.
    pub fn add_host(&mut self, settings: HostSettings) -> usize {
        self.hosts.push(Host::new(settings));
        self.host_sources.push(self.event_queue.add());
        self.host_ends.push(Vec::new());
        self.clock_jumped.push(false);
        self.hosts.len() - 1
    }

    pub(crate) fn add_lane(&mut self, settings: Settings, to: Target) -> usize {
        let kind = settings.link;
        let mut model = Direction::new(settings, self.rng.next_u64());
        if self.trace.is_some() {
            model.watch();
        }
        self.lanes.push(Lane { model, to, kind, hook: None, dropped_by_hook: 0 });
        self.lane_sources.push(self.event_queue.add());
        self.lanes.len() - 1
    }

    /// Join two hosts by a link of their own: network `network`. The first settings are for the
    /// direction from the first host to the second. If `introduced`, both know each other's link
    /// addresses.
    pub fn join(
        &mut self,
        network: u8,
        (a, b): (usize, usize),
        ports: (&PortSettings, &PortSettings),
        links: (Settings, Settings),
        introduced: bool,
    ) {
        let at = |world: &World, host: usize| Target::Host {
            host,
            port: world.hosts[host].attachments.len(),
        };
        let (to_b, to_a) = (at(self, b), at(self, a));
        let there = self.add_lane(links.0, to_b);
        let back = self.add_lane(links.1, to_a);
        self.attach(network, a, ports.0, there, &[b][..usize::from(introduced)]);
        self.attach(network, b, ports.1, back, &[a][..usize::from(introduced)]);
    }

    /// Join several hosts by a hub, each by a link of its own to it: there and back.
    pub fn join_by_hub(
        &mut self,
        network: u8,
        members: &[(usize, PortSettings, Settings, Settings)],
        introduced: bool,
    ) {
        let hub = self.hubs.len();
        let mut ports = Vec::new();
        for (host, port, there, back) in members {
            let from = self.add_lane(there.clone(), Target::Hub(hub));
            let number = self.hosts[*host].attachments.len();
            let to = self.add_lane(back.clone(), Target::Host { host: *host, port: number });
            ports.push(HubPort { mac: mac(network, *host), to, from });
            let others: Vec<usize> =
                members.iter().map(|m| m.0).filter(|other| other != host).collect();
            self.attach(network, *host, port, from, if introduced { &others } else { &[] });
        }
        self.hubs.push(ports);
    }

    /// Join hosts by a router, each on a network of its own over bare IP: its number, the links to
    /// the router and from it, and the MTU of that link. From `reports_from` on the router reports
    /// longer packets to their senders; before that it drops them silently.
    pub fn join_by_router(&mut self, members: &[RouterLeg], reports_from: Instant) {
        let router = self.routers.len();
        let mut legs = Vec::new();
        let bare = |settings: &Settings| Settings { link: LinkKind::Ip, ..settings.clone() };
        for leg in members {
            let from = self.add_lane(bare(&leg.there), Target::Router(router, leg.network));
            let port = self.hosts[leg.host].attachments.len();
            let out = self.add_lane(bare(&leg.back), Target::Host { host: leg.host, port });
            let port = PortSettings { link: LinkKind::Ip, ..leg.port.clone() };
            let port = self.attach(leg.network, leg.host, &port, from, &[]);
            for other in members.iter().filter(|other| other.network != leg.network) {
                for version in [IpVersion::V4, IpVersion::V6] {
                    let dest = address(other.network, other.host, version);
                    let via = router::address(leg.network, version == IpVersion::V4);
                    self.hosts[leg.host].stack.add_route(Route::new(dest, Some(via), port.0));
                }
            }
            legs.push(Leg { network: leg.network, out, mtu: leg.mtu.bytes() });
        }
        self.routers.push(Router { legs, reports_from, counts: RouterCounts::default() });
    }

    pub(crate) fn attach(
        &mut self,
        network: u8,
        host: usize,
        settings: &PortSettings,
        out: usize,
        known: &[usize],
    ) -> PortId {
        let config = PortConfig {
            mac: mac(network, host),
            addresses: [IpVersion::V4, IpVersion::V6]
                .map(|version| address(network, host, version))
                .to_vec(),
        };
        let trace = self.trace.clone();
        let number = self.hosts[host].attachments.len();
        let port = self.hosts[host].attach(settings, config, out, |device| match &trace {
            Some(trace) => trace.wrap(device, host, number),
            None => Box::new(device),
        });
        if settings.link == LinkKind::Ethernet {
            for &other in known {
                for version in [IpVersion::V4, IpVersion::V6] {
                    let ip = address(network, other, version).addr;
                    self.hosts[host].stack.add_neighbour(port, ip, mac(network, other));
                }
            }
        }
        self.event_queue.set(self.host_sources[host], self.now);
        port
    }

    /// A connection, now or later.
    ///
    /// # Errors
    /// If the server's host cannot listen.
    pub fn add_flow(&mut self, settings: FlowSettings) -> Result<usize, ListenError> {
        let number = self.flows.len();
        let (from, to) = settings.hosts;
        let ip = address(settings.network, to, settings.version).addr;
        let to_addr = SocketAddr::new(ip, 5000 + number as u16);
        let listen = ListenConfig { tcp: settings.config.1, ..ListenConfig::default() };
        let listener = self.hosts[to].stack.tcp_listen(to_addr, listen)?;
        let opening =
            Opening::Connect { to: to_addr, at: self.hosts[from].clock.local(settings.at) };
        let streams = (2 * number as u64, 2 * number as u64 + 1);
        let is_graceful = settings.scripts.0.is_graceful() && settings.scripts.1.is_graceful();
        let (config, scripts) = (settings.config, settings.scripts);
        let client = self.ends.len();
        self.ends.push(Endpoint::new(from, opening, config.0, scripts.0, streams));
        let back = (streams.1, streams.0);
        let accept = Opening::Accept(listener);
        self.ends.push(Endpoint::new(to, accept, config.1, scripts.1, back));
        self.host_ends[from].push(client);
        self.host_ends[to].push(client + 1);
        self.flows.push(Flow { number, client, server: client + 1, is_graceful });
        self.event_queue.no_later(self.host_sources[from], settings.at);
        Ok(number)
    }

    /// A program that sends messages beside TCP; `false` if there was no room for its sockets.
    pub fn add_background_flow(&mut self, settings: BackgroundSettings, at: Instant) -> bool {
        let from = settings.hosts.0;
        let first = self.hosts[from].clock.local(at);
        let mut background_flow = BackgroundFlow::new(settings, self.background_flows.len(), first);
        let is_open = background_flow.open(&mut self.hosts);
        self.background_flows.push(background_flow);
        self.event_queue.no_later(self.host_sources[from], at);
        is_open
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

    /// Counts of a direction of a link, by its number: directions are numbered in the order of the
    /// calls.
    pub fn link_counts(&self, direction: usize) -> &link::Counts {
        self.lanes[direction].model.counts()
    }

    /// Counts of a router, by its number.
    pub fn router_counts(&self, router: usize) -> RouterCounts {
        self.routers[router].counts
    }

    /// Set the hook of a direction of a link, by its number; it replaces the one before.
    pub fn set_hook(&mut self, direction: usize, hook: Hook) {
        self.lanes[direction].hook = Some(hook);
    }

    /// Segments that a direction's hook has dropped.
    pub fn dropped_by_hook(&self, direction: usize) -> u64 {
        self.lanes[direction].dropped_by_hook
    }

    /// The same for the same seed and the same code: made of every frame that was sent, and when.
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
