//! A device of the program's own, by callbacks.
//!
//! Called by: the stack, under its lock, by one thread at a time. Each frame is copied once,
//! between the program's buffer and the stack's. Counters: [`Device::drops`].

use core::ffi::{c_int, c_void};
use core::fmt;
use core::task::Waker;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::{DropReason, Drops, LinkKind, Mtu};
use device::{Burst, Device, Limits, Offloads};
use mbuf::Pool;

use crate::entry;
use crate::error::{Call, Error};
use crate::types::{WS_LINK_ETHERNET, WS_LINK_IP, ws_device};

/// The declared transmit depth: only a hint, since the program pushes back.
const DEPTH: usize = 256;
/// An Ethernet header with two tags.
const LINK_HEADER: usize = 14 + 8;

/// `ws_port_wake` for one port.
#[derive(Default)]
pub(crate) struct Bell {
    /// It was rung since the last burst was received.
    frames: AtomicBool,
    /// It was rung since the last burst was sent.
    room: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        self.frames.store(true, Ordering::Release);
        self.room.store(true, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The bells of a stack's own devices, by port.
pub(crate) type Bells = HashMap<c_int, Arc<Bell>>;

/// The stack's end.
pub(crate) struct OfProgram {
    calls: ws_device,
    limits: Limits,
    bell: Arc<Bell>,
    /// The buffer that `receive` fills.
    room: Box<[u8]>,
    /// The last burst was full: there may be more frames.
    more: bool,
    pushed_back: bool,
    gone: Option<Gone>,
    drops: Drops,
}

// SAFETY: the header says that not always the same thread calls the functions, with `user`.
unsafe impl Send for OfProgram {}

/// Why the device is gone.
#[derive(Debug)]
enum Gone {
    Number(i64),
    Panicked,
    /// `receive` returned more bytes than there was room for.
    TooLong(i64),
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gone::Number(number) => {
                let number = i32::try_from(number.unsigned_abs()).unwrap_or(libc::EIO);
                let why = std::io::Error::from_raw_os_error(number);
                write!(f, "the program's device is gone: {why}. Remove the port")
            }
            Gone::Panicked => f.write_str("a function of the program's device panicked"),
            Gone::TooLong(length) => {
                write!(f, "the program's device returned a frame of {length} bytes, too long")
            }
        }
    }
}

impl core::error::Error for Gone {}

impl OfProgram {
    pub(crate) fn new(calls: ws_device) -> Call<(OfProgram, Arc<Bell>)> {
        if calls.receive.is_none() || calls.transmit.is_none() {
            return Err(Error::null("the functions receive and transmit of the device"));
        }
        let (link, header) = match calls.link {
            WS_LINK_ETHERNET => (LinkKind::Ethernet, LINK_HEADER),
            WS_LINK_IP => (LinkKind::Ip, 0),
            _ => return Err(Error::invalid("the link is WS_LINK_ETHERNET or WS_LINK_IP")),
        };
        let mtu = mtu(calls.mtu)?;
        let limits = Limits {
            link,
            mtu,
            max_frame: mtu.bytes() + header,
            max_segments: 1,
            tx_depth: DEPTH,
            offloads: Offloads::default(),
        };
        let bell = Arc::new(Bell::default());
        let device = OfProgram {
            calls,
            limits,
            bell: bell.clone(),
            room: vec![0; limits.max_frame].into(),
            // There may be a frame from the beginning.
            more: true,
            pushed_back: false,
            gone: None,
            drops: Drops::default(),
        };
        Ok((device, bell))
    }

