//! The two ends of a transfer in memory, each a stack with one connection, driven in turns: the
//! sender polls, then writes until less is taken than was given; the receiver polls, then reads
//! until nothing is left.
//!
//! Called by: the loops (`one_thread`, `two_threads`).

use anyhow::{Context, Result, anyhow, bail};
use wirespeed::device::{Doorbell, mem};
use wirespeed::pair::{End, end};
use wirespeed::tcp::Info;
use wirespeed::{
    CallError, Counter, Duration, Event, Instant, ListenConfig, Loan, Owner, TcpHandle,
};

use super::data::{Sink, Source};
use super::file::{Hashed, Reader};
use super::plan::{Goal, Plan};
use super::udp;

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Some work was done.
    Worked,
    /// There was nothing to do.
    Idle,
    /// This end is done, and the other end knows.
    Done,
}

/// The sending end.
pub(super) struct Sender {
    pub(super) end: End,
    pub(super) bell: Doorbell,
    pub(super) sending: Sending,
    pub(super) source: Source,
    pub(super) bytes: u64,
    pub(super) calls: u64,
    /// The connection's statistics at the last look; the connection may be gone at the end.
    pub(super) info: Option<Info>,
}

pub(super) enum Sending {
    Tcp(TcpSender),
    Udp(udp::Sender),
}

/// The receiving end.
pub(super) struct Receiver {
    pub(super) end: End,
    pub(super) bell: Doorbell,
    pub(super) receiving: Receiving,
    pub(super) sink: Sink,
    pub(super) bytes: u64,
    pub(super) calls: u64,
    /// All data has arrived: the transfer is over, and the connection is being closed.
    pub(super) finished: bool,
}

pub(super) enum Receiving {
    Tcp(TcpReceiver),
    Udp(udp::Receiver),
}

/// Both ends, connected.
pub(super) fn connected(plan: &Plan) -> Result<(Sender, Receiver)> {
    let mut source = match &plan.goal {
        Goal::Bytes(bytes) => Source::pattern(*bytes, plan.length),
        Goal::Seconds(_) => Source::pattern(u64::MAX, plan.length),
        Goal::File(path) => Source::File(Box::new(Reader::open(path)?)),
    };
    if let Goal::Seconds(0.0) = plan.goal {
        source.stop();
    }
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).context("the system gives no random seed")?;
    let half = |at| u64::from_le_bytes(core::array::from_fn(|i| seed[at + i]));
    let pair = plan.pair([half(0), half(8)]);
    let (bell, other_bell) = (Doorbell::new(), Doorbell::new());
    let (left, right) = mem::pair_with(&pair.wire, bell.clone(), other_bell.clone());
    let (mut left, mut right) = (end(&pair, left, 1), end(&pair, right, 2));
    let (sending, receiving) = if plan.udp {
        let (sending, receiving) = udp::bound(plan, &mut left, &mut right)?;
        (Sending::Udp(sending), Receiving::Udp(receiving))
    } else {
        let (sending, receiving) = connect(plan, &mut left, &mut right)?;
        (Sending::Tcp(sending), Receiving::Tcp(receiving))
    };
    let sink = match plan.goal {
        Goal::File(_) => Sink::File(Box::new(Hashed::new())),
        _ => Sink::pattern(),
    };
    let sender = Sender { end: left, bell, sending, source, bytes: 0, calls: 0, info: None };
    let receiver = Receiver {
        end: right,
        bell: other_bell,
        receiving,
        sink,
        bytes: 0,
        calls: 0,
        finished: false,
    };
    Ok((sender, receiver))
}

/// Do the handshake in a few nanoseconds of simulated time; the run's clock begins after it.
fn connect(plan: &Plan, left: &mut End, right: &mut End) -> Result<(TcpSender, TcpReceiver)> {
    let to = (right.addr, plan.port).into();
    let listen = ListenConfig { tcp: plan.tcp, ..ListenConfig::default() };
    let listener = right
        .stack
        .tcp_listen(to, listen)
        .map_err(|e| anyhow!("cannot listen on port {}: {e:?}", plan.port))?;
    let now = |us| Instant::ZERO + Duration::from_nanos(us);
    let conn = left
        .stack
        .tcp_connect(to, None, &plan.tcp, Owner::program(), now(1))
        .map_err(|e| anyhow!("cannot connect to {to}: {e:?}"))?;
    for turn in 2..100 {
        left.stack.poll(now(turn));
        right.stack.poll(now(turn));
        while let Some(event) = right.stack.next_event() {
            if let Event::Accept(_) = event
                && let Some(accepted) = right.stack.tcp_accept(listener)
            {
                right.stack.tcp_unlisten(listener);
                let (unit, loan) = (plan.length, plan.loan);
                let sender = TcpSender { conn, unit, loan, held: None, shut: false };
                return Ok((sender, TcpReceiver { conn: accepted, loan }));
            }
        }
    }
    let drops = left.stack.drops().nonzero().chain(right.stack.drops().nonzero());
    let dropped: Vec<_> = drops.map(|(reason, n)| format!("{n} {}", reason.name())).collect();
    bail!("the two stacks did not connect with these switches; dropped: {}", dropped.join(", "))
}

