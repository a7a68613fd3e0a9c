//! The gateway's process: a running gateway on the link that crate `jail` made.
//!
//! Called by: `netns.rs`, in a process that has the host's network and nothing else of the host.

use std::process::ExitCode;

use anyhow::Context;
use jail::GatewayEnds;
use wirespeed::Duration;

use crate::machine::{Given, Machine, Owner};
use crate::output;

/// The names of the gateway and of its stack in `wirespeed show`, and in messages.
const COMMAND: &str = "netns";

/// How long data that the program left behind may take to leave.
const LAST: Duration = Duration::from_secs(2);

/// Be the gateway, until the program has ended.
pub(super) fn run(ends: GatewayEnds) -> ExitCode {
    let GatewayEnds { link, network, settings, descriptors, inside, launcher } = ends;
    let begun = serde_json::from_str(&settings)
        .context("the settings are not understood")
        .and_then(|settings| {
            let links = vec![Box::new(link) as _];
            Machine::begin(COMMAND, &settings, Given { links, descriptors, inside })
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
            output::err(&format!("wirespeed {COMMAND}: the gateway ended: {why:#}"));
            ExitCode::FAILURE
        }
    }
}
