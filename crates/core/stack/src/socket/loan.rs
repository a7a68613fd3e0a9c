//! Loaned buffers: a program writes data into the buffer from which it is sent, and reads data in
//! the buffer in which it was received.
//!
//! Called by: programs. A loaned buffer counts against the stack's pool until it comes back. Calls
//! that put bytes from elsewhere into a [`Loan`] copy and sum them in one pass, as a write does.
//! Bytes that the program makes in the buffer itself are summed when they are sent.

use mbuf::Mbuf;
use tcp::usrreq::{self, CallError};
use wire::checksum::{Ladder, Sum};

use super::write::is_burst;
use crate::handles::TcpHandle;
use crate::stack::Stack;
use crate::tx;

/// An empty buffer for one segment or super-segment. The program fills it and passes it to
/// [`Stack::tcp_write_loan`].
pub struct Loan {
    mbuf: Mbuf,
    room: usize,
    /// How sums are computed, and whether while copying; `None` if no sum is needed.
    sums: Option<(Ladder, bool)>,
    /// The sum of all bytes in the buffer, while it is known.
    sum: Option<Sum>,
}

impl Loan {
    /// How many more bytes fit.
    pub fn room(&self) -> usize {
        self.room - self.mbuf.len()
    }

    /// The bytes in the buffer.
    pub fn bytes(&self) -> &[u8] {
        self.mbuf.as_slice()
    }

    /// The bytes in the buffer, to change them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.sum = None;
        self.mbuf.as_mut_slice().unwrap_or_default()
    }

    /// Append as much of `data` as there is room for; returns the number of bytes.
    #[inline]
    pub fn append(&mut self, data: &[u8]) -> usize {
        let (before, n) = (self.mbuf.len(), data.len().min(self.room()));
        let (data, sums) = (&data[..n], self.sums);
        let added = self.mbuf.put(n, |to| match sums {
            Some((ladder, fused)) => Some(bytepass_copy_sum(ladder, fused, data, to)),
            None => {
                mbuf::copy(data, to);
                None
            }
        });
        let Some(added) = added else { return 0 };
        self.sum = self.sum.zip(added).map(|(sum, added)| sum.plus_at(added, before));
        n
    }

    /// Let `fill` write into the free part of the buffer. `fill` returns how many bytes it wrote.
    pub fn fill(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        self.sum = None;
        let room = self.room();
        let tail = self.mbuf.tail_mut();
        let most = room.min(tail.len());
        let n = fill(&mut tail[..most]).min(most);
        self.mbuf.extend(n);
        n
    }
}

/// It is a function of its own, so that instruction counts show it separately.
#[inline(never)]
fn bytepass_copy_sum(ladder: Ladder, fused: bool, from: &[u8], to: &mut [u8]) -> Sum {
    if fused { ladder.copy_sum(from, to) } else { ladder.copy_then_sum(from, to) }
}

impl Stack {
    /// Returns a buffer to fill for [`Stack::tcp_write_loan`]; `None` if there is no such
    /// connection or no buffer.
    #[inline]
    pub fn tcp_loan(&mut self, handle: TcpHandle) -> Option<Loan> {
        let tcb = &self.connections.get(handle)?.tcb;
        let (room, sums) = (usrreq::unit_bytes(tcb), usrreq::sums(tcb, &self.core.cx));
        let mbuf = self.core.cx.pool.alloc(room)?;
        Some(Loan { mbuf, room, sums, sum: Some(Sum::ZERO) })
    }

    /// Queue a filled buffer without a copy. Data that fills no burst leaves at the next
    /// [`Stack::poll`], like written data.
    ///
    /// # Errors
    /// The reason why the buffer was not queued, with the buffer.
    #[inline]
    pub fn tcp_write_loan(
        &mut self,
        handle: TcpHandle,
        loan: Loan,
    ) -> Result<(), (CallError, Loan)> {
        let Loan { mbuf, room, sums, sum } = loan;
        // The connection may need sums now although it did not when the buffer was loaned, or the
        // other way round. Then the sum is computed when the buffer is queued.
        let sum = sum.filter(|_| sums.is_some());
        self.queue_mbuf(handle, mbuf, sum)
            .map_err(|(why, mbuf)| (why, Loan { mbuf, room, sums, sum }))
    }

    /// Returns a buffer to fill for [`Stack::tcp_write_mbuf`], and the most bytes to put into it.
    pub fn tcp_alloc(&mut self, handle: TcpHandle) -> Option<(Mbuf, usize)> {
        let unit = usrreq::unit_bytes(&self.connections.get(handle)?.tcb);
        Some((self.core.cx.pool.alloc(unit)?, unit))
    }

    /// [`Stack::tcp_write_loan`] for a buffer from [`Stack::tcp_alloc`] that the user has filled.
    ///
    /// # Errors
    /// The reason why the buffer was not queued, with the buffer.
    #[inline]
    pub fn tcp_write_mbuf(&mut self, handle: TcpHandle, m: Mbuf) -> Result<(), (CallError, Mbuf)> {
        self.queue_mbuf(handle, m, None)
    }

    #[inline(always)]
    fn queue_mbuf(
        &mut self,
        handle: TcpHandle,
        m: Mbuf,
        sum: Option<Sum>,
    ) -> Result<(), (CallError, Mbuf)> {
        let Some(pcb) = self.connections.get_mut(handle) else {
            return Err((CallError::Closed, m));
        };
        usrreq::write_mbuf(&mut pcb.tcb, m, sum, &mut self.core.cx)?;
        let may_leave = is_burst(&pcb.tcb, self.core.write_unit(usrreq::unit_bytes(&pcb.tcb)));
        if !pcb.tcb.dirty {
            self.connections.mark_dirty(handle);
        }
        if may_leave {
            tx::output(self);
        }
        Ok(())
    }

    /// Take the oldest received buffer; `None` means that the peer has closed and all data was
    /// read.
    ///
    /// # Errors
    /// [`CallError`].
    #[inline]
    pub fn tcp_read_mbuf(&mut self, handle: TcpHandle) -> Result<Option<Mbuf>, CallError> {
        let Some(pcb) = self.connections.get_mut(handle) else { return Err(CallError::Closed) };
        let m = usrreq::read_mbuf(&mut pcb.tcb, &mut self.core.cx)?;
        self.connections.after_read(handle);
        Ok(m)
    }

    /// Call `look` with each piece of the received data, in order and without a copy, up to the
    /// urgent mark at most. The buffers then return to their pools together. Returns the number of
    /// bytes that `look` got; 0 means that the peer has closed and all data was read.
    ///
    /// # Errors
    /// [`CallError`].
    #[inline]
    pub fn tcp_read_in_place(
        &mut self,
        handle: TcpHandle,
        look: impl FnMut(&[u8]),
    ) -> Result<usize, CallError> {
        let Some(pcb) = self.connections.get_mut(handle) else { return Err(CallError::Closed) };
        let n = usrreq::read_in_place(&mut pcb.tcb, &mut self.core.cx, look)?;
        self.connections.after_read(handle);
        Ok(n)
    }

    /// Give a loaned buffer back. Dropping the buffer does the same, a little more slowly.
    #[inline]
    pub fn give_back(&mut self, m: Mbuf) {
        self.core.cx.pool.free(m);
    }
}
