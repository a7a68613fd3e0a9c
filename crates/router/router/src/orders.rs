//! Messages between the privileged process and the worker: each is one packet of a SOCK_SEQPACKET
//! pair, as JSON. An order has at most one descriptor, a report none. The worker only answers: it
//! cannot make the privileged process do anything. One exception has a socket of its own: with
//! mirrors, the worker says what its ports are like ([`crate::mirror`]).
//!
//! Called by: both processes of `wirespeed up`. Limit: [`MESSAGE_MAX`].

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::devices::Grant;
use crate::mirror::OfProgram;

/// The longest message in bytes; a longer list of failures is cut.
pub const MESSAGE_MAX: usize = 32 << 10;

/// An order to the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The descriptor of a port's device, for the next [`Order::Apply`].
    Device(Grant),
    /// A listening socket for metrics; without a descriptor metrics are no longer served.
    Metrics,
    /// A connection from zebra, which may be one.
    Zebra {
        /// Its other end.
        from: SocketAddr,
    },
    /// A netlink socket for the kernel's routes; without a descriptor they are not taken any more.
    Kernel {
        /// zebra's routes come by FPM, so those that it writes into the kernel are no others.
        with_fpm: bool,
    },
    /// The interfaces that routes of zebra name by number, and their ports.
    Interfaces {
        /// The port of each number.
        ports: BTreeMap<u32, String>,
    },
    /// Serve the live page from the first [`Order::Apply`] on: at this listening socket, or at this
    /// port of the stack. Clients need the token.
    Live {
        /// `None` on loopback, where no other machine can connect.
        token: Option<String>,
        /// The port of the stack, if there is no descriptor.
        port: Option<u16>,
    },
    /// A descriptor that is rung when the kernel has news of links ([`crate::links`]).
    Links {
        /// The news includes interfaces of other namespaces.
        hears_all: bool,
    },
    /// A listening control socket, before the first [`Order::Apply`]; there is no descriptor if it
    /// could not be made.
    Control {
        /// Its file, which the sender removes.
        path: PathBuf,
        /// It is for other users.
        for_users: bool,
        /// Why there is no socket.
        why: Option<String>,
    },
    /// The socket at which the sender hears of ports that have mirrors ([`crate::mirror::State`]),
    /// before the first [`Order::Apply`].
    Mirrors,
    /// The descriptor of a port's mirror; without one, the mirror that the worker has is no longer
    /// that of the port.
    Mirror {
        /// The port.
        port: String,
    },
    /// The addresses that programs have given the mirror of a port, or interfaces above it; no
    /// others.
    Programs {
        /// The port.
        port: String,
        /// At most [`crate::mirror::PROGRAMS_MAX`].
        addresses: Vec<OfProgram>,
    },
    /// Let the configuration take effect that the descriptor holds, behind the accounts and files
    /// of this machine that it names.
    Apply {
        /// The file's name, for messages.
        file: String,
        /// Ports whose devices cannot be used any more, and are opened again.
        lost: Vec<String>,
    },
    /// Send a report, and do nothing else.
    Ping,
    /// Finish queued output, and end.
    Stop,
}

/// A report of the worker, one for each [`Order::Apply`] and [`Order::Ping`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Operations that were carried out.
    pub carried_out: usize,
    /// Operations that failed, and why.
    pub failed: Vec<String>,
    /// Ports that are not as configured: their devices are opened again with the next
    /// configuration.
    pub absent: Vec<String>,
}

/// The two ends: that of the privileged process, and that of the worker.
///
/// # Errors
/// The system's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

/// Send a message; waits for room.
///
/// # Errors
/// The other end is gone, or the message is too long.
pub fn send<T: Serialize>(
    socket: BorrowedFd<'_>,
    message: &T,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MESSAGE_MAX {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|fd| [fd]);
    if let Some(descriptors) = &descriptors {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent.map(drop)?),
        }
    }
}

/// Send a message without a descriptor by send(2), which the worker may call; waits for room.
///
/// # Errors
/// As [`send`].
pub fn report<T: Serialize>(socket: BorrowedFd<'_>, message: &T) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MESSAGE_MAX {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    loop {
        match rustix::net::send(socket, &bytes, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent.map(drop)?),
        }
    }
}

/// Receive a message, and its descriptor; `None`: the other end is gone.
///
/// # Errors
/// The message is not understood; the system's.
pub fn receive<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut bytes = vec![0; MESSAGE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let into = &mut [IoSliceMut::new(&mut bytes)];
        match recvmsg(socket, into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            received => break received?,
        }
    };
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptor = descriptors.last().or(descriptor);
        }
    }
    match received.bytes {
        0 => Ok(None),
        len => Ok(Some((serde_json::from_slice(&bytes[..len])?, descriptor))),
    }
}

impl Report {
    /// The same, short enough for a message.
    pub fn cut(mut self) -> Report {
        while serde_json::to_vec(&self).map_or(0, |bytes| bytes.len()) > MESSAGE_MAX {
            match self.failed.is_empty() {
                false => self.failed.truncate(self.failed.len() / 2),
                true => self.absent.truncate(self.absent.len().saturating_sub(1)),
            }
        }
        self
    }
}

/// Which of these have something to read, or are at their end? Waits until there is one, for
/// `patience` at most; a signal may end the wait before.
///
/// # Errors
/// The system's.
pub fn ready(asked: &[BorrowedFd<'_>], patience: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut asked: Vec<PollFd<'_>> =
        asked.iter().map(|&fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    match poll(&mut asked, patience.map(timeout).as_ref()) {
        Ok(_) => Ok(asked.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(Errno::INTR) => Ok(vec![false; asked.len()]),
        Err(errno) => Err(errno.into()),
    }
}

/// A time-out of poll(2).
pub fn timeout(span: Duration) -> Timespec {
    let tv_sec = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: i64::from(span.subsec_nanos()) }
}
