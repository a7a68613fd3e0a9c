//! Sockets of the system and of a stack of ours, as crate `rpc` takes them.
//!
//! Called by: `run.rs`; `nfs` for its datagrams.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rpc::tasks::{Datagrams, Limits, Servers, listen, serve_datagrams};
use tokio::task::JoinSet;
use wirespeed::KeyedHash;
use wirespeed::net::{self, Net};

/// A UDP socket of a stack of ours.
pub(crate) struct OurSocket(pub(crate) net::UdpSocket);

impl Datagrams for OurSocket {
    async fn send(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        self.0.send_to(datagram, to).await.map(drop)
    }

    async fn receive(&self, room: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.recv_from(room).await
    }
}

/// How servers are to be reached.
pub(super) struct Serve {
    pub(super) servers: Arc<Servers>,
    pub(super) limits: Limits,
    /// Over UDP as well: datagrams that are carried out at a time, and the key of their table.
    pub(super) udp: Option<(usize, KeyedHash)>,
}

/// Tasks that end only if a socket fails.
pub(super) type Tasks = JoinSet<io::Result<()>>;

impl Serve {
    /// At a socket of the system; where that is.
    pub(super) async fn by_system(
        &self,
        at: SocketAddr,
        tasks: &mut Tasks,
    ) -> io::Result<SocketAddr> {
        let listener = Arc::new(tokio::net::TcpListener::bind(at).await?);
        let at = listener.local_addr()?;
        let accept = move || {
            let listener = listener.clone();
            async move {
                let (stream, from) = listener.accept().await?;
                // A peer may be gone already, which is no failure of the listener.
                let _ = stream.set_nodelay(true);
                Ok((stream, from))
            }
        };
        tasks.spawn(listen(self.servers.clone(), accept, self.limits));
        if let Some((calls, secret)) = self.udp {
            let socket = tokio::net::UdpSocket::bind(at).await?;
            tasks.spawn(serve_datagrams(self.servers.clone(), socket, secret, calls));
        }
        Ok(at)
    }

    /// At a socket of a stack of ours.
    pub(super) fn by_stack(&self, net: &Net, at: SocketAddr, tasks: &mut Tasks) -> io::Result<()> {
        let listener = Arc::new(net::TcpListener::bind(net, at)?);
        let accept = move || {
            let listener = listener.clone();
            async move {
                let (stream, from) = listener.accept().await?;
                // A peer may be gone already, which is no failure of the listener.
                let _ = stream.set_nodelay(true);
                Ok((stream, from))
            }
        };
        tasks.spawn(listen(self.servers.clone(), accept, self.limits));
        if let Some((calls, secret)) = self.udp {
            let socket = OurSocket(net::UdpSocket::bind(net, at)?);
            tasks.spawn(serve_datagrams(self.servers.clone(), socket, secret, calls));
        }
        Ok(())
    }
}
