//! The sockets behind the handles.
//!
//! Called by: `calls.rs`, for programs. A socket keeps its settings until it is opened by connect,
//! listen, bind or the first datagram; then it is an [`Open`] for good.

use core::ffi::{c_int, c_short};
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use net::{Request, TcpStream, blocking};

use crate::error::{Call, Error};
use crate::news::{News, wait_for};
use crate::open::{Doorway, Open};
use crate::settings::Settings;
use crate::stack_of_program::Stack;
use crate::types::WS_OUT;

/// What a socket carries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Stream,
    Datagrams,
}

/// What [`Socket::accept`] takes.
pub(crate) enum Arrival {
    Stream(TcpStream),
    /// A SYN that was not answered yet.
    Request(Request),
}

/// A socket of the program.
pub(crate) struct Socket {
    stack: Arc<Stack>,
    pub(crate) kind: Kind,
    pub(crate) is_v6: bool,
    pub(crate) nonblocking: AtomicBool,
    pub(crate) news: Arc<News>,
    waker: Waker,
    settings: Mutex<Settings>,
    /// A SYN that a forwarder took and that was not answered yet.
    asked: Mutex<Option<Request>>,
    open: OnceLock<Open>,
}

impl Socket {
    pub(crate) fn new(handle: i64, stack: Arc<Stack>, kind: Kind, is_v6: bool) -> Socket {
        let news = News::new(handle, &stack.queue);
        let settings = Mutex::new(Settings::new(&stack.net));
        Socket {
            stack,
            kind,
            is_v6,
            nonblocking: AtomicBool::new(false),
            waker: Waker::from(news.clone()),
            news,
            settings,
            asked: Mutex::new(None),
            open: OnceLock::new(),
        }
    }

    pub(crate) fn stack(&self) -> &Arc<Stack> {
        &self.stack
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.news.is_closed()
    }

    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn open(&self) -> Option<&Open> {
        self.open.get()
    }

    /// Make the socket an open one.
    pub(crate) fn set_open(&self, open: Open) -> Call<&Open> {
        if let Open::Stream(stream) = &open {
            // In a polled stack nothing waits, not even a close with SO_LINGER.
            stream.set_nonblocking(self.stack.is_polled())?;
            self.settings().apply_to_stream(stream)?;
        }
        if self.open.set(open).is_err() {
            return Err(Error::new(libc::EISCONN, "the socket is open already: make another one"));
        }
        // Threads may wait for the socket, from before it was open.
        self.news.wake_all();
        self.open.get().ok_or_else(Error::stale)
    }

    /// May this call wait?
    #[inline]
    pub(crate) fn may_wait(&self, flags: c_int) -> bool {
        flags & libc::MSG_DONTWAIT == 0
            && !self.nonblocking.load(Ordering::Relaxed)
            && self.stack.may_wait()
    }

    /// The stream of a socket that is one.
    #[inline]
    pub(crate) fn stream(&self) -> Call<&blocking::TcpStream> {
        match self.open() {
            Some(Open::Stream(stream)) => Ok(stream),
            _ => Err(Error::new(libc::ENOTCONN, "the socket is not connected: connect it first")),
        }
    }

    /// Which of the wanted events there are; news come for the others.
    pub(crate) fn ready(&self, wanted: c_short) -> c_short {
        match self.open() {
            Some(open) => open.ready(wanted, &self.waker),
            // The first datagram opens the socket.
            None if self.kind == Kind::Datagrams => wanted & WS_OUT,
            None => 0,
        }
    }

    fn asked(&self) -> MutexGuard<'_, Option<Request>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The socket is a SYN that was not answered yet.
    pub(crate) fn ask(&self, request: Request) {
        *self.asked() = Some(request);
    }

    /// Take that SYN.
    pub(crate) fn take_asked(&self) -> Option<Request> {
        self.asked().take()
    }

    /// The socket's handle is gone: calls in other threads return.
    pub(crate) fn close(&self) {
        self.news.close();
        if let Some(request) = self.take_asked() {
            // An error means that the stack has ended, and the peer learns it from there.
            let _ = request.reset();
        }
    }

    fn unspecified(&self) -> SocketAddr {
        match self.is_v6 {
            true => (Ipv6Addr::UNSPECIFIED, 0).into(),
            false => (Ipv4Addr::UNSPECIFIED, 0).into(),
        }
    }

    /// Check that an address is of the socket's family.
    pub(crate) fn check_family(&self, address: SocketAddr) -> Call<SocketAddr> {
        match address.is_ipv6() == self.is_v6 {
            true => Ok(address),
            false => Err(Error::new(
                libc::EAFNOSUPPORT,
                "the address is of another family than the socket: make one of its family",
            )),
        }
    }

    /// The datagram socket, which is bound if it was not.
    pub(crate) fn datagrams(&self, local: Option<SocketAddr>) -> Call<&blocking::UdpSocket> {
        if self.kind != Kind::Datagrams {
            return Err(Error::new(libc::EOPNOTSUPP, "the socket is not one for datagrams"));
        }
        if self.open().is_none() {
            let local = local.unwrap_or_else(|| self.unspecified());
            let socket = blocking::UdpSocket::bind(&self.stack.net, local)?;
            self.settings().apply(&socket)?;
            // Another thread may have been quicker; then its socket is used.
            if self.set_open(Open::Datagrams(socket)).is_err() && local.port() != 0 {
                return Err(Error::invalid("the socket is bound already"));
            }
        }
        match self.open() {
            Some(Open::Datagrams(socket)) => Ok(socket),
            _ => Err(Error::stale()),
        }
    }

