//! The same packets through the kernel's nftables and through our firewall: random rule sets in
//! both languages, random flows, and no verdict that differs but those of `compare.rs`, each with
//! its reason.
//!
//! No harness: what is missing makes a case a skip (`testbed`). `WIRESPEED_NFT_SETS` is how many
//! rule sets run (200 if it is not set), `WIRESPEED_NFT_FIRST` the number of the first one. Called
//! by: `cargo xtask interop filter`.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod compare;
#[cfg(target_os = "linux")]
mod flows;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod nat;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod ours;
#[cfg(target_os = "linux")]
mod packets;
#[cfg(target_os = "linux")]
mod random;
#[cfg(target_os = "linux")]
mod rules;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod tcp;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[run::CASES];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_namespaces(cases)
}
