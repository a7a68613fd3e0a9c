//! The machine of a run, without which its figures cannot be compared.
//!
//! Called by: the lab, before an experiment begins.

use std::fs;

use serde::Serialize;

/// The machine, and how quiet it was when the run began.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu_model: String,
    /// Logical processors that this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Load averages over 1, 5 and 15 minutes.
    pub load_average: [f64; 3],
    /// "optimised", or "with debug assertions", which is several times slower.
    pub build: &'static str,
}

impl Machine {
    /// Reads /proc; what cannot be read is "unknown" or 0.
    pub fn now() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let model = info.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
        let kernel = read("/proc/sys/kernel/osrelease");
        let named = |text: &str| if text.is_empty() { "unknown" } else { text }.to_owned();
        let mut load_average = [0.0; 3];
        for (slot, word) in load_average.iter_mut().zip(read("/proc/loadavg").split(' ')) {
            *slot = word.parse().unwrap_or_default();
        }
        Machine {
            cpu_model: named(model.unwrap_or_default()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: named(kernel.trim()),
            load_average,
            build: if cfg!(debug_assertions) { "with debug assertions" } else { "optimised" },
        }
    }
}
