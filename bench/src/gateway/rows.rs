//! The rows about traffic. Called by `mod.rs`. A note has the absolute figures of all sides, as the
//! median and the range of their windows.

use anyhow::{Context, Result};

use super::contestant::Kind;
use super::traffic::{Load, Window, best, ratios, rounds, spread};
use super::world;
use crate::harness::{Bench, Better, Figure};
use crate::measure::median;

/// The better of the two: in which direction, and by which figure.
struct Compared<'a> {
    kinds: &'a [Kind],
    load: Load,
    figure: fn(&Window) -> f64,
    unit: &'a str,
    better: Better,
}

/// Ours over the best of the others; the best by its median.
fn compare(b: &Bench, compared: &Compared<'_>) -> Result<Figure> {
    let Compared { kinds, load, figure, unit, better } = *compared;
    let sides = rounds(b, world(b)?, kinds, load)?;
    let (mut figures, mut notes) = (Vec::new(), Vec::new());
    for (at, side) in sides.iter().enumerate() {
        match side.figures(figure) {
            Ok(values) => {
                notes.push(format!("{} {}{}", side.kind.name(), spread(&values), side.failed()));
                figures.push(values);
            }
            Err(why) if at == 0 => return Err(why),
            Err(why) => notes.push(format!("{why:#}")),
        }
    }
    let note = format!("{unit}: {}", notes.join("; "));
    let is_better = |a: f64, b: f64| if better == Better::Higher { a > b } else { a < b };
    let mut theirs = figures.get(1).with_context(|| note.clone())?;
    for side in &figures[2..] {
        if is_better(median(side), median(theirs)) {
            theirs = side;
        }
    }
    let samples = ratios(&figures[0], theirs);
    Ok(Figure { value: median(&samples), samples, note })
}

const PASTA: &[Kind] = &[Kind::Ours, Kind::Pasta];
const PEERS: &[Kind] = &[Kind::Ours, Kind::Pasta, Kind::Slirp];
const UP: Load = Load { kind: "up", flows: 1 };
const DOWN: Load = Load { kind: "down", flows: 1 };

/// pasta's uploads collapse on some kernels, so its best window is what counts.
pub(super) fn up_against_pasta(b: &Bench) -> Result<Figure> {
    let world = world(b)?;
    let sides = rounds(b, world, PASTA, UP)?;
    let (ours, theirs) = (&sides[0], &sides[1]);
    let (ours_wall, theirs_wall) =
        (ours.figures(Window::gbit_per_s)?, theirs.figures(Window::gbit_per_s)?);
    let (ours, theirs) =
        (ours.figures(Window::gbit_per_cpu_s)?, theirs.figures(Window::gbit_per_cpu_s)?);
    let samples: Vec<f64> = ours.iter().map(|ours| ours / best(&theirs)).collect();
    let collapsed = median(&theirs_wall) < 0.1 * median(&ours_wall);
    let note = format!(
        "Gb a helper CPU-second: ours {}, pasta {}, of which the best window counts; Gb/s: ours \
         {}, pasta {}{}",
        spread(&ours),
        spread(&theirs),
        spread(&ours_wall),
        spread(&theirs_wall),
        if collapsed { ": its uploads collapse on this kernel" } else { "" }
    );
    Ok(Figure { value: median(&samples), samples, note })
}

pub(super) fn down_against_pasta(b: &Bench) -> Result<Figure> {
    compare(b, &gbit(PASTA, DOWN))
}

pub(super) fn four_down_against_pasta(b: &Bench) -> Result<Figure> {
    compare(b, &gbit(PASTA, Load { kind: "down", flows: 4 }))
}

fn gbit(kinds: &[Kind], load: Load) -> Compared<'_> {
    let (figure, unit) = (Window::gbit_per_cpu_s, "Gb a helper CPU-second");
    Compared { kinds, load, figure, unit, better: Better::Higher }
}

pub(super) fn against_slirp(b: &Bench) -> Result<Figure> {
    let kinds = &[Kind::Ours, Kind::Slirp];
    let (up, down) = (compare(b, &gbit(kinds, UP))?, compare(b, &gbit(kinds, DOWN))?);
    let note = format!("up {:.2}, {}; down {:.2}, {}", up.value, up.note, down.value, down.note);
    let lesser = if up.value < down.value { up } else { down };
    Ok(Figure { note, ..lesser })
}

