//! `wirespeed nfs`: list, print and copy files of an NFS version 3 server, over the system's
//! sockets or over a stack on a device.
//!
//! Called by: `lib.rs`. RFC 1813. The protocol is crate `nfs`, calls are those of crate `rpc`.

mod args;
mod connect;
mod run;

use std::time::Duration;

use ::nfs::client::{Copied, Notice};
use ::nfs::limits::PATIENCE;
use ::nfs::proto::{Attributes, Kind};
use anyhow::Result;
pub(crate) use args::Args;
use jiff::Timestamp;
use wirespeed::control::text::plain;

use crate::Outcome;
use crate::clock::Interrupt;

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    run::run(args, &Interrupt::install()?)
}

/// A line of `ls`.
fn line(name: &[u8], of: Option<&Attributes>, long: bool) -> String {
    let name = plain(&String::from_utf8_lossy(name));
    let Some(of) = of.filter(|_| long) else { return name + "\n" };
    let time = Timestamp::from_second(of.mtime.seconds.into()).unwrap_or_default();
    format!(
        "{} {:>3} {:>5} {:>5} {:>12} {time:.0} {name}\n",
        mode(of),
        of.nlink,
        of.uid,
        of.gid,
        of.size
    )
}

/// As ls(1) shows it: `drwxr-xr-x`.
fn mode(of: &Attributes) -> String {
    let kind = match of.kind {
        Kind::Regular => '-',
        Kind::Directory => 'd',
        Kind::Block => 'b',
        Kind::Character => 'c',
        Kind::Symlink => 'l',
        Kind::Socket => 's',
        Kind::Fifo => 'p',
    };
    let bits = "rwxrwxrwx".chars().enumerate();
    let shown = bits.map(|(n, c)| if of.mode >> (8 - n) & 1 != 0 { c } else { '-' });
    core::iter::once(kind).chain(shown).collect()
}

/// What the user is told meanwhile.
fn notice(server: &str, notice: Notice<'_>) -> String {
    match notice {
        Notice::Waiting => format!(
            "waiting for {server}: it does not answer, and is tried for {} s; Ctrl-C ends it",
            Duration::from(PATIENCE).as_secs()
        ),
        Notice::Answers => format!("{server} answers again"),
        Notice::PassedOver(path) => format!(
            "passed over '{}': it is neither a file nor a directory nor a symbolic link",
            plain(path)
        ),
    }
}

/// What was copied.
fn copied(of: &Copied, took: Duration) -> String {
    let Copied { files, dirs, links, others, bytes } = of;
    let others = if *others > 0 { format!(", {others} others passed over") } else { String::new() };
    let rate = *bytes as f64 / took.as_secs_f64().max(1e-6) / 1e6;
    format!(
        "copied {files} files, {dirs} directories, {links} links, {bytes} bytes in {:.2} s, \
         {rate:.1} MB/s{others}\n",
        took.as_secs_f64()
    )
}
