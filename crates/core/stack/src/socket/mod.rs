//! TCP for users of the polled API, once a connection is there: write, read, shut down, close, ask.
//!
//! Called by: programs. How connections come to be, `open.rs` knows. Nothing here waits: what
//! cannot be done now is [`CallError::WouldBlock`], and an [`Event`](crate::Event) tells when it
//! can.

mod broadcast;
pub(crate) mod cookies;
pub(crate) mod fast_open;
pub(crate) mod forward;
pub(crate) mod half_open;
pub(crate) mod listener;
pub(crate) mod loan;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod orphans;
pub(crate) mod passive;
pub(crate) mod ping;
pub(crate) mod ports;
pub(crate) mod repeated;
pub(crate) mod udp;
mod write;

use core::net::SocketAddr;

use base::Owner;
use tcp::usrreq::{self, CallError};
use tcp::{Info, Todo};

use crate::handles::TcpHandle;
use crate::socket::passive::handshake_progress;
use crate::stack::Stack;
use crate::tx;

impl Stack {
    /// Copy received data out, up to a mark of urgent data; 0 means the peer has closed and all was
    /// read.
    ///
    /// # Errors
    /// [`CallError`].
    #[inline]
    pub fn tcp_read(&mut self, handle: TcpHandle, into: &mut [u8]) -> Result<usize, CallError> {
        let Some(pcb) = self.connections.get_mut(handle) else { return Err(CallError::Closed) };
        let n = if usrreq::is_one_buffer(&pcb.tcb, into.len()) {
            usrreq::read_alone(&mut pcb.tcb, into, &mut self.core.cx)?
        } else {
            usrreq::read(&mut pcb.tcb, into, &mut self.core.cx)?
        };
        // A window update leaves with the next burst.
        if pcb.tcb.todo.has(Todo::ACK_NOW) {
            self.connections.mark_dirty(handle);
        }
        Ok(n)
    }

    /// No more will be written: a FIN follows what is queued.
    pub fn tcp_shutdown_write(&mut self, handle: TcpHandle) {
        if let Some(pcb) = self.connections.get_mut(handle) {
            usrreq::shutdown_write(&mut pcb.tcb);
            self.connections.mark_dirty(handle);
            tx::output(self);
        }
    }

    /// No more will be read.
    pub fn tcp_shutdown_read(&mut self, handle: TcpHandle) {
        if let Some(pcb) = self.connections.get_mut(handle) {
            usrreq::shutdown_read(&mut pcb.tcb, &mut self.core.cx);
            // Notify readers.
            self.connections.mark_dirty(handle);
            tx::output(self);
        }
    }

    /// Let go: what is queued is still sent; the handle means nothing afterwards.
    pub fn tcp_close(&mut self, handle: TcpHandle) {
        self.let_go(handle, usrreq::close);
    }

    /// Let go at once: the peer gets a RST.
    pub fn tcp_abort(&mut self, handle: TcpHandle) {
        self.let_go(handle, |tcb, cx| {
            usrreq::abort(tcb, cx);
            tcb.orphan();
        });
    }

    fn let_go(&mut self, handle: TcpHandle, how: impl FnOnce(&mut tcp::Tcb, &mut tcp::Cx)) {
        let Some(pcb) = self.connections.get_mut(handle) else { return };
        if !pcb.in_table {
            // It was over already, and kept for its user alone.
            tx::forget(self, handle);
            return;
        }
        how(&mut pcb.tcb, &mut self.core.cx);
        self.connections.mark_dirty(handle);
        self.orphans.let_go(handle, &mut self.connections, &mut self.core.cx);
        // One that a forwarder completed is its user's while it is still half open.
        handshake_progress(self, handle);
        tx::output(self);
    }

    /// Statistics of a connection.
    pub fn tcp_info(&self, handle: TcpHandle) -> Option<Info> {
        self.connections.get(handle).map(|p| p.tcb.info())
    }

    /// Bytes that can be read now, and whether the peer has closed.
    pub fn tcp_readable(&self, handle: TcpHandle) -> Option<(usize, bool)> {
        self.connections.get(handle).map(|p| (p.tcb.receive.len(), p.tcb.receive_finished()))
    }

    /// Local and remote address.
    pub fn tcp_addresses(&self, handle: TcpHandle) -> Option<(SocketAddr, SocketAddr)> {
        self.connections.get(handle).map(|p| (p.key.local(), p.key.remote()))
    }

    /// Whose it is.
    pub fn tcp_owner(&self, handle: TcpHandle) -> Option<&Owner> {
        self.connections.get(handle).map(|p| &p.owner)
    }
}
