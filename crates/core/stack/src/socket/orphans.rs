//! Connections that their user has closed and that have not ended: they still send queued data, or
//! wait for the peer (FIN-WAIT-1, FIN-WAIT-2, CLOSING, LAST-ACK). No program will ever abort such a
//! connection, so the stack bounds their number: at the limit the one that has waited longest
//! without progress is reset. Decision 0044.
//!
//! Called by: `mod.rs` when a user closes a connection, `tx.rs` when a connection is removed.
//! Timers end most orphans (`Config::orphan_retries_max`, `Config::fin_wait_2`).

use std::collections::VecDeque;

use base::{Counter, Limit, SeqNumber};
use tcp::{State, usrreq};

use crate::connections::{Connections, Pcb};
use crate::handles::TcpHandle;

/// When room is needed: how many orphans that have made progress are passed over before the oldest
/// is reset nevertheless. So making room takes a bounded time.
const LOOKS_MAX: usize = 32;

/// SND.UNA and RCV.NXT, which show how far the peer has come.
type Progress = (SeqNumber, SeqNumber);

/// Orphans; those that have waited longest are at the front.
#[derive(Default)]
pub(crate) struct Orphans {
    /// Entries of connections that no longer exist are skipped.
    order: VecDeque<(TcpHandle, Progress)>,
    count: usize,
}

fn progress(pcb: &Pcb) -> Progress {
    (pcb.tcb.snd_una, pcb.tcb.rcv_nxt)
}

impl Orphans {
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Note that an orphan is removed.
    pub(crate) fn leave(&mut self) {
        self.count -= 1;
    }

    /// The user of a connection has closed its handle. If the connection lives on, it becomes an
    /// orphan.
    pub(crate) fn let_go(
        &mut self,
        handle: TcpHandle,
        connections: &mut Connections,
        cx: &mut tcp::Cx,
    ) {
        let is_over = |pcb: &Pcb| matches!(pcb.tcb.state, State::Closed | State::TimeWait);
        if connections.get(handle).is_none_or(is_over) {
            return;
        }
        if !cx.budget.admits(Limit::Orphans, self.count) {
            // With a limit of 0 this connection itself is reset.
            let oldest = self.longest_waiting(connections).unwrap_or(handle);
            if let Some(pcb) = connections.get_dirty(oldest) {
                usrreq::abort(&mut pcb.tcb, cx);
            }
            cx.counters.add(Counter::TcpOrphansReset, 1);
        }
        self.enter(handle, connections);
    }

    fn enter(&mut self, handle: TcpHandle, connections: &mut Connections) {
        let Some(pcb) = connections.get_mut(handle) else { return };
        if core::mem::replace(&mut pcb.orphan, true) {
            return;
        }
        self.order.push_back((handle, progress(pcb)));
        self.count += 1;
        // Entries of connections that no longer exist are removed at the front, or when they are
        // many.
        if self.order.len() > 2 * self.count + 16 {
            self.order.retain(|&(handle, _)| connections.get(handle).is_some());
        }
    }

    /// Returns the orphan to reset, and removes it from the list.
    fn longest_waiting(&mut self, connections: &Connections) -> Option<TcpHandle> {
        let mut looks = 0;
        while let Some((handle, then)) = self.order.pop_front() {
            let Some(pcb) = connections.get(handle) else { continue };
            let now = progress(pcb);
            if now == then || looks == LOOKS_MAX {
                return Some(handle);
            }
            self.order.push_back((handle, now));
            looks += 1;
        }
        None
    }
}
