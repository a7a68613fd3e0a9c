//! Socket options, under the names that `std` and `socket2` have for them: of a connection that is
//! open, and ([`TcpSocket`]) before it is opened.
//!
//! Called by: programs. Sizes of buffers are bytes of payload; nothing is doubled, unlike in Linux.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;

use base::Owner;
use stack::{FastOpenConfig, IpSettings, ListenConfig};
use tcp::Config;

use crate::inner::Inner;
use crate::waiting::Linger;
use crate::{Net, TcpListener, TcpStream, error};

/// Bits of the traffic class that are ECN's (RFC 3168).
const ECN: u8 = 3;

pub(crate) fn valid_ttl(ttl: u32) -> io::Result<u8> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "a TTL is 1 to 255");
    u8::try_from(ttl).ok().filter(|&ttl| ttl > 0).ok_or_else(invalid)
}

pub(crate) fn valid_tos(tos: u32) -> io::Result<u8> {
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidInput, "a traffic class is 0 to 255");
    u8::try_from(tos).map_err(invalid)
}

/// When to probe a silent peer; what is not set keeps its default (RFC 9293 section 3.8.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpKeepalive {
    /// Silence before the first probe; 2 hours.
    pub time: Option<Duration>,
    /// Between probes; 75 seconds.
    pub interval: Option<Duration>,
    /// Probes without an answer before the connection is given up; 9.
    pub retries: Option<u8>,
}

/// RFC 9293 MUST-28: no less than two hours unless asked for.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(7200);

fn keepalive_into(config: &mut Config, keepalive: &TcpKeepalive) {
    config.keepalive_idle = Some(keepalive.time.unwrap_or(KEEPALIVE_IDLE).into());
    config.keepalive_interval = keepalive.interval.map_or(config.keepalive_interval, Into::into);
    config.keepalive_probes_max = keepalive.retries.unwrap_or(config.keepalive_probes_max);
}

/// A receive buffer that nothing tunes.
fn fixed_receive(config: &mut Config, size: usize) {
    (config.receive_buffer_bytes, config.receive_buffer_max_bytes) = (bytes(size), 0);
}

/// A send buffer that nothing tunes.
fn fixed_send(config: &mut Config, size: usize) {
    (config.send_buffer_bytes, config.send_buffer_max_bytes) = (bytes(size), 0);
}

