//! A name that a client has given, and its addresses of both versions.
//!
//! Called by: `client.rs`, `association.rs`, `resolve.rs`.

use core::net::IpAddr;
use std::collections::VecDeque;

use host::dns::{DomainName, Transport, said};

use super::ids::Said;

/// A name that is looked up.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) number: u32,
    pub(super) name: DomainName,
    /// Answers that are still to come.
    pub(super) waits: u8,
    /// The policy refuses the name, or an answer.
    pub(super) is_refused: bool,
    pub(super) found: Vec<IpAddr>,
}

impl Lookup {
    /// Take an answer; `false` if it was cut.
    pub(super) fn hear(&mut self, answer: &Said) -> bool {
        let said = said(&answer.message, &self.name);
        if said.is_truncated && answer.by == Transport::Udp {
            return false;
        }
        self.waits = self.waits.saturating_sub(1);
        self.is_refused |= said.is_refused;
        self.found.extend(said.addresses.into_iter().map(|ip| ip.to_canonical()));
        true
    }

    /// Its addresses, in the order in which they are tried: IPv6 and IPv4 by turns (RFC 8305
    /// section 4).
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let of = |is_v4| self.found.iter().copied().filter(move |ip| ip.is_ipv4() == is_v4);
        let (mut v6, mut v4) =
            (of(false).collect::<VecDeque<_>>(), of(true).collect::<VecDeque<_>>());
        let mut all = Vec::new();
        while !(v6.is_empty() && v4.is_empty()) {
            all.extend(v6.pop_front());
            all.extend(v4.pop_front());
        }
        all
    }
}
