//! What `services` prints: what is served where, and at the end how much that was.
//!
//! Called by: `services.rs`.

/// The first line.
pub(super) const BEGIN: &str = "echo at port 7, discard at 9, chargen at 19; Ctrl-C ends it\n";

/// What was served.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub(super) connections: u64,
    pub(super) bytes: u64,
}

/// The last line.
pub(super) fn end(moved: &Moved) -> String {
    format!("{} connections, {} bytes\n", moved.connections, moved.bytes)
}
