//! The wrappers that `--fault` and `--capture` put around a device.
//!
//! Called by: `ttcp.rs`. The capture is next to the device, so it has the frames as sent, faults
//! included.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use wirespeed::Device;
use wirespeed::device::capture::{Capture, CaptureStatus};
use wirespeed::device::fault::{Config, Done, Fault, FaultCounts, Rng};

use super::values::Faults;
use crate::clock::since_1970;

/// Handles to the wrappers.
#[derive(Default)]
pub(super) struct Wrapped {
    faults: Option<FaultCounts>,
    capture: Option<CaptureStatus>,
}

impl Wrapped {
    pub(super) fn around(
        &mut self,
        mut device: Box<dyn Device>,
        faults: Option<Faults>,
        capture: Option<&Path>,
    ) -> Result<Box<dyn Device>> {
        if let Some(path) = capture {
            let name = || format!("cannot write the capture to {}", path.display());
            let file = File::create(path).with_context(name)?;
            let (capture, status) = Capture::new(device, file, since_1970).with_context(name)?;
            self.capture = Some(status);
            device = Box::new(capture);
        }
        if let Some(Faults { odds, seed }) = faults {
            let config = Config { rx: odds, tx: odds, ..Config::default() };
            let (fault, counts) = Fault::new(device, &config, Rng::new(seed));
            self.faults = Some(counts);
            device = Box::new(fault);
        }
        Ok(device)
    }

    /// Counts of the faults, receiving and sending.
    pub(super) fn faults(&self) -> Option<(Done, Done)> {
        self.faults.as_ref().map(|f| (f.rx(), f.tx()))
    }

    /// Number of captured frames.
    pub(super) fn captured(&self) -> Option<u64> {
        self.capture.as_ref().map(CaptureStatus::frames)
    }

    pub(super) fn capture_error(&self) -> Option<wirespeed::device::capture::CaptureError> {
        self.capture.as_ref()?.error()
    }
}
