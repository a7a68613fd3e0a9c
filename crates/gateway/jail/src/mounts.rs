//! What the program sees of the host's files: some are covered, some have other contents. And the
//! empty root of the gateway.
//!
//! Called by: `program.rs`, `init.rs`, `gateway.rs`, each in a mount namespace of its own. Nothing
//! is made on the host, so a read-only one is no obstacle. Sources: mount_namespaces(7),
//! pivot_root(2), shared subtrees in Linux `Documentation/filesystems/sharedsubtree.rst`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change,
    mount_remount, unmount,
};
use rustix::process::{chdir, pivot_root};

use crate::error::{Error, refused};

/// Names would be looked up by these past the gateway: covered if they exist.
const RESOLVERS: &[&str] = &["/run/nscd", "/run/systemd/resolve", "/run/avahi-daemon"];

/// Folders of which every machine has one; a file system is mounted over it for a moment.
const FOLDERS: &[&str] = &["/tmp", "/var/tmp", "/mnt", "/run", "/usr"];

/// The most links of a chain of symbolic links.
const LINKS_MAX: usize = 40;

/// From now on mounts of this namespace stay here; the host's mounts appear here, too, if they
/// `follow`.
fn separate(follow: bool) -> Result<(), Error> {
    let how = match follow {
        true => MountPropagationFlags::DOWNSTREAM,
        false => MountPropagationFlags::PRIVATE,
    };
    mount_change("/", how | MountPropagationFlags::REC)
        .map_err(refused("mounts cannot be separated from the host's"))
}

fn mount_tmpfs(at: &Path, options: &core::ffi::CStr) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount("tmpfs", at, "tmpfs", flags, options)?)
}

/// A folder to mount over that contains none of `paths`.
fn folder_beside(paths: &[PathBuf]) -> Result<PathBuf, Error> {
    let fits = |at: &&str| Path::new(at).is_dir() && !paths.iter().any(|p| p.starts_with(at));
    FOLDERS.iter().find(|at| fits(at)).map(PathBuf::from).ok_or_else(|| {
        let folders = FOLDERS.join(", ");
        Error::not_started(format!("none of {folders} can be mounted over: make one of them"))
    })
}

/// A file system in memory that is mounted over a folder for as long as this lives.
struct Scratch {
    at: PathBuf,
    files: usize,
}

impl Scratch {
    /// Over a folder that contains none of `paths`.
    fn beside(paths: &[PathBuf]) -> Result<Scratch, Error> {
        let at = folder_beside(paths)?;
        mount_tmpfs(&at, c"mode=0755,size=1m").map_err(refused("tmpfs cannot be mounted"))?;
        Ok(Scratch { at, files: 0 })
    }

