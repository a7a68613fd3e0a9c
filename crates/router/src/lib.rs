//! A router: its configuration, what changes when another one takes effect, its metrics, and the
//! privileges that it gives up.
//!
//! Called by: `wirespeed up`. Nothing here knows how packets are forwarded: it calls the stack as
//! any program does.
#![cfg(target_os = "linux")]

pub mod accounts;
pub mod applied;
pub mod config;
pub mod devices;
pub mod links;
pub mod metrics;
pub mod orders;
pub mod plan;
pub mod privileges;
pub mod users;
