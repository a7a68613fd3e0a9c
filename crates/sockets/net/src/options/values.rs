//! Values of socket options, checked, and what each sets in the stack's configuration.
//!
//! Called by: `options.rs`, `socket`; UDP sockets for the fields of the IP header.

use core::time::Duration;
use std::io;

use tcp::Config;

/// The ECN field of the traffic class (RFC 3168).
pub(super) const ECN: u8 = 3;

pub(crate) fn valid_ttl(ttl: u32) -> io::Result<u8> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "a TTL is 1 to 255");
    u8::try_from(ttl).ok().filter(|&ttl| ttl > 0).ok_or_else(invalid)
}

pub(crate) fn valid_tos(tos: u32) -> io::Result<u8> {
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidInput, "a traffic class is 0 to 255");
    u8::try_from(tos).map_err(invalid)
}

/// When to probe a silent peer; unset fields keep their defaults (RFC 9293 section 3.8.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpKeepalive {
    /// Silence before the first probe; default 2 hours.
    pub time: Option<Duration>,
    /// Time between probes; default 75 seconds.
    pub interval: Option<Duration>,
    /// Unanswered probes before the connection is given up; default 9.
    pub retries: Option<u8>,
}

/// RFC 9293 MUST-28: no less than two hours unless asked for.
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(7200);

pub(super) fn keepalive_into(config: &mut Config, keepalive: &TcpKeepalive) {
    config.keepalive_idle = Some(keepalive.time.unwrap_or(KEEPALIVE_IDLE).into());
    config.keepalive_interval = keepalive.interval.map_or(config.keepalive_interval, Into::into);
    config.keepalive_probes_max = keepalive.retries.unwrap_or(config.keepalive_probes_max);
}

/// A receive buffer of fixed size, without tuning.
pub(super) fn fixed_receive(config: &mut Config, size: usize) {
    (config.receive_buffer_bytes, config.receive_buffer_max_bytes) = (bytes(size), 0);
}

/// A send buffer of fixed size, without tuning.
pub(super) fn fixed_send(config: &mut Config, size: usize) {
    (config.send_buffer_bytes, config.send_buffer_max_bytes) = (bytes(size), 0);
}

fn bytes(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
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
