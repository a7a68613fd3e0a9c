//! One direction of a link with any settings: every packet is accounted for once, nothing arrives
//! before its time, and looking more often changes nothing.
//!
//! Called by: the target `link`. The laws are those that `crates/core/link` states of itself.

use arbitrary::{Result, Unstructured};
use base::{Duration, Instant, LinkKind, Mtu};
use link::{Aqm, Direction, Loss, Outage, Settings};
use mbuf::Pool;

/// Packets of a script; each is a kilobyte or so.
const PACKETS_MAX: usize = 200;

/// Any span of time: none, or a number whose size in bits is drawn first.
fn span(u: &mut Unstructured<'_>) -> Result<Duration> {
    let bits: u8 = u.int_in_range(0..=64)?;
    let value: u64 = u.arbitrary()?;
    Ok(Duration::from_nanos(value.checked_shr(64 - u32::from(bits)).unwrap_or(0)))
}

/// A span that a path may have: below seventeen seconds, so that scripts get somewhere.
fn short(u: &mut Unstructured<'_>) -> Result<Duration> {
    Ok(Duration::from_nanos(span(u)?.as_nanos() >> 30))
}

/// A probability, and sometimes a number that is none.
fn probability(u: &mut Unstructured<'_>) -> Result<f64> {
    Ok(match u.arbitrary::<u8>()? {
        0..=127 => 0.0,
        128..=143 => 1.0,
        144..=147 => *u.choose(&[f64::NAN, -1.0, 2.0, f64::INFINITY])?,
        other => f64::from(other - 147) / 256.0,
    })
}

fn settings(u: &mut Unstructured<'_>) -> Result<Settings> {
    let loss = match u.int_in_range(0..=2)? {
        0 => Loss::Never,
        1 => Loss::Random(probability(u)?),
        _ => Loss::Burst {
            begin: probability(u)?,
            end: probability(u)?,
            good: probability(u)?,
            bad: probability(u)?,
        },
    };
    let aqm = if u.arbitrary()? {
        Aqm::CoDel { target: short(u)?, interval: short(u)?, ecn: u.arbitrary()? }
    } else {
        Aqm::None
    };
    let mut outages = Vec::new();
    for _ in 0..u.int_in_range(0..=2)? {
        let from = Instant::ZERO + short(u)?;
        outages.push(Outage { from, until: from + short(u)? });
    }
    let wild = u.ratio(1, 8)?;
    Ok(Settings {
        rate_bps: u.arbitrary::<bool>()?.then(|| span(u).map(Duration::as_nanos)).transpose()?,
        delay: if wild { span(u)? } else { short(u)? },
        jitter: if wild { span(u)? } else { short(u)? },
        loss,
        late: probability(u)?,
        late_by: if wild { span(u)? } else { short(u)? },
        duplicate: probability(u)?,
        corrupt: probability(u)?,
        mtu: Mtu::new(u.arbitrary::<u16>()?.into()).unwrap_or(Mtu::MAX),
        queue_bytes: u.arbitrary::<u32>()? as usize,
        aqm,
        outages,
        exempt_bytes: u.arbitrary::<u8>()?.into(),
        link: if u.arbitrary()? { LinkKind::Ethernet } else { LinkKind::Ip },
    })
}

/// One step of a script.
enum Step {
    /// A packet of this many bytes, which begins with this byte.
    Send(usize, u8),
    /// Time goes on.
    Wait(Duration),
    /// Take the packets that have arrived.
    Take,
    /// From now on it is another link.
    Become(Box<Settings>),
}

fn script(u: &mut Unstructured<'_>) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    while !u.is_empty() && steps.len() < PACKETS_MAX {
        steps.push(match u.arbitrary::<u8>()? {
            0..=127 => Step::Send(usize::from(u.arbitrary::<u16>()? & 0x7ff), u.arbitrary()?),
            128..=191 => Step::Wait(short(u)?),
            192..=250 => Step::Take,
            _ => Step::Become(Box::new(settings(u)?)),
        });
    }
    Ok(steps)
}

