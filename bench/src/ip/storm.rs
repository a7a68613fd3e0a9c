//! Broadcasts among hosts that disagree about the broadcast address: the cases of `lab storm`.
//! Called by `ip`. They run in virtual time, so that the figures are the same on every machine.

use anyhow::{Context, Result};
use lab::storm::{Settings, Storm, behind_router, legacy_hosts, our_hosts};

use crate::harness::{Bench, Figure};

fn figure(value: f64, storm: &Storm, settings: &Settings, what: &str) -> Figure {
    let Storm { originals, frames, seconds, busy_percent, .. } = storm;
    let mut note = format!(
        "{} hosts on 10 Mb/s, virtual time: {frames} frames {what}, {originals} originals, \
         {seconds:.2} s, wire busy {busy_percent:.0} %",
        settings.hosts
    );
    if storm.was_ended {
        note += &format!("; ended at {} frames", settings.frames_max);
    }
    Figure { value, samples: vec![value], note }
}

fn one_wire(b: &Bench, run: fn(&Settings) -> Storm) -> Result<Figure> {
    let settings = Settings::new(b.is_quick);
    let storm = run(&settings);
    let value = storm.per_original().context("no program sent anything")?;
    Ok(figure(value, &storm, &settings, "on the wire"))
}

pub(super) fn legacy(b: &Bench) -> Result<Figure> {
    one_wire(b, legacy_hosts)
}

pub(super) fn ours(b: &Bench) -> Result<Figure> {
    one_wire(b, our_hosts)
}

/// The number of frames on the wire behind the router for each original frame. The figure counts
/// only if the router passes packets for one host, and if there is a storm in front of the router.
pub(super) fn behind(b: &Bench) -> Result<Figure> {
    let settings = Settings::new(b.is_quick);
    let behind = behind_router(&settings);
    let (sent, arrived) = behind.unicasts;
    anyhow::ensure!(sent > 0 && arrived > 0, "{arrived} of {sent} datagrams to a host crossed");
    let value = behind.storm.per_original().context("no program sent anything")?;
    let mut figure = figure(value, &behind.storm, &settings, "across");
    let storming = behind.storming_frames;
    figure.note += &format!("; {storming} in front of it, {arrived} of {sent} unicasts crossed");
    Ok(figure)
}
