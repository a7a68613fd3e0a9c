//! `wirespeed ttcp`, after the program of 1984: moves bytes from one stack to another, checks them,
//! and reports the speed. Both stacks are in memory, or the other end is a host behind a device.
//!
//! Called by: `lib.rs`. `plan` interprets the command line; docs/perf.md says what limits a
//! transfer.

mod args;
mod connect;
mod data;
mod ends;
mod errors;
mod file;
mod flow;
mod host;
mod one_thread;
mod plan;
mod progress;
mod report;
mod run;
mod stream;
mod tcp;
mod two_threads;
mod udp;
pub(crate) mod values;

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
pub(crate) use args::Args;
use live::{Http, Live};
use plan::Plan;
use report::host::Found;
use values::Faults;
use wirespeed::device::capture::{Capture, CaptureStatus};
use wirespeed::device::fault::{Config, Done, Fault, FaultCounts, Rng};
use wirespeed::{Device, IpVersion};

use crate::clock::{Interrupt, since_1970};
use crate::network::Network;
use crate::{Outcome, Usage, names, output};

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    if args.lists_switches() {
        output::out(&args::switch_table())?;
        return Ok(Outcome::Done);
    }
    let plan = Plan::new(args)?;
    let live = live(args)?;
    let interrupt = Interrupt::install()?;
    let interrupted = match Role::is_asked_for(args) {
        true => with_a_host(args, &plan, &interrupt, live)?,
        false => in_memory(args, &plan, &interrupt, live)?,
    };
    Ok(if interrupted { Outcome::Interrupted } else { Outcome::Done })
}

/// The live page, if it is asked for.
fn live(args: &Args) -> Result<Option<Live>> {
    if let (Some(Http::Stack(_)), false) = (args.live.http, Role::is_asked_for(args)) {
        bail!(Usage(
            "--http stack:PORT needs -t or -r with --dev: nobody reaches two stacks in memory. \
             Give an address of this machine"
                .to_owned()
        ));
    }
    Ok(args.live.http.map(Live::bind).transpose()?)
}

/// Between two stacks in memory; `true` if Ctrl-C ended it early.
fn in_memory(args: &Args, plan: &Plan, interrupt: &Interrupt, live: Option<Live>) -> Result<bool> {
    let measured = run::in_memory(plan, interrupt, live)?;
    output::out(&match args.json {
        true => report::memory::json::document(plan, &measured)?,
        false => report::memory::text(plan, &measured),
    })?;
    measured.check_whole(plan)?;
    Ok(measured.interrupted)
}

/// To or from a host; `true` if Ctrl-C ended it early.
fn with_a_host(
    args: &Args,
    plan: &Plan,
    interrupt: &Interrupt,
    live: Option<Live>,
) -> Result<bool> {
    let mut wrapped = Wrapped::default();
    let ended = run::with_a_host((args, plan), interrupt, live, &mut wrapped)?;
    let Some(ended) = ended else {
        return Ok(true);
    };
    let run::WithAHost { moved, network } = ended;
    let found = Found { plan, moved: &moved, stack: &network.stack, wrapped: &wrapped };
    if args.json {
        output::out(&found.json(network.mtu())?)?;
    } else {
        // Standard output may carry the data.
        output::err(found.text().trim_end());
    }
    match wrapped.capture_error() {
        Some(error) => Err(anyhow!(error)),
        None => Ok(moved.interrupted),
    }
}

/// What we do for a connection with a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Connect(IpAddr),
    Accept,
}

impl Role {
    /// Does the command line ask for a transfer with a host?
    fn is_asked_for(args: &Args) -> bool {
        args.transmit.is_some() || args.receive
    }

    /// The role on the command line, with the host's name looked up; `None` after Ctrl-C.
    ///
    /// # Errors
    /// The errors of [`names::resolve`].
    fn of(args: &Args, network: &mut Network, interrupt: &Interrupt) -> Result<Option<Role>> {
        let Some(host) = &args.transmit else { return Ok(Some(Role::Accept)) };
        let options = (&args.network, &args.names);
        let version = match (args.v4, args.v6) {
            (true, _) => Some(IpVersion::V4),
            (_, true) => Some(IpVersion::V6),
            _ => None,
        };
        let address = names::resolve(network, options, host, version, interrupt)?;
        Ok(address.map(Role::Connect))
    }
}

// The wrappers that `--fault` and `--capture` put around a device.
//
// The capture is next to the device, so it has the frames as sent, faults included.

/// Handles to the wrappers.
#[derive(Default)]
struct Wrapped {
    faults: Option<FaultCounts>,
    capture: Option<CaptureStatus>,
}

impl Wrapped {
    fn around(
        &mut self,
        mut device: Box<dyn Device>,
        faults: Option<Faults>,
        capture: Option<&Path>,
    ) -> Result<Box<dyn Device>> {
        if let Some(path) = capture {
            let name = || format!("cannot write the capture to {}", path.display());
            let file = File::create(path).with_context(name)?;
            let (capture, status) = Capture::new(device, file, since_1970).with_context(name)?;
            self.capture = Some(status);
            device = Box::new(capture);
        }
        if let Some(Faults { odds, seed }) = faults {
            let config = Config { rx: odds, tx: odds, ..Config::default() };
            let (fault, counts) = Fault::new(device, &config, Rng::new(seed));
            self.faults = Some(counts);
            device = Box::new(fault);
        }
        Ok(device)
    }

    /// Counts of the faults, receiving and sending.
    fn faults(&self) -> Option<(Done, Done)> {
        self.faults.as_ref().map(|f| (f.rx(), f.tx()))
    }

    /// Number of captured frames.
    fn captured(&self) -> Option<u64> {
        self.capture.as_ref().map(CaptureStatus::frames)
    }

    fn capture_error(&self) -> Option<wirespeed::device::capture::CaptureError> {
        self.capture.as_ref()?.error()
    }
}
