//! A gateway for a network namespace that is there: from the options of a drop-in to a process that
//! runs.
//!
//! Called by: `pasta.rs` and `slirp4netns.rs`. The gateway itself is the one of netns (crate
//! `jail`, crate `machine`).

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jail::{Attach, Attached, Attaching, Inside};
use machine::parts::{Auto, Dialect, EndsWith, Given as What, Tool, When, deleted};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use wirespeed::MacAddr;

use super::pasta::args::Serves;
use crate::gateways::{Options, open};
use crate::output;

/// The network to connect.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) network: OwnedFd,
    pub(super) user: Option<OwnedFd>,
    /// What ends the gateway.
    pub(super) ends: Vec<(When, OwnedFd)>,
}

/// What a drop-in wants.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    /// The drop-in's name.
    pub(super) tool: Tool,
    pub(super) options: &'a Options,
    pub(super) interface: String,
    pub(super) mac: Option<MacAddr>,
    pub(super) may_be_tap: bool,
    pub(super) is_configured: bool,
    /// What the interface can learn, if it is not configured.
    pub(super) serves: Serves,
    /// Ports inside that lead to ports of the host's loopback address.
    pub(super) to_host: Vec<(u16, u16)>,
    /// Publish what listens inside.
    pub(super) auto: Auto,
    /// Where requests of slirp4netns's API come.
    pub(super) api: Option<PathBuf>,
    /// The gateway outlives this process; its messages go there, or nowhere.
    pub(super) leaves: Option<Option<PathBuf>>,
    pub(super) is_quiet: bool,
}

impl Network {
    /// The network of a process, which ends with that process.
    ///
    /// # Errors
    /// There is no such process, or it is another user's.
    pub(super) fn of_process(pid: u32, enters_user: bool) -> Result<Network> {
        let file = |name: &str| {
            let path = format!("/proc/{pid}/ns/{name}");
            File::open(&path).with_context(|| format!("cannot open {path}")).map(OwnedFd::from)
        };
        let user = if enters_user { Some(file("user")?) } else { None };
        let network = file("net")?;
        Ok(Network { network, user, ends: vec![process(pid)?] })
    }

    /// The network of a file, which ends when the file is deleted, if it `quits`.
    ///
    /// # Errors
    /// There is no such file.
    pub(super) fn of_file(path: &Path, user: Option<&Path>, quits: bool) -> Result<Network> {
        let file = |path: &Path| {
            let opened = File::open(path);
            opened.with_context(|| format!("cannot open {}", path.display())).map(OwnedFd::from)
        };
        let network = file(path)?;
        let end = match process_of(path) {
            _ if !quits => None,
            Some(pid) => Some(process(pid)?),
            // Without it the gateway ends when nobody is left in the network.
            None => deleted(path).ok(),
        };
        Ok(Network { network, user: user.map(file).transpose()?, ends: end.into_iter().collect() })
    }
}

/// The end of a process.
fn process(pid: u32) -> Result<(When, OwnedFd)> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.with_context(|| format!("{pid} is no process number"))?;
    let fd = pidfd_open(number, PidfdFlags::empty());
    Ok((When::Ready, fd.with_context(|| format!("process {pid} cannot be watched"))?))
}

/// The process of a path such as /proc/7/ns/net: nothing reports that this is deleted.
fn process_of(path: &Path) -> Option<u32> {
    let rest = path.to_str()?.strip_prefix("/proc/")?;
    let (pid, rest) = rest.split_once('/')?;
    if rest.ends_with("ns/net") { pid.parse().ok() } else { None }
}

/// Connect the network, and start its gateway.
///
/// # Errors
/// A port is taken, a namespace cannot be entered, an address is no good; nothing is left then.
pub(super) fn begin(plan: &Plan<'_>, network: Network) -> Result<Attached> {
    let attaching = Attaching::start()?;
    let mut opened = open::open(plan.options, attaching.pid())?;
    opened.extend(network.ends.into_iter().map(|(when, fd)| (What::End(when), fd)));
    if let Some(path) = &plan.api {
        opened.push((What::Orders(Dialect::Slirp), open::listener(path)?));
    }
    let (what, descriptors) = opened.into_iter().unzip();
    let mut settings = open::settings(plan.tool, plan.options, what, 1)?;
    settings.ends_with = EndsWith::Links;
    settings.auto = plan.auto;
    let serves = plan.serves;
    settings.configures = !plan.is_configured && (serves.dhcp4 || serves.ra);
    settings.learn = serves.of(settings.learn);
    settings.learn.ra &= settings.configures;
    let inside: Vec<(Inside, SocketAddr)> =
        plan.to_host.iter().flat_map(|&(port, to)| inside(port, to)).collect();
    settings.to_host = inside.iter().map(|&(_, to)| to).collect();
    let mut options = jail::Options::new([""]);
    options.interface.clone_from(&plan.interface);
    options.mtu = plan.options.mtu();
    options.addresses = settings.networks.iter().map(|n| n.with_prefix(n.program)).collect();
    options.gateways = open::routed(&settings.networks, plan.options.net6);
    options.inside = inside.into_iter().map(|(inside, _)| inside).collect();
    options.settings = serde_json::to_string(&settings)?;
    options.descriptors = descriptors;
    let attach = Attach {
        network: network.network,
        user: network.user,
        options,
        mac: plan.mac,
        may_be_tap: plan.may_be_tap,
        is_configured: plan.is_configured,
        has_tables: plan.auto.is_some(),
        leaves: plan.leaves.as_ref().map(|file| messages(file.as_deref())).transpose()?,
    };
    let mut note = |text: &str| {
        if !plan.is_quiet {
            output::err(&format!("{}: warning: {text}", plan.tool.name()));
        }
    };
    Ok(attaching.begin(&attach, &mut note)?)
}

/// Where messages of a process in the background go.
pub(super) fn messages(file: Option<&Path>) -> Result<OwnedFd> {
    let path = file.unwrap_or(Path::new("/dev/null"));
    let opened = File::options().append(true).create(file.is_some()).open(path);
    Ok(opened.with_context(|| format!("cannot write {}", path.display()))?.into())
}

/// The sockets inside for a port, and where they lead.
fn inside(port: u16, to: u16) -> impl Iterator<Item = (Inside, SocketAddr)> {
    let both =
        move |ip| (Inside { udp: false, at: SocketAddr::new(ip, port) }, SocketAddr::new(ip, to));
    crate::netns::loopbacks().map(both)
}

/// Write the gateway's number for those who will end it.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_pid(path: &Path, pid: u32) -> Result<()> {
    let written = fs::write(path, format!("{pid}\n"));
    written.with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_process_ends_with_it() {
        assert_eq!(process_of(Path::new("/proc/12/ns/net")), Some(12));
        assert_eq!(process_of(Path::new("/proc/12/task/13/ns/net")), Some(12));
        assert_eq!(process_of(Path::new("/run/netns/x")), None);
        assert_eq!(process_of(Path::new("/proc/self/ns/net")), None);
    }
}
