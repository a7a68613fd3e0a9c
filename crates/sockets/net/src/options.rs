//! Socket options under the names of `std` and `socket2`: here of an open connection, in `socket`
//! of a connection or listener that is not open yet ([`TcpSocket`]).
//!
//! Called by: programs. Buffer sizes are bytes of payload; unlike Linux, nothing is doubled.

mod socket;

use core::time::Duration;
use std::io;

pub use socket::TcpSocket;
use stack::IpSettings;
use tcp::Config;

use crate::waiting::Linger;
use crate::{TcpStream, error};

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

    /// Turn Nagle's algorithm off, so that small segments are sent at once (TCP_NODELAY), or on.
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

    /// Turn keepalive probes on or off (SO_KEEPALIVE). Their times stay as they were set before.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_keepalive(&self, on: bool) -> io::Result<()> {
        self.configure(|config| {
            config.keepalive_idle =
                on.then(|| config.keepalive_idle.unwrap_or(KEEPALIVE_IDLE.into()));
        })
    }

    /// Are keepalive probes on?
    ///
    /// # Errors
    /// The driver is gone.
    pub fn keepalive(&self) -> io::Result<bool> {
        self.config(|config| config.keepalive_idle.is_some())
    }

    /// Turn keepalive probes on, with these times.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_tcp_keepalive(&self, keepalive: &TcpKeepalive) -> io::Result<()> {
        self.configure(|config| keepalive_into(config, keepalive))
    }

    /// How long sent data may stay unacknowledged before the connection ends with
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

    /// Set the receive buffer to exactly `size` bytes, and turn its tuning off. The window scale
    /// does not change: the handshake fixed it.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_recv_buffer_size(&self, size: usize) -> io::Result<()> {
        self.configure(|config| fixed_receive(config, size))
    }

    /// Current size of the receive buffer in bytes. It is tuned to the path unless the program has
    /// set it.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn recv_buffer_size(&self) -> io::Result<usize> {
        self.info(|info| info.receive_buffer_bytes)
    }

    /// Set the send buffer to exactly `size` bytes and turn its tuning off.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_send_buffer_size(&self, size: usize) -> io::Result<()> {
        self.configure(|config| fixed_send(config, size))
    }

    /// Current size of the send buffer in bytes. It grows with the congestion window unless the
    /// program has set it.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn send_buffer_size(&self) -> io::Result<usize> {
        self.info(|info| info.send_buffer_bytes)
    }

    /// What happens to unsent data when a socket is closed (SO_LINGER). `None`: the data is sent,
    /// and close does not wait. Zero: the data is discarded, and the connection is reset. Any other
    /// time: dropping the last handle of a [`crate::blocking::TcpStream`] waits until the peer has
    /// acknowledged everything, for at most this time. The stack goes on sending afterwards, as
    /// Linux does.
    ///
    /// Dropping a stream for tasks never waits, since it must not block a thread. For these streams
    /// the time applies to [`TcpStream::close`] only. Times are kept in hundredths of a second.
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

    /// TTL or hop limit of sent packets (IP_TTL, IPV6_UNICAST_HOPS).
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for 0 and above 255.
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

    /// Type of service or traffic class of sent packets (IP_TOS, IPV6_TCLASS). The two low bits
    /// belong to ECN and are ignored, as Linux does.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] above 255.
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

    /// Statistics of the connection, like Linux's TCP_INFO.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn tcp_info(&self) -> io::Result<tcp::Info> {
        self.now(|inner| inner.stack.tcp_info(self.handle()))?.ok_or_else(error::aborted)
    }
}

/// The ECN field of the traffic class (RFC 3168).
const ECN: u8 = 3;

pub(crate) fn valid_ttl(ttl: u32) -> io::Result<u8> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "a TTL is 1 to 255");
    u8::try_from(ttl).ok().filter(|&ttl| ttl > 0).ok_or_else(invalid)
}

pub(crate) fn valid_tos(tos: u32) -> io::Result<u8> {
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidInput, "a traffic class is 0 to 255");
    u8::try_from(tos).map_err(invalid)
}

/// When to probe a silent peer. Fields that are `None` keep their defaults (RFC 9293 section
/// 3.8.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpKeepalive {
    /// Silence before the first probe; default 2 hours.
    pub time: Option<Duration>,
    /// Time between probes; default 75 seconds.
    pub interval: Option<Duration>,
    /// Unanswered probes before the connection is given up; default 9.
    pub retries: Option<u8>,
}

/// RFC 9293 MUST-28 (section 3.8.4): the first keepalive probe comes after two hours of silence or
/// more, unless the program asks for less.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(7200);

fn keepalive_into(config: &mut Config, keepalive: &TcpKeepalive) {
    config.keepalive_idle = Some(keepalive.time.unwrap_or(KEEPALIVE_IDLE).into());
    config.keepalive_interval = keepalive.interval.map_or(config.keepalive_interval, Into::into);
    config.keepalive_probes_max = keepalive.retries.unwrap_or(config.keepalive_probes_max);
}

/// Sets a receive buffer of fixed size, without tuning.
fn fixed_receive(config: &mut Config, size: usize) {
    (config.receive_buffer_bytes, config.receive_buffer_max_bytes) = (bytes(size), 0);
}

/// Sets a send buffer of fixed size, without tuning.
fn fixed_send(config: &mut Config, size: usize) {
    (config.send_buffer_bytes, config.send_buffer_max_bytes) = (bytes(size), 0);
}

fn bytes(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9293 MUST-28 (section 3.8.4): without a setting, keepalive waits for two hours.
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
