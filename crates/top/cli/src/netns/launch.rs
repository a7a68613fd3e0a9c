//! The launcher: from the options to a network, the sockets and files of the gateway, and the two
//! processes.
//!
//! Called by: `netns.rs`. The gateway's process can open no file and listen at no port, so all of
//! that is opened here, as the user.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jail::{Inside, Options, User};
use live::Live;
use outside::Via;

use super::addresses::Network;
use super::args::{Args, DIRECT, Dns, Net4, Net6};
use super::rules::Texts;
use super::settings::{Given, Settings};
use crate::{Usage, output};

/// The port of name servers (RFC 1035 section 4.2).
const NAMES: u16 = 53;

/// Run the program, and wait for it; returns its exit status.
///
/// # Errors
/// The options do not fit, something cannot be opened, or the network cannot be made.
pub(super) fn run(args: &Args) -> Result<u8> {
    args.check()?;
    let networks = networks(args)?;
    let (given, descriptors) = open(args)?.into_iter().unzip();
    let resolv_conf = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let inside: Vec<Inside> = args.to_host.iter().flat_map(|&port| inside(port)).collect();
    let settings = Settings {
        networks: networks.clone(),
        link: args.link.clone(),
        via: via(args)?,
        host_addresses: host_addresses(args, &networks),
        has_names: args.dns != Dns::Off,
        servers: servers(&args.dns, &resolv_conf),
        hosts: fs::read_to_string("/etc/hosts").unwrap_or_default(),
        to_host: inside.iter().map(|inside| inside.at).collect(),
        given,
    };
    let mut options = Options::new(&args.command);
    options.mtu = args.mtu();
    options.addresses = networks.iter().map(|n| n.with_prefix(n.program)).collect();
    options.gateways = routed(&networks, args.net6);
    if args.dns != Dns::Off {
        let names = networks.iter().map(|network| network.names);
        let path = PathBuf::from("/etc/resolv.conf");
        options.files.push((path, inner_resolv_conf(names, &resolv_conf)));
    }
    options.hide.clone_from(&args.hide);
    options.user = if args.root { User::Root } else { User::Own };
    (options.pid, options.keep) = (args.pid || args.is_fenced(), args.keep);
    options.inside = inside;
    options.settings = serde_json::to_string(&settings)?;
    options.descriptors = descriptors;
    Ok(jail::launch(&options, &mut |note| output::err(&format!("warning: {note}")))?)
}

fn networks(args: &Args) -> Result<Vec<Network>> {
    let mut all = Vec::new();
    if let Net4::Of(network) = args.net4 {
        all.push(Network::of(network).map_err(Usage)?);
    }
    match args.net6 {
        Net6::Off => {}
        Net6::Of(network) => all.push(Network::of(network).map_err(Usage)?),
        Net6::Ula => {
            let mut random = [0; 5];
            getrandom::fill(&mut random).context("the system gives no random numbers")?;
            all.push(Network::unique_local(random));
        }
    }
    Ok(all)
}

/// The proxy, and its address, which the gateway's process cannot look up.
fn via(args: &Args) -> Result<Option<(String, SocketAddr)>> {
    let Some(text) = args.via.as_ref().filter(|text| *text != DIRECT) else { return Ok(None) };
    let via: Via = text.parse()?;
    let at = via.resolve().with_context(|| "the proxy of --via is not known: give its address")?;
    Ok(Some((text.clone(), at)))
}

/// The addresses that stand for the host: the given one, or the gateway's.
fn host_addresses(args: &Args, networks: &[Network]) -> Vec<IpAddr> {
    match args.host_address {
        Some(address) => vec![address],
        None => networks.iter().map(|network| network.gateway).collect(),
    }
}

/// The next hops of the default routes. Without a network that the user gave, IPv6 is routed only
/// if the host has a way out: programs that do not try a second address would wait otherwise.
fn routed(networks: &[Network], net6: Net6) -> Vec<IpAddr> {
    let is_asked_for = matches!(net6, Net6::Of(_));
    let is_routed =
        |network: &&Network| network.gateway.is_ipv4() || is_asked_for || host_has_ipv6();
    networks.iter().filter(is_routed).map(|network| network.gateway).collect()
}

