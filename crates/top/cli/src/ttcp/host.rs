//! `ttcp -t HOST` and `ttcp -r` over a device: connections with any TCP at the other end, because
//! the data is a plain byte stream. One thread polls, moves data, and sleeps in poll(2).
//!
//! Called by: `run.rs`.

mod connection;

use std::net::SocketAddr;

use anyhow::{Result, anyhow, bail};
pub(super) use connection::Tally;
use connection::{Connection, LINGER, Load};
use wirespeed::base::addr::unspecified;
use wirespeed::tcp::{Error, State};
use wirespeed::{Duration, Instant, IpVersion, ListenConfig, Owner, TcpHandle};

use super::Role;
use super::data::block;
use super::errors::{NoAnswer, sentence, unreachable};
use super::flow::Flow;
use super::one_thread::TICK;
use super::plan::{Direction, Goal, Label, Plan};
use super::progress::{Count, Progress};
use crate::clock::{Interrupt, Lap, Stopwatch};
use crate::network::Network;

/// Keepalive probes. The user timeout is divided into one part more than that: the first probe
/// follows one silent part, and the last has one part to be answered in.
const KEEPALIVE_PROBES: u8 = 3;
/// Sleep while something other than the device may become ready: standard input, frames held by a
/// fault.
const SHORT: Duration = Duration::from_millis(1);

/// The result of a transfer.
pub(super) struct Moved {
    pub(super) flows: Vec<Flow>,
    pub(super) sent: Tally,
    pub(super) received: Tally,
    pub(super) lap: Lap,
    pub(super) interrupted: bool,
}

