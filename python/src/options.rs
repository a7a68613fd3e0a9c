//! Socket options, by the numbers of the system: those that Python's programs set most.
//!
//! Called by: programs. Unlike Linux, sizes of buffers are not doubled.

use core::task::{Context, Waker};
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wirespeed::net::TcpKeepalive;

use crate::error::{self, closed, raise};
use crate::socket::Socket;
use crate::state::State;

/// The type of the value of `getsockopt`.
#[derive(IntoPyObject)]
enum Value<'py> {
    Number(i64),
    Bytes(Bound<'py, PyBytes>),
}

fn unknown() -> PyErr {
    let text = "the stack has no such option for this socket; docs/python.md has the list";
    error::numbered(libc::ENOPROTOOPT, text)
}

fn seconds(value: i64) -> PyResult<Duration> {
    let refused = |_| error::numbered(libc::EINVAL, "a time is not negative");
    u64::try_from(value).map(Duration::from_secs).map_err(refused)
}

fn number<T: TryFrom<i64>>(value: i64) -> PyResult<T> {
    T::try_from(value).map_err(|_| error::numbered(libc::EINVAL, "the value is out of range"))
}

/// `struct linger` of the system: is it on, and for how many seconds.
fn linger(value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    let bytes: Vec<u8> = value.extract()?;
    let word = |at: usize| bytes.get(at..at + 4).and_then(|part| part.try_into().ok());
    let (Some(on), Some(time)) = (word(0), word(4)) else {
        let text = "the value of SO_LINGER is struct.pack('ii', on, seconds)";
        return Err(error::numbered(libc::EINVAL, text));
    };
    match i32::from_ne_bytes(on) {
        0 => Ok(None),
        _ => seconds(i32::from_ne_bytes(time).into()).map(Some),
    }
}

#[pymethods]
impl Socket {
    /// Set an option.
    #[pyo3(signature = (level, optname, value))]
    fn setsockopt(&self, level: i32, optname: i32, value: &Bound<'_, PyAny>) -> PyResult<()> {
        // These are always so, or mean nothing in a stack of one's own.
        match (level, optname) {
            (libc::SOL_SOCKET, libc::SO_REUSEPORT) | (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => {
                return whole(value).map(drop);
            }
            _ => {}
        }
        let mut state = self.state();
        match &mut *state {
            State::Fresh(fresh) => self.set_fresh(&mut fresh.settings, level, optname, value),
            State::Stream(stream) => set_stream(stream, level, optname, value),
            State::Unbound(broadcast) => match (level, optname) {
                (libc::SOL_SOCKET, libc::SO_BROADCAST) => {
                    *broadcast = whole(value)? != 0;
                    Ok(())
                }
                (libc::SOL_SOCKET, libc::SO_REUSEADDR) => whole(value).map(drop),
                _ => Err(unknown()),
            },
            State::Datagrams(datagrams) => {
                let socket = &datagrams.socket;
                let value = whole(value)?;
                match (level, optname) {
                    (libc::SOL_SOCKET, libc::SO_BROADCAST) => socket.set_broadcast(value != 0),
                    (libc::SOL_SOCKET, libc::SO_REUSEADDR) => Ok(()),
                    (libc::IPPROTO_IP, libc::IP_TTL)
                    | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
                        socket.set_ttl(number(value)?)
                    }
                    (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                        socket.set_tos(number(value)?)
                    }
                    _ => return Err(unknown()),
                }
                .map_err(|e| raise(&e))
            }
            State::Connecting(_) | State::Listener(_) => match (level, optname) {
                (libc::SOL_SOCKET, libc::SO_REUSEADDR) => whole(value).map(drop),
                _ => {
                    let text = "set the option before `connect` or `listen`, or when there is a \
                                connection; connections have those of their listener";
                    Err(error::numbered(libc::EINVAL, text))
                }
            },
            State::Closed => Err(closed()),
        }
    }

    /// The value of an option: a number, or `bytes` if `buflen` is given.
    #[pyo3(signature = (level, optname, buflen = 0))]
    fn getsockopt<'py>(
        &self,
        py: Python<'py>,
        level: i32,
        optname: i32,
        buflen: usize,
    ) -> PyResult<Value<'py>> {
        if (level, optname) == (libc::SOL_SOCKET, libc::SO_LINGER) {
            let time = match &*self.state() {
                State::Stream(stream) => stream.linger().map_err(|e| raise(&e))?,
                State::Closed => return Err(closed()),
                _ => None,
            };
            let on = i32::from(time.is_some()).to_ne_bytes();
            let time = time.map_or(0, |time| i32::try_from(time.as_secs()).unwrap_or(i32::MAX));
            let both = [on, time.to_ne_bytes()].concat();
            return Ok(Value::Bytes(PyBytes::new(py, &both)));
        }
        let value = self.option(level, optname)?;
        match buflen {
            0 => Ok(Value::Number(value)),
            _ => {
                let bytes = i32::try_from(value).unwrap_or(i32::MAX).to_ne_bytes();
                Ok(Value::Bytes(PyBytes::new(py, &bytes[..buflen.min(4)])))
            }
        }
    }
}

