//! Sockets of a stack of ours, for servers and clients: datagram sockets, and streams that lend
//! their buffers for the data of calls and replies.
//!
//! Called by: programs, with feature `net`.

use core::future::Future;
use core::net::SocketAddr;
use std::io;
use std::sync::Arc;

use super::streams::serve_lending;
use super::{Arrived, Connection, Datagrams, Lender, Lent, Limits, Servers};

impl Datagrams for net::UdpSocket {
    async fn send(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        self.send_to(datagram, to).await.map(drop)
    }

    async fn receive(&self, room: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.recv_from(room).await
    }
}

/// A stream of a stack of ours that lends its buffers.
#[derive(Debug)]
pub struct Lending(pub net::TcpStream);

impl Connection for Lending {
    async fn serve(
        self,
        servers: Arc<Servers>,
        from: SocketAddr,
        limits: Limits,
    ) -> io::Result<()> {
        let stream = &self.0;
        serve_lending(servers, (stream, stream), stream, from, limits).await
    }
}

impl Lender for net::TcpStream {
    type Buffer = net::Loan;
    type Arrived = net::Received;

    fn lend(&self) -> Option<net::Loan> {
        // If there is no buffer, data is copied as for other streams.
        self.loan().ok()
    }

    fn send(&self, buffer: net::Loan) -> impl Future<Output = io::Result<()>> + Send {
        self.send_loan(buffer)
    }

    fn receive(&self) -> impl Future<Output = io::Result<Option<net::Received>>> + Send {
        self.read_loan()
    }
}

impl Arrived for net::Received {
    fn advance(&mut self, bytes: usize) {
        net::Received::advance(self, bytes);
    }
}

impl Lent for net::Loan {
    fn room(&self) -> usize {
        net::Loan::room(self)
    }

    fn fill(&mut self, fill: &mut dyn FnMut(&mut [u8]) -> usize) -> usize {
        net::Loan::fill(self, fill)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}
