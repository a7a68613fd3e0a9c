//! Sending and receiving.
//!
//! Called by: programs. Streams wait in `net`, whose waiting threads drive the stack; datagrams are
//! received in `news::wait_for`, and sent by `net`.

use core::ffi::{c_int, c_void};
use core::net::SocketAddr;
use core::task::{Context, Waker};
use std::io::{Read, Write};

use libc::{sockaddr, socklen_t};
use net::blocking::{TcpStream, UdpSocket};

use crate::error::{Call, Error};
use crate::news::wait_for;
use crate::open::Open;
use crate::socket::{Kind, Socket};
use crate::types::ws_sock;
use crate::{address, entry, handles, memory};

/// Flags that sending understands. No call raises SIGPIPE, so MSG_NOSIGNAL changes nothing.
const SEND_FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
/// Flags that receiving understands.
const RECEIVE_FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_WAITALL;

fn check(flags: c_int, known: c_int) -> Call<()> {
    match flags & !known {
        0 => Ok(()),
        other => {
            let text = format!("the flags {other:#x} are not supported: leave them out");
            Err(Error::new(libc::EOPNOTSUPP, text))
        }
    }
}

fn send(socket: &Socket, data: &[u8], flags: c_int) -> Call<usize> {
    let mut stream: &TcpStream = socket.stream()?;
    match socket.may_wait(flags) {
        true => Ok(Write::write(&mut stream, data)?),
        false => Ok(stream.try_write(data)?),
    }
}

fn send_to(socket: &Socket, data: &[u8], flags: c_int, to: Option<SocketAddr>) -> Call<usize> {
    let datagrams = socket.datagrams(None)?;
    let to = match to {
        Some(to) => socket.check_family(to)?,
        None => datagrams.peer_addr().map_err(|_| {
            Error::new(libc::EDESTADDRREQ, "the datagram needs a destination: ws_sendto()")
        })?,
    };
    match socket.may_wait(flags) {
        true => Ok(datagrams.send_to(data, to)?),
        false => Ok(datagrams.try_send_to(data, to)?),
    }
}

