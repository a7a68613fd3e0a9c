//! A process that enters namespaces which are there, makes the gateway's link, and ends.
//!
//! Called by: `lib.rs`, in a process of its own with one thread. Sources: setns(2),
//! Linux `Documentation/networking/tuntap.rst`.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use base::{MacAddr, Mtu};
use device::Device;
use device::tap::{Config, Tap};
use nix::sched::{CloneFlags, setns};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::attach::is_own_user_namespace;
use crate::error::{Error, refused};
use crate::link;
use crate::message::{FromProgram, Near, ToInside, receive, send};
use crate::options::Setup;
use crate::process::begin;
use crate::program::{FAILED, fail};

/// Tables of sockets: an open one shows the network namespace in which it was opened.
const TABLES: [&str; 4] = ["tcp", "tcp6", "udp", "udp6"];

/// Be that process.
pub(crate) fn main() -> ExitCode {
    let Ok(socket) = begin(|_| false) else { return ExitCode::from(FAILED) };
    let made = match run(&socket) {
        Ok(made) => made,
        Err(why) => return fail(&socket, why),
    };
    let borrowed: Vec<_> = made.descriptors.iter().map(AsFd::as_fd).collect();
    let message = FromProgram::Joined { notes: made.notes, tap_mtu: made.tap_mtu };
    match send(&socket, &message, &borrowed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(FAILED),
    }
}

/// What was made.
struct Made {
    /// The link, the network, the sockets inside, the tables.
    descriptors: Vec<OwnedFd>,
    notes: Vec<String>,
    tap_mtu: Option<u32>,
}

fn run(socket: &OwnedFd) -> Result<Made, Error> {
    let received = receive(socket).map_err(refused("the launcher's message is not understood"))?;
    let Some((ToInside::Make { setup, near }, mut namespaces)) = received else {
        return Err(Error::not_started("the launcher ended"));
    };
    let user = if namespaces.len() > 1 { namespaces.pop() } else { None };
    let network = namespaces.pop().ok_or_else(|| Error::not_started("no network came"))?;
    if let Some(user) = user
        && !is_own_user_namespace(&user)?
    {
        setns(&user, CloneFlags::CLONE_NEWUSER)
            .map_err(refused("the user namespace cannot be entered"))?;
        // A change of the user namespace resets it.
        crate::process::die_with_parent()?;
    }
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).map_err(
        refused("the network namespace cannot be entered; give its user namespace, too (--userns)"),
    )?;
    make(&setup, near, network)
}

/// In the network's namespace.
fn make(setup: &Setup, near: Near, network: OwnedFd) -> Result<Made, Error> {
    let network = File::from(network);
    let mut notes = Vec::new();
    let (link, tap_mtu) = match near.may_be_tap && link::is_there(&setup.interface) {
        true => tap(setup)?,
        false => (link::make_pair(setup, &network)?, None),
    };
    link::configure_joined(setup, near.is_configured, near.mac.map(MacAddr), &mut notes)?;
    let sockets = link::inside(&setup.inside)?;
    let mut descriptors = vec![link, network.into()];
    descriptors.extend(sockets);
    if near.has_tables {
        for name in TABLES {
            let file = File::open(format!("/proc/thread-self/net/{name}"));
            // A kernel may be without IPv6.
            let file = file.or_else(|_| File::open("/proc/thread-self/net/tcp"));
            descriptors.push(file.map_err(refused("the network's sockets cannot be seen"))?.into());
        }
    }
    Ok(Made { descriptors, notes, tap_mtu })
}

/// The TAP that is there, and its MTU.
fn tap(setup: &Setup) -> Result<(OwnedFd, Option<u32>), Error> {
    let config =
        Config { name: Some(setup.interface.clone()), io_uring: false, ..Config::default() };
    let unusable = |why: &dyn core::fmt::Display| {
        Error::not_started(format!("{} cannot be used: {why}", setup.interface))
    };
    let mut tap = Tap::open(&config).map_err(|why| unusable(&why))?;
    let mtu = Mtu::new(setup.mtu as usize).unwrap_or(Mtu::ETHERNET);
    let wanted = device::tap::Setup { mtu: Some(mtu), ..device::tap::Setup::default() };
    tap.configure(&wanted).map_err(|why| unusable(&why))?;
    let fd = tap.as_fd().map(|fd| fd.try_clone_to_owned());
    let fd = fd.ok_or_else(|| Error::not_started("the TAP is gone"))?;
    Ok((fd.map_err(refused("no descriptor is left"))?, Some(setup.mtu)))
}
