//! Why there is no connection to a host, or none any more, and what to do.
//!
//! Called by: `host.rs`, and `run.rs`, which knows more about a host that does not answer.

use wirespeed::ConnectError;
use wirespeed::tcp::Error;

/// The host did not answer; perhaps there is none.
#[derive(Debug)]
pub(super) struct NoAnswer(pub(super) String);

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoAnswer {}

/// What ended a connection, and what to do.
pub(super) fn sentence(error: Error) -> &'static str {
    match error {
        Error::Refused => {
            "the host refuses: nobody listens on that port there. Start the other end first"
        }
        Error::Reset => "the other end reset the connection: see what it says",
        Error::TimedOut => {
            "the host does not answer: is it up, and has it a route back to our --addr?"
        }
        Error::Aborted => "the connection was ended on this side",
        Error::NetworkDown => "the device is gone",
        Error::NetUnreachable => {
            "a router has no route to the host's network: look at the routes on the way"
        }
        Error::HostUnreachable => {
            "the host does not answer on its link: is it up, and is the address right?"
        }
        Error::ProtocolUnreachable => "the host does not speak TCP",
        Error::Prohibited => "a router on the way forbids it: ask who runs it",
    }
}

pub(super) fn unreachable(error: ConnectError) -> String {
    match error {
        ConnectError::Unreachable(reason) => {
            format!(
                "{}. Give an --addr A/B whose network it is in, or --via GATEWAY",
                reason.meaning()
            )
        }
        ConnectError::NoAddress => "no --addr is of its version of IP. Give one".to_owned(),
        other => format!("{other}"),
    }
}
