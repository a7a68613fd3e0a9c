//! A connection with a host: what it sends and receives in a turn, and its end.
//!
//! Called by: `host.rs`, in turns.
//!
//! What is sent ends with a half close. A connection that only sends waits then until the peer has
//! acknowledged everything, and has closed or had time for that; one that receives, too, waits for
//! the peer's end however long it takes.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use wirespeed::tcp::{Error, Info};
use wirespeed::{CallError, Duration, Instant, TcpHandle};

use super::super::errors::sentence;
use super::super::plan::Plan;
use super::super::stream::{Input, Output};
use crate::network::Network;

/// How long the peer may take to close after it has acknowledged everything, and to acknowledge
/// after Ctrl-C.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// Bytes moved each way before the stack is polled again.
const TURN_BYTES: usize = 256 << 10;

/// What a connection carries.
pub(super) struct Load {
    input: Option<Input>,
    output: Option<Output>,
}

/// Bytes that were moved, by how many calls, and their hash.
#[derive(Clone, Default)]
pub(in crate::ttcp) struct Tally {
    pub(in crate::ttcp) bytes: u64,
    pub(in crate::ttcp) calls: u64,
    pub(in crate::ttcp) sha256: Option<String>,
    /// When all was moved: what was sent is acknowledged, or the peer has ended.
    pub(super) ended_at: Option<Instant>,
}

/// Our end of a connection.
pub(super) struct Connection {
    conn: TcpHandle,
    /// Bytes of a write.
    unit: usize,
    /// There are others.
    has_others: bool,
    load: Load,
    pub(super) sent: Tally,
    pub(super) received: Tally,
    /// All was written, and the end of it.
    is_shut: bool,
    /// When an interrupted one gives up.
    stop_at: Option<Instant>,
    is_over: bool,
    pub(super) info: Option<Info>,
}

impl Load {
    /// Of connection `n`; `block` is that of patterns.
    pub(super) fn open(plan: &Plan, n: usize, block: &Arc<[u8]>) -> Result<Load> {
        let input = plan.sends().then(|| Input::open(plan, n, block)).transpose()?;
        let output = plan.receives().then(|| Output::open(plan)).transpose()?;
        Ok(Load { input, output })
    }
}

impl Connection {
    pub(super) fn new(conn: TcpHandle, load: Load, plan: &Plan) -> Connection {
        Connection {
            conn,
            unit: plan.length,
            has_others: plan.parallel > 1,
            load,
            sent: Tally::default(),
            received: Tally::default(),
            is_shut: false,
            stop_at: None,
            is_over: false,
            info: None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// May there be nothing to send now and something later?
    pub(super) fn may_wait(&self) -> bool {
        !self.is_shut && self.load.input.as_ref().is_some_and(Input::may_wait)
    }

    /// End what is sent.
    pub(super) fn stop(&mut self) {
        if let Some(input) = &mut self.load.input {
            input.stop();
        }
    }

    /// Note the statistics.
    pub(super) fn observe(&mut self, network: &Network) {
        self.info = network.stack.tcp_info(self.conn).or(self.info);
    }

    /// Write and read, and close at the end; did anything move? `room` is for what is read.
    pub(super) fn turn(
        &mut self,
        network: &mut Network,
        room: &mut [u8],
        is_interrupted: bool,
    ) -> Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        let moved = self.write(network)? | self.read(network, room)?;
        let now = network.clock.now();
        if self.may_close(network, now, is_interrupted) {
            self.close(network)?;
            return Ok(true);
        }
        Ok(moved)
    }

    /// Write until no more is taken, at most [`TURN_BYTES`].
    fn write(&mut self, network: &mut Network) -> Result<bool> {
        let Some(input) = self.load.input.as_mut().filter(|_| !self.is_shut) else {
            return Ok(false);
        };
        let mut turn = 0;
        while turn < TURN_BYTES {
            let data = input.peek(self.unit)?;
            let given = data.len();
            if given == 0 {
                break;
            }
            let taken = match network.stack.tcp_write(self.conn, data) {
                Ok(taken) => taken,
                Err(CallError::WouldBlock) => break,
                Err(error) => return Err(failed(network, error, self.has_others)),
            };
            input.advance(taken);
            turn += taken;
            self.sent.bytes += taken as u64;
            self.sent.calls += 1;
            if taken < given {
                break;
            }
        }
        if input.is_finished() {
            network.stack.tcp_shutdown_write(self.conn);
            self.is_shut = true;
        }
        Ok(turn > 0 || self.is_shut)
    }

    /// Read until nothing is left, at most [`TURN_BYTES`]. An end that only sends discards what
    /// the peer sends back, so that the peer's window stays open.
    fn read(&mut self, network: &mut Network, room: &mut [u8]) -> Result<bool> {
        let discards = self.load.output.is_none();
        if self.received.ended_at.is_some() || discards && !self.is_shut {
            return Ok(false);
        }
        let mut turn = 0;
        while turn < TURN_BYTES {
            match network.stack.tcp_read(self.conn, room) {
                Ok(0) => {
                    self.received.ended_at = Some(network.clock.now());
                    return Ok(true);
                }
                Ok(n) => {
                    turn += n;
                    if let Some(output) = &mut self.load.output {
                        output.write(&room[..n])?;
                        self.received.bytes += n as u64;
                        self.received.calls += 1;
                    }
                }
                Err(CallError::WouldBlock) => break,
                Err(error) => return Err(failed(network, error, self.has_others)),
            }
        }
        Ok(turn > 0)
    }

    /// Has everything been moved, or is it not waited for any longer?
    fn may_close(&mut self, network: &mut Network, now: Instant, is_interrupted: bool) -> bool {
        let peer_has_ended = self.received.ended_at.is_some();
        if self.load.input.is_none() {
            return peer_has_ended || is_interrupted;
        }
        if !self.is_shut {
            return false;
        }
        let is_sent = network.stack.tcp_is_sent(self.conn);
        self.sent.ended_at = if is_sent { self.sent.ended_at.or(Some(now)) } else { None };
        let has_lingered = |at: Instant| self.load.output.is_none() && now.since(at) > LINGER;
        if let Some(at) = self.sent.ended_at {
            return peer_has_ended || is_interrupted || has_lingered(at);
        }
        // After Ctrl-C, counted bytes are still delivered if that takes no longer than [`LINGER`].
        let stop_at = self.stop_at.or(is_interrupted.then_some(now + LINGER));
        self.stop_at = stop_at;
        if stop_at.is_some_and(|at| now >= at) {
            self.observe(network);
            network.stack.tcp_abort(self.conn);
            return true;
        }
        false
    }

    fn close(&mut self, network: &mut Network) -> Result<()> {
        self.is_over = true;
        self.observe(network);
        network.stack.tcp_close(self.conn);
        self.sent.sha256 = self.load.input.take().and_then(Input::sha256);
        if let Some(mut output) = self.load.output.take() {
            self.received.sha256 = output.close()?;
        }
        Ok(())
    }
}

/// Why a call failed, with the device's own error.
fn failed(network: &Network, error: CallError, has_others: bool) -> anyhow::Error {
    let why = match error {
        CallError::Failed(Error::Reset) if has_others => {
            "the other end reset a connection: see what it says, and whether its backlog admits as \
             many at once as -P asks for"
        }
        CallError::Failed(error) => sentence(error),
        _ => "the connection is closed",
    };
    match network.trouble() {
        Some(trouble) => anyhow!("{why}; {trouble}"),
        None => anyhow!(why),
    }
}
