//! Clients of a Unix socket that send and get lines of text.
//!
//! Called by: `asking.rs` and `orders.rs`. Only the user of this process is heard. Limits:
//! [`CLIENTS_MAX`] clients; the caller's bytes of a line.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::net::sockopt::socket_peercred;

/// Clients of one socket at the same time.
const CLIENTS_MAX: usize = 4;

/// A client is gone, or broke a rule.
#[derive(Debug)]
pub(super) struct Gone;

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    stream: UnixStream,
    /// What came of a line, or of several.
    pub(super) input: Vec<u8>,
    /// It sends no more.
    pub(super) has_ended: bool,
}

/// A listener of ours that waits for no client.
pub(super) fn listener(fd: OwnedFd) -> std::io::Result<UnixListener> {
    let listener = UnixListener::from(fd);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// New clients, as many as there is room for beside `known`.
pub(super) fn accept(listener: &UnixListener, known: usize) -> Vec<Client> {
    let mut new = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        let own = rustix::process::geteuid();
        let is_own = socket_peercred(&stream).is_ok_and(|peer| peer.uid == own);
        let has_room = known + new.len() < CLIENTS_MAX;
        if is_own && has_room && stream.set_nonblocking(true).is_ok() {
            new.push(Client { stream, input: Vec::new(), has_ended: false });
        }
    }
    new
}

impl Client {
    /// Read what is there, while less than `most` bytes wait.
    pub(super) fn read(&mut self, most: usize) -> Result<(), Gone> {
        let mut bytes = [0; 1_024];
        while !self.has_ended && self.input.len() <= most {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.has_ended = true,
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
        Ok(())
    }

    /// The next whole line, with its end.
    ///
    /// # Errors
    /// There is none although more than `most` bytes came.
    pub(super) fn line(&mut self, most: usize) -> Result<Option<Vec<u8>>, Gone> {
        match self.input.iter().position(|&byte| byte == b'\n') {
            Some(end) => Ok(Some(self.input.drain(..=end).collect())),
            None if self.input.len() > most => Err(Gone),
            None => Ok(None),
        }
    }

    /// Send it; a client that takes no more is gone.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.stream.write_all(bytes).map_err(|_| Gone)
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
