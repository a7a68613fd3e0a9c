//! The options that all tools with a gateway have.
//!
//! Called by: clap, as part of a tool's own options; `open.rs`, which acts on them.

use std::net::IpAddr;
use std::ops::Deref;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use live::Http;
use machine::parts::{DefaultAction, MTU_MAX, NET4, Publish, check_link};
use machine::{Dns, Net4, Net6, Network};
use wirespeed::Mtu;

use super::via;
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
    /// What is beyond, and who watches.
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
    #[arg(long, value_name = "allow|deny|ask", value_parser = default_action())]
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
          value_parser = via::check)]
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

fn mtu(text: &str) -> Result<Mtu, String> {
    let mtu = text.parse().ok().and_then(Mtu::new).filter(|&mtu| mtu <= MTU_MAX);
    mtu.ok_or_else(|| format!("'{text}' is no MTU: write 576 to 65520, such as 1500"))
}

fn checked_link(text: &str) -> Result<String, String> {
    check_link(text).map(|()| text.to_owned())
}

/// An action, as one of the words that clap lists and completes.
fn default_action() -> impl TypedValueParser<Value = DefaultAction> {
    let words = [
        PossibleValue::new("allow").help("They begin"),
        PossibleValue::new("deny").help("They are refused"),
        PossibleValue::new("ask").help("Somebody is asked"),
    ];
    PossibleValuesParser::new(words).try_map(|word| word.parse::<DefaultAction>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_fits_frames() {
        assert!(mtu("65535").is_err() && mtu("1500").is_ok());
    }
}
