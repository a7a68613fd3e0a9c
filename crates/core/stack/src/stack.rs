//! The whole state of one shard: the code that creates it, and the calls that read it and turn
//! switches while it runs.
//!
//! Called by: everybody. The files that this one imports contain the state of each part, with the
//! part's own methods. The files that import this one have the actions of the stack, and the calls
//! of programs. Nothing here is on the packet path except reading the time, which is a load.

use core::net::IpAddr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{
    Budget, Counters, Drops, Instant, KeyedHash, Limit, LinkKind, PerSecond, Switch, Switches,
};
use device::Device;
use filter::Firewall;
use inet::{Address, AddressState, Fragments, Identifications, Neighbours, Routes, Vrf};
use mbuf::{Mbuf, Pool};
use wire::checksum::Ladder;

use crate::addresses::Acd;
use crate::autoconf::Autoconf;
use crate::config::StackConfig;
use crate::connections::Connections;
use crate::flows::Flows;
use crate::follow::Leader;
use crate::foreign::ForeignQueue;
use crate::forward::Forwarding;
use crate::groups::Groups;
use crate::handles::{Event, PortId};
use crate::learned::RefusedRoutes;
use crate::local::OtherBroadcasters;
use crate::loopback::Loopback;
use crate::mtu::{NeighbourMtus, PathMtus};
use crate::pace::Pace;
use crate::port::Ports;
use crate::punt::Punt;
use crate::release::Release;
use crate::resolving::{Progress, Resolving};
use crate::shard::Membership;
use crate::shared::{Core, ErrorLimit};
use crate::socket::fast_open::FastOpens;
use crate::socket::half_open::Repeated;
use crate::socket::listener::{Listeners, Requests};
use crate::socket::orphans::Orphans;
use crate::socket::ping::PingSockets;
use crate::socket::udp::{Between, UdpSockets};
use crate::timers::{RareTimers, Wheel};
use crate::trim::Trim;

/// A whole TCP/IP stack for one thread at a time.
///
/// The order of calls: `add_port`, `add_neighbour`, `add_route`; then `poll` whenever a port has
/// frames or [`Stack::next_deadline`] has come. After a poll, take [`Stack::next_event`] until
/// there is none, and read and write. `now` must not go back; if it does, the latest time so far
/// counts.
///
/// The caller passes the time, so that the same calls give the same packets:
/// ```
/// # mod wirespeed { pub use {base::*, device, wirespeed_stack::*}; }
/// use wirespeed::device::channel;
/// use wirespeed::{Instant, LinkKind, Owner, PortConfig, Stack, StackConfig};
///
/// let config = channel::Config { link: LinkKind::Ip, ..channel::Config::default() };
/// let (device, packets) = channel::pair(&config);
/// let mut stack = Stack::new(StackConfig::new([1, 2])); // a real program draws the seed at random
/// let addresses = vec!["192.0.2.1/24".parse()?];
/// stack.add_port(Box::new(device), PortConfig { addresses, ..PortConfig::default() });
///
/// let now = Instant::from_nanos(1);
/// let socket = stack.udp_bind("192.0.2.1:5300".parse()?, Owner::program())?;
/// stack.udp_send(socket, "192.0.2.2:53".parse()?, b"hello", now)?;
/// stack.poll(now);
/// let mut packet = [0; 1_500];
/// let length = packets.try_recv(&mut packet)?;
/// assert_eq!(length, 20 + 8 + 5); // headers of IP and UDP, and the payload
/// assert_eq!(&packet[28..length], b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stack {
    pub(crate) core: Core,
    pub(crate) ports: Ports,
    pub(crate) connections: Connections,
    pub(crate) listeners: Listeners,
    pub(crate) requests: Requests,
    pub(crate) udp: UdpSockets,
    /// How datagrams from any source leave.
    pub(crate) between: Between,
    pub(crate) orphans: Orphans,
    pub(crate) routes: Routes,
    pub(crate) autoconf: Autoconf,
    pub(crate) acd: Acd,
    pub(crate) neighbours: Neighbours,
    pub(crate) resolving: Resolving,
    pub(crate) progress: Progress,
    pub(crate) forwarding: Forwarding,
    /// `Some` while rules of the firewall are set.
    pub(crate) firewall: Option<Box<Firewall>>,
    pub(crate) other_broadcasters: OtherBroadcasters,
    pub(crate) refused_routes: RefusedRoutes,
    /// `None` until a packet is sent to an address of ours.
    pub(crate) loopback: Option<Box<Loopback>>,
    pub(crate) frags: Fragments,
    pub(crate) groups: Groups,
    pub(crate) ids: Identifications,
    /// Fragments of the datagram that is being sent. The vector is kept for its memory.
    pub(crate) fragments_out: Vec<Mbuf>,
    pub(crate) pings: PingSockets,
    pub(crate) foreign: ForeignQueue,
    /// `None` until a port has a mirror.
    pub(crate) punt: Option<Box<Punt>>,
    pub(crate) wheel: Wheel,
    pub(crate) rare_timers: RareTimers,
    pub(crate) trim: Trim,
    pub(crate) release: Release,
    pub(crate) pace: Pace,
    pub(crate) ready: VecDeque<Event>,
    pub(crate) resets: PerSecond,
    pub(crate) icmp_errors: ErrorLimit,
    pub(crate) echo_replies: PerSecond,
    pub(crate) path_changes: PerSecond,
    pub(crate) path_mtus: PathMtus,
    pub(crate) neighbour_mtus: NeighbourMtus,
    /// Until when ACKs may return cookies.
    pub(crate) cookies_until: Instant,
    pub(crate) repeated: Repeated,
    /// The current burst came by a port whose device has had more frames than the stack takes for
    /// some time.
    pub(crate) is_overrun: bool,
    /// The VRF of the port that the current burst came by, whose connections segments find.
    pub(crate) in_vrf: Vrf,
    /// Names of VRFs for people.
    pub(crate) vrf_names: BTreeMap<Vrf, Box<str>>,
    /// `Some` if this stack is one of several shards.
    pub(crate) membership: Option<Box<Membership>>,
    /// How many ephemeral ports were drawn.
    pub(crate) ports_drawn: u64,
    pub(crate) fast_open: FastOpens,
    /// The leader of the current burst. Its mask is kept from one burst to the next.
    pub(crate) leader: Leader,
    pub(crate) flows: Flows,
    pub(crate) last_config: Option<Arc<tcp::Config>>,
    /// Taps added so far.
    pub(crate) next_tap: u64,
    /// The checksum implementation in use if no switch forbids it.
    best_ladder: Ladder,
}

