//! What `ttcp` prints, for people or as one JSON document: of a transfer in memory (`memory`), or
//! with a host (`host`), whose figures are of one end.
//!
//! Called by: `ttcp.rs`.

pub(super) mod host;
pub(super) mod memory;

/// `a / b`, or 0 where nothing was measured.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}
