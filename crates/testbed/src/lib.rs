//! What tests against the kernel of this machine share: network namespaces, what a case needs and
//! does not find, processes that end with their case, and a `main` for test programs without a
//! harness, because libtest cannot say at run time that a case was skipped.
//!
//! Called by: tests of other crates, as a dev-dependency; no library or program depends on it. It
//! imports no other crate of ours. Elsewhere than on Linux it runs no case.
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

mod cases;
#[cfg(target_os = "linux")]
mod namespace;
mod needs;
#[cfg(target_os = "linux")]
mod process;

pub use cases::{Case, in_namespaces, in_place, run};
#[cfg(target_os = "linux")]
pub use namespace::{Namespace, ip};
pub use needs::Need;
#[cfg(target_os = "linux")]
pub use process::{Running, until};
