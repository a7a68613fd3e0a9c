//! What the driver keeps between two turns; the stack's lock guards it.
//!
//! Called by: `driver.rs`, `inner.rs`.

use core::task::Waker;

use base::Instant;

/// The state of the driver.
#[derive(Default)]
pub(crate) struct DriverState {
    /// The driver's own waker.
    pub(crate) background: Option<Waker>,
    /// The driver sleeps until this time; `None` if it is awake or was woken.
    pub(crate) asleep_until: Option<Instant>,
    /// The waker that the devices have.
    pub(crate) watcher: Option<Waker>,
    /// A thread in a blocking call drives the stack, and the devices have its waker.
    pub(crate) caller_drives: bool,
    /// The sleeping driver waits on the devices' descriptors as well.
    pub(crate) at_descriptors: bool,
    #[cfg(target_os = "linux")]
    pub(crate) descriptors: crate::descriptors::Descriptors,
    /// The stack's port epoch when `watcher` was registered.
    pub(crate) saw_epoch: u64,
    /// The driver has ended.
    pub(crate) gone: bool,
    /// The driver has to end now.
    pub(crate) stop: bool,
    /// The last handle was dropped: the driver ends with the last connection.
    pub(crate) abandoned: bool,
}
