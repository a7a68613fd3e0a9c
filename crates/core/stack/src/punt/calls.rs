//! The calls of programs that give ports mirrors and take punted packets.
//!
//! Called by: programs. Each stack has a queue of its own: of several shards each is set and read
//! by itself.

use base::LinkKind;

use super::{PuntConfig, Punted};
use crate::handles::PortId;
use crate::port::LOOPBACK;
use crate::shard::Home;
use crate::stack::Stack;

impl Stack {
    /// Punt what comes by a port for the router and has no socket of ours, because the port has a
    /// mirror now, or stop that: it is refused again, as by a host without mirrors. Frames that
    /// wait for a mirror that is gone are dropped (`punt_no_mirror`).
    ///
    /// Punted are: segments that would get a RST, datagrams and other packets that would get an
    /// unreachable error; ICMP errors and echo replies about packets that we have not sent; packets
    /// to groups of the link (224.0.0.0/24, `ff02::/16`) that no socket takes, except for neighbour
    /// discovery; broadcasts to the ports of RIP, BFD and DHCP servers. IGMP, MLD, router
    /// solicitations and advertisements are copied, and processed by the stack as well. Packets of
    /// ours to ourselves are not punted.
    pub fn set_punt(&mut self, port: PortId, on: bool) {
        if on && port.0 != LOOPBACK && self.ports.get(port.0).is_some() {
            self.punt.get_or_insert_default().ports.insert(port.0);
        } else if let Some(punt) = &mut self.punt
            && punt.ports.remove(&port.0)
        {
            punt.queue.forget(port, &mut self.core);
        }
    }

    /// Is what comes by a port for programs punted? A port that is removed loses it, also for a
    /// later one of the same number.
    pub fn punts(&self, port: PortId) -> bool {
        self.punt.as_ref().is_some_and(|punt| punt.is_of(port.0))
    }

    /// Set what is punted besides, and how much.
    pub fn set_punt_config(&mut self, config: PuntConfig) {
        self.punt.get_or_insert_default().config = config;
    }

    /// Take a punted frame: the oldest of a routing protocol, or else the oldest.
    pub fn punted(&mut self) -> Option<Punted> {
        self.punt.as_mut()?.queue.pop()
    }

    /// Does a punted frame wait?
    #[inline]
    pub fn has_punted(&self) -> bool {
        self.punt.as_ref().is_some_and(|punt| punt.queue.len() > 0)
    }

    /// The shard whose stack is to send a frame that a program wrote to a mirror: the filter of
    /// that one sees the answers. 0 if there is one stack.
    pub fn shard_of_mirrored(&self, link: LinkKind, frame: &[u8]) -> usize {
        match self.steering().home(link, frame) {
            Home::Shard(shard) => shard,
            Home::All => 0,
        }
    }
}
