//! The command line of the program: which tool; each tool has its options in its own `args.rs`.
//!
//! Called by: `lib.rs`.

use clap::{Parser, Subcommand};

use crate::{dump, show, top, ttcp};
#[cfg(target_os = "linux")]
use crate::{ping, services, wire};

/// A TCP/IP stack that runs inside a process, and tools to measure it.
#[derive(Parser)]
#[command(name = "wirespeed", version, arg_required_else_help = true)]
#[command(after_help = "Try: wirespeed ttcp        two stacks in memory move bytes for 3 seconds")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) tool: Tool,
}

#[derive(Subcommand)]
pub(crate) enum Tool {
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
