//! Names that clients give: their addresses of both versions, from the gateway's resolver, whose
//! policy pins them.
//!
//! Called by: `greet.rs`, `begin.rs`, `datagrams.rs`. The answers come from `names.rs`.

use core::net::IpAddr;
use std::collections::VecDeque;

use host::dns::{DomainName, Kind, Transport, said};

use super::ClientId;
use super::client::State;
use crate::around::Around;
use crate::gateway::Gateway;
use crate::policy::Policy;

/// An answer of the resolver to a client's question.
pub(crate) struct Said {
    pub(crate) client: ClientId,
    /// The number of the lookup.
    pub(crate) lookup: u32,
    pub(crate) kind: Kind,
    /// How it was asked.
    pub(crate) by: Transport,
    pub(crate) message: Vec<u8>,
}

/// A name that is looked up.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) number: u32,
    pub(super) name: DomainName,
    /// Answers that are still to come.
    pub(super) waits: u8,
    /// The policy refuses the name, or an answer.
    pub(super) is_refused: bool,
    found: Vec<IpAddr>,
}

impl Lookup {
    /// Take an answer; `false` if it was cut.
    fn hear(&mut self, answer: &Said) -> bool {
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

impl<T, S> Gateway<T, S> {
    /// Look a name up; `None` without a resolver.
    pub(super) fn look_up<O, P: Policy>(
        &mut self,
        client: ClientId,
        number: u32,
        name: DomainName,
        around: &mut Around<'_, O, P>,
    ) -> Option<Lookup> {
        let names = self.names.as_mut()?;
        let kinds = [Kind::Aaaa, Kind::A];
        let asked =
            kinds.map(|kind| names.look_up(client, number, (&name, kind, Transport::Udp), around));
        let waits = asked.iter().filter(|is_asked| **is_asked).count() as u8;
        Some(Lookup { number, name, waits, is_refused: false, found: Vec::new() })
    }

    /// An answer has come.
    pub(super) fn heard<O, P: Policy>(&mut self, said: Said, around: &mut Around<'_, O, P>) {
        let Some(Some(client)) = self.proxies.clients.get_mut(said.client) else { return };
        let lookup = match &mut client.state {
            State::Resolving(lookup, _) => Some(lookup).filter(|own| own.number == said.lookup),
            State::Associated(association) => association.lookup(said.lookup),
            _ => None,
        };
        let Some(lookup) = lookup else { return };
        if !lookup.hear(&said) {
            let what = (&lookup.name, said.kind, Transport::Tcp);
            let names = self.names.as_mut();
            let is_asked =
                names.is_some_and(|names| names.look_up(said.client, said.lookup, what, around));
            lookup.waits -= u8::from(!is_asked);
        }
        self.proxies.wake(said.client);
    }

    /// A client takes no answer any more.
    pub(super) fn forget_lookups(&mut self, id: ClientId) {
        self.names.iter_mut().for_each(|names| names.forget_client(id));
    }
}