impl Sender {
    /// Poll and write.
    #[inline]
    pub(super) fn turn(&mut self, now: Instant) -> Result<Turn> {
        let polled = self.end.stack.poll(now);
        while self.end.stack.next_event().is_some() {}
        let before = self.bytes;
        let done = match &mut self.sending {
            Sending::Tcp(tcp) => {
                let was_shut = tcp.shut;
                let (bytes, calls) = tcp.write(&mut self.end, &mut self.source)?;
                self.bytes += bytes;
                self.calls += calls;
                if tcp.shut && !was_shut {
                    self.info = self.end.stack.tcp_info(tcp.conn);
                }
                tcp.is_done(&self.end)
            }
            Sending::Udp(udp) => {
                let (bytes, calls) = udp.send(&mut self.end, &mut self.source, now)?;
                self.bytes += bytes;
                self.calls += calls;
                self.source.finished() && udp::all_left(&self.end)
            }
        };
        self.end.stack.flush();
        Ok(if done {
            Turn::Done
        } else if polled > 0 || self.bytes > before {
            Turn::Worked
        } else {
            Turn::Idle
        })
    }

    /// The connection's statistics, or the last ones before it ended.
    pub(super) fn info(&mut self) -> Option<Info> {
        let Sending::Tcp(tcp) = &self.sending else { return None };
        self.info = self.end.stack.tcp_info(tcp.conn).or(self.info);
        self.info
    }

    /// Segments retransmitted.
    pub(super) fn retransmits(&self) -> u64 {
        self.end.stack.counters().of(Counter::TcpRetransmits)
    }

    /// For the error message of a stalled transfer.
    pub(super) fn state(&self) -> String {
        match &self.sending {
            Sending::Tcp(tcp) => format!("{:?}", self.end.stack.tcp_info(tcp.conn)),
            Sending::Udp(_) => format!("{} datagrams sent", self.calls),
        }
    }
}

impl Receiver {
    /// Poll and read.
    #[inline]
    pub(super) fn turn(&mut self, now: Instant) -> Result<Turn> {
        let polled = self.end.stack.poll(now);
        while self.end.stack.next_event().is_some() {}
        if self.finished {
            let done = self.end.stack.connection_count() == 0 || self.is_udp();
            return Ok(if done {
                Turn::Done
            } else if polled > 0 {
                Turn::Worked
            } else {
                Turn::Idle
            });
        }
        let before = self.bytes;
        match &mut self.receiving {
            Receiving::Tcp(tcp) => {
                let (bytes, calls, eof) = tcp.read(&mut self.end, &mut self.sink)?;
                self.bytes += bytes;
                self.calls += calls;
                if eof {
                    self.end.stack.tcp_close(tcp.conn);
                    self.finished = true;
                }
            }
            Receiving::Udp(udp) => {
                let datagrams = udp.receive(&mut self.end)?;
                self.bytes += datagrams * udp.length as u64;
                self.calls += datagrams;
            }
        }
        self.end.stack.flush();
        let worked = polled > 0 || self.bytes > before || self.finished;
        Ok(if worked { Turn::Worked } else { Turn::Idle })
    }

    pub(super) fn is_udp(&self) -> bool {
        matches!(self.receiving, Receiving::Udp(_))
    }

    /// Hash the received data.
    pub(super) fn drain(&mut self) {
        self.sink.drain(&mut self.end.stack);
    }

    /// For the error message of a stalled transfer.
    pub(super) fn state(&self) -> String {
        match &self.receiving {
            Receiving::Tcp(tcp) => format!("{:?}", self.end.stack.tcp_info(tcp.conn)),
            Receiving::Udp(_) => format!("{} datagrams received", self.calls),
        }
    }
}

/// The sending end of a TCP connection.
pub(super) struct TcpSender {
    pub(super) conn: TcpHandle,
    unit: usize,
    loan: bool,
    /// A filled buffer that the stack did not take yet.
    held: Option<Loan>,
    shut: bool,
}

