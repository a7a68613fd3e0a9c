//! tokio's `AsyncRead` and `AsyncWrite` for streams and their halves.
//!
//! Called by: programs on tokio. As with std's `Read` and `Write`, a reference to a stream has the
//! traits too, so that one task may read while another one writes. The methods forward to the poll
//! functions of `stream.rs`.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, IoSlice};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, TcpStream, WriteHalf};

fn read(s: &TcpStream, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    // The buffers of tokio's helper functions are mostly initialised already.
    let n = ready!(s.poll_read(cx, into.initialize_unfilled()))?;
    into.advance(n);
    Poll::Ready(Ok(()))
}

macro_rules! reader {
    ($($type:ty),*) => {$(
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                into: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                read(&self, cx, into)
            }
        }
    )*};
}

macro_rules! writer {
    ($($type:ty),*) => {$(
        impl AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                data: &[u8],
            ) -> Poll<io::Result<usize>> {
                TcpStream::poll_write(&self, cx, data)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                parts: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                TcpStream::poll_write_vectored(&self, cx, parts)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            /// A write sends the data before it returns, so there is nothing to flush.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.close_writing())
            }
        }
    )*};
}

reader!(TcpStream, &TcpStream, ReadHalf<'_>, OwnedReadHalf);
writer!(TcpStream, &TcpStream, WriteHalf<'_>, OwnedWriteHalf);
