//! The drop-in `passt`: connects a virtual machine at a Unix socket, and stays in the background.
//!
//! Called by: `compat.rs`. `args.rs` reads the options. It is the gateway of `wirespeed gateway
//! --vm passt:PATH` with passt's words. libvirt and QEMU wait until it returns, so it does when the
//! machine can connect. Exit status as of passt: 1 for all errors.

mod args;
mod help;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use machine::parts::{Connection, EndsWith, Tool};

use self::args::{Args, Asked};
use super::{attach, pasta};
use crate::gateway::{self, Opened};
use crate::gateways::open::{self, inherited};
use crate::gateways::serve::How;
use crate::{Outcome, output};

/// Paths that are tried if no option names one.
const SOCKETS: core::ops::RangeInclusive<u32> = 1..=64;

/// Be `passt`.
pub(super) fn main(name: &str, words: &[OsString]) -> ExitCode {
    let prints = |text: &str| output::exit_code(output::out(text).map(|()| Outcome::Done));
    let args = match args::read(words) {
        Ok(Asked::Help) => return prints(help::TEXT),
        Ok(Asked::Version) => return prints(&pasta::version(name)),
        Ok(Asked::Capabilities) => return prints("{\n  \"type\": \"net\"\n}\n"),
        Ok(Asked::Run(args)) => args,
        Err(why) => {
            output::err(&format!("{name}: {why}\nSee '{name} --help'."));
            return ExitCode::FAILURE;
        }
    };
    match run(name, &args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            output::err(&format!("{name}: {why:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, args: &Args) -> Result<()> {
    let shared = &args.shared;
    if !shared.quiet {
        for note in &shared.notes {
            output::err(&format!("{name}: warning: {note}"));
        }
    }
    let mut options = pasta::with_ports(shared)?;
    pasta::addresses::set(shared, &mut options)?;
    let mut settings = open::settings(Tool::Passt, &options, Vec::new(), 1)?;
    settings.learn = shared.serves.of(settings.learn);
    settings.ends_with = match args.fd {
        Some(_) => EndsWith::Links,
        None if args.is_one_off => EndsWith::UsedLinks,
        None => EndsWith::Nothing,
    };
    let leaves = !shared.foreground;
    let leaves = leaves.then(|| attach::messages(shared.log_file.as_deref())).transpose()?;
    let how = How { options: &options, settings, learns: None, more: Vec::new(), leaves };
    let mut at = None;
    let running = gateway::begin(how, || {
        let (opened, path) = connect(args)?;
        at = path;
        Ok(vec![opened])
    })?;
    if let Some(path) = at.filter(|_| !shared.quiet) {
        let path = path.display();
        output::err(&format!(
            "{name}: UNIX domain socket bound at {path}; start a machine with -netdev \
             stream,id=n,server=off,addr.type=unix,addr.path={path} -device virtio-net-pci,netdev=n"
        ));
    }
    let pid = if shared.foreground { std::process::id() } else { running.pid() };
    if let Some(path) = &shared.pid_file {
        attach::write_pid(path, pid)?;
    }
    if shared.foreground {
        return running.wait();
    }
    running.leave();
    Ok(())
}

/// The machine's link, and the path at which it connects.
fn connect(args: &Args) -> Result<(Opened, Option<PathBuf>)> {
    if let Some(number) = args.fd {
        let fd = inherited(number).with_context(|| {
            format!("descriptor {number} is not open: give a connected stream socket")
        })?;
        let connection = Connection::Connected { place: format!("descriptor {number}").into() };
        return Ok((Opened { connection, fd, held: None }, None));
    }
    if let Some(path) = &args.socket {
        return Ok((gateway::listen(path)?, Some(path.clone())));
    }
    let paths = SOCKETS.map(|number| PathBuf::from(format!("/tmp/passt_{number}.socket")));
    let free = paths.into_iter().find_map(|path| Some((gateway::listen(&path).ok()?, Some(path))));
    free.context("none of /tmp/passt_1.socket to /tmp/passt_64.socket is free: give --socket")
}
