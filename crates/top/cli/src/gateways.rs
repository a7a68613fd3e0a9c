//! What all tools with a gateway share: its options, what they open for it, and its process.
//!
//! Called by: `lib.rs`, where [`child`] comes first, since the process of a gateway is this program
//! again; the tools. [`open`] turns [`Options`] into what a gateway gets; [`serve`] starts one.

mod child;
mod learning;
pub(crate) mod open;
mod options;
pub(crate) mod serve;
mod via;

pub(crate) use child::child;
pub(crate) use learning::Learns;
pub(crate) use options::{Options, Outer};
