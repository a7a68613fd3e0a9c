//! Names of hosts on the command line: the option `--dns ADDR`, the system's resolv.conf and hosts
//! files, and the lookup over the stack's own sockets.
//!
//! Called by: `ping`, `telnet`, `nfs`, and `ttcp` to hosts, once their device is open.

use core::net::{IpAddr, SocketAddr};
use core::task::Poll;
use std::io::Read;

use anyhow::{Result, anyhow, bail};
use wirespeed::IpVersion;
use wirespeed::net::dns::{
    Config, Families, Hosts, LookupError, PORT, Resolver, StackLookup, limits,
};

use crate::Usage;
use crate::clock::Interrupt;
use crate::network::{self, Network};

const RESOLV_CONF: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";
/// Bytes read of these files.
const FILE_MAX: u64 = 1 << 20;
/// Sets the resolver's secret apart from what else the stack's seed determines.
const PURPOSE: u64 = 53;

/// The options that say whom to ask for names.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "names", multiple = true)]
#[command(next_help_heading = network::HEADING)]
pub(crate) struct Args {
    /// Name server to ask, repeatable [default: those of the network, or of resolv.conf]
    ///
    /// The stack itself asks, over --dev: servers that --addr dhcp or auto has found, else those of
    /// /etc/resolv.conf. Names of /etc/hosts are known without asking.
    #[arg(long, value_name = "ADDR", requires = "dev", value_parser = server)]
    pub(crate) dns: Vec<SocketAddr>,
}

fn server(text: &str) -> Result<SocketAddr, &'static str> {
    let plain = |_| text.parse::<IpAddr>().map(|address| SocketAddr::new(address, PORT));
    text.parse::<SocketAddr>().or_else(plain).map_err(|_| "expected an address, as 192.0.2.53")
}

impl Args {
    /// The settings of the resolver: the servers of the options, else those that the network
    /// advertised, else those of resolv.conf that the stack can reach.
    ///
    /// # Errors
    /// [`Usage`]: too many servers.
    fn config(&self, advertised: Advertised, resolv_conf: &str) -> Result<Config> {
        let (mut config, _) = Config::from_resolv_conf(resolv_conf);
        if self.dns.len() > limits::SERVERS_MAX {
            let (count, most) = (self.dns.len(), limits::SERVERS_MAX);
            bail!(Usage(format!("--dns is given {count} times, {most} is the most")));
        }
        if !advertised.servers.is_empty() {
            config.servers = advertised.servers;
            config.search = advertised.search;
        }
        if !self.dns.is_empty() {
            config.servers.clone_from(&self.dns);
        }
        config.servers.retain(|server| !server.ip().is_loopback());
        config.servers.truncate(limits::SERVERS_MAX);
        Ok(config)
    }
}

/// What a DHCP server or routers advertised.
struct Advertised {
    servers: Vec<SocketAddr>,
    search: Vec<String>,
}

