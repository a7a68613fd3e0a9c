//! Socket options, by the system's numbers.
//!
//! Called by: programs. Options that are set before a socket is open are kept in [`Settings`]. An
//! option that the stack does not have is refused, so that no program believes in it.

use core::ffi::{c_int, c_void};
use core::mem::size_of;
use core::ptr;
use core::time::Duration;

use libc::{linger, socklen_t, timeval};

use crate::error::{Call, Error};
use crate::open::Open;
use crate::settings::Settings;
use crate::socket::{Kind, Socket};
use crate::types::ws_sock;
use crate::{entry, handles, memory};

/// A value of the caller.
///
/// # Safety
/// `value` is null, or `length` bytes there are valid for reads.
unsafe fn given<T: Copy>(value: *const c_void, length: socklen_t) -> Call<T> {
    if value.is_null() {
        return Err(Error::null("the value"));
    }
    if (length as usize) < size_of::<T>() {
        let text = format!("the value has {length} bytes, and {} are needed", size_of::<T>());
        return Err(Error::invalid(text));
    }
    // SAFETY: enough bytes; any bytes are valid for the types here, which are of integers.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

fn unknown(level: c_int, name: c_int) -> Error {
    let text = format!("option {name} of level {level} is not supported: leave it out");
    Error::new(libc::ENOPROTOOPT, text)
}

fn positive(value: c_int) -> Call<u32> {
    u32::try_from(value).map_err(|_| Error::invalid("the value of this option is not negative"))
}

fn time(value: timeval) -> Call<Option<Duration>> {
    let (seconds, micros) = (u64::try_from(value.tv_sec), u32::try_from(value.tv_usec));
    match (seconds, micros) {
        (Ok(0), Ok(0)) => Ok(None),
        (Ok(seconds), Ok(micros)) if micros < 1_000_000 => {
            Ok(Some(Duration::new(seconds, micros * 1000)))
        }
        _ => Err(Error::new(libc::EDOM, "the time has microseconds from 0 to 999,999")),
    }
}

/// # Safety
/// As [`given`].
unsafe fn set(
    socket: &Socket,
    (level, name): (c_int, c_int),
    value: *const c_void,
    length: socklen_t,
) -> Call<()> {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO) => {
            // SAFETY: the same promise.
            set_timeout(socket, name, time(unsafe { given(value, length) }?)?)
        }
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            // SAFETY: the same promise.
            let asked: linger = unsafe { given(value, length) }?;
            let seconds = positive(asked.l_linger)?;
            let time = (asked.l_onoff != 0).then(|| Duration::from_secs(seconds.into()));
            socket.settings().linger = time;
            match socket.open() {
                Some(Open::Stream(stream)) => Ok(stream.set_linger(time)?),
                _ => Ok(()),
            }
        }
        _ => {
            // SAFETY: the same promise.
            let number: c_int = unsafe { given(value, length) }?;
            match level {
                libc::IPPROTO_TCP => set_tcp(socket, name, number),
                _ => set_number(socket, (level, name), number),
            }
        }
    }
}

fn set_timeout(socket: &Socket, name: c_int, timeout: Option<Duration>) -> Call<()> {
    let is_receive = name == libc::SO_RCVTIMEO;
    match is_receive {
        true => socket.settings().receive_timeout = timeout,
        false => socket.settings().send_timeout = timeout,
    }
    match (socket.open(), is_receive) {
        (Some(Open::Stream(stream)), true) => Ok(stream.set_read_timeout(timeout)?),
        (Some(Open::Stream(stream)), false) => Ok(stream.set_write_timeout(timeout)?),
        (Some(Open::Datagrams(socket)), false) => Ok(socket.set_write_timeout(timeout)?),
        _ => Ok(()),
    }
}

