//! The addresses of a private network: the program's, the gateway's, the resolver's.
//!
//! Called by: `open.rs`; `machine.rs`, which answers for them. IPv4 as slirp has it: .2 is the
//! gateway, .3 the resolver, .100 the program. Nothing of the host's interfaces is copied, so the
//! network is the same on every host, with or without a network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use wirespeed::Cidr;

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
pub(crate) struct Network {
    /// The program's.
    pub(crate) program: IpAddr,
    /// The gateway's, which stands for the host.
    pub(crate) gateway: IpAddr,
    /// The resolver's.
    pub(crate) names: IpAddr,
    pub(crate) prefix_len: u8,
}

impl Network {
    /// The addresses in a network.
    ///
    /// # Errors
    /// It is too small.
    pub(crate) fn of(network: Cidr) -> Result<Network, String> {
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
        })
    }

    /// A unique local /64 (RFC 4193 section 3.2) with these 40 random bits.
    pub(crate) fn unique_local(random: [u8; 5]) -> Network {
        let [a, b, c, d, e] = random;
        let pair = |high, low| u16::from_be_bytes([high, low]);
        let network = Ipv6Addr::new(pair(0xfd, a), pair(b, c), pair(d, e), 0, 0, 0, 0, 0);
        let network = IpAddr::V6(network);
        Network {
            program: host(network, 0x100),
            gateway: host(network, GATEWAY),
            names: host(network, NAMES),
            prefix_len: 64,
        }
    }

    /// An address with the network's prefix.
    pub(crate) fn with_prefix(&self, addr: IpAddr) -> Cidr {
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
    fn a_unique_local_network_is_in_fd00_8() {
        let known = Network::unique_local([1, 2, 3, 4, 5]);
        assert_eq!(known.program.to_string(), "fd01:203:405::100");
    }
}
