//! A learning switch that is a stack's device: several machines and the stack are stations of one
//! Ethernet.
//!
//! Called by: the stack, once per burst; programs that join machines, such as `wirespeed gateway
//! --switch`. Counters: [`Device::drops`]; each device counts its own drops. Source: IEEE 802.1D
//! sections 7.7, 7.8. There is no spanning tree: if two devices lead to the same network,
//! broadcasts circulate up to the limit below.
//!
//! A machine can neither use the stack's own address as a source, nor keep others waiting: a queue
//! in front of each device loses frames when it is full. Broadcasts, multicasts and frames to
//! unknown stations are copied to all others, so each device may send 4,000 of them a second.
//! Machines that share a switch trust each other: one can take another's address, as at any
//! cable.

mod end;
mod news;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::{DropReason, Drops, Instant, LinkKind, MacAddr};
use core::task::Waker;
use device::nic::Clock;
use device::{Burst, Device, Limits, Offloads};
use mbuf::{Mbuf, Pool};
use rustix::event::epoll;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::ether;

use self::end::{End, Flush};
pub use self::news::SwitchNews;
use crate::stations::{Learned, Stations};

/// Broadcasts, multicasts and frames to unknown stations that each device may send a second.
pub(crate) const FLOODS_PER_SECOND: u64 = 4_000;

/// A switch whose stack is a station at it.
pub struct Switch {
    ends: Vec<End>,
    stations: Stations,
    /// The stack's own address.
    own: MacAddr,
    clock: Clock,
    /// Frames for the stack that found no room in its burst.
    up: Burst,
    /// The device from which the next call receives first.
    first: usize,
    /// Waits for all devices; `None` if one has no descriptor.
    interest: Option<OwnedFd>,
    news: SwitchNews,
    drops: Drops,
}

impl Switch {
    /// Join these devices, which are Ethernet, and a stack whose port has the address `own`.
    /// `clock` is the stack's.
    ///
    /// # Errors
    /// The system has no epoll left for descriptors to wait on.
    pub fn new(
        devices: Vec<Box<dyn Device>>,
        own: MacAddr,
        clock: Clock,
    ) -> std::io::Result<Switch> {
        let have_descriptors = devices.iter().all(|device| device.as_fd().is_some());
        let interest =
            have_descriptors.then(|| epoll::create(epoll::CreateFlags::CLOEXEC)).transpose()?;
        let mut ends: Vec<End> = devices.into_iter().map(End::new).collect();
        if let Some(interest) = &interest {
            ends.iter_mut().try_for_each(|end| end.watch(interest))?;
        }
        Ok(Switch {
            stations: Stations::new(ends.len()),
            ends,
            own,
            clock,
            up: Burst::new(),
            first: 0,
            interest,
            news: SwitchNews::default(),
            drops: Drops::default(),
        })
    }

    /// What the switch finds out about its machines; it outlives the switch.
    pub fn news(&self) -> SwitchNews {
        self.news.clone()
    }

    /// Handle a frame from a device; returns it if it is for the stack.
    fn forward(&mut self, from: usize, frame: Mbuf, pool: &mut Pool, now: Instant) -> Option<Mbuf> {
        // The stack counts what is no frame.
        let Ok(header) = ether::Header::parse(frame.as_slice()) else { return Some(frame) };
        if header.src == self.own {
            return self.lose(frame, DropReason::NeighbourConflict, pool);
        }
        if let Learned::Moved(before) = self.stations.learn(from, header.src)
            && self.ends[before].device.link_up()
        {
            self.news.moved(header.src);
        }
        if header.dst == self.own {
            return Some(frame);
        }
        if header.dst.is_group() {
            if !self.ends[from].may_flood(now) {
                return self.lose(frame, DropReason::SwitchFlooded, pool);
            }
            self.flood(Some(from), &frame, pool);
            return Some(frame);
        }
        match self.stations.device_to(header.dst) {
            Some(to) if to == from => self.lose(frame, DropReason::EtherNotForUs, pool),
            Some(to) => {
                self.ends[to].queue(frame, pool, &mut self.drops);
                None
            }
            None if self.ends[from].may_flood(now) => {
                self.flood(Some(from), &frame, pool);
                pool.free(frame);
                None
            }
            None => self.lose(frame, DropReason::SwitchFlooded, pool),
        }
    }

