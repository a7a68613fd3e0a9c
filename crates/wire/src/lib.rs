//! wire
pub mod checksum;
