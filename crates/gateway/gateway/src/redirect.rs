//! Addresses of the guest's network that stand for something else: the host, and every resolver.
//!
//! Called by: the engine, as a policy around the one that decides about the rest.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::outside::Ends;
use crate::policy::{Glance, Policy, Verdict};

/// The port of name servers (RFC 1035 section 4.2).
const NAMES: u16 = 53;

/// Where some destinations lead. The policy behind it decides first, about the address that the
/// guest has used.
///
/// ```
/// # use wirespeed_gateway as wirespeed;
/// use wirespeed::{AllowAll, Ends, Policy, Redirect, Verdict};
///
/// let mut policy = Redirect {
///     host: vec!["10.0.2.2".parse()?],
///     names: Some("192.0.2.53:53".parse()?),
///     behind: AllowAll,
/// };
/// let mut to = |remote: &str| -> Result<Verdict, std::net::AddrParseError> {
///     Ok(policy.tcp(&Ends { guest: "10.0.2.100:5000".parse()?, remote: remote.parse()? }))
/// };
/// assert_eq!(to("10.0.2.2:8080")?, Verdict::To("127.0.0.1:8080".parse()?));
/// assert_eq!(to("203.0.113.1:53")?, Verdict::To("192.0.2.53:53".parse()?));
/// assert_eq!(to("203.0.113.1:80")?, Verdict::Allow);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Redirect<P> {
    /// Addresses that lead to the loopback address of the host, on the same port; none by default.
    pub host: Vec<IpAddr>,
    /// The name server to which every question leads, whichever server the guest asks. It is of the
    /// guest's version, or the outside has to be able to send to the other one.
    pub names: Option<SocketAddr>,
    /// Who decides.
    pub behind: P,
}

impl<P> Redirect<P> {
    /// What becomes of an allowed flow.
    fn lead(&self, verdict: Verdict, remote: SocketAddr) -> Verdict {
        if verdict != Verdict::Allow {
            return verdict;
        }
        if let Some(names) = self.names.filter(|_| remote.port() == NAMES) {
            return Verdict::To(names);
        }
        if !self.host.contains(&remote.ip()) {
            return verdict;
        }
        let loopback = match remote {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        Verdict::To(SocketAddr::new(loopback, remote.port()))
    }
}

impl<P: Policy> Policy for Redirect<P> {
    fn tcp(&mut self, ends: &Ends) -> Verdict {
        let verdict = self.behind.tcp(ends);
        self.lead(verdict, ends.remote)
    }

    fn udp(&mut self, ends: &Ends) -> Verdict {
        let verdict = self.behind.udp(ends);
        self.lead(verdict, ends.remote)
    }

    fn echo(&mut self, ends: &Ends) -> Verdict {
        self.behind.echo(ends)
    }

    fn wants_hello(&mut self, ends: &Ends) -> bool {
        self.behind.wants_hello(ends)
    }

    fn hello(&mut self, ends: &Ends, bytes: &[u8], is_all: bool) -> Glance {
        self.behind.hello(ends, bytes, is_all)
    }
}