    fn lose(&mut self, frame: Mbuf, why: DropReason, pool: &mut Pool) -> Option<Mbuf> {
        self.drops.count(why);
        pool.free(frame);
        None
    }

    /// Queue copies for all devices but one.
    fn flood(&mut self, but: Option<usize>, frame: &Mbuf, pool: &mut Pool) {
        for (number, end) in self.ends.iter_mut().enumerate() {
            if Some(number) != but && end.device.link_up() {
                end.queue_copy(frame, pool, &mut self.drops);
            }
        }
    }

    /// Send what waits, and wait for room where there is none.
    fn flush(&mut self, pool: &mut Pool) {
        for end in &mut self.ends {
            if end.flush(pool) == Flush::Changed
                && let Some(interest) = &self.interest
            {
                end.wait_for_room(interest);
            }
        }
    }
}

impl Device for Switch {
    fn limits(&self) -> Limits {
        let all = || self.ends.iter().map(|end| end.device.limits());
        let mut limits = all().next().unwrap_or(Limits {
            link: LinkKind::Ethernet,
            mtu: base::Mtu::ETHERNET,
            max_frame: base::Mtu::ETHERNET.bytes() + ether::HEADER_LEN,
            max_segments: 1,
            tx_depth: 1,
            offloads: Offloads::default(),
        });
        for one in all() {
            limits.mtu = limits.mtu.min(one.mtu);
            limits.max_frame = limits.max_frame.min(one.max_frame);
        }
        // A frame may go to several devices, and each of them would finish it in its own way.
        Limits { max_segments: 1, offloads: Offloads::default(), ..limits }
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let (now, before, ends) = ((self.clock)(), into.len(), self.ends.len());
        while !into.is_full()
            && let Some(frame) = (!self.up.is_empty()).then(|| self.up.remove(0))
        {
            into.push(frame);
        }
        let mut taken = Burst::new();
        for step in 0..ends {
            if into.is_full() {
                break;
            }
            let from = (self.first + step) % ends;
            self.ends[from].device.rx_burst(pool, &mut taken);
            for frame in taken.drain(..) {
                let Some(frame) = self.forward(from, frame, pool, now) else { continue };
                // `up` was empty before this device's burst, so it has room for all of it.
                if into.is_full() { self.up.push(frame) } else { into.push(frame) }
            }
        }
        self.first = (self.first + 1) % ends.max(1);
        self.flush(pool);
        into.len() - before
    }

    /// All frames are taken: a device that is full loses them.
    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let count = from.len();
        for frame in from.drain(..) {
            let to = ether::Header::parse(frame.as_slice()).ok().map(|header| header.dst);
            match to.filter(|to| !to.is_group()).and_then(|to| self.stations.device_to(to)) {
                Some(to) => self.ends[to].queue(frame, pool, &mut self.drops),
                None => {
                    self.flood(None, &frame, pool);
                    pool.free(frame);
                }
            }
        }
        self.flush(pool);
        count
    }

    fn rx_ready(&self) -> bool {
        !self.up.is_empty() || self.ends.iter().any(End::is_ready) || self.has_news()
    }

    fn tx_ready(&self) -> bool {
        true
    }

    fn link_up(&self) -> bool {
        self.ends.iter().any(|end| end.device.link_up())
    }

    fn check_link(&mut self) -> bool {
        // All of them have to be asked.
        self.ends.iter_mut().filter_map(|end| end.device.check_link().then_some(())).count() > 0
    }

    fn is_gone(&self) -> bool {
        self.ends.iter().all(|end| end.device.is_gone())
    }

    fn is_unfinished(&self) -> bool {
        self.ends.iter().any(|end| end.device.is_unfinished())
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.interest.as_ref().map(AsFd::as_fd)
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.ends.iter().find_map(|end| end.device.failure())
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        let mut wakes = self.up.is_empty();
        for end in &mut self.ends {
            wakes &= end.device.arm(waker);
        }
        wakes
    }

    fn wakes_at(&self) -> Instant {
        self.ends.iter().map(|end| end.device.wakes_at()).min().unwrap_or(Instant::NEVER)
    }
}

impl Switch {
    /// Is an awaited event of a device pending?
    fn has_news(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.interest.as_ref().is_some_and(|interest| {
            poll(&mut [PollFd::new(interest, PollFlags::IN)], Some(&now)).is_ok_and(|n| n > 0)
        })
    }
}

#[cfg(test)]
mod tests;
