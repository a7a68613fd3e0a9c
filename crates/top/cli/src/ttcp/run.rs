//! Runs the transfer: chooses the loop and the ends.
//!
//! Called by: `ttcp.rs`, which prints the result.

use anyhow::{Error, Result, anyhow};
use live::Live;
use observe::Service;

use super::args::{Args, OnOff};
use super::errors::NoAnswer;
use super::plan::Plan;
use super::report::memory::Measured;
use super::{Role, Wrapped, connect, host, one_thread, two_threads};
use crate::clock::Interrupt;
use crate::network::{self, Network, Settings};
use crate::{http, output};

/// Between two stacks in memory.
pub(super) fn in_memory(
    plan: &Plan,
    interrupt: &Interrupt,
    live: Option<Live>,
) -> Result<Measured> {
    let sides = connect::connected(plan)?;
    let control = control(live)?;
    if plan.threads == 2 {
        two_threads::run(plan, sides, interrupt, control)
    } else {
        one_thread::run(plan, sides, interrupt, control)
    }
}

/// A transfer to or from a host that has ended.
pub(super) struct WithAHost {
    pub(super) moved: host::Moved,
    pub(super) network: Network,
}

/// To or from a host: opens the device with its wrappers, looks the host's name up, then transfers.
/// `None` if Ctrl-C came before the transfer.
pub(super) fn with_a_host(
    (args, plan): (&Args, &Plan),
    interrupt: &Interrupt,
    live: Option<Live>,
    wrapped: &mut Wrapped,
) -> Result<Option<WithAHost>> {
    // What can be said before the device is opened.
    if let Some(Ok(host)) = args.transmit.as_ref().map(|host| host.parse::<std::net::IpAddr>()) {
        args.network.check_host(host)?;
    }
    let wrap = |device| wrapped.around(device, plan.fault, args.capture.as_deref());
    let settings = Settings {
        offload: args.offload == OnOff::On,
        io_uring: args.io_uring == OnOff::On,
        switches: plan.switches,
        write_unit_bytes: Some(plan.write_unit.bytes),
    };
    let opened = Network::open_with(&args.network, "ttcp", &settings, interrupt, wrap)?;
    let Some(mut network) = opened else { return Ok(None) };
    feed(&mut network.seen, live)?;
    let Some(role) = Role::of(args, &mut network, interrupt)? else { return Ok(None) };
    let mut transfer = host::Transfer::new(network, plan, interrupt);
    let moved = transfer.run(role).map_err(|error| hinted(error, role, &args.network))?;
    Ok(Some(WithAHost { moved, network: transfer.network }))
}

/// The control socket, and the live page if it is asked for. Opened when all that a command line
/// can have wrong was said, so that nothing is left behind.
fn control(live: Option<Live>) -> Result<Service> {
    let mut control = Service::open("ttcp").allow_changes();
    feed(&mut control, live)?;
    Ok(control)
}

/// Serve the live page, if it is asked for.
fn feed(control: &mut Service, live: Option<Live>) -> Result<()> {
    if let Some(live) = live {
        output::err(&live.says());
        control.feed(live.serve(http::whose("ttcp"), None)?);
    }
    Ok(())
}

/// Add what to try if the host did not answer.
fn hinted(error: Error, role: Role, network: &network::Args) -> Error {
    let Role::Connect(host) = role else { return error };
    match network.hint(host) {
        Some(hint) if error.is::<NoAnswer>() => anyhow!("{error:#}. {hint}"),
        _ => error,
    }
}
