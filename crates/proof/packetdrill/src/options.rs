//! `getsockopt` and `setsockopt` by number, mapped to the stack's settings.
//!
//! Called by: `entry/mod.rs`. Values are bytes here, not pointers. An option is accepted if the
//! stack or this adapter does what the option asks for. All others return `ENOPROTOOPT`, so that no
//! script relies on a setting without effect.

use std::os::fd::RawFd;

use base::Duration;
use libc::{
    IP_TOS, IP_TTL, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPV6_TCLASS, IPV6_UNICAST_HOPS,
    SO_ERROR, SO_KEEPALIVE, SO_LINGER, SO_MARK, SO_RCVBUF, SO_RCVTIMEO, SO_SNDBUF, SO_SNDTIMEO,
    SOL_SOCKET, TCP_CONGESTION, TCP_CORK, TCP_FASTOPEN, TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_KEY,
    TCP_FASTOPEN_NO_COOKIE, TCP_INFO, TCP_INQ, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL,
    TCP_LINGER2, TCP_MAXSEG, TCP_NODELAY, TCP_NOTSENT_LOWAT, TCP_QUICKACK, TCP_SYNCNT,
    TCP_USER_TIMEOUT,
};
use rustix::io::Errno;
use tcp::Config;

use super::control::tcp_error;
use super::file::Endpoint;
use super::profile::System;
use super::sysctls::algorithm_named;
use super::world::State;
use super::{Call, fast_open, info};

