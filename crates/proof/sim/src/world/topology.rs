//! Builds a world from its parts: hosts, the links, hubs and routers between them, and the flows
//! over them.
//!
//! Called by: the callers of `world.rs`, before the world runs.

use core::net::SocketAddr;

use base::{Instant, IpVersion, LinkKind};
use link::{Direction, Settings};
use stack::{ListenConfig, ListenError, PortConfig, PortId, Route};

use super::{HubPort, Lane, RouterLeg, Target, World, address, mac};
use crate::app::{Endpoint, Opening};
use crate::background::{BackgroundFlow, BackgroundSettings};
use crate::flow::{Flow, FlowSettings};
use crate::host::{Host, HostSettings, PortSettings};
use crate::router::{self, Leg, Router, RouterCounts};

impl World {
    /// Add a host. Returns its number.
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

    /// Join two hosts by a link of their own, which is network number `network`. The first settings
    /// are for the direction from the first host to the second one. If `introduced` is true, the
    /// two hosts know each other's link addresses.
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

    /// Join several hosts by a hub. Each has a link of its own to the hub, with settings for both
    /// directions.
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

    /// Join hosts by a router, each on a network of its own over bare IP. From `reports_from` on
    /// the router reports packets that are too long to their senders; before that it drops them
    /// silently.
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
            ..PortConfig::default()
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

    /// Add a connection that begins at the time in its settings.
    ///
    /// # Errors
    /// The server's host cannot listen.
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

    /// Add a program that sends messages at the same time as TCP. Returns `false` if there was no
    /// room for its sockets.
    pub fn add_background_flow(&mut self, settings: BackgroundSettings, at: Instant) -> bool {
        let from = settings.hosts.0;
        let first = self.hosts[from].clock.local(at);
        let mut background_flow = BackgroundFlow::new(settings, self.background_flows.len(), first);
        let is_open = background_flow.open(&mut self.hosts);
        self.background_flows.push(background_flow);
        self.event_queue.no_later(self.host_sources[from], at);
        is_open
    }
}
