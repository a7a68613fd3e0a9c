//! `wirespeed`: the program. It reads the command line, runs what was asked for and turns the
//! outcome into an exit code: 0 done, 1 failed, 2 a command line that says no sense, 130 stopped
//! by Ctrl-C.
//!
//! Called by: people and scripts. Must not know: how anything is done; that is in the modules.

mod clock;
mod control_service;
mod dump;
mod lab;
mod output;
#[cfg(target_os = "linux")]
mod outside;
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

use clap::{Parser, Subcommand};

/// A TCP/IP stack that runs inside a process, and tools to measure it.
#[derive(Parser)]
#[command(name = "wirespeed", version, arg_required_else_help = true)]
#[command(after_help = "Try: wirespeed ttcp        two stacks in memory move bytes for 3 seconds")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Move bytes by TCP or UDP between two stacks in memory, check them, say how fast it went
    Ttcp(Box<ttcp::Args>),
    /// Ask a host for an echo (ICMP, ICMPv6) over a TAP or TUN, and say how long it took
    #[cfg(target_os = "linux")]
    Ping(Box<ping::Args>),
    /// Echo, discard and chargen over a TAP or TUN: a peer to test other programs against
    #[cfg(target_os = "linux")]
    Services(Box<services::Args>),
    /// Join two devices by a link with a rate, a delay and faults: a bad network for any two hosts
    #[cfg(target_os = "linux")]
    Wire(Box<wire::Args>),
    /// Print packets of a running wirespeed, an interface or a file, or write them to a file
    Dump(Box<dump::Args>),
    /// Show what a running wirespeed is doing: connections, counters, drops, limits and more
    Show(show::Args),
    /// Watch what passes a running wirespeed or an interface, as it happens
    Top(Box<top::Args>),
    /// Run an experiment with the stack: a table, a plot, a document
    Lab(Box<::lab::Args>),
}

/// How a command that ran to its end came out.
enum Outcome {
    Done,
    Interrupted,
    /// With a code that the command's users know.
    Exit(u8),
}

/// A command line that cannot be carried out: what is wrong and what to do instead.
#[derive(Debug)]
struct Usage(String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Ttcp(args) => ttcp::main(&args),
        #[cfg(target_os = "linux")]
        Command::Ping(args) => ping::main(&args),
        #[cfg(target_os = "linux")]
        Command::Services(args) => services::main(&args),
        #[cfg(target_os = "linux")]
        Command::Wire(args) => wire::main(&args),
        Command::Dump(args) => dump::main(&args),
        Command::Show(args) => show::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Lab(args) => lab::main(&args),
    };
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Interrupted) => ExitCode::from(130),
        Ok(Outcome::Exit(code)) => ExitCode::from(code),
        Err(error) if error.is::<Usage>() => {
            output::err(&format!("error: {error}\n\nFor more information, try '--help'."));
            ExitCode::from(2)
        }
        Err(error) => {
            output::err(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
