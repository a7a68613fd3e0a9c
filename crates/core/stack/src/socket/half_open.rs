//! Connections in SYN-RECEIVED, in the order of their SYNs: how many there are, and whether one of
//! them gives way to a new one. A connection gives way after it has waited for much longer than
//! handshakes take, because it will hardly be completed. Other connections keep their places:
//! otherwise, in a crowd of honest peers, each would push out another, and all would be reset and
//! none opened.
//!
//! Called by: `passive.rs`. Its callers check the limits. Without cookies no more can be done (RFC
//! 4987 sections 3.3 and 3.4): during a flood, the chance of a SYN is the share of SYNs for which
//! places become free.

use std::collections::VecDeque;

use base::{Duration, Instant};

use crate::connections::Connections;
use crate::handles::TcpHandle;

/// How long a half-open connection keeps its place, at least and at most. The minimum allows for
/// the delay of a busy program; after the maximum its SYN-ACK is sent again (RFC 6298 section 2).
const WAIT_LEAST: Duration = Duration::from_millis(10);
const WAIT_MOST: Duration = Duration::from_secs(1);

/// Half-open connections: of one listener, or of a shard.
#[derive(Default)]
pub(crate) struct HalfOpen {
    /// Entries of connections that are open or gone are skipped.
    order: VecDeque<(TcpHandle, Instant)>,
    count: usize,
    /// How long handshakes take: the estimate rises at once after a slow one, and falls gradually
    /// after quick ones.
    round_trip_ns: u64,
}

fn is_half_open(connections: &Connections, handle: TcpHandle) -> bool {
    // Fast Open counts its connections separately.
    let own = |tcb: &tcp::Tcb| tcb.fast_open() == Some(tcp::fast_open::Role::Server);
    connections.get(handle).is_some_and(|pcb| pcb.tcb.is_embryonic() && !own(&pcb.tcb))
}

impl HalfOpen {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Note that a connection is about to be created. If it is, [`HalfOpen::push`] adds its handle.
    pub(crate) fn enter(&mut self) {
        self.count += 1;
    }

    /// Note that a connection opened, or was removed.
    pub(crate) fn leave(&mut self) {
        self.count -= 1;
    }

    /// Note how long a handshake took; zero means that it was not measured.
    pub(crate) fn took(&mut self, round_trip: Duration) {
        let ns = round_trip.as_nanos();
        if ns > 0 {
            self.round_trip_ns = ns.max(self.round_trip_ns - self.round_trip_ns / 8 + ns / 8);
        }
    }

    /// Add the handle of the connection that entered last.
    pub(crate) fn push(&mut self, handle: TcpHandle, now: Instant, connections: &Connections) {
        self.order.push_back((handle, now));
        // Entries of other connections are removed at the front, or when they are many.
        if self.order.len() > 2 * self.count + 16 {
            self.order.retain(|&(handle, _)| is_half_open(connections, handle));
        }
    }

    /// Returns the oldest connection, if it has waited so long that it gives way. It stays in the
    /// list.
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

// Remembers recent SYNs. If SYNs come faster than they can be answered, the device loses frames
// that it cannot hold, among them segments of open connections. Then a SYN is answered only when it
// comes for the second time: a real peer sends it again after a second (RFC 6298 section 2.1), and
// a forger of addresses would have to send each SYN twice. To recognise a SYN takes one bit.
//
// The memory is bounded: two fields of [`BITS`] bits, allocated at the first flood. If another SYN
// has set the same bit, a SYN is answered at once, as all SYNs are while there is no flood.

/// Bits of a field, which takes a megabyte. 400,000 SYNs a second set a tenth of them.
const BITS: usize = 1 << 23;
/// A SYN is remembered for at least this long, and at most twice as long.
const SPAN: Duration = Duration::from_secs(2);

/// The SYNs of the last seconds.
#[derive(Default)]
pub(crate) struct Repeated {
    /// One field for the SYNs of this span and one for those of the last span, with one bit for
    /// each SYN; empty before the first flood.
    fields: [Box<[u64]>; 2],
    /// When the next span begins.
    turns: Option<Instant>,
}

impl Repeated {
    /// Did a SYN with this hash come within the last seconds? The SYN is remembered from now on.
    pub(crate) fn came_before(&mut self, hash: u64, now: Instant) -> bool {
        if self.turns.is_none_or(|turns| turns <= now) {
            self.turn(now);
        }
        let at = hash as usize % BITS;
        let (word, bit) = (at / 64, 1 << (at % 64));
        let came = self.fields.iter().any(|field| field[word] & bit != 0);
        self.fields[0][word] |= bit;
        came
    }

    #[cold]
    fn turn(&mut self, now: Instant) {
        let is_next = self.turns.is_some_and(|turns| now < turns + SPAN);
        self.fields.swap(0, 1);
        let first = if is_next { 0..1 } else { 0..2 };
        for field in &mut self.fields[first] {
            if field.is_empty() {
                *field = vec![0; BITS / 64].into_boxed_slice();
            } else {
                field.fill(0);
            }
        }
        self.turns = Some(now + SPAN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syn_is_known_again_for_one_span_and_forgotten_after_two() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut repeated = Repeated::default();
        assert!(!repeated.came_before(77, at(3)));
        assert!(repeated.came_before(77, at(4)));
        assert!(!repeated.came_before(78, at(4)));
        assert!(repeated.came_before(78, at(6)), "forgotten in the next span");
        assert!(!repeated.came_before(77, at(8)), "remembered after two spans");
        assert!(!repeated.came_before(79, at(8)));
        assert!(!repeated.came_before(79, at(60)), "remembered after a long time");
    }

    #[test]
    fn a_million_leave_most_newcomers_unknown() {
        let mut repeated = Repeated::default();
        let hash = |n: u64| base::KeyedHash::new(1, 2).hash([n]);
        for n in 0..1_000_000 {
            repeated.came_before(hash(n), Instant::ZERO);
        }
        let known =
            (1_000_000..1_010_000).filter(|&n| repeated.came_before(hash(n), Instant::ZERO));
        assert!((700..1700).contains(&known.count()));
    }
}
