//! The routes of zebra: read from its connection, kept in the RIB, and programmed into the stack.
//!
//! Called by: `daemon/engine.rs`, for each turn first [`Feed::read`], then [`Feed::prepare`], and
//! [`Feed::program`] under the stack's lock, until nothing is left or the turn's time is over. What
//! waits is bounded: while it is much, nothing is read, and TCP pushes back. Routes stay when the
//! connection ends; after the next one's replay those that were not sent again are swept.
//! `kernel.rs` reads the routes that daemons write into the kernel, `shown.rs` has what `show` says
//! of both.

mod kernel;
mod shown;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU8;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration as Span, Instant as Monotone};

use base::Instant;
use fpm::{Change, Discard, Fpm, Hop, NextHops, Reachable};
use rib::{Best, Dest, Next, Offer, Origin, Replay, Rib};
use stack::{Route, RouteOrigin, Stack};

use crate::applied::AppliedPort;
use crate::daemon::{info, warning};

/// Bytes of one read.
const READ: usize = 64 << 10;
/// The most that is read in a turn: bytes, and time.
const READ_MOST: (usize, Span) = (1 << 20, Span::from_millis(2));
/// While so many changes wait for the stack, nothing is read.
const PENDING_MOST: usize = 4_096;
/// Changes for one time that the stack is locked; a change takes one to three microseconds.
const BATCH: usize = 32;
/// The same while forwarding waits for the lock. It is not less, because the lock is handed over
/// for each time.
const WHILE_AWAITED: Span = Span::from_micros(10);
/// Prefixes that are looked at in a turn, if next hops changed that many share.
const REFRESH: usize = 4_096;
/// Prefixes that are looked at in a step of a sweep.
const SWEEP: usize = 1_024;
/// Interfaces without a port that are logged in one session.
const WARNED_MOST: usize = 16;
/// The distance as a metric of the stack: routes of the file have 0 unless they say otherwise.
const METRIC: u32 = 20;

struct Session {
    socket: TcpStream,
    from: SocketAddr,
    has_sent: bool,
}

/// A prefix whose routes in the stack are to be these.
struct Pending {
    dest: Dest,
    /// `None`: it has none of a daemon.
    to: Option<Reachable>,
    origin: Origin,
}

impl Pending {
    fn new(dest: Dest, to: Option<Best<'_, Reachable>>) -> Pending {
        let (to, origin) = match to {
            Some(Best { next, origin }) => (Some(next.clone()), origin),
            None => (None, Origin::Fpm),
        };
        Pending { dest, to, origin }
    }

    fn origin(&self) -> RouteOrigin {
        match self.origin {
            Origin::Rtnetlink => RouteOrigin::Rtnetlink,
            _ => RouteOrigin::Fpm,
        }
    }
}

/// Zebra's routes.
pub struct Feed {
    fpm: Fpm,
    rib: Rib<Reachable>,
    session: Option<Session>,
    replay: Option<Replay>,
    interfaces: BTreeMap<u32, String>,
    /// What the stack does not have yet.
    pending: VecDeque<Pending>,
    refreshes: bool,
    /// Origins whose routes are swept, one after the other.
    sweeps: VecDeque<Origin>,
    kernel: Option<kernel::Socket>,
    /// Interfaces without a port that were logged.
    warned: BTreeSet<u32>,
    has_warned_of: [bool; 2],
    buffer: Box<[u8]>,
    /// Next hops whose interface is no port's, each time that they were to be programmed.
    unknown_interfaces: u64,
    /// The time of the last turn, in seconds.
    now_s: u32,
}

/// Numbers about the routes of zebra.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// zebra is connected.
    pub is_connected: bool,
    /// Routes in the RIB.
    pub routes: usize,
    /// Nexthops and groups with a number.
    pub nexthops: usize,
    /// Changes that the stack does not have yet.
    pub pending: usize,
    /// Next hops by an interface that is no port's.
    pub unknown_interfaces: u64,
    /// What zebra sent.
    pub counts: fpm::Counts,
    /// What the kernel reported, if it is asked.
    pub kernel: Option<kernel::Figures>,
    /// Routes of the kernel in the RIB.
    pub kernel_routes: usize,
    /// The longest time that forwarding has waited while routes were programmed, in CPU time.
    pub pause: Span,
}

