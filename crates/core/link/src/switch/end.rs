//! A device at a switch: its queue, and how many frames for all it may still send.
//!
//! Called by: `switch.rs`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use base::{DropReason, Drops, Duration, Instant, LinkKind};
use device::{Burst, Device};
use mbuf::{Mbuf, Pool};
use rustix::event::epoll::{self, EventData, EventFlags};

use super::FLOODS_PER_SECOND;
use crate::cut;

/// The queue in front of a device: the first limit that is reached counts.
const FRAMES_MAX: usize = 512;
const BYTES_MAX: usize = 2 << 20;

/// The time between two frames for all, on average, and how much of it a device may save.
const GAP: Duration = Duration::from_nanos(1_000_000_000 / FLOODS_PER_SECOND);
const SAVED: Duration = Duration::from_secs(1);

/// Did a flush change whether the device has to report room?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    Same,
    Changed,
}

/// A device, and the frames that wait for it.
pub(super) struct End {
    pub(super) device: Box<dyn Device>,
    waiting: VecDeque<Mbuf>,
    waiting_bytes: usize,
    /// The next burst, or what the device pushed back of it.
    leaving: Burst,
    waits_for_room: bool,
    /// When the next frame for all would be due if there had been no pause: the generic cell rate
    /// algorithm.
    due: Instant,
}

impl End {
    pub(super) fn new(device: Box<dyn Device>) -> End {
        End {
            device,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            leaving: Burst::new(),
            waits_for_room: false,
            due: Instant::ZERO,
        }
    }

    /// Begin to wait for the device's frames.
    pub(super) fn watch(&mut self, interest: &OwnedFd) -> io::Result<()> {
        let Some(fd) = self.device.as_fd() else { return Ok(()) };
        Ok(epoll::add(interest, fd, EventData::new_u64(0), EventFlags::IN)?)
    }

    /// Wait for room if frames wait, else for frames of the device alone.
    pub(super) fn wait_for_room(&mut self, interest: &OwnedFd) {
        let Some(fd) = self.device.as_fd() else { return };
        let wanted = !self.leaving.is_empty();
        let events = if wanted { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        // A device that has another descriptor now is added.
        let _ = epoll::modify(interest, fd, EventData::new_u64(0), events)
            .or_else(|_| epoll::add(interest, fd, EventData::new_u64(0), events));
    }

    /// May this device send a frame for all now?
    pub(super) fn may_flood(&mut self, now: Instant) -> bool {
        let next = self.due.max(now) + GAP;
        let may = next <= now + SAVED;
        if may {
            self.due = next;
        }
        may
    }

    /// Queue a frame. A super-segment is cut, and a checksum is finished: the devices have
    /// different offloads.
    pub(super) fn queue(&mut self, frame: Mbuf, pool: &mut Pool, drops: &mut Drops) {
        let lost = cut(frame, LinkKind::Ethernet, pool, |packet, pool| {
            if self.waiting.len() >= FRAMES_MAX || self.waiting_bytes >= BYTES_MAX {
                drops.count(DropReason::DeviceQueueFull);
                pool.free(packet);
                return;
            }
            self.waiting_bytes += packet.len();
            self.waiting.push_back(packet);
        });
        drops.count_many(DropReason::MbufExhausted, lost);
    }

    /// Queue a copy of a frame.
    pub(super) fn queue_copy(&mut self, frame: &Mbuf, pool: &mut Pool, drops: &mut Drops) {
        match device::copy_of(pool, frame) {
            Some(copy) => self.queue(copy, pool, drops),
            None => drops.count(DropReason::MbufExhausted),
        }
    }

    /// Send what waits.
    pub(super) fn flush(&mut self, pool: &mut Pool) -> Flush {
        loop {
            while !self.leaving.is_full()
                && let Some(packet) = self.waiting.pop_front()
            {
                self.waiting_bytes -= packet.len();
                self.leaving.push(packet);
            }
            if self.leaving.is_empty() || self.device.tx_burst(pool, &mut self.leaving) == 0 {
                break;
            }
        }
        let waits = !self.leaving.is_empty();
        let changed = waits != self.waits_for_room;
        self.waits_for_room = waits;
        if changed { Flush::Changed } else { Flush::Same }
    }

    /// Is there a frame to receive, or room for one that was pushed back?
    pub(super) fn is_ready(&self) -> bool {
        self.device.rx_ready() || self.waits_for_room && self.device.tx_ready()
    }
}
