//! Ports come and go: their devices are opened, counted, and split where they have VLANs.
//!
//! Called by: `live.rs`.

use device::counted::Counted;
use device::{Device, vlan};
use stack::route::SourceCheck;
use stack::{PortConfig, PortId, shard};

use super::{Live, LivePort, Opened, Stacks, first};
use crate::config::{Config, Link, Port};

impl Live {
    /// The queues of a port, counted, and split if it has VLANs.
    pub(super) fn open(
        &self,
        name: &str,
        port: &Port,
        wanted: &Config,
        open: &mut impl FnMut(&str, &Port) -> Result<Opened, String>,
    ) -> Result<(Vec<Box<dyn Device>>, LivePort), String> {
        let (mut queues, mut splitters): (Vec<Box<dyn Device>>, _) = (Vec::new(), Vec::new());
        let mac = match &port.link {
            Link::Device(_) => {
                let opened = open(name, port)?;
                for queue in opened.queues {
                    if wanted.is_trunk(name) {
                        let split = vlan::Splitter::new(queue, vlan::TAG);
                        let (splitter, port) = split.map_err(|why| why.to_string())?;
                        splitters.push(splitter);
                        queues.push(Box::new(port));
                    } else {
                        queues.push(queue);
                    }
                }
                opened.mac
            }
            Link::Vlan { parent, id } => {
                let parent = self.port(parent)?;
                if parent.splitters.is_empty() {
                    return Err("its parent has no VLANs yet".to_owned());
                }
                for splitter in &parent.splitters {
                    let port = splitter.port(*id, port.mtu).map_err(|why| why.to_string())?;
                    queues.push(Box::new(port));
                }
                parent.mac
            }
        };
        let mut counts = Vec::new();
        let counted = queues.into_iter().map(|queue| {
            let (queue, of_queue) = Counted::new(queue);
            counts.push(of_queue);
            Box::new(queue) as Box<dyn Device>
        });
        let queues = counted.collect();
        let mac = port.mac.unwrap_or(mac);
        Ok((queues, LivePort { id: PortId(0), counts, mac, splitters, dhcp: None }))
    }

    pub(super) fn add_port(
        &mut self,
        stacks: Stacks<'_, '_>,
        name: &str,
        (queues, mut live): (Vec<Box<dyn Device>>, LivePort),
    ) {
        let config = PortConfig { mac: live.mac, addresses: Vec::new() };
        live.id = shard::add_port(stacks, queues, &config);
        for stack in stacks {
            // Names of ports are unique in a configuration.
            stack.set_port_name(live.id, name);
        }
        self.ports.insert(name.to_owned(), live);
    }

    /// Each shard checks what its queue brings.
    pub(super) fn set_source_check(
        &self,
        stacks: Stacks<'_, '_>,
        name: &str,
        to: SourceCheck,
    ) -> Result<(), String> {
        let id = self.ports.get(name).ok_or("the port is not there")?.id;
        stacks.iter_mut().for_each(|stack| _ = stack.set_source_check(id, to));
        Ok(())
    }

    pub(super) fn remove_port(&mut self, stacks: Stacks<'_, '_>, name: &str) {
        let Some(live) = self.ports.remove(name) else { return };
        if let Some(client) = live.dhcp {
            let stack = first(stacks);
            client.stop(stack, stack.now());
            stack.flush();
        }
        shard::remove_port(stacks, live.id);
    }
}