impl Stack {
    /// A stack without ports.
    pub fn new(config: StackConfig) -> Stack {
        let [k0, k1] = config.seed;
        let best = config.ladder.unwrap_or_else(Ladder::best);
        Stack {
            core: core(&config, best),
            ports: Ports::default(),
            connections: Connections::default(),
            listeners: Listeners::default(),
            requests: Requests::default(),
            udp: UdpSockets::default(),
            between: Between::default(),
            orphans: Orphans::default(),
            routes: Routes::default(),
            autoconf: Autoconf::default(),
            acd: Acd::default(),
            neighbours: Neighbours::default(),
            resolving: Resolving::default(),
            progress: Progress::default(),
            forwarding: Forwarding::default(),
            firewall: None,
            other_broadcasters: OtherBroadcasters::default(),
            refused_routes: RefusedRoutes::default(),
            loopback: None,
            frags: Fragments::default(),
            groups: Groups::new(KeyedHash::new(k0, k1), config.solicited_node_reports),
            ids: Identifications::default(),
            fragments_out: Vec::new(),
            pings: PingSockets::default(),
            foreign: ForeignQueue::new(config.foreign),
            punt: None,
            wheel: Wheel::default(),
            rare_timers: RareTimers::default(),
            trim: Trim::default(),
            release: Release::default(),
            pace: Pace::default(),
            ready: VecDeque::new(),
            resets: PerSecond::default(),
            icmp_errors: ErrorLimit::default(),
            echo_replies: PerSecond::default(),
            path_changes: PerSecond::default(),
            path_mtus: PathMtus::default(),
            neighbour_mtus: NeighbourMtus::default(),
            cookies_until: Instant::ZERO,
            repeated: Repeated::default(),
            is_overrun: false,
            in_vrf: Vrf::NONE,
            vrf_names: BTreeMap::new(),
            membership: None,
            ports_drawn: 0,
            fast_open: FastOpens::new(&KeyedHash::new(k0, k1)),
            leader: Leader::none(),
            flows: Flows::default(),
            last_config: None,
            next_tap: 0,
            best_ladder: best,
        }
    }

    /// The latest time that a call has set.
    #[inline]
    pub fn now(&self) -> Instant {
        self.core.cx.now
    }

    /// Set the time for calls that do not take it as an argument: the last [`Stack::poll`] may be
    /// long ago. Time does not go back.
    #[inline]
    pub fn set_now(&mut self, now: Instant) {
        self.core.set_now(now);
    }

    /// Is `addr` an address of one of the ports, of any VRF?
    pub fn has_address(&self, addr: IpAddr) -> bool {
        self.ports.iter().any(|port| port.local.is_ours(addr))
    }

    /// May a socket of some VRF have this address as its own?
    pub(crate) fn is_own(&self, addr: IpAddr) -> bool {
        addr.is_loopback() || self.has_address(addr)
    }

    /// Does `limit` admit one more when `used` are in use? If not, a hit of the limit is counted.
    /// For limits of a layer above.
    pub fn admits(&mut self, limit: Limit, used: usize) -> bool {
        self.core.cx.budget.admits(limit, used)
    }

    /// Turn a switch on or off while the stack runs.
    pub fn set_switch(&mut self, switch: Switch, on: bool) {
        self.core.cx.switches = self.core.cx.switches.with(switch, on);
        self.core.cx.ladder = ladder_for(self.best_ladder, self.core.cx.switches);
    }

