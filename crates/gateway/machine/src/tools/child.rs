//! The gateway's process: a running gateway on the link that crate `jail` made, or on those of
//! virtual machines.
//!
//! Called by: a program's `main`, in a process that has the host's network and nothing else of the
//! host.

use std::process::ExitCode;
use std::rc::Rc;

use anyhow::Context;
use base::Duration;
use jail::GatewayEnds;

use crate::machine::{Given, Machine, Owner};
use crate::messages::{Messages, Program};
use crate::settings::{Settings, Tool};

/// How long data that a program left behind may take to leave.
const LAST: Duration = Duration::from_secs(2);

/// If this process is the gateway or the program of a tool, be that process.
pub fn child(program: Program) -> Option<ExitCode> {
    jail::child(|ends| run(ends, program))
}

/// Be the gateway, until the program has ended or the launcher was told to end.
fn run(ends: GatewayEnds, program: Program) -> ExitCode {
    let GatewayEnds { link, network, settings, descriptors, mut inside, launcher, notes } = ends;
    notes.iter().for_each(|note| (program.say)(&format!("warning: {note}")));
    let begun = serde_json::from_str(&settings)
        .context("the settings are not understood")
        .and_then(|settings: Settings| {
            let tables = inside.split_off(settings.to_host.len().min(inside.len()));
            let name = settings.tool.name();
            let say = move |text: &str| (program.say)(&format!("wirespeed {name}: {text}"));
            let messages = Messages { say: Rc::new(say), program: Some(program) };
            let given = Given { link, descriptors, inside, tables, lines: None };
            let machine = Machine::begin(&settings, given, messages)?;
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
            (program.say)(&format!("wirespeed {}: the gateway ended: {why:#}", tool.name()));
            ExitCode::FAILURE
        }
    }
}
