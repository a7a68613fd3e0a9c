//! Connections in SYN-RECEIVED, in the order of their SYNs: how many there are, and whether one of
//! them gives way to a newcomer. One that has waited for much longer than handshakes take will not
//! be answered any more; one that has not keeps its place, because a crowd of honest peers in which
//! each pushes another out would open nothing, and be reset for it.
//!
//! Called by: `passive.rs`. Its callers ask the limits. Without cookies this is what there is to be
//! done (RFC 4987 sections 3.3 and 3.4): a newcomer's chance in a flood is the share of it that the
//! places take in while they wait.

use std::collections::VecDeque;

use base::{Duration, Instant};

use crate::connections::Connections;
use crate::handles::TcpHandle;

/// Waits of a half-open connection that keep its place, at least and at most. The least is what a
/// busy program may be late by; the most is when its SYN-ACK is sent again (RFC 6298 section 2).
const WAIT_LEAST: Duration = Duration::from_millis(10);
const WAIT_MOST: Duration = Duration::from_secs(1);

/// Half-open connections: of one listener, or of a shard.
#[derive(Default)]
pub(crate) struct HalfOpen {
    /// Those that are open or gone are skipped.
    order: VecDeque<(TcpHandle, Instant)>,
    count: usize,
    /// How long handshakes take: the slow ones count at once, the quick ones by and by.
    round_trip_ns: u64,
}

fn is_half_open(connections: &Connections, handle: TcpHandle) -> bool {
    // Fast Open counts its own.
    let own = |tcb: &tcp::Tcb| tcb.fast_open() == Some(tcp::fast_open::Role::Server);
    connections.get(handle).is_some_and(|pcb| pcb.tcb.is_embryonic() && !own(&pcb.tcb))
}

impl HalfOpen {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// One is about to be made. Its handle comes with [`HalfOpen::push`], if it is made.
    pub(crate) fn enter(&mut self) {
        self.count += 1;
    }

    /// One opened, or is gone.
    pub(crate) fn leave(&mut self) {
        self.count -= 1;
    }

    /// The handshake of one took this long; zero was not measured.
    pub(crate) fn took(&mut self, round_trip: Duration) {
        let ns = round_trip.as_nanos();
        if ns > 0 {
            self.round_trip_ns = ns.max(self.round_trip_ns - self.round_trip_ns / 8 + ns / 8);
        }
    }

    /// The one that entered last.
    pub(crate) fn push(&mut self, handle: TcpHandle, now: Instant, connections: &Connections) {
        self.order.push_back((handle, now));
        // Places of the others go when they reach the front, or when they are many.
        if self.order.len() > 2 * self.count + 16 {
            self.order.retain(|&(handle, _)| is_half_open(connections, handle));
        }
    }

    /// The oldest, if it has waited for so long that it gives way; it stays.
    pub(crate) fn overdue(&mut self, now: Instant, connections: &Connections) -> Option<TcpHandle> {
        let wait = Duration::from_nanos(self.round_trip_ns).saturating_mul(2);
        let wait = wait.max(WAIT_LEAST).min(WAIT_MOST);
        while let Some(&(handle, since)) = self.order.front() {
            if is_half_open(connections, handle) {
                return (now.since(since) >= wait).then_some(handle);
            }
            self.order.pop_front();
        }
        None
    }
}
