//! User namespaces, their maps, and what to do on a machine that refuses them.
//!
//! Called by: `program.rs`, `init.rs`, `gateway.rs`, each while it has one thread. Sources:
//! user_namespaces(7), Linux `Documentation/admin-guide/sysctl/user.rst`, apparmor(7).

use std::io::{self, ErrorKind};

use nix::sched::{CloneFlags, unshare};
use rustix::process::{getegid, geteuid};

use crate::error::{Error, refused};

/// Move this process into a new user namespace and the other new ones of `flags`; it has all
/// capabilities there. The only user of the namespace is the caller, by the number `uid`.
pub(crate) fn enter_new(flags: CloneFlags, uid: u32, gid: u32) -> Result<(), Error> {
    let outside = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | flags)
        .map_err(refused("this machine does not let you make namespaces"))?;
    // Without it no group may be mapped (user_namespaces(7)).
    write("setgroups", "deny")?;
    write("uid_map", &format!("{uid} {} 1", outside.0))?;
    write("gid_map", &format!("{gid} {} 1", outside.1))
}

fn write(name: &str, text: &str) -> Result<(), Error> {
    let path = format!("/proc/self/{name}");
    std::fs::write(&path, text).map_err(|why| match why.kind() {
        ErrorKind::NotFound => Error::not_started(format!(
            "{path} does not exist: mount it, `sudo mount -t proc proc /proc`"
        )),
        _ => explain(&format!("{path} cannot be written"), &why),
    })
}

/// The error for a system call that was refused: what, why, and the remedy on this machine.
pub(crate) fn explain(what: &str, why: &io::Error) -> Error {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let advice = remedy(why.raw_os_error().unwrap_or(0), read);
    Error::not_started(format!("{what} ({why}): {advice}"))
}

/// The remedy if `errno` was returned, by what the files say that `read` reads.
fn remedy(errno: i32, read: impl Fn(&str) -> Option<String>) -> &'static str {
    let is = |path: &str, value: &str| read(path).is_some_and(|text| text.trim() == value);
    let is_denied = [libc::EPERM, libc::EACCES].contains(&errno);
    let is_full = [libc::ENOSPC, libc::EUSERS].contains(&errno);
    let is_filtered = || {
        let status = read("/proc/self/status").unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|n| n.trim() == "2"))
    };
    if is_denied && is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "allow user namespaces, `sudo sysctl kernel.unprivileged_userns_clone=1`"
    } else if is_denied && is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor allows user namespaces to programs with a profile only: install wirespeed's \
         package, which has one, or `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    } else if is_full && is("/proc/sys/user/max_user_namespaces", "0") {
        "allow user namespaces, `sudo sysctl user.max_user_namespaces=15000`"
    } else if is_full {
        "too many namespaces exist: end programs that made some, or raise \
         user.max_user_namespaces and user.max_net_namespaces"
    } else if errno == libc::EINVAL {
        "this kernel may be built without user namespaces (CONFIG_USER_NS): use another kernel"
    } else if (is_denied || errno == libc::ENOSYS) && is_filtered() {
        "a filter of system calls forbids it: start the container with `--security-opt \
         seccomp=unconfined`"
    } else if is_denied {
        "see whether `unshare --user --net --mount true` works; in a chroot the kernel refuses \
         namespaces"
    } else if errno == libc::EMFILE || errno == libc::ENFILE {
        "raise the limit of open files, `ulimit -n`"
    } else {
        "see whether `unshare --user --net --mount true` works"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(errno: i32, files: &[(&str, &str)]) -> &'static str {
        remedy(errno, |path| {
            files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn each_machine_has_its_remedy() {
        let debian = ("/proc/sys/kernel/unprivileged_userns_clone", "0\n");
        let ubuntu = ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
        let none = ("/proc/sys/user/max_user_namespaces", "0\n");
        let docker = ("/proc/self/status", "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n");
        let says = [
            (on(libc::EPERM, &[debian]), "kernel.unprivileged_userns_clone=1"),
            (on(libc::EACCES, &[ubuntu]), "install wirespeed's package"),
            (on(libc::ENOSPC, &[none]), "user.max_user_namespaces=15000"),
            (on(libc::ENOSPC, &[]), "too many namespaces"),
            (on(libc::EPERM, &[docker]), "--security-opt seccomp=unconfined"),
            (on(libc::EPERM, &[("/proc/self/status", "Seccomp:\t0")]), "chroot"),
            (on(libc::EINVAL, &[]), "CONFIG_USER_NS"),
            (on(libc::EMFILE, &[debian]), "ulimit -n"),
        ];
        for (said, part) in says {
            assert!(said.contains(part), "{said}: {part}");
        }
    }
}
