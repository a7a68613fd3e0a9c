//! Sockets of a running stack, as another program opens and uses them.
//!
//! Called by: `nc` and `ping`; `observe` answers.

use core::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use wirespeed::Instant;
use wirespeed::control::Client;

use crate::clock::Interrupt;

use super::{TIMEOUT, ask, checked, find, typed};
use wirespeed::control::protocol::{Call, Called, Kind, Question, Wait};

/// A socket in a running stack.
pub(crate) struct Remote {
    client: Client,
    socket: u64,
    /// [`Remote::begin_receive`] was called, and its answer was not read yet.
    is_receiving: bool,
    /// The answer, if it was read before another call.
    came: Option<Called>,
}

impl Remote {
    /// Open a socket in the first stack of the program at this control socket, or of this process.
    ///
    /// # Errors
    /// [`wirespeed::control::ControlError`]; [`super::Refused`] with the program's reason.
    pub(crate) fn open(path: Option<&Path>, pid: Option<u32>, kind: Kind) -> Result<Remote> {
        let mut client = Client::connect(&find(path, pid)?, TIMEOUT)?;
        let question = Question::Socket { stack: 0, call: Call::Open(kind) };
        let opened: Called = typed(ask(&mut client, &question)?.body)?;
        let socket = opened.socket.context("the program gives no socket")?;
        Ok(Remote { client, socket, is_receiving: false, came: None })
    }

    /// A socket that a listener accepted, over the listener's connection.
    pub(crate) fn accepted(self, socket: u64) -> Remote {
        Remote { client: self.client, socket, is_receiving: false, came: None }
    }

    fn call(&mut self, call: Call) -> Result<Called> {
        self.client.begin_request(&Question::Socket { stack: 0, call })?;
        // This question ends the wait of the one before it, whose answer comes first.
        if std::mem::take(&mut self.is_receiving) {
            self.came = Some(self.answered()?);
        }
        self.answered()
    }

    fn answered(&mut self) -> Result<Called> {
        typed(checked(self.client.finish_request()?)?.body)
    }

    /// Ask for received data, unless such a question is not answered yet. The answer waits for
    /// something to come, for `wait` at most; [`Remote::is_answered`] or the descriptor says when
    /// it is there.
    pub(crate) fn begin_receive(&mut self, wait: Duration, seen: &str) -> Result<()> {
        if self.is_receiving || self.came.is_some() {
            return Ok(());
        }
        let ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        let wait = Some(Wait { ms, seen: seen.to_owned() });
        let call = Call::Receive { socket: self.socket, wait };
        self.client.begin_request(&Question::Socket { stack: 0, call })?;
        self.is_receiving = true;
        Ok(())
    }

    /// Was the answer read while another call waited for its own?
    pub(crate) fn is_answered(&self) -> bool {
        self.came.is_some()
    }

    /// Wait until the answer to [`Remote::begin_receive`] is there, until `input` can be read,
    /// until Ctrl-C, or for this long. Returns whether the first two hold.
    pub(crate) fn wait(
        &self,
        interrupt: &Interrupt,
        input: Option<BorrowedFd<'_>>,
        patience: Option<Duration>,
    ) -> Result<[bool; 2]> {
        let (stop, stops) = interrupt.descriptor();
        let mut asked = vec![PollFd::from_borrowed_fd(stop, stops)];
        let others = [self.is_receiving.then(|| self.as_fd()), input];
        let others = others.map(|fd| fd.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        asked.extend(others.iter().flatten().cloned());
        let patience = if self.came.is_some() { Some(Duration::ZERO) } else { patience };
        let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
        match poll(&mut asked, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(why).context("cannot wait"),
        }
        let mut ready = asked[1..].iter().map(|fd| !fd.revents().is_empty());
        let mut ready = others.map(|other| other.is_some() && ready.next() == Some(true));
        ready[0] |= self.came.is_some();
        Ok(ready)
    }

    /// The answer to [`Remote::begin_receive`].
    pub(crate) fn finish_receive(&mut self) -> Result<Called> {
        if let Some(came) = self.came.take() {
            return Ok(came);
        }
        self.is_receiving = false;
        self.answered()
    }

    /// Send; returns how many bytes were taken, and when by the stack's clock.
    pub(crate) fn send(
        &mut self,
        to: Option<SocketAddr>,
        seq: u16,
        data: &[u8],
    ) -> Result<(usize, Instant)> {
        let (socket, data) = (self.socket, STANDARD.encode(data));
        let called = self.call(Call::Send { socket, to, seq, data })?;
        let (sent, at_ns) = (called.sent.unwrap_or(0), called.at_ns.unwrap_or(0));
        Ok((sent as usize, Instant::from_nanos(at_ns)))
    }

    /// End the sending half.
    pub(crate) fn shutdown(&mut self) -> Result<()> {
        self.call(Call::Shutdown { socket: self.socket }).map(drop)
    }

    /// Close it.
    pub(crate) fn close(mut self) -> Result<()> {
        self.call(Call::Close { socket: self.socket }).map(drop)
    }
}

impl AsFd for Remote {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.client.as_fd()
    }
}

/// The bytes of an answer's text.
pub(crate) fn bytes(data: &str) -> Vec<u8> {
    STANDARD.decode(data).unwrap_or_default()
}
