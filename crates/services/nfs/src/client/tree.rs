//! Copies whole trees (files, directories and symbolic links) from the server and to it.
//!
//! Called by: programs. A file is written under a temporary name, and gets its own name when it is
//! complete. Names that come from a server must be single path components, and links that were made
//! from the server's data are never followed. So nothing is written outside the target. Limits:
//! `DEPTH_MAX`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use super::unfinished::temporary_name;
use super::{Error, Nfs, Notice, Reader, Unfinished, Writer};
use crate::limits::RESTARTS;
use crate::proto::{Attributes, Handle, Kind, SetAttributes, SetTime, Status, Time};

/// How deep directories may be nested.
const DEPTH_MAX: u32 = 256;

/// How many files of each kind were copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// Symbolic links.
    pub links: u64,
    /// Files of other kinds, which were not copied.
    pub others: u64,
    /// Bytes in the copied files.
    pub bytes: u64,
}

fn local(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let text = format!("cannot {what} '{}'", path.display());
    move |error| Error::Local(text, error)
}

/// Copy a file, or a directory with everything in it, from the server to `to`. `random` is part of
/// the names of temporary files, so that they differ from those of other copies.
///
/// # Errors
/// Why the first file that failed could not be copied. No part of this file is left.
pub async fn get_tree(
    nfs: &Nfs,
    from: (Handle, Attributes),
    to: &Path,
    random: u64,
) -> Result<Copied, Error> {
    let mut copied = Copied::default();
    let mut stack = vec![(from, to.to_path_buf(), 0)];
    while let Some(((handle, of), to, depth)) = stack.pop() {
        match of.kind {
            Kind::Regular => {
                copied.bytes += get_file(nfs, handle, &of, &to, random).await?;
                copied.files += 1;
            }
            Kind::Symlink => {
                let text = nfs.readlink(&handle).await?;
                // A link that exists already is replaced, as a file is.
                let _ = fs::remove_file(&to);
                symlink(OsStr::from_bytes(&text), &to).map_err(local("make the link", &to))?;
                copied.links += 1;
            }
            Kind::Directory => {
                if depth >= DEPTH_MAX {
                    return Err(Error::TooDeep);
                }
                make_dir(&to)?;
                copied.dirs += 1;
                for entry in nfs.list(&handle).await?.into_iter().rev() {
                    let name = here(&entry.name.0)?;
                    let child = match (entry.handle, entry.attributes) {
                        (Some(handle), Some(attributes)) => (handle, attributes),
                        _ => nfs.lookup(&handle, &entry.name.0).await?,
                    };
                    stack.push((child, to.join(name), depth + 1));
                }
            }
            _ if depth > 0 => pass_over(nfs, &to, &mut copied),
            _ => return Err(Error::Special(to.display().to_string())),
        }
    }
    Ok(copied)
}

/// Make a directory, unless it exists. A symbolic link to a directory is refused.
fn make_dir(at: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(at) {
        Ok(of) if of.is_dir() => Ok(()),
        Ok(of) if of.is_symlink() => Err(Error::LinkInTheWay(at.display().to_string())),
        _ => fs::create_dir(at).map_err(local("make the directory", at)),
    }
}

/// Check a name from the server, and return it as a file name on this machine.
fn here(name: &[u8]) -> Result<&OsStr, Error> {
    let is_bad = name.is_empty()
        || matches!(name, b"." | b"..")
        || name.iter().any(|&byte| byte == b'/' || byte == 0);
    if is_bad {
        return Err(Error::BadName(String::from_utf8_lossy(name).escape_debug().to_string()));
    }
    Ok(OsStr::from_bytes(name))
}

/// A file that is removed when this is dropped, unless it has got its own name.
struct Temporary(Option<PathBuf>);

impl Drop for Temporary {
    fn drop(&mut self) {
        self.0.take().map(fs::remove_file);
    }
}

async fn get_file(
    nfs: &Nfs,
    handle: Handle,
    of: &Attributes,
    to: &Path,
    random: u64,
) -> Result<u64, Error> {
    let path = to.with_file_name(temporary_name(random));
    let mut options = File::options();
    let opened = options.write(true).create_new(true).mode(of.mode & 0o777).open(&path);
    let mut file = opened.map_err(local("make a file beside", to))?;
    let mut temporary = Temporary(Some(path.clone()));
    let mut reader = Reader::new(nfs, handle, of.size);
    let mut bytes = 0;
    while let Some(chunk) = reader.next().await? {
        file.write_all(chunk.data()).map_err(local("write", to))?;
        bytes += chunk.data().len() as u64;
    }
    fs::rename(&path, to).map_err(local("name", to))?;
    temporary.0 = None;
    Ok(bytes)
}

