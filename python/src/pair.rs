//! Two stacks joined by a link in memory: perfect, or with rate, delay, loss and the rest of the
//! link model; in real time, each driven by a thread, or in virtual time.
//!
//! Called by: `python/wirespeed/_pair.py`.

use core::time::Duration as SystemDuration;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use link::{Counts, Loss, Settings, Shape, Shaped};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use wirespeed::device::capture::{Capture, CaptureStatus};
use wirespeed::device::{Device, Offloads, mem, nic};
use wirespeed::net::Net;
use wirespeed::pair::{PairConfig, VirtualClock, addresses, end};
use wirespeed::{Duration, Instant, Mtu};

use crate::error::{numbered, raise};
use crate::stack::{Stack, seed};
use crate::world::World;

/// The largest frame of a perfect link: a super-segment with its headers.
const SUPER_FRAME_MAX: usize = 65_535;

/// The settings of a direction, as `_pair.py` passes them: times in nanoseconds, probabilities from
/// 0 to 1.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Direction {
    rate_bps: Option<u64>,
    delay_ns: u64,
    jitter_ns: u64,
    loss: f64,
    late: f64,
    late_by_ns: u64,
    duplicate: f64,
    corrupt: f64,
    queue_bytes: usize,
}

impl Direction {
    fn settings(&self) -> PyResult<Settings> {
        let probabilities = [self.loss, self.late, self.duplicate, self.corrupt];
        if probabilities.iter().any(|p| !(0.0..=1.0).contains(p)) {
            return Err(PyValueError::new_err("a probability is a number from 0 to 1"));
        }
        if self.rate_bps == Some(0) {
            return Err(PyValueError::new_err("a rate of zero carries nothing: use loss=1"));
        }
        Ok(Settings {
            rate_bps: self.rate_bps,
            delay: Duration::from_nanos(self.delay_ns),
            jitter: Duration::from_nanos(self.jitter_ns),
            loss: if self.loss > 0.0 { Loss::Random(self.loss) } else { Loss::Never },
            late: self.late,
            late_by: Duration::from_nanos(self.late_by_ns),
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            queue_bytes: self.queue_bytes,
            ..Settings::default()
        })
    }
}

/// The path between the stacks of a pair. Direction 0 is from `a` to `b`.
#[pyclass(frozen, module = "wirespeed._native")]
pub(crate) struct Path {
    /// `None`: the link is perfect.
    shape: Option<Shape>,
    capture: Option<CaptureStatus>,
}

#[pymethods]
impl Path {
    /// Change a direction. Packets in flight are not affected.
    fn set(&self, direction: usize, settings: Direction) -> PyResult<()> {
        let settings = settings.settings()?;
        match &self.shape {
            Some(shape) => {
                shape.set(direction, settings);
                Ok(())
            }
            None => Err(PyValueError::new_err(
                "this pair has a perfect link: give it a delay, a loss or a rate when it is made",
            )),
        }
    }

    /// End the capture: its file is complete when the stack next looks at its device.
    fn finish(&self) -> PyResult<()> {
        let Some(status) = &self.capture else { return Ok(()) };
        status.stop();
        match status.error() {
            None => Ok(()),
            Some(error) => Err(raise(&std::io::Error::other(error))),
        }
    }

    /// What happened to the packets of a direction, by name.
    fn counts<'py>(&self, py: Python<'py>, direction: usize) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        let Some(shape) = &self.shape else { return Ok(found) };
        let Some(counts) = shape.counts().get(direction).copied() else {
            return Err(PyValueError::new_err("a path has the directions 0 and 1"));
        };
        for (name, count) in named(&counts) {
            found.set_item(name, count)?;
        }
        Ok(found)
    }
}

