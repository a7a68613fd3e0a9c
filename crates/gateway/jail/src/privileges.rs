//! Makes a process give up for good: the user who started it, capabilities, new privileges, and
//! all system calls that a running stack does not need. After that it can open no file, start no
//! process and no thread, signal no process, and make no memory executable. A router's worker can
//! make no socket either, and use no address to bind, connect or send to.
//!
//! Called by: the worker of `wirespeed up` and the gateway: [`change_user`] and
//! [`drop_capabilities`] first, while the process has one thread, [`lock_down`] when all its
//! threads run. A system call that is not allowed fails with EPERM; `calls.rs` has the lists.
//! Sources: credentials(7), capabilities(7), seccomp(2).
//! docs/decisions/0079-privileges.md, docs/decisions/0115-what-the-worker-may-say.md.

mod calls;

use std::io;

pub use calls::{Calls, lock_down};

use nix::errno::Errno;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::thread::{CapabilitySet, CapabilitySets};

/// Numbers of users who own nothing; a worker takes one by its process number. No distribution,
/// systemd or container manager assigns these numbers.
const NUMBERS: u32 = 0x7157_0000;
/// The same for a namespace with 65,536 users: the numbers of systemd's DynamicUser.
const NUMBERS_16: u32 = 61_184;
const NUMBERS_16_COUNT: u32 = 4_336;

/// Become another user, whose only group has the same number: `wanted`, or a user who owns nothing.
/// Returns the number.
///
/// # Errors
/// The system's: without CAP_SETUID and CAP_SETGID it is EPERM.
pub fn change_user(wanted: Option<u32>) -> io::Result<u32> {
    let pid = std::process::id();
    let candidates = match wanted {
        Some(uid) => vec![uid],
        None => vec![NUMBERS + pid % 0x1_0000, NUMBERS_16 + pid % NUMBERS_16_COUNT],
    };
    // Do this first: a process that is no longer root may not do it.
    drop_bounding_set(CapabilitySet::all());
    let mut last = Errno::EINVAL;
    for uid in candidates {
        match be(Uid::from_raw(uid), Gid::from_raw(uid)) {
            Ok(()) => return Ok(uid),
            // The namespace has no such user: try the next number.
            Err(Errno::EINVAL) => {}
            Err(errno) => last = errno,
        }
    }
    Err(last.into())
}

fn be(uid: Uid, gid: Gid) -> Result<(), Errno> {
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)
}

/// Drop all capabilities of this thread, and those that executing a program could give back.
///
/// # Errors
/// The system's.
pub fn drop_capabilities() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    drop_bounding_set(CapabilitySet::all());
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Executing a program cannot give these back. If the capability to do this is missing, the set
/// stays.
pub(crate) fn drop_bounding_set(capabilities: CapabilitySet) {
    // Without the capability to do this nothing can come back anyway if new privileges are given
    // up, too.
    for one in capabilities.iter() {
        let _ = rustix::thread::remove_capability_from_bounding_set(one);
    }
}
