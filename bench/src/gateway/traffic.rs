//! Windows of traffic: a load runs at one gateway, and between two moments the bytes, units and CPU
//! time are counted. Called by `rows.rs`. Gateways that are compared run side by side, and take
//! turns with their windows.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::contestant::{Contestant, Kind};
use super::policies;
use super::processes;
use super::world::World;
use crate::build;
use crate::harness::Bench;
use crate::measure::median;

/// How long a load runs before its window. TCP has left slow start by then.
const RAMP: Duration = Duration::from_millis(300);
/// Rest after a load, in which gateways close its connections.
const REST: Duration = Duration::from_millis(100);

/// What the client does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// The word for it of `load.rs`.
    pub(super) kind: &'static str,
    pub(super) flows: usize,
}

/// What was counted in a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub(super) wall_s: f64,
    /// Of the gateway.
    pub(super) cpu_s: f64,
    /// Bytes of streams that the server received, and that the client received.
    pub(super) up_bytes: f64,
    pub(super) down_bytes: f64,
    /// Datagrams that reached the server's and the client's namespaces.
    pub(super) up_datagrams: f64,
    pub(super) down_datagrams: f64,
    /// Connections or round trips.
    pub(super) units: f64,
    /// What failed.
    pub(super) errors: f64,
}

impl Window {
    /// Gigabits each second of the gateway's CPU time, of both directions.
    pub(super) fn gbit_per_cpu_s(&self) -> f64 {
        (self.up_bytes + self.down_bytes) * 8e-9 / self.cpu_s
    }

    /// Gigabits a second, of both directions.
    pub(super) fn gbit_per_s(&self) -> f64 {
        (self.up_bytes + self.down_bytes) * 8e-9 / self.wall_s
    }
}

/// Counters at a moment.
struct Moment {
    at: Instant,
    cpu_s: f64,
    server: (u64, u64),
    /// Bytes, units, errors, datagrams.
    client: [u64; 4],
}

impl Contestant<'_> {
    /// Runs a load, and counts for `seconds`.
    ///
    /// # Errors
    /// The gateway or its client fails.
    pub(super) fn window(&mut self, world: &World, load: Load, seconds: f64) -> Result<Window> {
        self.tell(&format!("start {} {}", load.kind, load.flows))?;
        sleep(RAMP);
        let begin = self.moment(world)?;
        sleep(Duration::from_secs_f64(seconds));
        let end = self.moment(world)?;
        self.tell("stop")?;
        sleep(REST);
        let less = |end: u64, begin: u64| end.saturating_sub(begin) as f64;
        let [down_bytes, units, errors, down_datagrams] =
            core::array::from_fn(|at| less(end.client[at], begin.client[at]));
        Ok(Window {
            wall_s: (end.at - begin.at).as_secs_f64(),
            cpu_s: end.cpu_s - begin.cpu_s,
            up_bytes: less(end.server.0, begin.server.0),
            down_bytes,
            up_datagrams: less(end.server.1, begin.server.1),
            down_datagrams,
            units,
            errors,
        })
    }

    fn moment(&mut self, world: &World) -> Result<Moment> {
        let counts = self.tell("count")?;
        let (at, cpu_s) = (Instant::now(), processes::cpu_s(&self.helpers)?);
        let server = world.received()?;
        let numbers = counts.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let client = <[u64; 4]>::try_from(numbers).ok().context("the client does not count")?;
        Ok(Moment { at, cpu_s, server, client })
    }
}

/// The windows of a gateway.
pub(super) struct Side {
    pub(super) kind: Kind,
    pub(super) windows: Vec<Window>,
    /// How a peer failed, if it did. It was started again.
    failures: Vec<String>,
}

impl Side {
    /// A figure of each window. Windows in which the gateway did nothing have none.
    ///
    /// # Errors
    /// No window has one.
    pub(super) fn figures(&self, figure: impl Fn(&Window) -> f64) -> Result<Vec<f64>> {
        let all = self.windows.iter().map(figure).filter(|value| value.is_finite());
        let all: Vec<f64> = all.collect();
        let failed = self.failed();
        ensure!(
            all.iter().any(|&value| value > 0.0),
            "nothing came through {}{failed}",
            self.kind.name()
        );
        Ok(all)
    }

    /// What failed, in words; empty if nothing did.
    pub(super) fn failed(&self) -> String {
        let errors: f64 = self.windows.iter().map(|window| window.errors).sum();
        let errors = (errors > 0.0).then(|| format!(", {errors:.0} errors of its client"));
        let failures = self
            .failures
            .first()
            .map(|first| format!(", failed in {} windows, first: {first}", self.failures.len()));
        errors.into_iter().chain(failures).collect()
    }
}

