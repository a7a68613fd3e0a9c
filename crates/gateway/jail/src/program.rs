//! The program's process, before it is the program: makes the namespaces and all that is in them,
//! waits until the gateway is ready, gives up its capabilities, and executes the program.
//!
//! Called by: `lib.rs`, in a process of its own with one thread. With a PID namespace it starts
//! that namespace's first process instead (`init.rs`), which does the rest, and ends.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sched::{CloneFlags, unshare};
use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::error::{Error, ErrorKind, refused};
use crate::message::{FromProgram, ToProgram, receive, send};
use crate::options::{Setup, User};
use crate::process::{self, begin, die_with_parent, is_no_socket, myself};
use crate::{link, mounts, namespaces, privileges};

/// The exit status of a child whose error the launcher has got as a message.
pub(crate) const FAILED: u8 = 125;

/// Capabilities that files can give the program: they are for its own network only (ping(8)).
const HARMLESS: CapabilitySet = CapabilitySet::NET_RAW.union(CapabilitySet::NET_BIND_SERVICE);

/// Be the program of this command.
pub(crate) fn main(command: &[OsString]) -> ExitCode {
    let socket = match begin(is_no_socket) {
        Ok(socket) => socket,
        Err(_) => return ExitCode::from(FAILED),
    };
    match run(&socket, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(&socket, why),
    }
}

/// Report an error to the launcher.
pub(crate) fn fail(socket: &OwnedFd, why: Error) -> ExitCode {
    // If the launcher is gone there is nobody to tell.
    let _ = send(socket, &FromProgram::Failed(why), &[]);
    ExitCode::from(FAILED)
}

/// Returns if another process is to be the program.
fn run(socket: &OwnedFd, command: &[OsString]) -> Result<(), Error> {
    let Some(ToProgram::Setup(setup)) = next(socket)?.map(|(message, _)| message) else {
        return Err(Error::not_started("the launcher ended"));
    };
    let (notes, descriptors) = prepare(&setup)?;
    let init = match setup.pid {
        true => Some(start_init(socket, command)?),
        false => None,
    };
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    send(socket, &FromProgram::Made { notes, init }, &borrowed)
        .map_err(refused("the launcher cannot be told"))?;
    if init.is_some() {
        return Ok(());
    }
    // Only the gateway may hold these.
    drop(descriptors);
    let user = go(socket)?.user;
    limit_capabilities();
    become_user(user)?;
    let why = self::command(command)?.exec();
    Err(not_executed(command, &why))
}

fn next(socket: &OwnedFd) -> Result<Option<(ToProgram, Vec<OwnedFd>)>, Error> {
    receive(socket).map_err(refused("the launcher's message is not understood"))
}

/// Make the namespaces and what is in them; returns notes, and the descriptors for the gateway.
fn prepare(setup: &Setup) -> Result<(Vec<String>, Vec<OwnedFd>), Error> {
    let mut notes = Vec::new();
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    namespaces::enter_new(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS, uid, gid)?;
    die_with_parent()?;
    let network = link::own_network()?;
    let packet = link::make_pair(setup, &network)?;
    link::configure(setup, gid, &mut notes)?;
    let inside = link::inside(&setup.inside)?;
    mounts::arrange(&setup.hide, &setup.files, &mut notes)?;
    Ok((notes, [packet, network.into()].into_iter().chain(inside).collect()))
}

/// Start the first process of a new PID namespace; returns its number outside. It has the
/// capability to mount its /proc.
fn start_init(socket: &OwnedFd, command: &[OsString]) -> Result<i32, Error> {
    unshare(CloneFlags::CLONE_NEWPID).map_err(refused("a PID namespace cannot be made"))?;
    let mount = CapabilitySet::SYS_ADMIN;
    let keep = || {
        let sets = rustix::thread::capabilities(None)?;
        let sets = CapabilitySets { inheritable: mount, ..sets };
        rustix::thread::set_capabilities(None, sets)?;
        rustix::thread::configure_capability_in_ambient_set(mount, true)
    };
    keep().map_err(refused("the capability to mount /proc cannot be kept"))?;
    limit_capabilities();
    let socket = socket.try_clone().map_err(refused("no descriptor is left"))?;
    let mut init = myself(process::INIT, socket)?;
    init.args(command);
    let child = init.spawn().map_err(refused("the first process of the namespace"))?;
    i32::try_from(child.id()).map_err(|_| Error::not_started("a process number is too large"))
}

/// How the program is executed.
pub(crate) struct Go {
    pub(crate) keep: bool,
    pub(crate) user: User,
}

/// Wait until the program may be executed; its standard input is in its place then.
pub(crate) fn go(socket: &OwnedFd) -> Result<Go, Error> {
    let Some((ToProgram::Go { keep, user }, descriptors)) = next(socket)? else {
        return Err(Error::not_started("the launcher ended"));
    };
    let stdin = descriptors.first().ok_or_else(|| Error::not_started("no standard input came"))?;
    rustix::stdio::dup2_stdin(stdin).map_err(refused("standard input cannot be passed on"))?;
    if keep {
        rustix::process::set_parent_process_death_signal(None)
            .map_err(refused("the program cannot outlive the launcher"))?;
    }
    Ok(Go { keep, user })
}

/// Be the user that the program sees itself as. Root gets a user namespace of its own, which has no
/// power over the network and the mounts made so far, even if the caller is root.
pub(crate) fn become_user(user: User) -> Result<(), Error> {
    if user == User::Own && !geteuid().is_root() {
        return Ok(());
    }
    let death = rustix::process::parent_process_death_signal().ok().flatten();
    namespaces::enter_new(CloneFlags::CLONE_NEWNS, 0, 0)?;
    rustix::process::set_parent_process_death_signal(death)
        .map_err(refused("the program cannot be made to end with the launcher"))
}

/// Executing the program takes its capabilities. From now on the files of programs give it no
/// others than the harmless ones. Root gets all capabilities over a user namespace of its own.
fn limit_capabilities() {
    privileges::drop_bounding_set(CapabilitySet::all().difference(HARMLESS));
}

/// The program's command.
pub(crate) fn command(command: &[OsString]) -> Result<Command, Error> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| Error::not_started("give a program to run"))?;
    let mut made = Command::new(program);
    made.args(arguments);
    Ok(made)
}

/// The error for a program that was not executed.
pub(crate) fn not_executed(command: &[OsString], why: &io::Error) -> Error {
    let Some(program) = command.first() else { return Error::not_started("give a program to run") };
    let name = program.display();
    // A folder of PATH that may not be searched gives another error than a missing file does.
    if why.kind() == io::ErrorKind::NotFound || !is_found(program) {
        let text = format!("{name}: not found, or its interpreter is not: see its name and PATH");
        return Error::new(ErrorKind::NotFound, text);
    }
    let text = format!("{name} cannot be executed ({why}): see its mode, `ls -l`");
    Error::new(ErrorKind::NotExecutable, text)
}

/// Is there a file for a name without a slash in a folder of PATH? A path counts as found.
fn is_found(program: &OsStr) -> bool {
    if program.as_encoded_bytes().contains(&b'/') {
        return true;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