/// Has the host a default route of IPv6? Lines of the kernel's table: destination, its prefix
/// length, four fields, metric, two counts, flags, interface.
fn host_has_ipv6() -> bool {
    let table = fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_default = fields.first().is_some_and(|to| to.bytes().all(|b| b == b'0'))
            && fields.get(1) == Some(&"00");
        is_default && fields.last() != Some(&"lo")
    })
}

/// The name servers behind the resolver.
fn servers(dns: &Dns, resolv_conf: &str) -> Vec<SocketAddr> {
    match dns {
        Dns::Off => Vec::new(),
        Dns::Of(servers) => servers.iter().map(|&ip| SocketAddr::new(ip, NAMES)).collect(),
        Dns::Host => {
            let lines = resolv_conf.lines().filter_map(|line| line.strip_prefix("nameserver"));
            let servers = lines.filter_map(|rest| rest.trim().parse::<IpAddr>().ok());
            servers.map(|ip| SocketAddr::new(ip, NAMES)).collect()
        }
    }
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
    // A kernel may be without IPv6.
    let has_v6 = Path::new("/proc/net/if_inet6").exists();
    let v6 = has_v6.then_some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST)].into_iter().chain(v6);
    addresses.map(move |ip| Inside { udp: false, at: SocketAddr::new(ip, port) })
}

/// What the gateway's process gets, each with what it is for.
fn open(args: &Args) -> Result<Vec<(Given, OwnedFd)>> {
    let mut given = vec![(Given::Policy, in_memory(&serde_json::to_vec(&Texts::read(args)?)?)?)];
    for publish in &args.publish {
        let sockets = publish.sockets()?.into_iter();
        given.extend(sockets.map(|(what, fd)| (Given::Published(what), fd)));
    }
    if let Some(path) = &args.capture {
        given.push((Given::Capture, private_file(path)?));
    }
    match &args.log {
        None => {}
        Some(path) if path == Path::new("-") => {
            let stderr = std::io::stderr();
            let own = rustix::io::dup(&stderr).context("no descriptor is left")?;
            given.push((Given::Log, own));
        }
        Some(path) => given.push((Given::Log, private_file(path)?)),
    }
    if let Some(http) = args.http {
        let page = Live::bind(http)?;
        output::err(&page.says());
        let (listener, token) = page.parts();
        let what = Given::Page { token: token.map(str::to_owned) };
        let listener = listener.map(|listener| listener.try_clone().map(OwnedFd::from));
        if let Some(fd) = listener.transpose().context("no descriptor is left")? {
            given.push((what, fd));
        }
    }
    match control_socket() {
        Ok((path, listener)) => given.push((Given::Control(path), listener)),
        Err(why) => output::err(&format!("warning: `wirespeed show` does not reach it: {why}")),
    }
    Ok(given)
}

fn control_socket() -> Result<(PathBuf, OwnedFd)> {
    let path = observe::socket_path(std::process::id())?;
    let listener = wirespeed::control::Server::listener(&path)?;
    Ok((path, listener))
}

/// A file in memory.
fn in_memory(contents: &[u8]) -> Result<OwnedFd> {
    let made = rustix::fs::memfd_create("settings", rustix::fs::MemfdFlags::CLOEXEC);
    let mut file = File::from(made.context("no file in memory can be made")?);
    file.write_all(contents).and_then(|()| file.rewind()).context("no memory is left")?;
    Ok(file.into())
}

/// A new file that only its owner can read: captures and logs have secrets.
fn private_file(path: &Path) -> Result<OwnedFd> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let opened: std::io::Result<File> = options.open(path);
    Ok(opened.with_context(|| format!("cannot write {}", path.display()))?.into())
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
        let of_host = servers(&Dns::Host, host);
        assert_eq!(of_host, ["192.0.2.1:53".parse().expect("an address")]);
    }
}
