//! The state that the ports of a trunk share: the device, a queue per port, the wakers, and which
//! ports were pushed back.
//!
//! Called by: `port`, `splitter`, under the trunk's lock. Counters: frames of an unknown
//! VLAN, frames that end in the tag, frames for a port whose queue is full.

use core::task::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use base::{DropReason, Drops};
use mbuf::{Mbuf, Pool};

use super::tag::{self, Found, Tag};
use crate::{Burst, Device};

/// Maximum frames in a port's queue: the default `txqueuelen` of Linux.
pub(super) const QUEUE: usize = 1000;

/// The port of each VLAN, by VLAN identifier.
type Members = [Option<u16>; tag::ID_MASK as usize + 1];

/// The trunk's state of a port.
#[derive(Default)]
struct Member {
    /// The port's tag; `None` if the port gets the frames without a tag.
    tag: Option<Tag>,
    /// Frames as they came, tags included.
    waiting: VecDeque<Mbuf>,
    /// Was the port's last burst pushed back, in whole or in part?
    owed: bool,
    closed: bool,
}

impl Member {
    fn of(tag: Option<Tag>) -> Member {
        Member { tag, ..Member::default() }
    }
}

/// The device and the ports that get its frames.
pub(super) struct Trunk {
    pub(super) device: Box<dyn Device>,
    protocol: u16,
    members: Box<Members>,
    untagged: Option<u16>,
    ports: Vec<Member>,
    /// Was the last burst, of any port, pushed back? The device remembers only that burst, and will
    /// report room for it.
    remembers: bool,
    /// The drops that belong to no port, and their number.
    drops: Drops,
    counted: u64,
}

pub(super) fn locked(trunk: &Mutex<Trunk>) -> MutexGuard<'_, Trunk> {
    trunk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The wakers of a trunk's ports: a wake-up from the device wakes all of them.
#[derive(Default)]
pub(super) struct Sleepers(Mutex<Vec<Option<Waker>>>);

impl Sleepers {
    fn with<R>(&self, what: impl FnOnce(&mut Vec<Option<Waker>>) -> R) -> R {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set(&self, port: usize, waker: Option<Waker>) {
        let old = self.with(|all| {
            if all.len() <= port {
                all.resize(port + 1, None);
            }
            core::mem::replace(&mut all[port], waker)
        });
        // Dropping the last reference may run any code, so do it without the lock.
        drop(old);
    }

    /// Wake one port, once.
    pub(super) fn wake_one(&self, port: usize) {
        if let Some(waker) = self.with(|all| all.get_mut(port).and_then(Option::take)) {
            waker.wake();
        }
    }
}

impl Wake for Sleepers {
    fn wake(self: Arc<Self>) {
        let all: Vec<Waker> = self.with(|all| all.iter_mut().filter_map(Option::take).collect());
        all.into_iter().for_each(Waker::wake);
    }
}

impl Trunk {
    /// `ids` are the VLANs of the ports, in order; `None` means frames without a tag.
    pub(super) fn new(device: Box<dyn Device>, protocol: u16, ids: &[Option<u16>]) -> Trunk {
        let mut members: Box<Members> = Box::new([None; tag::ID_MASK as usize + 1]);
        let mut untagged = None;
        for (port, id) in ids.iter().enumerate() {
            let slot = id.map_or(Some(&mut untagged), |id| members.get_mut(usize::from(id)));
            slot.into_iter().for_each(|slot| *slot = Some(port as u16));
        }
        let member = |id: &Option<u16>| Member::of(id.map(|id| Tag::new(protocol, id)));
        let ports = ids.iter().map(member).collect();
        let drops = Drops::default();
        Trunk { device, protocol, members, untagged, ports, remembers: false, drops, counted: 0 }
    }

    /// Add a port for VLAN `id`; it replaces the port that has the VLAN. The place of a closed port
    /// is used again, but not that of the first port, which reports the trunk's drops.
    pub(super) fn add(&mut self, id: u16) -> usize {
        let closed = (1..self.ports.len()).find(|&port| self.ports[port].closed);
        let port = closed.unwrap_or(self.ports.len());
        if port == self.ports.len() {
            self.ports.push(Member::default());
        }
        self.ports[port] = Member::of(Some(Tag::new(self.protocol, id)));
        for member in self.members.iter_mut().filter(|member| **member == Some(port as u16)) {
            *member = None;
        }
        if let Some(member) = self.members.get_mut(usize::from(id)) {
            *member = Some(port as u16);
        }
        port
    }

    /// Frames that wait for a port.
    pub(super) fn waiting(&self, port: usize) -> usize {
        self.ports.get(port).map_or(0, |member| member.waiting.len())
    }

    /// Move the frames that wait for a port into `into`, as many as fit.
    #[inline]
    pub(super) fn take_queued(&mut self, port: usize, into: &mut Burst) {
        let Some(member) = self.ports.get_mut(port) else { return };
        while !into.is_full()
            && let Some(frame) = member.waiting.pop_front()
        {
            into.push(frame);
        }
    }

