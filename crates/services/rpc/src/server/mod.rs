//! Servers: find the program of a call, and make the reply.
//!
//! Called by: `blocking.rs`, `tasks`, and other code with a transport. RFC 5531 section 9. A call
//! over a stream comes by a [`Session`], one over datagrams by [`Server::answer_datagram`], which
//! answers a repeated call from its cache. Drops: `RpcMalformed`, `RpcNoAnswer`, `RpcRecord`.

mod duplicates;
mod session;
use core::net::SocketAddr;
use core::ops::RangeInclusive;

use base::{DropReason, Drops, Instant, KeyedHash};
pub(crate) use duplicates::Duplicates;
pub use session::{Session, SessionError};

use crate::auth::{AUTH_SYS, AuthError, AuthSys, OpaqueAuth};
use crate::limits::{DATAGRAM_BYTES, PROGRAMS_MAX};
use crate::message::{BadCall, Call, Outcome, Reply};
use crate::xdr::{Decode, DecodeError, Decoder, Encode};

/// How a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// By datagrams: the source may be forged.
    Datagram,
    /// By a stream.
    Stream,
    /// By a socket of this machine ([`Session::local`]): the source is loopback, with a port below
    /// 1024 if the caller is root.
    Local,
}

/// A received message.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The message, without a record mark, or its beginning.
    pub bytes: &'a [u8],
    /// The rest of it, in pieces: only for [`Server::answer_at_once`].
    pub more: &'a [&'a [u8]],
    /// Its source.
    pub from: SocketAddr,
    /// How it came.
    pub transport: Transport,
    /// Bytes that its reply may have.
    pub reply_max: usize,
    /// Bytes of results that a service should not exceed if it has the choice.
    pub room: usize,
}

/// A call as a service gets it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// One of the service's versions.
    pub version: u32,
    /// Any procedure but 0, which the server answers.
    pub procedure: u32,
    /// The arguments, or their beginning.
    pub args: &'a [u8],
    /// The rest of them, in pieces: only for [`Service::call_at_once`].
    pub more: &'a [&'a [u8]],
    /// Its source.
    pub from: SocketAddr,
    /// How it came.
    pub transport: Transport,
    /// The caller's claim about its user.
    pub credential: OpaqueAuth<'a>,
    /// Bytes that the reply should not exceed if the service has the choice: memory for replies is
    /// short while clients do not read theirs.
    pub room: usize,
}

impl<'a> Request<'a> {
    /// Decode the arguments as the type that the procedure takes.
    ///
    /// # Errors
    /// They are of another type, have bytes behind them, or are in pieces.
    pub fn decode<T: Decode<'a>>(&self) -> Result<T, Refusal> {
        if !self.more.is_empty() {
            return Err(Refusal::GarbageArguments);
        }
        Ok(Decoder::whole(self.args)?)
    }

    /// The AUTH_SYS credential.
    ///
    /// # Errors
    /// The credential is another one, or broken: the answer to the caller.
    pub fn auth_sys(&self) -> Result<AuthSys, Refusal> {
        if self.credential.flavor != AUTH_SYS {
            return Err(Refusal::Auth(AuthError::TooWeak));
        }
        let broken = |_| Refusal::Auth(AuthError::BadCredential);
        Decoder::whole(self.credential.body).map_err(broken)
    }
}

/// Why a service has no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// PROC_UNAVAIL.
    ProcedureUnavailable,
    /// GARBAGE_ARGS.
    GarbageArguments,
    /// SYSTEM_ERR.
    SystemError,
    /// AUTH_ERROR.
    Auth(AuthError),
    /// No reply at all.
    Silence,
}

impl From<DecodeError> for Refusal {
    fn from(_: DecodeError) -> Refusal {
        Refusal::GarbageArguments
    }
}

