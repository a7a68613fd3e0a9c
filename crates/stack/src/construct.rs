//! Making a stack, and what can be asked of it, and switched, while it runs.
//!
//! Called by: programs. Nothing here is on the packet path but the time, which is a load.

use core::net::IpAddr;
use std::collections::VecDeque;

use base::{
    Budget, Counters, Drops, Instant, KeyedHash, Limit, LinkKind, PerSecond, Switch, Switches,
};
use device::Device;
use inet::{Fragments, Identifications, Neighbours, Routes};
use mbuf::Pool;
use wire::checksum::Ladder;

use crate::connections::Connections;
use crate::port::Ports;
use crate::release::Release;
use crate::socket::listener::Listeners;
use crate::socket::udp::UdpSockets;
use crate::timers::Wheel;
use crate::{
    Core, PortId, Stack, StackConfig, acd, addresses, autoconf, broadcast, error_limit, flows,
    follow, forward, groups, learned, mtu, pace, path_mtu, progress, rare_timers, resolve, socket,
};

impl Stack {
    /// A stack without ports.
    pub fn new(config: StackConfig) -> Stack {
        let [k0, k1] = config.seed;
        let best = config.ladder.unwrap_or_else(Ladder::best);
        Stack {
            core: Core {
                cx: tcp::Cx {
                    now: Instant::ZERO,
                    now_ms: 0,
                    pool: Pool::new(config.budget.of(Limit::MbufBytes)),
                    counters: Counters::default(),
                    budget: config.budget,
                    switches: config.switches,
                    ladder: ladder_for(best, config.switches),
                    secret: KeyedHash::new(k0, k1),
                },
                drops: Drops::default(),
                secret: KeyedHash::new(k0, k1),
                write_unit_bytes: config
                    .write_unit_bytes
                    .clamp(StackConfig::WRITE_UNIT_MIN_BYTES, StackConfig::WRITE_UNIT_MAX_BYTES),
            },
            ports: Ports::default(),
            connections: Connections::default(),
            listeners: Listeners::default(),
            requests: socket::forward::Requests::default(),
            udp: UdpSockets::default(),
            orphans: socket::orphans::Orphans::default(),
            routes: Routes::default(),
            lifetimes: addresses::Lifetimes::default(),
            autoconf: autoconf::Autoconf::default(),
            acd: acd::Acd::default(),
            neighbours: Neighbours::default(),
            resolving: resolve::Resolving::default(),
            progress: progress::Progress::default(),
            forwarding: forward::Forwarding::default(),
            other_broadcasters: broadcast::OtherBroadcasters::default(),
            refused_routes: learned::RefusedRoutes::default(),
            loopback: None,
            frags: Fragments::default(),
            groups: groups::Groups::new(KeyedHash::new(k0, k1), config.solicited_node_reports),
            ids: Identifications::default(),
            fragments_out: Vec::new(),
            pings: socket::ping::PingSockets::default(),
            wheel: Wheel::default(),
            rare_timers: rare_timers::RareTimers::default(),
            release: Release::default(),
            pace: pace::Pace::default(),
            ready: VecDeque::new(),
            resets: PerSecond::default(),
            icmp_errors: error_limit::ErrorLimit::default(),
            echo_replies: PerSecond::default(),
            path_changes: PerSecond::default(),
            path_mtus: path_mtu::PathMtus::default(),
            neighbour_mtus: mtu::NeighbourMtus::default(),
            cookies_until: socket::cookies::NO_COOKIES,
            repeated: socket::repeated::Repeated::default(),
            is_overrun: false,
            membership: None,
            ports_drawn: 0,
            fast_open: socket::fast_open::FastOpens::new(&KeyedHash::new(k0, k1)),
            leader: follow::Leader::none(),
            flows: flows::Flows::default(),
            last_config: None,
            next_tap: 0,
            best_ladder: best,
        }
    }

    /// The time of the last call.
    #[inline]
    pub fn now(&self) -> Instant {
        self.core.cx.now
    }

    /// The time that the calls which follow are made at, for those that do not take it themselves:
    /// [`Stack::poll`] need not have been called for long. It does not go back.
    #[inline]
    pub fn set_now(&mut self, now: Instant) {
        self.core.set_now(now);
    }

    /// Is this an address of one of the ports?
    pub fn has_address(&self, addr: IpAddr) -> bool {
        self.ports.iter().any(|port| port.local.is_ours(addr))
    }

    /// May a socket of ours have this address, and packets of it come back to us?
    pub(crate) fn is_own(&self, addr: IpAddr) -> bool {
        addr.is_loopback() || self.has_address(addr)
    }

    /// May one more of what `limit` bounds be had beside `used`? If not, the hit is counted. For
    /// limits that a layer above keeps.
    pub fn admits(&mut self, limit: Limit, used: usize) -> bool {
        self.core.cx.budget.admits(limit, used)
    }

    /// Turn a switch while running.
    pub fn set_switch(&mut self, switch: Switch, on: bool) {
        self.core.cx.switches = self.core.cx.switches.with(switch, on);
        self.core.cx.ladder = ladder_for(self.best_ladder, self.core.cx.switches);
    }

    pub(crate) fn follow_switches(&mut self, switches: Switches) {
        self.core.cx.switches = switches;
        self.core.cx.ladder = ladder_for(self.best_ladder, switches);
    }

    /// Bytes of a long write that are copied before they may leave, as configured.
    pub fn write_unit_bytes(&self) -> usize {
        self.core.write_unit_bytes
    }

    /// The switches.
    pub fn switches(&self) -> Switches {
        self.core.cx.switches
    }

    /// How checksums are made now, and why: see [`wire::checksum::Choice`].
    pub fn checksums(&self) -> String {
        let (rung, choice) = (self.core.cx.ladder, Ladder::choice());
        if rung == choice.rung { choice.to_string() } else { rung.name().to_owned() }
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.core.cx.counters
    }

    /// What was dropped, and why.
    pub fn drops(&self) -> &Drops {
        &self.core.drops
    }

    /// Limits and how often each was hit.
    pub fn budget(&self) -> &Budget {
        &self.core.cx.budget
    }

    /// The stack's buffers, for loans and for tests that count them.
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.core.cx.pool
    }

    /// Connections, those that their users still hold after their end included.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Records in TIME-WAIT.
    pub fn time_wait_count(&self) -> usize {
        self.connections.time_wait_count()
    }

    /// A port's device, to ask for its descriptor or for what fails; `None` if the port is gone.
    pub fn device(&self, port: PortId) -> Option<&dyn Device> {
        self.ports.get(port.0).map(|p| &*p.device)
    }

    /// What kind of frames a port has; `None` if it is gone.
    pub fn link_kind(&self, port: PortId) -> Option<LinkKind> {
        self.ports.get(port.0).map(|p| p.limits.link)
    }
}

fn ladder_for(best: Ladder, switches: Switches) -> Ladder {
    match (switches.on(Switch::SimdSum), switches.on(Switch::WideSum)) {
        (true, true) => best,
        (true, false) => best.narrow(),
        (false, _) => Ladder::Word64,
    }
}
