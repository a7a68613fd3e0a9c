//! The options that all tools with a gateway have.
//!
//! Called by: clap, as part of a tool's own options; `open.rs` and `rules.rs`, which act on them.

use std::net::IpAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::str::FromStr;

use live::Http;
use serde::{Deserialize, Serialize};
use wirespeed::{Cidr, Mtu};

use super::egress;
use super::link;
use super::networks::Network;
use super::publish::Publish;
use crate::Usage;

/// The options. The guest is a program or a virtual machine.
#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// A bad network in front of the gateway; see below
    #[arg(long, value_name = "SPEC", value_parser = checked_link)]
    pub(crate) link: Option<String>,
    /// Publish a port: connections to the host's port H lead to port G behind the gateway
    #[arg(short = 'p', long = "publish", value_name = "[ADDR[%IF]/]H[-H2][:G[-G2]][/udp]")]
    pub(crate) publish: Vec<Publish>,
    /// Take orders of `wirespeed pesto`, which adds and closes published ports, at a Unix socket
    #[arg(long, value_name = "SOCKET")]
    pub(crate) orders: Option<PathBuf>,
    /// An address that stands for the host, if it may be reached (--allow host) [default: the
    /// gateway's, 10.0.2.2]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) host_address: Option<IpAddr>,
    /// The private IPv4 network: the gateway is .2, the resolver .3, the first guest .100
    #[arg(long, value_name = "NETWORK|off", default_value = NET4)]
    pub(crate) net4: Net4,
    /// The IPv6 network: a random one, a given one, or off
    #[arg(long, value_name = "ula|NETWORK|off", default_value = "ula")]
    pub(crate) net6: Net6,
    /// The MTU of the private network [default: 65520, with --link 1500]
    #[arg(long, value_name = "BYTES", value_parser = mtu)]
    mtu: Option<Mtu>,
    /// Write every packet of the private network to a pcapng file
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) outer: Outer,
    /// What drop-ins say in other words.
    #[arg(skip)]
    pub(crate) fixed: Fixed,
}

/// The options about what is beyond a gateway, and who watches: a proxy has them, too. The tools
/// read them as fields of [`Options`].
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Outer {
    /// Rules that say what may be reached, by name, address and port; see docs/gateway.md
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Let this be reached, before all rules of the file; without a file nothing else
    #[arg(long, value_name = "NAME|ADDRESS|NETWORK|GROUP[:PORTS]")]
    pub(crate) allow: Vec<String>,
    /// Do not let this be reached
    #[arg(long, value_name = "NAME|ADDRESS|NETWORK|GROUP[:PORTS]")]
    pub(crate) deny: Vec<String>,
    /// What happens with flows that no rule matches
    #[arg(long, value_name = "allow|deny|ask")]
    pub(crate) default: Option<DefaultAction>,
    /// Ask about flows that no rule matches: their connections wait for `wirespeed policy ask`
    #[arg(long, conflicts_with = "default")]
    pub(crate) ask: bool,
    /// Write the rules that this run needed to a file, when it has ended
    #[arg(long, value_name = "FILE")]
    pub(crate) learn: Option<PathBuf>,
    /// The name servers that names are asked of: the host's, or these addresses; off: none
    #[arg(long, value_name = "host|ADDRESS,..|off", default_value = "host")]
    pub(crate) dns: Dns,
    /// The way out: a proxy, which carries TCP only; a WireGuard tunnel, by its configuration of
    /// wg-quick; direct: the host's own
    #[arg(long, value_name = "socks5|http://[USER:PASSWORD@]HOST:PORT|wg:FILE|direct",
          value_parser = egress::check)]
    pub(crate) via: Option<String>,
    /// Write a line of JSON for every flow that ended or was refused, to a file or to - (stderr)
    #[arg(long, value_name = "FILE|-")]
    pub(crate) log: Option<PathBuf>,
    /// Serve a page that shows what happens, at an address of this machine
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = Http::parse)]
    pub(crate) http: Option<Http>,
}

/// What no option of ours says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fixed {
    /// The addresses of each version, in the place of networks.
    pub(crate) networks: Vec<Network>,
    /// Other addresses of these networks are hosts beyond the gateway, too.
    pub(crate) is_shared: bool,
    /// Addresses that stand for the host's loopback address; none is a choice, too.
    pub(crate) host_addresses: Option<Vec<IpAddr>>,
    /// Addresses that stand for the host's address towards others.
    pub(crate) own_address: Vec<IpAddr>,
    /// Published ports that the gateway's process opens.
    pub(crate) publish: Vec<String>,
    /// The name of the interface.
    pub(crate) interface: Option<String>,
}

impl Outer {
    /// Are there rules?
    pub(crate) fn is_fenced(&self) -> bool {
        self.policy.is_some()
            || !self.allow.is_empty()
            || !self.deny.is_empty()
            || self.default.is_some()
            || self.ask
    }

    /// Check that the options fit together.
    ///
    /// # Errors
    /// [`Usage`]: what does not, and what to do.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        match self.http {
            Some(Http::Stack(port)) => Err(Usage(format!(
                "the page is for this machine: give --http 127.0.0.1:{port} instead of stack:"
            ))),
            _ => Ok(()),
        }
    }
}

