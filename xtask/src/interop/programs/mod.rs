//! Suites `programs-*`: the stack in programs that are not ours, or not in Rust, and in packages.
//!
//! `programs-packages` installs packages in machines with and without systemd.

mod c;
mod c_packages;
mod packages;
mod python;
mod smoltcp;
mod virtual_time;

use super::Case;

pub(super) const C: &[Case] =
    &[c::ECHO, c::SOCKS, c::BULK, c::GAME, c::CLANG_TOO, c::WITHOUT_GATEWAY];
pub(super) const C_PACKAGES: &[Case] = c_packages::CASES;
pub(super) const PYTHON: &[Case] = &[python::CASE];
pub(super) const SMOLTCP: &[Case] = smoltcp::CASES;
pub(super) const DEB: &[Case] = packages::CASES;
pub(super) const PACKAGES: &[Case] = packages::INSTALLED;
pub(super) const VIRTUAL_TIME: &[Case] = virtual_time::CASES;
