//! [`Socket`]: a TCP or UDP socket of a stack, with the calls of Python's `socket.socket`.
//!
//! Called by: `python/wirespeed/_socket.py`, which derives from it. Calls may come from any thread.
//! A call takes what it needs out of the state and works on that without the state's lock, so that
//! one thread may send while another receives, or closes.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use wirespeed::net::{TcpStream, blocking};

use crate::address;
use crate::error::{self, closed, raise};
use crate::poller::Poller;
use crate::shared::{Shared, Time};
use crate::stack::Stack;
use crate::state::{Datagrams, Fresh, State};
use crate::wait::{Timeout, Try, wait};

/// `timeout_ns` of a socket whose calls wait without limit.
const FOREVER: u64 = u64::MAX;

/// A TCP or UDP socket of a stack.
#[pyclass(frozen, subclass, module = "wirespeed._native")]
pub(crate) struct Socket {
    pub(crate) shared: Arc<Shared>,
    pub(crate) v6: bool,
    pub(crate) kind: i32,
    pub(crate) state: Mutex<State>,
    timeout_ns: AtomicU64,
    pub(crate) closed: AtomicBool,
}

/// A connection that was accepted and has no socket yet.
#[pyclass(frozen, module = "wirespeed._native")]
pub(crate) struct Connection(pub(crate) Mutex<Option<TcpStream>>);

impl Socket {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared.is_of_parent() {
            // To drop it would touch the stack.
            core::mem::forget(core::mem::replace(&mut *state, State::Closed));
        }
        state
    }

    pub(crate) fn timeout(&self) -> Timeout {
        match self.timeout_ns.load(Ordering::Relaxed) {
            FOREVER => Timeout::NONE,
            ns => Timeout::from_nanos(Some(ns)),
        }
    }

    /// The timeout of a call with these flags.
    pub(crate) fn timeout_of(&self, flags: i32, known: i32) -> PyResult<Timeout> {
        let other = flags & !(known | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        if other != 0 {
            let text = "a flag of this call is not known: MSG_DONTWAIT and MSG_PEEK are";
            return Err(error::numbered(libc::EOPNOTSUPP, text));
        }
        match flags & libc::MSG_DONTWAIT {
            0 => Ok(self.timeout()),
            _ => Ok(Timeout(Some(Duration::ZERO))),
        }
    }

    /// Does an attempt itself wait?
    pub(crate) fn waits(&self, timeout: Timeout) -> bool {
        matches!(self.shared.time, Time::Real) && !timeout.is_nonblocking()
    }

    pub(crate) fn put(&self, new: State) {
        new.set_timeout(self.timeout());
        let old = core::mem::replace(&mut *self.state(), new);
        drop(old);
    }

    /// The connection.
    pub(crate) fn stream(&self) -> PyResult<Arc<blocking::TcpStream>> {
        if let Poll::Ready(Err(error)) = self.poll_connect(&mut Context::from_waker(Waker::noop()))
        {
            return Err(error);
        }
        match &*self.state() {
            State::Stream(stream) => Ok(stream.clone()),
            State::Connecting(_) => Err(raise(&ErrorKind::WouldBlock.into())),
            State::Closed => Err(closed()),
            _ => Err(error::numbered(libc::ENOTCONN, "the socket has no peer: connect it first")),
        }
    }

    /// The bound UDP socket; binds one that is not, to any address.
    pub(crate) fn datagrams(&self) -> PyResult<Arc<Datagrams>> {
        match &*self.state() {
            State::Datagrams(datagrams) => return Ok(datagrams.clone()),
            State::Unbound(_) => {}
            State::Closed => return Err(closed()),
            _ => {
                let text = "this is a TCP socket: connect it, and use `send`";
                return Err(error::numbered(libc::EISCONN, text));
            }
        }
        self.bind_datagrams(address::unspecified(self.v6))
    }

    /// Go on with the connection attempt, if there is one.
    pub(crate) fn poll_connect(&self, cx: &mut Context<'_>) -> Poll<PyResult<()>> {
        let mut state = self.state();
        let State::Connecting(connecting) = &mut *state else { return Poll::Ready(Ok(())) };
        let Poll::Ready(connected) = connecting.attempt.as_mut().poll(cx) else {
            return Poll::Pending;
        };
        match connected {
            Ok(stream) => {
                let stream = State::Stream(Arc::new(stream.into()));
                stream.set_timeout(self.timeout());
                *state = stream;
                Poll::Ready(Ok(()))
            }
            Err(error) => {
                let fresh = connecting.fresh.clone();
                let error_of_call = Some((wirespeed::net::errno(&error), error.to_string()));
                *state = State::Fresh(Box::new(Fresh { error: error_of_call, ..fresh }));
                Poll::Ready(Err(raise(&error)))
            }
        }
    }

    /// Wait for the result of `attempt`, but not longer than the socket is open.
    pub(crate) fn wait<T: Send>(
        &self,
        py: Python<'_>,
        timeout: Timeout,
        mut attempt: impl FnMut() -> io::Result<T> + Send,
    ) -> PyResult<T> {
        wait(py, &self.shared, timeout, || match attempt().into() {
            Try::Wait if self.closed.load(Ordering::Relaxed) => Try::Done(Err(closed())),
            tried => tried,
        })
    }
}

