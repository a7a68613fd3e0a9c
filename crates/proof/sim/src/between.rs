//! Nodes between hosts. A hub passes frames on. A router forwards a packet, answers it with an ICMP
//! error, or drops it.
//!
//! Called by: `events`, for each frame that reaches a hub or a router.

use mbuf::Mbuf;
use wire::ether;

use crate::router::Onward;
use crate::seen;
use crate::world::World;

impl World {
    /// A hub passes a unicast frame to the port at which its destination address is, and copies a
    /// broadcast or multicast frame to every port except the one by which it came. If no port has
    /// the address, the frame is dropped.
    pub(crate) fn forward(&mut self, hub: usize, came_by: usize, frame: Mbuf) {
        let to = ether::Header::parse(frame.as_slice()).map(|header| header.dst);
        let mut takers = [0; 8];
        let mut count = 0;
        for port in self.hubs[hub].iter().filter(|port| port.from != came_by) {
            if to.is_ok_and(|to| to.is_group() || to == port.mac) && count < takers.len() {
                takers[count] = port.to;
                count += 1;
            }
        }
        for (index, &lane) in takers[..count].iter().enumerate() {
            let is_last = index + 1 == count;
            let copy = if is_last { None } else { self.pool.copy_of(frame.as_slice()) };
            if let Some(mut copy) = copy {
                copy.set_mark(frame.mark());
                self.enter(lane, copy);
            }
        }
        match takers[..count].last() {
            Some(&lane) => self.enter(lane, frame),
            None => self.pool.free(frame),
        }
    }

    /// A router handles a packet that it received from network `by`.
    pub(crate) fn route(&mut self, router: usize, by: u8, lane: usize, frame: Mbuf) {
        let onward = self.routers[router].take(frame.as_slice(), by, self.now);
        if let Some(trace) = &self.trace {
            let what = seen::describe(frame.as_slice(), self.lanes[lane].kind);
            let goes = match &onward {
                Some(onward) if onward.is_forwarded => "forwards",
                Some(_) => "answers with an ICMP error",
                None => "drops",
            };
            trace.row(&format!("router {router} {goes}: {what}"));
        }
        if let Some(Onward { out, packet, is_forwarded }) = onward
            && let Some(mut copy) = self.pool.copy_of(&packet)
        {
            copy.set_mark(if is_forwarded { frame.mark() } else { 0 });
            self.enter(out, copy);
        }
        self.pool.free(frame);
    }
}
