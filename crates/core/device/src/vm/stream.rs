//! Frames over a stream socket, each preceded by its length.
//!
//! Called by: the stack; programs that open one.
//!
//! Received bytes are collected in one buffer, from which whole frames are taken. Bytes to send are
//! collected in another buffer, from which the socket takes what it can. Both buffers are bounded:
//! the first by the longest frame, the second by pushing back. When the socket has room for waiting
//! bytes, the driver is woken (`vm.rs`) and calls `rx_burst`, which sends them.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use base::{DropReason, Drops, Mtu};
use mbuf::Pool;
use rustix::event::PollFlags;
use rustix::event::epoll::EventFlags;

use super::{Bound, Interest, LONGEST, Name, VmError, is_ready, limits, refused};
use crate::{Burst, Device, Limits};

/// Bytes of the length in front of a frame.
const LENGTH: usize = 4;

/// Bytes of one read, which contains several frames.
const READ: usize = 64 << 10;

/// With this many bytes waiting for the socket, frames are pushed back.
const WAITING: usize = 256 << 10;

/// A virtual machine's network over a stream socket.
pub struct Stream {
    /// The listening socket, if machines connect to us.
    listener: Option<UnixListener>,
    /// Removes its path, if that is ours to remove.
    _name: Option<Name>,
    socket: Option<UnixStream>,
    /// Waits for a connection at the listener, or for bytes at the connection.
    interest: Interest,
    /// Does the epoll instance also wait for room in the socket?
    waits_for_room: bool,
    /// A waiting connection could not be accepted.
    is_refused: bool,
    path: PathBuf,
    limits: Limits,
    /// Received bytes; the first `read` of them are consumed.
    incoming: Vec<u8>,
    read: usize,
    /// Bytes to send; the first `written` of them are sent.
    outgoing: Vec<u8>,
    written: usize,
    /// For each frame that was not sent whole: its bytes. And how many bytes of the first one were
    /// sent.
    unsent: VecDeque<usize>,
    sent_of_first: usize,
    trouble: Option<VmError>,
    drops: Drops,
}

impl Stream {
    /// Connect to a machine that listens (`server=on`).
    ///
    /// # Errors
    /// Nothing listens there, or the socket cannot be set up.
    pub fn connect(path: &Path) -> Result<Stream, VmError> {
        let connected = UnixStream::connect(path);
        let socket = connected.map_err(VmError::refused("connecting to", path))?;
        Stream::from_socket(socket, path)
    }

    /// Use a connected socket; messages name it by `place`.
    ///
    /// # Errors
    /// It cannot be set up.
    pub fn from_socket(socket: UnixStream, place: &Path) -> Result<Stream, VmError> {
        let mut stream = Stream::new(place, None)?;
        stream.use_socket(socket)?;
        Ok(stream)
    }

    /// Listen for a machine to connect (`server=off`), and for the next one when it has gone. A
    /// dead socket at `path` is replaced.
    ///
    /// # Errors
    /// The socket cannot be made, or another file is there.
    pub fn listen(path: &Path) -> Result<Stream, VmError> {
        let Bound { socket, name } = Bound::listener(path)?;
        Stream::listening(socket, Some(name), path)
    }

    /// As [`Stream::listen`], at a socket that listens already. Its path is not removed.
    ///
    /// # Errors
    /// It cannot be set up.
    pub fn from_listener(listener: UnixListener, path: &Path) -> Result<Stream, VmError> {
        Stream::listening(listener, None, path)
    }

    fn listening(
        listener: UnixListener,
        name: Option<Name>,
        path: &Path,
    ) -> Result<Stream, VmError> {
        let mut stream = Stream::new(path, Some((listener, name)))?;
        stream.trouble = Some(stream.nobody());
        Ok(stream)
    }

    /// Set the largest packet; both ends have to agree. Call this before a stack has the device.
    #[must_use]
    pub fn with_mtu(mut self, mtu: Mtu) -> Stream {
        self.limits = limits(mtu);
        self
    }

