//! The gateway's calls of its resolver.
//!
//! Called by: `gateway.rs`, `tcp/begin.rs`, the owner of the gateway.

use core::net::SocketAddr;

use base::{Instant, Limit};
use host::dns::{ForwarderCounts, Hosts};
use stack::RequestHandle;

use super::Names;
use super::guests::Guest;
use crate::around::Around;
use crate::gateway::Gateway;
use crate::outside::Outside;
use crate::policy::Policy;

impl<T, S> Gateway<T, S> {
    /// A turn of the resolver.
    pub(crate) fn serve_names<O, P>(&mut self, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let Some(names) = &mut self.names else { return };
        names.turn(around, (&self.config.budget, &mut self.counts));
    }

    /// A SYN to port 53: it is answered at once.
    pub(crate) fn names_syn<O, P>(
        &mut self,
        request: RequestHandle,
        around: &mut Around<'_, O, P>,
    ) {
        let Some(names) = &mut self.names else { return };
        let limit = Limit::GatewayDnsConnections;
        if !self.config.budget.admits(limit, names.guests.len()) {
            self.counts.unanswered += 1;
            return around.stack.tcp_ignore(request);
        }
        // Without room for a connection the stack counts that; the SYN comes again.
        let Ok(handle) = around.stack.tcp_complete(request) else { return };
        let id = names.guests.insert(Guest::new(handle, around.now));
        around.stack.tcp_set_tag(handle, Some(id.tag()));
    }

    /// Ask these servers from now on; `false` without a resolver.
    pub fn set_name_servers(&mut self, servers: Vec<SocketAddr>, now: Instant) -> bool {
        let Some(names) = &mut self.names else { return false };
        names.forwarder.set_servers(servers, now);
        true
    }

    /// Use this table of known names from now on; `false` without a resolver.
    pub fn set_hosts(&mut self, hosts: Hosts) -> bool {
        let Some(names) = &mut self.names else { return false };
        names.forwarder.set_hosts(hosts);
        true
    }

    /// What the resolver has done, if there is one.
    pub fn name_counts(&self) -> Option<&ForwarderCounts> {
        self.names.as_ref().map(|names| names.forwarder.counts())
    }

    /// Questions in flight, sockets towards servers, and connections over which guests ask.
    pub fn name_sizes(&self) -> (usize, usize, usize) {
        let sizes = |names: &Names<T, S>| {
            (names.forwarder.in_flight(), names.upstream.len(), names.guests.len())
        };
        self.names.as_deref().map_or((0, 0, 0), sizes)
    }
}