    pub(crate) fn bind(&self, local: SocketAddr) -> Call<()> {
        let local = self.check_family(local)?;
        if self.open().is_some() || self.settings().local.is_some() {
            return Err(Error::invalid("the socket is bound already: make another one"));
        }
        if self.kind == Kind::Datagrams {
            self.datagrams(Some(local))?;
            return Ok(());
        }
        let ip = local.ip();
        let is_ours = |stack: &mut stack::Stack| stack.has_address(ip);
        let mut settings = self.settings();
        if !ip.is_unspecified()
            && !ip.is_loopback()
            && !settings.is_transparent
            && !self.stack.net.with_stack(is_ours)?
        {
            let text = format!("{ip} is no address of this stack: add it to a port");
            return Err(Error::new(libc::EADDRNOTAVAIL, text));
        }
        settings.local = Some(local);
        settings.tcp.bind(local);
        Ok(())
    }

    pub(crate) fn listen(&self, backlog: c_int) -> Call<()> {
        if self.kind != Kind::Stream {
            return Err(Error::new(libc::EOPNOTSUPP, "datagram sockets do not listen"));
        }
        match self.open() {
            None => {}
            Some(Open::Listener(_)) => return Ok(()),
            Some(_) => return Err(Error::invalid("the socket is connected: make another one")),
        }
        // As in Linux, a backlog of 0 has room for one connection.
        let backlog = usize::try_from(backlog).unwrap_or(libc::SOMAXCONN as usize).max(1);
        let mut socket = self.settings().tcp.clone();
        if self.settings().local.is_none() {
            socket.bind(self.unspecified());
        }
        let listener = socket.listen(backlog)?;
        self.set_open(Open::Listener(Doorway::new(listener))).map(|_| ())
    }

    pub(crate) fn connect(&self, remote: SocketAddr) -> Call<()> {
        let remote = self.check_family(remote)?;
        if self.kind == Kind::Datagrams {
            return Ok(self.datagrams(None)?.connect(remote)?);
        }
        match self.open() {
            None => {}
            Some(Open::Stream(stream)) => {
                return match self.poll_connected(stream, Waker::noop()) {
                    Err(error) if error.number == libc::EAGAIN => {
                        Err(Error::new(libc::EALREADY, "the socket connects already: wait"))
                    }
                    Err(error) => Err(error),
                    Ok(()) => Err(Error::new(libc::EISCONN, "the socket is connected already")),
                };
            }
            Some(_) => return Err(Error::new(libc::EOPNOTSUPP, "a listener does not connect")),
        }
        let stream = self.settings().tcp.start(remote)?;
        self.await_open(stream.into())
    }

    /// Make the socket a stream that connects, and wait until it is connected, or do not.
    pub(crate) fn await_open(&self, stream: blocking::TcpStream) -> Call<()> {
        let Open::Stream(stream) = self.set_open(Open::Stream(stream))? else {
            return Err(Error::stale());
        };
        let timeout = self.settings().send_timeout;
        let attempt = |waker: &Waker| self.poll_connected(stream, waker);
        wait_for(&self.news, self.may_wait(0), timeout, attempt).map_err(|error| {
            match error.number {
                libc::EAGAIN => Error::new(
                    libc::EINPROGRESS,
                    "the socket connects: wait for WS_OUT, and ask for SO_ERROR then",
                ),
                _ => error,
            }
        })
    }

    fn poll_connected(&self, stream: &TcpStream, waker: &Waker) -> Call<()> {
        match stream.poll_connected(&Context::from_waker(waker)) {
            Poll::Ready(connected) => Ok(connected?),
            Poll::Pending => Err(Error::again()),
        }
    }

    /// Take a connection, and its peer's address.
    pub(crate) fn accept(&self) -> Call<(Arrival, SocketAddr)> {
        let timeout = self.settings().receive_timeout;
        let may_wait = self.may_wait(0);
        match self.open() {
            Some(Open::Listener(listener)) => {
                let attempt = |waker: &Waker| listener.take(waker);
                let (stream, remote) = wait_for(&self.news, may_wait, timeout, attempt)?;
                Ok((Arrival::Stream(stream), remote))
            }
            Some(Open::Forwarder(forwarder)) => {
                let attempt = |waker: &Waker| forwarder.take(waker);
                let request = wait_for(&self.news, may_wait, timeout, attempt)?;
                let remote = request.src();
                Ok((Arrival::Request(request), remote))
            }
            _ => Err(Error::invalid("the socket does not listen: call ws_listen() first")),
        }
    }

    pub(crate) fn local_addr(&self) -> Call<SocketAddr> {
        if let Some(request) = &*self.asked() {
            return Ok(request.dst());
        }
        match self.open() {
            Some(Open::Stream(stream)) => Ok(stream.local_addr()?),
            Some(Open::Listener(listener)) => Ok(listener.door().local_addr()?),
            Some(Open::Datagrams(socket)) => Ok(socket.local_addr()?),
            Some(Open::Forwarder(_)) => Ok(self.unspecified()),
            None => Ok(self.settings().local.unwrap_or_else(|| self.unspecified())),
        }
    }

    pub(crate) fn peer_addr(&self) -> Call<SocketAddr> {
        if let Some(request) = &*self.asked() {
            return Ok(request.src());
        }
        match self.open() {
            Some(Open::Datagrams(socket)) => Ok(socket.peer_addr()?),
            _ => Ok(self.stream()?.peer_addr()?),
        }
    }
}
