//! The socket of one frontend: its requests, one by one, as they are complete.
//!
//! Called by: `vhost_user.rs`. QEMU, `docs/interop/vhost-user.rst`. Crate `vhost` parses a request
//! and answers it, and its calls wait for the rest of a message. Ours must not: so a message is
//! looked at first, and taken once all of it is there. A frontend that does not take its answers is
//! disconnected.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use device::vm::{Interest, is_ready};
use rustix::event::PollFlags;
use rustix::io::{Errno, ioctl_fionread, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use vhost::vhost_user::{BackendReqHandler, Error, VhostUserBackendReqHandlerMut};

use crate::guest::Guest;

/// Bytes of a message's header: request, flags, size of the rest.
const HEADER: usize = 12;

/// The longest message; one that says more is refused before it is there.
const MESSAGE_MAX: usize = HEADER + 4096;

/// The request that a ring be enabled, and the bytes of its message.
const SET_VRING_ENABLE: u32 = 18;
const ENABLE_SIZE: usize = HEADER + 8;

/// The protocol's version, and flags of a message: it is an answer; an answer is wanted.
const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// Messages of one turn at most.
const TURN: usize = 64;

/// A connection with a frontend.
pub(crate) struct Session {
    socket: UnixStream,
    requests: BackendReqHandler<Mutex<Guest>>,
    guest: Arc<Mutex<Guest>>,
    interest: Arc<Interest>,
}

/// What is at the socket.
enum Message {
    /// A message with this request.
    Whole(u32),
    Part,
    End,
}

/// The result of a turn.
pub(crate) enum Turn {
    /// All that is there is done.
    Done,
    /// There is more.
    More,
    /// The frontend has gone, or asks for what it may not.
    Ended(Option<Error>),
}

impl Session {
    /// # Errors
    /// The socket cannot be set up.
    pub(crate) fn new(
        socket: UnixStream,
        interest: Arc<Interest>,
        number: u64,
    ) -> io::Result<Session> {
        socket.set_nonblocking(true)?;
        interest.report(&socket, number)?;
        let guest = Arc::new(Mutex::new(Guest::new(interest.clone())));
        let requests = BackendReqHandler::from_stream(socket.try_clone()?, guest.clone());
        Ok(Session { socket, requests, guest, interest })
    }

    /// What the frontend has said.
    #[inline]
    pub(crate) fn guest(&self) -> MutexGuard<'_, Guest> {
        // No code panics while it has the lock, and only this thread takes it.
        self.guest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carry out the requests that are there.
    pub(crate) fn turn(&mut self) -> Turn {
        for _ in 0..TURN {
            let request = match self.message() {
                Ok(Message::Whole(request)) => request,
                Ok(Message::Part) => return Turn::Done,
                Ok(Message::End) => return Turn::Ended(None),
                Err(error) => return Turn::Ended(Some(Error::SocketError(error.into()))),
            };
            // The calls of crate `vhost` try for ever to send an answer. A socket that is writable
            // has room for several.
            if !is_ready(&self.socket, PollFlags::OUT) {
                return Turn::Ended(Some(Error::SocketError(Errno::AGAIN.into())));
            }
            let done = match request {
                SET_VRING_ENABLE => self.enable(),
                _ => self.requests.handle_request(),
            };
            match done {
                Ok(()) => {}
                Err(Error::Disconnected) => return Turn::Ended(None),
                Err(error) => return Turn::Ended(Some(error)),
            }
        }
        Turn::More
    }

    /// Enable a ring. QEMU asks for it before it says which features it has chosen, which crate
    /// `vhost` takes for a mistake.
    fn enable(&mut self) -> Result<(), Error> {
        let mut words = [0; ENABLE_SIZE];
        let failed = |error: Errno| Error::SocketError(error.into());
        let (_, got) = recv(&self.socket, &mut words[..], RecvFlags::DONTWAIT).map_err(failed)?;
        let word = |at: usize| {
            u32::from_ne_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]])
        };
        let [flags, size, index, wanted] = [4, 8, 12, 16].map(word);
        if got < ENABLE_SIZE || size as usize != ENABLE_SIZE - HEADER || wanted > 1 {
            return Err(Error::InvalidMessage);
        }
        let mut guest = self.guest();
        let done = guest.set_vring_enable(index, wanted == 1);
        if guest.answers && flags & NEED_REPLY != 0 {
            let [low, high] = [u32::from(done.is_err()), 0];
            let answer = [SET_VRING_ENABLE, VERSION | REPLY, 8, low, high].map(u32::to_ne_bytes);
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let sent = send(&self.socket, answer.as_flattened(), flags).map_err(failed)?;
            if sent < answer.as_flattened().len() {
                return Err(Error::PartialMessage);
            }
        }
        done
    }

    fn message(&self) -> Result<Message, Errno> {
        let mut header = [0; HEADER];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let got = match retry_on_intr(|| recv(self.socket.as_fd(), &mut header[..], flags)) {
            Ok((_, 0)) => return Ok(Message::End),
            Ok((_, got)) => got,
            Err(Errno::AGAIN) => return Ok(Message::Part),
            Err(error) => return Err(error),
        };
        // The rest of a message does not come any more once the frontend has gone.
        let part =
            || if is_ready(&self.socket, PollFlags::RDHUP) { Message::End } else { Message::Part };
        if got < HEADER {
            return Ok(part());
        }
        let word = |at: usize| {
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (request, size) = (word(0), word(8));
        let whole = HEADER.saturating_add(size as usize);
        let is_whole = whole > MESSAGE_MAX || ioctl_fionread(&self.socket)? >= whole as u64;
        Ok(if is_whole { Message::Whole(request) } else { part() })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.interest.remove(&self.socket);
    }
}
