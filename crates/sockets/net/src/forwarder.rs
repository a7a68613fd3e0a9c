//! The forwarder: accepts connections to any destination, local or not. The program sees source and
//! destination before the SYN is answered. It is for proxies, sandboxes and VPN clients.
//!
//! Called by: programs. Limits: `forward_requests` SYNs that wait for a decision, `half_open`
//! handshakes in progress, `forwarded` open connections. A SYN or connection beyond a limit is
//! refused, and the hit is counted.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::task::{Context, Poll};
use std::io;

use stack::{FastOpenConfig, IpSettings, ListenConfig, ListenerHandle, RequestHandle};
use tcp::Config;

use crate::inner::{Inner, poll_at};
use crate::wait::wait;
use crate::waiting::Readiness;
use crate::{Net, TcpStream, error};

/// Accepts connections to any destination; a stack has at most one.
///
/// A proxy. Its clients have a default route to it:
/// ```
/// # mod wirespeed { pub use {stack::*, wirespeed_net as net}; }
/// # use wirespeed::Route;
/// use wirespeed::net::{Forwarder, Net};
/// # use wirespeed::pair::{PairConfig, pair};
/// # let (client, server) = pair(&PairConfig::new([1, 2]));
/// # let at = std::net::SocketAddr::new(server.addr, 7);
/// # let (mut client, via) = (client, at.ip());
/// # let all = "0.0.0.0/0".parse().expect("every address");
/// # client.stack.add_route(Route::new(all, Some(via), client.port.0));
/// # let (net, _driver) = Net::spawn_thread(client.stack)?;
/// # let (server, _other) = Net::spawn_thread(server.stack)?;
/// # let connecting = std::thread::spawn(move || {
/// #     let to = "198.51.100.7:80".parse().expect("an address");
/// #     wirespeed::net::blocking::TcpStream::connect(&net, to).map(|_| ())
/// # });
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let forwarder = Forwarder::new(&server, Default::default(), 256)?;
/// let request = forwarder.accept().await?;
/// assert_eq!(request.dst().to_string(), "198.51.100.7:80"); // no address of this host
/// let stream = request.complete().await?; // or `reset`, or drop it to leave the SYN unanswered
/// assert_eq!(stream.local_addr()?.to_string(), "198.51.100.7:80");
/// # connecting.join().expect("it did not panic")?;
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Forwarder {
    net: Net,
    handle: ListenerHandle,
}

/// A SYN that was not answered yet. If the request is dropped, no answer is sent, and a
/// retransmission of the SYN is a new request.
pub struct Request {
    net: Net,
    handle: Option<RequestHandle>,
    dst: SocketAddr,
    src: SocketAddr,
}

impl Forwarder {
    /// Accept the SYNs that match no listener of the stack. Their connections get the settings
    /// `config`. At most `half_open_max` handshakes are in progress at once.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if the stack already has a forwarder; a limit.
    pub fn new(net: &Net, config: Config, half_open_max: usize) -> io::Result<Forwarder> {
        let handle = {
            let mut call = net.shared().call()?;
            let owner = call.owner.clone();
            let ip = IpSettings::default();
            let config = ListenConfig {
                backlog: half_open_max,
                inspect: true,
                tcp: config,
                owner,
                ip,
                fast_open: FastOpenConfig::default(),
            };
            // The unspecified address and port 0 match every destination.
            let anything = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
            let handle = call.stack.tcp_listen(anything, config).map_err(error::listen)?;
            call.listeners.insert(handle, Default::default());
            handle
        };
        Ok(Forwarder { net: net.clone(), handle })
    }

    /// Wait for a SYN. Dropping the future loses no SYN.
    ///
    /// # Errors
    /// The driver is gone.
    pub async fn accept(&self) -> io::Result<Request> {
        wait(self.net.shared(), Readiness::Accept(self.handle), self.look()).await
    }

    /// [`Forwarder::accept`] as a poll function. Only the task that polled last is woken.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Request>> {
        poll_at(self.net.shared(), Readiness::Accept(self.handle), cx, self.look())
    }

    fn look(&self) -> impl FnMut(&mut Inner) -> Poll<io::Result<Request>> + use<> {
        let (net, handle) = (self.net.clone(), self.handle);
        move |inner| match inner.stack.tcp_request(handle) {
            Some((handle, dst, src)) => {
                Poll::Ready(Ok(Request { net: net.clone(), handle: Some(handle), dst, src }))
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        if let Ok(mut call) = self.net.shared().call() {
            call.unlisten(self.handle);
        }
    }
}

impl Request {
    /// The destination of the SYN, which will be the local address of the connection.
    pub fn dst(&self) -> SocketAddr {
        self.dst
    }

    /// The source of the SYN: the peer.
    pub fn src(&self) -> SocketAddr {
        self.src
    }

    /// Answer the SYN and wait until the connection is open. Dropping the future closes the
    /// connection.
    ///
    /// # Errors
    /// [`io::ErrorKind::QuotaExceeded`] at a limit. At the limit `forwarded` the peer is refused;
    /// at the other limits the peer gets no answer and may try again. Otherwise the error that
    /// ended the handshake.
    pub async fn complete(self) -> io::Result<TcpStream> {
        let stream = self.answer()?;
        stream.connected().await.map_err(|error| match error.kind() {
            // This side aborts a handshake only if a newer SYN evicts it.
            io::ErrorKind::ConnectionAborted => error::limit("half_open_max"),
            _ => error,
        })?;
        Ok(stream)
    }

    /// Answer the SYN and return the stream, which is not connected yet:
    /// [`TcpStream::poll_connected`] says when it is.
    ///
    /// # Errors
    /// As [`Request::complete`], if a limit is reached.
    pub fn answer(mut self) -> io::Result<TcpStream> {
        let handle = {
            let mut call = self.net.shared().call()?;
            let request = self.handle.take().ok_or_else(error::aborted)?;
            if let Err(limit) = call.may_forward() {
                call.stack.tcp_refuse(request);
                return Err(limit);
            }
            let made = call.stack.tcp_complete(request);
            let handle = made.map_err(|reason| match reason {
                base::DropReason::TcpBacklogFull => error::limit("half_open_max"),
                base::DropReason::TcpConnectionLimit => error::limit("half_open or connections"),
                base::DropReason::TcpNoSocket => error::aborted(),
                other => error::unreachable(other),
            })?;
            call.adopt(handle, true);
            handle
        };
        Ok(TcpStream::new(self.net.clone(), handle))
    }

    /// Refuse the connection: the peer's connect fails with "connection refused".
    ///
    /// # Errors
    /// The driver is gone.
    pub fn reset(mut self) -> io::Result<()> {
        if let Some(handle) = self.handle.take() {
            self.net.shared().call()?.stack.tcp_refuse(handle);
        }
        Ok(())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take()
            && let Ok(mut call) = self.net.shared().call()
        {
            call.stack.tcp_ignore(handle);
        }
    }
}
