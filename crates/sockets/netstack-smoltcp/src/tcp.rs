//! Connections to any host, as a stream of streams. Called by programs. A SYN is answered when the
//! program polls its listener, and the connection is delivered once it is open: SYNs without a
//! handshake behind them cost the program nothing. Limit: [`OPENING_MAX`].

use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, IoSlice};
use std::sync::Arc;

use futures_core::Stream;
use futures_util::stream::FuturesUnordered;
use net::{Forwarder, Net, Request};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Handshakes that one listener has in progress.
pub const OPENING_MAX: usize = 1024;

type Boxed<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// The connections, each with its source and its destination. The stream ends with the stack.
pub struct TcpListener {
    forwarder: Arc<Forwarder>,
    accepting: Boxed<Request>,
    opening: FuturesUnordered<Boxed<TcpStream>>,
}

impl TcpListener {
    pub(crate) fn new(net: &Net, config: tcp::Config) -> io::Result<TcpListener> {
        let forwarder = Arc::new(Forwarder::new(net, config, OPENING_MAX)?);
        let accepting = accept(&forwarder);
        Ok(TcpListener { forwarder, accepting, opening: FuturesUnordered::new() })
    }
}

fn accept(forwarder: &Arc<Forwarder>) -> Boxed<Request> {
    let forwarder = forwarder.clone();
    Box::pin(async move { forwarder.accept().await })
}

impl Stream for TcpListener {
    type Item = (TcpStream, SocketAddr, SocketAddr);

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            while self.opening.len() < OPENING_MAX
                && let Poll::Ready(request) = self.accepting.as_mut().poll(cx)
            {
                let Ok(request) = request else { return Poll::Ready(None) };
                self.accepting = accept(&self.forwarder);
                self.opening.push(Box::pin(async move {
                    let (src, dst) = (request.src(), request.dst());
                    Ok(TcpStream { stream: request.complete().await?, src, dst })
                }));
            }
            match Pin::new(&mut self.opening).poll_next(cx) {
                Poll::Ready(Some(Ok(stream))) => {
                    let (src, dst) = (stream.src, stream.dst);
                    return Poll::Ready(Some((stream, src, dst)));
                }
                // A handshake that fails is the client's affair, and the stack counts it. It leaves
                // room for a request that has to be looked for again.
                Poll::Ready(Some(Err(_))) => {}
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// A connection. It closes gracefully when it is dropped.
pub struct TcpStream {
    stream: net::TcpStream,
    src: SocketAddr,
    dst: SocketAddr,
}

impl TcpStream {
    /// The address of the client, which is local to this machine.
    pub fn local_addr(&self) -> &SocketAddr {
        &self.src
    }

    /// The destination that the client connected to.
    pub fn remote_addr(&self) -> &SocketAddr {
        &self.dst
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut self.stream), cx, buf)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.stream), cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write_vectored(Pin::new(&mut self.stream), cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.stream), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut self.stream), cx)
    }
}
