//! Shards: several stacks, one a core, that are one host to the network. A flow belongs to the
//! shard that its hash selects; nothing is shared on its path.
//!
//! Called by: programs that want more than one core. The first shard speaks for the host: it has
//! the addresses, routes, groups and autoconfiguration, and answers neighbours. The others look up
//! in its FIB, take over what it publishes between two turns, and find neighbours by themselves,
//! whose answers are copied to all. docs/decisions/0081.

mod device;
mod ports;
mod published;
mod steering;
mod turns;

use core::ops::{Deref, DerefMut};
use std::sync::Arc;

use ::device::{Burst, Device};
use base::{Instant, LinkKind};
use inet::{Identifications, Routes};
use mbuf::Mbuf;
use wire::ether;

use crate::{PortConfig, PortId, Stack, StackConfig};

use turns::Group;

pub(crate) use device::{Outbox, ROUNDS_MAX};

pub use device::RING_FRAMES;
pub use ports::{add_port, remove_port, replace_port};
pub use steering::{Home, Steering};
pub use turns::Turns;

/// Sets the steering key apart from what else the secret determines.
const PURPOSE: u64 = 81;

/// A stack that is one of several, with what it does between turns.
pub struct Shard {
    stack: Stack,
    turns: Turns,
}

/// What a stack knows of being a shard.
pub(crate) struct Membership {
    index: usize,
    steering: Steering,
}

impl Shard {
    /// `count` shards of one host. They have the secret in common, and each has the limits of
    /// `config` for itself.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn group(config: &StackConfig, count: usize) -> Vec<Shard> {
        assert!(count > 0, "a host has at least one shard");
        let group = Group::new(count);
        let mut shards: Vec<Shard> = Vec::with_capacity(count);
        for index in 0..count {
            let reports = config.solicited_node_reports && index == 0;
            let mut stack =
                Stack::new(StackConfig { solicited_node_reports: reports, ..config.clone() });
            let steering = Steering::new(stack.derived_secret(PURPOSE), count);
            stack.membership = Some(Box::new(Membership { index, steering }));
            stack.ids = Identifications::of_shard(index, count);
            let fib = shards.first().map(|first| first.stack.routes.fib());
            if let Some(fib) = &fib {
                stack.routes = Routes::following(fib);
            }
            let reader = fib.map(|fib| fib.reader());
            let turns = Turns::new(Arc::clone(&group), index, reader);
            shards.push(Shard { stack, turns });
        }
        shards
    }

    /// [`add_port`] to all shards of a group.
    ///
    /// # Panics
    /// If there is not one device for each shard, or these are not the shards of one group.
    pub fn add_port(
        shards: &mut [Shard],
        devices: Vec<Box<dyn Device>>,
        config: &PortConfig,
    ) -> PortId {
        let mut turns: Vec<Entered<'_>> = shards.iter_mut().map(Shard::enter).collect();
        let mut stacks: Vec<&mut Stack> = turns.iter_mut().map(|turn| &mut **turn).collect();
        add_port(&mut stacks, devices, config)
    }

    /// The stack, and its turns, for an owner that begins and ends them by itself.
    pub fn into_parts(self) -> (Stack, Turns) {
        (self.stack, self.turns)
    }

    /// [`Stack::poll`] of this shard.
    pub fn poll(&mut self, now: Instant) -> usize {
        self.enter().poll(now)
    }

    /// The stack, for as long as a turn lasts: what the first shard published is taken over now,
    /// and what the first shard changes is published at the end.
    pub fn enter(&mut self) -> Entered<'_> {
        self.turns.begin(&mut self.stack);
        Entered { shard: self }
    }

    /// Which shard of its group this is.
    pub fn index(&self) -> usize {
        self.stack.shard_index()
    }

    /// The hash, for senders that have a queue for each shard.
    pub fn steering(&self) -> Steering {
        self.stack.steering()
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
        self.shard.turns.end(&mut self.shard.stack);
    }
}

impl Stack {
    /// Which shard of its group this is; 0 for a stack alone.
    pub fn shard_index(&self) -> usize {
        self.membership.as_ref().map_or(0, |membership| membership.index)
    }

    /// The hash that says which shard a flow belongs to; a stack alone has all flows.
    pub fn steering(&self) -> Steering {
        let membership = self.membership.as_ref();
        membership.map_or(Steering::alone(), |membership| membership.steering)
    }

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

/// What is left of a burst for the host, which the device brought: frames of other shards' flows
/// are handed to these. Returns how many were.
#[inline(never)]
pub(crate) fn steer(stack: &mut Stack, port: u16, frames: &mut Burst) -> usize {
    let Some(outbox) = stack.ports.get(port).and_then(|port| port.outbox.as_ref()) else {
        return 0;
    };
    let count = frames.len();
    outbox.steer(&mut stack.core.cx.pool, frames, 0);
    count - frames.len()
}

/// Is a frame that came by a port one of another shard's flows?
pub(crate) fn is_foreign(stack: &Stack, port: u16, frame: &[u8]) -> bool {
    let outbox = stack.ports.get(port).and_then(|port| port.outbox.as_ref());
    outbox.is_some_and(|outbox| outbox.is_foreign(frame))
}

/// A datagram that is whole again, with its IP header first: handed to its flow's shard, or
/// returned if it is this one's.
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

/// A forwarded packet, in the frame that it came in, whose route only the first shard can find:
/// handed to it. `false`, and the frame is freed, if there is no way.
#[cold]
pub(crate) fn to_first(stack: &mut Stack, m: Mbuf) -> bool {
    let outbox = stack.ports.get(m.in_port()).and_then(|port| port.outbox.as_ref());
    let pool = &mut stack.core.cx.pool;
    match outbox {
        Some(outbox) => outbox.send(0, m, pool),
        None => pool.free(m),
    }
    outbox.is_some()
}
