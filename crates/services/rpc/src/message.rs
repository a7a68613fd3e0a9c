//! Calls and replies as they are on the wire (RFC 5531 section 9).
//!
//! Called by: clients and servers. Nothing is copied: bodies are slices of the message. Drops:
//! `RpcMalformed`.

use crate::auth::{AuthError, OpaqueAuth};
use crate::limits::AUTH_BYTES_MAX;
use crate::xdr::{DecodeError, Decoder, Encode, put_u32};

/// The version of the protocol.
pub const RPC_VERSION: u32 = 2;
/// The `msg_type` of a call; that of a reply is 1.
pub(crate) const CALL: u32 = 0;
const REPLY: u32 = 1;

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The caller's number of this call.
    pub xid: u32,
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
    /// The credential of the caller.
    pub credential: OpaqueAuth<'a>,
    /// The verifier, which proves the credential.
    pub verifier: OpaqueAuth<'a>,
    /// The arguments.
    pub args: &'a [u8],
}

/// Why a message is not a valid call, and the reply to it if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCall {
    /// It is not a call at all, and gets no reply.
    Malformed,
    /// It is a call that is refused: the call's xid, and the reply.
    Refused(u32, Outcome<'static>),
}

/// The outcome of a call, as in its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// SUCCESS, and the results.
    Success(&'a [u8]),
    /// PROG_UNAVAIL: the server does not have the program.
    ProgramUnavailable,
    /// PROG_MISMATCH: the lowest and the highest version of the program that the server has.
    ProgramMismatch(u32, u32),
    /// PROC_UNAVAIL: the program does not have the procedure.
    ProcedureUnavailable,
    /// GARBAGE_ARGS: the arguments cannot be decoded.
    GarbageArguments,
    /// SYSTEM_ERR: for example, memory is short.
    SystemError,
    /// RPC_MISMATCH: the lowest and the highest version of RPC that the server supports.
    RpcMismatch(u32, u32),
    /// AUTH_ERROR.
    Auth(AuthError),
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The xid of the call.
    pub xid: u32,
    /// The outcome of the call.
    pub outcome: Outcome<'a>,
}

impl<'a> Call<'a> {
    /// Parse a message that is a call.
    ///
    /// # Errors
    /// The message is not a call, or is a call that has to be refused.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Call<'a>, BadCall> {
        let mut from = Decoder::new(message);
        let mut next = || from.u32().map_err(|_| BadCall::Malformed);
        let (xid, kind) = (next()?, next()?);
        if kind != CALL {
            return Err(BadCall::Malformed);
        }
        // RFC 5531 9-a: a call of another RPC version is answered with the versions that are
        // supported.
        if next()? != RPC_VERSION {
            let versions = Outcome::RpcMismatch(RPC_VERSION, RPC_VERSION);
            return Err(BadCall::Refused(xid, versions));
        }
        let (program, version, procedure) = (next()?, next()?, next()?);
        let bad = |error: DecodeError, auth| match error {
            DecodeError::TooLong => BadCall::Refused(xid, Outcome::Auth(auth)),
            _ => BadCall::Malformed,
        };
        let credential = auth(&mut from).map_err(|e| bad(e, AuthError::BadCredential))?;
        let verifier = auth(&mut from).map_err(|e| bad(e, AuthError::BadVerifier))?;
        Ok(Call { xid, program, version, procedure, credential, verifier, args: from.rest() })
    }
}

impl Encode for Call<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let words = [self.xid, CALL, RPC_VERSION, self.program, self.version, self.procedure];
        words.iter().for_each(|&word| put_u32(out, word));
        self.credential.encode(out);
        self.verifier.encode(out);
        out.extend_from_slice(self.args);
    }
}

/// RFC 5531 8.2-a: the body has 400 bytes at most.
#[inline]
fn auth<'a>(from: &mut Decoder<'a>) -> Result<OpaqueAuth<'a>, DecodeError> {
    Ok(OpaqueAuth { flavor: from.u32()?, body: from.opaque(AUTH_BYTES_MAX)? })
}

impl<'a> Reply<'a> {
    /// Parse a message that is a reply.
    ///
    /// # Errors
    /// The message is not a reply.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Reply<'a>, DecodeError> {
        let mut from = Decoder::new(message);
        let (xid, kind, is_denied) = (from.u32()?, from.u32()?, from.u32()?);
        if kind != REPLY {
            return Err(DecodeError::Discriminant);
        }
        let outcome = match is_denied {
            0 => accepted(&mut from)?,
            1 => match from.u32()? {
                0 => Outcome::RpcMismatch(from.u32()?, from.u32()?),
                1 => Outcome::Auth(AuthError::of(from.u32()?)),
                _ => return Err(DecodeError::Discriminant),
            },
            _ => return Err(DecodeError::Discriminant),
        };
        Ok(Reply { xid, outcome })
    }
}

#[inline]
fn accepted<'a>(from: &mut Decoder<'a>) -> Result<Outcome<'a>, DecodeError> {
    auth(from)?;
    Ok(match from.u32()? {
        0 => Outcome::Success(from.rest()),
        1 => Outcome::ProgramUnavailable,
        2 => Outcome::ProgramMismatch(from.u32()?, from.u32()?),
        3 => Outcome::ProcedureUnavailable,
        4 => Outcome::GarbageArguments,
        5 => Outcome::SystemError,
        _ => return Err(DecodeError::Discriminant),
    })
}

impl Encode for Reply<'_> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        let denied = |out: &mut Vec<u8>, words: &[u32]| {
            [self.xid, REPLY, 1].iter().chain(words).for_each(|&word| put_u32(out, word));
        };
        // The verifier of an accepted reply is always AUTH_NONE.
        let accepted = |out: &mut Vec<u8>, words: &[u32]| {
            [self.xid, REPLY, 0, 0, 0].iter().chain(words).for_each(|&word| put_u32(out, word));
        };
        match self.outcome {
            Outcome::Success(results) => {
                accepted(out, &[0]);
                out.extend_from_slice(results);
            }
            Outcome::ProgramUnavailable => accepted(out, &[1]),
            Outcome::ProgramMismatch(low, high) => accepted(out, &[2, low, high]),
            Outcome::ProcedureUnavailable => accepted(out, &[3]),
            Outcome::GarbageArguments => accepted(out, &[4]),
            Outcome::SystemError => accepted(out, &[5]),
            Outcome::RpcMismatch(low, high) => denied(out, &[0, low, high]),
            Outcome::Auth(error) => denied(out, &[1, error as u32]),
        }
    }
}
