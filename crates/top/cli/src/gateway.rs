//! `wirespeed gateway --vm SPEC`: virtual machines in private networks whose only way out is our
//! stack, as an ordinary user.
//!
//! Called by: `lib.rs`. `spec.rs` says how machines are named and opens their links; the gateway is
//! `machine.rs`. docs/gateway.md is the user's guide.

mod args;
mod spec;

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::fs::Mode;
use rustix::process::umask;
use wirespeed::{Device, Duration};

pub(crate) use args::Args;

use crate::clock::Interrupt;
use crate::machine::learning::Learns;
use crate::machine::networks::Network;
use crate::machine::options::{Dns, Options};
use crate::machine::{Given, Learn, Machine, Owner, What, open};
use crate::{Outcome, Usage, output};

/// The names of the gateway and of its stack in `wirespeed show`, and in messages.
const COMMAND: &str = "gateway";

/// Run it until Ctrl-C.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let options = &args.options;
    options.check()?;
    if options.capture.is_some() && args.vm.len() > 1 {
        let why = "--capture is for one --vm: run a gateway for each, or use `wirespeed dump`";
        return Err(Usage(why.to_owned()).into());
    }
    let Opened { links, given, learns } = open_all(args)?;
    let (what, descriptors) = given.into_iter().unzip();
    let mut settings = open::settings(options, what, links.len())?;
    settings.learn = Some(learn(options, &settings.networks));
    // Threads that begin later have no capabilities, either.
    jail::privileges::drop_capabilities().context("capabilities cannot be dropped")?;
    let interrupt = Interrupt::install()?;
    for (number, vm) in args.vm.iter().enumerate() {
        let networks = settings.networks.iter().filter(|network| network.link == number);
        let networks: Vec<_> = networks.map(|network| network.network().to_string()).collect();
        output::err(&format!("wirespeed {COMMAND}: {vm}: {}", networks.join(" and ")));
    }
    let given = Given { links, descriptors, inside: Vec::new(), tables: Vec::new() };
    let mut machine = Machine::begin(COMMAND, &settings, given)?;
    let has_ended = || interrupt.noted();
    let (fd, _) = interrupt.descriptor();
    let owner =
        Owner { fd: Some(fd), has_ended: &has_ended, ends_with_links: false, last: Duration::ZERO };
    let ended = machine.run(&owner);
    for what in &settings.given {
        if let What::Control(path) = what {
            // A dead socket is replaced by the next program with this number.
            let _ = std::fs::remove_file(path);
        }
    }
    ended?;
    learns.map_or(Ok(()), Learns::end)?;
    Ok(Outcome::Done)
}

/// What was opened with the user's privileges.
struct Opened {
    links: Vec<Box<dyn Device>>,
    given: Vec<(What, OwnedFd)>,
    learns: Option<Learns>,
}

fn open_all(args: &Args) -> Result<Opened> {
    let options = &args.options;
    let mut given = open::open(options, std::process::id())?;
    let learns = options.learn.as_deref().map(Learns::begin).transpose()?;
    if let Some(learns) = &learns {
        given.push((What::Learn, learns.lines()?));
    }
    // The machines' sockets are for this user alone. No other thread makes files yet.
    let before = umask(Mode::from_raw_mode(0o177));
    let links: Result<_> = args.vm.iter().map(|vm| vm.open(options.mtu())).collect();
    umask(before);
    let links = links?;
    Ok(Opened { links, given, learns })
}

/// What machines learn. They route IPv6 to us if that leads somewhere.
fn learn(options: &Options, networks: &[Network]) -> Learn {
    Learn {
        mtu: u16::try_from(options.mtu().bytes()).unwrap_or(u16::MAX),
        routes_v6: open::routed(networks, options.net6).iter().any(IpAddr::is_ipv6),
        has_names: options.dns != Dns::Off,
        dhcp4: true,
        ra: true,
        dhcp6: true,
    }
}
