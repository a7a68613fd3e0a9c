//! The program's callbacks for the log and for frames, and the device wrapper that calls them.
//!
//! Called by: `stack_of_program.rs`, which keeps them; `ports.rs`, which wraps each port's device.
//! Frames are shown under the stack's lock, so a callback that calls back would wait for itself:
//! `entry::callback` refuses that.

use core::ffi::{c_int, c_void};
use core::task::Waker;
use std::sync::Arc;
use std::time::Instant;

use base::Drops;
use device::mitigation::Threshold;
use device::{Burst, Device, pass_through};
use mbuf::Pool;
use stack::VirtualClock;

use crate::clock::Offset;
use crate::entry;
use crate::types::{WS_LOG_INFO, WS_LOG_WARNING, ws_frame, ws_log_callback, ws_trace_callback};

/// The callbacks of a stack.
pub(crate) struct Hooks {
    log: ws_log_callback,
    trace: ws_trace_callback,
    user: *mut c_void,
    clock: FrameClock,
}

// SAFETY: `user` is only passed back to the callbacks, which the header says any thread may call.
unsafe impl Send for Hooks {}
// SAFETY: as above.
unsafe impl Sync for Hooks {}

/// The time that frames are shown with.
pub(crate) enum FrameClock {
    System(Instant),
    Virtual(VirtualClock, Arc<Offset>),
}

impl FrameClock {
    fn now_ns(&self) -> u64 {
        match self {
            FrameClock::System(start) => start.elapsed().as_nanos() as u64,
            FrameClock::Virtual(clock, offset) => offset.to_program(clock.now()),
        }
    }
}

impl Hooks {
    pub(crate) fn new(
        log: ws_log_callback,
        trace: ws_trace_callback,
        user: *mut c_void,
        clock: FrameClock,
    ) -> Hooks {
        Hooks { log, trace, user, clock }
    }

    /// Pass a message to the program's log.
    pub(crate) fn log(&self, level: c_int, message: &str) {
        let Some(log) = self.log else { return };
        let message = entry::c_text(message);
        // SAFETY: the program's function, called as the header says.
        entry::callback(|| unsafe { log(self.user, level, message.as_ptr()) });
    }

    fn show(&self, port: c_int, is_sent: bool, frame: &[u8]) {
        let Some(trace) = self.trace else { return };
        let frame = ws_frame {
            time_ns: self.clock.now_ns(),
            bytes: frame.as_ptr(),
            length: frame.len(),
            port,
            is_sent: is_sent.into(),
        };
        // SAFETY: the program's function, called as the header says; the frame lives during the
        // call.
        entry::callback(|| unsafe { trace(self.user, &raw const frame) });
    }

    /// A device whose frames and failures go to the callbacks. Without callbacks it is the device
    /// itself.
    pub(crate) fn wrap(
        hooks: &Arc<Hooks>,
        device: Box<dyn Device>,
        port: PortNumber,
    ) -> Box<dyn Device> {
        if hooks.log.is_none() && hooks.trace.is_none() {
            return device;
        }
        Box::new(Shown { device, hooks: hooks.clone(), port, was_up: true })
    }
}

/// The number of a port, which is known only after the stack has the device.
pub(crate) type PortNumber = Arc<std::sync::OnceLock<c_int>>;

/// A device whose frames are shown.
struct Shown {
    device: Box<dyn Device>,
    hooks: Arc<Hooks>,
    port: PortNumber,
    was_up: bool,
}

impl Shown {
    fn port(&self) -> c_int {
        self.port.get().copied().unwrap_or(-1)
    }

    /// Log if the link went down or came up.
    fn check(&mut self) {
        let is_up = self.device.link_up();
        if core::mem::replace(&mut self.was_up, is_up) == is_up {
            return;
        }
        let port = self.port();
        match (is_up, self.device.failure()) {
            (true, _) => self.hooks.log(WS_LOG_INFO, &format!("port {port}: the link is up")),
            (false, Some(why)) => self.hooks.log(WS_LOG_WARNING, &format!("port {port}: {why}")),
            (false, None) => {
                self.hooks.log(WS_LOG_WARNING, &format!("port {port}: the link is down"));
            }
        }
    }
}

impl Device for Shown {
    pass_through!();

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let before = into.len();
        let count = self.device.rx_burst(pool, into);
        if self.hooks.trace.is_some() {
            let port = self.port();
            into.iter().skip(before).for_each(|f| self.hooks.show(port, false, f.as_slice()));
        }
        self.check();
        count
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        if self.hooks.trace.is_none() {
            let taken = self.device.tx_burst(pool, from);
            self.check();
            return taken;
        }
        // Frames that the device does not take are shown when it takes them, so copies are kept.
        let copies: Vec<Vec<u8>> = from.iter().map(|frame| frame.as_slice().to_vec()).collect();
        let taken = self.device.tx_burst(pool, from);
        let port = self.port();
        copies.iter().take(taken).for_each(|frame| self.hooks.show(port, true, frame));
        self.check();
        taken
    }

    fn rx_ready(&self) -> bool {
        self.device.rx_ready()
    }

    fn tx_ready(&self) -> bool {
        self.device.tx_ready()
    }

    fn drops(&self) -> Option<&Drops> {
        self.device.drops()
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        self.device.arm(waker)
    }

    fn coalesce(&mut self, threshold: Threshold) -> bool {
        self.device.coalesce(threshold)
    }
}
