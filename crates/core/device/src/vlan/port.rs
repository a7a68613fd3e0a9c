//! A port of a trunk: a device that carries the frames of one VLAN.
//!
//! Called by: the stack that uses the port; `vlan.rs` makes it. Counters: the port's own drops;
//! those of the first port include the trunk's.

use core::task::Waker;
use std::sync::{Arc, Mutex};

use base::{Drops, Instant};
use mbuf::{Flags, Mbuf, Pool};

use super::VlanError;
use super::tag::{self, Id, Tag, Tags};
use super::trunk::{Sleepers, Trunk, locked};
use crate::{Burst, Device, Limits};

/// How many bursts pass between two reads of the trunk's state and drops. An empty burst reads them
/// too.
const LOOK: u32 = 64;

/// How many different descriptors a device may have over time.
#[cfg(unix)]
const DESCRIPTORS: usize = 4;

/// One port of a trunk.
pub struct Port {
    pub(super) trunk: Arc<Mutex<Trunk>>,
    pub(super) sleepers: Arc<Sleepers>,
    number: usize,
    id: Id,
    protocol: u16,
    /// The tag that frames may keep.
    own_tag: Option<Tag>,
    limits: Limits,
    /// This port's own drops; and the drops that are shown, which for the first port include the
    /// trunk's.
    own: Drops,
    own_counted: u64,
    shown: Drops,
    /// The count of the drops in `shown`, if the trunk knows its own count.
    counted: Option<u64>,
    since_look: u32,
    failure: Option<VlanError>,
    /// Duplicates of the device's descriptors, each with the number of the original.
    #[cfg(unix)]
    descriptors: [std::sync::OnceLock<(i32, std::os::fd::OwnedFd)>; DESCRIPTORS],
}

impl Port {
    pub(super) fn new(
        trunk: Arc<Mutex<Trunk>>,
        sleepers: Arc<Sleepers>,
        (number, id): (usize, Id),
        protocol: u16,
        limits: Limits,
    ) -> Port {
        let own_tag = match id {
            // If there is a tag around this one, the priority in the mbuf is that of the outer tag.
            Id::Vlan(id) if locked(&trunk).device.tags().is_empty() => Some(Tag::new(protocol, id)),
            _ => None,
        };
        Port {
            trunk,
            sleepers,
            number,
            id,
            protocol,
            own_tag,
            limits,
            own: Drops::default(),
            own_counted: 0,
            shown: Drops::default(),
            counted: None,
            since_look: 0,
            failure: None,
            #[cfg(unix)]
            descriptors: [const { std::sync::OnceLock::new() }; DESCRIPTORS],
        }
    }

    /// Which frames belong to this port.
    pub fn id(&self) -> Id {
        self.id
    }

    /// The TCI of a frame to send, with the frame's priority if it has one; `None` if untagged.
    fn control(&self, frame: &Mbuf) -> Option<u16> {
        let Id::Vlan(id) = self.id else { return None };
        let priority = if frame.has(Flags::VLAN) { frame.vlan() & !tag::ID_MASK } else { 0 };
        Some(priority | id)
    }

    /// Insert the tag into each frame from position `at` on. Frames into which it cannot be
    /// inserted are freed and counted.
    #[inline]
    fn insert_tags(&mut self, pool: &mut Pool, frames: &mut Burst, mut at: usize) {
        while let Some(frame) = frames.get_mut(at) {
            let Some(control) = self.control(frame) else { return };
            match tag::push(frame, self.protocol, control, pool) {
                Ok(()) => at += 1,
                Err(reason) => {
                    self.own.count(reason);
                    self.own_counted += 1;
                    pool.free(frames.remove(at));
                }
            }
        }
    }

    /// Receive the port's frames with their tags, and wake other ports for which there are frames
    /// now.
    #[inline]
    fn receive(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let before = into.len();
        let mut trunk = locked(&self.trunk);
        // First take the queued frames. Fetch more only if there is still room.
        trunk.take_queued(self.number, into);
        let mut news = Vec::new();
        if !into.is_full() {
            news = trunk.fetch(self.number, pool, into);
        }
        drop(trunk);
        news.into_iter().for_each(|port| self.sleepers.wake_one(port));
        self.since_look += 1;
        if into.len() == before || self.since_look >= LOOK {
            self.look();
        }
        into.len() - before
    }

    /// Send a burst of which the first `tagged` frames have the port's tag; afterwards `tagged` is
    /// the number of those that stay.
    #[inline]
    fn send(&mut self, pool: &mut Pool, from: &mut Burst, tagged: &mut usize) -> usize {
        let before = from.len();
        self.insert_tags(pool, from, *tagged);
        let offered = from.len();
        let mut trunk = locked(&self.trunk);
        trunk.device.tx_burst(pool, from);
        let up = trunk.device.link_up();
        let others = trunk.offered(self.number, from.is_empty());
        drop(trunk);
        others.into_iter().for_each(|port| self.sleepers.wake_one(port));
        *tagged = tagged.saturating_sub(offered - from.len());
        // Frames that were pushed back are returned to the form in which they were offered.
        if self.id != Id::Untagged {
            from.iter_mut().skip(*tagged).for_each(tag::pop);
        }
        if up != self.failure.is_none() {
            self.look();
        }
        before - from.len()
    }

