//! An RPC program of one's own: a board on which notices are pinned. Its procedures are described
//! once; the trait, the service and the client are made of that.
//!
//! Called by: `rpc-board`, tests. The server takes calls over TCP and UDP, several at a time; the
//! notices that they share are behind a lock.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rpc::client::{CallError, Config};
use rpc::server::{Refusal, Request, Server};
use rpc::tasks::{Client, Limits, Servers, listen, serve_datagrams};
use rpc::xdr::Bounded;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use wirespeed::KeyedHash;

/// A number of the range that is for everybody (RFC 5531 section 8.4: 0x20000000 to 0x3fffffff).
pub const PROGRAM: u32 = 0x2000_0B0A;
/// Notices that the board has room for.
const NOTICES_MAX: usize = 1_000;

rpc::xdr! {
    /// A notice, as it is on the board.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Notice {
        /// Its author.
        pub by: Bounded<String, 64>,
        /// Its text.
        pub text: Bounded<String, 200>,
    }
}

rpc::program! {
    /// The board.
    pub trait Board, service BoardService, client BoardClient, program 0x2000_0B0A, version 1 {
        /// Pin a notice; returns how many there are then.
        fn pin(Notice) -> u32 = 1;
        /// The notices from that number on.
        fn read(u32) -> Vec<Notice> = 2;
    }
}

/// The notices, which all servers share.
#[derive(Clone, Debug, Default)]
struct Pinned(Arc<Mutex<Vec<Notice>>>);

impl Board for Pinned {
    fn pin(&mut self, notice: Notice, _: &Request<'_>) -> Result<u32, Refusal> {
        let mut notices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() >= NOTICES_MAX {
            return Err(Refusal::SystemError);
        }
        notices.push(notice);
        Ok(notices.len() as u32)
    }

    fn read(&mut self, from: u32, _: &Request<'_>) -> Result<Vec<Notice>, Refusal> {
        let notices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(notices.iter().skip(from as usize).cloned().collect())
    }
}

/// Serve the board at both sockets, until one of them fails.
///
/// # Errors
/// Those of the sockets.
pub async fn serve(listener: TcpListener, socket: UdpSocket) -> io::Result<()> {
    let (secret, pinned) = (secret()?, Pinned::default());
    // Two calls are carried out at a time.
    let servers = Servers::new(2, || {
        let mut server = Server::new(secret);
        server.add(BoardService(pinned.clone()));
        server
    });
    let streams = listen(servers.clone(), || listener.accept(), Limits::default());
    let datagrams = serve_datagrams(servers.clone(), socket, secret, 16);
    tokio::try_join!(streams, datagrams).map(drop)
}

/// A client over TCP.
///
/// # Errors
/// The system gives no random number.
pub fn over_tcp(server: SocketAddr) -> io::Result<Client> {
    let first_xid = getrandom::u32().map_err(io::Error::other)?;
    Ok(Client::over_streams(Config::new(PROGRAM, 1), first_xid, move || TcpStream::connect(server)))
}

/// A client over UDP.
///
/// # Errors
/// The system gives no socket or no random number.
pub async fn over_udp(server: SocketAddr) -> io::Result<Client> {
    let own = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(own).await?;
    Ok(Client::over_datagrams(Config::new(PROGRAM, 1), secret()?, socket, server))
}

/// Pin a notice; returns how many there are then.
///
/// # Errors
/// The call has no results.
pub async fn pin(client: &Client, by: &str, text: &str) -> Result<u32, CallError> {
    let notice = Notice { by: Bounded(by.to_owned()), text: Bounded(text.to_owned()) };
    client.call(1, &notice).await
}

/// All notices.
///
/// # Errors
/// The call has no results.
pub async fn read(client: &Client) -> Result<Vec<Notice>, CallError> {
    client.call(2, &0_u32).await
}

fn secret() -> io::Result<KeyedHash> {
    let draw = || getrandom::u64().map_err(io::Error::other);
    Ok(KeyedHash::new(draw()?, draw()?))
}