/// What is logged once in a session.
#[derive(Clone, Copy)]
enum Once {
    FibFull,
    RibFull,
}

impl Feed {
    /// No routes yet, and at most so many.
    pub(crate) fn new(most: usize) -> Feed {
        Feed {
            fpm: Fpm::default(),
            rib: Rib::new(most),
            session: None,
            replay: None,
            interfaces: BTreeMap::new(),
            pending: VecDeque::new(),
            refreshes: false,
            sweeps: VecDeque::new(),
            kernel: None,
            unknown_interfaces: 0,
            now_s: 0,
            warned: BTreeSet::new(),
            has_warned_of: [false; 2],
            buffer: Box::default(),
        }
    }

    /// A connection has come.
    pub(crate) fn begin(&mut self, from: SocketAddr, socket: OwnedFd, now: Instant) {
        if let Some(session) = &self.session {
            let other = session.from;
            warning(&format!(
                "frr: a connection from {from} is refused: zebra is connected from {other}"
            ));
            return;
        }
        let socket = TcpStream::from(socket);
        if let Err(why) = socket.set_nonblocking(true) {
            warning(&format!("frr: the connection from {from} cannot be used ({why})"));
            return;
        }
        self.fpm.begin();
        self.rib.begin(Origin::Fpm);
        self.replay = Some(Replay::begin(now));
        self.sweeps.retain(|origin| *origin != Origin::Fpm);
        self.session = Some(Session { socket, from, has_sent: false });
        self.warned.clear();
        self.has_warned_of = [false; 2];
        self.buffer = vec![0; READ].into();
        let count = self.rib.count_of(Origin::Fpm);
        info(&format!("frr: zebra has connected from {from}; {count} routes are kept meanwhile"));
    }

    fn end(&mut self, why: &str) {
        let Some(session) = self.session.take() else { return };
        self.replay = None;
        self.buffer = Box::default();
        let count = self.rib.count_of(Origin::Fpm);
        warning(&format!(
            "frr: the connection from {} ended: {why}; its {count} routes stay until zebra has \
             connected again and sent its routes",
            session.from
        ));
    }

    /// The ports of interfaces, by zebra's numbers.
    pub(crate) fn set_interfaces(&mut self, interfaces: BTreeMap<u32, String>) {
        self.interfaces = interfaces;
        self.ports_changed();
    }

    /// Ports may be others than before: all routes are programmed again.
    pub(crate) fn ports_changed(&mut self) {
        self.rib.refresh_all();
        self.refreshes = !self.rib.is_empty();
        self.warned.clear();
    }

    /// There is nothing to read, and nothing to program.
    pub(crate) fn is_idle(&self) -> bool {
        self.session.is_none() && self.kernel.is_none() && !self.has_work()
    }

