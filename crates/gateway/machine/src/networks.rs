//! The addresses of a private network: the program's, the gateway's, the resolver's.
//!
//! Called by: `config.rs` and tools; `machine.rs`, which answers for them. IPv4 as slirp has it: .2
//! is the gateway, .3 the resolver, .100 the program. Nothing of the host's interfaces is copied,
//! so the network is the same on every host, with or without a network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result};
use base::{Cidr, MacAddr};
use serde::{Deserialize, Serialize};

use super::values::{Net4, Net6, Usage};

/// The gateway's hardware address on all links. A guest's interface has another one.
pub(super) const MAC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 2]);
/// Its link-local address on all links: the source of its router advertisements.
pub(super) const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

/// The last part of each address.
const GATEWAY: u32 = 2;
const NAMES: u32 = 3;
const PROGRAM: u32 = 100;
/// The program's, in networks that have no 100th host.
const PROGRAM_OF_FEW: u32 = 4;

/// The longest prefixes: shorter networks have no room for the three.
const PREFIX_MAX: [u8; 2] = [29, 120];

/// The addresses of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// The program's.
    pub program: IpAddr,
    /// The gateway's, which stands for the host.
    pub gateway: IpAddr,
    /// The resolver's.
    pub names: IpAddr,
    /// The length of its prefix.
    pub prefix_len: u8,
    /// The number of the link on which it is.
    pub link: usize,
}

impl Network {
    /// The addresses in a network.
    ///
    /// # Errors
    /// It is too small.
    pub fn of(network: Cidr) -> Result<Network, String> {
        let Cidr { addr, prefix_len } = network.network();
        let most = PREFIX_MAX[usize::from(addr.is_ipv6())];
        if prefix_len > most {
            return Err(format!("{network} has too few addresses: give a prefix up to /{most}"));
        }
        let is_small = addr.is_ipv4() && prefix_len > 25;
        let program = if is_small { PROGRAM_OF_FEW } else { PROGRAM };
        Ok(Network {
            program: host(addr, program),
            gateway: host(addr, GATEWAY),
            names: host(addr, NAMES),
            prefix_len,
            link: 0,
        })
    }

    /// The addresses of link `number`, whose network is that many networks behind `first`.
    ///
    /// # Errors
    /// It is too small, or there is none.
    pub fn nth(first: Cidr, number: usize) -> Result<Network, String> {
        let none = || format!("there is no network of link {} behind {first}", number + 1);
        let (first, step) = (first.network(), u32::try_from(number).map_err(|_| none())?);
        let addr: Option<IpAddr> = match first.addr {
            IpAddr::V4(addr) => {
                let step = u64::from(step) << (32 - first.prefix_len.min(32));
                let sum = u32::try_from(u64::from(addr.to_bits()) + step).ok();
                sum.map(|sum| Ipv4Addr::from_bits(sum).into())
            }
            IpAddr::V6(addr) => {
                let bits = 128 - u32::from(first.prefix_len.min(128));
                let step = u128::from(step).checked_shl(bits).filter(|_| bits < 96 || number == 0);
                let sum = step.and_then(|step| addr.to_bits().checked_add(step));
                sum.map(|sum| Ipv6Addr::from_bits(sum).into())
            }
        };
        let addr = addr.ok_or_else(none)?;
        let network = Network::of(Cidr { addr, prefix_len: first.prefix_len })?;
        Ok(Network { link: number, ..network })
    }

    /// The networks of this many links.
    ///
    /// # Errors
    /// A network is too small; the system gives no random numbers.
    pub fn of_links(net4: Net4, net6: Net6, links: usize) -> Result<Vec<Network>> {
        let mut random = [0; 5];
        getrandom::fill(&mut random).context("the system gives no random numbers")?;
        let mut all = Vec::new();
        for link in 0..links {
            if let Net4::Of(network) = net4 {
                all.push(Network::nth(network, link).map_err(Usage)?);
            }
            match net6 {
                Net6::Off => {}
                Net6::Of(network) => all.push(Network::nth(network, link).map_err(Usage)?),
                Net6::Ula => all.push(Network::unique_local(random, link)),
            }
        }
        Ok(all)
    }

    /// The network, without a host.
    pub fn network(&self) -> Cidr {
        self.with_prefix(self.gateway).network()
    }

    /// A unique local /64 (RFC 4193 section 3.2) with these 40 random bits, of link `number`.
    pub fn unique_local(random: [u8; 5], number: usize) -> Network {
        let [a, b, c, d, e] = random;
        let pair = |high, low| u16::from_be_bytes([high, low]);
        let subnet = number as u16;
        let network = Ipv6Addr::new(pair(0xfd, a), pair(b, c), pair(d, e), subnet, 0, 0, 0, 0);
        let network = IpAddr::V6(network);
        Network {
            program: host(network, 0x100),
            gateway: host(network, GATEWAY),
            names: host(network, NAMES),
            prefix_len: 64,
            link: number,
        }
    }

    /// An address with the network's prefix.
    pub fn with_prefix(&self, addr: IpAddr) -> Cidr {
        // The length was checked when the network was made.
        Cidr { addr, prefix_len: self.prefix_len }
    }
}

/// A host of a network, whose own last bits are zero.
fn host(network: IpAddr, number: u32) -> IpAddr {
    match network {
        IpAddr::V4(network) => IpAddr::V4(Ipv4Addr::from_bits(network.to_bits() | number)),
        IpAddr::V6(network) => {
            IpAddr::V6(Ipv6Addr::from_bits(network.to_bits() | u128::from(number)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Result<Network, String> {
        Network::of(text.parse().expect("the test's own network"))
    }

    #[test]
    fn hosts_have_the_numbers_of_slirp() {
        let known = network("10.0.2.0/24").expect("large enough");
        assert_eq!(known.program.to_string(), "10.0.2.100");
        assert_eq!(known.with_prefix(known.names).to_string(), "10.0.2.3/24");
    }

    #[test]
    fn small_networks_have_room_for_three() {
        let known = network("192.0.2.8/29").expect("large enough");
        assert_eq!(known.program.to_string(), "192.0.2.12");
        let mistake = network("192.0.2.8/30").expect_err("too small");
        assert!(mistake.contains("/29"), "{mistake}");
        assert!(network("2001:db8::/124").is_err());
    }

    #[test]
    fn links_have_networks_one_behind_the_other() {
        let nth = |text: &str, number| {
            let first = text.parse().expect("the test's own network");
            Network::nth(first, number).map(|network| network.gateway.to_string())
        };
        assert_eq!(nth("10.0.2.0/24", 0), Ok("10.0.2.2".to_owned()));
        assert_eq!(nth("10.0.2.0/24", 2), Ok("10.0.4.2".to_owned()));
        assert_eq!(nth("2001:db8::/64", 1), Ok("2001:db8:0:1::2".to_owned()));
        assert!(nth("255.255.255.0/24", 1).is_err());
    }

    #[test]
    fn a_unique_local_network_is_in_fd00_8() {
        let known = Network::unique_local([1, 2, 3, 4, 5], 0);
        assert_eq!(known.program.to_string(), "fd01:203:405::100");
    }
}
