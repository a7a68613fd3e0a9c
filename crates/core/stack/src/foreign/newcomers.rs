//! What hosts without an address send to find a DHCP server and a router, and advertisements of a
//! router that the program is: a gateway whose guests configure themselves.
//!
//! Called by: `socket/udp/input.rs` and `nd.rs` for what arrives, if
//! [`crate::Foreign::newcomers`] is on; programs. RFC 1122 section 3.2.1.3-a, RFC 4861 sections
//! 6.1.1, 6.2. Limit: `router_solicitors` of those that wait; drop: `foreign_queue_full`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{Counter, DropReason, Instant, Limit};
use inet::Ip;
use inet::flow::Addrs;
use mbuf::Mbuf;
use tcp::Fate;

use crate::handles::{Event, PortId};
use crate::stack::Stack;
use crate::{neighbours, resolve};

/// A router solicitation, whose checksum is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterSolicitation {
    /// The port that it came by.
    pub port: PortId,
    /// The host that asks, or the unspecified address.
    pub from: Ipv6Addr,
    /// The hop limit that it arrived with; 255 if no router has passed it on.
    pub hop_limit: u8,
    /// The message from the ICMPv6 type on.
    pub message: Vec<u8>,
}

/// Is it a datagram of a host that has no address yet to all hosts, and are such served?
/// RFC 1122 3.2.1.3-a.
#[cold]
pub(crate) fn is_broadcast_of_one<A: Addrs>(stack: &Stack, ip: &Ip<A>) -> bool {
    stack.foreign.takes.newcomers
        && ip.src() == IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        && ip.dst() == IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Keep a router solicitation for the program, alone in `m`.
///
/// # Errors
/// [`DropReason::IcmpUnhandled`] if nobody takes it, [`DropReason::ForeignQueueFull`].
#[cold]
pub(crate) fn solicitation<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, m: &Mbuf) -> Fate {
    let IpAddr::V6(from) = ip.src() else { return Err(DropReason::IcmpMalformed) };
    if !stack.foreign.takes.newcomers {
        // This stack does not advertise itself as a router.
        return Err(DropReason::IcmpUnhandled);
    }
    let waiting = &mut stack.foreign.solicitations;
    if !stack.core.cx.budget.admits(Limit::RouterSolicitors, waiting.len()) {
        return Err(DropReason::ForeignQueueFull);
    }
    if waiting.is_empty() {
        stack.ready.push_back(Event::Foreign);
    }
    let (port, message) = (PortId(m.in_port()), m.as_slice().to_vec());
    waiting.push_back(RouterSolicitation { port, from, hop_limit: ip.ttl, message });
    stack.core.cx.counters.add(Counter::NdIn, 1);
    Ok(())
}

impl Stack {
    /// The oldest router solicitation that waits, if [`crate::Foreign::newcomers`] is on.
    /// [`Event::Foreign`] reports the first one.
    pub fn take_router_solicitation(&mut self) -> Option<RouterSolicitation> {
        self.foreign.solicitations.pop_front()
    }

    /// Send a router advertisement by a port, with hop limit 255. `from` is the link-local address
    /// of the port; `to` is `ff02::1` or a host of the link; `message` is everything from the
    /// ICMPv6 type on, with its checksum.
    ///
    /// # Errors
    /// [`DropReason::IpMartianSource`] if the port does not have `from`; no port, no buffer, no
    /// room among the neighbours.
    ///
    /// ```
    /// # mod wirespeed { pub use {base::*, wirespeed_stack::*}; }
    /// # fn answer(_: &wirespeed::RouterSolicitation) -> Vec<u8> { vec![0; 16] }
    /// use wirespeed::{Instant, Stack};
    ///
    /// fn serve(stack: &mut Stack, now: Instant) {
    ///     while let Some(asked) = stack.take_router_solicitation() {
    ///         let message = answer(&asked); // host::ra::Router
    ///         let (from, to) = ("fe80::1".parse().unwrap(), "ff02::1".parse().unwrap());
    ///         let _ = stack.send_router_advertisement(asked.port, (from, to), &message, now);
    ///     }
    /// }
    /// ```
    pub fn send_router_advertisement(
        &mut self,
        port: PortId,
        (from, to): (Ipv6Addr, Ipv6Addr),
        message: &[u8],
        now: Instant,
    ) -> Result<(), DropReason> {
        self.core.set_now(now);
        let (from, to) = (IpAddr::V6(from), IpAddr::V6(to));
        let ours = &self.ports.get(port.0).ok_or(DropReason::TxNoPort)?.local;
        if !ours.is_ours(from) {
            return Err(DropReason::IpMartianSource);
        }
        let sent = resolve::send_nd_to(self, port.0, (from, to), message);
        neighbours::act(self);
        sent
    }
}