impl Socket {
    fn set_fresh(
        &self,
        socket: &mut wirespeed::net::TcpSocket,
        level: i32,
        option: i32,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let value = whole(value)?;
        let config = socket.config_mut();
        match (level, option) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
                socket.set_reuseaddr(value != 0);
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) if value == 0 => config.keepalive_idle = None,
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => {
                socket.set_tcp_keepalive(&TcpKeepalive::default());
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                socket.set_recv_buffer_size(number(value)?);
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
                socket.set_send_buffer_size(number(value)?);
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
                socket.set_nodelay(value != 0);
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
                config.keepalive_idle = Some(seconds(value)?.into());
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => {
                config.keepalive_interval = seconds(value)?.into();
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => config.keepalive_probes_max = number(value)?,
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
                socket.set_tcp_user_timeout(user_timeout(value)?);
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
                socket.set_ttl(number(value)?).map_err(|e| raise(&e))?;
            }
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                socket.set_tos(number(value)?).map_err(|e| raise(&e))?;
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    fn option(&self, level: i32, option: i32) -> PyResult<i64> {
        if (level, option) == (libc::SOL_SOCKET, libc::SO_TYPE) {
            return Ok(self.kind.into());
        }
        if (level, option) == (libc::SOL_SOCKET, libc::SO_ERROR) {
            // An attempt that has ended meanwhile leaves its error in the state.
            let _ = self.poll_connect(&mut Context::from_waker(Waker::noop()));
        }
        let mut state = self.state();
        match (level, option, &mut *state) {
            (_, _, State::Closed) => Err(closed()),
            (libc::SOL_SOCKET, libc::SO_ERROR, State::Fresh(fresh)) => {
                Ok(fresh.error.take().map_or(0, |(number, _)| number).into())
            }
            (libc::SOL_SOCKET, libc::SO_ERROR, State::Stream(stream)) => {
                let error = stream.take_error().map_err(|e| raise(&e))?;
                Ok(error.map_or(0, |error| wirespeed::net::errno(&error)).into())
            }
            (libc::SOL_SOCKET, libc::SO_ERROR, _) => Ok(0),
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN, state) => {
                Ok(i64::from(matches!(state, State::Listener(_))))
            }
            (_, _, State::Stream(stream)) => stream_option(stream, level, option),
            (libc::SOL_SOCKET, libc::SO_REUSEADDR, _) => Ok(1),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY, State::Fresh(fresh)) => {
                Ok(fresh.settings.config_mut().no_delay.into())
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE, State::Fresh(fresh)) => {
                Ok(fresh.settings.config_mut().keepalive_idle.is_some().into())
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF, State::Fresh(fresh)) => {
                Ok(fresh.settings.config_mut().receive_buffer_bytes.into())
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF, State::Fresh(fresh)) => {
                Ok(fresh.settings.config_mut().send_buffer_bytes.into())
            }
            (libc::SOL_SOCKET, libc::SO_BROADCAST, State::Unbound(on)) => Ok((*on).into()),
            (libc::IPPROTO_IP, libc::IP_TTL, State::Datagrams(datagrams))
            | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, State::Datagrams(datagrams)) => {
                Ok(datagrams.socket.ttl().map_err(|e| raise(&e))?.into())
            }
            (libc::IPPROTO_IP, libc::IP_TOS, State::Datagrams(datagrams))
            | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, State::Datagrams(datagrams)) => {
                Ok(datagrams.socket.tos().map_err(|e| raise(&e))?.into())
            }
            _ => Err(unknown()),
        }
    }
}

fn user_timeout(milliseconds: i64) -> PyResult<Option<Duration>> {
    let ms: u64 = number(milliseconds)?;
    Ok(Some(Duration::from_millis(ms)).filter(|time| !time.is_zero()))
}

fn set_stream(
    stream: &wirespeed::net::TcpStream,
    level: i32,
    option: i32,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    if (level, option) == (libc::SOL_SOCKET, libc::SO_LINGER) {
        return stream.set_linger(linger(value)?).map_err(|e| raise(&e));
    }
    let value = whole(value)?;
    let keepalive = |keepalive: TcpKeepalive| stream.set_tcp_keepalive(&keepalive);
    match (level, option) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => Ok(()),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => stream.set_keepalive(value != 0),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => stream.set_recv_buffer_size(number(value)?),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => stream.set_send_buffer_size(number(value)?),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => stream.set_nodelay(value != 0),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
            keepalive(TcpKeepalive { time: Some(seconds(value)?), ..TcpKeepalive::default() })
        }
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => {
            keepalive(TcpKeepalive { interval: Some(seconds(value)?), ..TcpKeepalive::default() })
        }
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => {
            keepalive(TcpKeepalive { retries: Some(number(value)?), ..TcpKeepalive::default() })
        }
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
            stream.set_tcp_user_timeout(user_timeout(value)?)
        }
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
            stream.set_ttl(number(value)?)
        }
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            stream.set_tos(number(value)?)
        }
        _ => return Err(unknown()),
    }
    .map_err(|e| raise(&e))
}

fn stream_option(stream: &wirespeed::net::TcpStream, level: i32, option: i32) -> PyResult<i64> {
    let size = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
    match (level, option) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => Ok(1),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => stream.keepalive().map(i64::from),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => stream.recv_buffer_size().map(size),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => stream.send_buffer_size().map(size),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => stream.nodelay().map(i64::from),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
            let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            stream.tcp_user_timeout().map(|time| time.map_or(0, ms))
        }
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
            stream.ttl().map(i64::from)
        }
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            stream.tos().map(i64::from)
        }
        _ => return Err(unknown()),
    }
    .map_err(|e| raise(&e))
}

/// The value of an option that is a number.
fn whole(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    value.extract().map_err(|_| PyTypeError::new_err("the value of this option is a number"))
}
