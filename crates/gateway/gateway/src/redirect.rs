//! Addresses of the guest's network that stand for the host.
//!
//! Called by: the engine, as a policy around the one that decides about the rest.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use host::dns;

use crate::outside::Ends;
use crate::policy::{Glance, Policy, Verdict};

/// Where some destinations lead. The policy behind it decides first, about the address that the
/// guest has used.
///
/// ```
/// # use wirespeed_gateway as wirespeed;
/// use wirespeed::{AllowAll, Ends, Policy, Redirect, Verdict};
///
/// let mut policy = Redirect {
///     host: vec!["10.0.2.2".parse()?],
///     behind: AllowAll,
/// };
/// let mut to = |remote: &str| -> Result<Verdict, std::net::AddrParseError> {
///     Ok(policy.tcp(&Ends { guest: "10.0.2.100:5000".parse()?, remote: remote.parse()? }))
/// };
/// assert_eq!(to("10.0.2.2:8080")?, Verdict::To("127.0.0.1:8080".parse()?));
/// assert_eq!(to("203.0.113.1:80")?, Verdict::Allow);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Redirect<P> {
    /// Addresses that lead to the loopback address of the host, on the same port; none by default.
    pub host: Vec<IpAddr>,
    /// Who decides.
    pub behind: P,
}

impl<P> Redirect<P> {
    /// What becomes of an allowed flow.
    fn lead(&self, verdict: Verdict, remote: SocketAddr) -> Verdict {
        if verdict != Verdict::Allow {
            return verdict;
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

impl<P: dns::Policy> dns::Policy for Redirect<P> {
    fn question(&mut self, asked: &dns::Asked<'_>) -> dns::Verdict {
        self.behind.question(asked)
    }

    fn answer(&mut self, answer: &dns::Answered<'_>) -> dns::Verdict {
        self.behind.answer(answer)
    }

    fn keeps_ech(&mut self, asked: &dns::Asked<'_>) -> bool {
        self.behind.keeps_ech(asked)
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
