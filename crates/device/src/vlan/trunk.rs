//! What the ports of a trunk share: the device, a queue for each, who sleeps, who is owed room.
//!
//! Called by: `vlan.rs`, under the trunk's lock. Counters: frames of an unknown VLAN, cut in the
//! tag, or for a port that does not empty its queue.

use core::task::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use base::{DropReason, Drops};
use mbuf::{Flags, Mbuf, Pool};

use super::tag::{self, Found};
use crate::{Burst, Device};

/// Most frames that wait for a port, as many as an interface of Linux has in its queue.
pub(super) const QUEUE: usize = 1000;

/// Who belongs to a VLAN, by its identifier.
type Members = [Option<u16>; tag::ID_MASK as usize + 1];

/// A port as the trunk sees it.
#[derive(Default)]
struct Member {
    waiting: VecDeque<Mbuf>,
    /// Its last burst was pushed back, in part or whole.
    owed: bool,
    closed: bool,
}

/// The device and who gets its frames.
pub(super) struct Trunk {
    pub(super) device: Box<dyn Device>,
    protocol: u16,
    members: Box<Members>,
    untagged: Option<u16>,
    ports: Vec<Member>,
    /// The last burst, whosesoever, was pushed back: the device remembers it and tells of room. It
    /// remembers no burst before the last.
    remembers: bool,
    /// What belongs to no port.
    drops: Drops,
}

/// The sleepers at a trunk's ports: when its device has news all of them look.
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
        // Without the lock: its last reference may run any code.
        drop(old);
    }

    /// Wake one of them, once.
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
    /// `ids` are the VLANs of the ports, in order; `None` is untagged.
    pub(super) fn new(device: Box<dyn Device>, protocol: u16, ids: &[Option<u16>]) -> Trunk {
        let mut members: Box<Members> = Box::new([None; tag::ID_MASK as usize + 1]);
        let mut untagged = None;
        for (port, id) in ids.iter().enumerate() {
            let slot = id.map_or(Some(&mut untagged), |id| members.get_mut(usize::from(id)));
            slot.into_iter().for_each(|slot| *slot = Some(port as u16));
        }
        let ports = ids.iter().map(|_| Member::default()).collect();
        let drops = Drops::default();
        Trunk { device, protocol, members, untagged, ports, remembers: false, drops }
    }

    /// Frames that wait for a port.
    pub(super) fn waiting(&self, port: usize) -> usize {
        self.ports.get(port).map_or(0, |member| member.waiting.len())
    }

    /// The next frame that waits for a port.
    pub(super) fn next(&mut self, port: usize) -> Option<Mbuf> {
        self.ports.get_mut(port)?.waiting.pop_front()
    }

    /// Take a burst from the device and hand it out; the ports other than `port` that got frames
    /// and had none.
    pub(super) fn fetch(&mut self, port: usize, pool: &mut Pool) -> Vec<usize> {
        let (mut burst, mut news) = (Burst::new(), Vec::new());
        self.device.rx_burst(pool, &mut burst);
        for mut frame in burst {
            match self.whose(&mut frame) {
                Ok(to) => {
                    let Some(member) = self.ports.get_mut(to) else { continue };
                    if member.waiting.len() >= QUEUE {
                        self.drops.count(DropReason::DeviceRingFull);
                        pool.free(frame);
                        continue;
                    }
                    if member.waiting.is_empty() && to != port {
                        news.push(to);
                    }
                    member.waiting.push_back(frame);
                }
                Err(reason) => {
                    self.drops.count(reason);
                    pool.free(frame);
                }
            }
        }
        news
    }

    /// A burst of a port was offered to the device, and all of it went, or not. Returns the ports
    /// that are to try again: the device has forgotten that it owes them room.
    pub(super) fn offered(&mut self, port: usize, all: bool) -> Vec<usize> {
        if let Some(member) = self.ports.get_mut(port) {
            member.owed = !all;
        }
        let remembered = core::mem::replace(&mut self.remembers, !all);
        if all && remembered { self.owed_beside(port) } else { Vec::new() }
    }

    /// Was a port pushed back, and its device has forgotten that?
    pub(super) fn is_forgotten(&self, port: usize) -> bool {
        !self.remembers && self.ports.get(port).is_some_and(|member| member.owed)
    }

    /// The ports other than `port` that were pushed back and that may have room now.
    pub(super) fn have_room(&self, port: usize) -> Vec<usize> {
        let owed = self.owed_beside(port);
        if owed.is_empty() || self.device.tx_ready() { owed } else { Vec::new() }
    }

    fn owed_beside(&self, port: usize) -> Vec<usize> {
        let all = self.ports.iter().enumerate();
        all.filter(|(number, member)| member.owed && *number != port).map(|(n, _)| n).collect()
    }

    /// Which port a frame is for, whose tag goes; a tag with no VLAN but a priority is as none.
    fn whose(&self, frame: &mut Mbuf) -> Result<usize, DropReason> {
        let to = match tag::find(frame.as_slice(), self.protocol) {
            Found::Cut => return Err(DropReason::EtherShort),
            Found::Untagged => self.untagged,
            Found::Tag(control) => {
                let to = match control & tag::ID_MASK {
                    0 => self.untagged,
                    id => self.members.get(usize::from(id)).copied().flatten(),
                };
                if to.is_some() {
                    tag::pop(frame);
                    frame.set(Flags::VLAN);
                    frame.set_vlan(control);
                }
                to
            }
        };
        let to = to.map(usize::from).ok_or(DropReason::VlanUnknown)?;
        let open = self.ports.get(to).is_some_and(|member| !member.closed);
        if open { Ok(to) } else { Err(DropReason::VlanUnknown) }
    }

    /// A port is gone: discard its frames.
    pub(super) fn close(&mut self, port: usize) {
        if let Some(member) = self.ports.get_mut(port) {
            member.closed = true;
            member.owed = false;
            member.waiting.clear();
        }
    }

    /// What was lost that belongs to no port: here, and in the device.
    pub(super) fn drops(&self) -> Drops {
        let mut all = self.drops.clone();
        self.device.drops().into_iter().for_each(|of_device| all.include(of_device));
        all
    }
}
