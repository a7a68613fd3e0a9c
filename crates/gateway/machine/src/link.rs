//! `--link`: the path between the program and the gateway, as a list of settings or by the name of
//! a kind of access.
//!
//! Called by: clap, which checks the text; the gateway's process, which reads it again. A value is
//! written as for `wirespeed wire` (docs/decisions/0061-values.md).

use ::link::units::{burst, bytes, codel, late, rate, share, time};
use base::{Duration, Mtu};
use link::{Aqm, Loss, Settings};

/// The number of the direction to the program, and of that from it.
const DOWN: usize = 0;
const UP: usize = 1;

/// The bytes that wait for this long at the rate are the queue of a kind of access.
const PRESET_QUEUE: Duration = Duration::from_millis(200);

/// A kind of access. Down and up: bits a second; then a round trip, jitter each way, loss each way.
struct Preset {
    name: &'static str,
    rate_bps: [u64; 2],
    rtt_ms: u64,
    jitter_ms: u64,
    loss: Loss,
}

/// What people have, not what they are sold. Rates and round trips of `dsl`, `3g` and `lte` are
/// those that tests of web pages use; a geostationary satellite is 36,000 km away.
const PRESETS: &[Preset] = &[
    Preset {
        name: "dsl",
        rate_bps: [1_500_000, 384_000],
        rtt_ms: 50,
        jitter_ms: 0,
        loss: Loss::Never,
    },
    Preset {
        name: "3g",
        rate_bps: [1_600_000, 768_000],
        rtt_ms: 300,
        jitter_ms: 20,
        loss: Loss::Never,
    },
    Preset {
        name: "lte",
        rate_bps: [12_000_000, 12_000_000],
        rtt_ms: 70,
        jitter_ms: 10,
        loss: Loss::Never,
    },
    Preset {
        name: "wifi-bad",
        rate_bps: [5_000_000, 2_000_000],
        rtt_ms: 40,
        jitter_ms: 30,
        loss: Loss::Burst { begin: 0.005, end: 0.25, good: 0.0, bad: 0.7 },
    },
    Preset {
        name: "satellite",
        rate_bps: [20_000_000, 3_000_000],
        rtt_ms: 600,
        jitter_ms: 5,
        loss: Loss::Random(0.002),
    },
];

/// A path that `--link` describes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    /// To the program, and from it.
    pub(super) settings: [Settings; 2],
    /// The seed of all random choices.
    pub(super) seed: u64,
}

/// Check how a path is written.
///
/// # Errors
/// A sentence that says how to write it.
pub fn check(text: &str) -> Result<(), String> {
    parse(text).map(drop)
}

/// Read a path.
///
/// # Errors
/// A sentence that says how to write it.
pub(super) fn parse(text: &str) -> Result<Path, String> {
    let mut path = Path { settings: [Settings::default(), Settings::default()], seed: 1 };
    let mut said: Vec<(&str, usize)> = Vec::new();
    for (at, part) in text.split(',').map(str::trim).enumerate() {
        let (directions, rest): (&[usize], &str) = match part.split_once(':') {
            Some(("down", rest)) => (&[DOWN], rest),
            Some(("up", rest)) => (&[UP], rest),
            _ => (&[DOWN, UP], part),
        };
        let Some((key, value)) = rest.split_once('=') else {
            let preset = PRESETS.iter().find(|preset| preset.name == rest);
            let Some(preset) = preset.filter(|_| at == 0 && rest == part) else {
                return Err(not_a_part(part, at));
            };
            preset.put_into(&mut path.settings);
            continue;
        };
        if let "seed" = key {
            path.seed = value.parse().map_err(|_| format!("'{value}' is no number of a seed"))?;
        } else {
            for &direction in directions {
                set(&mut path.settings[direction], key, value)?;
            }
        }
        for &direction in directions {
            let name = if key == "rtt" { "delay" } else { key };
            if said.contains(&(name, direction)) {
                return Err(format!(
                    "{name} is given twice for a direction: give it once, or once with up: and \
                     once with down: in front"
                ));
            }
            said.push((name, direction));
        }
    }
    Ok(path)
}

