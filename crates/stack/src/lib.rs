//! One shard: the only crate that knows all layers. [`Stack`] owns its ports, its connections and
//! its buffers; it has no lock and no thread, reads no clock and draws no random number.
//!
//! Called by: programs (the polled API: `poll`, then reads and writes), `net`, `sim`.
//! The receive path is `rx.rs`, the transmit path `tx.rs`: read these two first.
//!
//! # Per shard, and published to all
//! Per shard: connections, listeners' queues, timers, buffers, counters, ports' queues.
//! Published by the first shard (`shard.rs`): addresses, permanent neighbours, switches; routes are
//! looked up in one FIB. A stack alone has all of it for itself.

mod acd;
mod addresses;
mod arp;
mod autoconf;
mod bare;
mod broadcast;
mod change;
mod config;
mod connections;
mod construct;
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
mod learned;
mod local;
mod lookup;
mod loopback;
mod mtu;
mod nd;
mod no_connection;
mod pace;
pub mod pair;
mod path_mtu;
mod port;
mod progress;
mod rare_timers;
mod redirect;
mod release;
mod reroute;
mod resolve;
mod rx;
pub mod shard;
pub mod snapshot;
mod socket;
mod stamp;
mod taps;
mod timers;
mod tx;

pub use addresses::{AddressError, check_address, is_destination};
pub use autoconf::{AutoConfig, AutoconfError, AutoconfStatus, Progress};
pub use broadcast::OtherBroadcaster;
pub use change::ReplaceError;
pub use config::{IpSettings, PortConfig, StackConfig};
pub use connections::TcpHandle;
pub use event::Event;
pub use forward::Forwarded;
pub use groups::{GroupError, GroupRow, MulticastOptions, SourceChange};
pub use idle::{Armed, Awaited, MitigationError};
pub use inet::address::{Address, AddressState, Origin};
/// The sources of a group that are wanted.
pub use inet::group::{Filter as SourceFilter, Mode as FilterMode};
pub use inet::neighbour::State as NeighbourState;
pub use inet::router::Router;
pub use inet::slaac::Identifiers;
pub use inet::{Route, RouteOrigin};
pub use learned::{RefusedRoute, RouteRefusal};
pub use local::BroadcastForm;
pub use lookup::{FibFound, FibQuery, FibResult};
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

use base::{Drops, Instant, KeyedHash, MacAddr, PerSecond, Switch};
use core::net::IpAddr;
use device::BURST;
use inet::{Fragments, Identifications, Neighbours, Routes};
use mbuf::Mbuf;
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
    /// See [`StackConfig::write_unit_bytes`].
    pub(crate) write_unit_bytes: usize,
}

impl Core {
    /// Bytes that are copied before headers are made of them, in segments of so many.
    #[inline(always)]
    pub(crate) fn write_unit(&self, segment: usize) -> usize {
        // A device gets nothing before its burst is full: headers wait for that as well.
        (BURST * segment).min(self.write_unit_bytes).max(segment + 1)
    }

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
    pub(crate) progress: progress::Progress,
    pub(crate) forwarding: forward::Forwarding,
    pub(crate) other_broadcasters: broadcast::OtherBroadcasters,
    pub(crate) refused_routes: learned::RefusedRoutes,
    /// `None` until something is sent to an address of ours.
    pub(crate) loopback: Option<Box<loopback::Loopback>>,
    pub(crate) frags: Fragments,
    pub(crate) groups: groups::Groups,
    pub(crate) ids: Identifications,
    /// Fragments of the datagram that is being sent; kept for its memory.
    pub(crate) fragments_out: Vec<Mbuf>,
    pub(crate) pings: socket::ping::PingSockets,
    pub(crate) wheel: Wheel,
    pub(crate) rare_timers: rare_timers::RareTimers,
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
    /// This stack is one of several shards.
    pub(crate) membership: Option<Box<shard::Membership>>,
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

    /// Forget what is known of a neighbour, set or learnt. `false` if nothing is.
    pub fn forget_neighbour(&mut self, port: PortId, ip: IpAddr) -> bool {
        let was_known = self.neighbours.remove((port.0, ip));
        resolve::act(self);
        was_known
    }

    /// What is known of a neighbour, and how surely; `None` for nothing.
    pub fn neighbour_state(&self, port: PortId, ip: IpAddr) -> Option<NeighbourState> {
        self.neighbours.state((port.0, ip))
    }

    /// Take in what came, act on what is due, send what is to be sent. Returns how many frames
    /// and timers were handled: 0 means that there was nothing to do.
    pub fn poll(&mut self, now: Instant) -> usize {
        self.turn(now, false)
    }

    /// [`Stack::poll`] for a caller that lets its programs read and write next, and then calls
    /// [`Stack::flush`]: the ACK of what a program can read now waits for that, so that an answer
    /// carries it, or the window that the reader has opened. Switch `answer-ack`.
    pub fn poll_before_flush(&mut self, now: Instant) -> usize {
        self.turn(now, self.core.cx.switches.on(Switch::AnswerAck))
    }

    fn turn(&mut self, now: Instant, holds_acks: bool) -> usize {
        self.core.set_now(now);
        // What came home is the next to go out, while it is warm in the cache.
        self.core.cx.pool.collect();
        let mut work = 0;
        for index in 0..self.ports.len() {
            work += rx::bursts(self, index);
        }
        if self.loopback.is_some() {
            work += loopback::input(self);
        }
        if self.wheel.is_due(self.core.cx.now) {
            work += self.run_timers();
        }
        if self.rare_timers.is_due(self.core.cx.now) {
            work += rare_timers::expire(self);
        }
        rare_timers::check(self);
        tx::resume_blocked(self);
        match holds_acks {
            true => tx::run_but_acks(self),
            false => tx::run(self),
        }
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
        rare_timers::check(self);
        if self.connections.holds_acks || self.is_looping() {
            return self.core.cx.now;
        }
        let timers = self.wheel.next_deadline().min(self.rare_timers.next_deadline());
        let frames = self.release.next_departure().min(self.pace.next_departure());
        timers.min(frames)
    }

    /// Is there a packet of ours to ourselves?
    #[inline(always)]
    pub(crate) fn is_looping(&self) -> bool {
        self.loopback.as_ref().is_some_and(|loopback| loopback.has_input())
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
}

#[cfg(test)]
mod tests;