    /// The next frame's length; `None` if there is none.
    fn receive(&mut self) -> Option<usize> {
        if self.gone.is_some() {
            return None;
        }
        let receive = self.calls.receive?;
        let (user, frame, room) = (self.calls.user, self.room.as_mut_ptr(), self.room.len());
        // SAFETY: the program's function, called as the header says, with a buffer of `room` bytes.
        let length = entry::callback(|| unsafe { receive(user, frame, room) });
        match length {
            Some(0) => None,
            Some(length) if length > 0 && length <= room as i64 => Some(length as usize),
            Some(length) if length > 0 => {
                self.gone = Some(Gone::TooLong(length));
                None
            }
            Some(number) if number == -i64::from(libc::EAGAIN) => None,
            Some(number) => {
                self.gone = Some(Gone::Number(number));
                None
            }
            None => {
                self.gone = Some(Gone::Panicked);
                None
            }
        }
    }

    /// Offer a frame; `false` if there is no room.
    fn transmit(&mut self, frame: &[u8]) -> bool {
        if self.gone.is_some() {
            self.drops.count(DropReason::DeviceLinkDown);
            return true;
        }
        if frame.len() > self.limits.max_frame {
            self.drops.count(DropReason::DeviceFrameTooBig);
            return true;
        }
        let Some(transmit) = self.calls.transmit else { return true };
        let user = self.calls.user;
        // SAFETY: the program's function, called as the header says; the frame lives during the
        // call.
        match entry::callback(|| unsafe { transmit(user, frame.as_ptr(), frame.len()) }) {
            Some(0) => {}
            Some(number) if number == -libc::EAGAIN => return false,
            Some(_) => self.drops.count(DropReason::DeviceLinkDown),
            None => self.gone = Some(Gone::Panicked),
        }
        true
    }
}

/// An MTU of the program; 0 is Ethernet's.
pub(crate) fn mtu(bytes: u32) -> Call<Mtu> {
    if bytes == 0 {
        return Ok(Mtu::ETHERNET);
    }
    let mtu = usize::try_from(bytes).ok().and_then(Mtu::new);
    mtu.ok_or_else(|| Error::invalid(format!("an MTU of {bytes} bytes: 68 to 65,535 are possible")))
}

impl Device for OfProgram {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        let before = into.len();
        // Rung from here on: for frames that this burst may not find.
        self.bell.frames.store(false, Ordering::Release);
        self.more = false;
        while !into.is_full() {
            let Some(length) = self.receive() else { return into.len() - before };
            let Some(frame) = pool.copy_of(&self.room[..length]) else {
                // No buffer comes free here, and the program may always have a frame.
                self.drops.count(DropReason::MbufExhausted);
                break;
            };
            into.push(frame);
        }
        self.more = true;
        into.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        // Rung from here on: for room that this burst may not find.
        self.bell.room.store(false, Ordering::Release);
        let mut taken = 0;
        while taken < from.len() && self.transmit(from[taken].as_slice()) {
            taken += 1;
        }
        from.drain(..taken).for_each(|frame| pool.free(frame));
        self.pushed_back = !from.is_empty();
        taken
    }

    fn rx_ready(&self) -> bool {
        self.gone.is_none() && (self.more || self.bell.frames.load(Ordering::Acquire))
    }

    fn tx_ready(&self) -> bool {
        !self.pushed_back || self.gone.is_some() || self.bell.room.load(Ordering::Acquire)
    }

    fn link_up(&self) -> bool {
        self.gone.is_none()
    }

    fn is_gone(&self) -> bool {
        self.gone.is_some()
    }

    fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.gone.as_ref().map(|gone| gone as &(dyn core::error::Error + 'static))
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        let old = {
            let mut place = self.bell.waker.lock().unwrap_or_else(PoisonError::into_inner);
            place.replace(waker.clone())
        };
        drop(old);
        let is_ready = self.rx_ready() || (self.pushed_back && self.tx_ready());
        !is_ready
    }

    fn drops(&self) -> Option<&Drops> {
        Some(&self.drops)
    }
}

impl Drop for OfProgram {
    fn drop(&mut self) {
        let (release, user): (_, *mut c_void) = (self.calls.release, self.calls.user);
        if let Some(release) = release {
            // SAFETY: the program's function, called once, as the header says.
            entry::callback(|| unsafe { release(user) });
        }
    }
}