impl Deref for Options {
    type Target = Outer;

    fn deref(&self) -> &Outer {
        &self.outer
    }
}

impl Options {
    /// The options of a gateway whose private network is the usual one.
    ///
    /// # Errors
    /// None: the usual network is one.
    pub(crate) fn with_network(outer: Outer) -> Result<Options, String> {
        let net4 = NET4.parse()?;
        Ok(Options { net4, net6: Net6::Ula, ..Options::without_network(&outer) })
    }

    /// The options of a gateway without a private network: a proxy's.
    pub(crate) fn without_network(outer: &Outer) -> Options {
        Options {
            link: None,
            publish: Vec::new(),
            orders: None,
            host_address: None,
            net4: Net4::Off,
            net6: Net6::Off,
            mtu: None,
            capture: None,
            outer: outer.clone(),
            fixed: Fixed::default(),
        }
    }

    /// Check that the options fit together.
    ///
    /// # Errors
    /// [`Usage`]: what does not, and what to do.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        if self.net4 == Net4::Off && self.net6 == Net6::Off {
            return Err(Usage("--net4 off and --net6 off leave no network: drop one".to_owned()));
        }
        if self.net6 != Net6::Off && self.mtu().bytes() < Mtu::MIN_V6.bytes() {
            return Err(Usage(format!(
                "IPv6 needs an MTU of {}: raise --mtu, or give --net6 off",
                Mtu::MIN_V6.bytes()
            )));
        }
        self.outer.check()
    }

    /// The MTU of the program's interface. Long packets cost least, but a link has packets as they
    /// are on the wire.
    pub(crate) fn mtu(&self) -> Mtu {
        self.mtu.unwrap_or(if self.link.is_some() { Mtu::ETHERNET } else { MTU_MAX })
    }
}

/// What happens with flows that no rule matches.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DefaultAction {
    /// They begin.
    Allow,
    /// They are refused.
    Deny,
    /// Somebody is asked.
    Ask,
}

/// The usual private network.
const NET4: &str = "10.0.2.0/24";

/// The most that both a frame and a segment without link header can have.
const MTU_MAX: Mtu = Mtu::new(65_520).unwrap();

/// The IPv4 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Net4 {
    Off,
    Of(Cidr),
}

impl FromStr for Net4 {
    type Err = String;

    fn from_str(text: &str) -> Result<Net4, String> {
        match text {
            "off" => Ok(Net4::Off),
            _ => match network(text)? {
                network if network.addr.is_ipv4() => Ok(Net4::Of(network)),
                _ => Err("expected an IPv4 network: --net6 is for the other version".to_owned()),
            },
        }
    }
}

/// The IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Net6 {
    Off,
    /// A random unique local one.
    Ula,
    Of(Cidr),
}

impl FromStr for Net6 {
    type Err = String;

    fn from_str(text: &str) -> Result<Net6, String> {
        match text {
            "off" => Ok(Net6::Off),
            "ula" => Ok(Net6::Ula),
            _ => match network(text)? {
                network if network.addr.is_ipv6() => Ok(Net6::Of(network)),
                _ => Err("expected an IPv6 network: --net4 is for the other version".to_owned()),
            },
        }
    }
}

fn network(text: &str) -> Result<Cidr, String> {
    text.parse().map_err(|_| format!("'{text}' is no network: write 10.0.2.0/24 or fd12::/64"))
}

/// The name servers behind the resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dns {
    Off,
    /// Those of /etc/resolv.conf.
    Host,
    Of(Vec<IpAddr>),
}

impl FromStr for Dns {
    type Err = String;

    fn from_str(text: &str) -> Result<Dns, String> {
        let one = |text: &str| {
            text.parse().map_err(|_| format!("'{text}' is no address: write host, 9.9.9.9 or off"))
        };
        match text {
            "off" => Ok(Dns::Off),
            "host" => Ok(Dns::Host),
            _ => Ok(Dns::Of(text.split(',').map(one).collect::<Result<_, _>>()?)),
        }
    }
}

fn mtu(text: &str) -> Result<Mtu, String> {
    let mtu = text.parse().ok().and_then(Mtu::new).filter(|&mtu| mtu <= MTU_MAX);
    mtu.ok_or_else(|| format!("'{text}' is no MTU: write 576 to 65520, such as 1500"))
}

fn checked_link(text: &str) -> Result<String, String> {
    link::parse(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_say_what_to_write() {
        assert_eq!("off".parse(), Ok(Net4::Off));
        assert!("fd00::/64".parse::<Net4>().is_err_and(|why| why.contains("--net6")));
        assert!("10.0.0.0/8".parse::<Net6>().is_err_and(|why| why.contains("--net4")));
        assert!("10.0.0.0".parse::<Net4>().is_err_and(|why| why.contains("10.0.2.0/24")));
        let two = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().expect("an address"));
        assert_eq!("192.0.2.1,2001:db8::1".parse(), Ok(Dns::Of(two.to_vec())));
        assert!("hosts".parse::<Dns>().is_err_and(|why| why.contains("9.9.9.9")));
        assert!(mtu("65535").is_err() && mtu("1500").is_ok());
    }
}
