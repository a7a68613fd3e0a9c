//! What a configuration takes from this machine: numbers of users and groups by name, and files of
//! sets. The process with privileges asks the system, and passes the answers to the other process,
//! which can open no file.
//!
//! Called by: `Config::parse_with`, for names in `[groups]` and files in `[sets]`; `wirespeed up`
//! passes a configuration on with them. Source: getpwnam(3), getgrnam(3). Limits:
//! [`FILES_BYTES_MAX`] for all files together, and `BYTES_MAX` of the configuration's text.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The most bytes that all files of sets may have together.
pub const FILES_BYTES_MAX: u64 = 256 << 20;

/// The most bytes of a file with a key.
const SECRET_BYTES_MAX: u64 = 4_096;

/// The most bytes of the line with the answers of the system.
const HEAD_BYTES_MAX: u64 = 64 << 20;

/// Answers of this machine; by default there are none, and the system is not asked.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    accounts: Accounts,
    files: BTreeMap<String, Arc<str>>,
    /// Texts of files that nobody else may read.
    secrets: BTreeMap<String, String>,
    /// Names of files begin here; `None`: files that are not known are not opened.
    folder: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Accounts {
    users: BTreeMap<String, u32>,
    groups: BTreeMap<String, u32>,
}

/// The line before the files and the text: the accounts, and the bytes of each file.
#[derive(Serialize, Deserialize)]
struct Head {
    accounts: Accounts,
    files: Vec<(String, u64)>,
    secrets: BTreeMap<String, String>,
}

impl Machine {
    /// Ask the system, and remember its answers; names of files begin at the folder of
    /// `configuration`.
    pub fn beside(configuration: &Path) -> Machine {
        let folder = configuration.parent().unwrap_or(Path::new("")).to_owned();
        Machine { folder: Some(folder), ..Machine::default() }
    }

    /// Is the system asked? If not, the configuration was checked by the process that asked it.
    pub(crate) fn is_asked(&self) -> bool {
        self.folder.is_some()
    }

    /// The number of a user; `None`: there is no such user.
    pub fn user(&mut self, name: &str) -> Option<u32> {
        let asks = self.is_asked();
        let ask = |name: &str| Some(nix::unistd::User::from_name(name).ok()??.uid.as_raw());
        known(&mut self.accounts.users, asks, name, ask)
    }

    /// The number of a group; `None`: there is no such group.
    pub fn group(&mut self, name: &str) -> Option<u32> {
        let asks = self.is_asked();
        let ask = |name: &str| Some(nix::unistd::Group::from_name(name).ok()??.gid.as_raw());
        known(&mut self.accounts.groups, asks, name, ask)
    }

