//! The initial sequence numbers of connections, for relative sequence numbers.
//!
//! Called by: `tcp`. Bounded; many connections make it forget earlier ones.

use std::collections::HashMap;
use std::net::SocketAddr;

/// Maximum number of connections. When it is reached, all are forgotten, and numbers begin anew.
const MOST: usize = 1 << 14;

/// The bases that are subtracted from a segment's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Base {
    /// For its sequence number.
    pub(super) seq: u32,
    /// For its acknowledgment number, and its SACK blocks.
    pub(super) ack: u32,
}

/// Both ends of a connection, the smaller first.
type Key = (SocketAddr, SocketAddr);

#[derive(Default)]
pub(crate) struct Flows(HashMap<Key, Base>);

impl Flows {
    /// The bases of a segment, and the base of its SACK blocks. For the first segment of a
    /// connection only the latter is not zero.
    pub(super) fn base(
        &mut self,
        (from, to): (SocketAddr, SocketAddr),
        (seq, ack): (u32, u32),
        is_syn: bool,
    ) -> (Base, u32) {
        let is_reverse = to < from;
        let key = if is_reverse { (to, from) } else { (from, to) };
        let turned = |base: Base| match is_reverse {
            true => Base { seq: base.ack, ack: base.seq },
            false => base,
        };
        match self.0.get(&key) {
            Some(base) if !is_syn => (turned(*base), turned(*base).ack),
            _ => {
                if self.0.len() >= MOST {
                    self.0.clear();
                }
                let base = Base { seq, ack: ack.wrapping_sub(1) };
                self.0.insert(key, turned(base));
                (Base::default(), base.ack)
            }
        }
    }
}
