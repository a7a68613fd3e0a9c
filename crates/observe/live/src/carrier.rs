//! The page over a stack that only its loop may use, such as the stack of `ttcp`: the turns of the
//! loop carry bytes between connections of the stack and the page's thread.
//!
//! Called by: `feed.rs`, with the stack. Connections are bounded by [`CARRIED_MAX`], and the bytes
//! that wait for either side by [`PIPE`] and [`ROOM`].

use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::task::Waker;

use stack::{CallError, ListenConfig, ListenerHandle, Stack, TcpHandle};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::sync::mpsc::Sender;

/// Maximum number of connections at a time.
const CARRIED_MAX: usize = 16;
/// Maximum number of bytes that wait on the way to, or from, the page's thread.
const PIPE: usize = 128 << 10;
/// Maximum number of bytes that are read at a time.
const ROOM: usize = 16 << 10;

/// A listener in the stack, and its connections.
pub(super) struct Carrier {
    port: u16,
    /// `None` before the first turn.
    listener: Option<ListenerHandle>,
    has_failed: bool,
    accepted: Sender<DuplexStream>,
    carried: Vec<Carried>,
    complain: fn(&str),
}

struct Carried {
    connection: TcpHandle,
    pipe: DuplexStream,
    /// Bytes that the other side has not taken yet: those from the peer, and those from the page.
    from_peer: Vec<u8>,
    from_page: Vec<u8>,
    peer_has_ended: bool,
}

impl Carrier {
    pub(super) fn new(port: u16, accepted: Sender<DuplexStream>, complain: fn(&str)) -> Carrier {
        let (listener, carried) = (None, Vec::new());
        Carrier { port, listener, has_failed: false, accepted, carried, complain }
    }

    /// Are there connections to carry?
    pub(super) fn is_busy(&self) -> bool {
        !self.carried.is_empty()
    }

    /// Accept connections, and carry the bytes that can be carried without waiting.
    pub(super) fn turn(&mut self, stack: &mut Stack) {
        if self.listener.is_none() && !self.has_failed {
            let every = SocketAddr::from(([0, 0, 0, 0], self.port));
            let listen = ListenConfig { backlog: CARRIED_MAX, ..ListenConfig::default() };
            match stack.tcp_listen(every, listen) {
                Ok(listener) => self.listener = Some(listener),
                Err(why) => {
                    self.has_failed = true;
                    let port = self.port;
                    (self.complain)(&format!(
                        "--http stack:{port}: cannot listen at this port ({why}): give another one"
                    ));
                }
            }
        }
        while let Some(connection) = self.listener.and_then(|at| stack.tcp_accept(at)) {
            let (pipe, theirs) = duplex(PIPE);
            if self.carried.len() >= CARRIED_MAX || self.accepted.try_send(theirs).is_err() {
                stack.tcp_abort(connection);
                continue;
            }
            let (from_peer, from_page) = (Vec::new(), Vec::new());
            let peer_has_ended = false;
            self.carried.push(Carried { connection, pipe, from_peer, from_page, peer_has_ended });
        }
        self.carried.retain_mut(|one| {
            let goes_on = one.turn(stack);
            if !goes_on {
                stack.tcp_close(one.connection);
            }
            goes_on
        });
    }
}

impl Carried {
    /// Carry bytes in both directions. Returns whether the connection continues.
    fn turn(&mut self, stack: &mut Stack) -> bool {
        self.in_turn(stack) && self.out_turn(stack)
    }

    /// Carry bytes from the peer to the page. Returns whether the connection continues.
    fn in_turn(&mut self, stack: &mut Stack) -> bool {
        // No waker is needed, because the loop polls again.
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            if self.from_peer.is_empty() && !self.peer_has_ended {
                let mut room = [0; ROOM];
                match stack.tcp_read(self.connection, &mut room) {
                    Ok(0) => self.peer_has_ended = true,
                    Ok(count) => self.from_peer.extend_from_slice(&room[..count]),
                    Err(CallError::WouldBlock) => return true,
                    Err(_) => return false,
                }
            }
            if self.from_peer.is_empty() {
                // The peer has ended its side of the stream; the page may still answer.
                let shut = Pin::new(&mut self.pipe).poll_shutdown(&mut cx);
                return !matches!(shut, Poll::Ready(Err(_)));
            }
            match Pin::new(&mut self.pipe).poll_write(&mut cx, &self.from_peer) {
                Poll::Ready(Ok(count)) => drop(self.from_peer.drain(..count)),
                // The page has ended the connection; its last bytes are still carried.
                Poll::Ready(Err(_)) => {
                    self.from_peer.clear();
                    return true;
                }
                Poll::Pending => return true,
            }
        }
    }

    /// Carry bytes from the page to the peer. Returns whether the connection continues.
    fn out_turn(&mut self, stack: &mut Stack) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            if self.from_page.is_empty() {
                let mut room = [0; ROOM];
                let mut room = ReadBuf::new(&mut room);
                match Pin::new(&mut self.pipe).poll_read(&mut cx, &mut room) {
                    // The page has closed the connection, and all its bytes were carried.
                    Poll::Ready(Ok(())) if room.filled().is_empty() => return false,
                    Poll::Ready(Ok(())) => self.from_page.extend_from_slice(room.filled()),
                    Poll::Ready(Err(_)) => return false,
                    Poll::Pending => return true,
                }
            }
            match stack.tcp_write(self.connection, &self.from_page) {
                Ok(count) => drop(self.from_page.drain(..count)),
                Err(CallError::WouldBlock) => return true,
                Err(_) => return false,
            }
        }
    }
}
