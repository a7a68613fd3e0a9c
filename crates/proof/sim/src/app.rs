//! Applications: each end of a connection has a script, which is a list of writes, a list of reads
//! and a way to end. The two lists are carried out side by side.
//!
//! Called by: `world`. All bytes that are read are compared with those that the peer's script
//! writes ([`crate::pattern`]).

mod script;

use core::net::SocketAddr;

use base::{Duration, Instant, Owner};
use mbuf::Mbuf;
use stack::{CallError, ListenerHandle, Stack, TcpHandle};
use tcp::Error;

use crate::pattern::Pattern;
use crate::violation::Violation;
pub use script::{Finish, Read, Script, Write};

/// How an end of a connection opens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Opening {
    /// The end connects at this time of the world.
    Connect { to: SocketAddr, at: Instant },
    /// The end accepts a connection.
    Accept(ListenerHandle),
}

/// The state of an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The end has not begun, or no client has connected.
    Waiting,
    /// The end has a connection.
    Open,
    /// The connection is over; the error is set unless the application ended it.
    Ended(Option<Error>),
}

/// How long an end waits before it tries to connect again, if memory was exhausted.
const RETRY: Duration = Duration::from_millis(100);

/// One end of a connection.
pub struct Endpoint {
    pub(crate) host: usize,
    pub(crate) opening: Opening,
    pub(crate) config: tcp::Config,
    pub(crate) script: Script,
    /// The number of the stream that the end writes, and of the stream that it reads.
    pub(crate) streams: (u64, u64),
    pub(crate) handle: Option<TcpHandle>,
    pub(crate) phase: Phase,
    /// Was the handshake completed?
    pub(crate) was_open: bool,
    /// May the stack accept calls now that it refused the last time?
    pub(crate) ready: bool,
    /// When the wait that the script asks for ends, by the host's clock.
    pub(crate) wake: Instant,
    /// Bytes written and read so far.
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// Has the peer closed its half, and were all of its bytes read?
    pub(crate) saw_end: bool,
    /// How many steps of the two lists are finished.
    pub(crate) steps_done: u64,
    writing: Half,
    reading: Half,
}

/// The progress of a list.
#[derive(Clone, Copy, Default)]
struct Half {
    step: usize,
    /// How many bytes of the current step are done.
    done: u64,
    /// When the step's wait is over.
    until: Option<Instant>,
}

impl Half {
    fn next(&mut self, steps: &mut u64) {
        *self = Half { step: self.step + 1, ..Half::default() };
        *steps += 1;
    }

    /// Is a wait of `length` over? The wait begins with the first call.
    fn waited(&mut self, length: Duration, now: Instant, wake: &mut Instant) -> bool {
        let until = *self.until.get_or_insert(now + length);
        if now < until {
            *wake = (*wake).min(until);
        }
        now >= until
    }
}

impl Endpoint {
    pub(crate) fn new(
        host: usize,
        opening: Opening,
        config: tcp::Config,
        script: Script,
        streams: (u64, u64),
    ) -> Endpoint {
        Endpoint {
            host,
            opening,
            config,
            script,
            streams,
            handle: None,
            phase: Phase::Waiting,
            was_open: false,
            ready: true,
            wake: Instant::NEVER,
            written: 0,
            read: 0,
            saw_end: false,
            steps_done: 0,
            writing: Half::default(),
            reading: Half::default(),
        }
    }

    /// Is the connection over?
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// Does the listener accept connections for this end?
    pub(crate) fn accepts_at(&self, listener: ListenerHandle) -> bool {
        matches!(self.opening, Opening::Accept(own) if own == listener)
    }

    /// Does this end wait because its script says so?
    pub(crate) fn is_asleep(&self) -> bool {
        self.wake != Instant::NEVER
    }

    /// Do everything that can be done now. Returns `true` if anything was done.
    pub(crate) fn drive(
        &mut self,
        stack: &mut Stack,
        pattern: &Pattern,
        now: Instant,
    ) -> Result<bool, Violation> {
        self.ready = false;
        self.wake = Instant::NEVER;
        if self.phase == Phase::Waiting && !self.connect(stack, now) {
            return Ok(false);
        }
        let Some(handle) = self.handle else { return Ok(false) };
        let mut outcome = Ok(());
        // Read first: a reply may depend on what is read, and so may a write that waits for it.
        loop {
            let before = self.steps_done;
            outcome = outcome.and(self.read_some(stack, handle, pattern, now)?);
            outcome = outcome.and(self.write_some(stack, handle, pattern, now));
            if outcome.is_err() || before == self.steps_done {
                break;
            }
        }
        let is_done = self.writing.step == self.script.writes.len()
            && self.reading.step == self.script.reads.len();
        match outcome {
            Err(Error::HostUnreachable) if !self.was_open => self.begin_again(stack, handle, now),
            Err(error) => self.end(stack, handle, Some(error)),
            Ok(()) if is_done => self.end(stack, handle, None),
            Ok(()) => {}
        }
        Ok(true)
    }

    fn end(&mut self, stack: &mut Stack, handle: TcpHandle, error: Option<Error>) {
        if error.is_none() && self.script.finish == Finish::Abort {
            stack.tcp_abort(handle);
        } else {
            stack.tcp_close(handle);
        }
        self.handle = None;
        self.phase = Phase::Ended(error);
        self.wake = Instant::NEVER;
    }

