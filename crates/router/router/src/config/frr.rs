//! `[frr]`: where zebra connects to, and from where it may.
//!
//! Called by: `config.rs`. It is no operation on a stack: `daemon/zebra.rs` listens, and `fpm.rs`
//! takes the routes. docs/frr.md.

use core::net::SocketAddr;
use std::collections::BTreeSet;

use base::Cidr;

use super::file::Section;
use super::setting::{Prefix, prefix};

/// The control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frr {
    /// The address at which zebra's module dplane_fpm_nl connects, of the host's namespace.
    pub fpm: SocketAddr,
    /// Networks from which it may, if the address is not on loopback.
    pub allow: BTreeSet<Prefix>,
}

/// `[frr]`.
pub(super) fn read(file: &Section<'_>) -> Option<Frr> {
    let section = file.one("frr", "[frr]")?;
    const EXAMPLE: &str = "127.0.0.1:2620";
    section.needed("fpm", &format!("\"{EXAMPLE}\""));
    let fpm: Option<SocketAddr> = section.parsed("fpm", EXAMPLE);
    let mut allow = BTreeSet::new();
    for text in section.texts("allow") {
        let at = text.at;
        let read: Option<Cidr> = section.log.parsed(text, "allow", "192.0.2.7/32");
        match read {
            Some(cidr) if cidr.network() == cidr => drop(allow.insert(prefix(cidr))),
            Some(cidr) => {
                let network = cidr.network();
                section.log.note(at, format!("{cidr} is an address, no network: write {network}"));
            }
            None => {}
        }
    }
    let is_here = fpm.is_none_or(|fpm| fpm.ip().is_loopback());
    if is_here && section.has("allow") {
        section.note("allow", "on loopback the user counts who connects: remove allow");
    } else if !is_here && !section.has("allow") {
        let what = "others reach this address: add allow = \"192.0.2.7/32\", from where zebra \
                    connects";
        section.note("fpm", what);
    }
    Some(Frr { fpm: fpm?, allow })
}
