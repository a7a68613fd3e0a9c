//! Runs the link: opens the devices and carries packets in real time.
//!
//! Called by: `wire.rs`.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use link::Bridge;
use link::real::Runner;
use wirespeed::device::capture::{Capture, CaptureStatus};
use wirespeed::device::namespace::Namespace;
use wirespeed::{Device, Duration, Instant};

use super::args::{Args, End};
use super::report::Report;
use crate::clock::{Interrupt, since_1970};
use crate::dump::FileId;
use crate::network::{self, How};
use crate::{Usage, output};

/// Memory limit for packets that are queued or in flight.
const MEMORY_BYTES: usize = 2 << 30;
/// Time between checks of Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// Join the devices until the time is over; `true` if Ctrl-C ended it.
pub(super) fn run(args: &Args, interrupt: &Interrupt) -> Result<bool> {
    if let (Some(a), Some(b)) = (&args.capture_a, &args.capture_b)
        && FileId::is_same(a, b)
    {
        bail!(Usage("--capture-a and --capture-b are one file: name two".to_owned()));
    }
    let mut captures = [None, None];
    let [of_a, of_b] = &mut captures;
    let ends = [
        around(open(&args.a, args.offload)?, args.capture_a.as_deref(), of_a)?,
        around(open(&args.b, args.offload)?, args.capture_b.as_deref(), of_b)?,
    ];
    let settings = [args.settings(0), args.settings(1)];
    let bridge = Bridge::new(ends, settings, args.seed, MEMORY_BYTES)?;
    let mut runner = Runner::new(bridge, args.timing).context("cannot sleep between packets")?;
    let mut report = Report::new([&args.a, &args.b], args.json);
    output::err(&format!("{} and {} are joined; Ctrl-C ends it", args.a, args.b));
    let interrupted = carry(args, &mut runner, &mut report, interrupt)?;
    report.end(&runner)?;
    for capture in captures.iter().flatten() {
        if let Some(error) = capture.error() {
            output::err(&format!("warning: {error}"));
        }
    }
    Ok(interrupted)
}

/// Carry packets until the time is over; `true` if Ctrl-C ended it.
fn carry(
    args: &Args,
    runner: &mut Runner,
    report: &mut Report,
    interrupt: &Interrupt,
) -> Result<bool> {
    let begin = runner.now();
    let ends = args.time.map_or(Instant::NEVER, |time| begin + time);
    let mut changes = args.changes().into_iter().peekable();
    let mut next_line = match args.every {
        Duration::ZERO => Instant::NEVER,
        every => begin + every,
    };
    loop {
        let now = runner.now();
        if interrupt.noted() {
            return Ok(true);
        }
        if now >= ends {
            return Ok(false);
        }
        while let Some(at) = changes.next_if(|&at| begin + at <= now) {
            for direction in [0, 1] {
                let mut settings = args.settings(direction);
                settings.mtu = args.mtu_at(direction, at).unwrap_or(settings.mtu);
                runner.bridge_mut().set_settings(direction, settings, now);
            }
        }
        if now >= next_line {
            report.line(runner)?;
            next_line += args.every;
        }
        let change = changes.peek().map_or(Instant::NEVER, |&at| begin + at);
        let until = ends.min(next_line).min(change).min(now + LOOK);
        runner.run_until(until).map_err(|gone| anyhow!("{gone}"))?;
    }
}

/// Open a device in its namespace and bring it up.
fn open(end: &End, offload: bool) -> Result<Box<dyn Device>> {
    let how = How { offload, io_uring: true, bridged: true };
    let make = || network::open(&end.dev, &how).map(|(device, _)| device);
    let opened = match &end.namespace {
        None => make(),
        Some(name) => Namespace::named(name)
            .and_then(|namespace| namespace.inside(make))
            .map_err(anyhow::Error::from)
            .flatten(),
    };
    opened.with_context(|| format!("cannot use {end}"))
}

/// Wrap a capture around the device if one is asked for.
fn around(
    device: Box<dyn Device>,
    capture: Option<&Path>,
    status: &mut Option<CaptureStatus>,
) -> Result<Box<dyn Device>> {
    let Some(path) = capture else { return Ok(device) };
    let name = || format!("cannot write the capture to {}", path.display());
    let file = File::create(path).with_context(name)?;
    let (capture, is) = Capture::new(device, file, since_1970).with_context(name)?;
    *status = Some(is);
    Ok(Box::new(capture))
}
