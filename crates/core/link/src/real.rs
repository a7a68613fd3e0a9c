//! Runs a bridge in real time: a loop that sleeps in ppoll(2) between packets.
//!
//! Called by: `wirespeed wire`, the lab, benchmarks, each on a thread of its own. Linux only.
//!
//! A sleeping thread wakes some tens of microseconds late, which delays the packet; a polling
//! thread needs a core of its own. Either way the error is measured
//! ([`crate::BridgeDirection::lateness`], [`Runner::pauses`]).

use core::fmt;
use core::num::NonZeroU64;
use std::time::Instant as Monotone;

use base::{Duration, Instant};
use device::Alarm;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::{Bridge, Lateness};

/// How to wait for the next packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// Sleep in the kernel: this costs no CPU time, and delays packets by some tens of
    /// microseconds.
    #[default]
    Sleep,
    /// Poll without sleeping: this uses a whole core.
    Spin,
}

/// A device is gone for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The device's index, as in [`Bridge::shared`]: devices of the first side, then those of the
    /// second.
    pub end: usize,
    /// The device's failure, as text.
    pub reason: String,
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl core::error::Error for Gone {}

/// How often a device is polled that can neither wake the thread nor be waited on.
const LOOK: Duration = Duration::from_millis(1);

/// A bridge and its clock.
pub struct Runner {
    bridge: Bridge,
    timing: Timing,
    epoch: Monotone,
    /// Wakes the thread for devices that have no descriptor.
    alarm: Alarm,
    /// How much later than planned the thread ran.
    pauses: Lateness,
}

impl Runner {
    /// Make a runner; the bridge's clock starts at zero now.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(bridge: Bridge, timing: Timing) -> std::io::Result<Runner> {
        let alarm = Alarm::new()?;
        let (epoch, pauses) = (Monotone::now(), Lateness::default());
        Ok(Runner { bridge, timing, epoch, alarm, pauses })
    }

    /// The time of the bridge.
    pub fn now(&self) -> Instant {
        now(self.epoch)
    }

    /// The bridge that this runner runs.
    pub fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    /// The bridge, to change the settings of its directions.
    pub fn bridge_mut(&mut self) -> &mut Bridge {
        &mut self.bridge
    }

    /// How late the thread woke, for each sleep until a given time, and how long each turn took
    /// that handled packets.
    pub fn pauses(&self) -> &Lateness {
        &self.pauses
    }

    /// Carry packets until the bridge's clock reads `until`. Sets the calling thread's timer slack
    /// to its minimum, because by default timers fire some 50 us late.
    ///
    /// # Errors
    /// A device is gone for good.
    pub fn run_until(&mut self, until: Instant) -> Result<(), Gone> {
        // If the system refuses this, packets are later, which `pauses` and `lateness` record.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let epoch = self.epoch;
        let mut expected = now(epoch);
        loop {
            let here = now(epoch);
            self.pauses.note(here.since(expected));
            if here >= until {
                return Ok(());
            }
            if self.bridge.turn(|| now(epoch)) == 0 {
                self.look_after_devices()?;
                expected = match self.timing {
                    Timing::Spin => now(epoch),
                    Timing::Sleep => self.sleep(until),
                };
                core::hint::spin_loop();
            } else {
                expected = here;
            }
        }
    }

    fn look_after_devices(&self) -> Result<(), Gone> {
        for (end, device) in self.bridge.devices().enumerate() {
            if device.is_gone() {
                let said = device.failure().map(ToString::to_string);
                let reason = said.unwrap_or_else(|| "the device is gone".to_owned());
                return Err(Gone { end, reason });
            }
        }
        Ok(())
    }

    /// Wait until a packet is due, a device is readable or writable again, or the time is `until`;
    /// returns the time when the thread should have woken.
    fn sleep(&mut self, until: Instant) -> Instant {
        let mut due = self.bridge.next_event().min(until);
        for device in self.bridge.devices_mut() {
            if device.as_fd().is_some() || device.arm(self.alarm.waker()) {
                continue;
            }
            if device.rx_ready() {
                return now(self.epoch);
            }
            due = due.min(now(self.epoch) + LOOK);
        }
        let span = due.since(self.now()).as_nanos();
        let timeout = Timespec {
            tv_sec: (span / 1_000_000_000) as i64,
            tv_nsec: (span % 1_000_000_000) as i64,
        };
        let mut asked = Vec::with_capacity(3);
        asked.push(PollFd::new(&self.alarm, PollFlags::IN));
        for (end, device) in self.bridge.devices().enumerate() {
            let room =
                if self.bridge.wants_room(end) { PollFlags::OUT } else { PollFlags::empty() };
            asked.extend(
                device.as_fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN | room)),
            );
        }
        match poll(&mut asked, Some(&timeout)) {
            // A frame from a device has no planned time, so the thread was not late.
            Ok(1..) | Err(Errno::INTR) => {
                self.alarm.silence();
                self.now()
            }
            _ => due,
        }
    }
}

fn now(epoch: Monotone) -> Instant {
    Instant::from_nanos(epoch.elapsed().as_nanos() as u64 + 1)
}
