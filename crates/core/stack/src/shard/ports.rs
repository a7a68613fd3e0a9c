//! Ports of a host with several shards: each shard has its own queue of the device, and the port
//! has the same number in all shards.
//!
//! Called by: [`super::Shard::add_port`]; callers that have the stacks of all shards at once, as
//! crate `net` has while it locks them. A stack alone is a host with one shard.

use std::sync::Arc;

use ::device::Device;

use super::device::{Outbox, join};
use crate::config::PortConfig;
use crate::handles::PortId;
use crate::port::ReplaceError;
use crate::stack::Stack;

/// Add a port to all shards. `devices` are the queues of the device, one for each shard in the
/// order of the shards. The addresses are those of the first shard, which publishes them.
///
/// # Panics
/// If there is not one device for each shard, or the stacks are not all shards of one group.
pub fn add_port(
    stacks: &mut [&mut Stack],
    devices: Vec<Box<dyn Device>>,
    config: &PortConfig,
) -> PortId {
    let queues = queues(stacks, devices);
    let mut ids = Vec::with_capacity(stacks.len());
    for (stack, (queue, outbox)) in stacks.iter_mut().zip(queues) {
        let addresses = if stack.is_follower() { Vec::new() } else { config.addresses.clone() };
        let id = stack.add_port(queue, PortConfig { addresses, ..config.clone() });
        if let Some(port) = stack.ports.get_mut(id.0) {
            port.outbox = outbox;
        }
        ids.push(id);
    }
    assert!(ids.iter().all(|&id| id == ids[0]), "ports of shards are added together");
    ids[0]
}

/// Remove a port from all shards; `false` if it is not there.
pub fn remove_port(stacks: &mut [&mut Stack], id: PortId) -> bool {
    let mut is_there = false;
    for stack in stacks {
        if let Some(outbox) = stack.ports.get(id.0).and_then(|port| port.outbox.as_ref()) {
            outbox.count_drops(&mut stack.core.drops);
        }
        is_there |= stack.remove_port(id).is_some();
    }
    is_there
}

/// [`Stack::replace_port`] of all shards, with a device for each.
///
/// # Errors
/// The reason why not. All shards then keep the devices that they had.
///
/// # Panics
/// Those of [`add_port`].
pub fn replace_port(
    stacks: &mut [&mut Stack],
    id: PortId,
    devices: Vec<Box<dyn Device>>,
) -> Result<(), ReplaceError> {
    for (stack, device) in stacks.iter().zip(&devices) {
        stack.suits(id, &**device)?;
    }
    let queues = queues(stacks, devices);
    for (stack, (queue, outbox)) in stacks.iter_mut().zip(queues) {
        stack.replace_port(id, queue).map_err(|(why, _)| why)?;
        let Some(port) = stack.ports.get_mut(id.0) else { continue };
        if let Some(old) = core::mem::replace(&mut port.outbox, outbox) {
            old.count_drops(&mut stack.core.drops);
        }
    }
    Ok(())
}

/// A shard's queue of a device, and its rings to the other shards; for a stack alone, the device
/// itself.
type Queue = (Box<dyn Device>, Option<Arc<Outbox>>);

/// The queues of the shards, in their order.
fn queues(stacks: &[&mut Stack], devices: Vec<Box<dyn Device>>) -> Vec<Queue> {
    assert_eq!(devices.len(), stacks.len(), "each shard needs its own queue of the device");
    let Some(first) = stacks.first() else { panic!("a host has at least one shard") };
    let Some(membership) = &first.membership else {
        assert_eq!(stacks.len(), 1, "the stacks are of one group");
        return devices.into_iter().map(|device| (device, None)).collect();
    };
    let steering = membership.steering;
    assert_eq!(steering.count(), stacks.len(), "a port is of all shards of a group");
    let joined = join(devices, steering).into_iter();
    joined.map(|(queue, outbox)| (queue, Some(outbox))).collect()
}
