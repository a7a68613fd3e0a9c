//! Protocols of a single link, between bridges, switches, clocks and neighbours.
//!
//! Called by: `link`, and tunnels that carry these protocols.

mod bridging;
mod discovery;
mod eapol;
mod lldp;
mod osi;
mod ptp;
mod small;
mod stp;

pub(crate) use discovery::cisco;
pub(crate) use eapol::print as eapol;
pub(crate) use lldp::lldp;
pub(crate) use osi::print as osi;
pub(crate) use ptp::print as ptp;
pub(crate) use small::{aoe, loopback, slow};
pub(crate) use stp::print as stp;
