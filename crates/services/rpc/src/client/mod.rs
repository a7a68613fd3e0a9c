//! Clients: the state of calls that wait for their replies, over streams and over datagrams.
//!
//! Called by: `blocking.rs`, `tasks`, and other code with a transport. RFC 5531 section 9. A
//! [`CallId`] stands for a call until its reply has come, it has timed out or its connection has
//! ended.

mod datagram;
mod stream;

use base::Duration;
pub use datagram::{DatagramClient, DatagramCounts};
pub use stream::{Replied, StreamClient};

use crate::auth::{AuthError, Credential};
use crate::limits;
use crate::limits::CALLS_MAX;
use crate::message::{CALL, Outcome, RPC_VERSION};
use crate::record::RecordError;
use crate::xdr::{DecodeError, Encode, put_u32};

/// Where the procedure number is in a call, in bytes from the start.
const PROCEDURE_AT: usize = 20;

/// The program that a client calls, and the client's sizes and limits. The default sizes are those
/// of `clnttcp_create` and `clntudp_bufcreate`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The credential of the caller.
    pub credential: Credential,
    /// How many bytes of calls are collected before they are written (`sendsz`). One call is always
    /// written whole and by one write, whatever its size.
    pub send_bytes: usize,
    /// How many bytes are read at a time (`recvsz`).
    pub receive_bytes: usize,
    /// The most bytes of a call and of a reply over a stream.
    pub record_max: usize,
    /// How many calls may wait for replies at a time.
    pub calls: usize,
    /// How long a call may take.
    pub timeout: Duration,
}

impl Config {
    /// A client of this program, without credentials, with the default sizes and limits.
    pub fn new(program: u32, version: u32) -> Config {
        Config {
            program,
            version,
            credential: Credential::None,
            send_bytes: limits::BUFFER_UNIT,
            receive_bytes: limits::BUFFER_UNIT,
            record_max: limits::RECORD_BYTES,
            calls: limits::CALLS,
            timeout: limits::CALL_TIMEOUT,
        }
    }

    /// The bytes of a call in front of its arguments. The xid and the procedure are filled in for
    /// each call.
    fn template(&self) -> Vec<u8> {
        let mut template = Vec::new();
        [0, CALL, RPC_VERSION, self.program, self.version, 0]
            .iter()
            .for_each(|&word| put_u32(&mut template, word));
        self.credential.encode(&mut template);
        crate::auth::OpaqueAuth::NONE.encode(&mut template);
        template
    }
}

/// Append a call to `out`.
#[inline]
fn put_call<A: Encode + ?Sized>(
    out: &mut Vec<u8>,
    template: &[u8],
    xid: u32,
    procedure: u32,
    args: &A,
) {
    let at = out.len();
    out.extend_from_slice(template);
    out[at..at + 4].copy_from_slice(&xid.to_be_bytes());
    out[at + PROCEDURE_AT..at + PROCEDURE_AT + 4].copy_from_slice(&procedure.to_be_bytes());
    args.encode(out);
}

// The table of calls that wait. The low bits of an xid are the index of the call's slot. The other
// bits differ each time, so that a late reply matches no call.
//
// Limit: `CALLS_MAX`.

/// Identifies a call of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(crate) u32);

#[derive(Debug)]
struct Slot<T> {
    xid: u32,
    call: Option<T>,
}

/// A table of calls, which holds a `T` for each call.
#[derive(Debug)]
struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u16>,
    calls: usize,
    bits: u32,
}

impl<T> Slots<T> {
    /// A table for at most `calls` calls at a time.
    fn new(calls: usize) -> Slots<T> {
        let calls = calls.clamp(1, CALLS_MAX);
        // There is one index more than calls: the one for calls without a reply.
        let bits = (calls + 1).next_power_of_two().trailing_zeros();
        Slots { slots: Vec::new(), free: Vec::new(), calls, bits }
    }

    /// How many calls wait.
    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many calls may wait.
    fn most(&self) -> usize {
        self.calls
    }

