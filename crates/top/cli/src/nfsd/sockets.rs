//! Opens the sockets of `wirespeed nfsd`, the system's or those of our stack, and serves RPC at
//! them by the functions of crate `rpc`.
//!
//! Called by: `run.rs`.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rpc::tasks::{Connection, Datagrams, Lending, Limits, Servers, listen, serve_datagrams};
use tokio::task::JoinSet;
use wirespeed::KeyedHash;
use wirespeed::net::{self, Net};

/// The servers, and how clients reach them.
pub(super) struct Serve {
    pub(super) servers: Arc<Servers>,
    pub(super) limits: Limits,
    /// Serve over UDP as well: the most calls that are carried out at the same time, and the secret
    /// of the table of recent calls. `None`: TCP alone.
    pub(super) udp: Option<(usize, KeyedHash)>,
}

/// The tasks that serve; one ends only if its socket fails.
pub(super) type Servings = JoinSet<io::Result<()>>;

impl Serve {
    /// Serve at sockets of the system. Returns their address.
    pub(super) async fn by_system(
        &self,
        at: SocketAddr,
        tasks: &mut Servings,
    ) -> io::Result<SocketAddr> {
        let listener = tokio::net::TcpListener::bind(at).await?;
        let at = listener.local_addr()?;
        let socket = match self.udp {
            Some(_) => Some(tokio::net::UdpSocket::bind(at).await?),
            None => None,
        };
        self.spawn(Arc::new(System(listener)), socket, tasks);
        Ok(at)
    }

    /// Serve at sockets of our stack.
    pub(super) fn by_stack(
        &self,
        net: &Net,
        at: SocketAddr,
        tasks: &mut Servings,
    ) -> io::Result<()> {
        let listener = net::TcpListener::bind(net, at)?;
        let socket = match self.udp {
            Some(_) => Some(net::UdpSocket::bind(net, at)?),
            None => None,
        };
        self.spawn(Arc::new(Ours(listener)), socket, tasks);
        Ok(())
    }

    /// Start the tasks that serve at these sockets.
    fn spawn<L: Accept>(
        &self,
        listener: Arc<L>,
        socket: Option<impl Datagrams>,
        tasks: &mut Servings,
    ) {
        let accept = move || {
            let listener = listener.clone();
            async move { listener.accept().await }
        };
        tasks.spawn(listen(self.servers.clone(), accept, self.limits));
        if let (Some(socket), Some((calls, secret))) = (socket, self.udp) {
            tasks.spawn(serve_datagrams(self.servers.clone(), socket, secret, calls));
        }
    }
}

/// A listener whose connections send at once, without Nagle's algorithm (TCP_NODELAY).
trait Accept: Send + Sync + 'static {
    type Stream: Connection;

    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
}

struct System(tokio::net::TcpListener);
struct Ours(net::TcpListener);

impl Accept for System {
    type Stream = tokio::net::TcpStream;

    async fn accept(&self) -> io::Result<(Self::Stream, SocketAddr)> {
        let (stream, from) = self.0.accept().await?;
        // This fails if the peer is gone already, which is no failure of the listener.
        let _ = stream.set_nodelay(true);
        Ok((stream, from))
    }
}

impl Accept for Ours {
    type Stream = Lending;

    async fn accept(&self) -> io::Result<(Self::Stream, SocketAddr)> {
        let (stream, from) = self.0.accept().await?;
        // This fails if the peer is gone already, too.
        let _ = stream.set_nodelay(true);
        Ok((Lending(stream), from))
    }
}
