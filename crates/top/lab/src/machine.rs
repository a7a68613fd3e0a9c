//! The machine of a run. Figures cannot be compared without it.
//!
//! Called by: the lab, before an experiment begins.

use std::fs;

use serde::Serialize;

use crate::noise::Noise;

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
    /// How this program was built: "optimised", "with debug assertions" (several times slower), or
    /// "with an unoptimised lab" (the profile `release`).
    pub build: &'static str,
    /// How quiet the machine was.
    pub noise: Noise,
}

impl Machine {
    /// Reads /proc; a value that cannot be read is "unknown" or 0. Measures the noise for 100 ms.
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
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Machine {
            cpu_model: named(model.unwrap_or_default()),
            cores,
            kernel: named(kernel.trim()),
            load_average,
            noise: Noise::measure(load_average[0], cores),
            build: match env!("WIRESPEED_LAB_OPT_LEVEL") {
                _ if cfg!(debug_assertions) => "with debug assertions",
                "0" => "with an unoptimised lab",
                _ => "optimised",
            },
        }
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let [one, five, fifteen] = self.load_average;
        let cores = if self.cores == 1 { "core" } else { "cores" };
        format!(
            "{}, {} {cores} · Linux {} · load average {one} {five} {fifteen} at the start",
            self.cpu_model, self.cores, self.kernel
        )
    }

    /// The warning about a noisy machine; `None` on a quiet one.
    pub(crate) fn warning(&self) -> Option<String> {
        self.noise.warning(self.load_average[0])
    }
}
