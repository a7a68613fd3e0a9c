//! [`Pump`]: moves frames between a device of smoltcp and a port, on the device's thread.
//!
//! Called by: programs whose device cannot leave its thread; smoltcp's `TunTapInterface` and
//! `RawSocket` are such devices. Limits: those of the channel; a frame that finds it full is
//! dropped, as by a network card whose ring is full. Counter: [`Pump::dropped`].

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
    frame: Vec<u8>,
    /// Bytes in `frame` that the device had no token for.
    waiting: usize,
    dropped: u64,
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
        Ok((Pump { device, end, link, frame, waiting: 0, dropped: 0 }, channel))
    }

    /// Move all frames that wait on both sides; returns how many. Call it when the device is
    /// readable, and at an interval of a few milliseconds for frames of the stack.
    pub fn turn(&mut self, now: Instant) -> usize {
        let mut moved = 0;
        let caps = self.device.capabilities().checksum;
        while let Some((token, _)) = self.device.receive(now) {
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
                break;
            }
        }
        while self.waiting > 0 || self.fetch() {
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

    /// The next frame of the stack, into `frame`.
    fn fetch(&mut self) -> bool {
        match self.end.try_recv(&mut self.frame) {
            Ok(len) => self.waiting = len,
            Err(RecvError::TooSmall(len)) => {
                // No frame is longer than the channel's limits; room for one that is.
                self.frame.resize(len, 0);
                self.waiting = self.end.try_recv(&mut self.frame).unwrap_or(0);
            }
            Err(RecvError::Empty | RecvError::Closed) => {}
        }
        self.waiting > 0
    }

    /// Received frames that found the channel full, or the stack gone.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The device, for its descriptor.
    pub fn device(&self) -> &D {
        &self.device
    }
}
