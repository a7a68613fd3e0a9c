//! Calls that a server does not expect, and the replies that RFC 5531 requires.

use super::{PROGRAM, peer, server};
use crate::auth::{AuthError, OpaqueAuth};
use crate::message::{Call, Outcome, Reply};
use crate::server::{Incoming, Transport};
use crate::xdr::Encode;
use base::DropReason;

fn call(program: u32, version: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
    let (credential, verifier) = (OpaqueAuth::NONE, OpaqueAuth::NONE);
    let mut out = Vec::new();
    Call { xid: 9, program, version, procedure, credential, verifier, args }.encode(&mut out);
    out
}

fn incoming(bytes: &[u8]) -> Incoming<'_> {
    let (from, transport, reply_max, room) = (peer(), Transport::Stream, 1_000, 1_000);
    Incoming { bytes, more: &[], from, transport, reply_max, room }
}

fn answer(message: &[u8]) -> Option<Outcome<'static>> {
    let mut out = Vec::new();
    if !server().answer(&incoming(message), &mut out) {
        assert!(out.is_empty());
        return None;
    }
    let reply = Reply::parse(&out).expect("a reply");
    assert_eq!(reply.xid, 9);
    Some(match reply.outcome {
        Outcome::Success(results) => Outcome::Success(results.to_vec().leak()),
        Outcome::ProgramMismatch(low, high) => Outcome::ProgramMismatch(low, high),
        Outcome::RpcMismatch(low, high) => Outcome::RpcMismatch(low, high),
        Outcome::Auth(error) => Outcome::Auth(error),
        Outcome::ProgramUnavailable => Outcome::ProgramUnavailable,
        Outcome::ProcedureUnavailable => Outcome::ProcedureUnavailable,
        Outcome::GarbageArguments => Outcome::GarbageArguments,
        Outcome::SystemError => Outcome::SystemError,
    })
}

// RFC 5531 9-a, 9-b, 9-c: A call of another version of RPC is answered with RPC_MISMATCH and the
// versions that are there. A call of a program that is not there is answered with PROG_UNAVAIL. A
// call of a version that is not there is answered with PROG_MISMATCH, the lowest and the highest
// version.
#[test]
fn each_kind_of_wrong_call_gets_its_reply() {
    assert_eq!(answer(&call(PROGRAM, 3, 0, b"1234")), Some(Outcome::Success(&[])));
    assert_eq!(answer(&call(PROGRAM + 1, 3, 0, &[])), Some(Outcome::ProgramUnavailable));
    assert_eq!(answer(&call(PROGRAM, 2, 0, &[])), Some(Outcome::ProgramMismatch(3, 3)));
    assert_eq!(answer(&call(PROGRAM, 3, 99, &[])), Some(Outcome::ProcedureUnavailable));
    assert_eq!(answer(&call(PROGRAM, 3, 1, &[0, 0, 0, 1])), Some(Outcome::GarbageArguments));
    assert_eq!(answer(&call(PROGRAM, 3, 2, &[0; 4])), Some(Outcome::GarbageArguments));
    assert_eq!(answer(&call(PROGRAM, 3, 5, &[])), Some(Outcome::Auth(AuthError::TooWeak)));
    let mut old = call(PROGRAM, 3, 0, &[]);
    old[11] = 1;
    assert_eq!(answer(&old), Some(Outcome::RpcMismatch(2, 2)));
    let mut long = call(PROGRAM, 3, 0, &[0; 500]);
    long[28..32].copy_from_slice(&401_u32.to_be_bytes());
    assert_eq!(answer(&long), Some(Outcome::Auth(AuthError::BadCredential)));
    let echo = [&2_000_u32.to_be_bytes()[..], &[7; 2_000]].concat();
    assert_eq!(answer(&call(PROGRAM, 3, 3, &echo)), Some(Outcome::SystemError));
}

#[test]
fn what_is_no_call_and_what_is_silent_gets_no_reply_and_is_counted() {
    let mut server = server();
    let mut out = Vec::new();
    let whole = call(PROGRAM, 3, 0, &[]);
    for end in 0..whole.len() {
        assert!(!server.answer(&incoming(&whole[..end]), &mut out));
    }
    assert_eq!(server.drops().of(DropReason::RpcMalformed), whole.len() as u64);
    let silent = call(PROGRAM, 3, 4, &[]);
    assert!(!server.answer(&incoming(&silent), &mut out));
    assert_eq!(server.drops().of(DropReason::RpcNoAnswer), 1);
    assert!(out.is_empty());
}
