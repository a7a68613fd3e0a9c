//! [`CallError`]: why a call has no results, in words for users.
//!
//! Called by: all clients.

use crate::auth::AuthError;
use crate::message::Outcome;
use crate::record::RecordError;
use crate::xdr::DecodeError;

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
    #[error("the server speaks versions {0} to {1} of ONC RPC, this is version 2")]
    RpcMismatch(u32, u32),
    /// AUTH_ERROR.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The results are not what the procedure returns.
    #[error("the results are not of the expected type")]
    GarbageResults(#[from] DecodeError),
    /// No reply within the time of the call. It may have been carried out.
    #[error("no reply in time: does the server run, and is there a route to it?")]
    TimedOut,
    /// The connection ended before the reply. The call may have been carried out.
    #[error("the connection ended before the reply; the call may have been carried out")]
    Disconnected,
    /// The call is longer than the transport or the limit.
    #[error("the call has {0} bytes, at most {1} are possible: send less, or use TCP")]
    TooLong(usize, usize),
    /// As many calls wait as the limit allows.
    #[error("{0} calls wait for replies already: wait for one, or raise the limit")]
    TooManyCalls(usize),
    /// The stream cannot go on.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The transport failed.
    #[error("the transport failed")]
    Transport(#[from] std::io::Error),
}

/// The results, or what the server says instead.
pub(super) fn results(outcome: Outcome<'_>) -> Result<&[u8], CallError> {
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
