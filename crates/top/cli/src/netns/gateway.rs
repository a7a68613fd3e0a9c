//! The gateway's process: a running gateway on the link that crate `jail` made.
//!
//! Called by: `netns.rs`, in a process that has the host's network and nothing else of the host.

use std::process::ExitCode;

use anyhow::Context;
use jail::GatewayEnds;
use wirespeed::Duration;

use crate::machine::{Given, Machine, Owner, Settings};
use crate::output;

/// The tools whose gateways run in such a process: their names in `wirespeed show`, and in messages.
const TOOLS: [&str; 3] = ["netns", "pasta", "slirp4netns"];

/// How long data that the program left behind may take to leave.
const LAST: Duration = Duration::from_secs(2);

/// Be the gateway, until the program has ended.
pub(super) fn run(ends: GatewayEnds) -> ExitCode {
    let GatewayEnds { link, network, settings, descriptors, mut inside, launcher } = ends;
    let read =
        serde_json::from_str::<Settings>(&settings).context("the settings are not understood");
    let named = |settings: &Settings| TOOLS.into_iter().find(|tool| *tool == settings.tool);
    let tool = read.as_ref().ok().and_then(named).unwrap_or(TOOLS[0]);
    let begun = read.and_then(|settings| {
        let tables = inside.split_off(settings.to_host.len().min(inside.len()));
        let links = vec![link];
        Machine::begin(tool, &settings, Given { links, descriptors, inside, tables })
    });
    let mut machine = match begun {
        Ok(machine) => machine,
        Err(why) => {
            launcher.failed(&format!("the gateway cannot begin: {why:#}"));
            return ExitCode::FAILURE;
        }
    };
    if launcher.ready().is_err() {
        return ExitCode::FAILURE;
    }
    let has_ended = || launcher.has_ended();
    let owner =
        Owner { fd: launcher.as_fd(), has_ended: &has_ended, ends_with_links: true, last: LAST };
    let ended = machine.run(&owner);
    drop(network);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            output::err(&format!("wirespeed {tool}: the gateway ended: {why:#}"));
            ExitCode::FAILURE
        }
    }
}
