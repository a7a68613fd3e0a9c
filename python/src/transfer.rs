//! The calls of [`Socket`] that move bytes.
//!
//! Called by: programs. Bytes are copied once in each direction: between the memory of Python's
//! object and the stack's buffers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use wirespeed::net::blocking;

use crate::address;
use crate::buffer::{View, filled};
use crate::error::raise;
use crate::socket::Socket;
use crate::wait::SLICE;

/// The most bytes that one `recv` returns.
const RECEIVED_MAX: usize = 256 << 10;

impl Socket {
    /// Receive into `room`: from the peer of a connection, or the next datagram.
    fn receive(&self, py: Python<'_>, room: &mut [u8], flags: i32) -> PyResult<usize> {
        let timeout = self.timeout_of(flags, libc::MSG_PEEK)?;
        if self.kind == libc::SOCK_DGRAM {
            return Ok(self.receive_from(py, room, flags)?.0);
        }
        let (stream, waits) = (self.stream()?, self.waits(timeout));
        let peek = flags & libc::MSG_PEEK != 0;
        self.wait(py, timeout, move || match (peek, waits) {
            (false, true) => (&*stream).read(room),
            (false, false) => stream.try_read(room),
            (true, true) => stream.peek(room),
            (true, false) => peek_now(&stream, room),
        })
    }

    fn receive_from(
        &self,
        py: Python<'_>,
        room: &mut [u8],
        flags: i32,
    ) -> PyResult<(usize, SocketAddr)> {
        let timeout = self.timeout_of(flags, libc::MSG_PEEK)?;
        if self.kind == libc::SOCK_STREAM {
            let peer = self.stream()?.peer_addr().map_err(|e| raise(&e))?;
            return Ok((self.receive(py, room, flags)?, peer));
        }
        let (datagrams, waits) = (self.datagrams()?, self.waits(timeout));
        let peek = flags & libc::MSG_PEEK != 0;
        self.wait(py, timeout, move || {
            let socket = &datagrams.socket;
            socket.set_nonblocking(!waits)?;
            match peek {
                false => socket.recv_from(room),
                true => socket.peek_from(room),
            }
        })
    }

    fn send_datagram(
        &self,
        py: Python<'_>,
        data: &[u8],
        to: Option<SocketAddr>,
        flags: i32,
    ) -> PyResult<usize> {
        let timeout = self.timeout_of(flags, 0)?;
        let (datagrams, waits) = (self.datagrams()?, self.waits(timeout));
        self.wait(py, timeout, move || {
            let socket = &datagrams.socket;
            socket.set_nonblocking(!waits)?;
            match to {
                Some(to) => socket.send_to(data, to),
                None => socket.send(data),
            }
        })
    }
}

/// Peek without waiting.
fn peek_now(stream: &blocking::TcpStream, room: &mut [u8]) -> io::Result<usize> {
    stream.set_nonblocking(true)?;
    let peeked = stream.peek(room);
    stream.set_nonblocking(false)?;
    peeked
}

fn checked_size(size: i64) -> PyResult<usize> {
    let size = usize::try_from(size);
    size.map_err(|_| PyValueError::new_err("a size in bytes is not negative"))
}

#[pymethods]
impl Socket {
    /// Send; returns how many bytes the stack has taken.
    #[pyo3(signature = (data, flags = 0))]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, flags: i32) -> PyResult<usize> {
        let view = View::new(data)?;
        if self.kind == libc::SOCK_DGRAM {
            return self.send_datagram(py, view.bytes(), None, flags);
        }
        let timeout = self.timeout_of(flags, 0)?;
        let (stream, waits, data) = (self.stream()?, self.waits(timeout), view.bytes());
        self.wait(py, timeout, move || match waits {
            true => (&*stream).write(data),
            false => stream.try_write(data),
        })
    }

    /// Send everything. After an error nobody knows how much was sent.
    #[pyo3(signature = (data, flags = 0))]
    fn sendall(&self, py: Python<'_>, data: &Bound<'_, PyAny>, flags: i32) -> PyResult<()> {
        let view = View::new(data)?;
        if self.kind == libc::SOCK_DGRAM {
            return self.send_datagram(py, view.bytes(), None, flags).map(drop);
        }
        let timeout = self.timeout_of(flags, 0)?;
        let (stream, waits, data) = (self.stream()?, self.waits(timeout), view.bytes());
        let mut done = 0;
        self.wait(py, timeout, move || {
            let began = Instant::now();
            while done < data.len() {
                done += match waits {
                    // A peer that reads all the time must not hold up Ctrl-C and the timeout.
                    true if began.elapsed() > SLICE => return Err(ErrorKind::WouldBlock.into()),
                    true => (&*stream).write(&data[done..])?,
                    false => stream.try_write(&data[done..])?,
                };
            }
            Ok(())
        })
    }

    /// Send one datagram to an address.
    fn _sendto(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        flags: i32,
        address: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let view = View::new(data)?;
        if self.kind == libc::SOCK_STREAM {
            return self.send(py, data, flags);
        }
        let to = address::parse(address, self.v6)?;
        self.send_datagram(py, view.bytes(), Some(to), flags)
    }

    /// Receive at most `bufsize` bytes; an empty result is the end of the stream.
    #[pyo3(signature = (bufsize, flags = 0))]
    fn recv<'py>(
        &self,
        py: Python<'py>,
        bufsize: i64,
        flags: i32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let len = checked_size(bufsize)?.min(RECEIVED_MAX);
        let fill = |room: &mut [u8]| Ok((self.receive(py, room, flags)?, ()));
        Ok(filled(py, len, fill)?.0)
    }

    /// Receive into a buffer; returns the number of bytes.
    #[pyo3(signature = (buffer, nbytes = 0, flags = 0))]
    fn recv_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        nbytes: i64,
        flags: i32,
    ) -> PyResult<usize> {
        let mut view = View::writable(buffer)?;
        let len = within(&view, nbytes)?;
        self.receive(py, view.bytes_mut(len), flags)
    }

    /// Receive a datagram, and the address of its sender.
    #[pyo3(signature = (bufsize, flags = 0))]
    fn recvfrom<'py>(
        &self,
        py: Python<'py>,
        bufsize: i64,
        flags: i32,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyTuple>)> {
        let len = checked_size(bufsize)?.min(RECEIVED_MAX);
        let (data, from) = filled(py, len, |room| self.receive_from(py, room, flags))?;
        Ok((data, address::tuple(py, from)?))
    }

    /// Receive a datagram into a buffer, and the address of its sender.
    #[pyo3(signature = (buffer, nbytes = 0, flags = 0))]
    fn recvfrom_into<'py>(
        &self,
        py: Python<'py>,
        buffer: &Bound<'py, PyAny>,
        nbytes: i64,
        flags: i32,
    ) -> PyResult<(usize, Bound<'py, PyTuple>)> {
        let mut view = View::writable(buffer)?;
        let len = within(&view, nbytes)?;
        let (count, from) = self.receive_from(py, view.bytes_mut(len), flags)?;
        Ok((count, address::tuple(py, from)?))
    }
}

/// How much of a buffer a call fills; 0 stands for all of it.
fn within(view: &View, nbytes: i64) -> PyResult<usize> {
    match checked_size(nbytes)? {
        0 => Ok(view.len()),
        len if len > view.len() => Err(PyValueError::new_err("the buffer is shorter than nbytes")),
        len => Ok(len),
    }
}
