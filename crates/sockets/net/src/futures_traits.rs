//! `AsyncRead` and `AsyncWrite` of futures-io for streams and their halves.
//!
//! Called by: programs on runtimes other than tokio. The methods forward to the poll functions of
//! `stream.rs`.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, IoSlice, IoSliceMut};

use futures_io::{AsyncRead, AsyncWrite};

use crate::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, TcpStream, WriteHalf};

macro_rules! reader {
    ($($type:ty),*) => {$(
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                into: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                TcpStream::poll_read(&self, cx, into)
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                into: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                TcpStream::poll_read_vectored(&self, cx, into)
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

            /// A write sends the data before it returns, so there is nothing to flush.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.close_writing())
            }
        }
    )*};
}

reader!(TcpStream, ReadHalf<'_>, OwnedReadHalf);
writer!(TcpStream, WriteHalf<'_>, OwnedWriteHalf);
