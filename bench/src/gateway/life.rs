//! The rows about our gateway alone: memory, its start, wake-ups, and the goodput on a link. Called
//! by `mod.rs`.

use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::contestant::{Contestant, Kind, user_command, words};
use super::processes::{pss_bytes, wakeups};
use super::traffic::{Load, spread};
use super::world;
use crate::build;
use crate::harness::{Bench, Figure};
use crate::measure::median;

/// Idle connections whose memory is measured.
const HELD: usize = 1000;
/// How long a gateway settles before it counts as idle.
const SETTLE: Duration = Duration::from_millis(700);

/// The memory of the process that is the gateway, and of all processes, in bytes. The gateway is
/// the largest one.
fn memory(of: &Contestant<'_>) -> Result<(f64, f64)> {
    let all = of.helpers.iter().map(|&id| pss_bytes(id)).collect::<Result<Vec<f64>>>()?;
    Ok((all.iter().copied().fold(0.0, f64::max), all.iter().sum()))
}

fn megabytes(bytes: f64) -> f64 {
    bytes * 1e-6
}

pub(super) fn idle_memory(b: &Bench) -> Result<Figure> {
    let world = world(b)?;
    let mut notes = Vec::new();
    let mut value = None;
    for kind in [Kind::Ours, Kind::Pasta, Kind::Slirp] {
        let started = match Contestant::start(world, kind) {
            Err(why) if kind != Kind::Ours => {
                notes.push(format!("{}: {why:#}", kind.name()));
                continue;
            }
            started => started?,
        };
        sleep(SETTLE);
        let (gateway, all) = memory(&started).map(|(a, b)| (megabytes(a), megabytes(b)))?;
        value.get_or_insert(gateway);
        notes.push(format!("{} {gateway:.1}, all its processes {all:.1}", kind.name()));
    }
    let value = value.context("ours was not measured")?;
    Ok(Figure { value, samples: vec![value], note: format!("MB: {}", notes.join("; ")) })
}

pub(super) fn memory_of_flows(b: &Bench) -> Result<Figure> {
    let world = world(b)?;
    let mut notes = Vec::new();
    let mut value = None;
    for kind in [Kind::Ours, Kind::Pasta, Kind::Slirp] {
        match Contestant::start(world, kind).and_then(memory_of_held) {
            Ok(bytes) => {
                value.get_or_insert(megabytes(bytes));
                notes.push(format!("{} {:.2}", kind.name(), megabytes(bytes)));
            }
            Err(why) if kind == Kind::Ours => return Err(why),
            Err(why) => notes.push(format!("{}: {why:#}", kind.name())),
        }
    }
    let value = value.context("ours was not measured")?;
    let note =
        format!("MB more with {HELD} connections that were used and idle: {}", notes.join("; "));
    Ok(Figure { value, samples: vec![value], note })
}

fn memory_of_held(mut gateway: Contestant<'_>) -> Result<f64> {
    // What the first connections bring is not a connection's.
    gateway.tell("hold 8")?;
    sleep(SETTLE);
    let (_, before) = memory(&gateway)?;
    let held = gateway.tell(&format!("hold {HELD}"))?;
    ensure!(held == format!("ok {HELD}"), "not all connections were made: {held}");
    sleep(SETTLE);
    Ok(memory(&gateway)?.1 - before)
}

/// `wirespeed netns -- true`, from its start until it has ended.
pub(super) fn start(b: &Bench) -> Result<Figure> {
    let world = world(b)?;
    let runs = if b.is_quick { 10 } else { 30 };
    let own = world.wirespeed.display().to_string();
    let netns = words(&[own, "netns".into(), "--".into(), "true".into()]);
    let alone = words(&["true".to_owned()]);
    let once = |command: &[std::ffi::OsString]| -> Result<f64> {
        ensure!(!build::interrupted(), "interrupted");
        let mut command = user_command(world, command);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let (took, status) = world.at_host(|| {
            let begun = Instant::now();
            let status = command.status().context("starting `wirespeed netns`")?;
            Ok((begun.elapsed().as_secs_f64() * 1e3, status))
        })?;
        ensure!(status.success(), "`wirespeed netns -- true` ended with {status}");
        Ok(took)
    };
    once(&netns)?;
    // setpriv and its own exec are not ours.
    let (mut samples, mut without) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        samples.push(once(&netns)?);
        without.push(once(&alone)?);
    }
    let less = median(&without);
    samples.iter_mut().for_each(|sample| *sample -= less);
    let note = format!("ms: {}, less {less:.1} for setpriv with true alone", spread(&samples));
    Ok(Figure { value: median(&samples), samples, note })
}

/// Wake-ups of a gateway whose client does nothing.
pub(super) fn idle_wakeups(b: &Bench) -> Result<Figure> {
    let world = world(b)?;
    let seconds = if b.is_quick { 6.0 } else { 20.0 };
    let kinds = [Kind::Ours, Kind::Pasta, Kind::Slirp];
    let mut running = Vec::new();
    for kind in kinds {
        running.extend(Contestant::start(world, kind));
    }
    ensure!(running.first().is_some_and(|first| first.kind == Kind::Ours), "ours does not start");
    sleep(Duration::from_secs(2));
    let count = |running: &[Contestant<'_>]| -> Result<Vec<u64>> {
        running.iter().map(|one| wakeups(&one.helpers)).collect()
    };
    let before = count(&running)?;
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < seconds {
        ensure!(!build::interrupted(), "interrupted");
        sleep(Duration::from_millis(200));
    }
    let after = count(&running)?;
    let rates: Vec<f64> =
        after.iter().zip(&before).map(|(a, b)| (a - b) as f64 / seconds).collect();
    let notes =
        running.iter().zip(&rates).map(|(one, rate)| format!("{} {rate:.2}", one.kind.name()));
    let note = format!("a second, over {seconds} s: {}", notes.collect::<Vec<_>>().join(", "));
    Ok(Figure { value: rates[0], samples: rates[..1].to_vec(), note })
}

/// The link of the row about goodput.
const LINK: &str = "rate=100mbit,delay=20ms";
/// Payload and frame of a full segment at an MTU of 1500 with timestamps, as the link counts it.
const SEGMENT: (f64, f64) = (1448.0, 1514.0);

/// Goodput of both directions, of which the lesser counts, over that of a link that is never idle.
pub(super) fn goodput(b: &Bench) -> Result<Figure> {
    let world = world(b)?;
    let best_mbps = 100.0 * SEGMENT.0 / SEGMENT.1;
    let mut gateway = Contestant::start(world, Kind::Linked(LINK))?;
    let (runs, seconds) = if b.is_quick { (2, 3.0) } else { (3, 8.0) };
    let mut notes = vec![format!("{LINK}: at best {best_mbps:.2} Mb/s")];
    let mut lesser: Option<Vec<f64>> = None;
    for kind in ["up", "down"] {
        let mut mbps = Vec::new();
        for _ in 0..runs {
            let window = gateway.window(world, Load { kind, flows: 1 }, seconds)?;
            mbps.push(window.gbit_per_s() * 1e3);
        }
        notes.push(format!("{kind} {} Mb/s", spread(&mbps)));
        let shares: Vec<f64> = mbps.iter().map(|mbps| mbps / best_mbps).collect();
        if lesser.as_ref().is_none_or(|other| median(&shares) < median(other)) {
            lesser = Some(shares);
        }
    }
    let samples = lesser.context("nothing was measured")?;
    Ok(Figure { value: median(&samples), samples, note: notes.join(", ") })
}