fn set_number(socket: &Socket, (level, name): (c_int, c_int), number: c_int) -> Call<()> {
    let mut settings = socket.settings();
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
            settings.tcp.set_reuseaddr(number != 0);
        }
        (libc::SOL_SOCKET, libc::SO_BROADCAST) => {
            settings.broadcast = number != 0;
            if let Some(Open::Datagrams(socket)) = socket.open() {
                socket.set_broadcast(number != 0)?;
            }
        }
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => {
            settings.has_keepalive = number != 0;
            set_keepalive(socket, &mut settings)?;
        }
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
            let size = positive(number)? as usize;
            settings.tcp.set_recv_buffer_size(size);
            if let Some(Open::Stream(stream)) = socket.open() {
                stream.set_recv_buffer_size(size)?;
            }
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
            let size = positive(number)? as usize;
            settings.tcp.set_send_buffer_size(size);
            if let Some(Open::Stream(stream)) = socket.open() {
                stream.set_send_buffer_size(size)?;
            }
        }
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
            let ttl = positive(number)?;
            settings.tcp.set_ttl(ttl)?;
            settings.ttl = ttl;
            match socket.open() {
                Some(Open::Stream(stream)) => stream.set_ttl(ttl)?,
                Some(Open::Datagrams(socket)) => socket.set_ttl(ttl)?,
                _ => {}
            }
        }
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            let tos = positive(number)?;
            settings.tcp.set_tos(tos)?;
            settings.tos = tos;
            match socket.open() {
                Some(Open::Stream(stream)) => stream.set_tos(tos)?,
                Some(Open::Datagrams(socket)) => socket.set_tos(tos)?,
                _ => {}
            }
        }
        (libc::IPPROTO_IP, libc::IP_TRANSPARENT) | (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT) => {
            settings.is_transparent = number != 0;
            settings.tcp.set_transparent(number != 0);
        }
        _ => return Err(unknown(level, name)),
    }
    Ok(())
}

fn set_keepalive(socket: &Socket, settings: &mut Settings) -> Call<()> {
    let open = match socket.open() {
        Some(Open::Stream(stream)) => Some(stream),
        _ => None,
    };
    match (settings.has_keepalive, open) {
        (true, None) => {
            let keepalive = settings.keepalive;
            settings.tcp.set_tcp_keepalive(&keepalive);
        }
        (true, Some(stream)) => stream.set_tcp_keepalive(&settings.keepalive)?,
        (false, None) => settings.tcp.config_mut().keepalive_idle = None,
        (false, Some(stream)) => stream.set_keepalive(false)?,
    }
    Ok(())
}

fn set_tcp(socket: &Socket, name: c_int, number: c_int) -> Call<()> {
    if socket.kind != Kind::Stream {
        return Err(unknown(libc::IPPROTO_TCP, name));
    }
    let mut settings = socket.settings();
    match name {
        libc::TCP_NODELAY => {
            settings.tcp.set_nodelay(number != 0);
            if let Some(Open::Stream(stream)) = socket.open() {
                stream.set_nodelay(number != 0)?;
            }
        }
        libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT => {
            let number = positive(number)?;
            let range = if name == libc::TCP_KEEPCNT { 1..=127 } else { 1..=32_767 };
            if !range.contains(&number) {
                return Err(Error::invalid("keepalive times are 1 to 32,767 s, probes 1 to 127"));
            }
            let time = Some(Duration::from_secs(number.into()));
            match name {
                libc::TCP_KEEPIDLE => settings.keepalive.time = time,
                libc::TCP_KEEPINTVL => settings.keepalive.interval = time,
                _ => settings.keepalive.retries = u8::try_from(number).ok(),
            }
            if settings.has_keepalive {
                set_keepalive(socket, &mut settings)?;
            }
        }
        libc::TCP_USER_TIMEOUT => {
            let time = match positive(number)? {
                0 => None,
                ms => Some(Duration::from_millis(ms.into())),
            };
            settings.tcp.set_tcp_user_timeout(time);
            if let Some(Open::Stream(stream)) = socket.open() {
                stream.set_tcp_user_timeout(time)?;
            }
        }
        _ => return Err(unknown(libc::IPPROTO_TCP, name)),
    }
    Ok(())
}

