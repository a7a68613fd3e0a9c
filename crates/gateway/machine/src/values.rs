//! Values of a gateway's options that a program gives, too: networks, name servers, what happens
//! without a rule; and the error for invalid ones.
//!
//! Called by: `config.rs`; tools, whose options they are.

use core::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use base::{Cidr, Mtu};
use serde::{Deserialize, Serialize};

use super::servers::{self, name_server};

/// An invalid option: what is wrong and what to do instead.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// What happens with flows that no rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DefaultAction {
    /// They begin.
    Allow,
    /// They are refused.
    Deny,
    /// Somebody is asked.
    Ask,
}

impl FromStr for DefaultAction {
    type Err = String;

    fn from_str(text: &str) -> Result<DefaultAction, String> {
        match text {
            "allow" => Ok(DefaultAction::Allow),
            "deny" => Ok(DefaultAction::Deny),
            "ask" => Ok(DefaultAction::Ask),
            _ => Err(format!("'{text}' is no action: write allow, deny or ask")),
        }
    }
}

/// The usual private network.
pub const NET4: &str = "10.0.2.0/24";

/// The most that both a frame and a segment without link header can have.
pub const MTU_MAX: Mtu = Mtu::new(65_520).expect("a frame has room for more");

/// The IPv4 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net4 {
    /// There is none.
    Off,
    /// This one.
    Of(Cidr),
}

impl Default for Net4 {
    fn default() -> Net4 {
        let addr = Ipv4Addr::new(10, 0, 2, 0).into();
        Net4::Of(Cidr { addr, prefix_len: 24 })
    }
}

impl FromStr for Net4 {
    type Err = String;

    fn from_str(text: &str) -> Result<Net4, String> {
        match text {
            "off" => Ok(Net4::Off),
            _ => match network(text)? {
                network if network.addr.is_ipv4() => Ok(Net4::Of(network)),
                _ => Err("expected an IPv4 network: net6 is for the other version".to_owned()),
            },
        }
    }
}

/// The IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net6 {
    /// There is none.
    Off,
    /// A random unique local one.
    Ula,
    /// This one.
    Of(Cidr),
}

impl Net6 {
    /// Did the user give one? It is routed, whatever the host does.
    pub fn is_given(self) -> bool {
        matches!(self, Net6::Of(_))
    }
}

impl FromStr for Net6 {
    type Err = String;

    fn from_str(text: &str) -> Result<Net6, String> {
        match text {
            "off" => Ok(Net6::Off),
            "ula" => Ok(Net6::Ula),
            _ => match network(text)? {
                network if network.addr.is_ipv6() => Ok(Net6::Of(network)),
                _ => Err("expected an IPv6 network: net4 is for the other version".to_owned()),
            },
        }
    }
}

fn network(text: &str) -> Result<Cidr, String> {
    text.parse().map_err(|_| format!("'{text}' is no network: write 10.0.2.0/24 or fd12::/64"))
}

/// The name servers behind the resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dns {
    /// There are none, and no resolver.
    Off,
    /// Those of /etc/resolv.conf.
    Host,
    /// These.
    Of(Vec<IpAddr>),
}

impl Dns {
    /// The name servers behind the resolver.
    pub(super) fn servers(&self) -> Vec<SocketAddr> {
        match self {
            Dns::Off => Vec::new(),
            Dns::Of(all) => all.iter().copied().map(name_server).collect(),
            Dns::Host => servers::of_host(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_say_what_to_write() {
        assert_eq!("off".parse(), Ok(Net4::Off));
        assert_eq!(NET4.parse(), Ok(Net4::default()));
        assert!("fd00::/64".parse::<Net4>().is_err_and(|why| why.contains("net6")));
        assert!("10.0.0.0/8".parse::<Net6>().is_err_and(|why| why.contains("net4")));
        assert!("10.0.0.0".parse::<Net4>().is_err_and(|why| why.contains("10.0.2.0/24")));
        let two = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().expect("an address"));
        assert_eq!("192.0.2.1,2001:db8::1".parse(), Ok(Dns::Of(two.to_vec())));
        assert_eq!("ask".parse(), Ok(DefaultAction::Ask));
        assert!("drop".parse::<DefaultAction>().is_err_and(|why| why.contains("allow")));
        assert!("hosts".parse::<Dns>().is_err_and(|why| why.contains("9.9.9.9")));
    }
}
