//! `--via`: the way out that the user names.
//!
//! Called by: `options.rs`, which checks how it is written; `open.rs`, which finds it. The
//! gateway's process opens it.

use std::fs;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use machine::parts::TunnelText;
use outside::{TunnelConfig, Via};

use crate::Usage;
use crate::output::what_to_do_to_read;

/// `--via` for no proxy.
const DIRECT: &str = "direct";
/// What stands in front of a tunnel's file.
const TUNNEL: &str = "wg:";
/// Bytes of a tunnel's file at most.
const FILE_MAX: u64 = 1 << 20;

/// A way out.
#[derive(Default)]
pub(super) struct Found {
    /// A proxy, and where it is.
    pub(super) proxy: Option<(String, SocketAddr)>,
    pub(super) tunnel: Option<TunnelText>,
    /// It carries IPv6, whatever the host does.
    pub(super) routes_v6: bool,
    /// The name servers beyond it.
    pub(super) servers: Vec<IpAddr>,
}

/// Check how a way is written.
pub(super) fn check(text: &str) -> Result<String, String> {
    match text.strip_prefix(TUNNEL) {
        Some("") => Err("a file has to follow: wg:FILE".to_owned()),
        Some(_) => Ok(text.to_owned()),
        None if text == DIRECT => Ok(text.to_owned()),
        None => text.parse::<Via>().map(|_| text.to_owned()).map_err(|why| why.to_string()),
    }
}

/// Find the way: read its file, look up where it leads.
///
/// # Errors
/// The file cannot be read or has a mistake; a name is not known.
pub(super) fn find(text: Option<&str>) -> Result<Found> {
    let Some(text) = text.filter(|text| *text != DIRECT) else { return Ok(Found::default()) };
    if let Some(file) = text.strip_prefix(TUNNEL) {
        return tunnel(Path::new(file));
    }
    let via: Via = text.parse()?;
    let at = via.resolve().context("the proxy of --via is not known: give its address")?;
    Ok(Found { proxy: Some((text.to_owned(), at)), ..Found::default() })
}

fn tunnel(file: &Path) -> Result<Found> {
    let mut text = String::new();
    let read = fs::File::open(file).and_then(|f| f.take(FILE_MAX).read_to_string(&mut text));
    let name = file.display();
    read.map_err(|why| anyhow!("cannot read {name}: {why}{}", what_to_do_to_read(&why)))?;
    let config =
        TunnelConfig::parse(&text).map_err(|why| Usage(format!("{name}:{}", shown(&why))))?;
    let endpoints = config.resolve()?;
    let routes_v6 = config.has_v6();
    let servers = config.dns;
    Ok(Found {
        tunnel: Some(TunnelText { text, endpoints }),
        routes_v6,
        servers,
        ..Found::default()
    })
}

/// A mistake as `LINE: WHY`.
fn shown(why: &outside::TunnelParseError) -> String {
    why.to_string().trim_start_matches("line ").to_owned()
}
