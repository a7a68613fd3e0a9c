//! A wire of smoltcp's kind with two ends: queues of frames, whose capabilities a test sets.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

pub(crate) type Frames = Arc<Mutex<VecDeque<Vec<u8>>>>;

pub(crate) struct End {
    pub(crate) rx: Frames,
    pub(crate) tx: Frames,
    pub(crate) medium: Medium,
    /// smoltcp's: the Ethernet header included.
    pub(crate) max_transmission_unit: usize,
    pub(crate) depth: usize,
    pub(crate) checksum: ChecksumCapabilities,
}

/// Two ends of one wire.
pub(crate) fn pair(medium: Medium, max_transmission_unit: usize, depth: usize) -> (End, End) {
    let (there, back) = (Frames::default(), Frames::default());
    let end = |rx: &Frames, tx: &Frames| End {
        rx: rx.clone(),
        tx: tx.clone(),
        medium,
        max_transmission_unit,
        depth,
        checksum: ChecksumCapabilities::default(),
    };
    (end(&back, &there), end(&there, &back))
}

impl Device for End {
    type RxToken<'a> = Rx;
    type TxToken<'a> = Tx<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        caps.medium = self.medium;
        caps.max_transmission_unit = self.max_transmission_unit;
        caps.checksum = self.checksum.clone();
        caps
    }

    fn receive(&mut self, now: Instant) -> Option<(Rx, Tx<'_>)> {
        if self.tx.lock().unwrap().len() >= self.depth {
            return None;
        }
        let frame = self.rx.lock().unwrap().pop_front()?;
        Some((Rx(frame), self.transmit(now)?))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Tx<'_>> {
        let room = self.tx.lock().unwrap().len() < self.depth;
        room.then_some(Tx(&self.tx, self.max_transmission_unit))
    }
}

pub(crate) struct Rx(Vec<u8>);

impl RxToken for Rx {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

pub(crate) struct Tx<'a>(&'a Frames, usize);

impl TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        assert!(len <= self.1, "a frame of {len} bytes, but the device takes {}", self.1);
        let mut frame = vec![0xaa; len];
        let result = f(&mut frame);
        self.0.lock().unwrap().push_back(frame);
        result
    }
}