fn named(counts: &Counts) -> [(&'static str, u64); 7] {
    [
        ("sent", counts.sent),
        ("arrived", counts.arrived),
        ("queue_full", counts.queue_full),
        ("lost", counts.lost),
        ("late", counts.late),
        ("duplicated", counts.duplicated),
        ("corrupted", counts.corrupted),
    ]
}

/// The clock of the link: that of the stacks.
enum Clock {
    /// Begins when the stacks begin.
    Real(Arc<OnceLock<std::time::Instant>>),
    Virtual(VirtualClock),
}

impl Clock {
    fn of_devices(&self) -> nic::Clock {
        match self {
            Clock::Virtual(clock) => clock.of_devices(),
            Clock::Real(began) => {
                let began = began.clone();
                Arc::new(move || Instant::ZERO + Duration::from(age(&began)))
            }
        }
    }
}

fn age(began: &OnceLock<std::time::Instant>) -> SystemDuration {
    began.get().map_or(SystemDuration::ZERO, std::time::Instant::elapsed)
}

/// The device, whose frames are written to a file if the program names one.
fn captured(
    device: mem::Mem,
    path: Option<PathBuf>,
    clock: &Clock,
) -> PyResult<(Box<dyn Device>, Option<CaptureStatus>)> {
    let Some(path) = path else { return Ok((Box::new(device), None)) };
    let file = File::create(&path).map_err(|error| {
        let text = format!(
            "the capture cannot be written to {}: {error}; name a file in a folder that exists and \
             is yours to write",
            path.display()
        );
        numbered(wirespeed::net::errno(&error), &text)
    })?;
    let clock = clock.of_devices();
    let since = move || SystemDuration::from_nanos(clock().as_nanos());
    let (device, status) =
        Capture::new(device, file, since).map_err(|e| raise(&std::io::Error::other(e)))?;
    Ok((Box::new(device), Some(status)))
}

/// Make a pair: the two stacks, their path, and the world in virtual time.
#[pyfunction]
pub(crate) fn pair(
    py: Python<'_>,
    directions: Option<[Direction; 2]>,
    mtu: usize,
    secret: u128,
    is_virtual: bool,
    capture: Option<PathBuf>,
) -> PyResult<(Stack, Stack, Path, Option<Py<World>>)> {
    let mtu = Mtu::new(mtu)
        .ok_or_else(|| PyValueError::new_err("an MTU is a number from 68 to 65535"))?;
    let clock = match is_virtual {
        true => Clock::Virtual(VirtualClock::default()),
        false => Clock::Real(Arc::default()),
    };
    let mut config = PairConfig::new(seed(secret));
    // Memory does not corrupt frames, and a frame may be a super-segment. A link with a model cuts
    // them to what a wire carries.
    config.wire.mtu = mtu;
    config.wire.offloads = Offloads {
        tx_checksum: directions.is_none(),
        rx_checksum: directions.is_none(),
        tso_max_bytes: SUPER_FRAME_MAX,
        ..Offloads::default()
    };
    let (left, right) = mem::pair(&config.wire);
    let (left, capture) = captured(left, capture, &clock)?;
    let (left, shape): (Box<dyn Device>, _) = match directions {
        None => (left, None),
        Some([there, back]) => {
            let settings = [there.settings()?, back.settings()?];
            let [high, low] = seed(secret);
            let (shaped, shape) = Shaped::new(left, settings, high ^ low, clock.of_devices());
            (Box::new(shaped), Some(shape))
        }
    };
    let path = Path { shape, capture };
    let (a, b) = (end(&config, left, 1), end(&config, right, 2));
    let (of_a, of_b) = (addresses(1).to_vec(), addresses(2).to_vec());
    match clock {
        Clock::Real(began) => {
            // Both stacks' clocks begin here too, some microseconds later.
            began.get_or_init(std::time::Instant::now);
            py.detach(|| {
                let (a, b) = (Stack::driven(a.stack, of_a)?, Stack::driven(b.stack, of_b)?);
                Ok((a, b, path, None))
            })
        }
        Clock::Virtual(clock) => {
            let (net_a, steps_a) = Net::stepped(a.stack, clock.clone());
            let (net_b, steps_b) = Net::stepped(b.stack, clock.clone());
            let world = Py::new(py, World::new(clock, vec![steps_a, steps_b]))?;
            let a = Stack::in_world(net_a, of_a, world.clone_ref(py));
            let b = Stack::in_world(net_b, of_b, world.clone_ref(py));
            Ok((a, b, path, Some(world)))
        }
    }
}