/// Options that are stored and returned. Either other files here read them, or the stack does what
/// they ask for anyway, or there is nothing that they could change (the order of a device's queue,
/// addresses of other hosts, a second listener at the same port, which is refused when it listens).
const REMEMBERED: &[(i32, i32)] = &[
    (SOL_SOCKET, libc::SO_REUSEADDR),
    (SOL_SOCKET, libc::SO_REUSEPORT),
    (SOL_SOCKET, libc::SO_PRIORITY),
    (SOL_SOCKET, libc::SO_OOBINLINE),
    (SOL_SOCKET, libc::SO_RCVLOWAT),
    (SOL_SOCKET, libc::SO_ZEROCOPY),
    (IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (IPPROTO_IP, libc::IP_FREEBIND),
    (IPPROTO_IP, libc::IP_RECVERR),
    (IPPROTO_IPV6, libc::IPV6_V6ONLY),
    (IPPROTO_IPV6, libc::IPV6_RECVERR),
    (IPPROTO_TCP, libc::TCP_QUICKACK),
];

/// The longest time of `TCP_LINGER2`, in seconds, as on Linux.
const LINGER2_MAX: u32 = 120;

/// The time in `SO_RCVTIMEO` or `SO_SNDTIMEO`, a `struct timeval`; `None` if it is zero. A negative
/// time ends at once.
fn timeout(value: &[u8]) -> Call<Option<Duration>> {
    let word = |at: usize| value.get(at..at + 8)?.try_into().ok().map(i64::from_ne_bytes);
    let (seconds, us) = word(0).zip(word(8)).ok_or(Errno::INVAL)?;
    let us = u64::try_from(us).ok().filter(|us| *us < 1_000_000).ok_or(Errno::DOM)?;
    let Ok(seconds) = u64::try_from(seconds) else { return Ok(Some(Duration::ZERO)) };
    let most = 1 << 32;
    let time = Duration::from_micros(seconds.min(most) * 1_000_000 + us);
    Ok((time > Duration::ZERO).then_some(time))
}

/// The option for the state of the congestion control algorithm.
const TCP_CC_INFO: i32 = 26;
/// The option for nine of Linux's memory counters of a socket. This stack counts in another way.
const SO_MEMINFO: i32 = 55;

/// The part for payload of a Linux send buffer size, which includes overhead.
fn payload_part(bytes: u32) -> u32 {
    // 8/11: the part that small segments leave for payload on Linux.
    bytes / 11 * 8
}

/// The number in an option's value: four bytes, or one byte at the IP level.
fn number(level: i32, value: &[u8]) -> Call<i32> {
    match value {
        [a, b, c, d, ..] => Ok(i32::from_ne_bytes([*a, *b, *c, *d])),
        [byte, ..] if level == IPPROTO_IP => Ok(i32::from(*byte)),
        _ => Err(Errno::INVAL),
    }
}

/// `setsockopt`.
pub(super) fn set(state: &mut State, fd: RawFd, level: i32, name: i32, value: &[u8]) -> Call<()> {
    if (level, name) == (SOL_SOCKET, SO_LINGER) {
        let (on, seconds) = (number(level, value)?, number(level, value.get(4..).unwrap_or(&[]))?);
        state.socket(fd)?.linger = (on != 0).then(|| u32::try_from(seconds).unwrap_or(0));
        return Ok(());
    }
    if (level, name) == (IPPROTO_TCP, TCP_CONGESTION) {
        let text = String::from_utf8_lossy(value);
        let named = algorithm_named(text.trim_end_matches('\0')).ok_or(Errno::NOENT)?;
        return configure(state, fd, |config| config.algorithm = named);
    }
    if (level, name) == (IPPROTO_TCP, TCP_FASTOPEN_KEY) {
        return fast_open::set(state, fd, name, value, 0);
    }
    if let (SOL_SOCKET, SO_RCVTIMEO | SO_SNDTIMEO) = (level, name) {
        let time = timeout(value)?;
        let (receive, send) = &mut state.socket(fd)?.timeouts;
        *(if name == SO_RCVTIMEO { receive } else { send }) = time;
        return Ok(());
    }
    let n = number(level, value)?;
    let positive = u32::try_from(n).unwrap_or(0);
    match (level, name) {
        (SOL_SOCKET, SO_MARK) => set_ip(state, fd, |ip| ip.mark = n as u32),
        (SOL_SOCKET, SO_SNDBUF) => send_buffer(state, fd, positive),
        (SOL_SOCKET, SO_RCVBUF) => receive_buffer(state, fd, positive),
        (SOL_SOCKET, SO_KEEPALIVE) => {
            let idle = (n != 0).then(|| keepalive_idle(state, fd));
            configure(state, fd, |config| config.keepalive_idle = idle)
        }
        (IPPROTO_TCP, _) => set_tcp(state, fd, name, n),
        (IPPROTO_IP, IP_TOS) | (IPPROTO_IPV6, IPV6_TCLASS) => {
            set_ip(state, fd, |ip| ip.tos = n as u8)
        }
        (IPPROTO_IP, IP_TTL) | (IPPROTO_IPV6, IPV6_UNICAST_HOPS) if (1..=255).contains(&n) => {
            set_ip(state, fd, |ip| ip.ttl = n as u8)
        }
        _ => remember(state, fd, level, name, n),
    }
}

fn set_tcp(state: &mut State, fd: RawFd, name: i32, n: i32) -> Call<()> {
    let positive = u32::try_from(n).unwrap_or(0);
    let seconds = Duration::from_secs(u64::from(positive));
    let small = u8::try_from(n).unwrap_or(u8::MAX);
    match name {
        TCP_NODELAY => set_no_delay(state, fd, n != 0),
        TCP_CORK => {
            remember(state, fd, IPPROTO_TCP, TCP_CORK, i32::from(n != 0))?;
            if let Endpoint::Connection(handle) = state.socket(fd)?.endpoint {
                state.stack.tcp_set_cork(handle, n != 0);
            }
            Ok(())
        }
        // Linux's limits are 88 and 32,767 bytes; 0 removes the setting.
        TCP_MAXSEG if n != 0 && !(88..=32_767).contains(&n) => Err(Errno::INVAL),
        TCP_MAXSEG => {
            let most = if n == 0 { u16::MAX } else { n as u16 };
            configure(state, fd, |config| config.mss_max = most)
        }
        TCP_USER_TIMEOUT => {
            let most = (n > 0).then(|| Duration::from_millis(u64::from(positive)));
            configure(state, fd, |config| config.user_timeout = most)
        }
        TCP_NOTSENT_LOWAT => {
            remember(state, fd, IPPROTO_TCP, name, n)?;
            let limit = if n == 0 { u32::MAX } else { n as u32 };
            configure(state, fd, |config| config.unsent_limit_bytes = limit)
        }
        TCP_KEEPIDLE => {
            remember(state, fd, IPPROTO_TCP, name, n)?;
            configure(state, fd, |config| {
                config.keepalive_idle = config.keepalive_idle.map(|_| seconds);
            })
        }
        TCP_KEEPINTVL => configure(state, fd, |config| config.keepalive_interval = seconds),
        TCP_KEEPCNT => configure(state, fd, |config| config.keepalive_probes_max = small),
        TCP_SYNCNT => configure(state, fd, |config| config.syn_retries_max = small),
        TCP_FASTOPEN | TCP_FASTOPEN_CONNECT | TCP_FASTOPEN_NO_COOKIE => {
            fast_open::set(state, fd, name, &[], n)
        }
        TCP_INQ => {
            state.socket(fd)?.reports_unread = n != 0;
            Ok(())
        }
        // How long an orphan stays in FIN-WAIT-2; 0 is the default. With a negative time Linux
        // resets the connection, and the stack does not.
        TCP_LINGER2 if n < 0 => Err(Errno::NOPROTOOPT),
        TCP_LINGER2 => {
            let default = Config::default().fin_wait_2;
            let time = Duration::from_secs(u64::from(positive.min(LINGER2_MAX)));
            let time = if n == 0 { default } else { time };
            configure(state, fd, |config| config.fin_wait_2 = time)
        }
        // In these scripts every segment is acknowledged at once anyway. A script cannot ask for
        // delayed ACKs.
        TCP_QUICKACK if n == 0 => Err(Errno::NOPROTOOPT),
        _ => remember(state, fd, IPPROTO_TCP, name, n),
    }
}

/// Turning Nagle's algorithm off sends corked data, as on Linux; the cork stays set.
fn set_no_delay(state: &mut State, fd: RawFd, on: bool) -> Call<()> {
    configure(state, fd, |config| config.no_delay = on)?;
    let socket = state.socket(fd)?;
    let corked = socket.remembered.get(&(IPPROTO_TCP, TCP_CORK)).is_some_and(|&n| n != 0);
    if let Endpoint::Connection(handle) = socket.endpoint {
        state.stack.tcp_set_cork(handle, false);
        state.stack.tcp_set_no_delay(handle, on);
        if corked {
            state.stack.tcp_set_cork(handle, true);
        }
    }
    Ok(())
}

fn keepalive_idle(state: &mut State, fd: RawFd) -> Duration {
    let asked = state.socket(fd).ok();
    let asked = asked.and_then(|s| s.remembered.get(&(IPPROTO_TCP, TCP_KEEPIDLE)).copied());
    // Two hours (RFC 9293 section 3.8.4).
    Duration::from_secs(u64::try_from(asked.unwrap_or(7200)).unwrap_or(7200))
}

/// Set the send buffer's size. Linux doubles the requested value to have room for overhead.
fn send_buffer(state: &mut State, fd: RawFd, bytes: u32) -> Call<()> {
    let payload = match state.profile.system {
        System::Linux => {
            let doubled = bytes.saturating_mul(2).clamp(4608, i32::MAX as u32);
            remember(state, fd, SOL_SOCKET, SO_SNDBUF, doubled as i32)?;
            payload_part(doubled)
        }
        System::FreeBsd => bytes,
    };
    configure(state, fd, |config| {
        (config.send_buffer_bytes, config.send_buffer_max_bytes) = (payload, 0);
    })
}

fn receive_buffer(state: &mut State, fd: RawFd, bytes: u32) -> Call<()> {
    let bytes = match state.profile.system {
        System::Linux => bytes.clamp(1152, i32::MAX as u32 / 2),
        System::FreeBsd => bytes,
    };
    configure(state, fd, |config| {
        (config.receive_buffer_bytes, config.receive_buffer_max_bytes) = (bytes, 0);
    })
}

/// Change the socket's settings, and those of its connection or listener if there is one.
fn configure(state: &mut State, fd: RawFd, change: impl Fn(&mut Config)) -> Call<()> {
    let socket = state.socket(fd)?;
    change(&mut socket.config);
    match socket.endpoint {
        Endpoint::Connection(handle) => drop(state.stack.tcp_configure(handle, &change)),
        Endpoint::Listening(it) => drop(state.stack.tcp_configure_listener(it, &change)),
        Endpoint::Fresh | Endpoint::Unbound | Endpoint::Datagram(_) => {}
    }
    Ok(())
}

fn set_ip(state: &mut State, fd: RawFd, change: impl Fn(&mut stack::IpSettings)) -> Call<()> {
    let socket = state.socket(fd)?;
    change(&mut socket.ip);
    let (ip, endpoint) = (socket.ip, socket.endpoint);
    match endpoint {
        Endpoint::Connection(handle) => drop(state.stack.tcp_set_ip(handle, ip)),
        Endpoint::Datagram(handle) => {
            if let Some(settings) = state.stack.udp_ip_mut(handle) {
                *settings = ip;
            }
        }
        Endpoint::Fresh | Endpoint::Listening(_) | Endpoint::Unbound => {}
    }
    Ok(())
}

fn remember(state: &mut State, fd: RawFd, level: i32, name: i32, n: i32) -> Call<()> {
    let own = [(SOL_SOCKET, SO_SNDBUF), (IPPROTO_TCP, TCP_CORK)];
    let tcp = [(IPPROTO_TCP, TCP_NOTSENT_LOWAT), (IPPROTO_TCP, TCP_KEEPIDLE)];
    if ![REMEMBERED, &own, &tcp].iter().any(|known| known.contains(&(level, name))) {
        return Err(Errno::NOPROTOOPT);
    }
    state.socket(fd)?.remembered.insert((level, name), n);
    Ok(())
}

/// The values that are not numbers; `None` for other options.
fn get_structure(state: &mut State, fd: RawFd, level: i32, name: i32) -> Call<Option<Vec<u8>>> {
    let words = |words: [i32; 2]| words.map(i32::to_ne_bytes).concat();
    Ok(Some(match (level, name) {
        (IPPROTO_TCP, TCP_INFO) => info::bytes(state, fd)?,
        // The answer for an algorithm that reports no state.
        (IPPROTO_TCP, TCP_CC_INFO) => Vec::new(),
        (SOL_SOCKET, SO_MEMINFO) => vec![0; 9 * 4],
        (IPPROTO_TCP, TCP_CONGESTION) => {
            // The name has sixteen bytes, as on Linux.
            let mut text = state.socket(fd)?.config.algorithm.name().as_bytes().to_vec();
            text.resize(16, 0);
            text
        }
        (SOL_SOCKET, SO_LINGER) => {
            let linger = state.socket(fd)?.linger;
            words([i32::from(linger.is_some()), linger.unwrap_or(0) as i32])
        }
        (SOL_SOCKET, SO_RCVTIMEO | SO_SNDTIMEO) => {
            let (receive, send) = state.socket(fd)?.timeouts;
            let time = if name == SO_RCVTIMEO { receive } else { send };
            let us = time.map_or(0, |time| time.as_micros() as i64);
            [us / 1_000_000, us % 1_000_000].map(i64::to_ne_bytes).concat()
        }
        _ => return Ok(None),
    }))
}

/// `getsockopt`: the value's bytes.
pub(super) fn get(state: &mut State, fd: RawFd, level: i32, name: i32) -> Call<Vec<u8>> {
    let endpoint = state.socket(fd)?.endpoint;
    if let Some(bytes) = get_structure(state, fd, level, name)? {
        return Ok(bytes);
    }
    let told = state.socket(fd)?.remembered.get(&(level, name)).copied();
    let connection = match endpoint {
        Endpoint::Connection(handle) => state.stack.tcp_info(handle),
        _ => None,
    };
    let system = state.profile.system;
    let socket = state.socket(fd)?;
    let config = &socket.config;
    let seconds = |d: Duration| (d.as_millis() / 1000) as i32;
    let n = match (level, name) {
        (SOL_SOCKET, SO_ERROR) => return pending_error(state, fd).map(|n| n.to_ne_bytes().into()),
        (SOL_SOCKET, libc::SO_TYPE) => match endpoint {
            Endpoint::Unbound | Endpoint::Datagram(_) => libc::SOCK_DGRAM,
            _ => libc::SOCK_STREAM,
        },
        (SOL_SOCKET, libc::SO_ACCEPTCONN) => i32::from(matches!(endpoint, Endpoint::Listening(_))),
        (SOL_SOCKET, SO_SNDBUF) => told.unwrap_or(config.send_buffer_bytes as i32),
        (SOL_SOCKET, SO_RCVBUF) if system == System::Linux => {
            (config.receive_buffer_bytes * 2) as i32
        }
        (SOL_SOCKET, SO_RCVBUF) => config.receive_buffer_bytes as i32,
        (SOL_SOCKET, SO_KEEPALIVE) => i32::from(config.keepalive_idle.is_some()),
        (IPPROTO_TCP, TCP_NODELAY) => i32::from(config.no_delay),
        (IPPROTO_TCP, TCP_MAXSEG) => match connection {
            Some(info) => info.snd_mss as i32,
            None if config.mss_max < u16::MAX => i32::from(config.mss_max),
            None => 536,
        },
        (IPPROTO_TCP, TCP_USER_TIMEOUT) => config.user_timeout.map_or(0, |d| d.as_millis() as i32),
        (IPPROTO_TCP, TCP_KEEPIDLE) => told.unwrap_or(7200),
        (IPPROTO_TCP, TCP_KEEPINTVL) => seconds(config.keepalive_interval),
        (IPPROTO_TCP, TCP_KEEPCNT) => i32::from(config.keepalive_probes_max),
        (IPPROTO_TCP, TCP_LINGER2) => seconds(config.fin_wait_2),
        (SOL_SOCKET, SO_MARK) => socket.ip.mark as i32,
        (IPPROTO_TCP, TCP_SYNCNT) => i32::from(config.syn_retries_max),
        (IPPROTO_TCP, TCP_FASTOPEN | TCP_FASTOPEN_CONNECT | TCP_FASTOPEN_NO_COOKIE) => {
            fast_open::get(&socket.fast_open, name)
        }
        (IPPROTO_TCP, TCP_INQ) => i32::from(socket.reports_unread),
        (IPPROTO_TCP, TCP_CORK | TCP_NOTSENT_LOWAT) => told.unwrap_or(0),
        (IPPROTO_IP, IP_TOS) | (IPPROTO_IPV6, IPV6_TCLASS) => i32::from(socket.ip.tos),
        (IPPROTO_IP, IP_TTL) | (IPPROTO_IPV6, IPV6_UNICAST_HOPS) => i32::from(socket.ip.ttl),
        (IPPROTO_IP, libc::IP_MTU) | (IPPROTO_IPV6, libc::IPV6_MTU) => {
            let info = connection.ok_or(Errno::NOTCONN)?;
            let headers = 20 + if level == IPPROTO_IP { 20 } else { 40 };
            (info.snd_mss + headers + if info.timestamps { 12 } else { 0 }) as i32
        }
        pair if REMEMBERED.contains(&pair) => told.unwrap_or(0),
        _ => return Err(Errno::NOPROTOOPT),
    };
    Ok(n.to_ne_bytes().into())
}

/// `SO_ERROR`: how the connection ended, reported once.
fn pending_error(state: &mut State, fd: RawFd) -> Call<i32> {
    let Endpoint::Connection(handle) = state.socket(fd)?.endpoint else { return Ok(0) };
    let ended = state.stack.tcp_state(handle).and_then(|(_, error)| error);
    let Some(error) = ended else { return Ok(0) };
    let socket = state.socket(fd)?;
    socket.connecting = false;
    let told = core::mem::replace(&mut socket.error_reported, true);
    Ok(if told { 0 } else { tcp_error(error).raw_os_error() })
}
