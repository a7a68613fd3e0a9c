//! Forward progress of TCP confirms neighbours: who acknowledges new data, or sends it, is reached
//! by the packets that he answers, and need not be solicited.
//!
//! Called by: `resolve.rs` when a neighbour's DELAY begins and when it is over. The packet path
//! does nothing for it: where connections are is noted when DELAY begins, and compared when it
//! ends. Notes are bounded by the limit `neighbours` and [`NOTED_MAX`]. RFC 4861 section 7.3.1.

use std::collections::BTreeMap;

use base::SeqNumber;
use inet::neighbour::Key;

use crate::connections::{Connections, Pcb};
use crate::{Stack, TcpHandle, addresses, resolve};

/// Connections that are looked at when a DELAY begins. If none of them goes over the neighbour, it
/// is solicited as without connections.
const LOOKED_AT_MAX: usize = 1_024;
/// Of those, connections over one neighbour that are noted.
const NOTED_MAX: usize = 32;

/// Where a connection was.
type Note = (TcpHandle, (SeqNumber, SeqNumber));

/// Where connections were when the DELAY of their neighbour began.
#[derive(Default)]
pub(crate) struct Progress {
    notes: BTreeMap<Key, Vec<Note>>,
}

impl Progress {
    /// Has a connection over `key` made progress since [`begin`]?
    pub(crate) fn is_made(&self, key: Key, connections: &Connections) -> bool {
        let moved = |(handle, then): &Note| {
            // One that goes by another port since says nothing of this neighbour.
            let pcb = connections.get(*handle).filter(|pcb| pcb.port == key.0);
            pcb.is_some_and(|pcb| pcb.tcb.progress() != *then)
        };
        self.notes.get(&key).is_some_and(|notes| notes.iter().any(moved))
    }

    /// A neighbour's entry is gone.
    pub(crate) fn forget(&mut self, key: Key) {
        self.notes.remove(&key);
    }
}

/// The DELAY of `key` begins.
#[cold]
pub(crate) fn begin(stack: &mut Stack, key: Key) {
    let looked_at = stack.connections.iter().take(LOOKED_AT_MAX);
    let there = looked_at.filter(|(_, pcb)| pcb.in_table && goes_over(stack, pcb, key));
    let noted = there.map(|(handle, pcb)| (handle, pcb.tcb.progress())).take(NOTED_MAX);
    let notes: Vec<Note> = noted.collect();
    stack.progress.notes.insert(key, notes);
}

/// Do a connection's segments go to this neighbour?
fn goes_over(stack: &Stack, pcb: &Pcb, (port, neighbour): Key) -> bool {
    let remote = pcb.key.remote();
    if pcb.port != port || remote.is_ipv4() != neighbour.is_ipv4() {
        return false;
    }
    let (src, remote) = (pcb.key.local().ip(), resolve::scoped(remote, port));
    let hop = addresses::next_hop(stack, Some(src), remote, pcb.sender());
    hop.is_ok_and(|hop| (hop.port, hop.neighbour) == (port, neighbour))
}
