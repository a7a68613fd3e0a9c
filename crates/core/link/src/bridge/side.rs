//! The devices at one side of a bridge, whose frames share the direction to the other side.
//!
//! Called by: `Bridge`. Counters: [`super::Carried`].
//!
//! If a side has several devices, a frame goes to the device from which its destination was
//! learned, and to all of them if the destination is a group or unknown, as in a learning bridge
//! (IEEE 802.1D section 7.7). Frames are not forwarded between devices of the same side.

use device::{Burst, Device};
use mbuf::{Mbuf, Pool};
use wire::ether;

use crate::stations::Stations;

/// A device, and the packets that wait for it.
struct End {
    device: Box<dyn Device>,
    arrived: Burst,
}

/// One side of a bridge.
pub(super) struct Side {
    ends: Vec<End>,
    stations: Stations,
    /// The device from which the next call of `take_in` receives first.
    first: usize,
}

impl Side {
    pub(super) fn new(devices: Vec<Box<dyn Device>>) -> Side {
        let stations = Stations::new(devices.len());
        let end = |device| End { device, arrived: Burst::new() };
        Side { ends: devices.into_iter().map(end).collect(), stations, first: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn devices(&self) -> impl Iterator<Item = &dyn Device> {
        self.ends.iter().map(|end| end.device.as_ref())
    }

    pub(super) fn devices_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Device>> {
        self.ends.iter_mut().map(|end| &mut end.device)
    }

    /// The number of packets that have arrived and wait because their device had no room.
    pub(super) fn waiting(&self) -> usize {
        self.ends.iter().map(|end| end.arrived.len()).sum()
    }

    /// Did this device push packets back?
    pub(super) fn wants_room(&self, end: usize) -> bool {
        self.ends.get(end).is_some_and(|end| !end.arrived.is_empty())
    }

    /// Receive a burst from each device and pass it to `give`. Each call begins with another
    /// device, because when the link's queue is nearly full, the frames of the first device get the
    /// room.
    pub(super) fn take_in(
        &mut self,
        pool: &mut Pool,
        mut give: impl FnMut(&mut Burst, &mut Pool),
    ) -> usize {
        let (mut count, mut taken) = (0, Burst::new());
        let ends = self.ends.len();
        for step in 0..ends {
            let index = (self.first + step) % ends;
            count += self.ends[index].device.rx_burst(pool, &mut taken);
            if ends > 1 {
                taken.iter().for_each(|frame| self.learn(index, frame));
            }
            give(&mut taken, pool);
        }
        self.first = (self.first + 1) % ends.max(1);
        count
    }

    /// Is there room for one more packet, whichever device it goes to?
    pub(super) fn has_room(&self) -> bool {
        self.ends.iter().all(|end| !end.arrived.is_full())
    }

    /// Queue a packet that has arrived at this side for its device, or for all devices; there must
    /// be room.
    pub(super) fn arrive(&mut self, packet: Mbuf, pool: &mut Pool) {
        if let Some(only) = self.destination(&packet) {
            self.ends[only].arrived.push(packet);
            return;
        }
        for end in self.ends.iter_mut().skip(1) {
            if let Some(copy) = pool.copy_of(packet.as_slice()) {
                end.arrived.push(copy);
            }
        }
        match self.ends.first_mut() {
            Some(end) => end.arrived.push(packet),
            None => pool.free(packet),
        }
    }

    /// The device that a packet goes to; `None` means all.
    fn destination(&self, packet: &Mbuf) -> Option<usize> {
        if self.ends.len() == 1 {
            return Some(0);
        }
        let to = ether::Header::parse(packet.as_slice()).ok()?.dst;
        self.stations.device_to(to)
    }

    /// Send queued packets to the devices; returns the number of packets and bytes that the devices
    /// took.
    pub(super) fn hand_out(&mut self, pool: &mut Pool) -> (usize, u64) {
        let (mut packets, mut bytes) = (0, 0);
        let size = |burst: &Burst| burst.iter().map(|packet| packet.len() as u64).sum::<u64>();
        for end in self.ends.iter_mut().filter(|end| !end.arrived.is_empty()) {
            let before = size(&end.arrived);
            packets += end.device.tx_burst(pool, &mut end.arrived);
            bytes += before - size(&end.arrived);
        }
        (packets, bytes)
    }

    /// Record that the sender of a frame is reached by the device `from`, and by no other device.
    fn learn(&mut self, from: usize, frame: &Mbuf) {
        if let Ok(header) = ether::Header::parse(frame.as_slice()) {
            self.stations.learn(from, header.src);
        }
    }
}

#[cfg(test)]
mod tests;
