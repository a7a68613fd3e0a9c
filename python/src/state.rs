//! The states of a socket: settings of one that is not open yet, a connection attempt, a
//! connection, a listener, datagrams.
//!
//! Called by: `socket.rs`, which holds one state under a lock for as short as it can.

use core::task::{Context, Poll};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use wirespeed::net::{Net, TcpListener, TcpSocket, TcpStream, blocking};

use crate::wait::{Timeout, Waiting};

/// A TCP socket that neither connects nor listens yet.
#[derive(Clone)]
pub(crate) struct Fresh {
    pub(crate) settings: TcpSocket,
    pub(crate) bound: Option<SocketAddr>,
    /// The error of a connection attempt that no call has reported, SO_ERROR, and its text.
    pub(crate) error: Option<(i32, String)>,
}

impl Fresh {
    pub(crate) fn new(net: &Net) -> Fresh {
        Fresh { settings: TcpSocket::new(net), bound: None, error: None }
    }
}

/// A connection attempt.
pub(crate) struct Connecting {
    pub(crate) fresh: Fresh,
    pub(crate) attempt: Waiting<TcpStream>,
}

/// A listener, and the connection that it accepted to know that there is one.
pub(crate) struct Listener {
    pub(crate) listener: TcpListener,
    next: Mutex<Option<Accepted>>,
}

/// A connection, and the address of its peer.
pub(crate) type Accepted = (TcpStream, SocketAddr);

impl Listener {
    pub(crate) fn new(listener: TcpListener) -> Listener {
        Listener { listener, next: Mutex::default() }
    }

    fn take(&self) -> Option<Accepted> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn try_accept(&self) -> io::Result<Accepted> {
        self.take().map_or_else(|| self.listener.try_accept(), Ok)
    }

    /// Is there a connection? If not, the waker is woken for the next one.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> bool {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_none() {
            match self.listener.poll_accept(cx) {
                Poll::Pending => return false,
                Poll::Ready(Ok(accepted)) => *next = Some(accepted),
                // The next call of `accept` reports it.
                Poll::Ready(Err(_)) => {}
            }
        }
        true
    }

    /// A wait for a connection. Dropping it loses none.
    pub(crate) fn accepting(self: Arc<Listener>) -> Waiting<Accepted> {
        Box::pin(async move {
            match self.take() {
                Some(accepted) => Ok(accepted),
                None => self.listener.accept().await,
            }
        })
    }
}

/// A UDP socket that is bound.
pub(crate) struct Datagrams {
    pub(crate) socket: Arc<blocking::UdpSocket>,
    waiting: Mutex<Option<Waiting<()>>>,
}

impl Datagrams {
    pub(crate) fn new(socket: blocking::UdpSocket) -> Datagrams {
        Datagrams { socket: Arc::new(socket), waiting: Mutex::default() }
    }

    /// Is there a datagram? If not, the waker is woken for the next one.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let future = waiting.get_or_insert_with(|| {
            let socket = self.socket.clone();
            Box::pin(async move { socket.readable().await })
        });
        let ready = future.as_mut().poll(cx).is_ready();
        if ready {
            *waiting = None;
        }
        ready
    }
}

/// The state of a socket.
pub(crate) enum State {
    Fresh(Box<Fresh>),
    Connecting(Box<Connecting>),
    Stream(Arc<blocking::TcpStream>),
    Listener(Arc<Listener>),
    /// A UDP socket that is not bound, and whether it may send to broadcast addresses.
    Unbound(bool),
    Datagrams(Arc<Datagrams>),
    Closed,
}

impl State {
    /// Let the stack's own blocking calls wait for one slice of the timeout.
    pub(crate) fn set_timeout(&self, timeout: Timeout) {
        let slice = Some(timeout.slice());
        // The slice is never zero, the only value that these calls refuse.
        match self {
            State::Stream(stream) => {
                let _ = stream.set_read_timeout(slice);
                let _ = stream.set_write_timeout(slice);
            }
            State::Datagrams(datagrams) => {
                let _ = datagrams.socket.set_read_timeout(slice);
                let _ = datagrams.socket.set_write_timeout(slice);
            }
            _ => {}
        }
    }
}
