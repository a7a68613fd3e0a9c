//! A wrapper that writes every frame of a device, sent and received, to a pcapng file.
//!
//! Called by: programs, around any device; they pass the clock. Counters:
//! [`CaptureStatus::frames`]. Source: draft-ietf-opsawg-pcapng.
//!
//! Each frame is written with its direction and a time in nanoseconds, which is the time of its
//! burst. Frames are written unchanged. If the device is to finish the checksum, the field contains
//! the pseudo-header's sum; a super-segment is one packet. A comment on the packet says so.
//!
//! Traffic has priority. If writing fails, for example because the disk is full, the capture stops
//! with an error in [`CaptureStatus`], and frames still pass. Writes are buffered and happen on the
//! thread that drives the device, so use a fast file, or a pipe to another thread.
//!
//! ```
//! # mod wirespeed { pub use {base::*, wirespeed_device as device}; }
//! use std::time::{SystemTime, UNIX_EPOCH};
//! use wirespeed::device::{capture::Capture, mem};
//!
//! let (device, _other) = mem::pair(&mem::Config::default());
//! let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
//! let (device, status) = Capture::new(device, Vec::new(), clock)?; // or a file
//! // `device` goes to `Stack::add_port`; `status` says how much was written.
//! assert_eq!(status.frames(), 0);
//! # drop(device);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::borrow::Cow;
use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex, PoisonError};

use base::{Drops, LinkKind};
use mbuf::{Flags, Mbuf, Pool};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::{PcapNgWriteError, PcapNgWriter};

use crate::wrap::{Tally, pass_sleep, pass_through};
use crate::{Burst, Device};

/// Size of the write buffer in bytes.
const BUFFER: usize = 256 << 10;

/// Direction bits of `epb_flags`, section 4.3.1.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Why a capture stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureError {
    /// Frames that were captured before the error. The last of them were in memory, and are not in
    /// the file.
    pub frames: u64,
    /// The error of the write.
    pub cause: String,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the capture has ended: {}. It had {} frames, the last of which are not in the file. \
             Make room (see `df -h`) or choose another place, and start a new capture; traffic \
             goes on",
            self.cause, self.frames
        )
    }
}

impl core::error::Error for CaptureError {}

#[derive(Debug, Default)]
struct Shared {
    frames: Tally,
    stop: AtomicBool,
    has_failed: AtomicBool,
    error: Mutex<Option<CaptureError>>,
}

/// The state of a capture. It can be used on any thread, also when the device is gone.
#[derive(Clone, Debug, Default)]
pub struct CaptureStatus(Arc<Shared>);

impl CaptureStatus {
    /// Frames written; the newest may still be in the buffer.
    pub fn frames(&self) -> u64 {
        self.0.frames.total()
    }

    /// Has the capture stopped with an error? Costs one load.
    pub fn has_failed(&self) -> bool {
        self.0.has_failed.load(Ordering::Relaxed)
    }

    /// Why the capture stopped; `None` while it runs, and after [`CaptureStatus::stop`].
    pub fn error(&self) -> Option<CaptureError> {
        self.0.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// End the capture; the file is complete when the device is next used, or dropped.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }

    fn fail(&self, error: &PcapNgWriteError) {
        let cause = match error {
            PcapNgWriteError::Io(error) => error.to_string(),
            other => other.to_string(),
        };
        let error = CaptureError { frames: self.frames(), cause };
        *self.0.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.0.has_failed.store(true, Ordering::Relaxed);
    }
}

/// A device whose frames are written to a file.
pub struct Capture<D, W: Write, C> {
    device: D,
    /// `None` once the capture has ended.
    file: Option<PcapNgWriter<BufWriter<W>>>,
    clock: C,
    status: CaptureStatus,
    /// How many frames at the front of the burst were pushed back and are already in the file.
    written: usize,
    /// May the buffer contain bytes?
    unflushed: bool,
}

impl<D: Device, W: Write + Send, C: FnMut() -> Duration + Send> Capture<D, W, C> {
    /// Wrap `device` and write every frame to `file`. `clock` gives the time since 1970 in UTC.
    ///
    /// # Errors
    /// The file's header blocks cannot be written. Then nothing is captured.
    pub fn new(device: D, file: W, clock: C) -> Result<(Self, CaptureStatus), CaptureError> {
        let status = CaptureStatus::default();
        let file = begin(file, device.limits().link).map_err(|error| {
            status.fail(&error);
            status.error().unwrap_or(CaptureError { frames: 0, cause: error.to_string() })
        })?;
        let capture = Capture {
            device,
            file: Some(file),
            clock,
            status: status.clone(),
            written: 0,
            unflushed: false,
        };
        Ok((capture, status))
    }

