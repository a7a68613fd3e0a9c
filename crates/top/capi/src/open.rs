//! What a socket is once it is open: a byte stream, a listener, datagrams, or a forwarder.
//!
//! Called by: the calls of sockets. Readiness for `ws_poll` and `ws_events` is asked here.

use core::ffi::c_short;
use core::net::SocketAddr;
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, PoisonError};

use net::{Forwarder, Request, TcpListener, TcpStream, blocking};

use crate::error::{Call, Error};
use crate::types::{WS_IN, WS_OUT};

/// An open socket.
pub(crate) enum Open {
    /// Also one that is not connected yet.
    Stream(blocking::TcpStream),
    Listener(Doorway<TcpListener>),
    Datagrams(blocking::UdpSocket),
    Forwarder(Doorway<Forwarder>),
}

/// What connections come from, and the one that a look for readiness has taken already.
pub(crate) struct Doorway<T: Arrivals> {
    door: T,
    next: Mutex<Option<T::Arrival>>,
}

/// Connections that arrive.
pub(crate) trait Arrivals {
    type Arrival;

    fn poll_arrival(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<Self::Arrival>>;
}

impl Arrivals for TcpListener {
    type Arrival = (TcpStream, SocketAddr);

    fn poll_arrival(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<Self::Arrival>> {
        self.poll_accept(cx)
    }
}

impl Arrivals for Forwarder {
    type Arrival = Request;

    fn poll_arrival(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<Self::Arrival>> {
        self.poll_accept(cx)
    }
}

impl<T: Arrivals> Doorway<T> {
    pub(crate) fn new(door: T) -> Doorway<T> {
        Doorway { door, next: Mutex::new(None) }
    }

    pub(crate) fn door(&self) -> &T {
        &self.door
    }

    /// Take a connection.
    ///
    /// # Errors
    /// EAGAIN: none waits; `waker` is woken when one does.
    pub(crate) fn take(&self, waker: &Waker) -> Call<T::Arrival> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = next.take() {
            return Ok(taken);
        }
        match self.door.poll_arrival(&mut Context::from_waker(waker)) {
            Poll::Ready(taken) => Ok(taken?),
            Poll::Pending => Err(Error::again()),
        }
    }

    /// Does a connection wait, or an error?
    fn is_ready(&self, cx: &mut Context<'_>) -> bool {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_some() {
            return true;
        }
        match self.door.poll_arrival(cx) {
            Poll::Ready(Ok(taken)) => {
                *next = Some(taken);
                true
            }
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }
}

impl Open {
    /// Which of the `wanted` events there are. `waker` is woken for those that are missing.
    pub(crate) fn ready(&self, wanted: c_short, waker: &Waker) -> c_short {
        let cx = &mut Context::from_waker(waker);
        let (asks_in, asks_out) = (wanted & WS_IN != 0, wanted & WS_OUT != 0);
        let (is_in, is_out) = match self {
            Open::Stream(stream) => (
                asks_in && stream.poll_read_ready(cx).is_ready(),
                asks_out && stream.poll_write_ready(cx).is_ready(),
            ),
            Open::Listener(listener) => (asks_in && listener.is_ready(cx), false),
            Open::Forwarder(forwarder) => (asks_in && forwarder.is_ready(cx), false),
            // A datagram is sent at once, or waits for room in a device for a moment.
            Open::Datagrams(socket) => (asks_in && socket.poll_recv_ready(cx).is_ready(), asks_out),
        };
        let bit = |is: bool, event: c_short| if is { event } else { 0 };
        bit(is_in, WS_IN) | bit(is_out, WS_OUT)
    }
}
