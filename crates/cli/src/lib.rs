//! The program `wirespeed` as a library: reads the command line, runs the tool that was asked for
//! and turns the outcome into an exit code (`outcome.rs`).
//!
//! Called by: `main.rs`, and tests that ask for the command line ([`command`]).
//!
//! Every tool has the same shape: TOOL.rs has its `main`, `TOOL/args.rs` the options,
//! `TOOL/run.rs` the work, `TOOL/report.rs` what is printed, as text and as JSON. What two tools
//! share is in this folder: clocks and Ctrl-C (`clock`), a stack on a device (`outside`),
//! questions to a running program (`running`) and their answers (`control_service`), what is
//! printed where (`output`).

mod args;
mod clock;
mod control_service;
mod dump;
mod lab;
mod outcome;
mod output;
#[cfg(target_os = "linux")]
mod outside;
mod pages;
#[cfg(target_os = "linux")]
mod ping;
mod running;
#[cfg(target_os = "linux")]
mod services;
mod show;
mod top;
mod ttcp;
#[cfg(target_os = "linux")]
mod wire;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Tool};
pub(crate) use outcome::{Outcome, Usage};

/// The whole command line: every tool, every option, every sentence of its help.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Do what the command line of this process says.
pub fn main() -> ExitCode {
    if std::env::args_os().len() <= 1 {
        output::err(args::FIRST.trim_end());
        return outcome::exit_code(Ok(Outcome::Exit(2)));
    }
    let result = match Cli::parse().tool {
        Tool::Ttcp(args) => ttcp::main(&args),
        #[cfg(target_os = "linux")]
        Tool::Ping(args) => ping::main(&args),
        #[cfg(target_os = "linux")]
        Tool::Services(args) => services::main(&args),
        #[cfg(target_os = "linux")]
        Tool::Wire(args) => wire::main(&args),
        Tool::Dump(args) => dump::main(&args),
        Tool::Show(args) => show::main(&args),
        Tool::Top(args) => top::main(&args),
        Tool::Lab(args) => lab::main(&args),
        Tool::Man(args) => pages::man(&args),
        Tool::Completions(args) => pages::completions(&args),
    };
    outcome::exit_code(result)
}
