//! What `nfsd` prints: where it listens, and at the end the totals.
//!
//! Called by: `run.rs`.

use std::net::SocketAddr;

use rpc::tasks::Totals;

use super::args::Args;

/// The first line.
pub(super) fn begin(args: &Args, at: &[SocketAddr]) -> String {
    let shown: Vec<String> = at.iter().map(SocketAddr::to_string).collect();
    format!(
        "serving {} at {}, {}, {}; Ctrl-C ends it\n",
        args.dir.display(),
        shown.join(", "),
        if args.udp { "TCP and UDP" } else { "TCP" },
        if args.read_only { "read only" } else { "for reading and writing" },
    )
}

/// The last line.
pub(super) fn end(totals: &Totals) -> String {
    let mut text = format!("{} calls answered", totals.answered);
    if totals.brief > 0 {
        text += &format!(", {} replies cut short: clients did not read theirs", totals.brief);
    }
    for (reason, count) in &totals.drops {
        text += &format!(", {count} dropped: {}", reason.meaning());
    }
    text + "\n"
}
