//! `wirespeed gateway --vm SPEC`: virtual machines in private networks whose only way out is our
//! stack, as an ordinary user.
//!
//! Called by: `lib.rs`; the drop-in `passt`, which makes its options itself. `spec.rs` says how
//! machines are named and opens their links. This is the user's process: the gateway runs in
//! another one (crate `jail`), as crate `machine` says. docs/gateway.md is the user's guide.

mod args;
mod spec;

use anyhow::Result;
use machine::Network;
use machine::parts::{Given as What, Tool};
use rustix::fs::Mode;
use rustix::process::umask;

pub(crate) use args::Args;
pub(crate) use spec::{Held, Opened, listen};

use crate::gateways::serve::{self, How};
use crate::gateways::{Learns, open};
use crate::{Outcome, Usage, output};

/// Run it until Ctrl-C.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let options = &args.options;
    options.check()?;
    let is_switched = args.switch && args.vm.len() > 1;
    if options.capture.is_some() && args.vm.len() > 1 && !is_switched {
        let why = "--capture is for one link: give --switch, run a gateway for each machine, or \
                   use `wirespeed dump`";
        return Err(Usage(why.to_owned()).into());
    }
    let links = if is_switched { 1 } else { args.vm.len() };
    let mut settings = open::settings(Tool::Gateway, options, Vec::new(), links)?;
    settings.is_switched = is_switched;
    let learns = options.learn.as_deref().map(Learns::begin).transpose()?;
    let how = How { options, settings, learns: learns.as_ref(), more: Vec::new(), leaves: None };
    let running = begin(how, || args.vm.iter().map(|vm| vm.open()).collect())?;
    for (number, vm) in args.vm.iter().enumerate() {
        let link = if is_switched { 0 } else { number };
        let networks = running.networks.iter().filter(|network| network.link == link);
        let networks: Vec<_> = networks.map(|network| network.network().to_string()).collect();
        output::err(&format!("wirespeed gateway: {vm}: {}", networks.join(" and ")));
    }
    running.wait()?;
    open::remove_empty_log(options);
    learns.map_or(Ok(()), Learns::end)?;
    Ok(Outcome::Done)
}

/// A gateway in its own process, for virtual machines.
pub(crate) struct Running {
    gateway: serve::Running,
    pub(crate) networks: Vec<Network>,
    /// The files of the machines' sockets, which are removed with this.
    machines: Vec<Held>,
}

/// Open what a gateway uses, with the user's privileges, and start it.
///
/// # Errors
/// Something cannot be opened, or the gateway cannot begin.
pub(crate) fn begin(
    mut how: How<'_>,
    machines: impl FnOnce() -> Result<Vec<Opened>>,
) -> Result<Running> {
    // The machines' sockets are for this user alone. No other thread makes files yet.
    let before = umask(Mode::from_raw_mode(0o177));
    let opened = machines();
    umask(before);
    let mut machines = Vec::new();
    for Opened { connection, fd, held } in opened? {
        how.more.push((What::Machine(connection), fd));
        machines.extend(held);
    }
    let networks = how.settings.networks.clone();
    how.settings.configures = true;
    Ok(Running { gateway: serve::begin(how)?, networks, machines })
}

impl Running {
    /// Wait until it ends, by a signal or by itself.
    ///
    /// # Errors
    /// It failed, or something killed it.
    pub(crate) fn wait(self) -> Result<()> {
        self.gateway.wait()
    }

    /// The number of the gateway's process.
    pub(crate) fn pid(&self) -> u32 {
        self.gateway.pid()
    }

    /// Leave the gateway, and the files of its sockets.
    pub(crate) fn leave(self) {
        std::mem::forget(self.machines);
        self.gateway.leave();
    }
}