/// Versions of a program.
pub trait Service {
    /// The number of the program.
    fn program(&self) -> u32;
    /// The versions of the program that this service has.
    fn versions(&self) -> RangeInclusive<u32>;
    /// Carry out a call and append its results.
    ///
    /// # Errors
    /// The answer to the caller instead; appended results are removed.
    fn call(&mut self, request: &Request<'_>, results: &mut Vec<u8>) -> Result<(), Refusal>;
    /// [`Service::call`] for a thread that must not wait, for a disk for example. `None`: the call
    /// might wait, and will be made again, with its arguments in one piece; appended results are
    /// removed. The end of the results may be in `bulk`; after that nothing may be appended to
    /// `results`.
    fn call_at_once(
        &mut self,
        _request: &Request<'_>,
        _results: &mut Vec<u8>,
        _bulk: &mut dyn Bulk,
    ) -> Option<Result<(), Refusal>> {
        None
    }
    /// May a repeated call of this procedure be carried out again? If so, its reply is not kept,
    /// which leaves room for other replies.
    fn is_idempotent(&self, _procedure: u32) -> bool {
        false
    }
}

/// May a service wait? If it may not, there are perhaps buffers for the end of its results.
enum Waiting<'a> {
    Allowed,
    Forbidden(&'a mut dyn Bulk),
}

/// The outcome of a call without results.
enum Instead {
    Outcome(Outcome<'static>),
    Silence,
    /// The call might have to wait.
    Later,
}

impl Waiting<'_> {
    fn bulk_bytes(&self) -> usize {
        match self {
            Waiting::Allowed => 0,
            Waiting::Forbidden(bulk) => bulk.bytes(),
        }
    }
}

/// Programs, and the cache of recent replies.
pub struct Server {
    services: Vec<Box<dyn Service + Send>>,
    duplicates: Duplicates,
    answered: u64,
    drops: Drops,
}

impl Server {
    /// A server without programs. `secret` is the key of a hash table: others must not know it.
    pub fn new(secret: KeyedHash) -> Server {
        let duplicates = Duplicates::new(secret);
        Server { services: Vec::new(), duplicates, answered: 0, drops: Drops::default() }
    }

    /// Add versions of a program.
    ///
    /// # Panics
    /// If there are too many.
    pub fn add(&mut self, service: impl Service + Send + 'static) {
        assert!(self.services.len() < PROGRAMS_MAX, "{PROGRAMS_MAX} programs are the most");
        self.services.push(Box::new(service));
    }

    /// Append the reply to a message; true if there is a reply.
    pub fn answer(&mut self, incoming: &Incoming<'_>, out: &mut Vec<u8>) -> bool {
        self.reply(incoming, Waiting::Allowed, out).unwrap_or(false)
    }

    /// [`Server::answer`] for a thread that must not wait; the end of the reply may be in `bulk`.
    /// `None`: the call might wait, and nothing was appended.
    pub fn answer_at_once(
        &mut self,
        incoming: &Incoming<'_>,
        out: &mut Vec<u8>,
        bulk: &mut dyn Bulk,
    ) -> Option<bool> {
        self.reply(incoming, Waiting::Forbidden(bulk), out)
    }

    fn reply(
        &mut self,
        incoming: &Incoming<'_>,
        mut waiting: Waiting<'_>,
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        let call = match Call::parse(incoming.bytes) {
            Ok(call) => call,
            Err(BadCall::Refused(xid, outcome)) => {
                Reply { xid, outcome }.encode(out);
                return Some(true);
            }
            Err(BadCall::Malformed) => {
                self.drops.count(DropReason::RpcMalformed);
                return Some(false);
            }
        };
        let at = out.len();
        Reply { xid: call.xid, outcome: Outcome::Success(&[]) }.encode(out);
        let mut done = self.carry_out(&call, incoming, &mut waiting, out);
        if done.is_ok() && out.len() - at + waiting.bulk_bytes() > incoming.reply_max {
            done = Err(Instead::Outcome(Outcome::SystemError));
        }
        if let Err(instead) = done {
            out.truncate(at);
            if let Waiting::Forbidden(bulk) = waiting {
                bulk.clear();
            }
            match instead {
                Instead::Outcome(outcome) => Reply { xid: call.xid, outcome }.encode(out),
                Instead::Silence => {
                    self.drops.count(DropReason::RpcNoAnswer);
                    return Some(false);
                }
                Instead::Later => return None,
            }
        }
        self.answered += 1;
        Some(true)
    }

