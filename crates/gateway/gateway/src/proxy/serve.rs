//! The gateway's calls of its proxy, and a turn of all clients.
//!
//! Called by: `gateway.rs`, `tcp/`, the owner of the gateway.

use core::net::SocketAddr;

use base::{Instant, Limit};

use super::client::{Client, GREETING, State};
use super::ids::ClientId;
use super::protocol::Credentials;
use crate::around::Around;
use crate::gateway::Gateway;
use crate::outside::{Ends, Outside};
use crate::policy::{Policy, Verdict};
use crate::report::End;

impl<T, S> Gateway<T, S> {
    /// Clients of [`Gateway::accept_client`] need this name and password from now on.
    pub fn set_credentials(&mut self, credentials: Option<Credentials>) {
        self.proxies.credentials = credentials;
    }

    /// Clients of the proxy.
    pub fn client_count(&self) -> usize {
        self.proxies.len()
    }

    /// Somebody has connected to the proxy: do what the client asks for by SOCKS5 or HTTP, if the
    /// policy allows that; its flows have the client's address as the guest's. Beyond the limits
    /// the connection is reset.
    pub fn accept_client<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        mut near: T,
        from: SocketAddr,
        around: &mut Around<'_, O, P>,
    ) {
        let pending = self.waiting.deadlines.len() + self.proxies.deadlines.len();
        let all = self.flows.len() + self.proxies.len();
        let budget = &mut self.config.budget;
        if !budget.admits(Limit::GatewayPending, pending)
            || !budget.admits(Limit::GatewayFlows, all)
        {
            self.counts.unanswered += 1;
            return around.outside.tcp_abort(near);
        }
        self.counts.clients += 1;
        let id = self.proxies.clients.insert(None);
        let leg = self.proxies.leg(id);
        around.outside.tcp_adopt(leg.token(), &mut near);
        let mut client = Box::new(Client::new(near, leg, from));
        self.proxies.set_deadline(id, &mut client, around.now + GREETING);
        self.proxies.clients[id] = Some(client);
        self.proxies.wake(id);
    }

    /// Let clients do what they can.
    pub(crate) fn serve_clients<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        around: &mut Around<'_, O, P>,
    ) {
        let said = self.names.as_mut().map(|names| names.take_said());
        said.into_iter().flatten().for_each(|said| self.heard(said, around));
        while let Some(&(at, id)) = self.proxies.deadlines.first()
            && at <= around.now
        {
            self.proxies.deadlines.remove(&(at, id));
            if let Some(Some(client)) = self.proxies.clients.get_mut(id) {
                client.deadline = Instant::NEVER;
                client.is_late = true;
            }
            self.proxies.wake(id);
        }
        for _ in 0..self.proxies.queue.len() {
            let Some(id) = self.proxies.queue.pop_front() else { break };
            let Some(mut client) = self.proxies.clients.get_mut(id).and_then(Option::take) else {
                continue;
            };
            client.is_queued = false;
            match self.serve(id, &mut client, around) {
                true => self.put_back(id, client),
                false => self.end_client(id, *client, around),
            }
        }
    }

    fn put_back(&mut self, id: ClientId, client: Box<Client<T, S>>) {
        let has_more = client.has_more;
        if let Some(place) = self.proxies.clients.get_mut(id) {
            *place = Some(client);
        }
        if has_more {
            self.proxies.wake(id);
        }
    }

    /// Decide about a client's flow for which [`Policy::tcp`] said [`Verdict::Ask`]; `false` if
    /// none waits.
    pub(crate) fn decide_client(&mut self, ends: &Ends, verdict: Verdict) -> bool {
        let waits = |client: &&mut Box<Client<T, S>>| match &client.state {
            State::Asking(attempt) => attempt.ends == *ends,
            _ => false,
        };
        let all = self.proxies.clients.iter_mut();
        let mut all = all.filter_map(|(id, client)| Some((id, client.as_mut().filter(waits)?)));
        let Some((id, client)) = all.next() else { return false };
        client.verdict = Some(verdict);
        self.proxies.wake(id);
        true
    }

    /// End all clients.
    pub(crate) fn end_clients<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        around: &mut Around<'_, O, P>,
    ) {
        let all: Vec<ClientId> = self.proxies.clients.keys().collect();
        for id in all {
            let Some(mut client) = self.proxies.clients.get_mut(id).and_then(Option::take) else {
                continue;
            };
            client.end = End::ShutDown;
            self.end_client(id, *client, around);
        }
    }
}
