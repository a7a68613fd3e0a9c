//! A turn is the time in which a thread uses the stack of a shard. When a turn begins, the shard
//! takes over the state that the first shard published, and pins the FIB. When a turn of the first
//! shard ends, it publishes its changes and wakes the others.
//!
//! Called by: [`super::Shard::enter`]; crate `net`, which keeps stacks behind locks of its own. A
//! stack alone has no turns, and pays nothing for them.

use core::net::SocketAddr;
use core::task::Waker;
use std::sync::Arc;

use ::device::{Burst, Doorbell};
use base::LinkKind;
use inet::route::Reader;
use mbuf::Mbuf;
use wire::ether;

use super::homes;
use super::published::{self, Published, Stamp};
use super::steering::{Home, Membership, Steering};
use crate::stack::Stack;

/// State that all shards of a group share.
pub(super) struct Group {
    published: Published,
    /// A doorbell for each shard, rung after the first shard has published.
    bells: Vec<Doorbell>,
}

impl Group {
    pub(super) fn new(count: usize) -> Arc<Group> {
        let bells = (0..count).map(|_| Doorbell::new()).collect();
        Arc::new(Group { published: Published::default(), bells })
    }
}

/// The turns of one shard. They are separate from its stack.
pub struct Turns {
    group: Arc<Group>,
    index: usize,
    /// The published version that was last taken over.
    seen: u64,
    /// On the first shard: the stamp of the state that it last published.
    stamp: Option<Stamp>,
    /// On the other shards: this shard's registration as a reader of the FIB.
    reader: Option<Reader>,
}

impl Turns {
    pub(super) fn new(group: Arc<Group>, index: usize, reader: Option<Reader>) -> Turns {
        Turns { group, index, seen: 0, stamp: None, reader }
    }

    /// Begin a turn, before the stack is used.
    pub fn begin(&mut self, stack: &mut Stack) {
        let Some(reader) = &self.reader else { return };
        reader.begin();
        let version = self.group.published.version();
        if version != self.seen {
            self.seen = version;
            self.group.published.follow(stack);
        }
    }

    /// End the turn, after the stack was used.
    pub fn end(&mut self, stack: &mut Stack) {
        for outbox in stack.ports.iter().filter_map(|port| port.outbox.as_ref()) {
            outbox.count_drops(&mut stack.core.drops);
        }
        if let Some(reader) = &self.reader {
            return reader.end();
        }
        let stamp = published::stamp(stack);
        if self.stamp != Some(stamp) {
            self.stamp = Some(stamp);
            self.group.published.publish(stack);
            for bell in self.group.bells.iter().skip(1) {
                bell.ring();
            }
        }
    }

    /// Called before the shard's driver sleeps: wake `waker` once the first shard has published
    /// something. `false` if it has done so already: begin another turn.
    pub fn arm(&self, waker: &Waker) -> bool {
        // The first shard publishes state itself, and waits for none.
        if self.index == 0 {
            return true;
        }
        self.group.bells[self.index].arm_waker(waker);
        let is_current = self.group.published.version() == self.seen;
        if !is_current {
            self.group.bells[self.index].disarm();
        }
        is_current
    }
}

// Hands packets that belong to other shards' flows to those shards; and calls about being a shard.
//
// A stack alone has all flows. docs/decisions/0081.

/// Steer the frames of the device's burst that are left for the host: frames that belong to other
/// shards' flows are handed to those shards. Returns how many.
#[inline(never)]
pub(crate) fn steer(stack: &mut Stack, port: u16, frames: &mut Burst) -> usize {
    let Some(outbox) = stack.ports.get(port).and_then(|port| port.outbox.as_ref()) else {
        return 0;
    };
    let count = frames.len();
    outbox.steer(&mut stack.core.cx.pool, frames, 0);
    count - frames.len()
}

/// Does a frame that came by a port belong to another shard's flow?
pub(crate) fn is_foreign(stack: &Stack, port: u16, frame: &[u8]) -> bool {
    let outbox = stack.ports.get(port).and_then(|port| port.outbox.as_ref());
    outbox.is_some_and(|outbox| outbox.is_foreign(frame))
}

/// Hand a reassembled datagram, which begins with its IP header, to the shard of its flow. The
/// datagram is returned if that is this shard.
#[cold]
pub(crate) fn rehome(stack: &mut Stack, mut m: Mbuf) -> Option<Mbuf> {
    let Some(membership) = &stack.membership else { return Some(m) };
    let Home::Shard(to) = membership.steering.packet(m.as_slice()) else { return Some(m) };
    let port = stack.ports.get(m.in_port());
    let Some((port, outbox)) = port.and_then(|p| Some((p, p.outbox.as_ref()?))) else {
        return Some(m);
    };
    if to == membership.index {
        return Some(m);
    }
    if port.limits.link == LinkKind::Ethernet {
        let is_v6 = m.as_slice().first().is_some_and(|b| b >> 4 == 6);
        let ethertype = if is_v6 { ether::IPV6 } else { ether::IPV4 };
        let Some(header) = m.prepend(ether::HEADER_LEN) else { return Some(m) };
        ether::Header { dst: port.mac, src: port.mac, ethertype }.emit(header);
    }
    outbox.send(to, m, &mut stack.core.cx.pool);
    None
}

/// Hand a forwarded packet, in the frame in which it came, to the first shard, because only that
/// shard can find its route. `false` if that is not possible; the frame is then freed.
#[cold]
pub(crate) fn to_first(stack: &mut Stack, mut m: Mbuf) -> bool {
    let outbox = stack.ports.get(m.in_port()).and_then(|port| port.outbox.as_ref());
    if stack.firewall.is_some() {
        homes::mark_for_good(&mut m);
    }
    let pool = &mut stack.core.cx.pool;
    match outbox {
        Some(outbox) => outbox.send(0, m, pool),
        None => pool.free(m),
    }
    outbox.is_some()
}

impl Stack {
    /// The index of this shard in its group; 0 for a stack alone.
    pub fn shard_index(&self) -> usize {
        self.membership.as_ref().map_or(0, |membership| membership.index)
    }

    /// The hash that assigns flows to shards; all flows belong to a stack alone.
    pub fn steering(&self) -> Steering {
        let membership = self.membership.as_ref();
        membership.map_or(Steering::alone(), |membership| membership.steering)
    }

    /// Does another shard have the state of the host?
    pub(crate) fn is_follower(&self) -> bool {
        self.membership.as_ref().is_some_and(|membership| membership.index != 0)
    }

    /// Do packets of a flow between these ends come to this shard?
    pub(crate) fn has_flow(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let is_here = |m: &Membership| m.steering.of_flow(local, remote) == m.index;
        self.membership.as_deref().is_none_or(is_here)
    }
}
