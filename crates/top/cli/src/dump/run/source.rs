//! A source of packets: what `file`, `interface` and `process` are.
//!
//! Called by: `run.rs`, which moves packets from a source to a sink; `top`.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;

use super::packet::Packet;
use super::write::{Counted, Port};

/// The name that stands for all interfaces.
pub(in crate::dump) const ANY: &str = "any";

/// A source of packets that the filter matched.
pub(crate) trait Source {
    /// The source's ports; more may be added later.
    fn ports(&self) -> Vec<Port>;

    /// The next packet, or why there is none; waits only briefly.
    fn next(&mut self) -> Result<Next>;

    /// The file that is read, if it is one that `-w` could destroy.
    fn file(&self) -> Option<FileId> {
        None
    }

    /// The counts of each port so far.
    fn counted(&mut self) -> Result<Vec<Counted>>;
}

/// A file by what it is, whatever it is called: by its device and its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

impl FileId {
    /// `None` for what holds no bytes: pipes, terminals, devices.
    pub(crate) fn of(metadata: &Metadata) -> Option<FileId> {
        metadata.is_file().then(|| FileId(metadata.dev(), metadata.ino()))
    }

    /// Do two names mean one file, which writing to the one would destroy for the other?
    pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
        let id = |path: &Path| fs::metadata(path).ok().map(|metadata| FileId::of(&metadata));
        match (id(a), id(b)) {
            // Neither is there yet.
            (None, None) => a == b,
            (Some(Some(a)), Some(Some(b))) => a == b,
            _ => false,
        }
    }
}

/// The result of [`Source::next`].
pub(crate) enum Next {
    Packet(Packet),
    /// No packet yet.
    Later,
    /// No more packets.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_mean_one_file_or_none() {
        let here = std::env::current_exe().expect("it runs");
        let link = std::env::temp_dir().join(format!("wsdump-{}-link", std::process::id()));
        std::os::unix::fs::symlink(&here, &link).expect("room");
        assert!(FileId::is_same(&here, &link));
        let _ = fs::remove_file(&link);
        let none = Path::new("/nowhere/at/all");
        assert!(FileId::is_same(none, none) && !FileId::is_same(none, &here));
        // What holds no bytes loses none.
        assert!(!FileId::is_same(Path::new("/dev/null"), Path::new("/dev/null")));
    }
}
