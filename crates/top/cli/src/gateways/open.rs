//! From the options to what a gateway gets: its networks, its name servers, and the sockets and
//! files that it uses.
//!
//! Called by: the tools with a gateway. A gateway that has given up its privileges can open no file
//! and listen at no port, so all of that is opened before, as the user.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use live::Live;
use machine::parts::{
    DefaultAction, Dialect, Given, Learn, Publish, Settings, Texts, Tool, asking_name, follow,
    in_memory, name_server,
};
use machine::{Dns, Net6, Network};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use wirespeed::control::Server;

use super::options::Options;
use super::via;
use crate::output::{err, what_to_do};

/// The settings of a tool's gateway with this many links, whose sockets and files are `given`.
///
/// # Errors
/// A network is too small; the system gives no random numbers.
pub(crate) fn settings(
    tool: Tool,
    options: &Options,
    given: Vec<Given>,
    links: usize,
) -> Result<Settings> {
    let networks = networks(options, links)?;
    let found = via::find(options.via.as_deref())?;
    let beyond = beyond(options, &found);
    let host_addresses = host_addresses(options, &networks);
    let learn = Learn {
        mtu: u16::try_from(options.mtu().bytes()).unwrap_or(u16::MAX),
        routes_v6: found.routes_v6 || options.net6.is_given(),
        ..Learn::default()
    };
    let common = Settings::new(tool, networks, &options.dns, learn);
    Ok(Settings {
        link: options.link.clone(),
        via: found.proxy,
        tunnel: found.tunnel,
        asks_through: beyond.is_some(),
        host_addresses,
        is_shared: options.fixed.is_shared,
        own_address: options.fixed.own_address.clone(),
        publish: options.fixed.publish.clone(),
        servers: beyond.unwrap_or(common.servers),
        given,
        ..common
    })
}

/// The networks of this many links.
///
/// # Errors
/// A network is too small; the system gives no random numbers.
pub(crate) fn networks(options: &Options, links: usize) -> Result<Vec<Network>> {
    if !options.fixed.networks.is_empty() {
        return Ok(options.fixed.networks.clone());
    }
    Network::of_links(options.net4, options.net6, links)
}

/// The addresses that stand for the host: the given one, or the gateway's.
fn host_addresses(options: &Options, networks: &[Network]) -> Vec<IpAddr> {
    match (&options.fixed.host_addresses, options.host_address) {
        (Some(addresses), _) => addresses.clone(),
        (None, Some(address)) => vec![address],
        (None, None) => networks.iter().map(|network| network.gateway).collect(),
    }
}