    /// A new file; mounts of it outlive the scratch.
    fn file(&mut self, contents: &str) -> io::Result<PathBuf> {
        self.files += 1;
        let path = self.at.join(self.files.to_string());
        fs::write(&path, contents).map(|()| path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If this failed, the program would see an empty folder, and no more.
        let _ = unmount(&self.at, UnmountFlags::DETACH);
    }
}

/// Cover the host's resolvers and the files to `hide`, and give `files` other contents.
pub(crate) fn arrange(
    hide: &[PathBuf],
    files: &[(PathBuf, String)],
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    separate(true)?;
    let here = std::env::current_dir();
    let mut covered: Vec<PathBuf> = RESOLVERS.iter().filter_map(|p| end_of(Path::new(p))).collect();
    for path in hide {
        covered.push(end_of(path).ok_or_else(|| {
            let path = path.display();
            Error::not_started(format!("{path} cannot be hidden: there is no such file or folder"))
        })?);
    }
    for path in &covered {
        if path.is_dir() {
            let mounted = mount_tmpfs(path, c"mode=0755,size=64k,nr_inodes=32");
            mounted.map_err(refused(&format!("{} cannot be covered", path.display())))?;
        }
    }
    let targets: Vec<Option<PathBuf>> = files.iter().map(|(path, _)| end_of(path)).collect();
    let both = targets.iter().flatten().chain(&covered).cloned().collect::<Vec<_>>();
    let mut scratch = Scratch::beside(&both)?;
    for path in covered.iter().filter(|path| !path.is_dir()) {
        cover(&mut scratch, path, "")?;
    }
    for ((path, contents), target) in files.iter().zip(targets) {
        match target {
            Some(target) => cover(&mut scratch, &target, contents)?,
            None => make(path, contents, &covered, notes),
        }
    }
    drop(scratch);
    enter_again(here);
    Ok(())
}

/// The file or folder that a path leads to, if it exists.
fn end_of(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

fn cover(scratch: &mut Scratch, path: &Path, contents: &str) -> Result<(), Error> {
    let what = || format!("{} cannot be covered", path.display());
    let file = scratch.file(contents).map_err(refused(&what()))?;
    mount_bind(&file, path).map_err(refused(&what()))
}

/// Make the file that a link leads to, which does not exist, if it lies in a covered folder.
fn make(path: &Path, contents: &str, covered: &[PathBuf], notes: &mut Vec<String>) {
    let made = missing_end(path).filter(|end| covered.iter().any(|at| end.starts_with(at)));
    if made.is_none_or(|end| fs::write(end, contents).is_err()) {
        let path = path.display();
        notes.push(format!("{path} does not exist, so the program has none: make an empty file"));
    }
}

/// Where a chain of links ends, if the last file is missing and its folder is not.
fn missing_end(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let folder = fs::canonicalize(path.parent()?).ok()?;
        path = folder.join(path.file_name()?);
        match fs::read_link(&path) {
            Ok(to) => path = folder.join(to),
            Err(_) => return Some(path),
        }
    }
    None
}

/// Look up the working folder again: the old one may be covered now.
fn enter_again(here: io::Result<PathBuf>) {
    if here.is_ok_and(|here| chdir(&here).is_ok()) {
        return;
    }
    let _ = chdir("/");
}

/// Show the processes of this PID namespace in /proc.
pub(crate) fn own_proc() -> Result<(), Error> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).map_err(refused(
        "a /proc for the program's own processes cannot be mounted; without --pid none is needed",
    ))
}

/// Make a file system that cannot be written this process's root. It is empty but for these
/// folders of the host, by their absolute names.
pub(crate) fn empty_root(folders: &[PathBuf]) -> Result<(), Error> {
    separate(false)?;
    let at = folder_beside(folders)?;
    let inodes = 1 + folders.iter().map(|folder| folder.components().count()).sum::<usize>();
    let options = format!("mode=0555,size=4k,nr_inodes={inodes}");
    let options = std::ffi::CString::new(options).unwrap_or_default();
    mount_tmpfs(&at, &options).map_err(refused("tmpfs cannot be mounted"))?;
    folders.iter().try_for_each(|folder| keep(folder, &at)).inspect_err(|_| {
        // The host's folder is seen again.
        let _ = unmount(&at, UnmountFlags::DETACH);
    })?;
    let move_in = || {
        chdir(&at)?;
        // The old root is mounted over the new one; then it goes (pivot_root(2)).
        pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        chdir("/")?;
        mount_remount("/", MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV, "")
    };
    move_in().map_err(refused("the gateway cannot get an empty root"))
}

/// Mount a folder of the host, by its name, below `root`.
fn keep(folder: &Path, root: &Path) -> Result<(), Error> {
    let to = root.join(folder.strip_prefix("/").unwrap_or(folder));
    let what = || format!("the folder {} cannot be kept", folder.display());
    fs::create_dir_all(&to).map_err(refused(&what()))?;
    mount_bind(folder, &to).map_err(refused(&what()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_missing_files_are_followed_to_their_end() {
        let folder = std::env::temp_dir().join(format!("jail-links-{}", std::process::id()));
        fs::create_dir_all(folder.join("run")).expect("room");
        let folder = fs::canonicalize(folder).expect("it is there");
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, folder.join(name)).expect("a link");
        };
        link("second", "first");
        link("run/../run/file", "second");
        link("loop", "loop");
        assert_eq!(missing_end(&folder.join("first")), Some(folder.join("run/file")));
        assert_eq!(missing_end(&folder.join("loop")), None);
        assert_eq!(missing_end(&folder.join("no/file")), None);
        fs::remove_dir_all(folder).expect("it is ours");
    }
}
