//! One shard: the only crate that knows all layers. [`Stack`] owns its ports, its connections and
//! its buffers; it has no lock and no thread, reads no clock and draws no random number.
//!
//! Called by: programs (the polled API: `poll`, then reads and writes), `net`, `sim`.
//! The receive path is `rx.rs`, the transmit path `tx.rs`: read these two first.
//!
//! # Per shard, and published to all
//! Per shard: connections, listeners' queues, timers, buffers, counters, ports' queues.
//! Published (copied into each shard when it changes, never locked): routes, neighbours,
//! switches, limits. Today there is one shard and its owner sets them directly.

mod acd;
mod addresses;
mod autoconf;
mod broadcast;
mod change;
mod config;
mod connections;
mod error_limit;
mod event;
mod extension;
mod flow_cache;
mod flows;
mod follow;
mod forward;
mod frag;
mod groups;
mod icmp;
mod idle;
#[cfg(feature = "internals")]
pub mod internals;
mod local;
mod mtu;
mod nd;
mod no_connection;
mod pace;
pub mod pair;
mod path_mtu;
mod port;
mod redirect;
mod release;
mod resolve;
mod rx;
pub mod snapshot;
mod socket;
mod stamp;
mod taps;
mod timers;
mod tx;

pub use addresses::AddressError;
pub use autoconf::{AutoConfig, AutoconfError, AutoconfStatus, Progress};
pub use broadcast::OtherBroadcaster;
pub use change::ReplaceError;
pub use config::{IpSettings, PortConfig, StackConfig};
pub use connections::TcpHandle;
pub use event::Event;
pub use groups::{GroupError, GroupRow, MulticastOptions, SourceChange};
pub use idle::{Armed, Awaited, MitigationError};
pub use inet::address::{Address, AddressState, Origin};
/// The sources of a group that are wanted.
pub use inet::group::{Filter as SourceFilter, Mode as FilterMode};
pub use inet::neighbour::State as NeighbourState;
pub use inet::router::Router;
pub use inet::slaac::Identifiers;
pub use inet::{Route, RouteOrigin};
pub use local::BroadcastForm;
pub use mtu::MtuError;
pub use pace::{GAP_MAX, GapError};
pub use port::PortId;
pub use socket::fast_open::FastConnect;
pub use socket::forward::RequestHandle;
pub use socket::listener::{FastOpenConfig, ListenConfig, ListenerHandle};
pub use socket::loan::Loan;
pub use socket::open::{ConnectError, ListenError};
pub use socket::options::Follows;
pub use socket::ping::{Echo, EchoError, PingHandle};
pub use socket::ports::EPHEMERAL_PORTS;
pub use socket::udp::{
    Datagram, MtuDiscovery, SEGMENTS_MAX, UdpError, UdpErrorReport, UdpHandle, UdpOptions,
    UdpReceived,
};
pub use taps::TapId;
pub use tcp::usrreq::CallError;

/// Finding out what a path carries above UDP (RFC 8899).
pub use inet::dplpmtud;
/// Why a packet did not arrive.
pub use inet::icmp::{ErrorKind, Unreachable};
/// Routes, as [`Stack::add_route`] takes them.
pub use inet::route;

use std::collections::VecDeque;
use std::sync::Arc;

use base::{
    Budget, Counters, Drops, Instant, KeyedHash, Limit, LinkKind, MacAddr, PerSecond, Switch,
    Switches,
};
use core::net::IpAddr;
use device::Device;
use inet::{Fragments, Identifications, Neighbours, Routes};
use mbuf::Pool;
use wire::checksum::Ladder;

use connections::Connections;
use port::Ports;
use release::Release;
use socket::listener::Listeners;
use socket::udp::UdpSockets;
use timers::Wheel;

/// What every layer of a shard uses.
pub(crate) struct Core {
    /// What TCP is lent: time, buffers, counters, limits.
    pub(crate) cx: tcp::Cx,
    pub(crate) drops: Drops,
    pub(crate) secret: KeyedHash,
}

