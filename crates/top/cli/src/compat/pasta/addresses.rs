//! The addresses of pasta's options, as networks of a gateway.
//!
//! Called by: `pasta.rs`. Nothing of the host's interfaces is copied: what no option says is as for
//! netns.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, bail};
use machine::{Net4, Net6, Network};
use wirespeed::Cidr;

use super::args::Args;
use crate::gateways::{Options, open};

/// Set the networks, and which addresses stand for the host.
///
/// # Errors
/// Addresses do not fit together.
pub(in crate::compat) fn set(args: &Args, options: &mut Options) -> Result<()> {
    if !args.versions.v4 {
        options.net4 = Net4::Off;
    }
    if !args.versions.v6 {
        options.net6 = Net6::Off;
    }
    let mut networks = open::networks(options, 1)?;
    for network in &mut networks {
        let is_v4 = network.program.is_ipv4();
        let is_one = |ip: &IpAddr| ip.is_ipv4() == is_v4;
        let own = args.addresses.iter().find(|(ip, _)| is_one(ip));
        let gateway = args.gateways.iter().copied().find(is_one);
        if let Some(&(address, len)) = own {
            let given = if address.is_ipv4() { args.prefix_len } else { None };
            let len = given.or(len).unwrap_or_else(|| usual(address));
            *network = around(address, len)?;
        }
        if let Some(gateway) = gateway {
            network.gateway = gateway;
        }
        if let Some(names) = args.dns_forward.iter().copied().find(is_one) {
            network.names = names;
        }
        if network.gateway == network.program || network.names == network.program {
            bail!("{} cannot be the gateway or the resolver, too", network.program);
        }
    }
    let is_wide = !args.addresses.is_empty();
    options.fixed.is_shared = is_wide;
    let gateways = || networks.iter().map(|network| network.gateway).collect();
    let loopback: Vec<IpAddr> = args.loopback.clone().unwrap_or_else(gateways);
    if !loopback.is_empty() && options.policy.is_none() && !options.is_fenced() {
        // Without a rule the host's loopback address is not reached.
        options.outer.allow.push("host".to_owned());
        options.outer.default = Some(machine::parts::DefaultAction::Allow);
    }
    options.fixed.host_addresses = Some(loopback);
    options.fixed.own_address.clone_from(&args.own_address);
    options.fixed.networks = networks;
    Ok(())
}

/// The network around an address: the gateway is its second host and the resolver its third one, or
/// the fourth in the place of the address itself.
fn around(program: IpAddr, prefix_len: u8) -> Result<Network> {
    let most = if program.is_ipv4() { 30 } else { 126 };
    if prefix_len > most {
        bail!(
            "a network of prefix length {prefix_len} has no room for a gateway: give one of up to \
             {most}"
        );
    }
    let base = Cidr { addr: program, prefix_len }.network().addr;
    let host = |number: u8| -> IpAddr {
        match base {
            IpAddr::V4(base) => Ipv4Addr::from_bits(base.to_bits() | u32::from(number)).into(),
            IpAddr::V6(base) => {
                std::net::Ipv6Addr::from_bits(base.to_bits() | u128::from(number)).into()
            }
        }
    };
    let mut free = (1..=3).rev().map(host).filter(|&ip| ip != program);
    let (Some(names), Some(gateway)) = (free.next(), free.next()) else {
        bail!("{program} leaves no room for a gateway: give --gateway");
    };
    Ok(Network { program, gateway, names, prefix_len, link: 0 })
}

/// The prefix length of an address without one: that of its class for IPv4, as pasta has it.
fn usual(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(v4) => match v4.octets()[0] {
            ..128 => 8,
            128..192 => 16,
            _ => 24,
        },
        IpAddr::V6(_) => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn gateway_and_resolver_are_beside_the_address() {
        let found = around(ip("10.0.2.100"), 24).expect("room");
        assert_eq!((found.gateway, found.names), (ip("10.0.2.2"), ip("10.0.2.3")));
        let found = around(ip("10.0.2.2"), 24).expect("room");
        assert_eq!((found.gateway, found.names), (ip("10.0.2.1"), ip("10.0.2.3")));
        let found = around(ip("192.168.1.5"), usual(ip("192.168.1.5"))).expect("room");
        assert_eq!((found.gateway, found.prefix_len), (ip("192.168.1.2"), 24));
        let found = around(ip("fd00::5"), 64).expect("room");
        assert_eq!(found.gateway, ip("fd00::2"));
        assert!(around(ip("10.0.2.1"), 31).is_err());
        assert_eq!(usual(ip("10.0.2.100")), 8);
    }
}
