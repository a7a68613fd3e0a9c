//! Programs on wirespeed that are of use as they are, and small enough to read: a file server and
//! its client over TLS (`https-files`, `https-get`), a proxy that carries every connection of an
//! interface elsewhere (`proxy`), and a program over ONC RPC (`rpc-board`). Their parts are here,
//! their command lines in `bin`.
//!
//! Called by: the programs, and tests, which run them against the kernel and real peers.

pub mod board;
pub mod client;
pub mod files;
pub mod proxy;
pub mod tls;
pub mod tun;
pub mod write_timeout;

use std::process::ExitCode;

/// How a program ends: one line on standard error says what went wrong, and what to do.
pub fn outcome(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
