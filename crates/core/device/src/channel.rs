//! A device whose other end is used with plain bytes: `send(&[u8])` and `recv(&mut [u8])`, from any
//! thread. It is for code that has frames of its own and does not use mbufs (a VPN, an emulator, a
//! test).
//!
//! Called by: programs that supply frames. Limits: frames in each direction ([`Config::depth`]);
//! both push back. Counters: [`Device::drops`].
//!
//! Each frame is copied into the queue and out of it, under a lock that is held for the copies of
//! one call. For speed implement [`Device`], or use [`crate::mem`].
//!
//! ```
//! # mod wirespeed { pub use {base::*, mbuf::Pool, wirespeed_device as device}; }
//! use wirespeed::device::{Burst, Device, channel};
//! use wirespeed::Pool;
//!
//! let (mut device, end) = channel::pair(&channel::Config::default());
//! end.send(&[1; 60])?; // a frame for the stack, which polls its device:
//! let (mut pool, mut burst) = (Pool::new(1 << 20), Burst::new());
//! assert_eq!(device.rx_burst(&mut pool, &mut burst), 1);
//! device.tx_burst(&mut pool, &mut burst); // the stack sends it back
//! let mut frame = [0; 2_048];
//! assert_eq!(end.recv(&mut frame)?, 60);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Waker;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use base::{DropReason, Drops, LinkKind, Mtu};
use mbuf::Pool;

use crate::{Burst, Device, Doorbell, Limits, Offloads};

/// The settings of both directions of a [`pair`].
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The kind of link header.
    pub link: LinkKind,
    /// The largest packet, link header not included.
    pub mtu: Mtu,
    /// The most frames in flight in each direction; at least one.
    pub depth: usize,
}

impl Default for Config {
    /// Ethernet, 1,500 bytes, 512 frames: enough for every level of [`crate::mitigation`].
    fn default() -> Config {
        Config { link: LinkKind::Ethernet, mtu: Mtu::ETHERNET, depth: 512 }
    }
}

/// One direction. Vectors are reused: there are at most as many as the queue is deep.
#[derive(Default)]
struct Frames {
    queue: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Frames {
    fn put(&mut self, bytes: &[u8]) {
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.clear();
        frame.extend_from_slice(bytes);
        self.queue.push_back(frame);
    }
}

#[derive(Default)]
struct Queue {
    frames: Mutex<Frames>,
    /// Notified when a frame was added, when room was made, or when an end was dropped.
    changed: Condvar,
}

impl Queue {
    /// Nothing panics while it holds the lock, so poisoning can be ignored.
    fn lock(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, held: MutexGuard<'a, Frames>) -> MutexGuard<'a, Frames> {
        self.changed.wait(held).unwrap_or_else(PoisonError::into_inner)
    }
}

struct Shared {
    limits: Limits,
    to_stack: Queue,
    from_stack: Queue,
    device_gone: AtomicBool,
    end_gone: AtomicBool,
    bell: Doorbell,
}

/// The stack's end.
pub struct Channel {
    shared: Arc<Shared>,
    drops: Drops,
    /// Did the last `tx_burst` leave frames in the burst?
    pushed_back: bool,
}

/// The program's end. Threads may share it: one sends while another receives.
pub struct End(Arc<Shared>);

/// Makes a device and the end that feeds it.
///
/// # Panics
/// If `config.depth` is 0.
pub fn pair(config: &Config) -> (Channel, End) {
    pair_with(config, Doorbell::new())
}

/// Like [`pair`], with the doorbell of the thread that drives the device.
///
/// # Panics
/// If `config.depth` is 0.
pub fn pair_with(config: &Config, bell: Doorbell) -> (Channel, End) {
    assert!(config.depth > 0, "a channel of no frames carries nothing; a depth of 512 is usual");
    let link_header = match config.link {
        // An Ethernet header with two tags.
        LinkKind::Ethernet => 14 + 8,
        LinkKind::Ip => 0,
    };
    let limits = Limits {
        link: config.link,
        mtu: config.mtu,
        max_frame: config.mtu.bytes() + link_header,
        max_segments: 1,
        tx_depth: config.depth,
        offloads: Offloads::default(),
    };
    let shared = Arc::new(Shared {
        limits,
        to_stack: Queue::default(),
        from_stack: Queue::default(),
        device_gone: AtomicBool::new(false),
        end_gone: AtomicBool::new(false),
        bell,
    });
    let drops = Drops::default();
    (Channel { shared: shared.clone(), drops, pushed_back: false }, End(shared))
}

impl End {
    /// Send a frame to the stack. The call waits for room.
    ///
    /// # Errors
    /// [`SendError::TooLong`], [`SendError::Closed`].
    pub fn send(&self, frame: &[u8]) -> Result<(), SendError> {
        self.put(frame, true)
    }