    /// Copy the trunk's failure and drops, because callers cannot borrow them from behind the lock.
    fn look(&mut self) {
        self.since_look = 0;
        let trunk = locked(&self.trunk);
        let down = || {
            let why = trunk.device.failure().map(ToString::to_string);
            VlanError::Down(why.unwrap_or_else(|| "its link is down".to_owned()))
        };
        self.failure = (!trunk.device.link_up()).then(down);
        let counted = trunk.counted().map(|of_trunk| of_trunk + self.own_counted);
        if self.number == 0 && (counted.is_none() || counted != self.counted) {
            self.counted = counted;
            self.shown = trunk.drops();
            self.shown.include(&self.own);
        }
    }
}

impl Device for Port {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let before = into.len();
        let count = self.receive(pool, into);
        if self.id != Id::Untagged {
            into.iter_mut().skip(before).for_each(tag::strip);
        }
        count
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        self.send(pool, from, &mut 0)
    }

    fn own_tag(&self) -> Option<Tag> {
        self.own_tag
    }

    fn rx_burst_tagged(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        match self.own_tag {
            Some(_) => self.receive(pool, into),
            None => self.rx_burst(pool, into),
        }
    }

    fn tx_burst_tagged(&mut self, pool: &mut Pool, from: &mut Burst, tagged: &mut usize) -> usize {
        self.send(pool, from, tagged)
    }

    fn rx_ready(&self) -> bool {
        let trunk = locked(&self.trunk);
        trunk.waiting(self.number) > 0 || trunk.device.rx_ready()
    }

    /// Also true if the device has forgotten that this port waits for room: the burst is then to be
    /// offered again.
    fn tx_ready(&self) -> bool {
        let trunk = locked(&self.trunk);
        trunk.is_forgotten(self.number) || trunk.device.tx_ready()
    }

    fn link_up(&self) -> bool {
        locked(&self.trunk).device.link_up()
    }

    /// The port of untagged frames asks the device; the other ports use its answer.
    fn check_link(&mut self) -> bool {
        let mut trunk = locked(&self.trunk);
        let device = &mut trunk.device;
        let up = if self.number == 0 { device.check_link() } else { device.link_up() };
        drop(trunk);
        if up != self.failure.is_none() {
            self.look();
        }
        up
    }

    /// True once the device is gone and this port's queue is empty.
    fn is_gone(&self) -> bool {
        let trunk = locked(&self.trunk);
        trunk.waiting(self.number) == 0 && trunk.device.is_gone()
    }

    fn is_unfinished(&self) -> bool {
        locked(&self.trunk).device.is_unfinished()
    }

    /// A duplicate of the device's descriptor, which cannot be borrowed from behind the lock.
    #[cfg(unix)]
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::{AsFd, AsRawFd};
        let trunk = locked(&self.trunk);
        let fd = trunk.device.as_fd()?;
        for slot in &self.descriptors {
            if slot.get().is_none() {
                let copy = fd.try_clone_to_owned().ok()?;
                // We hold the lock, so nobody else sets it.
                let _ = slot.set((fd.as_raw_fd(), copy));
            }
            if let Some((number, copy)) = slot.get()
                && *number == fd.as_raw_fd()
            {
                return Some(copy.as_fd());
            }
        }
        None
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.failure.as_ref().map(|e| e as _)
    }

    /// The device's tags, then this port's.
    fn tags(&self) -> Tags {
        let tags = locked(&self.trunk).device.tags();
        match self.id {
            Id::Untagged => tags,
            Id::Vlan(id) => tags.and(self.protocol, id),
        }
    }

    /// The device's depth: this port's own queue is longer.
    fn rx_depth(&self) -> usize {
        locked(&self.trunk).device.rx_depth()
    }

    fn drops(&self) -> Option<&Drops> {
        Some(if self.number == 0 { &self.shown } else { &self.own })
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        // Set the waker first, then look, so that a frame which arrives in between wakes it.
        self.sleepers.set(self.number, Some(waker.clone()));
        let mut trunk = locked(&self.trunk);
        if trunk.waiting(self.number) > 0 || trunk.is_forgotten(self.number) {
            return false;
        }
        let armed = trunk.device.arm(&Waker::from(self.sleepers.clone()));
        // The device may have room now, which it does not report a second time.
        let others = if armed { Vec::new() } else { trunk.have_room(self.number) };
        drop(trunk);
        others.into_iter().for_each(|port| self.sleepers.wake_one(port));
        armed
    }

    fn wakes_at(&self) -> Instant {
        locked(&self.trunk).device.wakes_at()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.sleepers.set(self.number, None);
        locked(&self.trunk).close(self.number);
    }
}
