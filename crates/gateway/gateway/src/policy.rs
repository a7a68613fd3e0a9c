//! What becomes of a flow before it begins: the question that the engine asks once for each.
//!
//! Called by: `tcp/begin.rs`, `tcp/hello.rs`, `datagrams/up.rs`. Rules, names and questions to
//! people are other files' work; this one has only the words in which the engine speaks with them.

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

    /// A guest's first echo request of a session to a destination: the guest's port is the
    /// identifier, the other one is 0. [`Verdict::Reset`] is "administratively prohibited" here.
    fn echo(&mut self, ends: &Ends) -> Verdict;

    /// Does the policy want to see the first bytes of an allowed TCP flow? Asked when it opens.
    fn wants_hello(&mut self, ends: &Ends) -> bool {
        let _ = ends;
        false
    }

    /// The first bytes that a guest has sent, all of them from the beginning, up to 16 KB; asked
    /// again whenever there are more, as long as it says [`Glance::More`]. `is_all`: there will not
    /// be more, and [`Glance::More`] means [`Glance::Pass`].
    fn hello(&mut self, ends: &Ends, bytes: &[u8], is_all: bool) -> Glance {
        let _ = (ends, bytes, is_all);
        Glance::Pass
    }

    /// Does the policy want to see what a guest sends to this destination, which [`Policy::udp`]
    /// has allowed? Asked once.
    fn wants_datagrams(&mut self, ends: &Ends) -> bool {
        let _ = ends;
        false
    }

    /// Datagrams of a guest before they are sent: one, or several of `segment_size` bytes, which is
    /// 0 for one. After [`Glance::More`] they are dropped, so that their sender repeats them, and
    /// after [`Glance::Refuse`] the destination is a new one for the next datagram.
    fn datagrams(&mut self, ends: &Ends, payload: &[u8], segment_size: usize) -> Glance {
        let _ = (ends, payload, segment_size);
        Glance::Pass
    }
}

/// What becomes of a flow after its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    /// More bytes are needed; the outside gets none.
    More,
    /// It goes on.
    Pass,
    /// Both its connections are reset.
    Refuse,
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