/// The next hops of the default routes. Without a network that the user gave, IPv6 is routed only
/// if the host has a way out: programs that do not try a second address would wait otherwise.
pub(crate) fn routed(networks: &[Network], net6: Net6) -> Vec<IpAddr> {
    let is_asked_for = net6.is_given();
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

/// The name servers that are asked by the way of `--via`: those that the user named, or else those
/// that a tunnel's file has. The host's own servers are asked by the host.
fn beyond(options: &Options, found: &via::Found) -> Option<Vec<SocketAddr>> {
    let has_egress = found.tunnel.is_some() || found.proxy.is_some();
    let servers = match &options.dns {
        Dns::Of(servers) if has_egress => servers,
        Dns::Host if !found.servers.is_empty() => &found.servers,
        Dns::Off | Dns::Host | Dns::Of(_) => return None,
    };
    Some(servers.iter().copied().map(name_server).collect())
}

/// The sockets and files of a gateway, each with what it is for. Others find it by the number of
/// process `pid`.
///
/// # Errors
/// One of them cannot be made, or the rules have mistakes.
pub(crate) fn open(options: &Options, pid: u32) -> Result<Vec<(Given, OwnedFd)>> {
    let default = options.default.or(options.ask.then_some(DefaultAction::Ask));
    let texts = Texts::new(&options.allow, &options.deny, default);
    let texts = texts.read(options.policy.as_deref())?;
    let of_rules = texts.known_rules()?.publish;
    let mut given = vec![(Given::Policy, in_memory(&serde_json::to_vec(&texts)?)?)];
    let of_rules: Vec<Publish> = of_rules.iter().map(Publish::from).collect();
    for publish in options.publish.iter().chain(&of_rules) {
        let sockets = publish.sockets()?.into_iter();
        given.extend(sockets.map(|(what, fd)| (Given::Published(what), fd)));
    }
    if let Some(path) = &options.capture {
        given.push((Given::Capture, private_file(path)?));
    }
    match &options.log {
        None => {}
        Some(path) if path == Path::new("-") => {
            let stderr = io::stderr();
            let own = rustix::io::dup(&stderr).context("no descriptor is left")?;
            given.push((Given::Log, own));
        }
        Some(path) => given.extend(log(path)?),
    }
    if let Some(http) = options.http {
        let page = Live::bind(http)?;
        err(&page.says());
        let (listener, token) = page.parts();
        let what = Given::Page { token: token.map(str::to_owned) };
        let listener = listener.map(|listener| listener.try_clone().map(OwnedFd::from));
        if let Some(fd) = listener.transpose().context("no descriptor is left")? {
            given.push((what, fd));
        }
    }
    if let Some(path) = &options.orders {
        given.push((Given::Orders(Dialect::Lines), listener(path)?));
    }
    if options.dns == Dns::Host {
        given.push((Given::Servers, follow()?.news));
    }
    match asking_socket(pid) {
        Ok(listener) => given.push((Given::Asking, listener)),
        // Another PID namespace of this network may have a process of the same number.
        Err(why) if options.is_fenced() => {
            err(&format!("warning: `wirespeed policy ask` does not reach it: {why:#}"));
        }
        Err(_) => {}
    }
    match control_socket(pid) {
        Ok((path, listener)) => given.push((Given::Control(path), listener)),
        Err(why) => err(&format!("warning: `wirespeed show` does not reach it: {why}")),
    }
    Ok(given)
}

/// The file of the log, and the one for its older lines: a pipe or a device has none.
fn log(path: &Path) -> Result<Vec<(Given, OwnedFd)>> {
    if path.metadata().is_ok_and(|of| !of.is_file()) {
        return Ok(vec![(Given::Log, private_file(path)?)]);
    }
    // Its lines are read when they go to the other file.
    let newest = private(OpenOptions::new().read(true), path)?;
    Ok(vec![(Given::Log, newest), (Given::OlderLog, private_file(&older_log(path))?)])
}

/// The file for the older lines of a log.
fn older_log(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// Remove the file for the older lines of the log at the end, if there are none.
pub(crate) fn remove_empty_log(options: &Options) {
    if let Some(older) = options.log.as_deref().map(older_log)
        && older.metadata().is_ok_and(|of| of.is_file() && of.len() == 0)
    {
        let _ = fs::remove_file(older);
    }
}

/// The socket at which the gateway asks people. It has no file, so none is left behind.
fn asking_socket(pid: u32) -> Result<OwnedFd> {
    let name = asking_name(pid);
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    let listener = UnixListener::bind_addr(&address).context("questions cannot be asked")?;
    Ok(listener.into())
}

fn control_socket(pid: u32) -> Result<(PathBuf, OwnedFd)> {
    let path = observe::socket_path(pid)?;
    let listener = Server::listener(&path)?;
    Ok((path, listener))
}

/// Remove the file of the control socket at the end: the gateway, which has no files, cannot.
pub(crate) fn remove_control_socket() {
    if let Ok(path) = observe::socket_path(std::process::id()) {
        // It is not there if it could not be made.
        let _ = fs::remove_file(path);
    }
}

/// A socket at a path, in the place of one that nobody listens at.
///
/// # Errors
/// The socket cannot be made.
pub(crate) fn listener(path: &Path) -> Result<OwnedFd> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        let _ = fs::remove_file(path);
    }
    let made = UnixListener::bind(path);
    Ok(made.with_context(|| format!("cannot listen at {}", path.display()))?.into())
}

/// A copy of a descriptor that this process inherited, by its number.
///
/// # Errors
/// It is not open.
pub(crate) fn inherited(number: i32) -> io::Result<OwnedFd> {
    // Opening it again would make another pipe's end of a socket fail; a copy is always possible.
    let own = Pid::from_raw(std::process::id() as i32).ok_or(io::ErrorKind::NotFound)?;
    let copy = pidfd_open(own, PidfdFlags::empty())
        .and_then(|own| pidfd_getfd(own, number, PidfdGetfdFlags::empty()));
    // Containers may forbid pidfd_getfd(2).
    copy.map_err(io::Error::from).or_else(|_| {
        let path = format!("/proc/self/fd/{number}");
        File::options().read(true).write(true).open(path).map(OwnedFd::from)
    })
}

/// A new file that only its owner can read: captures and logs have secrets.
pub(super) fn private_file(path: &Path) -> Result<OwnedFd> {
    private(&mut OpenOptions::new(), path)
}

fn private(how: &mut OpenOptions, path: &Path) -> Result<OwnedFd> {
    how.write(true).create(true).truncate(true).mode(0o600);
    let opened: io::Result<File> = how.open(path);
    Ok(opened.map_err(|why| cannot_write(path, &why))?.into())
}

/// The error for a file that cannot be written, with what to do.
pub(super) fn cannot_write(path: &Path, why: &io::Error) -> anyhow::Error {
    anyhow!("cannot write {}: {why}{}", path.display(), what_to_do(why))
}
