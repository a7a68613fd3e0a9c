//! Servers: find the program that a call is for, and make the reply.
//!
//! Called by: `blocking.rs`, `tasks`, and other code with a transport. RFC 5531 section 9. Calls
//! over a stream come through a [`Session`], calls over datagrams through
//! [`Server::answer_datagram`], which answers a repeated call from its cache. Drops:
//! `RpcMalformed`, `RpcNoAnswer`, `RpcRecord`.

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

/// The transport by which a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// By datagrams: the source address may be forged.
    Datagram,
    /// By a stream.
    Stream,
    /// By a Unix socket ([`Session::local`]). The source is a loopback address, with a port below
    /// 1024 if the caller is root.
    Local,
}

/// A received message.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The message, or its beginning, without a record mark.
    pub bytes: &'a [u8],
    /// The rest of the message, in pieces: only for [`Server::answer_at_once`].
    pub more: &'a [&'a [u8]],
    /// The sender's address.
    pub from: SocketAddr,
    /// The transport by which it came.
    pub transport: Transport,
    /// The most bytes of the reply.
    pub reply_max: usize,
    /// The most bytes of results, if the service can choose to return fewer.
    pub room: usize,
}

/// A call as it is passed to a service.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The version, one of those that the service has.
    pub version: u32,
    /// The procedure: any one but 0, which the server answers itself.
    pub procedure: u32,
    /// The arguments, or their beginning.
    pub args: &'a [u8],
    /// The rest of the arguments, in pieces: only for [`Service::call_at_once`].
    pub more: &'a [&'a [u8]],
    /// The caller's address.
    pub from: SocketAddr,
    /// The transport by which the call came.
    pub transport: Transport,
    /// The caller's claim about its user.
    pub credential: OpaqueAuth<'a>,
    /// How many bytes the results should have at most, if the service can choose. It is small when
    /// memory for replies is short because clients do not read theirs.
    pub room: usize,
}

impl<'a> Request<'a> {
    /// Decode the arguments as the type that the procedure takes.
    ///
    /// # Errors
    /// The arguments are of another type, bytes follow them, or they are in pieces.
    pub fn decode<T: Decode<'a>>(&self) -> Result<T, Refusal> {
        if !self.more.is_empty() {
            return Err(Refusal::GarbageArguments);
        }
        Ok(Decoder::whole(self.args)?)
    }

    /// The AUTH_SYS credential.
    ///
    /// # Errors
    /// The credential is of another flavor, or malformed. The error is the answer to the caller.
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

/// A service: one or several versions of a program.
pub trait Service {
    /// The number of the program.
    fn program(&self) -> u32;
    /// The versions of the program that this service has.
    fn versions(&self) -> RangeInclusive<u32>;
    /// Carry out a call and append its results.
    ///
    /// # Errors
    /// The answer to the caller instead of results. Results that were appended are removed.
    fn call(&mut self, request: &Request<'_>, results: &mut Vec<u8>) -> Result<(), Refusal>;
    /// Like [`Service::call`], on a thread that must not wait, for example for a disk. `None`: the
    /// call might have to wait. It will be made again, with its arguments in one piece, and results
    /// that were appended are removed. The end of the results may be in `bulk`; once it is, nothing
    /// may be appended to `results`.
    fn call_at_once(
        &mut self,
        _request: &Request<'_>,
        _results: &mut Vec<u8>,
        _bulk: &mut dyn Bulk,
    ) -> Option<Result<(), Refusal>> {
        None
    }
    /// May a repeated call of this procedure be carried out again? If so, its reply is not cached,
    /// which leaves room for other replies.
    fn is_idempotent(&self, _procedure: u32) -> bool {
        false
    }
}

/// May a service wait? If not, there may be buffers for the end of its results.
enum Waiting<'a> {
    Allowed,
    Forbidden(&'a mut dyn Bulk),
}

/// What a call has instead of results.
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

/// A server: services, and the cache of recent replies.
pub struct Server {
    services: Vec<Box<dyn Service + Send>>,
    duplicates: Duplicates,
    answered: u64,
    drops: Drops,
}

impl Server {
    /// A server without services. `secret` is the key of a hash table, which nobody else may know.
    pub fn new(secret: KeyedHash) -> Server {
        let duplicates = Duplicates::new(secret);
        Server { services: Vec::new(), duplicates, answered: 0, drops: Drops::default() }
    }

    /// Add a service: one or several versions of a program.
    ///
    /// # Panics
    /// There are too many services.
    pub fn add(&mut self, service: impl Service + Send + 'static) {
        assert!(self.services.len() < PROGRAMS_MAX, "a server has {PROGRAMS_MAX} programs at most");
        self.services.push(Box::new(service));
    }

    /// Append the reply to a message. Returns true if there is a reply.
    pub fn answer(&mut self, incoming: &Incoming<'_>, out: &mut Vec<u8>) -> bool {
        self.reply(incoming, Waiting::Allowed, out).unwrap_or(false)
    }

    /// Like [`Server::answer`], on a thread that must not wait. The end of the reply may be in
    /// `bulk`. `None`: the call might have to wait, and nothing was appended.
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
            // By convention procedure 0 does nothing, whatever its arguments (RFC 5531 section
            // 12.1).
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

    /// RFC 5531 9-b, 9-c: the answer to a call of a program, or of a version, that the server does
    /// not have.
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

    /// Append the reply to a datagram. Returns true if there is a reply. If the same call comes
    /// again from the same port, it gets the same reply, and is not carried out again.
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

    /// Must the reply to this call be cached? It need not be for null calls, which change nothing,
    /// for refusals, which are made again, and for idempotent calls, which are carried out again.
    pub(crate) fn must_keep(&self, message: &[u8]) -> bool {
        let Ok(call) = Call::parse(message) else { return false };
        call.procedure != 0
            && self.services.iter().any(|s| {
                s.program() == call.program
                    && s.versions().contains(&call.version)
                    && !s.is_idempotent(call.procedure)
            })
    }

    /// How many calls were answered, without answers from the cache.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// How many repeated calls were answered from the cache.
    pub fn repeated(&self) -> u64 {
        self.duplicates.found()
    }

    /// Dropped messages, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }
}

// [`Bulk`]: buffers for long data at the end of results, which is not copied again.
//
// Module `tasks` uses the buffers of a stack's stream for this.

/// Buffers for long data.
pub trait Bulk {
    /// Let `fill` write into the next free memory, and return the number of bytes that it wrote.
    /// `head` bytes are left free in front of the first buffer: they are for the reply so far,
    /// which must not grow any more. `None`: there is no memory, and the bytes filled so far must
    /// not be used.
    fn fill(&mut self, head: usize, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<usize>;
    /// How many bytes were filled.
    fn bytes(&self) -> usize;
    /// Give all buffers back.
    fn clear(&mut self);
}

/// An implementation without buffers: services append all of their results.
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
