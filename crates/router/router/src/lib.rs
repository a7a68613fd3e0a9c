//! A router: its configuration, the changes when another one takes effect, its metrics, the
//! privileges that it gives up, and the daemon that uses all of these.
//!
//! Called by: `wirespeed up`, and programs that are routers. This crate does not forward packets
//! itself: it calls the stack, as any program does.
#![cfg(target_os = "linux")]

pub mod applied;
pub mod config;
pub mod daemon;
pub mod devices;
mod export;
pub mod fpm;
pub mod links;
pub mod machine;
pub mod metrics;
pub mod mirror;
pub mod orders;
mod pair;
pub mod plan;

pub use daemon::Daemon;