    fn new(path: &Path, listener: Option<(UnixListener, Option<Name>)>) -> Result<Stream, VmError> {
        let refused = || VmError::refused("setting up", path);
        let interest = Interest::new().map_err(refused())?;
        let (listener, name) = listener.unzip();
        if let Some(listener) = &listener {
            listener.set_nonblocking(true).map_err(refused())?;
            interest.add(listener, EventFlags::IN).map_err(refused())?;
        }
        Ok(Stream {
            listener,
            _name: name.flatten(),
            socket: None,
            interest,
            waits_for_room: false,
            is_refused: false,
            path: path.to_owned(),
            limits: limits(Mtu::ETHERNET),
            incoming: Vec::new(),
            read: 0,
            outgoing: Vec::new(),
            written: 0,
            unsent: VecDeque::new(),
            sent_of_first: 0,
            trouble: None,
            drops: Drops::default(),
        })
    }

    fn use_socket(&mut self, socket: UnixStream) -> Result<(), VmError> {
        let refused = || VmError::refused("setting up", &self.path);
        socket.set_nonblocking(true).map_err(refused())?;
        self.interest.add(&socket, EventFlags::IN).map_err(refused())?;
        if let Some(listener) = &self.listener {
            // Ignore further connections, which would make the descriptor readable all the time.
            self.interest.change(listener, EventFlags::empty()).map_err(refused())?;
        }
        self.socket = Some(socket);
        self.trouble = None;
        Ok(())
    }

    /// Note that the connection is over.
    fn close(&mut self) {
        if let Some(socket) = self.socket.take() {
            self.interest.remove(&socket);
        }
        if let Some(listener) = &self.listener {
            // The listener is registered, so this cannot fail.
            let _ = self.interest.change(listener, EventFlags::IN);
        }
        (self.waits_for_room, self.is_refused) = (false, false);
        self.incoming.clear();
        self.read = 0;
        self.outgoing.clear();
        self.written = 0;
        self.drops.count_many(DropReason::DeviceLinkDown, self.unsent.len() as u64);
        self.unsent.clear();
        self.sent_of_first = 0;
        self.trouble = Some(self.nobody());
    }

    /// The error while there is no connection.
    fn nobody(&self) -> VmError {
        let place = self.path.display().to_string();
        match self.listener {
            Some(_) => VmError::Waiting { place },
            None => VmError::Gone { place },
        }
    }

