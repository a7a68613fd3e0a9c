//! The private network itself: flows to it lead nowhere, except to the address that stands for the
//! host, if the rules allow that.
//!
//! Called by: the engine, as the policy in front of the rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::Cidr;
use gateway::{Ends, Glance, Policy, Verdict};
use host::dns;
use stack::Unreachable;

use super::addresses;
use super::settings::Settings;

/// The name of the addresses that stand for the host.
pub(super) const HOST_NAME: &str = "host.wirespeed.internal";

/// Decides about the private network, and leaves the rest to rules.
#[derive(Debug)]
pub(super) struct Near<P> {
    networks: Vec<Cidr>,
    /// Addresses that stand for the host's loopback address.
    host: Vec<IpAddr>,
    /// Addresses that stand for the address by which it sends to others.
    own_address: Vec<IpAddr>,
    pub(super) rules: P,
}

impl<P: Policy> Near<P> {
    pub(super) fn new(settings: &Settings, rules: P) -> Near<P> {
        let (host, own_address) = (settings.host_addresses.clone(), settings.own_address.clone());
        Near { networks: settings.near(), host, own_address, rules }
    }

    /// Is it an address of the private network that stands for nothing?
    fn is_nobody(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let stands_for = self.host.contains(&ip) || self.own_address.contains(&ip);
        !stands_for && self.networks.iter().any(|network| network.contains(ip))
    }

    /// Where an allowed flow leads.
    fn lead(&self, verdict: Verdict, remote: SocketAddr) -> Verdict {
        let ip = remote.ip().to_canonical();
        if verdict == Verdict::Allow && self.own_address.contains(&ip) {
            return match addresses::outgoing(ip.is_ipv4()) {
                Some(own) => Verdict::To(SocketAddr::new(own, remote.port())),
                None => Verdict::Unreachable(Unreachable::Host),
            };
        }
        if verdict != Verdict::Allow || !self.host.contains(&ip) {
            return verdict;
        }
        let loopback: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        Verdict::To(SocketAddr::new(loopback, remote.port()))
    }
}

impl<P: Policy> Policy for Near<P> {
    fn tcp(&mut self, ends: &Ends) -> Verdict {
        if self.is_nobody(ends.remote.ip()) {
            return Verdict::Reset;
        }
        let verdict = self.rules.tcp(ends);
        self.lead(verdict, ends.remote)
    }

    fn udp(&mut self, ends: &Ends) -> Verdict {
        if self.is_nobody(ends.remote.ip()) {
            return Verdict::Reset;
        }
        let verdict = self.rules.udp(ends);
        self.lead(verdict, ends.remote)
    }

    fn echo(&mut self, ends: &Ends) -> Verdict {
        if self.is_nobody(ends.remote.ip()) {
            return Verdict::Unreachable(Unreachable::Host);
        }
        let verdict = self.rules.echo(ends);
        self.lead(verdict, ends.remote)
    }

    fn wants_hello(&mut self, ends: &Ends) -> bool {
        self.rules.wants_hello(ends)
    }

    fn hello(&mut self, ends: &Ends, bytes: &[u8], is_all: bool) -> Glance {
        self.rules.hello(ends, bytes, is_all)
    }

    fn wants_datagrams(&mut self, ends: &Ends) -> bool {
        self.rules.wants_datagrams(ends)
    }

    fn datagrams(&mut self, ends: &Ends, payload: &[u8], segment_size: usize) -> Glance {
        self.rules.datagrams(ends, payload, segment_size)
    }
}

impl<P: dns::Policy> dns::Policy for Near<P> {
    fn question(&mut self, asked: &dns::Asked<'_>) -> dns::Verdict {
        // The host's name, which no server hears of: rules are about its address.
        if asked.is_local && asked.name.to_string().trim_end_matches('.') == HOST_NAME {
            return dns::Verdict::Pass;
        }
        self.rules.question(asked)
    }

    fn answer(&mut self, answer: &dns::Answered<'_>) -> dns::Verdict {
        self.rules.answer(answer)
    }

    fn keeps_ech(&mut self, asked: &dns::Asked<'_>) -> bool {
        self.rules.keeps_ech(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway::AllowAll;

    #[test]
    fn the_private_network_leads_nowhere_but_to_the_host() {
        let networks = ["10.0.2.100/24", "fd01::100/64"].map(|text| text.parse().expect("one"));
        let host = vec!["10.0.2.2".parse().expect("an address")];
        let own_address = Vec::new();
        let mut policy = Near { networks: networks.to_vec(), host, own_address, rules: AllowAll };
        let mut verdict = |remote: &str| {
            let guest = "10.0.2.100:5000".parse().expect("an address");
            policy.tcp(&Ends { guest, remote: remote.parse().expect("an address") })
        };
        for remote in ["10.0.2.3:80", "10.0.2.77:80", "[fd01::2]:80", "[::ffff:10.0.2.3]:80"] {
            assert_eq!(verdict(remote), Verdict::Reset, "{remote}");
        }
        let to = Verdict::To("127.0.0.1:80".parse().expect("an address"));
        assert_eq!(verdict("10.0.2.2:80"), to);
        assert_eq!(verdict("192.0.2.1:80"), Verdict::Allow);
    }
}
