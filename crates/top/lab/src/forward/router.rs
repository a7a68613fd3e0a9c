//! The router of a shape: one stack, or several shards.
//!
//! Called by: `forward.rs` and `outside.rs`.

use base::Limit;
use device::mem::Mem;
use device::{Device, vlan};
use stack::shard::Shard;
use stack::{PortConfig, PortId, Route, Stack, StackConfig};

use super::{MACS, Shape, VLANS, addr, network, prefix};

/// What forwards.
pub(super) enum Router {
    Stack(Stack),
    Shard(Shard),
}

fn config() -> StackConfig {
    let mut config = StackConfig::new([0x1812, 0x4632]);
    config.solicited_node_reports = false;
    config.budget.set(Limit::MbufBytes, 64 << 20);
    config
}

/// The port of a side.
fn port_config(side: usize) -> PortConfig {
    let addresses = [false, true].map(|v6| network(v6, 2 + side as u8)).to_vec();
    PortConfig { mac: MACS[1 + side], addresses }
}

/// A router with these two ports, and with a permanent neighbour at each.
pub(super) fn alone(ports: [Box<dyn Device>; 2], shape: Shape) -> Option<Stack> {
    let mut stack = Stack::new(config());
    for (side, device) in ports.into_iter().enumerate() {
        stack.add_port(port_of(device, shape, VLANS[side])?, port_config(side));
    }
    furnish(&mut stack, shape);
    Some(stack)
}

/// The same router as shards; each side has a queue for each.
pub(super) fn shards(queues: [Vec<Mem>; 2], shape: Shape) -> Option<Vec<Shard>> {
    let count = queues[0].len();
    let mut shards = Shard::group(&config(), count);
    for (side, queues) in queues.into_iter().enumerate() {
        let port = |device| port_of(Box::new(device), shape, VLANS[side]);
        let devices = queues.into_iter().map(port).collect::<Option<Vec<_>>>()?;
        Shard::add_port(&mut shards, devices, &port_config(side));
    }
    furnish(&mut shards.first_mut()?.enter(), shape);
    Some(shards)
}

/// Neighbours and routes.
fn furnish(stack: &mut Stack, shape: Shape) {
    let sink = addr(shape.v6, 3, 9);
    stack.add_neighbour(PortId(0), addr(shape.v6, 2, 9), MACS[0]);
    stack.add_neighbour(PortId(1), sink, MACS[3]);
    for n in 0..shape.routes {
        stack.add_route(Route::new(prefix(shape.v6, n), Some(sink), 1));
    }
    stack.set_forwarding(true);
}

fn port_of(device: Box<dyn Device>, shape: Shape, id: u16) -> Option<Box<dyn Device>> {
    if !shape.tagged {
        return Some(device);
    }
    let mut ports = vlan::split(device, vlan::TAG, &[vlan::Id::Vlan(id)]).ok()?;
    ports.pop().map(|port| Box::new(port) as Box<dyn Device>)
}
