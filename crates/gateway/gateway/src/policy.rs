//! What becomes of a flow before it begins: the question that the engine asks once for each.
//!
//! Called by: `tcp/begin.rs`, `datagrams/up.rs`. Rules, names and questions to people are other
//! files' work; this one has only the words in which the engine speaks with them.

use core::net::SocketAddr;

use stack::Unreachable;

use crate::outside::Ends;

/// What shall become of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leads to the address that the guest has asked for.
    Allow,
    /// It leads to another address: a port of the host, for example.
    To(SocketAddr),
    /// It is refused: RST.
    Reset,
    /// It is refused by an ICMP error.
    Unreachable(Unreachable),
    /// It gets no answer.
    Drop,
    /// Somebody else decides later, by [`crate::Gateway::decide`]; the SYN is held meanwhile.
    Ask,
}

/// Decides about flows, and about the names that guests ask for ([`host::dns::Policy`], whose hooks
/// let everything pass by default). Questions to port 53 that the gateway answers itself are no
/// flows.
pub trait Policy: host::dns::Policy {
    /// A SYN of a guest.
    fn tcp(&mut self, ends: &Ends) -> Verdict;

    /// A guest's first datagram of a session to a destination; [`Verdict::Reset`] is "port
    /// unreachable" here, and [`Verdict::Ask`] drops the datagram, and is asked again with the
    /// next.
    fn udp(&mut self, ends: &Ends) -> Verdict;

    /// A guest's first echo request of a session to a destination; both ports are 0.
    fn echo(&mut self, ends: &Ends) -> Verdict;
}

/// A policy that allows everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl host::dns::Policy for AllowAll {}

impl Policy for AllowAll {
    fn tcp(&mut self, _: &Ends) -> Verdict {
        Verdict::Allow
    }

    fn udp(&mut self, _: &Ends) -> Verdict {
        Verdict::Allow
    }

    fn echo(&mut self, _: &Ends) -> Verdict {
        Verdict::Allow
    }
}
