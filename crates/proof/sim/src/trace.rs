//! The trace of a replay: the last events, a row for each, and captures of every port.
//!
//! Called by: `world`, in a replay. Runs without a replay do not keep a trace, because a failure is
//! examined by running its seed again.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Instant;
use device::Device;
use device::capture::Capture;
use device::mem::Mem;

/// Rows and captures of one run. Clones share them, so that they survive a panic.
#[derive(Clone, Debug)]
pub struct Trace {
    now_ns: Arc<AtomicU64>,
    rows: Arc<Mutex<VecDeque<String>>>,
    rows_max: usize,
    captures: Option<PathBuf>,
    /// The errors of capture files that could not be made.
    trouble: Arc<Mutex<Vec<String>>>,
}

impl Trace {
    /// Keep the last `rows_max` rows; with `captures`, write `CAPTURES-hostHOST-portPORT.pcapng`.
    pub fn new(rows_max: usize, captures: Option<PathBuf>) -> Trace {
        Trace {
            now_ns: Arc::default(),
            rows: Arc::default(),
            rows_max,
            captures,
            trouble: Arc::default(),
        }
    }

    pub(crate) fn set_now(&self, now: Instant) {
        self.now_ns.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn row(&self, text: &str) {
        let now = self.now_ns.load(Ordering::Relaxed);
        let mut rows = lock(&self.rows);
        if rows.len() >= self.rows_max {
            rows.pop_front();
        }
        rows.push_back(format!("{:5}.{:09} {text}", now / 1_000_000_000, now % 1_000_000_000));
    }

    /// The rows so far, oldest first.
    pub fn rows(&self) -> Vec<String> {
        lock(&self.rows).iter().cloned().collect()
    }

    /// The errors of captures.
    pub fn trouble(&self) -> Vec<String> {
        lock(&self.trouble).clone()
    }

    /// The device of a port; if captures are wanted, with a capturing device around it.
    pub(crate) fn wrap(&self, device: Mem, host: usize, port: usize) -> Box<dyn Device> {
        let Some(prefix) = &self.captures else { return Box::new(device) };
        let path = PathBuf::from(format!("{}-host{host}-port{port}.pcapng", prefix.display()));
        let file = match File::create(&path) {
            Ok(file) => file,
            Err(error) => {
                let what = format!("{}: {error}; choose another place", path.display());
                lock(&self.trouble).push(what);
                return Box::new(device);
            }
        };
        let now_ns = self.now_ns.clone();
        let clock = move || Duration::from_nanos(now_ns.load(Ordering::Relaxed));
        match Capture::new(device, file, clock) {
            Ok((capture, _)) => Box::new(capture),
            Err(error) => {
                lock(&self.trouble).push(format!("{}: {error}", path.display()));
                // The failed attempt has consumed the device, so return a device whose other end is
                // gone.
                Box::new(device::mem::pair(&device::mem::Config::default()).0)
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
