//! `ttcp -t HOST` and `ttcp -r` over a device: one connection, with any TCP at the other end,
//! because the data is a plain byte stream. One thread polls, moves data, and sleeps in poll(2).
//!
//! Called by: `run.rs`.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, anyhow, bail};
use wirespeed::base::addr::unspecified;
use wirespeed::tcp::{Error, Info, State};
use wirespeed::{
    CallError, Counter, Duration, Event, Instant, IpVersion, ListenConfig, Owner, TcpHandle,
};

use super::errors::{NoAnswer, sentence, unreachable};
use super::one_thread::TICK;
use super::plan::{Goal, Plan};
use super::progress::{Interval, Progress};
use super::role::Role;
use super::stream::{Input, Output};
use crate::clock::{Interrupt, Lap, Stopwatch};
use crate::control_service::ControlService;
use crate::outside::Outside;

/// Keepalive probes. The user timeout is divided into one part more than that: the first probe
/// follows one silent part, and the last has one part to be answered in.
const KEEPALIVE_PROBES: u8 = 3;
/// How long the peer may take to close after it has acknowledged everything.
const LINGER: Duration = Duration::from_secs(2);
/// Bytes moved before the stack is polled again.
const TURN_BYTES: usize = 256 << 10;
/// Sleep while something other than the device may become ready: standard input, frames held by a
/// fault.
const SHORT: Duration = Duration::from_millis(1);

/// The result of a transfer.
pub(super) struct Moved {
    pub(super) bytes: u64,
    pub(super) calls: u64,
    pub(super) lap: Lap,
    pub(super) interrupted: bool,
    pub(super) sha256: Option<String>,
    pub(super) intervals: Vec<Interval>,
    /// The connection's last statistics.
    pub(super) info: Option<Info>,
}

