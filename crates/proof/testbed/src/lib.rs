//! Support for tests against this machine's kernel: network namespaces, checks for what a case
//! needs, processes that end with their case, virtual machines, a headless browser, and a `main`
//! for test programs without a harness, because libtest cannot skip a case at run time.
//!
//! Called by: tests of other crates, as a dev-dependency; no library or program depends on it. It
//! imports no other crate of this workspace. On other systems than Linux it runs no case.
//!
//! A test program has `harness = false` in its manifest and this `main`:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use wirespeed_testbed::{Case, Need, in_namespaces, ip};
//!
//! const CASES: &[Case] = &[("loopback_comes_up", &[], || assert!(ip("link set lo up")))];
//!
//! fn main() -> ExitCode {
//!     in_namespaces(&[CASES])
//! }
//! ```

#[cfg(target_os = "linux")]
mod browser;
mod cases;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod namespace;
mod needs;
#[cfg(target_os = "linux")]
mod process;

#[cfg(target_os = "linux")]
pub use browser::Browser;
pub use cases::{Case, in_namespaces, in_place, run};
#[cfg(target_os = "linux")]
pub use machine::GuestKernel;
#[cfg(target_os = "linux")]
pub use namespace::{Namespace, ip};
pub use needs::Need;
#[cfg(target_os = "linux")]
pub use process::{Running, until};
