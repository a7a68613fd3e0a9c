//! Replaces a file of results as a whole: writes a new file in the same folder, then renames it. If
//! the program is interrupted, or the disk is full, the old file stays as it was.
//!
//! Called by: the lab's reports, plots and units, and by tools for their pages. A file that is not
//! regular (a pipe, a terminal, a device) is written in place, and so is a file in a folder in
//! which we may not create files.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// The beginning of the new file's name until it is renamed: it tells a user where the file of a
/// killed program is from.
const PREFIX: &str = ".wirespeed-";

/// How a file gets its content.
enum To {
    /// A new file is written and then renamed to `target`.
    Renamed { target: PathBuf, old: Option<Metadata> },
    /// The file is written in place.
    Itself,
}

/// Can the file be written? Nothing is changed.
///
/// # Errors
/// The system's error.
pub fn check(path: &Path) -> io::Result<()> {
    match to(path)? {
        To::Renamed { target, .. } => beside(&target).map(drop),
        To::Itself => Ok(()),
    }
}

/// Replace the content of a file by these bytes, or leave the file as it is.
///
/// # Errors
/// The system's error.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (target, old) = match to(path)? {
        To::Renamed { target, old } => (target, old),
        To::Itself => {
            let mut file = File::options().write(true).create(true).truncate(true).open(path)?;
            file.write_all(bytes)?;
            return file.flush();
        }
    };
    let mut new = beside(&target)?;
    new.write_all(bytes)?;
    if let Some(old) = old {
        alike(new.as_file(), &old)?;
    }
    // Some file systems report a full disk only here.
    new.as_file().sync_all()?;
    new.persist(&target)?;
    Ok(())
}

fn to(path: &Path) -> io::Result<To> {
    let old = match fs::metadata(path) {
        Ok(there) if there.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(there) if !there.is_file() => return Ok(To::Itself),
        Ok(there) => Some(there),
        // A symbolic link to a missing file: writing in place makes the target.
        Err(_) if fs::symlink_metadata(path).is_ok() => return Ok(To::Itself),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if old.is_none() {
        return Ok(To::Renamed { target: path.to_owned(), old });
    }
    // A user without the right to write the file may not replace it either.
    File::options().write(true).open(path)?;
    let target = fs::canonicalize(path)?;
    match beside(&target) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(To::Itself),
        _ => Ok(To::Renamed { target, old }),
    }
}

/// A new file in the folder of `target`. It is removed unless it is renamed.
fn beside(target: &Path) -> io::Result<NamedTempFile> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = Builder::new();
    builder.prefix(PREFIX);
    #[cfg(unix)]
    builder.permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666));
    builder.tempfile_in(folder.unwrap_or(Path::new(".")))
}

/// Give a file the mode and, if we may, the owner of the one that it replaces.
fn alike(new: &File, old: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let now = new.metadata()?;
        if (now.uid(), now.gid()) != (old.uid(), old.gid()) {
            // Only root may change the owner. If it fails, the content is still written.
            let _ = fchown(new, Some(old.uid()), Some(old.gid()));
        }
    }
    new.set_permissions(old.permissions())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("room for a folder")
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("it is there");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("a file").file_name();
        let mut names: Vec<_> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_with_its_mode_and_where_links_point() {
        let folder = folder();
        let (path, link) = (folder.path().join("page"), folder.path().join("link"));
        check(&path).expect("it can be made");
        assert_eq!(names(folder.path()).len(), 0);
        write(&path, b"old").expect("room");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("it is ours");
        symlink("page", &link).expect("room");
        check(&link).expect("it can be written");
        write(&link, b"new").expect("room");
        assert_eq!(fs::read(&path).expect("it is there"), b"new");
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
        assert_eq!(names(folder.path()), ["link", "page"]);
    }

    #[test]
    fn what_is_no_file_is_written_in_place_or_refused() {
        let folder = folder();
        assert!(check(folder.path()).is_err());
        assert!(write(&folder.path().join("none/page"), b"x").is_err());
        write(Path::new("/dev/null"), b"x").expect("it takes all");
        assert!(write(Path::new("/dev/full"), b"x").is_err());
        let link = folder.path().join("link");
        symlink("target", &link).expect("room");
        write(&link, b"x").expect("room");
        assert_eq!(fs::read(folder.path().join("target")).expect("it is there"), b"x");
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file_whole_and_nothing_beside() {
        let folder = folder();
        let path = folder.path().join("page");
        write(&path, b"old").expect("room");
        let old = File::open(&path).expect("it is there");
        // The target becomes a folder before the rename, which then fails.
        let mut new = beside(&path).expect("room");
        new.write_all(b"new").expect("room");
        fs::rename(&path, folder.path().join("away")).expect("room");
        fs::create_dir(&path).expect("room");
        assert!(new.persist(&path).is_err());
        assert_eq!(names(folder.path()), ["away", "page"]);
        assert_eq!(old.metadata().expect("it is open").len(), 3);
    }
}
