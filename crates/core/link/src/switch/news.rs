//! What a switch finds out about its machines.
//!
//! Called by: programs, which tell their users.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::MacAddr;

/// A station that moved so often between devices that are up is two stations.
const MOVES_MAX: u64 = 4;
/// The count of moves is above the 48 bits of the address.
const COUNT: u64 = 1 << 48;

/// News of a switch, from any thread. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SwitchNews(Arc<AtomicU64>);

impl SwitchNews {
    /// A station moved, and the device at which it was is still up.
    pub(super) fn moved(&self, station: MacAddr) {
        let bits = station.0.iter().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
        let before = self.0.load(Ordering::Relaxed);
        // Only the switch writes. Moves of another station begin a new count.
        let moves = if before % COUNT == bits { before / COUNT } else { 0 };
        if moves <= MOVES_MAX {
            self.0.store(((moves + 1) * COUNT) | bits, Ordering::Relaxed);
        }
    }

    /// The address that two stations have, if there is one. The same address is reported for as
    /// long as it is the last one that moved.
    pub fn twice(&self) -> Option<MacAddr> {
        let bits = self.0.load(Ordering::Relaxed);
        let [_, _, mac @ ..] = (bits % COUNT).to_be_bytes();
        (bits / COUNT >= MOVES_MAX).then_some(MacAddr(mac))
    }
}