    /// Connect again after the next hop did not answer, as a program would.
    fn begin_again(&mut self, stack: &mut Stack, handle: TcpHandle, now: Instant) {
        stack.tcp_close(handle);
        self.handle = None;
        self.phase = Phase::Waiting;
        self.wake = now + RETRY;
        self.written = 0;
        (self.writing, self.reading) = Default::default();
    }

    /// Connect if it is time to. Returns `true` if the end has a connection.
    fn connect(&mut self, stack: &mut Stack, now: Instant) -> bool {
        let Opening::Connect { to, at } = self.opening else { return self.handle.is_some() };
        if now < at {
            self.wake = at;
            return false;
        }
        match stack.tcp_connect(to, None, &self.config, Owner::program(), now) {
            Ok(handle) => {
                self.handle = Some(handle);
                self.phase = Phase::Open;
                true
            }
            // A limit was reached, for example on memory or on neighbours: try again, as a program
            // would.
            Err(_) => {
                self.wake = now + RETRY;
                false
            }
        }
    }

    /// Carry out steps of the reading half. The outer error is a violation, the inner error is the
    /// connection's.
    fn read_some(
        &mut self,
        stack: &mut Stack,
        handle: TcpHandle,
        pattern: &Pattern,
        now: Instant,
    ) -> Result<Result<(), Error>, Violation> {
        while let Some(&step) = self.script.reads.get(self.reading.step) {
            let got = match step {
                Read::Stop(length) => {
                    if !self.reading.waited(length, now, &mut self.wake) {
                        return Ok(Ok(()));
                    }
                    self.reading.next(&mut self.steps_done);
                    continue;
                }
                Read::Bytes(bytes) if self.reading.done == bytes => {
                    self.reading.next(&mut self.steps_done);
                    continue;
                }
                Read::Bytes(bytes) => {
                    self.copy_out(stack, handle, pattern, bytes - self.reading.done)?
                }
                Read::ToEnd => self.take_mbuf(stack, handle, pattern)?,
            };
            match got {
                Ok(0) => {
                    self.saw_end = true;
                    self.reading.next(&mut self.steps_done);
                }
                Ok(n) => {
                    self.read += n;
                    self.reading.done += n;
                }
                Err(CallError::WouldBlock) => return Ok(Ok(())),
                Err(error) => return Ok(Err(named(error))),
            }
        }
        Ok(Ok(()))
    }

    /// Read up to `most` bytes into a buffer of the program.
    fn copy_out(
        &mut self,
        stack: &mut Stack,
        handle: TcpHandle,
        pattern: &Pattern,
        most: u64,
    ) -> Result<Result<u64, CallError>, Violation> {
        let mut buffer = [0; 4096];
        let room = most.min(buffer.len() as u64) as usize;
        let got = stack.tcp_read(handle, &mut buffer[..room]);
        if let Ok(n) = got {
            self.compare(pattern, &buffer[..n])?;
        }
        Ok(got.map(|n| n as u64))
    }

    /// Read by taking a loaned buffer.
    fn take_mbuf(
        &mut self,
        stack: &mut Stack,
        handle: TcpHandle,
        pattern: &Pattern,
    ) -> Result<Result<u64, CallError>, Violation> {
        let loaned: Option<Mbuf> = match stack.tcp_read_mbuf(handle) {
            Ok(loaned) => loaned,
            Err(error) => return Ok(Err(error)),
        };
        let Some(m) = loaned else { return Ok(Ok(0)) };
        let n = m.len() as u64;
        let compared = self.compare(pattern, m.as_slice());
        stack.give_back(m);
        compared?;
        Ok(Ok(n))
    }

    fn compare(&self, pattern: &Pattern, bytes: &[u8]) -> Result<(), Violation> {
        let stream = self.streams.1;
        pattern.check(stream, self.read, bytes).map_err(|right| {
            let position = self.read + right as u64;
            Violation::new("stream", format!("stream {stream} differs at byte {position}"))
        })
    }

    fn write_some(
        &mut self,
        stack: &mut Stack,
        handle: TcpHandle,
        pattern: &Pattern,
        now: Instant,
    ) -> Result<(), Error> {
        while let Some(&step) = self.script.writes.get(self.writing.step) {
            let is_done = match step {
                Write::Bytes(bytes) => {
                    let left = (bytes - self.writing.done).min(64 << 10) as usize;
                    let data = pattern.at(self.streams.0, self.written, left);
                    match stack.tcp_write(handle, data) {
                        Ok(n) => {
                            self.written += n as u64;
                            self.writing.done += n as u64;
                        }
                        Err(CallError::WouldBlock) => return Ok(()),
                        Err(error) => return Err(named(error)),
                    }
                    self.writing.done == bytes
                }
                Write::AwaitOpen => {
                    if !self.was_open {
                        return Ok(());
                    }
                    true
                }
                Write::AwaitRead(bytes) => {
                    if self.read < bytes {
                        return Ok(());
                    }
                    true
                }
                Write::Sleep(length) => {
                    if !self.writing.waited(length, now, &mut self.wake) {
                        return Ok(());
                    }
                    true
                }
                Write::Finish => {
                    stack.tcp_shutdown_write(handle);
                    true
                }
            };
            if is_done {
                self.writing.next(&mut self.steps_done);
            }
        }
        Ok(())
    }
}

/// The error of a connection that is over. If the stack has no error, the connection was aborted,
/// because its program did not close it.
fn named(error: CallError) -> Error {
    match error {
        CallError::Failed(error) => error,
        CallError::Closed | CallError::WouldBlock => Error::Aborted,
    }
}