    /// Append the results, or return the outcome without results.
    fn carry_out(
        &mut self,
        call: &Call<'_>,
        incoming: &Incoming<'_>,
        waiting: &mut Waiting<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Instead> {
        let is_it = |s: &&mut Box<dyn Service + Send>| {
            s.program() == call.program && s.versions().contains(&call.version)
        };
        let Some(service) = self.services.iter_mut().find(is_it) else {
            return Err(Instead::Outcome(self.absent(call.program)));
        };
        if call.procedure == 0 {
            // By convention procedure 0 does nothing, with any arguments (RFC 5531 section 12.1).
            return Ok(());
        }
        let (version, procedure, args) = (call.version, call.procedure, call.args);
        let (from, transport, credential) = (incoming.from, incoming.transport, call.credential);
        let (more, room) = (incoming.more, incoming.room);
        let request = Request { version, procedure, args, more, from, transport, credential, room };
        let done = match waiting {
            Waiting::Allowed => service.call(&request, out),
            Waiting::Forbidden(bulk) => {
                service.call_at_once(&request, out, *bulk).ok_or(Instead::Later)?
            }
        };
        done.map_err(|refusal| {
            Instead::Outcome(match refusal {
                Refusal::ProcedureUnavailable => Outcome::ProcedureUnavailable,
                Refusal::GarbageArguments => Outcome::GarbageArguments,
                Refusal::SystemError => Outcome::SystemError,
                Refusal::Auth(error) => Outcome::Auth(error),
                Refusal::Silence => return Instead::Silence,
            })
        })
    }

    /// RFC 5531 9-b, 9-c: no such program, or none of that version.
    fn absent(&self, program: u32) -> Outcome<'static> {
        let versions =
            || self.services.iter().filter(|s| s.program() == program).map(|s| s.versions());
        let low = versions().map(|v| *v.start()).min();
        let high = versions().map(|v| *v.end()).max();
        match (low, high) {
            (Some(low), Some(high)) => Outcome::ProgramMismatch(low, high),
            _ => Outcome::ProgramUnavailable,
        }
    }

    /// Append the reply to a datagram; true if there is a reply. A call that comes again from the
    /// same port with the same xid gets the same reply, and is not carried out again.
    pub fn answer_datagram(
        &mut self,
        datagram: &[u8],
        from: SocketAddr,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> bool {
        let key = self.must_keep(datagram).then(|| self.duplicates.key(datagram, from));
        if let Some(reply) = key.and_then(|key| self.duplicates.find(key, now)) {
            out.extend_from_slice(reply);
            return true;
        }
        let at = out.len();
        let (bytes, transport, reply_max) = (datagram, Transport::Datagram, DATAGRAM_BYTES);
        let room = reply_max;
        if !self.answer(&Incoming { bytes, more: &[], from, transport, reply_max, room }, out) {
            return false;
        }
        if let Some(key) = key {
            self.duplicates.insert(key, &out[at..], now);
        }
        true
    }

    /// Must the reply to this call be kept? Null calls change nothing; refusals are made again, and
    /// idempotent calls are carried out again.
    pub(crate) fn must_keep(&self, message: &[u8]) -> bool {
        let Ok(call) = Call::parse(message) else { return false };
        call.procedure != 0
            && self.services.iter().any(|s| {
                s.program() == call.program
                    && s.versions().contains(&call.version)
                    && !s.is_idempotent(call.procedure)
            })
    }

    /// Calls that were answered, not counting answers from the cache.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Repeated calls that the cache has answered.
    pub fn repeated(&self) -> u64 {
        self.duplicates.found()
    }

    /// Dropped messages, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }
}

// [`Bulk`]: buffers for the end of results, which is long data; it is not copied again.
//
// `tasks` fills the buffers of a stack's stream.

/// Buffers for long data.
pub trait Bulk {
    /// Let `fill` write into the next free memory and return the number of bytes that it wrote,
    /// which this returns too. In front of the first buffer there will be `head` bytes, all of the
    /// reply so far, which must not grow any more. `None`: there is no memory, and the bytes filled
    /// so far are of no use.
    fn fill(&mut self, head: usize, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<usize>;
    /// Bytes that were filled.
    fn bytes(&self) -> usize;
    /// Give everything back.
    fn clear(&mut self);
}

/// No buffers: services append all of their results.
#[derive(Clone, Copy, Debug)]
pub struct NoBulk;

impl Bulk for NoBulk {
    fn fill(&mut self, _: usize, _: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<usize> {
        None
    }

    fn bytes(&self) -> usize {
        0
    }

    fn clear(&mut self) {}
}
