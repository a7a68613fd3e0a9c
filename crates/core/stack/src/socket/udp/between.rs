//! How datagrams from any source leave: a gateway or a proxy answers in the name of the hosts that
//! its guest asks ([`crate::Foreign`]), without a socket for each.
//!
//! Called by: `send.rs`, which has the calls of programs. The flows used last are remembered as a
//! socket remembers its one (route, neighbour, headers; switch `flow-cache`), in a fixed number of
//! slots.

mod send;

use core::net::SocketAddr;

use base::Instant;
use inet::FlowKey;

use super::Flow;
use crate::config::IpSettings;

/// Remembered flows; a flow that falls into the slot of another one replaces it.
const FLOWS: usize = 256;

/// How datagrams between two ends leave.
struct Pair {
    from: SocketAddr,
    ip: IpSettings,
    flow: Flow,
}

/// The remembered flows; no memory before the first one.
#[derive(Default)]
pub(crate) struct Between {
    slots: Vec<Option<Box<Pair>>>,
}

impl Between {
    /// Take the flow between two ends out of its slot, if it is remembered and nothing has changed
    /// since it was looked up.
    #[inline(always)]
    fn take(
        &mut self,
        (from, to): (SocketAddr, SocketAddr),
        ip: IpSettings,
        (epoch, now): (u64, Instant),
    ) -> Option<Box<Pair>> {
        self.slots.get_mut(slot(from, to))?.take_if(|pair| {
            let same = pair.from == from && pair.flow.remote == to && pair.ip == ip;
            same && pair.flow.epoch == epoch && now < pair.flow.until
        })
    }

    /// Remember a flow.
    #[inline(always)]
    fn put(&mut self, pair: Box<Pair>) {
        if self.slots.is_empty() {
            self.slots.resize_with(FLOWS, || None);
        }
        if let Some(slot) = self.slots.get_mut(slot(pair.from, pair.flow.remote)) {
            *slot = Some(pair);
        }
    }
}

#[inline(always)]
fn slot(from: SocketAddr, to: SocketAddr) -> usize {
    let key = FlowKey::new(from.ip(), from.port(), to.ip(), to.port());
    key.cheap_hash() as usize % FLOWS
}
