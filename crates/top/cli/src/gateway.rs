//! `wirespeed gateway --vm SPEC`: virtual machines in private networks whose only way out is our
//! stack, as an ordinary user.
//!
//! Called by: `lib.rs`; the drop-in `passt`, which makes its options itself. `spec.rs` says how
//! machines are named and opens their links. This is the user's process: the gateway runs in
//! another one (crate `jail`), as `machine.rs` says. docs/gateway.md is the user's guide.

mod args;
mod spec;

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anyhow::Result;
use jail::{Sees, Served, Serving};
use rustix::fs::Mode;
use rustix::process::umask;

pub(crate) use args::Args;
pub(crate) use spec::{Held, Opened, inherited, listen};

use crate::machine::connection::Connection;
use crate::machine::learning::Learns;
use crate::machine::networks::Network;
use crate::machine::options::{Dns, Options};
use crate::machine::{Learn, Settings, Tool, What, open};
use crate::{Outcome, Usage, output};

/// Run it until Ctrl-C.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let options = &args.options;
    options.check()?;
    let is_switched = args.switch && args.vm.len() > 1;
    if options.capture.is_some() && args.vm.len() > 1 && !is_switched {
        let why = "--capture is for one link: give --switch, run a gateway for each machine, or use \
                   `wirespeed dump`";
        return Err(Usage(why.to_owned()).into());
    }
    let links = if is_switched { 1 } else { args.vm.len() };
    let mut settings = open::settings(Tool::Gateway, options, Vec::new(), links)?;
    settings.is_switched = is_switched;
    let learns = options.learn.as_deref().map(Learns::begin).transpose()?;
    let how = How { options, settings, learns: learns.as_ref(), leaves: None };
    let running = begin(how, || args.vm.iter().map(|vm| vm.open(options.mtu())).collect())?;
    for (number, vm) in args.vm.iter().enumerate() {
        let link = if is_switched { 0 } else { number };
        let networks = running.networks.iter().filter(|network| network.link == link);
        let networks: Vec<_> = networks.map(|network| network.network().to_string()).collect();
        output::err(&format!("wirespeed gateway: {vm}: {}", networks.join(" and ")));
    }
    running.wait()?;
    learns.map_or(Ok(()), Learns::end)?;
    Ok(Outcome::Done)
}

/// A gateway in its own process, for virtual machines.
pub(crate) struct Running {
    served: Served,
    pub(crate) networks: Vec<Network>,
    files: Files,
}

/// The files of sockets, which are removed with this.
struct Files {
    _machines: Vec<Held>,
    _control: ControlSocket,
}

/// The file of the control socket.
struct ControlSocket;

impl Drop for ControlSocket {
    fn drop(&mut self) {
        open::remove_control_socket();
    }
}

/// How a gateway for machines runs.
pub(crate) struct How<'a> {
    pub(crate) options: &'a Options,
    pub(crate) settings: Settings,
    pub(crate) learns: Option<&'a Learns>,
    /// It outlives this process, and its messages go there.
    pub(crate) leaves: Option<OwnedFd>,
}

/// Open what a gateway uses, with the user's privileges, and start it.
///
/// # Errors
/// Something cannot be opened, or the gateway cannot begin.
pub(crate) fn begin(
    how: How<'_>,
    machines: impl FnOnce() -> Result<Vec<Opened>>,
) -> Result<Running> {
    let How { options, mut settings, learns, leaves } = how;
    // The machines' sockets are for this user alone. No other thread makes files yet.
    let before = umask(Mode::from_raw_mode(0o177));
    let machines = machines();
    umask(before);
    let (mut links, mut held) = (Vec::new(), Vec::new());
    for Opened { connection, fd, held: own } in machines? {
        links.push((What::Machine(connection), fd));
        held.extend(own);
    }
    let serving = Serving::start(&sees(&links))?;
    let pid = if leaves.is_some() { serving.pid() } else { std::process::id() };
    let mut given = open::open(options, pid)?;
    let files = Files { _machines: held, _control: ControlSocket };
    if let Some(learns) = learns {
        given.push((What::Learn, learns.lines()?));
    }
    let (what, descriptors): (Vec<_>, Vec<_>) = given.into_iter().chain(links).unzip();
    settings.learn.get_or_insert_with(|| learn(options, &settings.networks));
    settings.given = what;
    let served = serving.begin(serde_json::to_string(&settings)?, &descriptors, leaves)?;
    Ok(Running { served, networks: settings.networks, files })
}

impl Running {
    /// Wait until it ends, by a signal or by itself.
    ///
    /// # Errors
    /// It failed, or something killed it.
    pub(crate) fn wait(self) -> Result<()> {
        Ok(self.served.wait()?)
    }

    /// The number of the gateway's process.
    pub(crate) fn pid(&self) -> u32 {
        self.served.pid()
    }

    /// Leave the gateway, and the files of its sockets.
    pub(crate) fn leave(self) {
        std::mem::forget(self.files);
        self.served.leave();
    }
}

/// What the gateway's process has to see of the host's files: datagrams are sent to a path.
fn sees(links: &[(What, OwnedFd)]) -> Sees {
    let mut folders: Vec<PathBuf> = Vec::new();
    for (what, _) in links {
        match what {
            // The path is the machine's, and not known before it sends.
            What::Machine(Connection::Datagram { remote: None, .. }) => return Sees::All,
            What::Machine(Connection::Datagram { remote: Some(remote), .. }) => {
                let folder = remote.parent().map(PathBuf::from);
                folders.extend(folder.filter(|folder| !folders.contains(folder)));
            }
            _ => {}
        }
    }
    Sees::Folders(folders)
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
