//! Messages between the launcher and its two children: a SOCK_SEQPACKET pair each, JSON, and
//! descriptors (SCM_RIGHTS, unix(7)).
//!
//! Called by: `launch.rs`, `attach.rs`, `serve.rs`, `program.rs`, `inside.rs`, `init.rs`,
//! `gateway.rs`. A child has its end as standard input, because no other descriptor can be taken
//! over without `unsafe`; the program's own standard input comes with [`ToProgram::Go`].

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::options::Setup;

/// The longest message in bytes: less than the default send buffer of Linux.
const BYTES_MAX: usize = 128 << 10;
/// Descriptors with a message; the kernel's limit is 253.
pub(crate) const DESCRIPTORS_MAX: usize = 128;

/// To the program's process, from the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToProgram {
    /// Make the namespaces.
    Setup(Setup),
    /// Execute the program; with its standard input. To the process that executes it.
    Go { keep: bool, user: crate::User },
}

/// From the program's process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromProgram {
    /// All is made; with the packet socket and the sockets inside. `init` is the first process of
    /// the PID namespace, as seen from outside.
    Made { notes: Vec<String>, init: Option<i32> },
    /// A link is made in a network that was there; with the link, the network, the sockets inside
    /// and the tables of sockets. `tap_mtu`: it is a TAP with this MTU.
    Joined { notes: Vec<String>, tap_mtu: Option<u32> },
    /// The first process of the PID namespace waits for [`ToProgram::Go`].
    InitReady,
    /// The program was stopped by a signal of the terminal.
    Stopped,
    /// The program cannot be started.
    Failed(Error),
}

/// To a process that enters namespaces which are there, from the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToInside {
    /// Make the link; with the network namespace, and the user namespace to enter before.
    Make { setup: Setup, near: Near },
}

/// How the near end of a link is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Near {
    /// A TAP of that name may be there.
    pub(crate) may_be_tap: bool,
    /// Bring it up, and give it addresses and routes.
    pub(crate) is_configured: bool,
    /// Its hardware address.
    pub(crate) mac: Option<[u8; 6]>,
    /// Pass on the tables of sockets, too.
    pub(crate) has_tables: bool,
}

/// What a gateway ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Life {
    /// The launcher.
    pub(crate) launcher: bool,
    /// The last process in the network.
    pub(crate) network: bool,
}

/// To the gateway, from the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToGateway {
    /// Begin; with the link and the program's network if there are any, the caller's descriptors,
    /// those from inside, and, if it is to be replaced, standard error.
    Begin {
        settings: String,
        descriptors: usize,
        has_link: bool,
        life: Life,
        tap_mtu: Option<u32>,
        stderr: bool,
    },
    /// The program has ended, or the launcher was told to end.
    End,
}

/// From the gateway.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromGateway {
    /// It has given up its privileges, and forwards packets.
    Ready,
    /// It cannot begin.
    Failed(Error),
}

/// The launcher's end and the child's.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Send a message with descriptors; waits for room.
pub(crate) fn send<T: Serialize>(
    socket: impl AsFd,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > BYTES_MAX || descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent.map(drop)?),
        }
    }
}

/// Receive a message and its descriptors; `None`: the other end is gone.
pub(crate) fn receive<T: DeserializeOwned>(
    socket: impl AsFd,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let into = &mut [IoSliceMut::new(&mut bytes)];
        match recvmsg(&socket, into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            received => break received?,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            descriptors.extend(some);
        }
    }
    match received.bytes {
        0 => Ok(None),
        len => Ok(Some((serde_json::from_slice(&bytes[..len])?, descriptors))),
    }
}

/// Is there a message, or is the other end gone?
pub(crate) fn is_readable(socket: impl AsFd) -> bool {
    let fd = socket.as_fd();
    let mut asked = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut asked, Some(&now)), Ok(ready) if ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_descriptors_and_the_end_shows() {
        let (ours, theirs) = pair().expect("sockets");
        assert!(!is_readable(&theirs));
        let files: Vec<_> = (0..3).map(|_| std::fs::File::open("/dev/null").expect("it")).collect();
        let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        send(&ours, &FromGateway::Ready, &fds).expect("room");
        let (message, got) = receive::<FromGateway>(&theirs).expect("one").expect("not the end");
        assert!(matches!(message, FromGateway::Ready) && got.len() == 3, "{message:?} {got:?}");
        let long = "x".repeat(BYTES_MAX);
        let why = send(&ours, &FromGateway::Failed(Error::not_started(long)), &[]);
        assert_eq!(why.expect_err("too long").kind(), io::ErrorKind::InvalidInput);
        drop(ours);
        assert!(is_readable(&theirs));
        assert!(receive::<FromGateway>(&theirs).expect("the end").is_none());
    }
}
