//! The first process of the program's PID namespace: mounts its /proc, starts the program, passes
//! signals on, and collects the processes that the program leaves. When it ends, the kernel ends
//! all of them.
//!
//! Called by: `lib.rs`, in a process of its own with one thread. The launcher is its parent, after
//! the process that started it has ended. Source: pid_namespaces(7).

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, WaitOptions, kill_process, set_dumpable_behavior, wait,
};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::error::{Error, refused};
use crate::message::{FromProgram, is_readable, send};
use crate::mounts::own_proc;
use crate::process::{Change, die_with_parent};
use crate::program::{self, Go, become_user, fail, go, not_executed};
use crate::signals::Signals;

const NOHANG: WaitOptions = WaitOptions::NOHANG;
const UNTRACED: WaitOptions = WaitOptions::UNTRACED;

/// Be the first process, for the program of this command.
pub(crate) fn main(command: &[OsString]) -> ExitCode {
    let Ok(socket) = std::io::stdin().as_fd().try_clone_to_owned() else {
        return ExitCode::from(program::FAILED);
    };
    match run(&socket, command) {
        Ok(code) => ExitCode::from(code),
        Err(why) => fail(&socket, why),
    }
}

fn run(socket: &OwnedFd, command: &[OsString]) -> Result<u8, Error> {
    let mounted = own_proc();
    give_up_capabilities()?;
    mounted?;
    send(socket, &FromProgram::InitReady, &[]).map_err(refused("the launcher cannot be told"))?;
    let Go { keep, user } = go(socket)?;
    // The launcher is the parent by now.
    if !keep {
        die_with_parent()?;
        if is_readable(socket) {
            return Err(Error::not_started("the launcher ended"));
        }
    }
    become_user(user)?;
    // Not before: a process that cannot be dumped cannot write its own maps.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(refused("the first process's memory cannot be protected"))?;
    let mut signals = Signals::catch()?;
    let started = program::command(command)?.spawn();
    let started = started.map_err(|why| not_executed(command, &why))?;
    let code = watch(socket, &mut signals, Pid::from_child(&started));
    // Until no process is left.
    while keep && wait(WaitOptions::empty()).err() != Some(Errno::CHILD) {}
    Ok(code)
}

/// The capability to mount is not needed any more.
fn give_up_capabilities() -> Result<(), Error> {
    let give_up = || {
        rustix::thread::clear_ambient_capability_set()?;
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets)
    };
    give_up().map_err(refused("capabilities cannot be dropped"))
}

/// Wait for the program's end; returns its exit status. Collects what it leaves meanwhile.
fn watch(socket: &OwnedFd, signals: &mut Signals, started: Pid) -> u8 {
    loop {
        // A child may be in a process group of its own: shells and timeout(1) make one.
        while let Ok(Some((pid, status))) = wait(NOHANG | UNTRACED) {
            match Change::of(status) {
                Change::Ended(code) if pid == started => return code,
                change if pid == started && change.is_stop_of_terminal() => {
                    let _ = send(socket, &FromProgram::Stopped, &[]);
                }
                _ => {}
            }
        }
        // A signal interrupts it, and is in the descriptor then.
        let _ = poll(&mut [PollFd::new(&*signals, PollFlags::IN)], None);
        for signal in signals.take_for_program() {
            let _ = kill_process(started, signal);
        }
    }
}
