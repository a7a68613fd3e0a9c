//! The receive side: data in order and out of order, its SACK report, receive buffer tuning and
//! PAWS.
//!
//! Called by: input and predict. RFC 9293 section 3.10.7, RFC 2018, RFC 7323.

pub(crate) mod blocks;
pub(crate) mod paws;
pub(crate) mod reass;
pub(crate) mod text;
pub(crate) mod tuning;
