//! Shards: several stacks, one for each core, that are one host to the network. A flow belongs to
//! the shard that its hash selects; nothing is shared on the flow's path.
//!
//! Called by: programs that want more than one core. The first shard acts for the host: it has the
//! addresses, routes, groups and autoconfiguration, and answers neighbours. The other shards look
//! up routes in its FIB, take over the state that it has published whenever their stack is used
//! ([`Shard::enter`]), and resolve neighbours by themselves; the answers of neighbours are copied
//! to all shards. docs/decisions/0081.
//!
//! ```
//! # mod wirespeed { pub use {base::*, device, wirespeed_stack::*}; }
//! use wirespeed::device::{Device, channel};
//! use wirespeed::shard::Shard;
//! use wirespeed::{Instant, PortConfig, StackConfig};
//!
//! let mut shards = Shard::group(&StackConfig::new([1, 2]), 2);
//! let (mut devices, mut ends) = (Vec::<Box<dyn Device>>::new(), Vec::new());
//! for _ in 0..2 {
//!     let (device, end) = channel::pair(&channel::Config::default()); // the queue of one shard
//!     devices.push(Box::new(device));
//!     ends.push(end);
//! }
//! let addresses = vec!["192.0.2.1/24".parse()?];
//! Shard::add_port(&mut shards, devices, &PortConfig { addresses, ..PortConfig::default() });
//! for shard in &mut shards {
//!     shard.poll(Instant::from_nanos(1)); // each on a thread of its own
//!     let mut turn = shard.enter(); // the stack, for one turn
//!     assert!(turn.next_event().is_none());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod device;
pub(crate) mod homes;
mod ports;
mod published;
mod steering;
mod turns;

use core::ops::{Deref, DerefMut};
use std::sync::Arc;

use ::device::Device;
use base::Instant;
pub use device::RING_FRAMES;
pub(crate) use device::{Outbox, ROUNDS_MAX};
use inet::{Identifications, Routes};
pub use ports::{add_port, remove_port, replace_port};
pub(crate) use steering::Membership;
pub use steering::{Home, Steering};
use turns::Group;
pub use turns::Turns;
pub(crate) use turns::{is_foreign, rehome, steer, to_first};

use crate::config::{PortConfig, StackConfig};
use crate::handles::PortId;
use crate::stack::Stack;

/// A constant that makes the steering key differ from other values derived from the secret.
const PURPOSE: u64 = 81;

/// A stack that is one of several shards, with its state between turns.
pub struct Shard {
    stack: Stack,
    turns: Turns,
}

impl Shard {
    /// Create `count` shards of one host. They share the secret; each has the limits of `config`
    /// for itself.
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

    /// Call [`add_port`] for all shards of a group.
    ///
    /// # Panics
    /// If there is not one device for each shard, or the shards are not one whole group.
    pub fn add_port(
        shards: &mut [Shard],
        devices: Vec<Box<dyn Device>>,
        config: &PortConfig,
    ) -> PortId {
        let mut turns: Vec<Entered<'_>> = shards.iter_mut().map(Shard::enter).collect();
        let mut stacks: Vec<&mut Stack> = turns.iter_mut().map(|turn| &mut **turn).collect();
        add_port(&mut stacks, devices, config)
    }

    /// The stack and its turns, for an owner that begins and ends each turn itself.
    pub fn into_parts(self) -> (Stack, Turns) {
        (self.stack, self.turns)
    }

    /// [`Stack::poll`] of this shard.
    pub fn poll(&mut self, now: Instant) -> usize {
        self.enter().poll(now)
    }

    /// Returns the stack for one turn (a use of the stack), which lasts until the result is
    /// dropped. The state that the first shard has published is taken over now. Changes by the
    /// first shard are published when its turn ends.
    pub fn enter(&mut self) -> Entered<'_> {
        self.turns.begin(&mut self.stack);
        Entered { shard: self }
    }

    /// Which shard of its group this is.
    pub fn index(&self) -> usize {
        self.stack.shard_index()
    }

    /// The shard to which a frame that comes by a port goes: by the hash of its flow, or by the
    /// rules of NAT, if there are any ([`Stack::set_filter`]).
    pub fn home(&self, port: PortId, frame: &[u8]) -> Home {
        homes::home(&self.stack, port.0, frame)
    }

    /// The hash function, for senders that have a queue for each shard.
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
