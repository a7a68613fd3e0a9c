//! A proxy in the manner of tun2socks: whatever connection comes in at a port of the stack, to any
//! destination, is carried there by the kernel's sockets, or to a SOCKS5 server (RFC 1928).
//!
//! Called by: `proxy`, tests. The kernel's side is connected first: a destination that refuses is
//! refused to the peer as well. Half-closing is carried over in both directions, and so is a reset.
//! UDP is left out: it goes unanswered, and programs that need it (most name service) must use TCP
//! or another way.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::TcpStream as KernelStream;
use tokio::sync::Semaphore;
use wirespeed::net::{Forwarder, Net, Request, TcpStream};
use wirespeed::tcp::Config;

/// How long the other side may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes that are on their way through a connection, each way.
const BUFFER: usize = 64 * 1024;

/// Where connections go.
#[derive(Clone, Copy, Debug)]
pub enum Upstream {
    /// Straight to their destination.
    Direct,
    /// To their destination by way of this SOCKS5 server, without authentication.
    Socks5(SocketAddr),
}

/// Carry connections until the stack ends, `connections_max` at a time; one more is refused.
///
/// # Errors
/// The stack has a forwarder already; its driver is gone.
pub async fn run(net: &Net, upstream: Upstream, connections_max: usize) -> io::Result<()> {
    let forwarder = Forwarder::new(net, Config::default(), connections_max)?;
    let places = Arc::new(Semaphore::new(connections_max));
    loop {
        let request = forwarder.accept().await?;
        let Ok(place) = places.clone().try_acquire_owned() else {
            request.reset()?;
            continue;
        };
        tokio::spawn(async move {
            let (src, dst) = (request.src(), request.dst());
            if let Err(error) = carry(request, upstream).await {
                eprintln!("{src} to {dst}: {error}");
            }
            drop(place);
        });
    }
}

async fn carry(request: Request, upstream: Upstream) -> io::Result<()> {
    let there = match tokio::time::timeout(PATIENCE, connect(request.dst(), upstream)).await {
        Ok(Ok(there)) => there,
        Ok(Err(error)) => {
            request.reset()?;
            return Err(error);
        }
        Err(_) => {
            request.reset()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the other side did not answer"));
        }
    };
    let here = request.complete().await?;
    join(here, there).await
}

/// Copy both ways until both have ended. An error of either end resets both: a peer that still
/// waits must not take it for the end of the data.
async fn join(mut here: TcpStream, mut there: KernelStream) -> io::Result<()> {
    here.set_nodelay(true)?;
    there.set_nodelay(true)?;
    let copied = copy_bidirectional_with_sizes(&mut here, &mut there, BUFFER, BUFFER).await;
    if let Err(error) = copied {
        here.set_linger(Some(Duration::ZERO))?;
        there.set_zero_linger()?;
        return Err(error);
    }
    Ok(())
}

async fn connect(dst: SocketAddr, upstream: Upstream) -> io::Result<KernelStream> {
    match upstream {
        Upstream::Direct => KernelStream::connect(dst).await,
        Upstream::Socks5(server) => {
            let mut stream = KernelStream::connect(server).await?;
            socks5(&mut stream, dst).await?;
            Ok(stream)
        }
    }
}

/// RFC 1928 sections 3 to 6: no authentication, CONNECT to an address.
async fn socks5(stream: &mut KernelStream, dst: SocketAddr) -> io::Result<()> {
    stream.write_all(&[5, 1, 0]).await?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await?;
    if chosen != [5, 0] {
        return Err(io::Error::other("the SOCKS5 server wants authentication: use one without"));
    }
    let mut request = vec![5, 1, 0];
    match dst {
        SocketAddr::V4(v4) => {
            request.push(1);
            request.extend(v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            request.push(4);
            request.extend(v6.ip().octets());
        }
    }
    request.extend(dst.port().to_be_bytes());
    stream.write_all(&request).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let bound_len = match head[3] {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return Err(io::Error::other("the SOCKS5 server's answer makes no sense")),
    };
    let mut bound = vec![0; bound_len + 2];
    stream.read_exact(&mut bound).await?;
    match head[1] {
        0 => Ok(()),
        5 => Err(io::ErrorKind::ConnectionRefused.into()),
        code => Err(io::Error::other(format!("the SOCKS5 server refuses, with code {code}"))),
    }
}