#[pymethods]
impl Socket {
    #[new]
    #[pyo3(signature = (
        stack, family = libc::AF_INET, r#type = libc::SOCK_STREAM, proto = 0, *, _accepted = None
    ))]
    fn new(
        stack: Bound<'_, Stack>,
        family: i32,
        r#type: i32,
        proto: i32,
        _accepted: Option<Bound<'_, Connection>>,
    ) -> PyResult<Socket> {
        let v6 = match family {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => {
                let text = "a stack has sockets of the families AF_INET and AF_INET6";
                return Err(error::numbered(libc::EAFNOSUPPORT, text));
            }
        };
        let own = match r#type {
            libc::SOCK_STREAM => libc::IPPROTO_TCP,
            libc::SOCK_DGRAM => libc::IPPROTO_UDP,
            _ => {
                let text = "a stack has sockets of the types SOCK_STREAM and SOCK_DGRAM";
                return Err(error::numbered(libc::EPROTONOSUPPORT, text));
            }
        };
        if proto != 0 && proto != own {
            let text = "the protocol does not belong to the type: leave it out";
            return Err(error::numbered(libc::EPROTONOSUPPORT, text));
        }
        let shared = stack.get().shared();
        let state = match _accepted {
            Some(accepted) => {
                let mut stream = accepted.get().0.lock().unwrap_or_else(PoisonError::into_inner);
                State::Stream(Arc::new(stream.take().ok_or_else(closed)?.into()))
            }
            None if own == libc::IPPROTO_TCP => State::Fresh(Box::new(Fresh::new(shared.net()?))),
            None => State::Unbound(false),
        };
        state.set_timeout(Timeout::NONE);
        Ok(Socket {
            shared,
            v6,
            kind: r#type,
            state: Mutex::new(state),
            timeout_ns: AtomicU64::new(FOREVER),
            closed: AtomicBool::new(false),
        })
    }

    #[getter]
    fn _family(&self) -> i32 {
        if self.v6 { libc::AF_INET6 } else { libc::AF_INET }
    }

    #[getter]
    fn _type(&self) -> i32 {
        self.kind
    }

    #[getter]
    fn _closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn _set_timeout_ns(&self, ns: Option<u64>) {
        self.timeout_ns.store(ns.unwrap_or(FOREVER), Ordering::Relaxed);
        self.state().set_timeout(self.timeout());
    }

    fn _timeout_ns(&self) -> Option<u64> {
        self.timeout().0.map(|time| u64::try_from(time.as_nanos()).unwrap_or(FOREVER))
    }

    /// Shut down one direction, or both: `SHUT_RD`, `SHUT_WR`, `SHUT_RDWR`.
    fn shutdown(&self, how: i32) -> PyResult<()> {
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(error::numbered(libc::EINVAL, "how is SHUT_RD, SHUT_WR or SHUT_RDWR")),
        };
        self.stream()?.shutdown(how).map_err(|e| raise(&e))
    }

    /// Close the socket. Data that was sent is still delivered.
    fn _real_close(&self, py: Python<'_>) {
        self.closed.store(true, Ordering::Relaxed);
        let old = core::mem::replace(&mut *self.state(), State::Closed);
        py.detach(|| {
            if let (State::Stream(stream), false) = (&old, self.waits(self.timeout())) {
                let _ = stream.set_nonblocking(true);
            }
            drop(old);
        });
    }

    /// The local address.
    fn getsockname<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let local = match &*self.state() {
            State::Fresh(fresh) => fresh.bound.unwrap_or(address::unspecified(self.v6)),
            State::Connecting(connecting) => {
                connecting.fresh.bound.unwrap_or(address::unspecified(self.v6))
            }
            State::Unbound(_) => address::unspecified(self.v6),
            State::Stream(stream) => stream.local_addr().map_err(|e| raise(&e))?,
            State::Listener(listener) => listener.listener.local_addr().map_err(|e| raise(&e))?,
            State::Datagrams(datagrams) => datagrams.socket.local_addr().map_err(|e| raise(&e))?,
            State::Closed => return Err(closed()),
        };
        address::tuple(py, local)
    }

    /// The address of the peer.
    fn getpeername<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let peer = match self.kind {
            libc::SOCK_DGRAM => match &*self.state() {
                State::Datagrams(datagrams) => datagrams.socket.peer_addr(),
                State::Closed => return Err(closed()),
                _ => Err(ErrorKind::NotConnected.into()),
            },
            _ => self.stream()?.peer_addr(),
        };
        address::tuple(py, peer.map_err(|e| raise(&e))?)
    }

    /// Report `token` to the poller once, when a call would not wait: a receiving one, or with
    /// `write` a sending one.
    fn _arm(&self, poller: &Poller, token: u64, write: bool) {
        let waker = poller.waker(token);
        let mut cx = Context::from_waker(&waker);
        let connected = self.poll_connect(&mut cx);
        let ready = match &*self.state() {
            State::Connecting(_) => connected.is_ready(),
            State::Stream(stream) if write => stream.poll_write_ready(&mut cx).is_ready(),
            State::Stream(stream) => stream.poll_read_ready(&mut cx).is_ready(),
            State::Listener(listener) if !write => listener.poll_ready(&mut cx),
            State::Datagrams(datagrams) if !write => datagrams.poll_ready(&mut cx),
            // A call fails at once, or a datagram is sent at once.
            _ => true,
        };
        if ready {
            waker.wake();
        }
    }
}

impl Drop for Socket {
    /// A socket that the program forgot does not wait, whatever SO_LINGER says.
    fn drop(&mut self) {
        if let State::Stream(stream) = &*self.state() {
            let _ = stream.set_nonblocking(true);
        }
    }
}
