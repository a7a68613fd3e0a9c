//! Names that clients give are asked of the gateway's resolver, whose policy pins their addresses.
//!
//! Called by: `greet.rs`, `begin.rs`, `datagrams.rs`, `serve.rs`. The answers come from `names.rs`.

use host::dns::{DomainName, Kind, Transport};

use super::client::State;
use super::ids::{ClientId, Said};
use super::lookup::Lookup;
use crate::around::Around;
use crate::gateway::Gateway;
use crate::policy::Policy;

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