fn receive(socket: &Socket, into: &mut [u8], flags: c_int) -> Call<usize> {
    let mut stream: &TcpStream = socket.stream()?;
    if flags & libc::MSG_PEEK != 0 {
        return peek(socket, stream, into, flags);
    }
    if !socket.may_wait(flags) {
        return Ok(stream.try_read(into)?);
    }
    if flags & libc::MSG_WAITALL == 0 {
        return Ok(Read::read(&mut stream, into)?);
    }
    let mut done = 0;
    while done < into.len() {
        match Read::read(&mut stream, &mut into[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            // The next call reports the error, if it lasts.
            Err(_) if done > 0 => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

fn peek(socket: &Socket, stream: &TcpStream, into: &mut [u8], flags: c_int) -> Call<usize> {
    let timeout = socket.settings().receive_timeout;
    wait_for(&socket.news, socket.may_wait(flags), timeout, |waker| {
        match stream.poll_peek(&mut Context::from_waker(waker), into) {
            core::task::Poll::Ready(count) => Ok(count?),
            core::task::Poll::Pending => Err(Error::again()),
        }
    })
}

fn receive_from(socket: &Socket, into: &mut [u8], flags: c_int) -> Call<(usize, SocketAddr)> {
    let datagrams: &UdpSocket = socket.datagrams(None)?;
    let timeout = socket.settings().receive_timeout;
    wait_for(&socket.news, socket.may_wait(flags), timeout, |waker: &Waker| {
        let received = match flags & libc::MSG_PEEK {
            0 => datagrams.try_recv_from(into),
            _ => datagrams.try_peek_from(into),
        };
        match received {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                // Asked again with the waker: a datagram may have come in between.
                match datagrams.poll_recv_ready(&mut Context::from_waker(waker)) {
                    core::task::Poll::Ready(Ok(())) => {
                        waker.wake_by_ref();
                        Err(Error::again())
                    }
                    core::task::Poll::Ready(Err(error)) => Err(error.into()),
                    core::task::Poll::Pending => Err(Error::again()),
                }
            }
            other => Ok(other?),
        }
    })
}

/// Send on a connected socket: bytes of a stream, or one datagram. A call that may wait returns
/// when the stack has taken all bytes (or SO_SNDTIMEO is over); one that must not may take fewer.
/// flags: MSG_DONTWAIT, MSG_NOSIGNAL (which changes nothing: there is no SIGPIPE).
///
/// Returns how many bytes were taken; -EAGAIN if none, and the call must not wait; -EPIPE,
/// -ECONNRESET, -ETIMEDOUT and others of the connection; -ENOTCONN, -EDESTADDRREQ; -EMSGSIZE;
/// -EFAULT if data is NULL and length is not 0; -EINVAL if length is beyond the address space;
/// -EOPNOTSUPP for other flags; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_send(
    socket: ws_sock,
    data: *const c_void,
    length: usize,
    flags: c_int,
) -> i64 {
    entry::call(|| {
        let socket = handles::socket(socket)?;
        // SAFETY: the caller's bytes.
        let data = unsafe { memory::bytes(data.cast(), length, "the data") }?;
        check(flags, SEND_FLAGS)?;
        let sent = match socket.kind {
            Kind::Stream => send(&socket, data, flags),
            Kind::Datagrams => send_to(&socket, data, flags, None),
        };
        Ok(sent? as i64)
    })
}

/// Send one datagram to addr, or to the socket's peer if addr is NULL; on a stream socket as
/// ws_send(). An unbound socket is bound to a free port first.
///
/// Returns length; errors as ws_send(), and -ENETUNREACH, -EHOSTUNREACH, -EACCES for a broadcast
/// without SO_BROADCAST, -ECONNREFUSED if the peer's host has answered that nobody is there;
/// -EAFNOSUPPORT, -EINVAL for the address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_sendto(
    socket: ws_sock,
    data: *const c_void,
    length: usize,
    flags: c_int,
    addr: *const sockaddr,
    addr_length: socklen_t,
) -> i64 {
    entry::call(|| {
        let socket = handles::socket(socket)?;
        // SAFETY: the caller's bytes.
        let data = unsafe { memory::bytes(data.cast(), length, "the data") }?;
        check(flags, SEND_FLAGS)?;
        if socket.kind == Kind::Stream {
            return Ok(send(&socket, data, flags)? as i64);
        }
        let to = match addr.is_null() {
            true => None,
            // SAFETY: the caller's address.
            false => Some(unsafe { address::read(addr, addr_length) }?),
        };
        Ok(send_to(&socket, data, flags, to)? as i64)
    })
}

/// Receive bytes of a stream, or one datagram, whose rest is lost if the buffer is shorter. flags:
/// MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL (of a stream: wait until the buffer is full).
///
/// Returns how many bytes were stored; 0 at the end of a stream (or for an empty datagram); -EAGAIN
/// if there is nothing and the call must not wait, or after SO_RCVTIMEO; -ECONNRESET, -ETIMEDOUT
/// and others of the connection; -ENOTCONN; -EFAULT if buffer is NULL and length is not 0; -EINVAL
/// if length is beyond the address space; -EOPNOTSUPP for other flags; -EBADF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_recv(
    socket: ws_sock,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
) -> i64 {
    entry::call(|| {
        let socket = handles::socket(socket)?;
        // SAFETY: the caller's buffer.
        let into = unsafe { memory::room(buffer.cast(), length, "the buffer") }?;
        check(flags, RECEIVE_FLAGS)?;
        let received = match socket.kind {
            Kind::Stream => receive(&socket, into, flags)?,
            Kind::Datagrams => receive_from(&socket, into, flags)?.0,
        };
        Ok(received as i64)
    })
}

/// As ws_recv(), and the sender's address is stored in addr, as recvfrom(2) does, unless addr is
/// NULL.
///
/// Returns as ws_recv(); -EFAULT also if addr_length is NULL and addr is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ws_recvfrom(
    socket: ws_sock,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
    addr: *mut sockaddr,
    addr_length: *mut socklen_t,
) -> i64 {
    entry::call(|| {
        let socket = handles::socket(socket)?;
        // SAFETY: the caller's buffer.
        let into = unsafe { memory::room(buffer.cast(), length, "the buffer") }?;
        check(flags, RECEIVE_FLAGS)?;
        if !addr.is_null() && addr_length.is_null() {
            return Err(Error::null("the length of the address"));
        }
        let (received, from) = match socket.kind {
            Kind::Stream => (receive(&socket, into, flags)?, None),
            Kind::Datagrams => {
                let (received, from) = receive_from(&socket, into, flags)?;
                (received, Some(from))
            }
        };
        let from = match (from, socket.open()) {
            (Some(from), _) => from,
            // The stream's peer may be gone by now.
            (None, Some(Open::Stream(stream))) if !addr.is_null() => stream.peer_addr()?,
            _ => return Ok(received as i64),
        };
        // SAFETY: the caller's pointers.
        unsafe { address::write(from, addr, addr_length) }?;
        Ok(received as i64)
    })
}
