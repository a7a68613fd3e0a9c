//! How a virtual machine is connected: `--vm SPEC`.
//!
//! Called by: clap; `gateway.rs`, which opens the links.

use core::fmt;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use machine::parts::Connection;
use wirespeed::Device;
use wirespeed::device::tap::{Config, Setup, Tap, TapError};
use wirespeed::device::vm::Bound;

use crate::gateways::open::inherited;

/// The kinds, as they are written.
const KINDS: &str = "qemu:PATH, qemu-dgram:LOCAL,REMOTE, vhost-user:PATH, \
                     passt:PATH[,offload=on], krun:PATH|fd:N[,offload=on], vfkit:PATH, \
                     gvproxy:PATH, tap:NAME or tapfd:N";

/// A virtual machine's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    text: String,
    kind: Kind,
    /// Do frames come with the card's offloads, though without its header?
    is_bare: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// A stream of frames with their lengths; we listen.
    Stream(PathBuf),
    /// Datagrams between two known sockets.
    Dgram(PathBuf, PathBuf),
    /// Datagrams of a machine that sends first.
    First(PathBuf),
    /// Datagrams at a descriptor that we inherit.
    Fd(RawFd),
    /// A card whose rings are in the machine's memory; we listen.
    VhostUser(PathBuf),
    Tap(String),
    TapFd(RawFd),
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Spec, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        if rest.is_empty() {
            return Err(format!("'{text}': expected {KINDS}"));
        }
        let (rest, is_bare) = match (kind, rest.rsplit_once(",offload=")) {
            ("krun" | "passt", Some((rest, "on"))) => (rest, true),
            ("krun" | "passt", Some((rest, "off"))) => (rest, false),
            ("krun" | "passt", Some((_, other))) => {
                return Err(format!("'offload={other}': write offload=on or offload=off"));
            }
            _ => (rest, false),
        };
        let path = PathBuf::from(rest);
        let kind = match kind {
            "qemu" | "passt" => Kind::Stream(path),
            "krun" if rest.starts_with("fd:") => Kind::Fd(descriptor(&rest[3..], "krun:fd:3")?),
            "vfkit" | "krun" | "gvproxy" => Kind::First(path),
            "qemu-dgram" => match rest.split_once(',') {
                Some((local, remote)) if !local.is_empty() && !remote.is_empty() => {
                    Kind::Dgram(local.into(), remote.into())
                }
                _ => return Err(format!("'{text}': write qemu-dgram:OURS,THEIRS")),
            },
            "tap" => Kind::Tap(rest.to_owned()),
            "tapfd" => Kind::TapFd(descriptor(rest, "tapfd:3")?),
            "vhost-user" => match rest.rsplit_once(',') {
                None => Kind::VhostUser(path),
                Some((_, option)) => {
                    return Err(format!(
                        "'{option}': write vhost-user:PATH; we listen there, and there is one pair \
                         of queues"
                    ));
                }
            },
            _ => return Err(format!("there is no kind '{kind}': expected {KINDS}")),
        };
        Ok(Spec { text: text.to_owned(), kind, is_bare })
    }
}

/// The number of a descriptor that we inherit.
fn descriptor(text: &str, example: &str) -> Result<RawFd, String> {
    match text.parse() {
        Ok(fd) if fd > 2 => Ok(fd),
        _ => Err(format!("'{text}' is no number of a descriptor above 2: write {example}")),
    }
}

/// A copy of an inherited descriptor.
fn own(fd: RawFd) -> Result<OwnedFd> {
    inherited(fd).with_context(|| format!("descriptor {fd} is not open in this process"))
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An open link of a machine.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) fd: OwnedFd,
    /// The socket, if its file goes with it.
    pub(crate) held: Option<Held>,
}

