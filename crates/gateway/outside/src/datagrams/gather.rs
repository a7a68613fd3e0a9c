//! Datagrams of one size to one peer leave together: one call of the kernel sends up to 64 of them
//! (UDP_SEGMENT), and the kernel carries them as one packet as far as it can.
//!
//! Called by: `send.rs`; `host/outside.rs` at the end of a turn.
//!
//! What is gathered can no longer fail with an error for the engine. So a socket gathers only for
//! the peer to which its last datagram was sent successfully; after a failure every socket sends
//! its next datagram at once, and hears why it fails.

use core::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use gateway::Token;
use rustix::io::Errno;

use super::Socket;
use super::send::{send_segments, send_to};
use crate::counts::Counts;

/// Datagrams of one call at most (UDP_MAX_SEGMENTS).
pub(super) const SEGMENTS_MAX: usize = 64;
/// Bytes of one call at most: they have to fit into one IP packet.
pub(super) const BYTES_MAX: usize = 65_000;

/// Datagrams that wait for the end of the turn.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    socket: Option<(Arc<OwnedFd>, Token, SocketAddr)>,
    bytes: Vec<u8>,
    /// Bytes of each but the last, and how many there are.
    size: usize,
    count: usize,
    /// How often sending has failed.
    pub(super) failures: u64,
}

impl Gather {
    /// Add a datagram, which is not empty; sends what cannot go together with it. What waits for
    /// the same socket is for the same peer, because a socket sends its first to another peer at
    /// once.
    pub(super) fn add(
        &mut self,
        socket: &Socket,
        to: SocketAddr,
        payload: &[u8],
        counts: &mut Counts,
    ) {
        let goes_along = self.is_of(socket)
            && payload.len() <= self.size
            // The last one was not shorter.
            && self.bytes.len() == self.size * self.count
            && self.count < SEGMENTS_MAX
            && self.bytes.len() + payload.len() <= BYTES_MAX;
        if !goes_along {
            self.send(counts);
            self.socket = Some((Arc::clone(&socket.fd), socket.token, to));
            self.size = payload.len();
        }
        self.bytes.extend_from_slice(payload);
        self.count += 1;
    }

    fn is_of(&self, socket: &Socket) -> bool {
        self.socket.as_ref().is_some_and(|&(_, token, _)| token == socket.token)
    }

    /// Send what waits, if it is this socket's.
    pub(crate) fn leave(&mut self, socket: &Socket, counts: &mut Counts) {
        if self.is_of(socket) {
            self.send(counts);
        }
    }

    /// Send what waits.
    pub(crate) fn send(&mut self, counts: &mut Counts) {
        let Some((fd, _, to)) = self.socket.take() else { return };
        let sent: Result<(), Errno> = match self.count {
            1 => send_to(&fd, &self.bytes, to),
            _ => send_segments(&fd, &self.bytes, self.size, to, counts),
        };
        if sent.is_err() {
            self.failures += 1;
            counts.gathered_not_sent += self.count as u64;
        }
        self.bytes.clear();
        self.count = 0;
    }
}
