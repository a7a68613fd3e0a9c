//! A captured packet, and a source of packets, which `file`, `watch` and `process` are.
//!
//! Called by: `run.rs`, which moves packets from a source to a sink; `top`.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;
use bpf::Filter;
use wirespeed::LinkKind;

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

/// The identity of a file, whatever its name: its device and its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

impl FileId {
    /// `None` for files that hold no bytes: pipes, terminals, devices.
    pub(crate) fn of(metadata: &Metadata) -> Option<FileId> {
        metadata.is_file().then(|| FileId(metadata.dev(), metadata.ino()))
    }

    /// Do two names mean one file, so that writing to the one would destroy the other?
    pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
        let id = |path: &Path| fs::metadata(path).ok().map(|metadata| FileId::of(&metadata));
        match (id(a), id(b)) {
            // Neither file exists yet.
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

/// A link type, by its number in capture files (LINKTYPE_).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Link(pub(crate) u32);

impl Link {
    /// Ethernet.
    pub(crate) const ETHERNET: Link = Link(1);
    /// Raw IP of either version.
    pub(crate) const RAW: Link = Link(101);

    /// The stack's name for it, if it has one.
    pub(crate) fn kind(self) -> Option<LinkKind> {
        match self.0 {
            1 => Some(LinkKind::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(LinkKind::Ip),
            _ => None,
        }
    }

    /// libpcap's number (DLT_), which differs for a few types.
    pub(crate) fn dlt(self) -> i32 {
        match self.0 {
            100 => 11,
            14 | 101 => 12,
            102 => 15,
            103 => 16,
            106 => 19,
            number => i32::try_from(number).unwrap_or(i32::MAX),
        }
    }
}

impl From<LinkKind> for Link {
    fn from(kind: LinkKind) -> Link {
        match kind {
            LinkKind::Ethernet => Link::ETHERNET,
            LinkKind::Ip => Link::RAW,
        }
    }
}

/// The packet's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

/// A packet that was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Nanoseconds since 1970, UTC.
    pub(crate) time_ns: u64,
    /// Its link type.
    pub(crate) link: Link,
    /// The port of the source that saw it, from 0.
    pub(crate) port: usize,
    pub(crate) direction: Option<Direction>,
    /// Its length on the wire, in bytes.
    pub(crate) wire_len: u32,
    /// For a super-segment, the payload bytes of each segment that it is to be cut into; else 0.
    pub(crate) segment_bytes: u16,
    /// The captured bytes.
    pub(crate) bytes: Vec<u8>,
}

/// Packets of an interface, or of [`ANY`]; `make` compiles the filter.
pub(crate) fn open(
    name: &str,
    make: impl Fn(&str, LinkKind) -> Result<Filter>,
) -> Result<Box<dyn Source>> {
    #[cfg(target_os = "linux")]
    return Ok(Box::new(super::watch::Interfaces::open(name, make)?));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (name, make);
        anyhow::bail!("interfaces are watched on Linux alone: read a file with -r")
    }
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
        // A file that holds no bytes loses none.
        assert!(!FileId::is_same(Path::new("/dev/null"), Path::new("/dev/null")));
    }
}
