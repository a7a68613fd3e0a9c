//! The polled API for open TCP connections: write, read, shut down, close, query.
//!
//! Called by: programs. `open.rs` opens connections. Nothing here waits: a call that is not
//! possible now returns [`CallError::WouldBlock`], and an [`Event`](crate::Event) reports when it
//! is.

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
    /// Copy received data to `into`, up to the urgent mark, and return the number of bytes. 0 means
    /// that the peer has closed and all data was read.
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

    /// No more will be written: a FIN follows the queued data.
    pub fn tcp_shutdown_write(&mut self, handle: TcpHandle) {
        if let Some(pcb) = self.connections.get_mut(handle) {
            usrreq::shutdown_write(&mut pcb.tcb);
            self.connections.mark_dirty(handle);
            tx::output(self);
        }
    }

    /// No more will be read: data that arrives is acknowledged and discarded.
    pub fn tcp_shutdown_read(&mut self, handle: TcpHandle) {
        if let Some(pcb) = self.connections.get_mut(handle) {
            usrreq::shutdown_read(&mut pcb.tcb, &mut self.core.cx);
            // Readers get an event.
            self.connections.mark_dirty(handle);
            tx::output(self);
        }
    }

    /// Close the connection. Queued data is still sent; the handle is not valid afterwards.
    pub fn tcp_close(&mut self, handle: TcpHandle) {
        self.let_go(handle, usrreq::close);
    }

    /// End the connection at once: the peer gets a RST.
    pub fn tcp_abort(&mut self, handle: TcpHandle) {
        self.let_go(handle, |tcb, cx| {
            usrreq::abort(tcb, cx);
            tcb.orphan();
        });
    }

    fn let_go(&mut self, handle: TcpHandle, how: impl FnOnce(&mut tcp::Tcb, &mut tcp::Cx)) {
        let Some(pcb) = self.connections.get_mut(handle) else { return };
        if !pcb.in_table {
            // The connection had ended already, and was kept only for its user.
            tx::forget(self, handle);
            return;
        }
        how(&mut pcb.tcb, &mut self.core.cx);
        self.connections.mark_dirty(handle);
        self.orphans.let_go(handle, &mut self.connections, &mut self.core.cx);
        // A connection that a user completed at an inspecting listener belongs to that user while
        // it is still half open.
        handshake_progress(self, handle);
        tx::output(self);
    }

    /// Statistics of a connection.
    pub fn tcp_info(&self, handle: TcpHandle) -> Option<Info> {
        self.connections.get(handle).map(|p| p.tcb.info())
    }

    /// How many bytes can be read now, and whether the peer has closed.
    pub fn tcp_readable(&self, handle: TcpHandle) -> Option<(usize, bool)> {
        self.connections.get(handle).map(|p| (p.tcb.receive.len(), p.tcb.receive_finished()))
    }

    /// Local and remote address.
    pub fn tcp_addresses(&self, handle: TcpHandle) -> Option<(SocketAddr, SocketAddr)> {
        self.connections.get(handle).map(|p| (p.key.local(), p.key.remote()))
    }

    /// The owner of a connection.
    pub fn tcp_owner(&self, handle: TcpHandle) -> Option<&Owner> {
        self.connections.get(handle).map(|p| &p.owner)
    }
}

// Ephemeral ports. If the next port of a host can be predicted, its connections can be attacked
// blindly, and answers to its queries forged (RFC 6056).

/// Ports for sockets that are bound to no particular port: Linux's range.
pub const EPHEMERAL_PORTS: core::ops::Range<u16> = 32_768..61_000;

/// The range of ephemeral ports while NAT uses the usual range for the flows that it translates
/// ([`filter::rules::NAT_PORTS`]).
const PORTS_BESIDE_NAT: core::ops::Range<u16> = 61_000..u16::MAX;
const _: () = assert!(filter::rules::NAT_PORTS.1 < PORTS_BESIDE_NAT.start);

/// A constant that makes these draws differ from other values derived from the secret.
const KIND: u64 = 3;
/// A constant that makes the secrets of [`Stack::derived_secret`] differ from other values.
const DERIVED: u64 = 5;

impl Stack {
    /// Ephemeral ports in the order in which to try them, each once: RFC 6056 section 3.3.1,
    /// algorithm 1 ("simple port randomization"). Its random number is a keyed hash of how many
    /// ports were drawn so far. So no port reveals the ports drawn before or after it, for any
    /// destination. The counters of algorithms 3 and 4 would reveal to a destination how many other
    /// ports were drawn.
    pub fn ports_to_try(&mut self) -> impl Iterator<Item = u16> + use<> {
        let range = match &self.firewall {
            Some(firewall) if firewall.translates() => PORTS_BESIDE_NAT,
            _ => EPHEMERAL_PORTS,
        };
        let (begin, count) = (range.start, u64::from(range.end - range.start));
        self.ports_drawn = self.ports_drawn.wrapping_add(1);
        let first = self.core.secret.hash([KIND, self.ports_drawn]) % count;
        (first..first + count).map(move |at| begin + (at % count) as u16)
    }

    /// A secret for a protocol outside the stack, derived from the stack's own secret. Each
    /// protocol has another `purpose`, and no secret reveals another.
    pub fn derived_secret(&self, purpose: u64) -> [u64; 2] {
        [0, 1].map(|half| self.core.secret.hash_2_4([DERIVED, purpose, half]))
    }
}