/// The windows of several gateways, in the order of `kinds`, those of one round beside each other.
///
/// # Errors
/// The first gateway fails. A failure of the others is noted.
pub(super) fn rounds(
    bench: &Bench,
    world: &World,
    kinds: &[Kind],
    load: Load,
) -> Result<Vec<Side>> {
    let (rounds, seconds) = plan(bench);
    let side = |&kind| Side { kind, windows: Vec::new(), failures: Vec::new() };
    let mut sides: Vec<Side> = kinds.iter().map(side).collect();
    let mut running: Vec<Option<Contestant<'_>>> = kinds.iter().map(|_| None).collect();
    for round in 0..rounds {
        for at in 0..kinds.len() {
            // The order changes, so that a machine that slows down favours none.
            let which = if round % 2 == 0 { at } else { kinds.len() - 1 - at };
            let (side, one) = (&mut sides[which], &mut running[which]);
            match window_of(one, world, side.kind, load, seconds) {
                Ok(window) => {
                    eprintln!("    {}: {}", side.kind.name(), shown(&window));
                    side.windows.push(window);
                }
                Err(why) if which == 0 || build::interrupted() => return Err(why),
                Err(why) => {
                    eprintln!("    {}: {why:#}", side.kind.name());
                    side.failures.push(format!("{why:#}"));
                    *one = None;
                }
            }
        }
    }
    Ok(sides)
}

/// A window of a gateway, which is started if it does not run.
fn window_of<'a>(
    one: &mut Option<Contestant<'a>>,
    world: &'a World,
    kind: Kind,
    load: Load,
    seconds: f64,
) -> Result<Window> {
    let one = match one {
        Some(one) => one,
        None => {
            let one = one.insert(Contestant::start(world, kind)?);
            if kind == Kind::Ruled {
                one.tell(&format!("names {}", policies::NAMES))?;
            }
            one
        }
    };
    one.window(world, load, seconds)
}

/// Rounds of a row, and seconds of a window.
pub(super) fn plan(bench: &Bench) -> (usize, f64) {
    if bench.is_quick { (3, 0.6) } else { (7, 1.2) }
}

fn shown(window: &Window) -> String {
    let Window { wall_s, cpu_s, units, errors, .. } = window;
    format!(
        "{:.2} Gb/s up {:.2} down, {:.0} + {:.0} datagrams/s, {:.0} units/s, {errors:.0} errors, \
         {:.2} of a core",
        window.up_bytes * 8e-9 / wall_s,
        window.down_bytes * 8e-9 / wall_s,
        window.up_datagrams / wall_s,
        window.down_datagrams / wall_s,
        units / wall_s,
        cpu_s / wall_s,
    )
}

/// The ratios of the windows of one round.
pub(super) fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    let pairs = ours.iter().zip(theirs).filter(|(_, theirs)| **theirs > 0.0);
    pairs.map(|(ours, theirs)| ours / theirs).collect()
}

/// The largest.
pub(super) fn best(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(0.0, f64::max)
}

/// "median 12.3 (11.9 to 12.6)"
pub(super) fn spread(figures: &[f64]) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let digits = if best(figures) >= 1000.0 { 0 } else { 2 };
    format!("{:.digits$} ({least:.digits$} to {:.digits$})", median(figures), best(figures))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_without_traffic_have_no_figure() {
        let idle = Window { wall_s: 1.0, ..Window::default() };
        let busy = Window { cpu_s: 0.5, up_bytes: 1e9, errors: 2.0, ..idle };
        let side = |windows: &[Window]| Side {
            kind: Kind::Pasta,
            windows: windows.to_vec(),
            failures: vec!["it ended".to_owned()],
        };
        let figures = side(&[idle, busy]).figures(Window::gbit_per_cpu_s).expect("one window");
        assert_eq!(figures, [16.0]);
        let why = side(&[idle]).figures(Window::gbit_per_cpu_s).expect_err("none").to_string();
        assert!(why.contains("pasta") && why.contains("it ended"), "{why}");
        assert!(side(&[busy]).failed().contains("2 errors"));
    }

    #[test]
    fn ratios_are_of_one_round() {
        assert_eq!(ratios(&[2.0, 3.0, 5.0], &[1.0, 0.0]), [2.0]);
        assert_eq!(best(&[1.0, 4.0, 2.0]), 4.0);
        assert_eq!(spread(&[1.0, 4.0, 2.0]), "2.00 (1.00 to 4.00)");
    }
}
