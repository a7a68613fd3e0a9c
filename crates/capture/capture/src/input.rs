//! The bytes of a file, read in order, and integers in the file's byte order.
//!
//! Called by: `pcap` and `pcapng`. Nothing seeks, so that a pipe can be read like a file.

use std::io::{BufRead, ErrorKind, Read};

use crate::packet::Error;

/// A file, read from front to back.
#[derive(Debug)]
pub(crate) struct Input<R>(R);

impl<R: BufRead> Input<R> {
    pub(crate) fn new(inner: R) -> Input<R> {
        Input(inner)
    }

    /// Read N bytes where the file may end: `None` at the end of the file; an error if the file
    /// ends within the N bytes.
    pub(crate) fn first<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Error> {
        let is_over = loop {
            match self.0.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                filled => break filled?.is_empty(),
            }
        };
        if is_over { Ok(None) } else { self.exact().map(Some) }
    }

    /// Read N bytes.
    pub(crate) fn exact<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Fill `into` with the next bytes.
    pub(crate) fn fill(&mut self, into: &mut [u8]) -> Result<(), Error> {
        self.0.read_exact(into).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Error::CutOff,
            _ => Error::Io(error),
        })
    }

    /// Read `len` bytes. Memory is allocated only as they are read.
    pub(crate) fn bytes(&mut self, len: u32) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = self.0.by_ref().take(len.into()).read_to_end(&mut bytes)?;
        if read == len as usize { Ok(bytes) } else { Err(Error::CutOff) }
    }

    /// Skip `len` bytes.
    pub(crate) fn skip(&mut self, len: u64) -> Result<(), Error> {
        let mut left = len;
        while left > 0 {
            let there = match self.0.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                filled => filled?.len(),
            };
            if there == 0 {
                return Err(Error::CutOff);
            }
            let now = usize::try_from(left).unwrap_or(usize::MAX).min(there);
            self.0.consume(now);
            left -= now as u64;
        }
        Ok(())
    }
}

/// The byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    /// Is this byte order not the one of this machine?
    pub(crate) fn is_swapped(self) -> bool {
        (self == Order::Little) != cfg!(target_endian = "little")
    }

    pub(crate) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    pub(crate) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    pub(crate) fn i64(self, bytes: [u8; 8]) -> i64 {
        match self {
            Order::Little => i64::from_le_bytes(bytes),
            Order::Big => i64::from_be_bytes(bytes),
        }
    }

    /// Read a header as 32-bit words.
    pub(crate) fn words<const N: usize>(self, bytes: &[u8]) -> [u32; N] {
        let mut words = [0; N];
        let (chunks, _) = bytes.as_chunks::<4>();
        for (word, chunk) in words.iter_mut().zip(chunks) {
            *word = self.u32(*chunk);
        }
        words
    }
}
