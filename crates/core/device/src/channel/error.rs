//! Why a channel took no frame, gave none, or failed.
//!
//! Called by: `channel.rs`. Each says what to do.

use core::fmt;

/// Why a frame was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The queue is full: try again, or wait with [`super::End::send`].
    Full,
    /// The frame is longer than the MTU and the link header allow; this is the maximum in bytes.
    TooLong(usize),
    /// The device is gone.
    Closed,
}

/// Why no frame was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// There is none, or none came in time.
    Empty,
    /// The next frame has this many bytes, more than the buffer; it stays in the queue.
    TooSmall(usize),
    /// The device is gone and its last frame has been received.
    Closed,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Full => f.write_str("the channel is full; wait until the stack has polled"),
            SendError::TooLong(most) => write!(f, "the frame is too long; send at most {most}"),
            SendError::Closed => f.write_str("the stack has dropped the device; make a new pair"),
        }
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Empty => f.write_str("no frame is there; wait until the stack has sent"),
            RecvError::TooSmall(len) => write!(f, "the next frame needs a buffer of {len} bytes"),
            RecvError::Closed => f.write_str("the stack has dropped the device; make a new pair"),
        }
    }
}

impl core::error::Error for SendError {}
impl core::error::Error for RecvError {}

/// The failure after the [`super::End`] is dropped.
#[derive(Debug)]
pub(super) struct EndGone;

impl fmt::Display for EndGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the channel's other end was dropped. Make a new pair")
    }
}

impl core::error::Error for EndGone {}
