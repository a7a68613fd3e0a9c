//! `--http`: where the live page is served. The crate `live` serves it.
//!
//! Called by: clap for `ttcp` and `up`; their loops, with the tool's name.

use live::{Http, Whose};

use crate::output;

/// The option.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
#[group(skip)]
pub(crate) struct Args {
    /// Serve a page that shows what happens: ADDR[:PORT] of this machine, or stack:PORT
    ///
    /// 127.0.0.1:8080 for a browser of this machine. At an address that others reach, the URL that
    /// is printed has a token, and nobody sees the page without it. With stack:PORT the page is at
    /// the addresses of the stack itself. It only shows, and changes nothing.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = Http::parse, hide_short_help = true)]
    pub(crate) http: Option<Http>,
}

/// A tool's name and version, for the page.
pub(crate) fn whose(command: &str) -> Whose {
    let version = env!("WIRESPEED_VERSION").to_owned();
    Whose { command: command.to_owned(), version, complain: output::err, locks_down: false }
}