    /// Send a frame to the stack, if there is room now.
    ///
    /// # Errors
    /// All of [`SendError`].
    pub fn try_send(&self, frame: &[u8]) -> Result<(), SendError> {
        self.put(frame, false)
    }

    fn put(&self, frame: &[u8], wait: bool) -> Result<(), SendError> {
        let shared = &*self.0;
        if frame.len() > shared.limits.max_frame {
            return Err(SendError::TooLong(shared.limits.max_frame));
        }
        let mut held = shared.to_stack.lock();
        loop {
            if shared.device_gone.load(Ordering::Acquire) {
                return Err(SendError::Closed);
            }
            if held.queue.len() < shared.limits.tx_depth {
                break;
            }
            if !wait {
                return Err(SendError::Full);
            }
            held = shared.to_stack.wait(held);
        }
        held.put(frame);
        drop(held);
        shared.bell.ring();
        Ok(())
    }

    /// Wait for a frame from the stack and copy it into the front of `buffer`. Returns its length
    /// in bytes.
    ///
    /// # Errors
    /// [`RecvError::TooSmall`], [`RecvError::Closed`].
    pub fn recv(&self, buffer: &mut [u8]) -> Result<usize, RecvError> {
        let mut held = self.0.from_stack.lock();
        loop {
            match self.take(&mut held, buffer) {
                Err(RecvError::Empty) => held = self.0.from_stack.wait(held),
                result => return result,
            }
        }
    }

    /// Like [`End::recv`], but returns [`RecvError::Empty`] if no frame came within `timeout`.
    ///
    /// # Errors
    /// All of [`RecvError`].
    pub fn recv_timeout(&self, buffer: &mut [u8], timeout: Duration) -> Result<usize, RecvError> {
        let queue = &self.0.from_stack;
        let gone = || self.0.device_gone.load(Ordering::Acquire);
        let waits = |frames: &mut Frames| frames.queue.is_empty() && !gone();
        let (mut held, _) = queue
            .changed
            .wait_timeout_while(queue.lock(), timeout, waits)
            .unwrap_or_else(PoisonError::into_inner);
        self.take(&mut held, buffer)
    }

    /// Like [`End::recv`], but returns [`RecvError::Empty`] if there is no frame now.
    ///
    /// # Errors
    /// All of [`RecvError`].
    pub fn try_recv(&self, buffer: &mut [u8]) -> Result<usize, RecvError> {
        self.take(&mut self.0.from_stack.lock(), buffer)
    }

