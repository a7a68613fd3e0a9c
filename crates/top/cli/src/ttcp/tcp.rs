//! What an end of a TCP connection in memory writes and reads in a turn, copied or in loaned
//! buffers.
//!
//! Called by: `ends.rs`, which makes the connections, a turn at a time.

use anyhow::{Result, bail};
use wirespeed::pair::End;
use wirespeed::{CallError, Loan, TcpHandle};

use super::data::{Sink, Source};
use super::plan::Plan;

/// The sending end of a TCP connection.
pub(super) struct Sender {
    conn: TcpHandle,
    unit: usize,
    loan: bool,
    /// A filled buffer that the stack did not take yet.
    held: Option<Loan>,
    /// All was written, and the end of it.
    pub(super) shut: bool,
}

impl Sender {
    pub(super) fn new(plan: &Plan, conn: TcpHandle) -> Sender {
        Sender { conn, unit: plan.length, loan: plan.loan, held: None, shut: false }
    }

    /// Write until less is taken than was given; returns bytes and calls.
    #[inline]
    pub(super) fn write(&mut self, end: &mut End, source: &mut Source) -> Result<(u64, u64)> {
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
                    Err(error) => bail!("the sending end failed: {error}"),
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
                Err((error, _)) => bail!("the sending end failed: {error}"),
            }
            bytes += len;
            calls += 1;
        }
        Ok((bytes, calls))
    }
}

/// The receiving end of a TCP connection.
pub(super) struct Receiver {
    conn: TcpHandle,
    loan: bool,
}

impl Receiver {
    pub(super) fn new(plan: &Plan, conn: TcpHandle) -> Receiver {
        Receiver { conn, loan: plan.loan }
    }

    /// Read until nothing is left; returns bytes, calls, and whether the end was reached.
    #[inline]
    pub(super) fn read(&self, end: &mut End, sink: &mut Sink) -> Result<(u64, u64, bool)> {
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
                Err(error) => bail!("the receiving end failed: {error}"),
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
                Err(error) => bail!("the receiving end failed: {error}"),
            };
        }
        while !sink.is_full() {
            let m = match end.stack.tcp_read_mbuf(self.conn) {
                Ok(Some(m)) => m,
                Ok(None) => return Ok((bytes, calls, true)),
                Err(CallError::WouldBlock) => break,
                Err(error) => bail!("the receiving end failed: {error}"),
            };
            bytes += m.len() as u64;
            calls += 1;
            sink.took(m, &mut end.stack)?;
        }
        Ok((bytes, calls, false))
    }
}
