//! Shards: several stacks, one a core, that are one host to the network. A flow belongs to the
//! shard that its hash selects; nothing is shared on its path.
//!
//! Called by: programs that want more than one core. The first shard speaks for the host: it has
//! the addresses, routes, groups and autoconfiguration, and answers neighbours. The others look up
//! in its FIB, take over what it publishes between two turns, and find neighbours by themselves,
//! whose answers are copied to all. docs/decisions/0081.

mod device;
mod published;
mod steering;

use core::ops::{Deref, DerefMut};
use std::sync::Arc;

use ::device::Device;
use base::{Instant, LinkKind};
use inet::route::Reader;
use inet::{Identifications, Routes};
use mbuf::Mbuf;
use wire::ether;

use crate::{PortConfig, PortId, Stack, StackConfig};

use device::Outbox;
use published::{Published, Stamp};

pub use device::RING_FRAMES;
pub use steering::{Home, Steering};

/// Sets the steering key apart from what else the secret determines.
const PURPOSE: u64 = 81;

/// A stack that is one of several, with what it needs between turns.
pub struct Shard {
    stack: Stack,
    published: Arc<Published>,
    /// The version that was last taken over.
    seen: u64,
    /// Of the first shard: what it last published.
    stamp: Option<Stamp>,
    /// Of the others: their place among the readers of the FIB.
    reader: Option<Reader>,
}

/// What a stack knows of being a shard.
pub(crate) struct Membership {
    index: usize,
    steering: Steering,
    outboxes: Vec<(PortId, Arc<Outbox>)>,
}

impl Shard {
    /// `count` shards of one host. They have the secret in common, and each has the limits of
    /// `config` for itself.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn group(config: &StackConfig, count: usize) -> Vec<Shard> {
        assert!(count > 0, "a host has at least one shard");
        let published = Arc::new(Published::default());
        let mut shards: Vec<Shard> = Vec::with_capacity(count);
        for index in 0..count {
            let reports = config.solicited_node_reports && index == 0;
            let mut stack =
                Stack::new(StackConfig { solicited_node_reports: reports, ..config.clone() });
            let steering = Steering::new(stack.derived_secret(PURPOSE), count);
            stack.membership = Some(Box::new(Membership { index, steering, outboxes: Vec::new() }));
            stack.ids = Identifications::of_shard(index, count);
            let fib = shards.first().map(|first| first.stack.routes.fib());
            if let Some(fib) = &fib {
                stack.routes = Routes::following(fib);
            }
            let reader = fib.map(|fib| fib.reader());
            let published = Arc::clone(&published);
            shards.push(Shard { stack, published, seen: 0, stamp: None, reader });
        }
        shards
    }

    /// Add a port to all shards of a group, with a device for each: its queue, in the order of the
    /// shards. Addresses are added to the first shard and published by it.
    ///
    /// # Panics
    /// If there is not one device for each shard, or these are not the shards of one group.
    pub fn add_port(
        shards: &mut [Shard],
        devices: Vec<Box<dyn Device>>,
        config: &PortConfig,
    ) -> PortId {
        assert_eq!(devices.len(), shards.len(), "each shard needs its own queue of the device");
        let Some(first) = shards.first() else { panic!("a group has at least one shard") };
        let steering = first.steering();
        assert_eq!(steering.count(), shards.len(), "a port is added to all shards of a group");
        let queues = device::join(devices, steering);
        let mut ids = Vec::with_capacity(shards.len());
        for (shard, (queue, outbox)) in shards.iter_mut().zip(queues) {
            let is_first = shard.reader.is_none();
            let addresses = if is_first { config.addresses.clone() } else { Vec::new() };
            let mut stack = shard.enter();
            let id = stack.add_port(queue, PortConfig { mac: config.mac, addresses });
            if let Some(membership) = &mut stack.membership {
                membership.outboxes.push((id, outbox));
            }
            ids.push(id);
        }
        assert!(ids.iter().all(|&id| id == ids[0]), "ports of shards are added together");
        ids[0]
    }

    /// [`Stack::poll`] of this shard.
    pub fn poll(&mut self, now: Instant) -> usize {
        self.enter().poll(now)
    }

    /// The stack, for as long as a turn lasts: what the first shard published is taken over now,
    /// and what the first shard changes is published at the end.
    pub fn enter(&mut self) -> Entered<'_> {
        if let Some(reader) = &self.reader {
            reader.begin();
            let version = self.published.version();
            if version != self.seen {
                self.seen = version;
                self.published.follow(&mut self.stack);
            }
        }
        Entered { shard: self }
    }

    /// Which shard of its group this is.
    pub fn index(&self) -> usize {
        self.stack.membership.as_ref().map_or(0, |membership| membership.index)
    }

    /// The hash, for senders that have a queue for each shard.
    pub fn steering(&self) -> Steering {
        let membership = self.stack.membership.as_ref();
        membership.map_or(Steering::new([0; 2], 1), |membership| membership.steering)
    }

    fn leave(&mut self) {
        if let Some(membership) = &self.stack.membership {
            for (_, outbox) in &membership.outboxes {
                outbox.count_drops(&mut self.stack.core.drops);
            }
        }
        if let Some(reader) = &self.reader {
            return reader.end();
        }
        let stamp = published::stamp(&self.stack);
        if self.stamp != Some(stamp) {
            self.stamp = Some(stamp);
            self.published.publish(&self.stack);
        }
    }
}

/// A shard's stack during a turn.
pub struct Entered<'a> {
    shard: &'a mut Shard,
}

impl Deref for Entered<'_> {
    type Target = Stack;

    fn deref(&self) -> &Stack {
        &self.shard.stack
    }
}

impl DerefMut for Entered<'_> {
    fn deref_mut(&mut self) -> &mut Stack {
        &mut self.shard.stack
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.shard.leave();
    }
}

impl Stack {
    /// Does another shard speak for the host?
    pub(crate) fn is_follower(&self) -> bool {
        self.membership.as_ref().is_some_and(|membership| membership.index != 0)
    }

    /// Do packets of a flow between these come to this shard?
    pub(crate) fn has_flow(
        &self,
        local: core::net::SocketAddr,
        remote: core::net::SocketAddr,
    ) -> bool {
        let is_here = |m: &Membership| m.steering.of_flow(local, remote) == m.index;
        self.membership.as_deref().is_none_or(is_here)
    }
}

/// A datagram that is whole again, with its IP header first: handed to its flow's shard, or
/// returned if it is this one's.
#[cold]
pub(crate) fn rehome(stack: &mut Stack, mut m: Mbuf) -> Option<Mbuf> {
    let Some(membership) = &stack.membership else { return Some(m) };
    let Home::Shard(to) = membership.steering.packet(m.as_slice()) else { return Some(m) };
    let id = PortId(m.in_port());
    let outbox = membership.outboxes.iter().find(|(port, _)| *port == id);
    let (Some((_, outbox)), Some(port)) = (outbox, stack.ports.get(id.0)) else { return Some(m) };
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