/// A transfer in progress.
pub(super) struct Transfer<'a> {
    pub(super) network: Network,
    plan: &'a Plan,
    interrupt: &'a Interrupt,
    next_tick: Instant,
    interrupted: bool,
    progress: Progress,
    /// Once all are there.
    connections: Vec<Connection>,
    began: Instant,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(network: Network, plan: &'a Plan, interrupt: &'a Interrupt) -> Transfer<'a> {
        Transfer {
            network,
            plan,
            interrupt,
            next_tick: Instant::ZERO,
            interrupted: false,
            // A receiver does not know how much comes.
            progress: Progress::new(plan, plan.bytes().filter(|_| plan.sends())),
            connections: Vec::new(),
            began: Instant::ZERO,
        }
    }

    /// Move everything.
    pub(super) fn run(&mut self, role: Role) -> Result<Moved> {
        let ended = self.transfer(role);
        self.progress.at(self.network.clock.now(), self.counts());
        let (sent, received) = (self.total(|c| &c.sent), self.total(|c| &c.received));
        // An error says how many bytes were moved before.
        let far = |error: anyhow::Error| match sent.bytes + received.bytes {
            0 => error,
            bytes => error.context(format!("after {bytes} bytes")),
        };
        let lap = ended.map_err(far)?;
        let flows = self.flows(lap);
        Ok(Moved { flows, sent, received, lap, interrupted: self.interrupted })
    }

    fn transfer(&mut self, role: Role) -> Result<Lap> {
        let block = block(self.plan.length);
        let load = |n| Load::open(self.plan, n, &block);
        // Before anything is sent: a file may not open.
        let loads = (0..self.plan.parallel).map(load).collect::<Result<Vec<Load>>>()?;
        let conns = match role {
            Role::Connect(host) => self.connect(SocketAddr::new(host, self.plan.port))?,
            Role::Accept => self.accept()?,
        };
        let Some(conns) = conns else { return Ok(Lap::default()) };
        let pairs = conns.into_iter().zip(loads);
        self.connections = pairs.map(|(c, load)| Connection::new(c, load, self.plan)).collect();
        let watch = Stopwatch::start(self.network.clock);
        self.began = self.network.clock.now();
        self.progress.at(self.began, self.counts());
        // Standard input is sent to its end, as long as that takes.
        let until = match self.plan.goal {
            Goal::Seconds(s) if self.plan.sources => {
                self.began + Duration::from_nanos((s * 1e9) as u64)
            }
            _ => Instant::NEVER,
        };
        let mut room = vec![0; self.plan.length.max(64 << 10)];
        while !self.connections.iter().all(Connection::is_over) {
            self.poll();
            let mut has_moved = false;
            let stops = self.interrupted || self.network.clock.now() >= until;
            for connection in &mut self.connections {
                if stops {
                    connection.stop();
                }
                has_moved |= connection.turn(&mut self.network, &mut room, self.interrupted)?;
            }
            self.tick();
            // Clients look behind the writes: between an ACK and the write that it makes room for
            // they would see an empty connection.
            let may_wait = self.connections.iter().any(Connection::may_wait);
            let most = if may_wait { SHORT } else { TICK };
            self.rest(if has_moved { Duration::ZERO } else { most })?;
        }
        let lap = watch.lap();
        self.leave();
        Ok(lap)
    }

    /// Let the last segments go: of connections on which the peer ends what it sends, until they
    /// are gone.
    fn leave(&mut self) {
        let gone = self.network.clock.now() + LINGER;
        self.poll();
        while self.plan.receives()
            && self.network.stack.connection_count() > 0
            && self.network.clock.now() < gone
        {
            if self.rest(TICK).is_err() {
                break;
            }
            self.poll();
        }
        self.network.stack.flush();
    }

    /// Poll the stack. Connections are looked at whatever happened to them.
    fn poll(&mut self) {
        self.network.turn();
        while self.network.stack.next_event().is_some() {}
    }

    /// What all connections moved together one way. Only a single one has a hash.
    fn total(&self, of: impl Fn(&Connection) -> &Tally) -> Tally {
        let add = |all: Tally, one: Tally| Tally {
            bytes: all.bytes + one.bytes,
            calls: all.calls + one.calls,
            ..one
        };
        self.connections.iter().map(|connection| of(connection).clone()).fold(Tally::default(), add)
    }

    /// A flow's end of its connection.
    fn tally(&self, label: Label) -> Option<(&Connection, &Tally)> {
        let connection = self.connections.get(label.stream? - 1)?;
        Some(match label.direction {
            Direction::Tx => (connection, &connection.sent),
            Direction::Rx => (connection, &connection.received),
        })
    }

    /// What the flows have moved, in the order of [`Plan::labels`].
    fn counts(&self) -> Vec<Count> {
        let count = |label| {
            self.tally(label).map_or(Count::default(), |(connection, tally)| Count {
                bytes: tally.bytes,
                retransmits: connection.info.map_or(0, |info| u64::from(info.retransmits)),
            })
        };
        self.plan.labels().map(count).collect()
    }

    /// The figures of each flow.
    fn flows(&mut self, lap: Lap) -> Vec<Flow> {
        let intervals = self.progress.intervals();
        let is_alone = intervals.len() == 1;
        let flow = |(label, intervals): (Label, _)| {
            let (info, bytes, ended_at) = match self.tally(label) {
                Some((connection, tally)) => (connection.info, tally.bytes, tally.ended_at),
                None => (None, 0, None),
            };
            let sends = label.direction == Direction::Tx;
            let since = |at: Instant| at.since(self.began).as_secs_f64();
            Flow {
                label,
                sent: sends.then_some(bytes),
                received: (!sends).then_some(bytes),
                seconds: ended_at.filter(|_| !is_alone).map_or(lap.wall_s, since),
                info,
                retransmits: info.filter(|_| sends).map(|info| u64::from(info.retransmits)),
                intervals,
            }
        };
        self.plan.labels().zip(intervals).map(flow).collect()
    }

    /// Connect to the host; `None` if interrupted before the last handshake ended.
    fn connect(&mut self, to: SocketAddr) -> Result<Option<Vec<TcpHandle>>> {
        let now = self.network.clock.now();
        let config = self.config();
        let open = |_| {
            let opened = self.network.stack.tcp_connect(to, None, &config, Owner::program(), now);
            opened.map_err(|e| anyhow!("cannot connect to {to}: {}", unreachable(e)))
        };
        let conns = (0..self.plan.parallel).map(open).collect::<Result<Vec<_>>>()?;
        let mut open = 0;
        while let Some(&conn) = conns.get(open) {
            self.poll();
            match self.network.stack.tcp_state(conn) {
                Some((State::SynSent | State::SynReceived, _)) => {}
                Some((_, Some(error))) => {
                    let what = format!("cannot connect to {to}: {}", sentence(error));
                    match error {
                        Error::TimedOut | Error::HostUnreachable => bail!(NoAnswer(what)),
                        _ => bail!(what),
                    }
                }
                None => bail!("cannot connect to {to}: the connection is gone"),
                Some(_) => {
                    open += 1;
                    continue;
                }
            }
            if self.tick() {
                conns.iter().for_each(|&conn| self.network.stack.tcp_abort(conn));
                return Ok(None);
            }
            self.rest(TICK)?;
        }
        Ok(Some(conns))
    }

    /// Accept the first connections; `None` if interrupted before they were there.
    fn accept(&mut self) -> Result<Option<Vec<TcpHandle>>> {
        let at = SocketAddr::new(unspecified(IpVersion::V4), self.plan.port);
        let listen = ListenConfig { tcp: self.config(), ..ListenConfig::default() };
        let listener = self
            .network
            .stack
            .tcp_listen(at, listen)
            .map_err(|e| anyhow!("cannot listen on port {}: {e}", self.plan.port))?;
        let mut conns = Vec::new();
        loop {
            self.poll();
            while conns.len() < self.plan.parallel
                && let Some(conn) = self.network.stack.tcp_accept(listener)
            {
                conns.push(conn);
            }
            if conns.len() == self.plan.parallel {
                self.network.stack.tcp_unlisten(listener);
                return Ok(Some(conns));
            }
            if self.tick() {
                conns.iter().for_each(|&conn| self.network.stack.tcp_abort(conn));
                return Ok(None);
            }
            self.rest(TICK)?;
        }
    }

    fn config(&self) -> wirespeed::tcp::Config {
        let mut config = self.plan.tcp;
        let part = self.plan.user_timeout.as_nanos() / u64::from(KEEPALIVE_PROBES + 1);
        config.user_timeout = Some(self.plan.user_timeout);
        config.keepalive_idle = Some(Duration::from_nanos(part));
        config.keepalive_interval = Duration::from_nanos(part);
        config.keepalive_probes_max = KEEPALIVE_PROBES;
        config
    }

    /// Has Ctrl-C been pressed? Also notes statistics every [`TICK`].
    fn tick(&mut self) -> bool {
        let now = self.network.clock.now();
        self.interrupted |= self.interrupt.noted();
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.observe(now);
        }
        self.interrupted
    }

    /// Note the connections' statistics, for progress lines and the report.
    fn observe(&mut self, now: Instant) {
        if !self.connections.is_empty() {
            self.connections.iter_mut().for_each(|connection| connection.observe(&self.network));
            self.progress.at(now, self.counts());
        }
    }

    /// The end of a turn, which sleeps for `most` at most.
    fn rest(&mut self, most: Duration) -> Result<()> {
        // Polling the device releases frames that a fault holds back.
        let most = if self.plan.fault.is_some() { most.min(SHORT) } else { most };
        let until = self.network.clock.now() + most;
        // Only the first Ctrl-C ends a sleep; its descriptor stays readable.
        let interrupt = (!self.interrupted).then(|| self.interrupt.descriptor());
        self.network.rest(until, interrupt)
    }
}
