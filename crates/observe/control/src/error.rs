//! The errors of the control socket, each with advice for the user.
//!
//! Called by: every file of this crate.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::VERSION;

/// Why a control socket could not be made, reached or understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// There is no socket at the path.
    #[error(
        "there is no control socket {}: is the program still running? `wirespeed show` without \
         --pid and --socket lists the running programs", .path.display()
    )]
    Missing {
        /// The path where the socket was expected.
        path: PathBuf,
    },
    /// There is a socket, but no server answers on it.
    #[error(
        "nobody answers at {}: the program that made the socket has ended. Start the program \
         again, which removes the dead socket", .path.display()
    )]
    Dead {
        /// The socket.
        path: PathBuf,
    },
    /// The system denies access to the socket.
    #[error(
        "no permission for {}: the socket belongs to another user. Ask as that user or as root: \
         `sudo wirespeed show --socket {}`", .path.display(), .path.display()
    )]
    Denied {
        /// The socket.
        path: PathBuf,
    },
    /// The server does not admit this user.
    #[error(
        "the program does not answer this user: it answers its own user and root, and a router \
         also the users that its configuration names under [control]. Ask as one of them, with \
         `sudo`"
    )]
    NotAdmitted,
    /// The server has its maximum number of clients.
    #[error(
        "the program has its maximum number of clients, in total or of this user, or this user \
         connects too often (limits control_clients, control_user_clients, control_user_accepts). \
         Close another `wirespeed show`, then try again"
    )]
    Full,
    /// The server speaks another version of the protocol.
    #[error(
        "the program speaks version {theirs} of the control protocol, this tool version \
         {VERSION}. Use the `wirespeed` that belongs to the running program"
    )]
    Version {
        /// The version of the other side.
        theirs: u16,
    },
    /// The other end does not speak this protocol.
    #[error("the program that answers is not wirespeed. Give a wirespeed socket with --socket")]
    Stranger,
    /// A frame breaks a limit.
    #[error("a message has {bytes} bytes: at most {most} are allowed (limit control_frame_bytes)")]
    TooLong {
        /// The length of the message.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The number of descriptors differs from that in the header, or exceeds the limit.
    #[error(
        "a message came with {found} descriptors, but {declared} were declared and at most {most} \
         are allowed (limit control_descriptors)"
    )]
    Descriptors {
        /// How many were received.
        found: usize,
        /// How many the header declares.
        declared: usize,
        /// The limit.
        most: usize,
    },
    /// The bytes are not a valid message.
    #[error("a message cannot be understood: {why}. Use tools of the same version at both ends")]
    Malformed {
        /// What is wrong.
        why: String,
    },
    /// The other side closed the connection.
    #[error("the program closed the connection: it has ended, or the request broke a limit")]
    Closed,
    /// No answer came in time.
    #[error(
        "no answer within {}: the program is stopped or very busy. See whether it runs \
         (`ps`), then try again", in_words(*timeout)
    )]
    TimedOut {
        /// The timeout.
        timeout: Duration,
    },
    /// Another program serves this socket.
    #[error("another program serves {}: choose another path", .path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something else is at the path of the socket.
    #[error(
        "{} is {what}, not a control socket, so it is not replaced. Remove it yourself, or choose \
         another path",
        .path.display()
    )]
    InTheWay {
        /// The path.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// The path does not fit a socket's address.
    #[error(
        "the path {} is too long for a socket, which takes at most 107 bytes. Set XDG_RUNTIME_DIR \
         to a shorter path", .path.display()
    )]
    PathTooLong {
        /// The path as given.
        path: PathBuf,
    },
    /// The directory cannot be used for sockets.
    #[error("the directory {} cannot hold control sockets: {why}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong, and advice.
        why: String,
    },
    /// The system refused a call.
    #[error("{what}: {source}")]
    System {
        /// The call.
        what: &'static str,
        /// The error of the call.
        source: io::Error,
    },
}

impl ControlError {
    /// The error of a refused system call.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> ControlError {
        move |errno| ControlError::System { what, source: errno.into() }
    }
}

/// A timeout: in seconds if they are whole, else in milliseconds.
fn in_words(timeout: Duration) -> String {
    match (timeout.as_secs(), timeout.subsec_millis()) {
        (seconds, 0) if seconds > 0 => format!("{seconds} s"),
        _ => format!("{} ms", timeout.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_timeout_is_said_in_milliseconds() {
        let said = |ms| ControlError::TimedOut { timeout: Duration::from_millis(ms) }.to_string();
        assert!(said(5_000).starts_with("no answer within 5 s: "), "{}", said(5_000));
        assert!(said(200).starts_with("no answer within 200 ms: "), "{}", said(200));
        assert!(said(1_500).starts_with("no answer within 1500 ms: "), "{}", said(1_500));
    }
}