impl TcpSender {
    /// Write until less is taken than was given; returns bytes and calls.
    #[inline]
    fn write(&mut self, end: &mut End, source: &mut Source) -> Result<(u64, u64)> {
        let (mut bytes, mut calls) = (0, 0);
        if self.loan {
            (bytes, calls) = self.write_loaned(end, source)?;
        } else {
            loop {
                let data = source.peek(self.unit);
                if data.is_empty() {
                    break;
                }
                let given = data.len();
                let taken = match end.stack.tcp_write(self.conn, data) {
                    Ok(n) => n,
                    Err(CallError::WouldBlock) => break,
                    Err(error) => bail!("the sending end failed: {error:?}"),
                };
                source.advance(taken);
                bytes += taken as u64;
                calls += 1;
                if taken < given {
                    break;
                }
            }
        }
        if source.finished() && !self.shut && self.held.is_none() {
            self.shut = true;
            end.stack.tcp_shutdown_write(self.conn);
        }
        Ok((bytes, calls))
    }

    /// The same with buffers loaned by the stack, filled here.
    fn write_loaned(&mut self, end: &mut End, source: &mut Source) -> Result<(u64, u64)> {
        let (mut bytes, mut calls) = (0, 0);
        loop {
            let (loan, n) = match self.held.take() {
                Some(loan) => (loan, 0),
                None => {
                    let Some(mut loan) = end.stack.tcp_loan(self.conn) else { break };
                    let n = loan.append(source.peek(loan.room().min(self.unit)));
                    if n == 0 {
                        break;
                    }
                    (loan, n)
                }
            };
            source.advance(n);
            let len = loan.bytes().len() as u64;
            match end.stack.tcp_write_loan(self.conn, loan) {
                Ok(()) => {}
                Err((CallError::WouldBlock, loan)) => {
                    self.held = Some(loan);
                    break;
                }
                Err((error, _)) => bail!("the sending end failed: {error:?}"),
            }
            bytes += len;
            calls += 1;
        }
        Ok((bytes, calls))
    }

    /// Has the other end read everything and closed?
    #[inline]
    fn is_done(&self, end: &End) -> bool {
        self.shut && end.stack.tcp_readable(self.conn).is_none_or(|(_, closed)| closed)
    }
}

/// The receiving end of a TCP connection.
pub(super) struct TcpReceiver {
    pub(super) conn: TcpHandle,
    loan: bool,
}

impl TcpReceiver {
    /// Read until nothing is left; returns bytes, calls, and whether the end was reached.
    #[inline]
    fn read(&self, end: &mut End, sink: &mut Sink) -> Result<(u64, u64, bool)> {
        let (mut bytes, mut calls) = (0, 0);
        if self.loan {
            return self.read_loaned(end, sink);
        }
        loop {
            let room = sink.room();
            let wanted = room.len();
            let n = match end.stack.tcp_read(self.conn, room) {
                Ok(0) if wanted > 0 => return Ok((bytes, calls, true)),
                Ok(n) => n,
                Err(CallError::WouldBlock) => break,
                Err(error) => bail!("the receiving end failed: {error:?}"),
            };
            sink.filled(n)?;
            bytes += n as u64;
            calls += 1;
            if n < wanted || sink.is_full() {
                break;
            }
        }
        Ok((bytes, calls, false))
    }

    /// The same without copying. A pattern is compared in the stack's buffers; buffers of a file
    /// are kept to be hashed later.
    fn read_loaned(&self, end: &mut End, sink: &mut Sink) -> Result<(u64, u64, bool)> {
        let (mut bytes, mut calls) = (0, 0);
        if let Sink::Pattern { checker, .. } = sink {
            let mut checked = Ok(());
            let look = |piece: &[u8]| {
                calls += 1;
                if checked.is_ok() {
                    checked = checker.check(piece);
                }
            };
            return match end.stack.tcp_read_in_place(self.conn, look) {
                Ok(n) => checked.map(|()| (n as u64, calls, n == 0)),
                Err(CallError::WouldBlock) => Ok((0, 0, false)),
                Err(error) => bail!("the receiving end failed: {error:?}"),
            };
        }
        while !sink.is_full() {
            let m = match end.stack.tcp_read_mbuf(self.conn) {
                Ok(Some(m)) => m,
                Ok(None) => return Ok((bytes, calls, true)),
                Err(CallError::WouldBlock) => break,
                Err(error) => bail!("the receiving end failed: {error:?}"),
            };
            bytes += m.len() as u64;
            calls += 1;
            sink.took(m, &mut end.stack)?;
        }
        Ok((bytes, calls, false))
    }
}