pub(super) fn up_against_direct(b: &Bench) -> Result<Figure> {
    let kinds = &[Kind::Ours, Kind::Direct];
    let (figure, unit) = (Window::gbit_per_s, "Gb/s");
    compare(b, &Compared { kinds, load: UP, figure, unit, better: Better::Higher })
}

pub(super) fn both_directions(b: &Bench) -> Result<Figure> {
    let world = world(b)?;
    let sides = rounds(b, world, &[Kind::Ours], Load { kind: "both", flows: 1 })?;
    let ours = &sides[0];
    let samples = ours.figures(|w| w.up_bytes.min(w.down_bytes) / w.up_bytes.max(w.down_bytes))?;
    let up = ours.figures(|w| w.up_bytes * 8e-9 / w.wall_s)?;
    let down = ours.figures(|w| w.down_bytes * 8e-9 / w.wall_s)?;
    let note = format!("Gb/s: up {}, down {}", spread(&up), spread(&down));
    Ok(Figure { value: median(&samples), samples, note })
}

pub(super) fn connections(b: &Bench) -> Result<Figure> {
    let load = Load { kind: "connect", flows: 16 };
    let figure = |w: &Window| w.units / w.cpu_s;
    let unit = "connections a helper CPU-second";
    let kinds = &[Kind::Unlimited, Kind::Pasta];
    let compared = Compared { kinds, load, figure, unit, better: Better::Higher };
    let figure = compare(b, &compared)?;
    let note = format!("{}; ours with gateway_connects_per_second raised by --policy", figure.note);
    Ok(Figure { note, ..figure })
}

pub(super) fn rules(b: &Bench) -> Result<Figure> {
    let load = Load { kind: "connect", flows: 16 };
    let kinds = &[Kind::Ruled, Kind::Unlimited];
    let (figure, unit) = (|w: &Window| w.units / w.wall_s, "connections a second");
    compare(b, &Compared { kinds, load, figure, unit, better: Better::Higher })
}

pub(super) fn small_datagrams_up(b: &Bench) -> Result<Figure> {
    let load = Load { kind: "udp-up", flows: 1 };
    let figure = |w: &Window| w.up_datagrams / w.cpu_s;
    let unit = "packets a helper CPU-second";
    compare(b, &Compared { kinds: PEERS, load, figure, unit, better: Better::Higher })
}

pub(super) fn datagrams_down(b: &Bench) -> Result<Figure> {
    let load = Load { kind: "udp-down", flows: 1 };
    let figure = |w: &Window| w.down_datagrams / w.cpu_s;
    let unit = "packets a helper CPU-second";
    compare(b, &Compared { kinds: PEERS, load, figure, unit, better: Better::Higher })
}

pub(super) fn round_trips(b: &Bench) -> Result<Figure> {
    let load = Load { kind: "echo", flows: 1 };
    let figure = |w: &Window| w.cpu_s * 1e6 / w.units;
    let unit = "us of the helper's CPU time a round trip";
    compare(b, &Compared { kinds: PASTA, load, figure, unit, better: Better::Lower })
}

/// Megabits a second that a machine sends and receives, ours over passt's.
pub(super) fn against_passt(b: &Bench) -> Result<Figure> {
    let kinds = &[Kind::OursAtQemu, Kind::Passt];
    let mut notes = Vec::new();
    let mut lesser: Option<Vec<f64>> = None;
    for kind in ["up", "down"] {
        let sides = rounds(b, world(b)?, kinds, Load { kind, flows: 1 })?;
        let mbps = |at: usize| sides[at].figures(|window| window.gbit_per_s() * 1e3);
        let (ours, theirs) = (mbps(0)?, mbps(1)?);
        notes.push(format!("{kind} ours {}, passt {}", spread(&ours), spread(&theirs)));
        let samples = ratios(&ours, &theirs);
        if lesser.as_ref().is_none_or(|other| median(&samples) < median(other)) {
            lesser = Some(samples);
        }
    }
    let samples = lesser.context("nothing was measured")?;
    let note = format!("Mb/s of a machine without KVM: {}", notes.join("; "));
    Ok(Figure { value: median(&samples), samples, note })
}