    /// The text of a file.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub fn file(&mut self, name: &str) -> Result<Arc<str>, String> {
        if let Some(text) = self.files.get(name) {
            return Ok(Arc::clone(text));
        }
        let folder = self.folder.as_ref().ok_or("files are not read here")?;
        let path = folder.join(name);
        let before: u64 = self.files.values().map(|text| text.len() as u64).sum();
        let text = read(&path, FILES_BYTES_MAX.saturating_sub(before)).map_err(|why| {
            format!("cannot read {} ({why}): look at its path and mode", path.display())
        })?;
        let text: Arc<str> = text.into();
        self.files.insert(name.to_owned(), Arc::clone(&text));
        Ok(text)
    }

    /// The text of a short file that its owner alone may read.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub fn secret(&mut self, name: &str) -> Result<String, String> {
        if let Some(text) = self.secrets.get(name) {
            return Ok(text.clone());
        }
        let path = self.folder.as_ref().ok_or("files are not read here")?.join(name);
        let cannot = |why: io::Error| format!("cannot read {} ({why})", path.display());
        let mode = path.metadata().map_err(cannot)?.permissions().mode();
        if mode & 0o077 != 0 {
            let path = path.display();
            return Err(format!("others may read {path}: run `chmod 600 {path}`"));
        }
        let text = read(&path, SECRET_BYTES_MAX).map_err(cannot)?;
        self.secrets.insert(name.to_owned(), text.clone());
        Ok(text)
    }

    /// The texts of the files that the configuration names.
    pub(crate) fn files(&self) -> &BTreeMap<String, Arc<str>> {
        &self.files
    }

    /// Write a configuration with the answers that it needs.
    ///
    /// # Errors
    /// The writer's.
    pub(crate) fn write(&self, text: &str, to: &mut impl Write) -> io::Result<()> {
        let files = self.files.iter().map(|(name, text)| (name.clone(), text.len() as u64));
        let secrets = self.secrets.clone();
        let head = Head { accounts: self.accounts.clone(), files: files.collect(), secrets };
        writeln!(to, "{}", serde_json::to_string(&head)?)?;
        self.files.values().try_for_each(|text| to.write_all(text.as_bytes()))?;
        to.write_all(text.as_bytes())
    }

    /// Read what [`Machine::write`] wrote: the answers, and the text of the configuration, which
    /// has `most` bytes at most.
    ///
    /// # Errors
    /// The reader's, or it was not written so.
    pub(crate) fn read(from: impl Read, most: usize) -> io::Result<(Machine, String)> {
        let mut from = BufReader::new(from);
        let mut line = String::new();
        from.by_ref().take(HEAD_BYTES_MAX).read_line(&mut line)?;
        let Head { accounts, files: lengths, secrets } = serde_json::from_str(&line)?;
        let (mut files, mut left) = (BTreeMap::new(), FILES_BYTES_MAX);
        for (name, len) in lengths {
            left = left.checked_sub(len).ok_or(io::ErrorKind::FileTooLarge)?;
            let mut text = String::new();
            from.by_ref().take(len).read_to_string(&mut text)?;
            files.insert(name, text.into());
        }
        let mut text = String::new();
        from.take(most as u64).read_to_string(&mut text)?;
        Ok((Machine { accounts, files, secrets, folder: None }, text))
    }
}

/// The text of a regular file of `most` bytes at most: a pipe would be waited for, and a device may
/// have no end.
fn read(path: &Path, most: u64) -> io::Result<String> {
    let open = |path| OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file: File = open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    file.take(most.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        let what = format!("it and the files before it have more than {most} bytes");
        return Err(io::Error::other(what));
    }
    Ok(text)
}

fn known(
    answers: &mut BTreeMap<String, u32>,
    asks: bool,
    name: &str,
    ask: impl FnOnce(&str) -> Option<u32>,
) -> Option<u32> {
    if let Some(&number) = answers.get(name) {
        return Some(number);
    }
    let number = if asks { ask(name) } else { None }?;
    answers.insert(name.to_owned(), number);
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_travels_with_its_files() {
        let folder = std::env::temp_dir().join(format!("machine-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("bad.txt"), "192.0.2.0/24 # ä\n").expect("room");
        let mut machine = Machine::beside(&folder.join("router.toml"));
        assert!(machine.file("bad.txt").is_ok() && machine.user("root") == Some(0));
        let gone = machine.file("gone.txt").expect_err("no such file");
        assert!(gone.contains("gone.txt") && gone.contains("its path"), "{gone}");
        let no_file = machine.file(".").expect_err("a folder");
        assert!(no_file.contains("no regular file"), "{no_file}");
        let mut wire = Vec::new();
        machine.write("text\nof it", &mut wire).expect("room");
        let (mut other, text) = Machine::read(&*wire, 100).expect("as it was written");
        assert_eq!(text, "text\nof it");
        assert_eq!(other.file("bad.txt").as_deref(), Ok("192.0.2.0/24 # ä\n"));
        assert_eq!((other.user("root"), other.user("daemon")), (Some(0), None));
        assert!(other.file("gone.txt").is_err());
        std::fs::remove_dir_all(folder).expect("it is ours");
    }
}
