//! The network namespace of mirrors: opened by its name, or made as `ip netns add` makes one, and
//! entered by threads that end afterwards.
//!
//! Called by: `mirrors.rs`. Sources: ip-netns(8), network_namespaces(7), mount_namespaces(7).

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use device::namespace::Namespace;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{fstat, stat};

use super::kernel;
use crate::config;
use crate::daemon::report::info;

/// Where `ip netns` keeps namespaces.
const FOLDER: &str = "/run/netns";
/// This thread's own namespace.
const OWN: &str = "/proc/thread-self/ns/net";

/// A namespace.
pub(super) enum Space {
    /// That of this process.
    Own,
    /// Another one.
    Other { namespace: Namespace, path: PathBuf },
}

impl Space {
    /// Open it; one that is not there is made.
    ///
    /// # Errors
    /// Why that cannot be, and what to do.
    pub(super) fn open(of: &config::Space) -> Result<Space, String> {
        let config::Space::Named(name) = of else { return Ok(Space::Own) };
        let path = Path::new(FOLDER).join(name);
        if !path.exists() {
            let advice = format!("make it before the router starts, `sudo ip netns add {name}`");
            if sees_mounts_alone() {
                let why = "the router sees mounts of its own, and nobody else would see its name";
                return Err(format!("namespace {name} cannot be made: {why}: {advice}"));
            }
            make(&path)
                .map_err(|why| format!("namespace {name} cannot be made ({why}): {advice}"))?;
            info(&format!("namespace {name}: made"));
        }
        let namespace = Namespace::named(name).map_err(|why| why.to_string())?;
        if is_same(&namespace, Path::new(OWN)) {
            return Ok(Space::Own);
        }
        let space = Space::Other { namespace, path };
        space.inside(kernel::prepare)??;
        Ok(space)
    }

    /// Does its name still name it?
    pub(super) fn is_current(&self) -> bool {
        match self {
            Space::Own => true,
            Space::Other { namespace, path } => is_same(namespace, path),
        }
    }

    /// Do something in it.
    ///
    /// # Errors
    /// It cannot be entered; what to do.
    pub(super) fn inside<T: Send>(&self, what: impl FnOnce() -> T + Send) -> Result<T, String> {
        match self {
            Space::Own => Ok(what()),
            Space::Other { namespace, .. } => namespace.inside(what).map_err(|why| why.to_string()),
        }
    }
}

/// Do others not see what this process mounts? systemd and `ip netns exec` start programs so.
fn sees_mounts_alone() -> bool {
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    matches!((of("self"), of("1")), (Some(own), Some(first)) if own != first)
}

fn is_same(namespace: &Namespace, path: &Path) -> bool {
    let one = fstat(namespace.as_fd()).map(|stat| (stat.st_dev, stat.st_ino));
    one.is_ok() && one == stat(path).map(|stat| (stat.st_dev, stat.st_ino))
}

/// Make a namespace with a name.
fn make(path: &Path) -> Result<(), String> {
    let folder = Path::new(FOLDER);
    std::fs::create_dir_all(folder).map_err(|why| why.to_string())?;
    // Namespaces of mounts that exist already see the name.
    let none = None::<&str>;
    let shared = MsFlags::MS_SHARED | MsFlags::MS_REC;
    if mount(none, folder, none, shared, none).is_err() {
        let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(folder), folder, none, bind, none).map_err(|why| why.to_string())?;
        mount(none, folder, none, shared, none).map_err(|why| why.to_string())?;
    }
    let file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o000)
        .open(path)
        .map_err(|why| why.to_string())?;
    drop(file);
    let named = std::thread::scope(|scope| {
        let new = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            mount(Some(OWN), path, none, MsFlags::MS_BIND, none)
        };
        let spawned = std::thread::Builder::new().spawn_scoped(scope, new);
        let joined = spawned.map_err(|why| why.to_string())?.join();
        joined.map_err(|_| "the thread for it panicked".to_owned())?.map_err(|why| why.to_string())
    });
    if named.is_err() {
        // It names nothing.
        let _ = std::fs::remove_file(path);
    }
    named
}
