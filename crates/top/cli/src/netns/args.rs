//! The options of `netns`.
//!
//! Called by: clap, then `launch.rs`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use live::Http;
use outside::Via;
use wirespeed::{Cidr, Mtu};

use super::link;
use super::publish::Publish;
use crate::Usage;

/// The options.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  wirespeed netns -- curl https://www.example.org/      a network of its own: no root, no TUN
  wirespeed netns --link rtt=200ms,loss=1% -- firefox   on a bad network
  wirespeed netns --link lte -- ./load-test             or on one that people have
  wirespeed netns --allow '*.debian.org:443' -- bash    fenced: nothing else can be reached
  wirespeed netns -p 8080:80 -- nginx                   a server that the host's port 8080 leads to
  wirespeed netns --to-host 5432 -- ./program           its localhost:5432 is the host's
  wirespeed show tcp, top, dump, explain                what it does, from another terminal

--link takes dsl, 3g, lte, wifi-bad or satellite, or settings, or both, joined by commas:
  rate=10mbit,delay=50ms,jitter=5ms,loss=0.5%,burst-loss=1%:25%,late=1%:10ms,duplicate=1%,
  corrupt=1%,queue=64k,codel=ecn,mtu=1400,seed=7; rtt=100ms is a delay of 50ms each way.
  up:rate=1mbit is for what the program sends, down:loss=1% for what it receives.

The exit status is the program's, or 128 and the number of the signal that ended it; 125 if the
network cannot be made, 127 if there is no such program.")]
pub(crate) struct Args {
    /// A bad network between the program and its gateway; see below
    #[arg(long, value_name = "SPEC", value_parser = checked_link)]
    pub(super) link: Option<String>,
    /// Rules that say what the program may reach, by name, address and port; see docs/gateway.md
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Option<PathBuf>,
    /// Let the program reach this, before all rules of the file; without a file nothing else
    #[arg(long, value_name = "NAME|ADDRESS|NETWORK|GROUP[:PORTS]")]
    pub(super) allow: Vec<String>,
    /// Do not let it reach this
    #[arg(long, value_name = "NAME|ADDRESS|NETWORK|GROUP[:PORTS]")]
    pub(super) deny: Vec<String>,
    /// What happens with flows that no rule matches
    #[arg(long, value_name = "allow|deny")]
    pub(super) default: Option<DefaultAction>,
    /// Publish a port: connections to the host's port H reach the program's port G
    #[arg(short = 'p', long = "publish", value_name = "[ADDR[%IF]/]H[-H2][:G[-G2]][/udp]")]
    pub(super) publish: Vec<Publish>,
    /// The program's 127.0.0.1:PORT and [::1]:PORT lead to the host's own
    #[arg(long, value_name = "PORT")]
    pub(super) to_host: Vec<u16>,
    /// An address that stands for the host, if the program may reach it (--allow host) [default:
    /// the gateway's, 10.0.2.2]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) host_address: Option<IpAddr>,
    /// The IPv4 network of the program: it is .100, the gateway .2, the resolver .3
    #[arg(long, value_name = "NETWORK|off", default_value = "10.0.2.0/24")]
    pub(super) net4: Net4,
    /// The IPv6 network: a random one, a given one, or off
    #[arg(long, value_name = "ula|NETWORK|off", default_value = "ula")]
    pub(super) net6: Net6,
    /// The MTU of the program's interface [default: 65520, with --link 1500]
    #[arg(long, value_name = "BYTES", value_parser = mtu)]
    mtu: Option<Mtu>,
    /// The name servers that names are asked of: the host's, or these addresses; off: none
    #[arg(long, value_name = "host|ADDRESS,..|off", default_value = "host")]
    pub(super) dns: Dns,
    /// Connect through a proxy, which carries TCP only; direct: through none
    #[arg(long, value_name = "socks5|http://[USER:PASSWORD@]HOST:PORT|direct", value_parser = via)]
    pub(super) via: Option<String>,
    /// Write every packet of the program to a pcapng file
    #[arg(long, value_name = "FILE")]
    pub(super) capture: Option<PathBuf>,
    /// Write a line of JSON for every flow that ended or was refused, to a file or to - (stderr)
    #[arg(long, value_name = "FILE|-")]
    pub(super) log: Option<PathBuf>,
    /// Serve a page that shows what happens, at an address of this machine
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = Http::parse)]
    pub(super) http: Option<Http>,
    /// The program sees itself as root; it gets no rights by that
    #[arg(long)]
    pub(super) root: bool,
    /// The program sees only its own processes, and all that it leaves behind end with it; always
    /// so with rules
    #[arg(long)]
    pub(super) pid: bool,
    /// Cover a file or a folder: it is empty for the program
    #[arg(long, value_name = "PATH")]
    pub(super) hide: Vec<PathBuf>,
    /// Stay until the last process in the program's network has ended
    #[arg(long)]
    pub(super) keep: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(super) command: Vec<OsString>,
}

impl Args {
    /// Check that the options fit together.
    ///
    /// # Errors
    /// [`Usage`]: what does not, and what to do.
    pub(super) fn check(&self) -> Result<(), Usage> {
        if self.net4 == Net4::Off && self.net6 == Net6::Off {
            return Err(Usage("--net4 off and --net6 off leave no network: drop one".to_owned()));
        }
        if let Some(Http::Stack(port)) = self.http {
            return Err(Usage(format!(
                "the page is for this machine: give --http 127.0.0.1:{port} instead of stack:"
            )));
        }
        if self.net6 != Net6::Off && self.mtu().bytes() < Mtu::MIN_V6.bytes() {
            return Err(Usage(format!(
                "IPv6 needs an MTU of {}: raise --mtu, or give --net6 off",
                Mtu::MIN_V6.bytes()
            )));
        }
        Ok(())
    }

    /// Are there rules?
    pub(super) fn is_fenced(&self) -> bool {
        self.policy.is_some()
            || !self.allow.is_empty()
            || !self.deny.is_empty()
            || self.default.is_some()
    }

    /// The MTU of the program's interface. Long packets cost least, but a link has packets as they
    /// are on the wire.
    pub(super) fn mtu(&self) -> Mtu {
        self.mtu.unwrap_or(if self.link.is_some() { Mtu::ETHERNET } else { MTU_MAX })
    }
}

/// What happens with flows that no rule matches.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DefaultAction {
    /// They begin.
    Allow,
    /// They are refused.
    Deny,
}

/// `--via` for no proxy.
pub(super) const DIRECT: &str = "direct";

/// The most that both a frame and a segment without link header can have.
const MTU_MAX: Mtu = Mtu::new(65_520).unwrap();

/// The IPv4 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Net4 {
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
pub(super) enum Net6 {
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
pub(super) enum Dns {
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

fn via(text: &str) -> Result<String, String> {
    match text {
        DIRECT => Ok(text.to_owned()),
        _ => text.parse::<Via>().map(|_| text.to_owned()).map_err(|why| why.to_string()),
    }
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
