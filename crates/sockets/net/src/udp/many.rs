//! Many datagrams in one call, which takes the lock, reads the clock and calls the device once for
//! all of them.
//!
//! Called by: programs; `blocking/datagrams.rs` for threads. The calls are like recvmmsg, sendmmsg,
//! UDP_GRO and UDP_SEGMENT of Linux.

use core::net::{IpAddr, SocketAddr};
use core::task::Poll;
use std::io::{self, IoSliceMut};

use stack::{UdpError, UdpReceived};

use super::{UdpSocket, refused};
use crate::error;
use crate::inner::Inner;
use crate::wait::wait;
use crate::waiting::Readiness;

impl UdpSocket {
    pub(crate) fn look_receive_many(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        received: &mut Vec<UdpReceived>,
    ) -> impl FnMut(&mut Inner) -> Poll<io::Result<usize>> {
        let (handle, connected) = (self.handle, self.peer.get().is_some());
        move |inner| {
            if !inner.udp.contains_key(handle) {
                return Poll::Ready(Err(error::aborted()));
            }
            if let Some(error) = refused(inner, handle, connected) {
                return Poll::Ready(Err(error));
            }
            received.clear();
            for into in bufs.iter_mut() {
                let Some(one) = inner.stack.udp_receive_into(handle, into) else { break };
                received.push(one);
            }
            match received.len() {
                0 if !bufs.is_empty() => Poll::Pending,
                count => Poll::Ready(Ok(count)),
            }
        }
    }

    pub(crate) fn look_send_many(
        &self,
        datagrams: &[(SocketAddr, &[u8])],
    ) -> impl FnMut(&mut Inner) -> Poll<io::Result<usize>> {
        let (handle, connected) = (self.handle, self.peer.get().is_some());
        move |inner| {
            if let Some(error) = refused(inner, handle, connected) {
                return Poll::Ready(Err(error));
            }
            // The stack has been given the time of this call already, so the argument does not
            // matter.
            sent(inner.stack.udp_send_many(handle, datagrams, base::Instant::ZERO))
        }
    }

    pub(crate) fn look_send_segments(
        &self,
        data: &[u8],
        segment_size: usize,
        to: SocketAddr,
    ) -> impl FnMut(&mut Inner) -> Poll<io::Result<usize>> {
        let (handle, connected) = (self.handle, self.peer.get().is_some());
        move |inner| {
            if let Some(error) = refused(inner, handle, connected) {
                return Poll::Ready(Err(error));
            }
            let now = base::Instant::ZERO;
            sent(inner.stack.udp_send_segments(handle, to, data, segment_size, now))
        }
    }

    pub(crate) fn look_send_from(
        &self,
        data: &[u8],
        from: IpAddr,
        to: SocketAddr,
    ) -> impl FnMut(&mut Inner) -> Poll<io::Result<usize>> {
        let (handle, connected) = (self.handle, self.peer.get().is_some());
        move |inner| {
            if let Some(error) = refused(inner, handle, connected) {
                return Poll::Ready(Err(error));
            }
            let now = base::Instant::ZERO;
            let outcome = inner.stack.udp_send_from(handle, from, to, data, now);
            sent(outcome.map(|()| data.len()))
        }
    }

    /// Wait for a datagram, and take all that have arrived. Each buffer gets one datagram, or
    /// several of equal size if the socket coalesces ([`stack::UdpOptions::coalesces`]). Returns
    /// how many buffers were filled; `received` describes the content of each.
    ///
    /// # Errors
    /// The driver is gone; the pending error of a connected socket.
    pub async fn recv_many(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        received: &mut Vec<UdpReceived>,
    ) -> io::Result<usize> {
        let look = self.look_receive_many(bufs, received);
        wait(self.net.shared(), self.readiness(), look).await
    }

    /// Send datagrams in order, each to its own destination. Returns how many were sent, at least
    /// one. The call waits while the device is full.
    ///
    /// # Errors
    /// As [`UdpSocket::send_to`]; reported only if the first datagram could not be sent.
    pub async fn send_many(&self, datagrams: &[(SocketAddr, &[u8])]) -> io::Result<usize> {
        wait(self.net.shared(), Readiness::Room, self.look_send_many(datagrams)).await
    }

    /// Send `data` in datagrams of `segment_size` bytes; the last one may be shorter. One call
    /// sends at most 64 datagrams and 65,535 bytes. Returns how many bytes were sent, in whole
    /// datagrams. The call waits while the device is full.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] beyond those limits; the system's EMSGSIZE if a datagram is
    /// larger than the path's MTU; others as [`UdpSocket::send_to`].
    pub async fn send_segments(
        &self,
        data: &[u8],
        segment_size: usize,
        to: SocketAddr,
    ) -> io::Result<usize> {
        let look = self.look_send_segments(data, segment_size, to);
        wait(self.net.shared(), Readiness::Room, look).await
    }

    /// [`UdpSocket::send_to`] with the source address `from`, one of the stack's: for example the
    /// address to which a request was sent ([`UdpReceived::to`]).
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`]; others as [`UdpSocket::send_to`].
    pub async fn send_from(&self, data: &[u8], from: IpAddr, to: SocketAddr) -> io::Result<usize> {
        wait(self.net.shared(), Readiness::Room, self.look_send_from(data, from, to)).await
    }
}

fn sent(outcome: Result<usize, UdpError>) -> Poll<io::Result<usize>> {
    match outcome {
        Ok(n) => Poll::Ready(Ok(n)),
        Err(UdpError::WouldBlock) => Poll::Pending,
        Err(other) => Poll::Ready(Err(error::udp(other))),
    }
}
