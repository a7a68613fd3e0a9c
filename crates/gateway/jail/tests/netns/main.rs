//! Programs in namespaces behind a tiny gateway, as an ordinary user: what they see, how they end,
//! and what is left when one of the three processes is killed.
//!
//! No harness: this program is the launcher and its children, too. As root it runs launchers as a
//! user without privileges. A case whose needs are not met is skipped with the reason (`testbed`).
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod attach;
#[cfg(target_os = "linux")]
mod life;
#[cfg(target_os = "linux")]
mod service;
#[cfg(target_os = "linux")]
mod sight;
#[cfg(target_os = "linux")]
mod tiny;
#[cfg(target_os = "linux")]
mod world;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    if let Some(code) = wirespeed_jail::child(tiny::gateway) {
        return code;
    }
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == world::LAUNCH => return tiny::launch(arguments.collect()),
        Some(first) if first == world::SERVE => return tiny::serve(&arguments.collect::<Vec<_>>()),
        _ => {}
    }
    testbed::in_place(&[sight::CASES, life::CASES, service::CASES, attach::CASES])
}