fn bytes(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

impl TcpStream {
    fn configure(&self, change: impl FnOnce(&mut Config)) -> io::Result<()> {
        self.now(|inner| inner.stack.tcp_configure(self.handle(), change))?
            .ok_or_else(error::aborted)
    }

    fn config<T>(&self, look: impl FnOnce(&Config) -> T) -> io::Result<T> {
        self.now(|inner| inner.stack.tcp_config(self.handle()).map(look))?
            .ok_or_else(error::aborted)
    }

    fn info<T>(&self, look: impl FnOnce(tcp::Info) -> T) -> io::Result<T> {
        self.now(|inner| inner.stack.tcp_info(self.handle()).map(look))?.ok_or_else(error::aborted)
    }

    /// Send small segments at once: Nagle's algorithm off (TCP_NODELAY).
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.now(|inner| inner.stack.tcp_set_no_delay(self.handle(), on))?
            .ok_or_else(error::aborted)
    }

    /// Is Nagle's algorithm off?
    ///
    /// # Errors
    /// The driver is gone.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.now(|inner| inner.stack.tcp_no_delay(self.handle()))?.ok_or_else(error::aborted)
    }

    /// Probe the peer when it is silent (SO_KEEPALIVE), with the times set before, or not.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_keepalive(&self, on: bool) -> io::Result<()> {
        self.configure(|config| {
            config.keepalive_idle =
                on.then(|| config.keepalive_idle.unwrap_or(KEEPALIVE_IDLE.into()));
        })
    }

    /// Is the peer probed when it is silent?
    ///
    /// # Errors
    /// The driver is gone.
    pub fn keepalive(&self) -> io::Result<bool> {
        self.config(|config| config.keepalive_idle.is_some())
    }

    /// Probe the peer when it is silent, and when.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_tcp_keepalive(&self, keepalive: &TcpKeepalive) -> io::Result<()> {
        self.configure(|config| keepalive_into(config, keepalive))
    }

    /// How long what was sent may stay unanswered before the connection ends with
    /// [`io::ErrorKind::TimedOut`] (TCP_USER_TIMEOUT); not less than the first retransmission.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_tcp_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.configure(|config| config.user_timeout = timeout.map(Into::into))
    }

    /// The user timeout.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn tcp_user_timeout(&self) -> io::Result<Option<Duration>> {
        self.config(|config| config.user_timeout.map(Into::into))
    }

    /// Bytes that may wait to be read: from now on exactly so many, whatever the path could do. The
    /// scale of the window was agreed in the handshake.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_recv_buffer_size(&self, size: usize) -> io::Result<()> {
        self.configure(|config| fixed_receive(config, size))
    }

    /// Bytes that may wait to be read, as it is now: tuned to the path, unless it was set.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn recv_buffer_size(&self) -> io::Result<usize> {
        self.info(|info| info.receive_buffer_bytes)
    }

    /// Bytes that may wait to be acknowledged: from now on exactly so many.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_send_buffer_size(&self, size: usize) -> io::Result<()> {
        self.configure(|config| fixed_send(config, size))
    }

    /// Bytes that may wait to be acknowledged, as it is now: it grows with the congestion window,
    /// unless it was set.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn send_buffer_size(&self) -> io::Result<usize> {
        self.info(|info| info.send_buffer_bytes)
    }

    /// What closing does with unsent data (SO_LINGER). `None`: it is sent, and close does not wait.
    /// Zero: it is thrown away, and the peer is reset. A time: dropping a
    /// [`crate::blocking::TcpStream`], or its last clone, waits until the peer has acknowledged
    /// everything, as long as this at most; it goes on being sent afterwards, as from Linux.
    ///
    /// A stream for tasks has no thread to hold up: its drop never waits, and a time counts for
    /// [`TcpStream::close`] alone. Times are kept in hundredths of a second.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        self.now(|inner| {
            if let Some(socket) = inner.tcp.get_mut(self.handle()) {
                socket.linger = Linger::new(linger);
            }
        })
    }

    /// See [`TcpStream::set_linger`].
    ///
    /// # Errors
    /// The driver is gone.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.now(|inner| inner.tcp.get(self.handle()).and_then(|s| s.linger.time()))
    }

    /// Time To Live of our packets, or their hop limit (IP_TTL, IPV6_UNICAST_HOPS).
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for 0 and past 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let ttl = valid_ttl(ttl)?;
        self.change_ip(|ip| ip.ttl = ttl)
    }

    /// See [`TcpStream::set_ttl`].
    ///
    /// # Errors
    /// The driver is gone.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(self.ip()?.ttl.into())
    }

    /// Type of service or traffic class of our packets (IP_TOS, IPV6_TCLASS). The two low bits are
    /// TCP's own, for ECN, and are ignored, as by Linux.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] past 255.
    pub fn set_tos(&self, tos: u32) -> io::Result<()> {
        let tos = valid_tos(tos)? & !ECN;
        self.change_ip(|ip| ip.tos = tos)
    }

    /// See [`TcpStream::set_tos`].
    ///
    /// # Errors
    /// The driver is gone.
    pub fn tos(&self) -> io::Result<u32> {
        Ok(self.ip()?.tos.into())
    }

    fn ip(&self) -> io::Result<IpSettings> {
        self.now(|inner| inner.stack.tcp_ip(self.handle()))?.ok_or_else(error::aborted)
    }

    fn change_ip(&self, change: impl FnOnce(&mut IpSettings)) -> io::Result<()> {
        let changed = self.now(|inner| {
            let mut ip = inner.stack.tcp_ip(self.handle())?;
            change(&mut ip);
            inner.stack.tcp_set_ip(self.handle(), ip)
        })?;
        changed.ok_or_else(error::aborted)
    }

    /// Statistics of the connection, after Linux's TCP_INFO.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn tcp_info(&self) -> io::Result<tcp::Info> {
        self.now(|inner| inner.stack.tcp_info(self.handle()))?.ok_or_else(error::aborted)
    }
}

