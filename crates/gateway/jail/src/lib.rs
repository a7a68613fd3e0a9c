//! Runs an unmodified program in a network of its own, whose only way out is a gateway in another
//! process; and gives up privileges. Linux only. No root, no /dev/net/tun.
//!
//! Called by: `wirespeed netns`; the router's worker, which uses [`privileges`] alone. This crate
//! forwards no packet: the gateway is the caller's function. Sources: user_namespaces(7),
//! network_namespaces(7), mount_namespaces(7), veth(4), rtnetlink(7), pivot_root(2).
//! docs/decisions/0138-netns.md.
//!
//! Three processes run. All are this program: [`launch`] starts it again with a first argument of
//! this crate, and [`child`] recognises that argument, so a program calls [`child`] first.
//!
//! | process | network | user namespace | ends with |
//! |---|---|---|---|
//! | launcher, calls [`launch`] | the host's | the host's | the program |
//! | gateway | the host's | its own, without capabilities, with an empty root | the launcher |
//! | program | its own | its own, without capabilities | the launcher |
//!
//! The veth pair of the program's network ends in a second network namespace. The program cannot
//! see that namespace; only the gateway's packet socket keeps it alive.
//!
//! [`Attaching`] does the same for a network namespace that is there: a container's. It has a
//! gateway, which may outlive the launcher, and a process that makes the link and ends.
//!
//! [`Serving`] is a gateway without a program, for virtual machines at sockets: it has what the
//! table says, and no link.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use wirespeed_jail::{GatewayEnds, Options, child, launch};
//!
//! fn gateway(ends: GatewayEnds) -> ExitCode {
//!     // Start threads and open files here, then:
//!     if ends.launcher.ready().is_err() {
//!         return ExitCode::FAILURE;
//!     }
//!     while !ends.launcher.has_ended() {
//!         // Forward packets of `ends.link`.
//!     }
//!     ExitCode::SUCCESS
//! }
//!
//! fn main() -> ExitCode {
//!     if let Some(code) = child(gateway) {
//!         return code;
//!     }
//!     let options = Options::new(["curl", "http://10.0.2.2/"]);
//!     match launch(&options, &mut |note| eprintln!("{note}")) {
//!         Ok(code) => ExitCode::from(code),
//!         Err(why) => {
//!             eprintln!("{why}");
//!             ExitCode::from(why.exit_code())
//!         }
//!     }
//! }
//! ```
#![cfg(target_os = "linux")]

mod attach;
mod error;
mod gateway;
mod init;
mod inside;
mod launch;
mod link;
mod message;
mod mounts;
mod namespaces;
mod netlink;
mod options;
pub mod privileges;
mod process;
mod program;
mod serve;
mod signals;

use std::process::ExitCode;

pub use attach::{Attach, Attached, Attaching};
pub use error::{Error, ErrorKind};
pub use gateway::{GatewayEnds, Launcher};
pub use launch::launch;
pub use options::{Inside, Options, User};
pub use serve::{Sees, Served, Serving};

/// If this process is one that [`launch`], [`Attaching`] or [`Serving`] started, be that process,
/// and return its exit code. `gateway` runs in the gateway's process, when its link is there.
///
/// Call it first in `main`, while the process has one thread and no open files.
pub fn child(gateway: impl FnOnce(GatewayEnds) -> ExitCode) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    match first.to_str()? {
        process::GATEWAY => Some(gateway::main(&arguments.collect::<Vec<_>>(), gateway)),
        process::PROGRAM => Some(program::main(&arguments.collect::<Vec<_>>())),
        process::INSIDE => Some(inside::main()),
        process::INIT => Some(init::main(&arguments.collect::<Vec<_>>())),
        _ => None,
    }
}