    pub(crate) fn follow_switches(&mut self, switches: Switches) {
        self.core.cx.switches = switches;
        self.core.cx.ladder = ladder_for(self.best_ladder, switches);
    }

    /// How many bytes of a long write are copied before they may leave, as configured.
    pub fn write_unit_bytes(&self) -> usize {
        self.core.write_unit_bytes
    }

    /// The switches.
    pub fn switches(&self) -> Switches {
        self.core.cx.switches
    }

    /// Which checksum implementation is in use, and why: see `wire::checksum::Choice`.
    pub fn checksums(&self) -> String {
        let (rung, choice) = (self.core.cx.ladder, Ladder::choice());
        let why = match rung {
            _ if rung == choice.rung => return choice.to_string(),
            _ if rung == self.best_ladder => "as configured".to_owned(),
            Ladder::Word64 => format!("switch {} is off", Switch::SimdSum.name()),
            _ => format!("switch {} is off", Switch::WideSum.name()),
        };
        format!("{} ({why})", rung.name())
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.core.cx.counters
    }

    /// Dropped packets, by reason.
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

    /// Connections, including ended ones that their users still hold.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Records in TIME-WAIT.
    pub fn time_wait_count(&self) -> usize {
        self.connections.time_wait_count()
    }

    /// A port's device, to read its descriptor or its state; `None` if there is no such port.
    pub fn device(&self, port: PortId) -> Option<&dyn Device> {
        self.ports.get(port.0).map(|p| &*p.device)
    }

    /// The link kind of a port; `None` if there is no such port.
    pub fn link_kind(&self, port: PortId) -> Option<LinkKind> {
        self.ports.get(port.0).map(|p| p.limits.link)
    }
}

impl Stack {
    /// Compute the first of the rare deadlines again, exactly. Called after rare changes that may
    /// have cleared some.
    pub(crate) fn renew_rare_timers(&mut self) {
        self.rare_timers.first = self.first_rare_deadline();
    }

    /// Compute again when an address, a route or their configuration next changes.
    pub(crate) fn look_ahead(&mut self) {
        self.rare_timers.lifetimes = self.first_lifetime();
        self.renew_rare_timers();
    }

    /// In debug builds: was every deadline noted when it was set?
    #[inline(always)]
    pub(crate) fn check_rare_timers(&self) {
        debug_assert!(
            self.rare_timers.first <= self.first_rare_deadline()
                && self.rare_timers.lifetimes <= self.first_lifetime(),
            "a rare deadline was set and not noted"
        );
    }

    /// The earliest of all rare deadlines.
    pub(crate) fn first_rare_deadline(&self) -> Instant {
        let waits = self.connections.next_time_wait().min(self.neighbours.next_deadline());
        let rest = self.frags.next_deadline().min(self.rare_timers.lifetimes);
        let rest = rest.min(self.groups.next_deadline()).min(self.forwarding.next_look());
        let rest = rest.min(self.trim.at);
        // Outcomes that look-ups have queued are handled by the next poll.
        let left = match self.resolving.outcomes.is_empty() {
            true => Instant::NEVER,
            false => self.core.cx.now,
        };
        waits.min(rest).min(left)
    }

    /// The first time at which an address, a route or their configuration changes by itself.
    pub(crate) fn first_lifetime(&self) -> Instant {
        let next = |a: &Address| match a.state {
            AddressState::Preferred => a.preferred_until.min(a.valid_until),
            _ => a.valid_until,
        };
        let addresses = self.ports.iter().flat_map(|port| port.addresses.iter().map(next));
        let first = addresses.min().unwrap_or(Instant::NEVER);
        let first = first.min(self.autoconf.next_deadline()).min(self.acd.next_deadline());
        first.min(self.routes.next_deadline())
    }
}

/// What all parts of a stack share.
fn core(config: &StackConfig, best: Ladder) -> Core {
    let [k0, k1] = config.seed;
    let cx = tcp::Cx {
        now: Instant::ZERO,
        now_ms: 0,
        pool: Pool::new(config.budget.of(Limit::MbufBytes)),
        counters: Counters::default(),
        budget: config.budget.clone(),
        switches: config.switches,
        ladder: ladder_for(best, config.switches),
        secret: KeyedHash::new(k0, k1),
    };
    let (least, most) = (StackConfig::WRITE_UNIT_MIN_BYTES, StackConfig::WRITE_UNIT_MAX_BYTES);
    Core {
        cx,
        drops: Drops::default(),
        secret: KeyedHash::new(k0, k1),
        write_unit_bytes: config.write_unit_bytes.clamp(least, most),
    }
}

fn ladder_for(best: Ladder, switches: Switches) -> Ladder {
    match (switches.on(Switch::SimdSum), switches.on(Switch::WideSum)) {
        (true, true) => best,
        (true, false) => best.narrow(),
        (false, _) => Ladder::Word64,
    }
}