/// Settings for a connection or a listener that is to be.
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
    /// With the stack's defaults.
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

    /// Everything that can be set, in the stack's own words.
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

    /// See [`TcpStream::set_tcp_user_timeout`]; a connect obeys it as well.
    pub fn set_tcp_user_timeout(&mut self, timeout: Option<Duration>) -> &mut TcpSocket {
        self.config.user_timeout = timeout.map(Into::into);
        self
    }

    /// Tell the peer in the SYN how long we keep what it does not acknowledge, and adopt the longer
    /// of both, from 100 s to an hour (RFC 5482); `None`, the default, neither tells nor listens.
    /// A user timeout that is set stays.
    pub fn set_user_timeout_option(&mut self, timeout: Option<Duration>) -> &mut TcpSocket {
        self.config.user_timeout_option = timeout.map(Into::into);
        self
    }

    /// Bytes that may wait to be read, the largest window offered: exactly so many. Without it the
    /// buffer follows path and reader.
    pub fn set_recv_buffer_size(&mut self, size: usize) -> &mut TcpSocket {
        fixed_receive(&mut self.config, size);
        self
    }

    /// Bytes that may wait to be acknowledged: exactly so many. Without it the buffer follows the
    /// congestion window.
    pub fn set_send_buffer_size(&mut self, size: usize) -> &mut TcpSocket {
        fixed_send(&mut self.config, size);
        self
    }

    /// See [`TcpStream::set_ttl`]; counts from the SYN on.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for 0 and past 255.
    pub fn set_ttl(&mut self, ttl: u32) -> io::Result<&mut TcpSocket> {
        self.ip.ttl = valid_ttl(ttl)?;
        Ok(self)
    }

    /// See [`TcpStream::set_tos`]; counts from the SYN on.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] past 255.
    pub fn set_tos(&mut self, tos: u32) -> io::Result<&mut TcpSocket> {
        self.ip.tos = valid_tos(tos)? & !ECN;
        Ok(self)
    }

    /// May `listen` take a port at which connections are open or in TIME-WAIT (SO_REUSEADDR)? It
    /// may unless told otherwise, as with `std` on Unix. Two listeners never share an address and
    /// port; with `true` one may have an address of a port and another the rest of it, and the
    /// closer one gets the connection.
    pub fn set_reuseaddr(&mut self, on: bool) -> &mut TcpSocket {
        self.reuse_address = on;
        self
    }

    /// Who it is for: routes may be granted to groups of users.
    pub fn set_owner(&mut self, owner: Owner) -> &mut TcpSocket {
        self.owner = Some(owner);
        self
    }

    /// The local address to use. Whether it can be had is said by `connect` or `listen`.
    pub fn bind(&mut self, local: SocketAddr) -> &mut TcpSocket {
        self.local = Some(local);
        self
    }

    pub(crate) fn net(&self) -> &Net {
        &self.net
    }

    /// Whose its connections are.
    pub(crate) fn owner_of(&self, inner: &Inner) -> Owner {
        self.owner.clone().unwrap_or_else(|| inner.owner.clone())
    }

    /// From where, with which settings, in which packets.
    pub(crate) fn ends(&self) -> (Option<SocketAddr>, &Config, IpSettings) {
        (self.local, &self.config, self.ip)
    }

    /// Send a SYN: the stream is there, the connection is not yet.
    pub(crate) fn start(&self, remote: SocketAddr) -> io::Result<TcpStream> {
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

    /// Listen at the address that was bound; port 0 is any that is free.
    ///
    /// # Errors
    /// As `std::net::TcpListener::bind`; [`io::ErrorKind::InvalidInput`] without `bind`.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9293 MUST-28.
    #[test]
    fn keepalive_waits_for_two_hours_unless_told_otherwise() {
        let mut config = Config::default();
        keepalive_into(&mut config, &TcpKeepalive::default());
        assert_eq!(config.keepalive_idle, Some(base::Duration::from_secs(2 * 60 * 60)));
        let time = Some(Duration::from_secs(5));
        keepalive_into(&mut config, &TcpKeepalive { time, ..TcpKeepalive::default() });
        assert_eq!(config.keepalive_idle, Some(base::Duration::from_secs(5)));
    }
}
