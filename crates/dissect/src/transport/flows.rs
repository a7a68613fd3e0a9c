//! The first sequence numbers of each connection, so that those behind are printed from 1 on.
//!
//! Called by: `tcp`. Bounded: a flood of connections makes it forget.

use std::collections::HashMap;
use std::net::SocketAddr;

/// Connections that are remembered; with more, all are forgotten, and numbers are long again once.
const MOST: usize = 1 << 14;

/// What to take from the numbers of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Base {
    /// From its sequence number.
    pub(super) seq: u32,
    /// From its acknowledgment number, and those of its SACK blocks.
    pub(super) ack: u32,
}

/// Both ends of a connection, the lesser first.
type Key = (SocketAddr, SocketAddr);

#[derive(Default)]
pub(crate) struct Flows(HashMap<Key, Base>);

impl Flows {
    /// What to take from a segment's numbers, and from those of its SACK blocks; of the first
    /// segment of a connection nothing is taken but from the latter.
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
