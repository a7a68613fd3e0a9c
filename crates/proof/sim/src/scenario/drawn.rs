//! The random choices of a scenario: numbers, and the settings of hosts, ports and paths.
//!
//! Called by: `scenario.rs` and `scripts.rs`.

use base::{Duration, Instant, LinkKind, Mtu, Switch, Switches};
use device::Offloads;
use device::fault::Rng;
use link::{Aqm, Loss, Outage, Settings};

use crate::host::PortSettings;

/// A stream of random numbers.
pub(crate) struct Draw(pub(crate) Rng);

impl Draw {
    /// A number from `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below((high - low + 1) as usize) as u64
    }

    /// A number from `low` to `high`, each order of magnitude equally likely.
    pub(crate) fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let (from, to) = ((low.max(1) as f64).ln(), (high as f64).ln());
        let at = self.range(0, 1 << 20) as f64 / f64::from(1 << 20);
        ((from + (to - from) * at).exp() as u64).clamp(low, high)
    }

    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        self.0.happens(probability)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len())]
    }
}

/// The switches of a stack. Mostly all are on; sometimes each is chosen at random. Checksums are
/// always on, because without them corrupted data would be accepted.
pub(super) fn switches(draw: &mut Draw) -> Switches {
    let mut switches = Switches::default();
    if draw.happens(0.5) {
        return switches;
    }
    for &switch in Switch::ALL {
        if !matches!(switch, Switch::ChecksumRx | Switch::ChecksumTx) && draw.happens(0.3) {
            switches = switches.with(switch, false);
        }
    }
    switches
}

pub(super) fn port(link: LinkKind, draw: &mut Draw) -> PortSettings {
    let bytes = match draw.range(0, 3) {
        0 => draw.range(576, 1499),
        1 => draw.range(1280, 9000),
        _ => 1500,
    };
    let tx_checksum = draw.happens(0.3);
    let tso_max_bytes = if tx_checksum && draw.happens(0.7) { 65_535 } else { 0 };
    let is_shallow = draw.happens(0.2);
    PortSettings {
        link,
        mtu: Mtu::new(bytes as usize).unwrap_or(Mtu::ETHERNET),
        depth: if is_shallow { draw.range(2, 64) as usize } else { 1024 },
        depth_bytes: if is_shallow { draw.range(70, 256) as usize * 1024 } else { 1 << 20 },
        offloads: Offloads { tx_checksum, tso_max_bytes, ..Offloads::default() },
        waits_for_link: false,
    }
}

/// The settings of one direction of a link. Half of the directions have only a rate, a delay and a
/// queue, and no impairments.
pub(super) fn path(link: LinkKind, recovery: Instant, draw: &mut Draw) -> Settings {
    let rate_bps = draw.happens(0.9).then(|| draw.magnitude(200_000, 1_000_000_000));
    let mut path = Settings {
        rate_bps,
        delay: Duration::from_micros(draw.magnitude(1, 300_000)),
        queue_bytes: draw.magnitude(10_000, 2_000_000) as usize,
        link,
        ..Settings::default()
    };
    if draw.happens(0.2) {
        let [target, interval] = [5, 100].map(Duration::from_millis);
        path.aqm = Aqm::CoDel { target, interval, ecn: draw.happens(0.5) };
    }
    if draw.happens(0.4) {
        return path;
    }
    path.exempt_bytes = if draw.happens(0.3) { 100 } else { 0 };
    path.loss = match draw.range(0, 3) {
        0 => Loss::Random(draw.magnitude(10, 10_000) as f64 / 1e5),
        1 => Loss::Burst {
            begin: draw.magnitude(10, 5_000) as f64 / 1e5,
            end: 1.0 / draw.magnitude(2, 50) as f64,
            good: 0.0,
            bad: draw.range(3, 10) as f64 / 10.0,
        },
        _ => Loss::Never,
    };
    if draw.happens(0.3) {
        path.jitter = Duration::from_micros(draw.magnitude(1, 50_000));
    }
    if draw.happens(0.3) {
        path.late = draw.magnitude(10, 20_000) as f64 / 1e5;
        path.late_by = Duration::from_micros(draw.magnitude(100, 500_000));
    }
    if draw.happens(0.3) {
        path.duplicate = draw.magnitude(10, 20_000) as f64 / 1e5;
    }
    if draw.happens(0.3) {
        path.corrupt = draw.magnitude(10, 5_000) as f64 / 1e5;
    }
    if draw.happens(0.2) {
        let from = Instant::from_nanos(draw.range(0, recovery.as_nanos()));
        let length = Duration::from_millis(draw.magnitude(10, 20_000));
        path.outages.push(Outage { from, until: (from + length).min(recovery) });
    }
    path
}
