//! Devices of smoltcp and devices of wirespeed, each as the other kind. A program that has a driver
//! for smoltcp (`phy::Device`) uses it as a port of a stack, and a program that stays with smoltcp
//! uses a device of wirespeed. This crate is `wirespeed::smoltcp`, feature `smoltcp`; it has the
//! trait of smoltcp 0.14. docs/smoltcp.md compares both libraries call by call.
//!
//! Called by: programs. Frames are copied once in each direction, because both kinds own their
//! buffers. Limits: those of the devices. Counters: the drops of [`FromPhy`] and [`AsPhy::drops`].
//!
//! - [`FromPhy`]: a `phy::Device` as a port.
//! - [`Pump`]: the same for a device that cannot leave its thread, such as smoltcp's
//!   `TunTapInterface`.
//! - [`AsPhy`]: a device of wirespeed as a `phy::Device`.

mod as_phy;
mod checksums;
mod from_phy;
mod pump;

pub use as_phy::{AsPhy, RxToken, TxToken};
pub use from_phy::{FromPhy, NotAPort};
pub use pump::Pump;