impl Core {
    #[inline(always)]
    fn set_now(&mut self, now: Instant) {
        // Time never goes back, whatever the caller's clock does.
        if now > self.cx.now {
            self.cx.now = now;
            self.cx.now_ms = now.as_millis() as u32;
        }
    }
}

/// A whole TCP/IP stack for one thread at a time.
///
/// The order of calls: `add_port`, `add_neighbour`, `add_route`; then `poll` whenever a port has
/// frames or [`Stack::next_deadline`] has come, taking [`Stack::next_event`] until there is none
/// and reading and writing in between. `now` must not go back; if it does, the last one counts.
pub struct Stack {
    pub(crate) core: Core,
    pub(crate) ports: Ports,
    pub(crate) connections: Connections,
    pub(crate) listeners: Listeners,
    pub(crate) requests: socket::forward::Requests,
    pub(crate) udp: UdpSockets,
    pub(crate) orphans: socket::orphans::Orphans,
    pub(crate) routes: Routes,
    pub(crate) lifetimes: addresses::Lifetimes,
    pub(crate) autoconf: autoconf::Autoconf,
    pub(crate) acd: acd::Acd,
    pub(crate) neighbours: Neighbours,
    pub(crate) resolving: resolve::Resolving,
    pub(crate) forwarding: forward::Forwarding,
    pub(crate) other_broadcasters: broadcast::OtherBroadcasters,
    pub(crate) frags: Fragments,
    pub(crate) groups: groups::Groups,
    pub(crate) ids: Identifications,
    pub(crate) pings: socket::ping::PingSockets,
    pub(crate) wheel: Wheel,
    pub(crate) release: Release,
    pub(crate) pace: pace::Pace,
    pub(crate) ready: VecDeque<Event>,
    pub(crate) resets: PerSecond,
    pub(crate) icmp_errors: error_limit::ErrorLimit,
    pub(crate) echo_replies: PerSecond,
    pub(crate) path_changes: PerSecond,
    pub(crate) path_mtus: path_mtu::PathMtus,
    pub(crate) neighbour_mtus: mtu::NeighbourMtus,
    /// So long may ACKs bring back cookies.
    pub(crate) cookies_until: Instant,
    pub(crate) repeated: socket::repeated::Repeated,
    /// The burst that is being taken in is of a port whose device has long had more.
    pub(crate) is_overrun: bool,
    /// How many ephemeral ports were drawn.
    pub(crate) ports_drawn: u64,
    pub(crate) fast_open: socket::fast_open::FastOpens,
    /// Of the burst that is being taken in; what it compares stays from one to the next.
    pub(crate) leader: follow::Leader,
    pub(crate) flows: flows::Flows,
    pub(crate) last_config: Option<Arc<tcp::Config>>,
    /// Taps added so far.
    pub(crate) next_tap: u64,
    /// The checksum rung while no switch says otherwise.
    best_ladder: Ladder,
}

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
            forwarding: forward::Forwarding::default(),
            other_broadcasters: broadcast::OtherBroadcasters::default(),
            frags: Fragments::default(),
            groups: groups::Groups::new(KeyedHash::new(k0, k1), config.solicited_node_reports),
            ids: Identifications::default(),
            pings: socket::ping::PingSockets::default(),
            wheel: Wheel::default(),
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
            ports_drawn: 0,
            fast_open: socket::fast_open::FastOpens::new(&KeyedHash::new(k0, k1)),
            leader: follow::Leader::none(),
            flows: flows::Flows::default(),
            last_config: None,
            next_tap: 0,
            best_ladder: best,
        }
    }

    /// Set a permanent link address of a neighbour: it is never solicited, and packets cannot
    /// change it. `false` when the table is full.
    pub fn add_neighbour(&mut self, port: PortId, ip: IpAddr, mac: MacAddr) -> bool {
        let set =
            self.neighbours.set((port.0, ip), mac, self.core.cx.now, &mut self.core.cx.budget);
        resolve::act(self);
        set
    }

    /// Forget a link address that [`Stack::add_neighbour`] set: the neighbour is solicited when a
    /// packet is for it. `false` if none was set.
    pub fn remove_neighbour(&mut self, port: PortId, ip: IpAddr) -> bool {
        self.neighbours.unset((port.0, ip))
    }

    /// What is known of a neighbour, and how surely; `None` for nothing.
    pub fn neighbour_state(&self, port: PortId, ip: IpAddr) -> Option<NeighbourState> {
        self.neighbours.state((port.0, ip))
    }

    /// Take in what came, act on what is due, send what is to be sent. Returns how many frames
    /// and timers were handled: 0 means that there was nothing to do.
    pub fn poll(&mut self, now: Instant) -> usize {
        self.core.set_now(now);
        // What came home is the next to go out, while it is warm in the cache.
        self.core.cx.pool.collect();
        let mut work = 0;
        for index in 0..self.ports.len() {
            work += rx::bursts(self, index);
        }
        if self.wheel.is_due(self.core.cx.now)
            || self.connections.next_time_wait() <= self.core.cx.now
        {
            work += self.run_timers();
        }
        if self.neighbours.next_deadline() <= self.core.cx.now {
            resolve::expire(self);
            work += 1;
        }
        if self.frags.next_deadline() <= self.core.cx.now {
            frag::expire(self);
            work += 1;
        }
        if self.lifetimes.next_deadline() <= self.core.cx.now {
            addresses::expire(self);
            work += 1;
        }
        if self.groups.next_deadline() <= self.core.cx.now {
            groups::expire(self);
            work += 1;
        }
        tx::resume_blocked(self);
        tx::run(self);
        if work == 0 {
            self.settle();
        } else {
            self.core.cx.pool.flush_many();
        }
        work
    }

    /// Prepare for a long sleep, as a poll without work does: return other pools' buffers, and fail
    /// ports whose device is gone.
    pub fn settle(&mut self) {
        self.core.cx.pool.flush();
        self.fail_gone_ports();
    }

    /// Hand everything that is ready to leave to the devices now, without taking anything in.
    pub fn flush(&mut self) {
        tx::run(self);
        self.core.cx.pool.flush_many();
    }

    /// Has a connection something for [`Stack::flush`] to send, or to find out that it has not?
    #[inline]
    pub fn has_output(&self) -> bool {
        !self.connections.dirty.is_empty()
    }

    /// When [`Stack::poll`] wants to be called even if no frame comes.
    pub fn next_deadline(&self) -> Instant {
        let timers = self.wheel.next_deadline().min(self.connections.next_time_wait());
        let timers = timers.min(self.frags.next_deadline()).min(self.lifetimes.next_deadline());
        let timers = timers.min(self.groups.next_deadline());
        let frames = self.release.next_departure().min(self.pace.next_departure());
        timers.min(frames).min(self.neighbours.next_deadline())
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

    /// May one more of what `limit` bounds be had beside `used`? If not, the hit is counted. For
    /// limits that a layer above keeps.
    pub fn admits(&mut self, limit: Limit, used: usize) -> bool {
        self.core.cx.budget.admits(limit, used)
    }

    /// The next thing that a user may want to know; `None` for nothing new.
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(event) = self.ready.pop_front() {
            match event {
                Event::Tcp(handle, _) => {
                    if let Some(pcb) = self.connections.get_mut(handle) {
                        pcb.ready = false;
                        return Some(Event::Tcp(handle, pcb.tcb.events.take()));
                    }
                }
                other => return Some(other),
            }
        }
        None
    }

    /// Turn a switch while running.
    pub fn set_switch(&mut self, switch: Switch, on: bool) {
        self.core.cx.switches = self.core.cx.switches.with(switch, on);
        self.core.cx.ladder = ladder_for(self.best_ladder, self.core.cx.switches);
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

#[cfg(test)]
mod tests;
