//! Connections: the calls of a non-blocking socket.
//!
//! Called by: `host/outside.rs`, for the engine. RFC 9293; urgent data as RFC 6093 advises, in line
//! with the rest.

use core::net::SocketAddr;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gateway::{Failure, Outcome, Received, Stop, Token};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, SocketType,
};
use socket2::SockRef;
use stack::Unreachable;

use crate::errors::{failure, stop};
use crate::via::{Handshake, Refused, no_proxy};

/// Bytes that the kernel keeps of a connection beyond what it has sent: more would only wait there,
/// while the guest believes that they are under way.
const NOT_SENT_BYTES: u32 = 256 * 1024;

/// Bytes of a proxy that are looked at together.
const PEEK_BYTES: usize = 2_048;

/// A connection of the host.
#[derive(Debug)]
pub struct Tcp {
    fd: OwnedFd,
    /// How reports call it; none does before the engine has it.
    token: Token,
    /// An urgent byte was announced and not received yet, as far as the engine has asked.
    is_urgent: bool,
    sent: Sent,
    /// What a proxy and we have still to say to each other.
    handshake: Option<Box<Handshake>>,
}

/// What a connection has sent: it gets an option when that matters, because many connections send
/// one message, and each option is a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Nothing,
    /// A first message, which waits for no other one.
    Once,
    /// Several, without Nagle's algorithm: the program at the other end has decided about that.
    Several {
        bytes: usize,
    },
    /// Many bytes: [`NOT_SENT_BYTES`] is set.
    Bulk,
}

/// A connection that has sent more than this is a bulk transfer.
const BULK_BYTES: usize = 64 * 1024;

impl AsFd for Tcp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The version of an address.
pub(crate) fn family(address: SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// Begin to connect.
pub(crate) fn connect(token: Token, to: SocketAddr) -> Result<Tcp, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family(to), SocketType::STREAM, flags, None)?;
    let tcp = Tcp::of(fd, token);
    match retry_on_intr(|| rustix::net::connect(&tcp.fd, &to)) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(tcp),
        Err(error) => Err(error),
    }
}

/// Does EADDRNOTAVAIL mean that no port is left? Otherwise the host has no address with which it
/// could reach `to`, because IPv6 is switched off, for instance.
pub(crate) fn has_address_for(to: SocketAddr) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match rustix::net::socket_with(family(to), SocketType::DGRAM, flags, None) {
        Ok(fd) => rustix::net::connect(fd, &to) != Err(Errno::ADDRNOTAVAIL),
        Err(_) => true,
    }
}

/// Why a connect failed.
pub(crate) fn connect_failure(error: Errno, to: SocketAddr) -> Failure {
    match error {
        Errno::ADDRNOTAVAIL if !has_address_for(to) => Failure::Unreachable(Unreachable::Net),
        error => failure(error),
    }
}

