//! [`Pump`]: moves frames between a device of smoltcp and a port, on the device's thread.
//!
//! Called by: programs whose device cannot leave its thread; smoltcp's `TunTapInterface` and
//! `RawSocket` are such devices. Limits: those of the channel; a frame that finds it full is
//! dropped, as by a network card whose ring is full. A turn moves at most as many frames each way
//! as the channel has room for, so a flood from one side does not stop the other one. Counter:
//! [`Pump::dropped`].

use base::LinkKind;
use device::Limits;
use device::channel::{Channel, Config, End, RecvError, SendError, pair};
use smoltcp::phy::{self, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::checksums;
use crate::from_phy::{NotAPort, limits};

/// A device of smoltcp, and the end of the channel that leads to its port.
pub struct Pump<D> {
    device: D,
    end: End,
    link: LinkKind,
    depth: usize,
    /// The longest frame that the device takes.
    max_frame: usize,
    frame: Vec<u8>,
    /// Bytes in `frame` that the device had no token for.
    waiting: usize,
    dropped: u64,
    is_closed: bool,
}

impl<D: phy::Device> Pump<D> {
    /// Make the pump, and the device for `Stack::add_port`, with room for `depth` frames.
    ///
    /// # Errors
    /// [`NotAPort`]: the stack has no such link.
    ///
    /// # Panics
    /// If `depth` is 0.
    pub fn new(device: D, depth: usize) -> Result<(Pump<D>, Channel), NotAPort> {
        let limits = limits(&device.capabilities())?;
        let Limits { link, mtu, max_frame, .. } = limits;
        let (channel, end) = pair(&Config { link, mtu, depth });
        let frame = vec![0; max_frame];
        let (waiting, dropped, is_closed) = (0, 0, false);
        let pump = Pump { device, end, link, depth, max_frame, frame, waiting, dropped, is_closed };
        Ok((pump, channel))
    }

    /// Move frames that wait on both sides; returns how many. Call it again at once if it moved
    /// some, when the device is readable, and at an interval of a few milliseconds for frames of
    /// the stack.
    pub fn turn(&mut self, now: Instant) -> usize {
        let mut moved = 0;
        let caps = self.device.capabilities().checksum;
        for _ in 0..self.depth {
            let Some((token, _)) = self.device.receive(now) else { break };
            let sent = token.consume(|bytes| {
                let mut frame = bytes.to_vec();
                if !checksums::all_in_software(&caps) {
                    checksums::completed(&mut frame, self.link, &caps);
                }
                self.end.try_send(&frame)
            });
            self.dropped += u64::from(sent.is_err());
            moved += usize::from(sent.is_ok());
            if sent == Err(SendError::Closed) {
                self.is_closed = true;
                break;
            }
        }
        for _ in 0..self.depth {
            if self.waiting == 0 && !self.fetch() {
                break;
            }
            let Some(token) = self.device.transmit(now) else { break };
            let bytes = &self.frame[..self.waiting];
            token.consume(bytes.len(), |room| {
                let n = bytes.len().min(room.len());
                room[..n].copy_from_slice(&bytes[..n]);
                checksums::sent(room, self.link, &caps);
            });
            self.waiting = 0;
            moved += 1;
        }
        moved
    }

    /// The next frame of the stack, into `frame`. The channel has room for VLAN tags, the device
    /// may have none: a frame that is too long for it is dropped.
    fn fetch(&mut self) -> bool {
        loop {
            match self.end.try_recv(&mut self.frame) {
                Ok(len) if len > self.max_frame => self.dropped += 1,
                Ok(len) => {
                    self.waiting = len;
                    return len > 0;
                }
                Err(RecvError::TooSmall(len)) => self.frame.resize(len, 0),
                Err(RecvError::Empty) => return false,
                Err(RecvError::Closed) => {
                    self.is_closed = true;
                    return false;
                }
            }
        }
    }

    /// Frames that were lost here: received ones that found the channel full or the stack gone, and
    /// those that were too long for the other side.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Is the stack gone, and did its last frames leave? Then the pump has nothing more to do.
    pub fn is_closed(&self) -> bool {
        self.is_closed && self.waiting == 0
    }

    /// The device, for its descriptor.
    pub fn device(&self) -> &D {
        &self.device
    }
}
