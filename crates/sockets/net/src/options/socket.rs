//! A TCP socket before it is opened: its settings, and the calls that connect or listen with them.
//!
//! Called by: programs, `fast_open`, `shards`. Sizes and times are checked in `values`.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;

use base::Owner;
use stack::{FastOpenConfig, IpSettings, ListenConfig};
use tcp::Config;

use super::{ECN, TcpKeepalive, fixed_receive, fixed_send, keepalive_into, valid_tos, valid_ttl};
use crate::inner::Inner;
use crate::{Net, TcpListener, TcpStream};

/// Settings for a connection or a listener, before it is made.
///
/// ```
/// # mod wirespeed { pub use {stack::*, wirespeed_net as net}; }
/// use std::time::Duration;
/// # use wirespeed::net::Net;
/// use wirespeed::net::{TcpKeepalive, TcpListener, TcpSocket};
/// # use wirespeed::pair::{PairConfig, pair};
/// # let (client, server) = pair(&PairConfig::new([1, 2]));
/// # let at = std::net::SocketAddr::new(server.addr, 7);
/// # let (net, _driver) = Net::spawn_thread(client.stack)?;
/// # let (server, _other) = Net::spawn_thread(server.stack)?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// # let _listener = TcpListener::bind(&server, at)?;
/// let keepalive = TcpKeepalive { time: Some(Duration::from_secs(60)), ..TcpKeepalive::default() };
/// let mut socket = TcpSocket::new(&net);
/// socket.set_nodelay(true).set_tcp_keepalive(&keepalive);
/// let stream = socket.connect(at).await?;
/// assert!(stream.nodelay()? && stream.keepalive()?);
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct TcpSocket {
    net: Net,
    local: Option<SocketAddr>,
    config: Config,
    owner: Option<Owner>,
    ip: IpSettings,
    reuse_address: bool,
    pub(crate) fast_open: FastOpenConfig,
}

impl TcpSocket {
    /// A socket with the stack's default settings.
    pub fn new(net: &Net) -> TcpSocket {
        TcpSocket {
            net: net.clone(),
            local: None,
            config: Config::default(),
            owner: None,
            ip: IpSettings::default(),
            reuse_address: true,
            fast_open: FastOpenConfig::default(),
        }
    }

    /// All TCP settings, in the stack's own type.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// See [`TcpStream::set_nodelay`].
    pub fn set_nodelay(&mut self, on: bool) -> &mut TcpSocket {
        self.config.no_delay = on;
        self
    }

    /// See [`TcpStream::set_tcp_keepalive`].
    pub fn set_tcp_keepalive(&mut self, keepalive: &TcpKeepalive) -> &mut TcpSocket {
        keepalive_into(&mut self.config, keepalive);
        self
    }

    /// See [`TcpStream::set_tcp_user_timeout`]. The time also limits the connect.
    pub fn set_tcp_user_timeout(&mut self, timeout: Option<Duration>) -> &mut TcpSocket {
        self.config.user_timeout = timeout.map(Into::into);
        self
    }

    /// Send the User Timeout Option (RFC 5482) in the SYN with this time. The connection then uses
    /// the longer of this time and the peer's, between 100 s and one hour. `None`, the default,
    /// neither sends nor obeys the option. A time set by [`TcpSocket::set_tcp_user_timeout`] takes
    /// precedence.
    pub fn set_user_timeout_option(&mut self, timeout: Option<Duration>) -> &mut TcpSocket {
        self.config.user_timeout_option = timeout.map(Into::into);
        self
    }

    /// Set the size of the receive buffer in bytes, which is the largest window offered, and turn
    /// its tuning off.
    pub fn set_recv_buffer_size(&mut self, size: usize) -> &mut TcpSocket {
        fixed_receive(&mut self.config, size);
        self
    }

    /// Set the size of the send buffer in bytes, and turn its tuning off.
    pub fn set_send_buffer_size(&mut self, size: usize) -> &mut TcpSocket {
        fixed_send(&mut self.config, size);
        self
    }