    /// Accept a waiting connection, if there is one.
    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        let trouble = match listener.accept() {
            Ok((socket, _)) => self.use_socket(socket).err(),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            Err(error) => Some(VmError::refused("accepting at", &self.path)(error)),
        };
        // If accepting fails, for example because there is no free file descriptor, the connection
        // stays in the backlog. Ignore the listener's events until accepting works, because they
        // would wake the driver all the time.
        let is_refused = trouble.is_some();
        if is_refused != self.is_refused {
            self.is_refused = is_refused;
            if let Some(listener) = self.listener.as_ref().filter(|_| self.socket.is_none()) {
                let wanted = if is_refused { EventFlags::empty() } else { EventFlags::IN };
                let _ = self.interest.change(listener, wanted);
            }
        }
        if is_refused {
            self.trouble = trouble;
        }
    }

    /// Read once, at most [`READ`] bytes.
    fn fill(&mut self) {
        let Some(socket) = &mut self.socket else { return };
        self.incoming.drain(..self.read);
        self.read = 0;
        let before = self.incoming.len();
        self.incoming.resize(before + READ, 0);
        let got = loop {
            match socket.read(&mut self.incoming[before..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.incoming.truncate(before + *got.as_ref().unwrap_or(&0));
        match got {
            Ok(0) => self.close(),
            Err(error) if error.kind() != ErrorKind::WouldBlock => self.close(),
            _ => {}
        }
    }

    /// The next whole received frame: its offset and length in `incoming`.
    fn frame(&mut self) -> Option<(usize, usize)> {
        let rest = self.incoming.get(self.read..)?;
        let len = u32::from_be_bytes(*rest.first_chunk::<LENGTH>()?) as usize;
        if len == 0 || len > LONGEST {
            // From here on it is not known where frames begin.
            self.drops.count(DropReason::DeviceBadHeader);
            self.close();
            return None;
        }
        (rest.len() >= LENGTH + len).then(|| (self.read + LENGTH, len))
    }

    /// Send waiting bytes, as far as the socket takes them.
    fn flush(&mut self) {
        while let Some(socket) = &mut self.socket
            && self.written < self.outgoing.len()
        {
            match socket.write(&self.outgoing[self.written..]) {
                Ok(n) if n > 0 => self.sent(n),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.keep_rest(),
                _ => return self.close(),
            }
        }
        self.outgoing.clear();
        self.written = 0;
        self.wait_for_room(false);
    }

    fn sent(&mut self, bytes: usize) {
        self.written += bytes;
        self.sent_of_first += bytes;
        while let Some(&first) = self.unsent.front()
            && first <= self.sent_of_first
        {
            self.sent_of_first -= first;
            self.unsent.pop_front();
        }
    }

    /// The socket is full, so the remaining bytes wait. The sent bytes are removed from the buffer
    /// once they are at least as many as the waiting ones. So moving bytes costs no more than
    /// writing them did, and the buffer is never more than twice as long as what waits.
    fn keep_rest(&mut self) {
        if self.written >= self.outgoing.len() - self.written {
            self.outgoing.drain(..self.written);
            self.written = 0;
        }
        self.wait_for_room(true);
    }

    fn wait_for_room(&mut self, wanted: bool) {
        let events = if wanted { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        if self.waits_for_room != wanted
            && let Some(socket) = &self.socket
            && self.interest.change(socket, events).is_ok()
        {
            self.waits_for_room = wanted;
        }
    }

    fn is_full(&self) -> bool {
        self.outgoing.len() - self.written >= WAITING
    }
}

impl Device for Stream {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        if self.socket.is_none() {
            self.accept();
        }
        self.flush();
        let before = into.len();
        let mut looked = false;
        while !into.is_full() {
            match self.frame() {
                Some((at, len)) => {
                    self.read = at + len;
                    if let Some(reason) = refused(len, &self.limits) {
                        self.drops.count(reason);
                    } else if let Some(frame) = pool.copy_of(&self.incoming[at..at + len]) {
                        into.push(frame);
                    } else {
                        self.drops.count(DropReason::MbufExhausted);
                    }
                }
                None if looked => break,
                None => {
                    self.fill();
                    looked = true;
                }
            }
        }
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        if self.socket.is_none() {
            self.accept();
        }
        self.flush();
        let mut taken = 0;
        while let Some(frame) = from.get(taken) {
            if self.socket.is_none() {
                self.drops.count(DropReason::DeviceLinkDown);
            } else if frame.len() > self.limits.max_frame {
                self.drops.count(DropReason::DeviceFrameTooBig);
            } else if self.is_full() {
                break;
            } else {
                self.outgoing.extend_from_slice(&(frame.len() as u32).to_be_bytes());
                self.outgoing.extend_from_slice(frame.as_slice());
                self.unsent.push_back(LENGTH + frame.len());
            }
            taken += 1;
        }
        from.drain(..taken).for_each(|frame| pool.free(frame));
        self.flush();
        taken
    }

    /// True for any awaited event, including room for waiting bytes.
    fn rx_ready(&self) -> bool {
        let rest = self.incoming.get(self.read..).unwrap_or_default();
        let len = rest.first_chunk::<LENGTH>().map(|len| u32::from_be_bytes(*len) as usize);
        // With an invalid length there is nothing to wait for: `rx_burst` closes the connection.
        len.is_some_and(|len| len > LONGEST || rest.len() >= LENGTH + len)
            || self.interest.has_news()
    }

    fn tx_ready(&self) -> bool {
        !self.is_full()
            || self.socket.as_ref().is_none_or(|socket| is_ready(socket, PollFlags::OUT))
    }

    fn link_up(&self) -> bool {
        self.socket.is_some()
    }

    fn is_gone(&self) -> bool {
        self.socket.is_none() && self.listener.is_none()
    }

    /// True if a connection could not be accepted, which is tried again.
    fn is_unfinished(&self) -> bool {
        self.is_refused
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_gone()).then(|| self.interest.as_fd())
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.trouble.as_ref().map(|error| error as _)
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}

#[cfg(test)]
mod tests;
