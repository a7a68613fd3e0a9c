//! The gateway's process: a running gateway on the link that crate `jail` made, or on those of
//! virtual machines.
//!
//! Called by: `lib.rs`, in a process that has the host's network and nothing else of the host.

use std::process::ExitCode;
use std::rc::Rc;

use anyhow::Context;
use jail::GatewayEnds;
use machine::parts::{Machine, Messages, Opened, Owner, Program, Settings, Tool};
use wirespeed::Duration;

use crate::output::err;

/// How long data that a program left behind may take to leave.
const LAST: Duration = Duration::from_secs(2);

/// This program, for the page.
const PROGRAM: Program = Program { version: env!("WIRESPEED_VERSION"), say: err };

/// If this process is the gateway or the program of a tool, be that process.
pub(crate) fn child() -> Option<ExitCode> {
    jail::child(run)
}

/// Be the gateway, until the program has ended or the launcher was told to end.
fn run(ends: GatewayEnds) -> ExitCode {
    let GatewayEnds { link, network, settings, descriptors, mut inside, launcher, notes } = ends;
    notes.iter().for_each(|note| err(&format!("warning: {note}")));
    // This process has no other code that could depend on the limit.
    outside::raise_descriptors();
    let begun = serde_json::from_str(&settings)
        .context("the settings are not understood")
        .and_then(|settings: Settings| {
            let tables = inside.split_off(settings.to_host.len().min(inside.len()));
            let name = settings.tool.name();
            let say = move |text: &str| err(&format!("wirespeed {name}: {text}"));
            let messages = Messages { say: Rc::new(say), program: Some(PROGRAM) };
            let opened = Opened { link, descriptors, inside, tables, lines: None };
            let machine = Machine::begin(&settings, opened, messages)?;
            Ok((settings.tool, machine))
        });
    let (tool, mut machine) = match begun {
        Ok(begun) => begun,
        Err(why) => {
            launcher.failed(&format!("the gateway cannot begin: {why:#}"));
            return ExitCode::FAILURE;
        }
    };
    if launcher.ready().is_err() {
        return ExitCode::FAILURE;
    }
    let has_ended = || launcher.has_ended();
    let last = if tool == Tool::Netns { LAST } else { Duration::ZERO };
    let ended = machine.run(&Owner { fd: launcher.as_fd(), has_ended: &has_ended, last });
    drop(network);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            err(&format!("wirespeed {}: the gateway ended: {why:#}", tool.name()));
            ExitCode::FAILURE
        }
    }
}
