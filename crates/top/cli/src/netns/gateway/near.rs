//! What is near: the program's own network and the host's loopback addresses, which no flow reaches
//! by chance.
//!
//! Called by: the engine, as the policy in front of the user's own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use gateway::{Ends, Policy, Verdict};
use wirespeed::{Cidr, Unreachable};

use super::super::settings::Settings;

/// Decides about near addresses, and leaves the others to a policy.
#[derive(Clone, Debug)]
pub(super) struct Near<P> {
    networks: Vec<Cidr>,
    /// The address that leads to the host's loopback address.
    host: Option<IpAddr>,
    behind: P,
}

impl<P: Policy> Near<P> {
    pub(super) fn new(settings: &Settings, behind: P) -> Near<P> {
        let networks = settings.networks.iter().map(|n| n.with_prefix(n.program)).collect();
        Near { networks, host: settings.host_address, behind }
    }

    /// A verdict about a near address; `None` for another one.
    fn near(&self, remote: SocketAddr, refusal: Verdict) -> Option<Verdict> {
        let ip = remote.ip().to_canonical();
        if self.host == Some(ip) {
            let loopback: IpAddr = match ip {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            return Some(Verdict::To(SocketAddr::new(loopback, remote.port())));
        }
        if self.networks.iter().any(|network| network.contains(ip)) {
            return Some(refusal);
        }
        let is_nowhere = ip.is_loopback()
            || ip.is_unspecified()
            || ip.is_multicast()
            || ip == IpAddr::V4(Ipv4Addr::BROADCAST)
            || matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        is_nowhere.then_some(Verdict::Drop)
    }
}

impl<P: Policy> Policy for Near<P> {
    fn tcp(&mut self, ends: &Ends) -> Verdict {
        let near = self.near(ends.remote, Verdict::Reset);
        near.unwrap_or_else(|| self.behind.tcp(ends))
    }

    fn udp(&mut self, ends: &Ends) -> Verdict {
        let near = self.near(ends.remote, Verdict::Reset);
        near.unwrap_or_else(|| self.behind.udp(ends))
    }

    fn echo(&mut self, ends: &Ends) -> Verdict {
        let near = self.near(ends.remote, Verdict::Unreachable(Unreachable::Host));
        near.unwrap_or_else(|| self.behind.echo(ends))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway::AllowAll;

    fn near(host: Option<&str>) -> Near<AllowAll> {
        let parsed = |text: &str| text.parse().expect("an address");
        let networks = ["10.0.2.100/24", "fd01::100/64"].map(|text| text.parse().expect("one"));
        Near { networks: networks.to_vec(), host: host.map(parsed), behind: AllowAll }
    }

    fn verdict(policy: &mut Near<AllowAll>, remote: &str) -> Verdict {
        let guest = "10.0.2.100:5000".parse().expect("an address");
        policy.tcp(&Ends { guest, remote: remote.parse().expect("an address") })
    }

    #[test]
    fn near_addresses_lead_nowhere() {
        let mut policy = near(None);
        for remote in ["10.0.2.2:80", "10.0.2.77:80", "[fd01::2]:80"] {
            assert_eq!(verdict(&mut policy, remote), Verdict::Reset, "{remote}");
        }
        for remote in ["127.0.0.1:80", "[::1]:80", "[::ffff:127.0.0.1]:80", "0.0.0.0:80",
            "224.0.0.1:80", "255.255.255.255:80", "[fe80::1]:80"] {
            assert_eq!(verdict(&mut policy, remote), Verdict::Drop, "{remote}");
        }
        assert_eq!(verdict(&mut policy, "192.0.2.1:80"), Verdict::Allow);
    }

    #[test]
    fn the_hosts_address_leads_to_its_loopback_address() {
        let mut policy = near(Some("10.0.2.2"));
        let to = Verdict::To("127.0.0.1:80".parse().expect("an address"));
        assert_eq!(verdict(&mut policy, "10.0.2.2:80"), to);
        assert_eq!(verdict(&mut policy, "10.0.2.3:80"), Verdict::Reset);
    }
}