    fn take(&self, held: &mut Frames, buffer: &mut [u8]) -> Result<usize, RecvError> {
        let Some(frame) = held.queue.front() else {
            let gone = self.0.device_gone.load(Ordering::Acquire);
            return Err(if gone { RecvError::Closed } else { RecvError::Empty });
        };
        let len = frame.len();
        buffer.get_mut(..len).ok_or(RecvError::TooSmall(len))?.copy_from_slice(frame);
        let was_full = held.queue.len() >= self.0.limits.tx_depth;
        if let Some(frame) = held.queue.pop_front() {
            held.spare.push(frame);
        }
        if was_full {
            // A stack whose frames were pushed back may be asleep.
            self.0.bell.ring();
        }
        Ok(len)
    }
}

impl Channel {
    /// The doorbell that is rung when there is a frame or room. The thread that drives the device
    /// sleeps on it.
    pub fn waker(&self) -> Doorbell {
        self.shared.bell.clone()
    }
}

impl Device for Channel {
    fn limits(&self) -> Limits {
        self.shared.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let mut held = self.shared.to_stack.lock();
        let before = into.len();
        while !into.is_full()
            && let Some(frame) = held.queue.pop_front()
        {
            match pool.copy_of(&frame) {
                Some(mbuf) => into.push(mbuf),
                None => self.drops.count(DropReason::MbufExhausted),
            }
            held.spare.push(frame);
        }
        drop(held);
        self.shared.to_stack.changed.notify_all();
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        let limits = &self.shared.limits;
        let gone = !self.link_up();
        let mut held = self.shared.from_stack.lock();
        let mut taken = 0;
        for frame in from.iter() {
            if gone {
                self.drops.count(DropReason::DeviceLinkDown);
            } else if frame.len() > limits.max_frame {
                self.drops.count(DropReason::DeviceFrameTooBig);
            } else if held.queue.len() < limits.tx_depth {
                held.put(frame.as_slice());
            } else {
                break;
            }
            taken += 1;
        }
        drop(held);
        if taken > 0 {
            self.shared.from_stack.changed.notify_all();
        }
        from.drain(..taken).for_each(|frame| pool.free(frame));
        self.pushed_back = !from.is_empty();
        taken
    }

    fn rx_ready(&self) -> bool {
        !self.shared.to_stack.lock().queue.is_empty()
    }

    fn tx_ready(&self) -> bool {
        !self.link_up() || self.shared.from_stack.lock().queue.len() < self.shared.limits.tx_depth
    }

    fn rx_depth(&self) -> usize {
        self.shared.limits.tx_depth
    }

    fn link_up(&self) -> bool {
        !self.shared.end_gone.load(Ordering::Acquire)
    }

    /// True once the other end is gone and everything that it sent was received.
    fn is_gone(&self) -> bool {
        !self.link_up() && !self.rx_ready()
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        if self.link_up() { None } else { Some(&EndGone) }
    }

    /// After a push back, any room counts as ready, because the limit is in frames and not in
    /// bytes.
    fn arm(&mut self, waker: &Waker) -> bool {
        self.shared.bell.arm_waker(waker);
        let ready = self.rx_ready() || (self.pushed_back && self.tx_ready());
        if ready {
            self.shared.bell.disarm();
        }
        !ready
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}

impl Drop for Channel {
    /// Wakes waiting threads. Frames that were sent before can still be received.
    fn drop(&mut self) {
        // The flag is set under the locks, so that no thread checks it before the store and sleeps
        // after it.
        for queue in [&self.shared.to_stack, &self.shared.from_stack] {
            let held = queue.lock();
            self.shared.device_gone.store(true, Ordering::Release);
            drop(held);
            queue.changed.notify_all();
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.end_gone.store(true, Ordering::Release);
        self.0.bell.ring();
    }
}

/// Why a frame was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The queue is full: try again, or wait with [`End::send`].
    Full,
    /// The frame is longer than the MTU and the link header allow; this is the maximum in bytes.
    TooLong(usize),
    /// The device is gone.
    Closed,
}

/// Why no frame was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// There is no frame, or none came in time.
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

/// The failure after the [`End`] is dropped.
#[derive(Debug)]
struct EndGone;

impl fmt::Display for EndGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the channel's other end was dropped. Make a new pair")
    }
}

impl core::error::Error for EndGone {}