/// A socket whose file is removed with it.
pub(crate) enum Held {
    Listener(#[expect(dead_code, reason = "it is kept for its end")] Bound<UnixListener>),
    Datagram(#[expect(dead_code, reason = "it is kept for its end")] Bound<UnixDatagram>),
}

impl Spec {
    /// Open the link.
    ///
    /// # Errors
    /// The device's error, with what to do.
    pub(super) fn open(&self) -> Result<Opened> {
        let opened = self.open_plain()?;
        let connection = match self.is_bare {
            true => Connection::Bare(Box::new(opened.connection)),
            false => opened.connection,
        };
        Ok(Opened { connection, ..opened })
    }

    fn open_plain(&self) -> Result<Opened> {
        match &self.kind {
            Kind::Stream(path) => listen(path),
            Kind::Dgram(local, remote) => datagrams(local, Some(remote)),
            Kind::First(path) => datagrams(path, None),
            Kind::Fd(fd) => {
                let fd = own(*fd)?;
                Ok(Opened { connection: Connection::Peer, fd, held: None })
            }
            Kind::VhostUser(path) => {
                let opened = listen(path)?;
                let connection = Connection::VhostUser { path: absolute(path)? };
                Ok(Opened { connection, ..opened })
            }
            Kind::Tap(name) => {
                let mut tap = Tap::open(&Config { name: Some(name.clone()), ..Config::default() })?;
                match tap.configure(&Setup { up: true, ..Setup::default() }) {
                    // A user who owns it may use it, though not configure it.
                    Ok(()) | Err(TapError::Down { .. } | TapError::NotHere { .. }) => {}
                    Err(why) => return Err(why.into()),
                }
                let limits = tap.limits();
                let fd = tap.as_fd().context("the TAP is gone: make it again")?;
                let fd = fd.try_clone_to_owned().context("no descriptor is left")?;
                let uso = limits.offloads.uso_max_bytes > 0;
                let connection = Connection::Tap { mtu: Some(limits.mtu.bytes()), uso };
                Ok(Opened { connection, fd, held: None })
            }
            Kind::TapFd(fd) => {
                let connection = Connection::Tap { mtu: None, uso: false };
                Ok(Opened { connection, fd: own(*fd)?, held: None })
            }
        }
    }
}

/// Listen for a machine.
///
/// # Errors
/// The socket cannot be made, or another file is there.
pub(crate) fn listen(path: &Path) -> Result<Opened> {
    let bound = Bound::listener(path)?;
    let fd = bound.socket().try_clone().context("no descriptor is left")?.into();
    let connection = Connection::Listener { path: absolute(path)? };
    Ok(Opened { connection, fd, held: Some(Held::Listener(bound)) })
}

fn datagrams(local: &Path, remote: Option<&Path>) -> Result<Opened> {
    let remote = remote.map(absolute).transpose()?;
    let folder = remote.as_deref().and_then(Path::parent);
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("the folder {} of the machine's socket does not exist: make it", folder.display());
    }
    let bound = Bound::datagram(local)?;
    let fd = bound.socket().try_clone().context("no descriptor is left")?.into();
    let connection = Connection::Datagram { local: absolute(local)?, remote };
    Ok(Opened { connection, fd, held: Some(Held::Datagram(bound)) })
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{}: no folder is current", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_named_as_their_programs_do() {
        let kind = |text: &str| text.parse::<Spec>().map(|spec| spec.kind);
        assert_eq!(kind("qemu:/run/vm"), Ok(Kind::Stream("/run/vm".into())));
        assert_eq!(kind("passt:/run/vm"), kind("qemu:/run/vm"));
        assert_eq!(kind("qemu-dgram:a,b"), Ok(Kind::Dgram("a".into(), "b".into())));
        assert_eq!(kind("vfkit:a:b"), Ok(Kind::First("a:b".into())));
        assert_eq!(kind("krun:/run/vm"), Ok(Kind::First("/run/vm".into())));
        assert_eq!(kind("krun:fd:7,offload=on"), Ok(Kind::Fd(7)));
        let is_bare = |text: &str| text.parse::<Spec>().map(|spec| spec.is_bare);
        assert_eq!(is_bare("krun:a,offload=on"), Ok(true));
        assert_eq!(is_bare("passt:a,offload=off"), Ok(false));
        assert_eq!(is_bare("krun:a"), Ok(false));
        assert_eq!(kind("vhost-user:a"), Ok(Kind::VhostUser("a".into())));
        assert_eq!(kind("tap:tap0"), Ok(Kind::Tap("tap0".into())));
        assert_eq!(kind("tapfd:3"), Ok(Kind::TapFd(3)));
        for (text, says) in [
            ("", "expected qemu:PATH"),
            ("qemu", "expected qemu:PATH"),
            ("vm:a", "no kind 'vm'"),
            ("qemu-dgram:a", "OURS,THEIRS"),
            ("tapfd:0", "tapfd:3"),
            ("krun:fd:x", "krun:fd:3"),
            ("krun:a,offload=yes", "offload=on or"),
            ("vhost-user:a,queues=2", "one pair of queues"),
            ("vhost-user:a,client", "we listen there"),
        ] {
            let why = kind(text).expect_err("no machine");
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
