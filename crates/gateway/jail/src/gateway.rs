//! The gateway's process: the host's network, nothing else of the host. It gives up its files and
//! capabilities, takes its link, and calls the caller's function.
//!
//! Called by: `lib.rs`, in a process of its own. [`Launcher::ready`] filters its system calls. Its
//! arguments say what it may keep of the host's files: nothing if there is a program, else what
//! [`crate::Sees`] says.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;

use base::{LinkKind, Mtu};
use device::Device;
use device::packet::PacketSocket;
use device::tap::{Declared, Tap};
use nix::sched::CloneFlags;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getegid, geteuid, getrlimit, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit, setsid,
};

use crate::error::{Error, refused};
use crate::message::{FromGateway, ToGateway, is_readable, receive, send};
use crate::privileges::{self, Calls};
use crate::process::{begin, die_with_parent};
use crate::{link, mounts, namespaces};

/// What the gateway's function gets.
pub struct GatewayEnds {
    /// The far end of the program's link. Its Ethernet address is the kernel's: give the stack
    /// another one. When the last process in the program's network has ended, it is gone:
    /// [`device::Device::failure`] says so after [`device::Device::check_link`]. `None` without a
    /// program's network ([`crate::Serving`]).
    pub link: Option<Box<dyn Device>>,
    /// The program's network, which stays while this is open: so what the program has sent can
    /// leave after its end. `None` with [`crate::Options::keep`], for a network that was there, and
    /// without one.
    pub network: Option<OwnedFd>,
    /// [`crate::Options::settings`], or what [`crate::Serving::begin`] got.
    pub settings: String,
    /// [`crate::Options::descriptors`], or what [`crate::Serving::begin`] got.
    pub descriptors: Vec<OwnedFd>,
    /// The sockets of [`crate::Options::inside`], in that order; those of
    /// [`crate::Attach::inside`], then its tables.
    pub inside: Vec<OwnedFd>,
    /// The launcher.
    pub launcher: Launcher,
    /// Sentences for the user about what this machine did not permit.
    pub notes: Vec<String>,
}

/// The launcher, as the gateway knows it.
pub struct Launcher {
    socket: OwnedFd,
    /// The gateway outlives it.
    keep: bool,
    /// Standard error from the time on at which the gateway is ready.
    stderr: Option<OwnedFd>,
}

impl Launcher {
    /// Filter the system calls of all threads, and let the program begin. From now on the gateway
    /// can make sockets for IP and use what it has, but open no file and start no thread: do that
    /// before.
    ///
    /// # Errors
    /// This kernel has no seccomp; the launcher is gone.
    pub fn ready(&self) -> Result<(), Error> {
        if let Some(stderr) = &self.stderr {
            rustix::stdio::dup2_stderr(stderr).map_err(refused("messages cannot be redirected"))?;
        }
        privileges::lock_down(Calls::Gateway).map_err(|why| {
            Error::not_started(format!(
                "the gateway's system calls cannot be filtered ({why}): use a kernel with \
                 CONFIG_SECCOMP_FILTER"
            ))
        })?;
        send(&self.socket, &FromGateway::Ready, &[]).map_err(refused("the launcher ended"))
    }

    /// Tell the launcher why there will be no gateway; it reports that, and ends.
    pub fn failed(&self, why: &dyn core::fmt::Display) {
        // If the launcher is gone there is nobody to tell.
        let _ = send(&self.socket, &FromGateway::Failed(Error::not_started(why.to_string())), &[]);
    }

    /// Has the program ended, or was the launcher told to end? Send what is queued then, for two
    /// seconds at most, and return. With [`Launcher::keeps`] it is always false.
    pub fn has_ended(&self) -> bool {
        !self.keep && is_readable(&self.socket)
    }

    /// The gateway has to run until its link is gone: [`crate::Options::keep`].
    pub fn keeps(&self) -> bool {
        self.keep
    }

    /// A descriptor that is readable once [`Launcher::has_ended`]; `None` if that never happens.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.keep).then(|| self.socket.as_fd())
    }
}

/// First arguments of a gateway without a program: the host's files stay visible, or nothing but
/// the folders that follow.
pub(crate) const ALL_FILES: &str = "all";
pub(crate) const FOLDERS: &str = "folders";