impl Tcp {
    /// A connection of this socket, with its options set. Options are a matter of speed: a
    /// connection without one of them works.
    pub(crate) fn of(fd: OwnedFd, token: Token) -> Tcp {
        let _ = sockopt::set_socket_oobinline(&fd, true);
        Tcp { fd, token, is_urgent: false, sent: Sent::Nothing, handshake: None }
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    pub(crate) fn set_token(&mut self, token: Token) {
        self.token = token;
    }

    /// The address of this end.
    pub(crate) fn local(&self) -> Result<SocketAddr, Errno> {
        SocketAddr::try_from(rustix::net::getsockname(&self.fd)?)
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        let _ = sockopt::set_tcp_nodelay(&self.fd, true);
        let _ = SockRef::from(&self.fd).set_tcp_notsent_lowat(NOT_SENT_BYTES);
        self.fd
    }

    /// A connection to a proxy, which is open when the handshake is over.
    pub(crate) fn with(mut self, handshake: Handshake) -> Tcp {
        self.handshake = Some(Box::new(handshake));
        self
    }

    /// What has become of a connect, or of a connection; `is_writable`: that was reported.
    pub(crate) fn outcome(&mut self, is_writable: bool) -> Result<Outcome, Refused> {
        if let Err(error) = sockopt::socket_error(&self.fd).and_then(|error| error) {
            let why = failure(error);
            return Err(if self.handshake.is_some() { no_proxy(why) } else { why.into() });
        }
        if !is_writable && rustix::net::getpeername(&self.fd).is_err() {
            return Ok(Outcome::Pending);
        }
        let Some(mut handshake) = self.handshake.take() else { return Ok(Outcome::Connected) };
        let outcome = self.shake_hands(&mut handshake);
        if outcome == Ok(Outcome::Pending) {
            self.handshake = Some(handshake);
        }
        outcome
    }

    /// Send and receive what the handshake with a proxy wants, and not a byte of what follows it.
    pub(crate) fn shake_hands(&mut self, handshake: &mut Handshake) -> Result<Outcome, Refused> {
        let mut into = [0; PEEK_BYTES];
        loop {
            let unsent = handshake.unsent();
            if !unsent.is_empty() {
                match self.send(&[IoSlice::new(unsent)]) {
                    Ok(sent) => handshake.sent(sent),
                    Err(Stop::WouldBlock) => return Ok(Outcome::Pending),
                    Err(Stop::Failed(why)) => return Err(no_proxy(why)),
                }
                continue;
            }
            if handshake.is_over() {
                return Ok(Outcome::Connected);
            }
            let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            let used = match retry_on_intr(|| rustix::net::recv(&self.fd, &mut into, flags)) {
                Ok((0, _)) => return Err(no_proxy(Failure::Reset)),
                Ok((bytes, _)) => handshake.take(into.get(..bytes).unwrap_or(&[]))?,
                Err(Errno::AGAIN) => return Ok(Outcome::Pending),
                Err(error) => return Err(no_proxy(failure(error))),
            };
            // They are there.
            let taken = into.get_mut(..used).unwrap_or(&mut []);
            let got =
                retry_on_intr(|| rustix::net::recv(&self.fd, &mut *taken, RecvFlags::DONTWAIT));
            if !got.is_ok_and(|(bytes, _)| bytes == used) {
                return Err(no_proxy(Failure::Reset));
            }
        }
    }

    /// Send the parts.
    pub(crate) fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Stop> {
        self.before_sending();
        let mut control = SendAncillaryBuffer::default();
        let flags = SendFlags::NOSIGNAL;
        let sent = retry_on_intr(|| rustix::net::sendmsg(&self.fd, parts, &mut control, flags));
        let sent = sent.map_err(stop)?;
        if let Sent::Several { bytes } = &mut self.sent {
            *bytes += sent;
            if *bytes > BULK_BYTES {
                let _ = SockRef::from(&self.fd).set_tcp_notsent_lowat(NOT_SENT_BYTES);
                self.sent = Sent::Bulk;
            }
        }
        Ok(sent)
    }

    /// The options that the next message needs.
    fn before_sending(&mut self) {
        match self.sent {
            Sent::Nothing => self.sent = Sent::Once,
            Sent::Once => {
                let _ = sockopt::set_tcp_nodelay(&self.fd, true);
                self.sent = Sent::Several { bytes: 0 };
            }
            Sent::Several { .. } | Sent::Bulk => {}
        }
    }

    /// Send a byte as urgent data.
    pub(crate) fn send_urgent(&mut self, byte: u8) -> Result<(), Stop> {
        self.before_sending();
        let flags = SendFlags::NOSIGNAL | SendFlags::OOB;
        retry_on_intr(|| rustix::net::send(&self.fd, &[byte], flags)).map(|_| ()).map_err(stop)
    }

    /// Receive. The kernel itself ends a call before the urgent byte; then the call is short
    /// although there is more.
    pub(crate) fn receive(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Received, Stop> {
        let room: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = retry_on_intr(|| rustix::io::readv(&self.fd, parts)).map_err(stop)?;
        Ok(Received { bytes, is_drained: bytes < room && !self.is_urgent })
    }

    /// Is the next byte the urgent one? There is no safe call for SIOCATMARK, so the socket answers
    /// in another way: while urgent data is not in line, FIONREAD says how many bytes lie before
    /// it, and MSG_OOB whether it is there. Nobody else reads the socket meanwhile.
    pub(crate) fn at_mark(&mut self) -> Option<bool> {
        sockopt::set_socket_oobinline(&self.fd, false).ok()?;
        let mut byte = [0];
        let flags = RecvFlags::OOB | RecvFlags::PEEK;
        let there = retry_on_intr(|| rustix::net::recv(&self.fd, &mut byte, flags));
        let before = rustix::io::ioctl_fionread(&self.fd);
        let _ = sockopt::set_socket_oobinline(&self.fd, true);
        let is_next = match there {
            Ok((1, _)) => Some(before == Ok(0)),
            // It was announced, and has not come yet.
            Err(Errno::AGAIN) => Some(false),
            _ => None,
        };
        self.is_urgent = is_next.is_some();
        is_next
    }

    /// No more will be sent.
    pub(crate) fn shut_down(&self) {
        // If it fails, the connection is gone, and that is reported.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
    }

    /// End both halves without a reset.
    pub(crate) fn give_up(&self) {
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }

    /// Reset the connection.
    pub(crate) fn abort(self) {
        let _ = sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
    }
}