/// A transfer in progress.
pub(super) struct Transfer<'a> {
    pub(super) outside: Outside,
    plan: &'a Plan,
    interrupt: &'a Interrupt,
    control: ControlService,
    next_tick: Instant,
    interrupted: bool,
    bytes: u64,
    calls: u64,
    progress: Progress,
    conn: Option<TcpHandle>,
    info: Option<Info>,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(
        (outside, control): (Outside, ControlService),
        plan: &'a Plan,
        interrupt: &'a Interrupt,
    ) -> Transfer<'a> {
        let next_tick = Instant::ZERO;
        Transfer {
            outside,
            plan,
            interrupt,
            control,
            next_tick,
            interrupted: false,
            bytes: 0,
            calls: 0,
            progress: Progress::new(plan),
            conn: None,
            info: None,
        }
    }

    /// Move everything.
    pub(super) fn run(&mut self, role: Role) -> Result<Moved> {
        let ended = match role {
            Role::Transmit(host) => self.transmit(host),
            Role::Receive => self.receive(),
        };
        let clock = self.outside.clock;
        let retransmits = self.outside.stack.counters().of(Counter::TcpRetransmits);
        self.progress.at(clock.now(), self.bytes, retransmits);
        self.control.finish(|| clock.now(), &mut [("outside", &mut self.outside.stack)]);
        // An error says how many bytes were moved before.
        let far = |error: anyhow::Error| match self.bytes {
            0 => error,
            bytes => error.context(format!("after {bytes} bytes")),
        };
        let (lap, sha256) = ended.map_err(far)?;
        let (bytes, calls, interrupted) = (self.bytes, self.calls, self.interrupted);
        let (intervals, info) = (self.progress.intervals(), self.info);
        Ok(Moved { bytes, calls, lap, interrupted, sha256, intervals, info })
    }

    fn transmit(&mut self, host: IpAddr) -> Result<(Lap, Option<String>)> {
        let mut input = Input::open(self.plan)?;
        let Some(conn) = self.connect(SocketAddr::new(host, self.plan.port))? else {
            return Ok((Lap::default(), None));
        };
        let watch = Stopwatch::start(self.outside.clock);
        // Standard input is sent to its end, as long as that takes.
        let until = match self.plan.goal {
            Goal::Seconds(s) if self.plan.sources => {
                self.outside.clock.now() + Duration::from_nanos((s * 1e9) as u64)
            }
            _ => Instant::NEVER,
        };
        loop {
            self.outside.turn();
            while self.outside.stack.next_event().is_some() {}
            if self.interrupted || self.outside.clock.now() >= until {
                input.stop();
            }
            let before = self.bytes;
            self.write(conn, &mut input)?;
            // Behind the write: a look between an ACK and the write that it makes room for would
            // see an empty connection.
            self.tick();
            if input.is_finished() {
                break;
            }
            if self.bytes == before && !self.interrupted {
                let short = if input.may_wait() { SHORT } else { TICK };
                self.sleep(short)?;
            }
        }
        self.outside.stack.tcp_shutdown_write(conn);
        self.finish(conn)?;
        Ok((watch.lap(), input.sha256()))
    }

    /// Write until no more is taken, at most [`TURN_BYTES`].
    fn write(&mut self, conn: TcpHandle, input: &mut Input) -> Result<()> {
        let mut turn = 0;
        while turn < TURN_BYTES {
            let data = input.peek(self.plan.length)?;
            let given = data.len();
            if given == 0 {
                return Ok(());
            }
            let taken = match self.outside.stack.tcp_write(conn, data) {
                Ok(taken) => taken,
                Err(CallError::WouldBlock) => return Ok(()),
                Err(error) => bail!(self.failed(error)),
            };
            input.advance(taken);
            turn += taken;
            self.bytes += taken as u64;
            self.calls += 1;
            if taken < given {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Wait until the peer has acknowledged everything, and has closed or had time for that.
    fn finish(&mut self, conn: TcpHandle) -> Result<()> {
        let (mut sent_at, mut stop_at) = (None, None);
        let mut room = vec![0; 16 << 10];
        loop {
            let worked = self.outside.turn();
            while self.outside.stack.next_event().is_some() {}
            // Discard what the peer sends back, so that its window stays open.
            let end = match self.outside.stack.tcp_read(conn, &mut room) {
                Ok(n) => n == 0,
                Err(CallError::WouldBlock) => false,
                Err(error) => bail!(self.failed(error)),
            };
            let now = self.outside.clock.now();
            let sent = self.outside.stack.tcp_is_sent(conn);
            let since = *sent_at.get_or_insert(now);
            if !sent {
                sent_at = None;
            }
            // After Ctrl-C, counted bytes are still delivered if that takes no longer than
            // [`LINGER`].
            let stop_at = match self.tick() {
                true => *stop_at.get_or_insert(now + LINGER),
                false => Instant::NEVER,
            };
            if sent && (end || self.interrupted || now.since(since) > LINGER) {
                break;
            }
            if now >= stop_at {
                self.outside.stack.tcp_abort(conn);
                break;
            }
            if worked == 0 {
                self.sleep(TICK)?;
            }
        }
        self.observe(self.outside.clock.now());
        self.outside.stack.tcp_close(conn);
        self.outside.turn();
        self.outside.stack.flush();
        Ok(())
    }

    fn receive(&mut self) -> Result<(Lap, Option<String>)> {
        let mut output = Output::open(self.plan)?;
        let Some(conn) = self.accept()? else { return Ok((Lap::default(), None)) };
        let watch = Stopwatch::start(self.outside.clock);
        let mut room = vec![0; self.plan.length.max(64 << 10)];
        'transfer: loop {
            let worked = self.outside.turn();
            while self.outside.stack.next_event().is_some() {}
            if self.tick() {
                break;
            }
            let (mut turn, mut dry) = (0, false);
            while turn < TURN_BYTES && !dry {
                match self.outside.stack.tcp_read(conn, &mut room) {
                    Ok(0) => break 'transfer,
                    Ok(n) => {
                        output.write(&room[..n])?;
                        turn += n;
                        self.bytes += n as u64;
                        self.calls += 1;
                    }
                    Err(CallError::WouldBlock) => dry = true,
                    Err(error) => bail!(self.failed(error)),
                }
            }
            if dry && worked == 0 {
                self.sleep(TICK)?;
            }
        }
        let lap = watch.lap();
        let sha256 = output.close()?;
        self.observe(self.outside.clock.now());
        self.outside.stack.tcp_close(conn);
        let gone = self.outside.clock.now() + LINGER;
        while self.outside.stack.connection_count() > 0 && self.outside.clock.now() < gone {
            if self.outside.turn() == 0 && self.sleep(TICK).is_err() {
                break;
            }
        }
        self.outside.stack.flush();
        Ok((lap, sha256))
    }

    /// Connect to the host; `None` if interrupted before the handshake ended.
    fn connect(&mut self, to: SocketAddr) -> Result<Option<TcpHandle>> {
        let now = self.outside.clock.now();
        let config = self.config();
        let conn = self
            .outside
            .stack
            .tcp_connect(to, None, &config, Owner::program(), now)
            .map_err(|e| anyhow!("cannot connect to {to}: {}", unreachable(e)))?;
        loop {
            let worked = self.outside.turn();
            while self.outside.stack.next_event().is_some() {}
            match self.outside.stack.tcp_state(conn) {
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
                    self.conn = Some(conn);
                    return Ok(Some(conn));
                }
            }
            if self.tick() {
                self.outside.stack.tcp_abort(conn);
                return Ok(None);
            }
            if worked == 0 {
                self.sleep(TICK)?;
            }
        }
    }

    /// Accept the first connection; `None` if interrupted before.
    fn accept(&mut self) -> Result<Option<TcpHandle>> {
        let at = SocketAddr::new(unspecified(IpVersion::V4), self.plan.port);
        let listen = ListenConfig { tcp: self.config(), ..ListenConfig::default() };
        let listener = self
            .outside
            .stack
            .tcp_listen(at, listen)
            .map_err(|e| anyhow!("cannot listen on port {}: {e:?}", self.plan.port))?;
        loop {
            let worked = self.outside.turn();
            while let Some(event) = self.outside.stack.next_event() {
                if let Event::Accept(_) = event
                    && let Some(conn) = self.outside.stack.tcp_accept(listener)
                {
                    self.outside.stack.tcp_unlisten(listener);
                    self.conn = Some(conn);
                    return Ok(Some(conn));
                }
            }
            if self.tick() {
                return Ok(None);
            }
            if worked == 0 {
                self.sleep(TICK)?;
            }
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

    /// Has Ctrl-C been pressed? Also polls the control service every [`TICK`].
    fn tick(&mut self) -> bool {
        let now = self.outside.clock.now();
        self.interrupted |= self.interrupt.noted();
        if now >= self.next_tick {
            // What was written and waits for the end of the turn is on its way for who looks.
            self.outside.stack.flush();
            self.control.poll(now, &mut [("outside", &mut self.outside.stack)]);
            self.next_tick = now + self.control.look_within(TICK);
            self.observe(now);
        }
        self.interrupted
    }

    /// Note the connection's statistics, for progress lines and the report.
    fn observe(&mut self, now: Instant) {
        let Some(conn) = self.conn else { return };
        let stack = &self.outside.stack;
        self.info = stack.tcp_info(conn).or(self.info);
        let retransmits = stack.counters().of(Counter::TcpRetransmits);
        self.progress.at(now, self.bytes, retransmits);
    }

    fn sleep(&mut self, most: Duration) -> Result<()> {
        // Polling the device releases frames that a fault holds back.
        let most = if self.plan.fault.is_some() { most.min(SHORT) } else { most };
        let until = self.outside.clock.now() + self.control.look_within(most);
        // Only the first Ctrl-C ends a sleep; its descriptor stays readable.
        let interrupt = (!self.interrupted).then(|| self.interrupt.descriptor());
        self.outside.wait(until, interrupt).map(drop)
    }

    /// Why a call failed, with the device's own error.
    fn failed(&self, error: CallError) -> String {
        let why = match error {
            CallError::Failed(error) => sentence(error),
            _ => "the connection is closed",
        };
        match self.outside.trouble() {
            Some(trouble) => format!("{why}; {trouble}"),
            None => why.to_owned(),
        }
    }
}
