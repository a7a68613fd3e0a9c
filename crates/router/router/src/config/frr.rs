//! `[frr]`: from where routing daemons give routes.
//!
//! Called by: `config.rs`. It is no operation on a stack: `daemon/zebra.rs` listens for zebra,
//! `daemon/kernel.rs` opens the kernel's routes, and `fpm.rs` takes both. docs/frr.md.

use core::net::SocketAddr;
use std::collections::BTreeSet;

use base::Cidr;

use super::file::Section;
use super::mirror::{Mirrors, Space};
use super::setting::{Prefix, prefix};

/// The control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frr {
    /// The address at which zebra's module dplane_fpm_nl connects.
    pub fpm: Option<SocketAddr>,
    /// Networks from which it may, if the address is not on loopback.
    pub allow: BTreeSet<Prefix>,
    /// Routes that daemons write into the kernel's tables are taken.
    pub netlink: bool,
    /// The network namespace of the daemons, by its name in `ip netns`; `None`: the router's own.
    /// Unless the file says otherwise it is that of the mirrors.
    pub namespace: Option<String>,
}

/// `[frr]`.
pub(super) fn read(file: &Section<'_>, mirrors: Option<&Mirrors>) -> Option<Frr> {
    let section = file.one("frr", "[frr]")?;
    const EXAMPLE: &str = "127.0.0.1:2620";
    let netlink = section.flag("netlink").unwrap_or(false);
    if !netlink {
        section.needed("fpm", &format!("\"{EXAMPLE}\""));
    }
    let fpm: Option<SocketAddr> = section.parsed("fpm", EXAMPLE);
    let of_mirrors = mirrors.and_then(|mirrors| match &mirrors.space {
        Space::Named(name) => Some(name.as_str()),
        Space::Host => None,
    });
    let namespace = section.text("namespace").or(of_mirrors).map(str::to_owned);
    if namespace.as_ref().is_some_and(|name| name.is_empty() || name.contains(['/', '\0'])) {
        section.note("namespace", "a namespace is named as `ip netns` does, without slashes");
    }
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
    Some(Frr { fpm, allow, netlink, namespace })
}
