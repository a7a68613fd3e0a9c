//! Writing to a connection: long data is copied and sent in units, so that one unit is on the wire
//! while the next is copied.
//!
//! Called by: programs. `loan.rs` queues buffers without a copy.

use std::io::IoSlice;

use tcp::usrreq::{self, CallError};
use tcp::{Tcb, output};

use crate::connections::Pcb;
use crate::handles::TcpHandle;
use crate::stack::Stack;
use crate::tx;

impl Stack {
    /// Queue data to send; returns how many bytes were taken, which may be fewer than given. Long
    /// data is sent in units: while one unit is on the wire, the next is copied.
    ///
    /// # Errors
    /// [`CallError`].
    #[inline]
    pub fn tcp_write(&mut self, handle: TcpHandle, data: &[u8]) -> Result<usize, CallError> {
        self.write_piece(handle, data, 0)
    }

    /// [`Stack::tcp_write`] of several slices, as one write: writev(2).
    ///
    /// # Errors
    /// [`CallError`], if nothing was taken.
    pub fn tcp_write_vectored(
        &mut self,
        handle: TcpHandle,
        parts: &[IoSlice<'_>],
    ) -> Result<usize, CallError> {
        let (mut written, mut behind) = (0, parts.iter().map(|part| part.len()).sum::<usize>());
        for part in parts.iter().filter(|part| !part.is_empty()) {
            behind -= part.len();
            match self.write_piece(handle, part, behind) {
                Ok(taken) => {
                    written += taken;
                    if taken < part.len() {
                        break;
                    }
                }
                Err(error) if written == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    /// Write data; `behind` more bytes of the same write follow.
    #[inline(always)]
    fn write_piece(
        &mut self,
        handle: TcpHandle,
        data: &[u8],
        behind: usize,
    ) -> Result<usize, CallError> {
        let is_alone = |pcb: &Pcb| usrreq::is_alone(&pcb.tcb, data.len());
        if behind == 0
            && self.connections.get(handle).is_some_and(is_alone)
            && let Some(pcb) = self.connections.get_dirty(handle)
        {
            return usrreq::write_alone(&mut pcb.tcb, data, &mut self.core.cx);
        }
        self.write_units(handle, data, behind)
    }

    /// Write data that is longer than a segment, or that follows other waiting data. No segment in
    /// the middle of a write is short, even with Nagle's algorithm off.
    #[inline(never)]
    fn write_units(
        &mut self,
        handle: TcpHandle,
        data: &[u8],
        behind: usize,
    ) -> Result<usize, CallError> {
        let (mut written, whole) = (0, data.len() + behind);
        let units = self.core.cx.switches.on(base::Switch::WriteUnits);
        loop {
            let Some(pcb) = self.connections.get_dirty(handle) else {
                return Err(CallError::Closed);
            };
            let unit = self.core.write_unit(usrreq::unit_bytes(&pcb.tcb));
            let rest = &data[written..];
            let chunk = if units { &rest[..rest.len().min(unit)] } else { rest };
            let behind = whole - written - chunk.len();
            match usrreq::write(&mut pcb.tcb, chunk, behind, &mut self.core.cx) {
                Ok(n) => written += n,
                Err(CallError::WouldBlock) if written > 0 => return Ok(written),
                Err(error) => return Err(error),
            }
            if is_burst(&pcb.tcb, unit) {
                if written < whole {
                    usrreq::rest_follows(&mut pcb.tcb);
                }
                tx::output(self);
            }
            if written == data.len() || !units {
                return Ok(written);
            }
        }
    }
}

/// Is it worth sending the waiting data now? Yes if it is at least a unit, and the window admits
/// some of it. If not, it waits for the next poll.
#[inline(always)]
pub(super) fn is_burst(tcb: &Tcb, unit: usize) -> bool {
    tcb.unsent_bytes() >= unit && output::admits_front(tcb)
}
