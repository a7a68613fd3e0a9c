//! The firewall: rules, the states of flows, and the translation of addresses.
//!
//! Called by: the stack, which joins it to forwarding. This crate has no clock, no device and no
//! route: it takes a borrowed packet and returns a small value. Rules are text
//! (docs/filter.md, [`text`]); they are compiled to a [`program`], which only the first packet of a
//! flow asks. RFC 4787, 5382, 5508, 6888, 7857, 6296, 4890.

mod exchange;
pub mod firewall;
pub mod homes;
mod names;
pub mod nat;
pub mod packet;
pub mod program;
mod published;
pub mod rules;
pub mod sets;
pub mod states;
pub mod text;

pub use firewall::Firewall;
pub use homes::Homes;
pub use packet::{Packet, ROUTER, Tuple};
pub use program::{Program, Verdict, explain, passes_always};
pub use published::Published;
pub use rules::{Action, Rules};
pub use sets::Set;
