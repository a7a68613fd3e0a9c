//! The launcher: from the options to a network, the sockets and files of the gateway, and the two
//! processes.
//!
//! Called by: `netns.rs`, in the user's process.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Result;
use jail::{Inside, User};
use machine::Dns;
use machine::parts::{EndsWith, Given as What, Tool};

use super::args::Args;
use crate::gateways::{Learns, open};
use crate::output;

/// Run the program, and wait for it; returns its exit status.
///
/// # Errors
/// The options do not fit, something cannot be opened, or the network cannot be made.
pub(super) fn run(args: &Args) -> Result<u8> {
    let given = &args.options;
    given.check()?;
    let mut opened = open::open(given, std::process::id())?;
    let learns = given.learn.as_deref().map(Learns::begin).transpose()?;
    if let Some(learns) = &learns {
        opened.push((What::Learn, learns.lines()?));
    }
    let (what, descriptors) = opened.into_iter().unzip();
    let mut settings = open::settings(Tool::Netns, given, what, 1)?;
    settings.ends_with = EndsWith::Links;
    let inside: Vec<Inside> = args.to_host.iter().flat_map(|&port| inside(port)).collect();
    settings.to_host = inside.iter().map(|inside| inside.at).collect();
    let networks = &settings.networks;
    let mut options = jail::Options::new(&args.command);
    options.mtu = given.mtu();
    options.interface = given.fixed.interface.clone().unwrap_or(options.interface);
    options.addresses = networks.iter().map(|n| n.with_prefix(n.program)).collect();
    let gateways = networks.iter().map(|network| network.gateway);
    options.gateways = gateways.filter(IpAddr::is_ipv4).collect();
    // The default route of IPv6 follows the host's.
    options.is_routed = networks.iter().any(|network| network.gateway.is_ipv6());
    if given.dns != Dns::Off {
        // One is enough: programs ask each of them several times before they give up.
        let names = networks.iter().take(1).map(|network| network.names);
        let path = PathBuf::from("/etc/resolv.conf");
        let of_host = fs::read_to_string(&path).unwrap_or_default();
        options.files.push((path, inner_resolv_conf(names, &of_host)));
    }
    options.hide.clone_from(&args.hide);
    options.user = if args.root { User::Root } else { User::Own };
    (options.pid, options.keep) = (args.pid || given.is_fenced(), args.keep);
    options.inside = inside;
    options.settings = serde_json::to_string(&settings)?;
    options.descriptors = descriptors;
    let ended = jail::launch(&options, &mut |note| output::err(&format!("warning: {note}")));
    open::remove_control_socket();
    open::remove_empty_log(given);
    // The exit status is the program's all the same.
    if let Some(Err(why)) = learns.map(Learns::end) {
        output::err(&format!("wirespeed netns: no rules were written: {why:#}"));
    }
    Ok(ended?)
}

/// The program's /etc/resolv.conf: our resolver, and the host's search list and options.
fn inner_resolv_conf(names: impl Iterator<Item = IpAddr>, host: &str) -> String {
    let servers = names.map(|ip| format!("nameserver {ip}\n"));
    let kept = ["search", "domain", "options"];
    let others = host.lines().filter(|line| {
        line.split_ascii_whitespace().next().is_some_and(|word| kept.contains(&word))
    });
    servers.chain(others.map(|line| format!("{line}\n"))).collect()
}

/// The sockets of `--to-host` in the program's network.
fn inside(port: u16) -> impl Iterator<Item = Inside> {
    loopbacks().map(move |ip| Inside { udp: false, at: SocketAddr::new(ip, port) })
}

/// The loopback addresses that this kernel has.
pub(crate) fn loopbacks() -> impl Iterator<Item = IpAddr> {
    // A kernel may be without IPv6.
    let has_v6 = Path::new("/proc/net/if_inet6").exists();
    let v6 = has_v6.then_some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    [IpAddr::V4(Ipv4Addr::LOCALHOST)].into_iter().chain(v6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_list_of_the_host_is_kept() {
        let names = ["10.0.2.3", "fd01::3"].map(|text| text.parse().expect("an address"));
        let host = "# comment\nnameserver 192.0.2.1\nsearch example.org\noptions edns0\n";
        let inner = inner_resolv_conf(names.into_iter(), host);
        let expected =
            "nameserver 10.0.2.3\nnameserver fd01::3\nsearch example.org\noptions edns0\n";
        assert_eq!(inner, expected);
    }
}
