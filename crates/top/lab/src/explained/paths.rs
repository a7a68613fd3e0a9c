//! Situations whose limit is on the path between the ends: loss, queues, rates, outages, a small
//! MTU.
//!
//! Called by: `situations`.

use base::{Duration, Instant};
use link::{Aqm, Loss, Outage, Settings};
use tcp::Ecn;
use tcp::cc::Algorithm;

use super::draw::Draw;
use super::programs::setup;
use super::world::Setup;

/// Packets that are not longer are exempt from impairments, so that ACKs pass.
const EXEMPT_BYTES: usize = 100;

/// An outage from this time on, for good.
fn from(at: Duration) -> Vec<Outage> {
    vec![Outage { from: Instant::ZERO + at, until: Instant::NEVER }]
}

/// A bottleneck of this rate, and a queue of this many round trips.
fn bottleneck(round_trip: Duration, rate_bps: u64, round_trips: f64) -> Setup {
    let mut setup = setup(round_trip);
    let bdp = rate_bps as f64 / 8.0 * round_trip.as_secs_f64();
    setup.links.0.rate_bps = Some(rate_bps);
    setup.links.0.queue_bytes = (bdp * round_trips) as usize;
    setup.from = Duration::from_secs(5);
    setup
}

fn rate(d: &mut Draw, low: f64, high: f64) -> u64 {
    d.magnitude(low * 1e6, high * 1e6) as u64
}

pub(super) fn no_answer(d: &mut Draw) -> Setup {
    let mut setup = setup(d.ms(1, 100));
    setup.links.0.outages = from(Duration::ZERO);
    setup
}

pub(super) fn dead(d: &mut Draw) -> Setup {
    let mut setup = bottleneck(d.ms(1, 100), rate(d, 5.0, 100.0), 1.0);
    let at = d.ms(1000, 4000);
    setup.links.0.outages = from(at);
    setup.links.1.outages = from(at);
    setup.length = Duration::from_secs(5);
    setup.from = at + Duration::from_secs(1);
    setup
}

/// A link that is unplugged at either end; in about one of five draws before the first SYN.
pub(super) fn unplugged(d: &mut Draw) -> Setup {
    let setup = bottleneck(d.ms(1, 100), rate(d, 5.0, 100.0), 1.0);
    let (at, at_acceptor) = (d.ms(1000, 4000), d.range(0, 1) == 1);
    let (at, at_acceptor) = match d.range(0, 4) {
        0 => (Duration::ZERO, false),
        _ => (at, at_acceptor),
    };
    let from = at + Duration::from_secs(1);
    Setup { unplugged: Some(at), from, at_acceptor, ..setup }
}

pub(super) fn lossy_to_us(d: &mut Draw) -> Setup {
    Setup { at_acceptor: true, ..loss(d) }
}

pub(super) fn black_hole(d: &mut Draw) -> Setup {
    let mut setup = setup(d.ms(5, 100));
    let (mtu, at) = (d.range(1240, 1440) as usize, d.ms(1000, 3000));
    setup.hook = Some(Box::new(move |now, seen| {
        let packet = seen.len as usize + 52;
        now < Instant::ZERO + at || packet <= mtu
    }));
    setup.links.0.rate_bps = Some(rate(d, 5.0, 100.0));
    setup.from = at.saturating_sub(Duration::from_millis(500));
    setup
}

pub(super) fn loss(d: &mut Draw) -> Setup {
    let mut setup = bottleneck(d.ms(20, 100), rate(d, 200.0, 1000.0), 1.0);
    setup.links.0.loss = Loss::Random(d.magnitude(0.003, 0.03));
    setup.links.0.exempt_bytes = EXEMPT_BYTES;
    setup
}

pub(super) fn policer(d: &mut Draw) -> Setup {
    let mut setup = setup(d.ms(10, 60));
    let bytes_per_s = rate(d, 5.0, 30.0) as f64 / 8.0;
    let most = bytes_per_s * d.ms(10, 40).as_secs_f64();
    let (mut tokens, mut filled) = (most, Instant::ZERO);
    setup.hook = Some(Box::new(move |now, seen| {
        tokens = (tokens + bytes_per_s * now.since(filled).as_secs_f64()).min(most);
        filled = now;
        let bytes = f64::from(seen.len + 52);
        let passes = seen.len == 0 || tokens >= bytes;
        if passes && seen.len > 0 {
            tokens -= bytes;
        }
        passes
    }));
    setup.from = Duration::from_secs(5);
    setup
}

pub(super) fn bloat(d: &mut Draw) -> Setup {
    let mut setup = bottleneck(d.ms(5, 40), rate(d, 5.0, 100.0), d.between(4.0, 10.0));
    setup.from = Duration::from_secs(10);
    setup
}

pub(super) fn link_rate(d: &mut Draw) -> Setup {
    bottleneck(d.ms(10, 80), rate(d, 5.0, 100.0), d.between(0.5, 1.0))
}

pub(super) fn marks(d: &mut Draw) -> Setup {
    let mut setup = bottleneck(d.ms(10, 30), rate(d, 5.0, 30.0), 4.0);
    setup.links.0.aqm = Aqm::CoDel {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        ecn: true,
    };
    (setup.config.0.ecn, setup.config.1.ecn) = (Ecn::On, Ecn::On);
    setup
}

pub(super) fn pacing(d: &mut Draw) -> Setup {
    let mut setup = bottleneck(d.ms(10, 80), rate(d, 5.0, 100.0), d.between(0.5, 4.0));
    setup.config.0.algorithm = Algorithm::Bbr;
    setup
}

pub(super) fn reordering(d: &mut Draw) -> Setup {
    let round_trip = d.ms(10, 60);
    let mut setup = bottleneck(round_trip, rate(d, 300.0, 500.0), 2.0);
    let late_by = round_trip.as_secs_f64() * d.between(1.5, 3.0);
    setup.links.0 = Settings {
        late: d.between(0.01, 0.05),
        late_by: Duration::from_micros((late_by * 1e6) as u64),
        exempt_bytes: EXEMPT_BYTES,
        ..setup.links.0
    };
    setup
}

pub(super) fn growing(d: &mut Draw) -> Setup {
    let mut setup = bottleneck(d.ms(150, 300), 10_000_000_000, 1.0);
    let (at, mut left) = (Instant::ZERO + d.ms(1000, 2000), d.range(2, 6));
    setup.hook = Some(Box::new(move |now, seen| {
        let drops = now >= at && seen.len > 0 && left > 0;
        left -= u64::from(drops);
        !drops
    }));
    setup
}

pub(super) fn device(d: &mut Draw) -> Setup {
    let mut setup = bottleneck(Duration::from_micros(d.range(100, 2000)), rate(d, 10.0, 30.0), 1.0);
    setup.links.0.queue_bytes = 1 << 30;
    setup.ports.0.waits_for_link = true;
    setup.ports.0.depth = d.range(16, 64) as usize;
    setup.from = Duration::from_secs(2);
    setup.length = Duration::from_secs(2);
    setup
}