/// The value of an option that is a number.
fn number(socket: &Socket, level: c_int, name: c_int) -> Call<c_int> {
    let settings = socket.settings();
    let stream = match socket.open() {
        Some(Open::Stream(stream)) => Some(stream),
        _ => None,
    };
    let bytes = |size: usize| c_int::try_from(size).unwrap_or(c_int::MAX);
    Ok(match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => match stream.map(|s| s.take_error()).transpose()? {
            Some(Some(error)) => Error::from(error).number,
            _ => 0,
        },
        (libc::SOL_SOCKET, libc::SO_TYPE) => match socket.kind {
            Kind::Stream => libc::SOCK_STREAM,
            Kind::Datagrams => libc::SOCK_DGRAM,
        },
        (libc::SOL_SOCKET, libc::SO_DOMAIN) if socket.is_v6 => libc::AF_INET6,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_INET,
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
            matches!(socket.open(), Some(Open::Listener(_) | Open::Forwarder(_))).into()
        }
        (libc::SOL_SOCKET, libc::SO_BROADCAST) => settings.broadcast.into(),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => settings.has_keepalive.into(),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => bytes(socket.stream()?.recv_buffer_size()?),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => bytes(socket.stream()?.send_buffer_size()?),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => socket.stream()?.nodelay()?.into(),
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
            settings.ttl as c_int
        }
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            settings.tos as c_int
        }
        _ => return Err(unknown(level, name)),
    })
}

/// Set an option, by the numbers of the system's headers. SOL_SOCKET: SO_REUSEADDR (on at first),
/// SO_BROADCAST, SO_KEEPALIVE, SO_LINGER, SO_RCVBUF and SO_SNDBUF (exact bytes, which turn tuning
/// off), SO_RCVTIMEO, SO_SNDTIMEO (of connects too). IPPROTO_TCP: TCP_NODELAY, TCP_KEEPIDLE,
/// TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT. IPPROTO_IP: IP_TTL, IP_TOS, IP_TRANSPARENT; the
/// same of IPPROTO_IPV6. Accepted connections have their listener's.
///
/// Returns 0; -ENOPROTOOPT for others; -EINVAL if the value or its length is wrong, -EDOM for a
/// time; -EFAULT if value is NULL; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_setsockopt(
    socket: ws_sock,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    entry::status(|| {
        let socket = handles::socket(socket)?;
        // SAFETY: the caller's value.
        unsafe { set(&socket, (level, name), value, length) }
    })
}

/// Store the value of an option in *value, which has room for *length bytes; *length becomes its
/// length, that of an int. SOL_SOCKET: SO_ERROR (the error that no call has returned yet, positive;
/// 0 afterwards), SO_TYPE, SO_DOMAIN, SO_ACCEPTCONN, SO_BROADCAST, SO_KEEPALIVE, SO_RCVBUF,
/// SO_SNDBUF. IPPROTO_TCP: TCP_NODELAY. IPPROTO_IP: IP_TTL, IP_TOS.
///
/// Returns 0; -ENOPROTOOPT for others; -ENOTCONN if only a connection has it; -EINVAL if *length is
/// less than an int's; -EFAULT if value or length is NULL; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_getsockopt(
    socket: ws_sock,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    entry::status(|| {
        let socket = handles::socket(socket)?;
        if value.is_null() || length.is_null() {
            return Err(Error::null("the value or its length"));
        }
        // SAFETY: not null; the rest is the caller's promise.
        let room = unsafe { length.read_unaligned() } as usize;
        if room < size_of::<c_int>() {
            return Err(Error::invalid("the value needs the room of an int"));
        }
        let found = number(&socket, level, name)?;
        // SAFETY: the value has room for an int.
        unsafe { ptr::copy_nonoverlapping((&raw const found).cast(), value.cast::<u8>(), 4) };
        // SAFETY: as above.
        unsafe { memory::store(length, size_of::<c_int>() as socklen_t, "the length") }
    })
}