/// A packet that arrived: its time, its length, and the sum of its bytes.
type Arrival = (Instant, usize, u64);

struct Run {
    direction: Direction,
    pool: Pool,
    arrivals: Vec<Arrival>,
    sent: u64,
}

impl Run {
    fn new(settings: Settings, seed: u64) -> Run {
        let mut direction = Direction::new(settings, seed);
        direction.watch();
        Run { direction, pool: Pool::new(64 << 20), arrivals: Vec::new(), sent: 0 }
    }

    fn take(&mut self, now: Instant) {
        while let Some((frame, at)) = self.direction.receive(now, &mut self.pool) {
            assert!(at <= now, "it comes from the future");
            let bytes = frame.as_slice();
            let sum = bytes.iter().zip(1..).map(|(&b, place)| u64::from(b) * place).sum();
            self.arrivals.push((at, bytes.len(), sum));
            self.pool.free(frame);
        }
    }

    fn send(&mut self, len: usize, first: u8, now: Instant) {
        let mut bytes = vec![0x45; len];
        bytes.iter_mut().step_by(97).for_each(|b| *b = first);
        let Some(frame) = self.pool.copy_of(&bytes) else { return };
        self.sent += 1;
        self.direction.send(frame, now, &mut self.pool);
    }

    /// Every packet that came is lost once, or arrived, or is still there.
    fn account(&self) {
        let c = self.direction.counts();
        let lost = c.queue_full + c.codel + c.too_long + c.cut + c.lost + c.overfull;
        let there = self.direction.len() as u64;
        assert_eq!(c.sent, self.sent);
        assert_eq!(c.sent + c.duplicated, c.arrived + lost + there, "{c:?}, {there} there");
        assert_eq!(c.arrived, self.arrivals.len() as u64);
    }

    fn finish(mut self) -> Vec<Arrival> {
        // Each look advances the time; packets that never arrive (a delay without end) are left.
        let mut last = Instant::ZERO;
        for _ in 0..4 * PACKETS_MAX + 16 {
            let next = self.direction.next_event();
            if next == Instant::NEVER {
                break;
            }
            last = last.max(next);
            self.take(last);
            self.account();
        }
        let stuck = !self.direction.is_empty() && self.direction.next_event() != Instant::NEVER;
        assert!(!stuck, "{} packets never come", self.direction.len());
        while let Some(lost) = self.direction.next_lost() {
            self.pool.free(lost.frame);
        }
        let Run { direction, mut pool, arrivals, .. } = self;
        drop(direction);
        assert_eq!(pool.outstanding(), 0, "buffers are gone");
        arrivals
    }
}

/// Any settings, any packets, any times; once more with looks in between.
pub fn any_settings(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(settings) = settings(&mut u) else { return };
    let seed = u.arbitrary().unwrap_or(1);
    let Ok(steps) = script(&mut u) else { return };
    let mut rarely = go(Run::new(settings.clone(), seed), &steps, false);
    let mut often = go(Run::new(settings, seed), &steps, true);
    for all in [&mut rarely, &mut often] {
        assert!(all.is_sorted_by_key(|arrival| arrival.0), "an arrival before the one before it");
        // Packets that arrive at the same moment may come in any order.
        all.sort_unstable();
    }
    for (number, (rarely, often)) in rarely.iter().zip(&often).enumerate() {
        assert_eq!(rarely, often, "who looks more often sees another arrival {number}");
    }
    assert_eq!(rarely.len(), often.len(), "who looks more often sees more or less");
}

fn go(mut run: Run, steps: &[Step], often: bool) -> Vec<Arrival> {
    let mut now = Instant::ZERO;
    for step in steps {
        match step {
            Step::Send(len, first) => run.send(*len, *first, now),
            Step::Take => run.take(now),
            Step::Become(settings) => {
                run.direction.set_settings((**settings).clone(), now, &mut run.pool);
            }
            Step::Wait(by) if often => {
                let half = now + by.div(2);
                let _ = run.direction.next_event();
                run.take(half);
                now += *by;
                run.take(now);
            }
            Step::Wait(by) => now += *by,
        }
        run.account();
    }
    run.finish()
}