/// The text of a file of the system; a file that cannot be read is as good as an empty one.
fn text(path: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        let _ = file.take(FILE_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The address of a host, given as a name or an address: of the version of IP asked for,
/// preferably one that we have an address of. `None` after Ctrl-C.
///
/// # Errors
/// [`Usage`] without a server to ask; [`LookupError`], with the option that may help.
pub(crate) fn resolve(
    network: &mut Network,
    args: (&network::Args, &Args),
    host: &str,
    version: Option<IpVersion>,
    interrupt: &Interrupt,
) -> Result<Option<IpAddr>> {
    let addresses = if let Some(address) = args.0.address(host)? {
        vec![address]
    } else {
        let (hosts, _) = Hosts::from_text(&text(HOSTS));
        let advertised =
            Advertised { servers: network.dns_servers(PORT), search: network.dns_search() };
        let config = args.1.config(advertised, &text(RESOLV_CONF))?;
        match look_up(network, config, hosts, host, interrupt)? {
            None => return Ok(None),
            Some(Ok(addresses)) => addresses,
            Some(Err(error)) => return Err(helped(error, args.1)),
        }
    };
    let of = |address: &&IpAddr| version.is_none_or(|v| IpVersion::of(address) == v);
    let wanted: Vec<IpAddr> = addresses.iter().filter(of).copied().collect();
    let own = network.addresses();
    let ours = |address: &&IpAddr| own.iter().any(|ip| ip.is_ipv4() == address.is_ipv4());
    let Some(&address) = wanted.iter().find(ours).or(wanted.first()) else {
        let version = if version == Some(IpVersion::V4) { "IPv4 (-4)" } else { "IPv6 (-6)" };
        bail!(
            "'{}' has no address of {version}: ask without that option",
            wirespeed::control::text::plain(host)
        );
    };
    args.0.check_host(address)?;
    network.check_host(address)?;
    Ok(Some(address))
}

/// Ask over the stack until there is an outcome; `None` after Ctrl-C.
fn look_up(
    network: &mut Network,
    config: Config,
    hosts: Hosts,
    host: &str,
    interrupt: &Interrupt,
) -> Result<Option<Result<Vec<IpAddr>, LookupError>>> {
    let mut resolver = Resolver::new(config, hosts, network.stack.derived_secret(PURPOSE));
    let lookup = resolver.lookup(host, Families::Both, network.clock.now());
    let mut lookup = StackLookup::new(lookup);
    loop {
        network.turn();
        // No other socket is open yet.
        while network.stack.next_event().is_some() {}
        let now = network.clock.now();
        if let Poll::Ready(outcome) = lookup.poll(&mut network.stack, &mut resolver, now) {
            return Ok(Some(outcome));
        }
        if interrupt.noted() {
            lookup.close(&mut network.stack);
            return Ok(None);
        }
        network.rest(lookup.deadline(), [interrupt.descriptor()])?;
    }
}

/// The error, with the option that may help.
fn helped(error: LookupError, args: &Args) -> anyhow::Error {
    match error {
        LookupError::Name(..) => anyhow!(Usage(error.to_string())),
        LookupError::NoServers(_) => anyhow!(Usage(format!(
            "{error}: give one by --dns ADDR (those of {RESOLV_CONF} are used if they are not this \
             machine's own)"
        ))),
        LookupError::TimedOut(_) | LookupError::Failed(_) if args.dns.is_empty() => anyhow!(
            "{error}. The servers are those of the network or of {RESOLV_CONF}; --dns ADDR asks \
             another"
        ),
        error => anyhow!(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_address_with_or_without_a_port() {
        assert_eq!(server("192.0.2.53"), Ok("192.0.2.53:53".parse().expect("an address")));
        assert_eq!(server("2001:db8::53"), Ok("[2001:db8::53]:53".parse().expect("an address")));
        assert_eq!(server("192.0.2.53:5353"), Ok("192.0.2.53:5353".parse().expect("an address")));
        assert!(server("dns.example").is_err());
    }

    #[test]
    fn servers_are_those_of_the_option_or_of_the_network_or_of_the_file() {
        let server = |last: u8| SocketAddr::new(IpAddr::from([192, 0, 2, last]), 53);
        let args = |dns: &[SocketAddr]| Args { dns: dns.to_vec() };
        let advertised = |servers: &[SocketAddr]| Advertised {
            servers: servers.to_vec(),
            search: servers.iter().map(|_| "mill.example".to_owned()).collect(),
        };
        let file = "nameserver 127.0.0.53\nnameserver 192.0.2.1\nsearch example\n";
        let config = args(&[]).config(advertised(&[]), file).expect("one is left");
        assert_eq!((config.servers, config.search), (vec![server(1)], vec!["example".to_owned()]));
        let config = args(&[]).config(advertised(&[server(3)]), file).expect("one");
        assert_eq!(config.servers, [server(3)]);
        assert_eq!(config.search, ["mill.example"]);
        let config = args(&[server(2)]).config(advertised(&[server(3)]), file).expect("one");
        assert_eq!(config.servers, [server(2)]);
        assert_eq!(config.search, ["mill.example"], "the network's");
        let config = args(&[]).config(advertised(&[]), "nameserver 127.0.0.53\n").expect("none");
        assert!(config.servers.is_empty(), "the kernel alone reaches it");
        let many = args(&[server(1); 4]).config(advertised(&[]), "");
        assert!(many.is_err_and(|error| error.is::<Usage>()));
        let many = args(&[]).config(advertised(&[server(1); 4]), "").expect("the first");
        assert_eq!(many.servers.len(), limits::SERVERS_MAX);
    }
}
