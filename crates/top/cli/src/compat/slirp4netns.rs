//! The drop-in `slirp4netns`: connects a network namespace that is there, and runs until a
//! descriptor is closed or a signal comes.
//!
//! Called by: `compat.rs`. `args.rs` reads the options. podman looks for words in `--help`;
//! Docker's rootless mode and rootlesskit give a TAP that is there.

mod args;

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use machine::parts::{Auto, DefaultAction, Tool, When};

use self::args::{Args, Asked, Kind};
use super::attach::{self, Network, Plan};
use super::pasta::args::Serves;
use super::pasta::options;
use crate::gateways::open::{self, inherited};
use crate::{Outcome, output};

/// Be `slirp4netns`.
pub(super) fn main(name: &str, words: &[OsString]) -> ExitCode {
    let args = match args::read(words) {
        Ok(Asked::Help) => {
            return output::exit_code(output::out(args::HELP).map(|()| Outcome::Done));
        }
        Ok(Asked::Version) => {
            let version = env!("WIRESPEED_VERSION");
            let text = format!("{name} version 1.3.3\nwirespeed: {version}\n");
            return output::exit_code(output::out(&text).map(|()| Outcome::Done));
        }
        Ok(Asked::Run(args)) => args,
        Err(why) => {
            output::err(&format!("{name}: {why}\nTry '{name} --help' for more information."));
            return ExitCode::FAILURE;
        }
    };
    match run(&args) {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            output::err(&format!("{name}: {why:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<u8> {
    let mut options = options(&args.words)?;
    if args.disable_host_loopback {
        options.fixed.host_addresses = Some(Vec::new());
    } else {
        options.outer.allow.push("host".to_owned());
        options.outer.default = Some(DefaultAction::Allow);
    }
    // So that all who ask for networks get the same.
    options.fixed.networks = open::networks(&options, 1)?;
    let mut network = match args.kind {
        Kind::Pid => {
            let pid = args.target.parse().ok();
            let pid = pid.with_context(|| format!("'{}' is no process number", args.target))?;
            Network::of_process(pid, true)?
        }
        Kind::Path => Network::of_file(Path::new(&args.target), args.userns.as_deref(), true)?,
        Kind::TapFd => bail!("an open TAP is for `wirespeed gateway --vm tapfd:N`"),
    };
    if let Some(number) = args.exit_fd {
        let fd = inherited(number).with_context(|| format!("descriptor {number} of --exit-fd"))?;
        network.ends.push((When::Ready, fd));
    }
    let has_v6 = options.fixed.networks.iter().any(|network| network.program.is_ipv6());
    let plan = Plan {
        tool: Tool::Slirp4netns,
        options: &options,
        interface: args.interface.clone(),
        mac: args.mac,
        may_be_tap: true,
        is_configured: args.is_configured,
        serves: Serves { dhcp4: true, ra: has_v6, dhcp6: has_v6, dns: !args.disable_dns },
        to_host: Vec::new(),
        auto: Auto::default(),
        api: args.api_socket.clone(),
        leaves: None,
        is_quiet: false,
    };
    let attached = attach::begin(&plan, network)?;
    if let Some(number) = args.ready_fd {
        let fd = inherited(number).with_context(|| format!("descriptor {number} of --ready-fd"))?;
        File::from(fd).write_all(b"1").context("nobody waits at --ready-fd")?;
    }
    Ok(attached.wait()?)
}
