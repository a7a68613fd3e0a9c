//! What the driver knows between two turns; it lies under the lock of its stack.
//!
//! Called by: `driver.rs`, `inner.rs`.

use core::task::Waker;

use base::Instant;

/// The state of the driver.
#[derive(Default)]
pub(crate) struct DriverState {
    /// Wakes it.
    pub(crate) background: Option<Waker>,
    /// It sleeps until this; `None`: it is awake, or was woken.
    pub(crate) asleep_until: Option<Instant>,
    /// Whose waker the devices have.
    pub(crate) watcher: Option<Waker>,
    /// A thread in a blocking call has its waker there.
    pub(crate) caller_drives: bool,
    /// The driver went to sleep at the devices' descriptors as well.
    pub(crate) at_descriptors: bool,
    #[cfg(target_os = "linux")]
    pub(crate) descriptors: crate::descriptors::Descriptors,
    /// Which ports there were then.
    pub(crate) saw_epoch: u64,
    /// It has ended.
    pub(crate) gone: bool,
    /// It is to end now.
    pub(crate) stop: bool,
    /// The last handle is gone: the driver ends when the last connection has.
    pub(crate) abandoned: bool,
}