/// Copy a file, or a directory with everything in it, to the name `name` in a directory of the
/// server. If the future is dropped, the program has to remove the temporary file, which
/// `unfinished` names.
///
/// # Errors
/// Why the first file that failed could not be copied. No part of this file is left.
pub async fn put_tree(
    nfs: &Nfs,
    from: &Path,
    (dir, name): (Handle, &[u8]),
    unfinished: &Unfinished,
) -> Result<Copied, Error> {
    let mut copied = Copied::default();
    let mut stack = vec![(from.to_path_buf(), dir, name.to_vec(), 0)];
    // If the path that the user gives is a symbolic link, it is followed. Links below it are copied
    // as links.
    let mut of = fs::metadata(from).map_err(local("look at", from))?;
    while let Some((from, dir, name, depth)) = stack.pop() {
        if depth > 0 {
            of = fs::symlink_metadata(&from).map_err(local("look at", &from))?;
        }
        if of.is_file() {
            copied.bytes += put_file(nfs, &from, &of, (dir, &name), unfinished).await?;
            copied.files += 1;
        } else if of.is_symlink() {
            let text = fs::read_link(&from).map_err(local("read the link", &from))?;
            put_link(nfs, &dir, &name, text.as_os_str().as_bytes()).await?;
            copied.links += 1;
        } else if of.is_dir() {
            if depth >= DEPTH_MAX {
                return Err(Error::TooDeep);
            }
            let made = put_dir(nfs, &dir, &name, of.mode() & 0o777).await?;
            copied.dirs += 1;
            let mut names = Vec::new();
            for entry in fs::read_dir(&from).map_err(local("list", &from))? {
                names.push(entry.map_err(local("list", &from))?.file_name());
            }
            names.sort();
            for name in names.into_iter().rev() {
                stack.push((from.join(&name), made, name.as_bytes().to_vec(), depth + 1));
            }
        } else if depth > 0 {
            pass_over(nfs, &from, &mut copied);
        } else {
            return Err(Error::Special(from.display().to_string()));
        }
    }
    Ok(copied)
}

/// Count and report a FIFO, a socket or a device in a directory that is copied. The other files are
/// copied anyway.
fn pass_over(nfs: &Nfs, at: &Path, copied: &mut Copied) {
    nfs.patience.tell(Notice::PassedOver(&at.display().to_string()));
    copied.others += 1;
}

/// Make a directory at the server, unless it exists.
async fn put_dir(nfs: &Nfs, dir: &Handle, name: &[u8], mode: u32) -> Result<Handle, Error> {
    // The owner must be able to make files in the directory while it is being filled.
    match nfs.mkdir(dir, name, mode | 0o700).await {
        Err(Error::Status(Status::Exists)) => match nfs.lookup(dir, name).await? {
            (handle, of) if of.kind == Kind::Directory => Ok(handle),
            _ => Err(Error::Status(Status::Exists)),
        },
        made => made,
    }
}

async fn put_link(nfs: &Nfs, dir: &Handle, name: &[u8], text: &[u8]) -> Result<(), Error> {
    match nfs.symlink(dir, name, text).await {
        Err(Error::Status(Status::Exists)) => {
            nfs.remove(dir, name).await?;
            nfs.symlink(dir, name, text).await.map(drop)
        }
        made => made.map(drop),
    }
}

async fn put_file(
    nfs: &Nfs,
    from: &Path,
    of: &fs::Metadata,
    (dir, name): (Handle, &[u8]),
    unfinished: &Unfinished,
) -> Result<u64, Error> {
    let file = File::open(from).map_err(local("open", from))?;
    let temporary = unfinished.name().as_bytes();
    // From here on the temporary file may exist.
    unfinished.begin(nfs, dir);
    let made = nfs.create(&dir, temporary, of.mode() & 0o777).await;
    let handle = made.inspect_err(|_| unfinished.end())?;
    let done = async {
        let bytes = put_data(nfs, from, file, handle).await?;
        let seconds = of.mtime().clamp(0, u32::MAX.into()) as u32;
        let time = SetTime::To(Time { seconds, nanoseconds: of.mtime_nsec() as u32 });
        let times = SetAttributes { mtime: time, ..SetAttributes::default() };
        nfs.setattr(&handle, &times).await?;
        nfs.rename(&dir, temporary, name).await?;
        Ok(bytes)
    };
    let done = done.await;
    match done {
        Err(_) => drop(unfinished.remove().await),
        Ok(_) => unfinished.end(),
    }
    done
}

/// Write a file. If the server restarts in the meantime, write it again from the start, because
/// data that was not on the server's disk is lost.
async fn put_data(nfs: &Nfs, from: &Path, mut file: File, to: Handle) -> Result<u64, Error> {
    let mut restarts = 0;
    loop {
        match put_once(nfs, from, &file, to).await {
            Err(Error::Restarted) if restarts < RESTARTS => restarts += 1,
            done => return done,
        }
        file.rewind().map_err(local("read", from))?;
    }
}

async fn put_once(nfs: &Nfs, from: &Path, file: &File, to: Handle) -> Result<u64, Error> {
    let mut writer = Writer::new(nfs, to);
    let piece_bytes = writer.piece_bytes();
    loop {
        let mut piece = writer.buffer();
        piece.reserve(piece_bytes);
        let read = file.take(piece_bytes as u64).read_to_end(&mut piece);
        if read.map_err(local("read", from))? == 0 {
            return writer.finish().await;
        }
        writer.write(piece).await?;
    }
}
