//! The calls of [`Socket`] that open it: `bind`, `listen`, `accept`, `connect`.
//!
//! Called by: programs.

use core::task::{Context, Poll, Waker};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use wirespeed::net::blocking;

use crate::address;
use crate::error::{self, closed, raise};
use crate::socket::{Connection, Socket};
use crate::state::{Accepted, Connecting, Datagrams, Fresh, Listener, State};
use crate::wait::wait_polled;

/// The longest queue of connections that wait for `accept`.
const BACKLOG_MAX: usize = 4096;

impl Socket {
    pub(crate) fn bind_datagrams(&self, local: SocketAddr) -> PyResult<Arc<Datagrams>> {
        let broadcast = matches!(&*self.state(), State::Unbound(true));
        let socket = blocking::UdpSocket::bind(self.shared.net()?, local).map_err(|e| raise(&e))?;
        socket.set_broadcast(broadcast).map_err(|e| raise(&e))?;
        let datagrams = Arc::new(Datagrams::new(socket));
        self.put(State::Datagrams(datagrams.clone()));
        Ok(datagrams)
    }

    fn start_connecting(&self, remote: SocketAddr) -> PyResult<()> {
        let mut state = self.state();
        match &*state {
            State::Fresh(fresh) => {
                let settings = fresh.settings.clone();
                let attempt = Box::pin(async move { settings.connect(remote).await });
                let fresh = Fresh { error: None, ..(**fresh).clone() };
                *state = State::Connecting(Box::new(Connecting { fresh, attempt }));
                Ok(())
            }
            State::Connecting(_) => Ok(()),
            State::Stream(_) => {
                Err(error::numbered(libc::EISCONN, "the socket is connected already"))
            }
            State::Closed => Err(closed()),
            _ => Err(error::numbered(libc::EOPNOTSUPP, "a listener cannot connect")),
        }
    }
}

#[pymethods]
impl Socket {
    /// Set the local address.
    fn bind(&self, address: &Bound<'_, PyAny>) -> PyResult<()> {
        let local = address::parse(address, self.v6)?;
        {
            let mut state = self.state();
            match &mut *state {
                State::Fresh(fresh) if fresh.bound.is_none() => {
                    let ip = local.ip();
                    let free = |stack: &mut wirespeed::Stack| {
                        ip.is_unspecified() || ip.is_loopback() || stack.has_address(ip)
                    };
                    if !self.shared.net()?.with_stack(free).map_err(|e| raise(&e))? {
                        let text = "none of the stack's ports has such an address";
                        return Err(error::numbered(libc::EADDRNOTAVAIL, text));
                    }
                    fresh.settings.bind(local);
                    fresh.bound = Some(local);
                    return Ok(());
                }
                State::Unbound(_) => {}
                State::Closed => return Err(closed()),
                _ => {
                    let text = "the socket has an address already: make a new one";
                    return Err(error::numbered(libc::EINVAL, text));
                }
            }
        }
        self.bind_datagrams(local).map(drop)
    }

    /// Listen; the backlog is the number of connections that may wait for `accept`.
    #[pyo3(signature = (backlog = 128))]
    fn listen(&self, backlog: i64) -> PyResult<()> {
        let backlog = usize::try_from(backlog).unwrap_or(0).clamp(1, BACKLOG_MAX);
        let mut state = self.state();
        match &*state {
            State::Fresh(fresh) => {
                let mut settings = fresh.settings.clone();
                settings.bind(fresh.bound.unwrap_or(address::unspecified(self.v6)));
                let listener = settings.listen(backlog).map_err(|e| raise(&e))?;
                *state = State::Listener(Arc::new(Listener::new(listener)));
                Ok(())
            }
            State::Listener(_) => Ok(()),
            State::Closed => Err(closed()),
            State::Unbound(_) | State::Datagrams(_) => {
                Err(error::numbered(libc::EOPNOTSUPP, "a UDP socket does not listen"))
            }
            _ => Err(error::numbered(libc::EINVAL, "the socket is connected: make a new one")),
        }
    }

    /// Wait for a connection. Returns what becomes a socket, and the peer's address.
    fn _accept<'py>(&self, py: Python<'py>) -> PyResult<(Connection, Bound<'py, PyTuple>)> {
        let listener = match &*self.state() {
            State::Listener(listener) => listener.clone(),
            State::Closed => return Err(closed()),
            _ => return Err(error::numbered(libc::EINVAL, "the socket does not listen")),
        };
        let timeout = self.timeout();
        let (stream, remote): Accepted = if self.waits(timeout) {
            let mut accepting = listener.accepting();
            wait_polled(py, &self.shared, timeout, |cx| {
                if self.closed.load(Ordering::Relaxed) {
                    return Poll::Ready(Err(closed()));
                }
                accepting.as_mut().poll(cx).map(|done| done.map_err(|error| raise(&error)))
            })?
        } else {
            self.wait(py, timeout, || listener.try_accept())?
        };
        Ok((Connection(Mutex::new(Some(stream))), address::tuple(py, remote)?))
    }

    /// Has a connection attempt without waiting succeeded? Raises its error if it has failed.
    fn _is_connected(&self) -> PyResult<bool> {
        match self.poll_connect(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => return Ok(false),
            // The state has the error.
            Poll::Ready(_) => {}
        }
        match &mut *self.state() {
            State::Stream(_) => Ok(true),
            State::Closed => Err(closed()),
            State::Fresh(fresh) => match fresh.error.take() {
                Some((number, text)) => Err(error::numbered(number, &text)),
                None => Err(error::numbered(libc::ENOTCONN, "nobody has called `connect`")),
            },
            _ => Err(error::numbered(libc::EOPNOTSUPP, "the socket does not connect")),
        }
    }

    /// Connect to the peer. A UDP socket then sends to it, and receives from it alone.
    fn _connect(&self, py: Python<'_>, address: &Bound<'_, PyAny>) -> PyResult<()> {
        let remote = address::parse(address, self.v6)?;
        if self.kind == libc::SOCK_DGRAM {
            return self.datagrams()?.socket.connect(remote).map_err(|e| raise(&e));
        }
        self.start_connecting(remote)?;
        let connected = if self.timeout().is_nonblocking() {
            match self.poll_connect(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(done) => done,
                Poll::Pending => Err(error::numbered(
                    libc::EINPROGRESS,
                    "the connection is being made: wait until the socket is writable",
                )),
            }
        } else {
            wait_polled(py, &self.shared, self.timeout(), |cx| {
                match self.closed.load(Ordering::Relaxed) {
                    true => Poll::Ready(Err(closed())),
                    false => self.poll_connect(cx),
                }
            })
        };
        if connected.is_err()
            && let State::Fresh(fresh) = &mut *self.state()
        {
            // It is reported here.
            fresh.error = None;
        }
        connected
    }
}