    /// Add a call; the upper bits of its xid come from `upper`. Returns the xid; `None` if the
    /// table is full.
    #[inline]
    fn insert(&mut self, upper: u32, call: T) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => usize::from(index),
            None if self.slots.len() < self.calls => {
                self.slots.push(Slot { xid: 0, call: None });
                self.slots.len() - 1
            }
            None => return None,
        };
        let xid = (upper << self.bits) | index as u32;
        self.slots[index] = Slot { xid, call: Some(call) };
        Some(xid)
    }

    /// An xid that no call ever waits for.
    fn unused(&self, upper: u32) -> u32 {
        (upper << self.bits) | ((1 << self.bits) - 1)
    }

    #[inline]
    fn slot(&mut self, xid: u32) -> Option<&mut Slot<T>> {
        let index = xid & ((1 << self.bits) - 1);
        self.slots.get_mut(index as usize).filter(|slot| slot.xid == xid)
    }

    /// The entry of a call that waits.
    #[inline]
    fn get(&mut self, xid: u32) -> Option<&mut T> {
        self.slot(xid)?.call.as_mut()
    }

    /// Forget a call that waits, and return it.
    #[inline]
    fn remove(&mut self, xid: u32) -> Option<T> {
        let call = self.slot(xid)?.call.take()?;
        self.free.push((xid & ((1 << self.bits) - 1)) as u16);
        Some(call)
    }

    /// All calls that wait.
    fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().filter_map(|slot| Some((slot.xid, slot.call.as_ref()?)))
    }
}

/// Why a call has no results.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// PROG_UNAVAIL.
    #[error("the server has no such program: ask its port mapper (rpcinfo -p) what it has")]
    ProgramUnavailable,
    /// PROG_MISMATCH.
    #[error("the server has versions {0} to {1} of the program: ask for one of these")]
    ProgramMismatch(u32, u32),
    /// PROC_UNAVAIL.
    #[error("the server's version of the program has no such procedure")]
    ProcedureUnavailable,
    /// GARBAGE_ARGS.
    #[error("the server cannot decode the arguments: are they of this version of the program?")]
    GarbageArguments,
    /// SYSTEM_ERR.
    #[error("the server could not do it (SYSTEM_ERR): look at its log")]
    SystemError,
    /// RPC_MISMATCH.
    #[error("the server speaks versions {0} to {1} of ONC RPC, this client version 2")]
    RpcMismatch(u32, u32),
    /// AUTH_ERROR.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The results are not those of the procedure.
    #[error("the results are not of the expected type")]
    GarbageResults(#[from] DecodeError),
    /// No reply came within the call's time. The call may have been carried out.
    #[error("no reply in time: does the server run, and is there a route to it?")]
    TimedOut,
    /// The connection ended before the reply. The call may have been carried out.
    #[error("the connection ended before the reply; the call may have been carried out")]
    Disconnected,
    /// The call is longer than the transport or the limit allows.
    #[error("the call has {0} bytes, at most {1} are possible: send less, or use TCP")]
    TooLong(usize, usize),
    /// As many calls wait as the limit allows.
    #[error("{0} calls wait for replies already: wait for one, or raise the limit")]
    TooManyCalls(usize),
    /// The stream cannot be read any further.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The transport failed.
    #[error("the transport failed")]
    Transport(#[from] std::io::Error),
}

/// The results, or the error that the server returned.
fn results(outcome: Outcome<'_>) -> Result<&[u8], CallError> {
    Err(match outcome {
        Outcome::Success(results) => return Ok(results),
        Outcome::ProgramUnavailable => CallError::ProgramUnavailable,
        Outcome::ProgramMismatch(low, high) => CallError::ProgramMismatch(low, high),
        Outcome::ProcedureUnavailable => CallError::ProcedureUnavailable,
        Outcome::GarbageArguments => CallError::GarbageArguments,
        Outcome::SystemError => CallError::SystemError,
        Outcome::RpcMismatch(low, high) => CallError::RpcMismatch(low, high),
        Outcome::Auth(error) => CallError::Auth(error),
    })
}

#[cfg(test)]
mod tests {
    use core::error::Error;

    use super::*;

    #[test]
    fn a_cause_is_said_by_itself_alone() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        for error in [
            CallError::Transport(refused),
            CallError::GarbageResults(DecodeError::Short),
            CallError::Record(RecordError::TooManyFragments),
            CallError::Auth(AuthError::BadCredential),
        ] {
            let mut cause = error.source();
            while let Some(one) = cause {
                assert!(!error.to_string().contains(&one.to_string()), "{error}");
                cause = one.source();
            }
        }
    }
}
