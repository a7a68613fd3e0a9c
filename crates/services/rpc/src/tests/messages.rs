//! Our messages, compared with those of crate `onc_rpc`.

use onc_rpc::auth::{AuthFlavor, AuthUnixParams};
use onc_rpc::{AcceptedReply, AcceptedStatus, CallBody, MessageType, ReplyBody, RpcMessage};
use proptest::prelude::*;

use crate::auth::{AUTH_SYS, AuthError, AuthSys, Credential, OpaqueAuth};
use crate::message::{BadCall, Call, Outcome, Reply};
use crate::record;
use crate::xdr::{Decoder, Encode};

fn record_of(message: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    let at = record::begin(&mut out);
    message.encode(&mut out);
    record::end(&mut out, at);
    out
}

proptest! {
    // A call has the same bytes as a call of `onc_rpc`.
    #[test]
    fn a_call_is_that_of_onc_rpc(
        numbers: [u32; 5], stamp: u32, uid: u32, machine in "[a-z]{0,40}",
        args in prop::collection::vec(any::<u32>(), 0..20),
    ) {
        let [xid, program, version, procedure, gid] = numbers;
        let args: Vec<u8> = args.iter().flat_map(|w| w.to_be_bytes()).collect();
        let theirs = AuthUnixParams::new(stamp, machine.as_bytes(), uid, gid, [7, 8]);
        let body = CallBody::new(
            program, version, procedure, AuthFlavor::AuthUnix(theirs), AuthFlavor::AuthNone(None),
            args.as_slice(),
        );
        let theirs = RpcMessage::new(xid, MessageType::Call(body)).serialise().expect("it fits");
        let mut sys = Vec::new();
        AuthSys { stamp, machine: machine.clone(), uid, gid, gids: vec![7, 8] }.encode(&mut sys);
        let credential = OpaqueAuth { flavor: AUTH_SYS, body: &sys };
        let verifier = OpaqueAuth::NONE;
        let call = Call { xid, program, version, procedure, credential, verifier, args: &args };
        prop_assert_eq!(&record_of(&call), &theirs);
        prop_assert_eq!(Call::parse(&theirs[4..]), Ok(call));
        let read: AuthSys = Decoder::whole(call.credential.body).expect("it is one");
        prop_assert_eq!((read.machine, read.uid, read.gids), (machine, uid, vec![7, 8]));
    }

    #[test]
    fn a_reply_is_that_of_onc_rpc(xid: u32, low: u32, high: u32, results: [u8; 8]) {
        let pairs: [(Outcome<'_>, AcceptedStatus<&[u8]>); 6] = [
            (Outcome::Success(&results), AcceptedStatus::Success(&results)),
            (Outcome::ProgramUnavailable, AcceptedStatus::ProgramUnavailable),
            (Outcome::ProgramMismatch(low, high), AcceptedStatus::ProgramMismatch { low, high }),
            (Outcome::ProcedureUnavailable, AcceptedStatus::ProcedureUnavailable),
            (Outcome::GarbageArguments, AcceptedStatus::GarbageArgs),
            (Outcome::SystemError, AcceptedStatus::SystemError),
        ];
        for (outcome, status) in pairs {
            let none: AuthFlavor<&[u8]> = AuthFlavor::AuthNone(None);
            let theirs = ReplyBody::Accepted(AcceptedReply::new(none, status));
            let theirs = RpcMessage::new(xid, MessageType::Reply(theirs));
            let theirs = theirs.serialise().expect("it fits");
            let reply = Reply { xid, outcome };
            prop_assert_eq!(&record_of(&reply), &theirs);
            prop_assert_eq!(Reply::parse(&theirs[4..]), Ok(reply));
        }
    }

    #[test]
    fn any_bytes_are_a_call_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(call) = Call::parse(&bytes) {
            let mut again = Vec::new();
            call.encode(&mut again);
            prop_assert_eq!(Call::parse(&again), Ok(call));
        }
        let _ = Reply::parse(&bytes);
    }
}

// RFC 5531 8.2-a: a body of 400 bytes is accepted, one of 401 bytes is not.
#[test]
fn a_credential_has_400_bytes_at_most() {
    let call = |bytes: usize| {
        let body = vec![0; bytes];
        let credential = OpaqueAuth { flavor: 77, body: &body };
        let (verifier, xid) = (OpaqueAuth::NONE, 1);
        let mut out = Vec::new();
        Call { xid, program: 1, version: 1, procedure: 1, credential, verifier, args: &[] }
            .encode(&mut out);
        Call::parse(&out).map(|call| call.credential.body.len())
    };
    assert_eq!(call(400), Ok(400));
    assert_eq!(call(401), Err(BadCall::Refused(1, Outcome::Auth(AuthError::BadCredential))));
}

#[test]
fn a_long_name_and_many_groups_are_cut_to_what_fits() {
    let sys = AuthSys { machine: "m".repeat(300), gids: vec![1; 40], ..AuthSys::default() };
    let mut out = Vec::new();
    Credential::Sys(sys).encode(&mut out);
    let body = Decoder::new(&out[4..]).opaque(400).expect("it fits");
    let read: AuthSys = Decoder::whole(body).expect("it is one");
    assert_eq!((read.machine.len(), read.gids.len()), (255, 16));
}