fn not_a_part(part: &str, at: usize) -> String {
    let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
    let names = names.join(", ");
    match at {
        0 => format!("'{part}': expected {names}, or settings such as rate=10mbit,delay=50ms"),
        _ => format!("'{part}': expected a setting such as delay=50ms; {names} can only be first"),
    }
}

fn set(settings: &mut Settings, key: &str, value: &str) -> Result<(), String> {
    match key {
        "rate" => settings.rate_bps = Some(rate(value)?),
        "delay" => settings.delay = time(value)?,
        "rtt" => settings.delay = Duration::from_nanos(time(value)?.as_nanos() / 2),
        "jitter" => settings.jitter = time(value)?,
        "loss" => {
            settings.loss = match share(value)? {
                0.0 => Loss::Never,
                share => Loss::Random(share),
            };
        }
        "burst-loss" => {
            let (begin, end) = burst(value)?;
            settings.loss = Loss::Burst { begin, end, good: 0.0, bad: 1.0 };
        }
        "late" => (settings.late, settings.late_by) = late(value)?,
        "duplicate" => settings.duplicate = share(value)?,
        "corrupt" => settings.corrupt = share(value)?,
        "queue" => settings.queue_bytes = bytes(value)? as usize,
        "codel" => {
            let ecn = codel(value)?;
            let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
            settings.aqm = Aqm::CoDel { target, interval, ecn };
        }
        "mtu" => {
            let mtu = value.parse().ok().and_then(Mtu::new);
            settings.mtu = mtu.ok_or("expected an MTU from 68 to 65535, such as 1400")?;
        }
        _ => {
            return Err(format!(
                "there is no setting {key}: expected rate, delay, rtt, jitter, loss, burst-loss, \
                 late, duplicate, corrupt, queue, codel, mtu or seed"
            ));
        }
    }
    Ok(())
}

impl Preset {
    fn put_into(&self, settings: &mut [Settings; 2]) {
        for (settings, rate_bps) in settings.iter_mut().zip(self.rate_bps) {
            let queue = rate_bps / 8 * PRESET_QUEUE.as_millis() / 1_000;
            *settings = Settings {
                rate_bps: Some(rate_bps),
                delay: Duration::from_micros(self.rtt_ms * 500),
                jitter: Duration::from_millis(self.jitter_ms),
                loss: self.loss,
                queue_bytes: (queue as usize).max(32_000),
                ..Settings::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> [Settings; 2] {
        parse(text).expect("the path is valid").settings
    }

    #[test]
    fn a_setting_is_for_both_directions_or_for_one() {
        let [down, up] = settings("rate=10mbit,up:delay=20ms,loss=1%");
        assert_eq!((down.rate_bps, up.rate_bps), (Some(10_000_000), Some(10_000_000)));
        assert_eq!((down.delay, up.delay), (Duration::ZERO, Duration::from_millis(20)));
        assert_eq!((down.loss, up.loss), (Loss::Random(0.01), Loss::Random(0.01)));
    }

    #[test]
    fn a_round_trip_is_halved() {
        let [down, up] = settings("rtt=100ms");
        assert_eq!((down.delay, up.delay), (Duration::from_millis(50), Duration::from_millis(50)));
    }

    #[test]
    fn a_kind_of_access_is_changed_by_what_follows() {
        let [down, up] = settings("lte,down:rate=30mbit");
        assert_eq!((down.rate_bps, up.rate_bps), (Some(30_000_000), Some(12_000_000)));
        for preset in PRESETS {
            let [down, up] = settings(preset.name);
            assert_eq!(down.delay + up.delay, Duration::from_millis(preset.rtt_ms));
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, says) in [
            ("", "expected dsl"),
            ("lan", "expected dsl"),
            ("delay=1ms,lte", "can only be first"),
            ("up:lte", "expected dsl"),
            ("delay=50", "with its unit"),
            ("rtt=1ms,delay=1ms", "delay is given twice"),
            ("loss=1%,up:loss=2%", "loss is given twice"),
            ("speed=1mbit", "no setting speed"),
            ("mtu=1", "expected an MTU"),
            ("seed=x", "no number"),
        ] {
            let why = parse(text).expect_err("the path is not valid");
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