    /// Receive a burst from the device and distribute it. The frames of `port` stay in `into`, with
    /// their tags; its queue has to be empty. Returns the other ports that have frames now and
    /// whose queue was empty before.
    #[inline]
    pub(super) fn fetch(&mut self, port: usize, pool: &mut Pool, into: &mut Burst) -> Vec<usize> {
        let begin = into.len();
        self.device.rx_burst(pool, into);
        let frames = into.get(begin..).unwrap_or_default();
        let first_other = match self.tag_of(port) {
            Some(tag) => frames.iter().position(|frame| !tag.is_in(frame)),
            None => frames.iter().position(|frame| self.whose(frame) != Ok(port)),
        };
        match first_other {
            Some(at) => self.distribute(port, begin + at, pool, into),
            None => Vec::new(),
        }
    }

    /// The tag of a port; `None` if another port gets the frames of its VLAN now.
    #[inline(always)]
    fn tag_of(&self, port: usize) -> Option<Tag> {
        let member = self.ports.get(port)?;
        let tag = member.tag?;
        let has = *self.members.get(usize::from(tag.id()))? == Some(port as u16);
        (has && !member.closed).then_some(tag)
    }

    /// Distribute the frames from position `at` on, some of which are not for `port`. For
    /// consecutive frames of one VLAN the port is looked up once.
    #[inline(never)]
    fn distribute(
        &mut self,
        port: usize,
        at: usize,
        pool: &mut Pool,
        into: &mut Burst,
    ) -> Vec<usize> {
        let (rest, mut news) = (into.drain(at..).collect::<Burst>(), Vec::new());
        let mut last: Option<(Tag, usize)> = None;
        for mut frame in rest {
            let known = last.filter(|(tag, _)| tag.is_in(&frame)).map(|(_, to)| to);
            if known.is_none() {
                let protocols = [super::TAG, super::SERVICE_TAG, self.protocol];
                tag::strip_priority_of(&mut frame, &protocols, pool);
            }
            let to = known.map_or_else(|| self.whose(&frame), Ok);
            match to {
                Ok(to) if to == port => into.push(frame),
                Ok(to) => self.enqueue(to, frame, pool, &mut news),
                Err(reason) => {
                    self.count(reason);
                    pool.free(frame);
                }
            }
            if known.is_none() {
                last = to.ok().and_then(|to| self.tag_of(to).map(|tag| (tag, to)));
            }
        }
        news
    }

    fn count(&mut self, reason: DropReason) {
        self.drops.count(reason);
        self.counted += 1;
    }

    /// Queue a frame for another port. If it is the first frame in that port's queue, add the port
    /// to `news`, the ports to wake.
    fn enqueue(&mut self, to: usize, frame: Mbuf, pool: &mut Pool, news: &mut Vec<usize>) {
        let Some(member) = self.ports.get_mut(to) else { return };
        if member.waiting.len() >= QUEUE {
            self.count(DropReason::DeviceRingFull);
            return pool.free(frame);
        }
        if member.waiting.is_empty() {
            news.push(to);
        }
        member.waiting.push_back(frame);
    }

    /// Note that a burst of a port was offered to the device; `all` tells whether the device took
    /// all of it. Returns the ports to wake, because the device has forgotten that they wait for
    /// room.
    pub(super) fn offered(&mut self, port: usize, all: bool) -> Vec<usize> {
        if let Some(member) = self.ports.get_mut(port) {
            member.owed = !all;
        }
        let remembered = core::mem::replace(&mut self.remembers, !all);
        if all && remembered { self.owed_beside(port) } else { Vec::new() }
    }

    /// Was this port pushed back, and has the device forgotten it?
    pub(super) fn is_forgotten(&self, port: usize) -> bool {
        !self.remembers && self.ports.get(port).is_some_and(|member| member.owed)
    }

    /// The ports, other than `port`, that were pushed back and that may have room now.
    pub(super) fn have_room(&self, port: usize) -> Vec<usize> {
        let owed = self.owed_beside(port);
        if owed.is_empty() || self.device.tx_ready() { owed } else { Vec::new() }
    }

    fn owed_beside(&self, port: usize) -> Vec<usize> {
        let all = self.ports.iter().enumerate();
        all.filter(|(number, member)| member.owed && *number != port).map(|(n, _)| n).collect()
    }

    /// The port of a frame. A frame with a priority tag has no port until that tag is removed.
    #[inline(always)]
    fn whose(&self, frame: &Mbuf) -> Result<usize, DropReason> {
        let to = match tag::find(frame.as_slice(), self.protocol) {
            Found::Cut => return Err(DropReason::EtherShort),
            Found::Untagged => self.untagged,
            Found::Tag(control) => {
                self.members.get(usize::from(control & tag::ID_MASK)).copied().flatten()
            }
        };
        let to = to.map(usize::from).ok_or(DropReason::VlanUnknown)?;
        let open = self.ports.get(to).is_some_and(|member| !member.closed);
        if open { Ok(to) } else { Err(DropReason::VlanUnknown) }
    }

    /// A port was dropped: discard the frames that wait for it.
    pub(super) fn close(&mut self, port: usize) {
        if let Some(member) = self.ports.get_mut(port) {
            member.closed = true;
            member.owed = false;
            member.waiting.clear();
        }
    }

    /// A number that grows with the trunk's drops; `None` if the device counts drops too, which may
    /// grow at any time.
    pub(super) fn counted(&self) -> Option<u64> {
        self.device.drops().is_none().then_some(self.counted)
    }

    /// Drops that belong to no port: the trunk's and the device's.
    pub(super) fn drops(&self) -> Drops {
        let mut all = self.drops.clone();
        self.device.drops().into_iter().for_each(|of_device| all.include(of_device));
        all
    }
}