    /// For poll(2), while there is room for what comes.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let zebra = self.session.as_ref().map(|session| session.socket.as_fd());
        let kernel = self.kernel.as_ref().map(kernel::Socket::descriptor);
        let has_room = self.pending.len() < PENDING_MOST;
        zebra.into_iter().chain(kernel).filter(move |_| has_room)
    }

    /// Has the stack to be programmed?
    pub(crate) fn has_work(&self) -> bool {
        !self.pending.is_empty() || self.refreshes || !self.sweeps.is_empty()
    }

    /// When to call [`Feed::read`] although nothing comes.
    pub(crate) fn due(&self) -> Instant {
        let has_sent = self.session.as_ref().is_some_and(|session| session.has_sent);
        let replay = self.replay.as_ref().filter(|_| has_sent);
        let kernel = self.kernel.as_ref().map_or(Instant::NEVER, kernel::Socket::due);
        replay.map_or(Instant::NEVER, Replay::due).min(kernel)
    }

    /// What routes show of themselves from now on.
    pub(crate) fn at(&mut self, now: Instant) -> &Feed {
        self.now_s = seconds(now);
        self
    }

    /// For metrics.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            is_connected: self.session.is_some(),
            routes: self.rib.count_of(Origin::Fpm),
            nexthops: self.fpm.nexthops(),
            pending: self.pending.len(),
            unknown_interfaces: self.unknown_interfaces,
            counts: self.fpm.counts().clone(),
            kernel: self.kernel.as_ref().map(kernel::Socket::figures),
            kernel_routes: self.rib.count_of(Origin::Rtnetlink),
            pause: Span::ZERO,
        }
    }

    fn replay_is_over(&self, now: Instant) -> bool {
        let has_sent = self.session.as_ref().is_some_and(|session| session.has_sent);
        self.replay.as_ref().is_some_and(|replay| has_sent && replay.due() <= now)
    }

    /// Read what has come, and sweep when the replay is over.
    pub(crate) fn read(&mut self, now: Instant) {
        let (began, mut bytes) = (Monotone::now(), 0);
        let (bytes_most, time_most) = READ_MOST;
        while self.pending.len() < PENDING_MOST && bytes < bytes_most && began.elapsed() < time_most
        {
            let Some(session) = &mut self.session else { break };
            match session.socket.read(&mut self.buffer) {
                Ok(0) => return self.end("zebra has closed it"),
                Ok(count) => {
                    bytes += count;
                    session.has_sent = true;
                    self.replay.iter_mut().for_each(|replay| replay.hear(now));
                    if let Err(why) = self.take(count, now) {
                        return self.end(&why.to_string());
                    }
                }
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) => return self.end(&why.to_string()),
            }
        }
        self.read_kernel(now);
        if self.replay_is_over(now) && self.pending.is_empty() {
            self.replay = None;
            self.sweeps.push_back(Origin::Fpm);
        }
    }

    /// Take bytes of the buffer.
    fn take(&mut self, count: usize, now: Instant) -> Result<(), fpm::Violation> {
        let Feed { fpm, rib, pending, refreshes, buffer, .. } = self;
        let at_s = seconds(now);
        let mut is_full = false;
        let taken = fpm.receive(&buffer[..count], &mut |change| {
            let fib =
                &mut |dest, to: Option<Best<'_, _>>| pending.push_back(Pending::new(dest, to));
            match change {
                Change::NextHops { id, to } => {
                    *refreshes |= rib.set_id(Origin::Fpm, id, to.filter(leads_somewhere));
                }
                Change::Replace { key, next_hops, metric, protocol } => {
                    let next = match next_hops {
                        NextHops::Id(id) => Next::Id(id),
                        NextHops::Inline(these) => Next::These(these),
                    };
                    let offer = Offer { next, metric, protocol, at_s };
                    let dest = Dest { table: key.table, prefix: key.prefix };
                    is_full |= rib.set(Origin::Fpm, dest, offer, fib).is_err();
                }
                Change::Delete { key } => {
                    rib.remove(Origin::Fpm, Dest { table: key.table, prefix: key.prefix }, fib);
                }
            }
        });
        if is_full {
            self.warn_once(Once::RibFull);
        }
        taken
    }

    /// A step of the sweep.
    fn sweep(&mut self, origin: Origin) {
        let Feed { fpm, rib, pending, refreshes, .. } = self;
        let fib = &mut |dest, to: Option<Best<'_, _>>| pending.push_back(Pending::new(dest, to));
        let Some(swept) = rib.sweep(origin, SWEEP, fib) else { return };
        self.sweeps.pop_front();
        if origin == Origin::Rtnetlink {
            return self.swept_kernel(swept.routes);
        }
        fpm.sweep(&mut |change| {
            if let Change::NextHops { id, to } = change {
                *refreshes |= rib.set_id(Origin::Fpm, id, to.filter(leads_somewhere));
            }
        });
        let count = rib.count_of(Origin::Fpm);
        let gone = swept.routes;
        info(&format!(
            "frr: zebra has sent its {count} routes; {gone} that it did not send again are removed"
        ));
        for table in swept.unnamed_tables {
            warning(&format!(
                "frr: zebra sent nothing of table {table}, so its routes stay: zebra sends only \
                 main tables of VRFs again; change a route of the table to have it sent"
            ));
        }
    }

    fn warn_once(&mut self, what: Once) {
        if core::mem::replace(&mut self.has_warned_of[what as usize], true) {
            return;
        }
        warning(match what {
            Once::FibFull => "frr: the table is full: raise limit routes",
            Once::RibFull => "frr: zebra has more routes than the limit routes allows: raise it",
        });
    }

    /// Find what is to be programmed next, if nothing waits for it. It needs no stack.
    pub(crate) fn prepare(&mut self) {
        if !self.pending.is_empty() {
            return;
        }
        if let Some(&origin) = self.sweeps.front() {
            return self.sweep(origin);
        }
        let Feed { rib, pending, refreshes, .. } = self;
        let fib = &mut |dest, to: Option<Best<'_, _>>| pending.push_back(Pending::new(dest, to));
        *refreshes = *refreshes && !rib.refresh(REFRESH, fib);
    }

    /// Program some routes, fewer if forwarding waits for the stack. Returns the time since which
    /// it may have waited: the begin of the change at whose end it was first seen to wait, or of
    /// the last one.
    pub(crate) fn program(
        &mut self,
        stack: &mut Stack,
        ports: &BTreeMap<String, AppliedPort>,
        forwarding_waits: impl Fn() -> bool,
    ) -> Option<Monotone> {
        let (began, mut since, mut is_seen) = (Monotone::now(), None, false);
        for _ in 0..BATCH {
            let Some(next) = self.pending.pop_front() else { break };
            let now = Monotone::now();
            if !is_seen {
                since = Some(now);
            } else if now - began >= WHILE_AWAITED {
                self.pending.push_front(next);
                break;
            }
            self.program_one(stack, ports, next);
            is_seen = is_seen || forwarding_waits();
        }
        since
    }

    fn program_one(
        &mut self,
        stack: &mut Stack,
        ports: &BTreeMap<String, AppliedPort>,
        pending: Pending,
    ) {
        let (dest, origin) = (pending.dest, pending.origin());
        let (hops, how) = match pending.to {
            Some(Reachable::Hops(hops)) => (hops, None),
            Some(Reachable::Discard(how)) => (Vec::new(), Some(how)),
            None => (Vec::new(), None),
        };
        let of =
            |route: Route| Route { table: dest.table, metric: METRIC, ..route.with_origin(origin) };
        let mut routes = Vec::with_capacity(hops.len().max(1));
        routes.extend(how.map(|how| of(Route::discarding(dest.prefix, discard(how)))));
        let is_alone = hops.len() == 1;
        for hop in hops {
            match self.interfaces.get(&hop.interface).and_then(|name| ports.get(name)) {
                Some(port) => routes.push(of(route(dest, hop, port.id.0, is_alone))),
                None => self.warn_of(hop.interface),
            }
        }
        // The new ones first, so that packets always have one.
        let added = routes.iter().filter(|route| stack.add_route((*route).clone())).count();
        if added < routes.len() {
            self.warn_once(Once::FibFull);
        }
        let is_left =
            |route: &Route| routes.iter().any(|r| (r.port, r.via) == (route.port, route.via));
        stack.remove_routes_to(dest.prefix, dest.table, |route| {
            route.origin.is_of_daemon() && !(is_left(route) && route.origin == origin)
        });
    }

    fn warn_of(&mut self, interface: u32) {
        self.unknown_interfaces += 1;
        if self.warned.len() < WARNED_MOST && self.warned.insert(interface) {
            warning(&format!(
                "frr: routes by interface {interface} are not used: no port has it; name a port \
                 as the interface, or let a port use it"
            ));
        }
    }
}

fn seconds(at: Instant) -> u32 {
    u32::try_from(at.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}

/// Is there a next hop, or a reason that there is none?
fn leads_somewhere(reachable: &Reachable) -> bool {
    !matches!(reachable, Reachable::Hops(hops) if hops.is_empty())
}

/// The route by one next hop, which shares packets with others unless it is alone.
fn route(dest: Dest, hop: Hop, port: u16, is_alone: bool) -> Route {
    let route = Route::new(dest.prefix, hop.gateway, port);
    if is_alone {
        return route;
    }
    let most = u16::from(u8::MAX);
    // From 1 to 255.
    let weight = NonZeroU8::new(hop.weight.clamp(1, most) as u8).unwrap_or(NonZeroU8::MIN);
    route.shared(weight)
}

fn discard(how: Discard) -> stack::route::Discard {
    match how {
        Discard::Blackhole => stack::route::Discard::Blackhole,
        Discard::Unreachable => stack::route::Discard::Unreachable,
        Discard::Prohibit => stack::route::Discard::Prohibit,
    }
}
