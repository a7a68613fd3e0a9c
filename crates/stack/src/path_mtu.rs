//! What is known of the paths to other hosts: how large a packet each carries, by destination.
//!
//! Called by: `icmp.rs` and `tx.rs` with news, `open.rs` for a new connection, `udp.rs` and
//! `ping.rs` before they send. Only TCP is believed: who tells has to know a sequence number in
//! flight, or has seen large segments vanish and small ones arrive. RFC 1191 sections 5 and 6.3,
//! RFC 8201 section 4, RFC 4821 section 5. Limit: `path_mtus`.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use base::{Budget, Counter, Duration, Instant, IpVersion, Limit, Mss, Mtu};
use tcp::path;

use crate::{Stack, TcpHandle};

/// Paths change: so long a small MTU is taken for granted, then a larger one may be tried. RFC 1191
/// section 6.3 and RFC 8201 section 4 advise 10 minutes.
const LIFE: Duration = path::LIFE;

#[derive(Clone, Copy)]
struct Entry {
    mtu: Mtu,
    expires: Instant,
}

/// The paths whose MTU was learnt.
#[derive(Default)]
pub(crate) struct PathMtus {
    // Strangers choose the keys: a tree has no bad ones.
    entries: BTreeMap<IpAddr, Entry>,
    /// The same in the order of their ends.
    order: BTreeSet<(Instant, IpAddr)>,
    changes: u64,
}

impl PathMtus {
    /// How often anything became known. What was looked up before a change is to be looked up anew.
    #[inline(always)]
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Addresses or routes changed: paths may be other ones.
    pub(crate) fn note_change(&mut self) {
        self.changes += 1;
    }

    /// Destinations in it.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        debug_assert_eq!(self.entries.len(), self.order.len());
        self.entries.len()
    }

    /// The largest packet to send to `dst` over a link of `link`.
    pub(crate) fn mtu(&self, dst: IpAddr, link: Mtu, now: Instant) -> Mtu {
        self.known(dst, now).map_or(link, |(mtu, _)| mtu.min(link))
    }

    /// What is known of the path to `dst`, and until when.
    pub(crate) fn known(&self, dst: IpAddr, now: Instant) -> Option<(Mtu, Instant)> {
        let entry = self.entries.get(&dst).filter(|entry| entry.expires > now)?;
        Some((entry.mtu, entry.expires))
    }

    /// The path to `dst` carries `mtu` bytes and no more, as far as is known. At the limit the
    /// oldest entry goes: its path is learnt again if it is used.
    pub(crate) fn learn(&mut self, dst: IpAddr, mtu: Mtu, now: Instant, budget: &mut Budget) {
        self.forget_old(now);
        if let Some(known) = self.entries.remove(&dst) {
            self.order.remove(&(known.expires, dst));
        } else if !budget.admits(Limit::PathMtus, self.entries.len()) {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.entries.remove(&oldest);
        }
        let expires = now + LIFE;
        self.entries.insert(dst, Entry { mtu, expires });
        self.order.insert((expires, dst));
        self.changes += 1;
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some(&(expires, dst)) = self.order.first()
            && expires <= now
        {
            self.order.pop_first();
            self.entries.remove(&dst);
        }
    }
}

impl Stack {
    /// The largest packet that the path to `dst` is known to carry, if anything was learnt of it
    /// in the last ten minutes; else it is taken to be the port's MTU.
    pub fn path_mtu(&self, dst: IpAddr) -> Option<Mtu> {
        self.path_mtus.known(dst, self.core.cx.now).map(|(mtu, _)| mtu)
    }

    /// Grows whenever something was learnt that may change how connections send: of neighbours, of
    /// paths, of routes and addresses.
    #[inline(always)]
    pub(crate) fn changes(&self) -> u64 {
        self.neighbours.changes() + self.path_mtus.changes()
    }
}

/// A connection looks up its path, of which something may have become known since it last did.
#[cold]
pub(crate) fn refresh(stack: &mut Stack, handle: TcpHandle) {
    let core = &mut stack.core;
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    let remote = pcb.key.remote().ip();
    let Some((mtu, _)) = stack.path_mtus.known(remote, core.cx.now) else { return };
    let mss = Mss::for_mtu(mtu, IpVersion::of(&remote));
    if path::learnt(&mut pcb.tcb, mss, core.cx.now) {
        core.cx.counters.add(Counter::PathMtuLowered, 1);
    }
}

/// A connection found out by itself what its path carries: tell the others.
#[cold]
#[inline(never)]
pub(crate) fn found(stack: &mut Stack, handle: TcpHandle) {
    let core = &mut stack.core;
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    let Some((mss, is_worse)) = path::take_news(&mut pcb.tcb) else { return };
    let remote = pcb.key.remote().ip();
    let Some(mtu) = mss.mtu(IpVersion::of(&remote)) else { return };
    let known = stack.path_mtus.known(remote, core.cx.now).map(|(known, _)| known);
    // A path that nothing is known of is taken to carry what the port does: the peer may want less.
    let is_news =
        if is_worse { known.is_none_or(|k| mtu < k) } else { known.is_some_and(|k| mtu > k) };
    if is_news {
        stack.path_mtus.learn(remote, mtu, core.cx.now, &mut core.cx.budget);
    }
}
