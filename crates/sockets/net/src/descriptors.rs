//! Waiting for the descriptors of devices (Linux), with two epoll instances. The first instance
//! contains the descriptors of all ports. The driver waits on the second instance, which contains
//! only the first one. While the devices are not to wake the driver, the second instance has no
//! events enabled for the first. A thread in a blocking call waits on the first instance. So one
//! system call turns the driver's wake-ups by devices off or on, and the driver need not be woken
//! for that.
//!
//! Called by: `driver.rs` and `wait.rs`, through `Inner::watch`. The kernel removes a descriptor
//! from epoll when its file is closed, but a device may keep its file open after its port is
//! removed. So a new first instance is made whenever the ports change.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use stack::{Awaited, PortId, Stack};

/// A descriptor to wait on: readable when the stack has to be polled.
pub(crate) type Descriptor = Arc<OwnedFd>;

/// How one device's descriptor was registered.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    port: PortId,
    fd: RawFd,
    awaited: Awaited,
}

/// The descriptors of a stack's devices.
#[derive(Default)]
pub(crate) struct Descriptors {
    pair: Option<Pair>,
    known: Vec<Known>,
    epoch: u64,
}

/// The two epoll instances.
struct Pair {
    driver: Descriptor,
    devices: Descriptor,
    /// True while the devices wake the driver.
    heard: bool,
}

impl Descriptors {
    /// Register the current descriptors of the devices, and switch the driver's wake-ups on or off.
    ///
    /// # Errors
    /// The system has no descriptors left: the devices have to be polled at an interval.
    pub(crate) fn update(&mut self, stack: &Stack, driver_hears: bool) -> io::Result<()> {
        let epoch = stack.ports_epoch();
        let same = |known: &Known, now: &Known| (known.port, known.fd) == (now.port, now.fd);
        let mut now = Vec::with_capacity(self.known.len());
        now.extend(stack.descriptors().map(|(port, fd, awaited)| Known {
            port,
            fd: fd.as_raw_fd(),
            awaited,
        }));
        if self.pair.is_none() && now.is_empty() {
            return Ok(());
        }
        let unchanged = self.epoch == epoch
            && self.known.len() == now.len()
            && self.known.iter().zip(&now).all(|(a, b)| same(a, b));
        if !unchanged || self.pair.is_none() {
            self.renew(driver_hears)?;
        }
        let Some(pair) = &mut self.pair else { return Ok(()) };
        for (at, (_, fd, awaited)) in stack.descriptors().enumerate() {
            let data = EventData::new_u64(0);
            match self.known.get(at) {
                None => epoll::add(&pair.devices, fd, data, at_device(awaited))?,
                Some(known) if known.awaited != awaited => {
                    epoll::modify(&pair.devices, fd, data, at_device(awaited))?;
                }
                Some(_) => {}
            }
        }
        self.known = now;
        self.epoch = epoch;
        pair.hear(driver_hears)
    }

    /// Make a new, empty instance for the devices.
    fn renew(&mut self, driver_hears: bool) -> io::Result<()> {
        self.known.clear();
        let devices = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let driver = match self.pair.take() {
            Some(old) => {
                // A thread may still wait on the old instance; the driver must not.
                let _ = epoll::delete(&old.driver, old.devices.as_fd());
                old.driver
            }
            None => Arc::new(epoll::create(CreateFlags::CLOEXEC)?),
        };
        epoll::add(&driver, devices.as_fd(), EventData::new_u64(0), events(driver_hears))?;
        self.pair = Some(Pair { driver, devices, heard: driver_hears });
        Ok(())
    }

    /// The descriptor of the instance that the driver waits on; `None` if no device ever had a
    /// descriptor.
    pub(crate) fn of_driver(&self) -> Option<Descriptor> {
        self.pair.as_ref().map(|pair| pair.driver.clone())
    }

    /// The descriptor of the instance that a thread waits on while it drives the stack.
    pub(crate) fn of_caller(&self) -> Option<Descriptor> {
        self.pair.as_ref().map(|pair| pair.devices.clone())
    }
}

impl Pair {
    fn hear(&mut self, driver_hears: bool) -> io::Result<()> {
        if self.heard != driver_hears {
            let (driver, devices) = (&self.driver, self.devices.as_fd());
            // If a device's descriptor is readable already, this wakes the driver, which waits on
            // `driver`.
            epoll::modify(driver, devices, EventData::new_u64(0), events(driver_hears))?;
            self.heard = driver_hears;
        }
        Ok(())
    }
}

/// The epoll events to wait for at a device's descriptor. The descriptor stays registered even if
/// no events are awaited.
fn at_device(awaited: Awaited) -> EventFlags {
    match awaited {
        Awaited::Nothing => EventFlags::empty(),
        Awaited::Frames => EventFlags::IN,
        Awaited::FramesAndRoom => EventFlags::IN | EventFlags::OUT,
    }
}

fn events(heard: bool) -> EventFlags {
    if heard { EventFlags::IN } else { EventFlags::empty() }
}
