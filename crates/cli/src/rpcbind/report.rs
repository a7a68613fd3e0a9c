//! What `rpcbind` prints: where it listens, and at the end the totals.
//!
//! Called by: `rpcbind.rs`.

use std::net::IpAddr;

use rpc::portmap::PORT;
use rpc::server::Server;

/// The first line.
pub(super) fn begin(addresses: &[IpAddr]) -> String {
    let shown: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    format!("port mapper at {}, port {PORT}, UDP and TCP; Ctrl-C ends it\n", shown.join(", "))
}

/// The last line.
pub(super) fn end(server: &Server) -> String {
    let mut text = format!("{} calls answered", server.answered());
    for (reason, count) in server.drops().nonzero() {
        text += &format!(", {count} dropped: {}", reason.meaning());
    }
    text + "\n"
}
