//! The state of the driver between two polls of the stack; the stack's lock guards it.
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
    /// The waker that the devices wake.
    pub(crate) watcher: Option<Waker>,
    /// A thread in a blocking call drives the stack, and the devices have its waker.
    pub(crate) caller_drives: bool,
    /// The owner of a [`crate::Stepped`] polls the stack, and nobody else does.
    pub(crate) stepped: bool,
    /// The sleeping driver also waits on the devices' descriptors.
    pub(crate) at_descriptors: bool,
    #[cfg(target_os = "linux")]
    pub(crate) descriptors: crate::descriptors::Descriptors,
    /// The stack's port epoch at the time when `watcher` was registered.
    pub(crate) saw_epoch: u64,
    /// The driver has ended.
    pub(crate) gone: bool,
    /// The driver has to end now.
    pub(crate) stop: bool,
    /// The last handle was dropped: the driver ends when the last connection has ended.
    pub(crate) abandoned: bool,
}

/// The result of [`crate::inner::Inner::watch`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// There is work: poll again at once.
    Ready,
    /// Sleep: all devices wake the sleeper, or have descriptors to wait on.
    Sleep,
    /// Sleep, but poll again after [`crate::bell::LOOK_INTERVAL`], because a device cannot wake the
    /// sleeper.
    Look,
    /// Sleep until this time, and ignore descriptors, because frames are coalesced until then.
    Until(Instant),
    /// Sleep until this time or until another port's descriptor is ready. One port coalesces
    /// frames.
    UntilOrDescriptor(Instant),
}