    /// Write these frames, all with the same time.
    fn record(&mut self, frames: &[Mbuf], direction: u32) {
        if frames.is_empty() {
            return;
        }
        let Some(file) = &mut self.file else { return };
        let time = (self.clock)();
        for frame in frames {
            if let Err(error) = file.write_pcapng_block(block(frame, time, direction)) {
                self.status.fail(&error);
                self.file = None;
                return;
            }
            self.status.0.frames.add(1);
        }
        self.unflushed = true;
    }

    /// Called when no frame was received, and when the capture is stopped.
    fn flush(&mut self) {
        if !core::mem::take(&mut self.unflushed) {
            return;
        }
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.get_mut().flush() {
            self.status.fail(&error.into());
            self.file = None;
        }
    }

    fn end_if_asked(&mut self) {
        if self.file.is_some() && self.status.0.stop.load(Ordering::Relaxed) {
            self.flush();
            self.file = None;
        }
    }
}

/// Write the section header and the description of the one interface.
fn begin<W: Write>(
    file: W,
    link: LinkKind,
) -> Result<PcapNgWriter<BufWriter<W>>, PcapNgWriteError> {
    let mut file = PcapNgWriter::new(BufWriter::with_capacity(BUFFER, file))?;
    let linktype = match link {
        LinkKind::Ethernet => DataLink::ETHERNET,
        LinkKind::Ip => DataLink::RAW,
    };
    file.write_pcapng_block(InterfaceDescriptionBlock {
        linktype,
        snaplen: 0,
        options: vec![
            InterfaceDescriptionOption::IfName("wirespeed".into()),
            InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
        ],
    })?;
    file.get_mut().flush()?;
    Ok(file)
}

fn block(frame: &Mbuf, timestamp: Duration, direction: u32) -> EnhancedPacketBlock<'_> {
    let mut options = vec![EnhancedPacketOption::Flags(direction)];
    if let Some(comment) = comment(frame) {
        options.push(EnhancedPacketOption::Common(CommonOption::Comment(comment)));
    }
    EnhancedPacketBlock {
        interface_id: 0,
        timestamp,
        original_len: frame.len() as u32,
        data: Cow::Borrowed(frame.as_slice()),
        options,
    }
}

/// The packet's comment, which says that the frame is unfinished.
fn comment(frame: &Mbuf) -> Option<Cow<'static, str>> {
    match (frame.has(Flags::CSUM_PARTIAL), frame.segment_size()) {
        (false, 0) => None,
        (true, 0) => Some("transport checksum left to the device".into()),
        (false, size) => Some(format!("super-segment, to be cut every {size} bytes").into()),
        (true, size) => Some(
            format!(
                "super-segment, to be cut every {size} bytes; transport checksum left to the device"
            )
            .into(),
        ),
    }
}

impl<D, W, C> Device for Capture<D, W, C>
where
    D: Device,
    W: Write + Send,
    C: FnMut() -> Duration + Send,
{
    pass_through!();
    pass_sleep!();

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        self.end_if_asked();
        let before = into.len();
        let count = self.device.rx_burst(pool, into);
        if count == 0 {
            self.flush();
        }
        self.record(into.get(before..).unwrap_or_default(), INBOUND);
        count
    }

    /// Writes each frame when it is first offered, because the device may take it.
    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        self.end_if_asked();
        let new = from.get(self.written..).unwrap_or_default();
        self.record(new, OUTBOUND);
        let taken = self.device.tx_burst(pool, from);
        self.written = from.len();
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
}

impl<D, W: Write, C> Drop for Capture<D, W, C> {
    /// Flushes the last frames. If that fails, the status contains the error.
    fn drop(&mut self) {
        if let Some(file) = &mut self.file
            && let Err(error) = file.get_mut().flush()
        {
            self.status.fail(&error.into());
        }
    }
}
