//! The memory of Python's objects as slices: what a program sends is read in place, and what it
//! receives is copied once, from the stack's buffer to Python's object.
//!
//! Called by: sockets. This file has the unsafe code of the crate.

use core::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A buffer of a Python object, which the object does not move or free until this is dropped.
pub(crate) struct View(PyUntypedBuffer);

impl View {
    /// The buffer of any object with the buffer protocol.
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<View> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err("the buffer has gaps: copy it to `bytes` first"));
        }
        Ok(View(buffer))
    }

    /// The buffer of an object that may be written.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<View> {
        let view = View::new(object)?;
        match view.0.readonly() {
            true => Err(PyTypeError::new_err("the buffer cannot be written: use a bytearray")),
            false => Ok(view),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len_bytes()
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: the exporter keeps `len_bytes` contiguous bytes in place while the buffer is
        // held. A thread that writes them meanwhile changes what is sent, as with `socket.send`.
        unsafe { slice::from_raw_parts(self.0.buf_ptr().cast(), self.len()) }
    }

    /// The first `len` bytes, to be written; all of them if there are fewer.
    pub(crate) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        let len = len.min(self.len());
        if len == 0 || self.0.readonly() {
            return &mut [];
        }
        // SAFETY: as in `bytes`, and the exporter said that the buffer may be written. A thread
        // that reads the bytes meanwhile sees them change, as with `socket.recv_into`.
        unsafe { slice::from_raw_parts_mut(self.0.buf_ptr().cast(), len) }
    }
}

/// A `bytes` object that `fill` fills: it gets room for `len` bytes, and returns how many it wrote.
pub(crate) fn filled<'py, T>(
    py: Python<'py>,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> PyResult<(usize, T)>,
) -> PyResult<(Bound<'py, PyBytes>, T)> {
    let mut result = None;
    let object = PyBytes::new_with(py, len, |room| {
        result = Some(fill(room)?);
        Ok(())
    })?;
    match result {
        Some((count, rest)) if count < len => {
            Ok((PyBytes::new(py, &object.as_bytes()[..count]), rest))
        }
        Some((_, rest)) => Ok((object, rest)),
        None => Err(PyValueError::new_err("nothing was received")),
    }
}