    /// See [`TcpStream::set_ttl`]; applies from the SYN on.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for 0 and above 255.
    pub fn set_ttl(&mut self, ttl: u32) -> io::Result<&mut TcpSocket> {
        self.ip.ttl = valid_ttl(ttl)?;
        Ok(self)
    }

    /// See [`TcpStream::set_tos`]; applies from the SYN on.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] above 255.
    pub fn set_tos(&mut self, tos: u32) -> io::Result<&mut TcpSocket> {
        self.ip.tos = valid_tos(tos)? & !ECN;
        Ok(self)
    }

    /// May `listen` use a port that has connections, open or in TIME-WAIT (SO_REUSEADDR)? On by
    /// default, as in `std` on Unix. Two listeners never share the same address and port. With
    /// `true`, one listener may have a specific address and another one the unspecified address; a
    /// connection goes to the listener with the more specific address.
    pub fn set_reuseaddr(&mut self, on: bool) -> &mut TcpSocket {
        self.reuse_address = on;
        self
    }

    /// Set the user and groups that the socket belongs to. Routes may be restricted to groups.
    pub fn set_owner(&mut self, owner: Owner) -> &mut TcpSocket {
        self.owner = Some(owner);
        self
    }

    /// Allow a local address that is not one of the stack's (IP_TRANSPARENT): for proxies that
    /// connect with another host's address. The network has to route the answers back to this
    /// stack.
    pub fn set_transparent(&mut self, on: bool) -> &mut TcpSocket {
        self.ip.transparent = on;
        self
    }

    /// Set the local address. `connect` or `listen` reports whether it is available.
    pub fn bind(&mut self, local: SocketAddr) -> &mut TcpSocket {
        self.local = Some(local);
        self
    }

    pub(crate) fn net(&self) -> &Net {
        &self.net
    }

    /// The same settings for a socket of another shard.
    pub(crate) fn at(&self, net: &Net) -> TcpSocket {
        TcpSocket { net: net.clone(), ..self.clone() }
    }

    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    /// The owner of its connections.
    pub(crate) fn owner_of(&self, inner: &Inner) -> Owner {
        self.owner.clone().unwrap_or_else(|| inner.owner.clone())
    }

    /// The local address, the TCP settings and the IP settings.
    pub(crate) fn ends(&self) -> (Option<SocketAddr>, &Config, IpSettings) {
        (self.local, &self.config, self.ip)
    }

    /// Send a SYN and return the stream, which is not connected yet:
    /// [`TcpStream::poll_connected`] says when it is. Dropping the stream ends the attempt.
    ///
    /// # Errors
    /// The connection cannot be tried: `remote` is unreachable, the local address is not available
    /// or in use, or a limit is reached.
    pub fn start(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        let handle = {
            let mut call = self.net.shared().call()?;
            let owner = self.owner_of(&call);
            call.connect(remote, self.local, &self.config, owner, self.ip)?
        };
        Ok(TcpStream::new(self.net.clone(), handle))
    }

    /// Connect. Dropping the future ends the attempt.
    ///
    /// # Errors
    /// As `std::net::TcpStream::connect`.
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        let stream = self.start(remote)?;
        stream.connected().await?;
        Ok(stream)
    }

    /// Listen at the bound address; port 0 stands for any free port.
    ///
    /// # Errors
    /// As `std::net::TcpListener::bind`; [`io::ErrorKind::InvalidInput`] if `bind` was not called.
    pub fn listen(&self, backlog: usize) -> io::Result<TcpListener> {
        let local = self.local.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "bind an address before listening")
        })?;
        let mut call = self.net.shared().call()?;
        let owner = self.owner_of(&call);
        let (tcp, ip) = (self.config, self.ip);
        let fast_open = self.fast_open;
        let config = ListenConfig { backlog, inspect: false, tcp, owner, ip, fast_open };
        let (handle, local) = call.listen(local, config, self.reuse_address)?;
        drop(call);
        Ok(TcpListener::new(self.net.clone(), handle, local))
    }
}