/// Be the gateway.
pub(crate) fn main(
    arguments: &[OsString],
    gateway: impl FnOnce(GatewayEnds) -> ExitCode,
) -> ExitCode {
    let Ok(socket) = begin(|_| false) else { return ExitCode::FAILURE };
    match confine(arguments).and_then(|notes| ends(&socket, notes)) {
        Ok(ends) => {
            drop(socket);
            gateway(ends)
        }
        Err(why) => {
            // If the launcher is gone there is nobody to tell.
            let _ = send(&socket, &FromGateway::Failed(why), &[]);
            ExitCode::FAILURE
        }
    }
}

/// Give up the terminal, the host's files and all capabilities; returns what is not possible here.
fn confine(arguments: &[OsString]) -> Result<Vec<String>, Error> {
    // Signals of the terminal are for the program.
    setsid().map_err(refused("the gateway cannot have a session of its own"))?;
    let most = getrlimit(Resource::Nofile);
    // If the limit stays, there are fewer flows.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most.maximum, ..most });
    let mut notes = Vec::new();
    match arguments.split_first() {
        None => leave_files(&[])?,
        Some((first, _)) if first == ALL_FILES => {}
        Some((_, folders)) => {
            // The filter of system calls, which comes later, lets it open no file in either case.
            if let Err(why) = leave_files(folders) {
                notes.push(format!(
                    "the gateway's process sees the host's files, of which it can open none: {why}"
                ));
            }
        }
    }
    die_with_parent()?;
    privileges::drop_capabilities().map_err(refused("capabilities cannot be dropped"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(refused("the gateway's memory cannot be protected"))?;
    Ok(notes)
}

/// See nothing of the host's files but these folders.
fn leave_files(folders: &[OsString]) -> Result<(), Error> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    namespaces::enter_new(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC, uid, gid)?;
    mounts::empty_root(&folders.iter().map(PathBuf::from).collect::<Vec<_>>())
}

fn ends(socket: &OwnedFd, notes: Vec<String>) -> Result<GatewayEnds, Error> {
    let received = receive(socket).map_err(refused("the launcher's message is not understood"))?;
    let Some((
        ToGateway::Begin { settings, descriptors, has_link, life, tap_mtu, stderr },
        mut all,
    )) = received
    else {
        return Err(Error::not_started("the launcher ended"));
    };
    let before = if has_link { 2 } else { 0 };
    if all.len() < before + descriptors + usize::from(stderr) {
        return Err(Error::not_started("descriptors are missing: raise `ulimit -n`"));
    }
    if !life.launcher {
        set_parent_process_death_signal(None)
            .map_err(refused("the gateway cannot outlive the launcher"))?;
    }
    let stderr = if stderr { all.pop() } else { None };
    let inside = all.split_off(before + descriptors);
    let descriptors = all.split_off(before);
    let network = all.pop().filter(|_| !life.network);
    let link = all.pop().map(|fd| adopt(fd, tap_mtu)).transpose()?;
    let own = socket.try_clone().map_err(refused("no descriptor is left"))?;
    let launcher = Launcher { socket: own, keep: !life.launcher, stderr };
    Ok(GatewayEnds { link, network, settings, descriptors, inside, launcher, notes })
}

/// The link, which is a TAP with this MTU or a packet socket.
fn adopt(fd: OwnedFd, tap_mtu: Option<u32>) -> Result<Box<dyn Device>, Error> {
    let unusable = |why: &dyn core::fmt::Display| {
        Error::not_started(format!("the program's link cannot be used: {why}"))
    };
    let Some(mtu) = tap_mtu else {
        let link = PacketSocket::adopt(fd, &link::packet_config());
        return Ok(Box::new(link.map_err(|why| unusable(&why))?));
    };
    let mtu = Mtu::new(mtu as usize).unwrap_or(Mtu::ETHERNET);
    let declared = Declared { link: LinkKind::Ethernet, mtu, ..Declared::default() };
    Ok(Box::new(Tap::adopt(fd, &declared).map_err(|why| unusable(&why))?))
}
