//! What a socket is opened with: the options that were set before.
//!
//! Called by: `socket.rs`, `options.rs`.

use core::net::SocketAddr;
use core::time::Duration;

use net::{Net, TcpKeepalive, TcpSocket, blocking};

use crate::error::Call;

/// What a socket is opened with.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) tcp: TcpSocket,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) receive_timeout: Option<Duration>,
    pub(crate) send_timeout: Option<Duration>,
    pub(crate) is_transparent: bool,
    pub(crate) keepalive: TcpKeepalive,
    pub(crate) has_keepalive: bool,
    pub(crate) linger: Option<Duration>,
    pub(crate) broadcast: bool,
    pub(crate) ttl: u32,
    pub(crate) tos: u32,
}

impl Settings {
    pub(crate) fn new(net: &Net) -> Settings {
        Settings {
            tcp: TcpSocket::new(net),
            local: None,
            receive_timeout: None,
            send_timeout: None,
            is_transparent: false,
            keepalive: TcpKeepalive::default(),
            has_keepalive: false,
            linger: None,
            broadcast: false,
            ttl: 64,
            tos: 0,
        }
    }

    /// The settings of a connection that a listener with these settings has accepted.
    pub(crate) fn of_accepted(&self) -> Settings {
        Settings { local: None, ..self.clone() }
    }

    /// Set the options of a datagram socket that was just opened.
    pub(crate) fn apply(&self, socket: &blocking::UdpSocket) -> Call<()> {
        socket.set_broadcast(self.broadcast)?;
        socket.set_ttl(self.ttl)?;
        socket.set_tos(self.tos)?;
        Ok(socket.set_write_timeout(self.send_timeout)?)
    }

    /// Set the options of a stream that was just opened. A stream over before is no error here.
    pub(crate) fn apply_to_stream(&self, stream: &blocking::TcpStream) -> Call<()> {
        stream.set_read_timeout(self.receive_timeout)?;
        stream.set_write_timeout(self.send_timeout)?;
        if self.linger.is_some() {
            stream.set_linger(self.linger)?;
        }
        Ok(())
    }
}
