//! What `rpcbind` prints: where it listens, and at the end the totals.
//!
//! Called by: `rpcbind.rs`.

use std::net::IpAddr;

use rpc::portmap::PORT;
use rpc::server::Server;

/// The first line.
pub(super) fn begin(addresses: &[IpAddr], socket: Option<&str>) -> String {
    let shown: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    let socket = socket.map(|path| format!(", and {path}")).unwrap_or_default();
    let shown = shown.join(", ");
    format!("port mapper at {shown}, port {PORT}, UDP and TCP{socket}; Ctrl-C ends it\n")
}

/// The last line.
pub(super) fn end(server: &Server) -> String {
    let mut text = format!("{} calls answered", server.answered());
    for (reason, count) in server.drops().nonzero() {
        text += &format!(", {count} dropped: {}", reason.meaning());
    }
    text + "\n"
}
