//! Published UDP ports: a socket that the owner has bound is the permanent session of a guest's
//! address and port. What the guest sends from there leaves by it (RFC 4787 REQ-1), and everybody
//! may send to it (endpoint-independent filtering).
//!
//! Called by: the owner of such sockets; `down.rs`, `up.rs`. A datagram reaches the guest from its
//! sender's own address, or, if the guest cannot see that, from a port of the gateway's address,
//! and the guest's answers to either go back to the sender. Nobody asks the policy about those: the
//! owner has published the port. What the guest sends to others is judged as usual.

use core::net::{IpAddr, SocketAddr};

use base::{Cidr, Instant, Limit};

use super::session::Class;
use super::{Clients, Session, SessionId, SessionKey};
use crate::around::Around;
use crate::config::Config;
use crate::counts::Counts;
use crate::gateway::Gateway;
use crate::outside::{Ends, Outside, Token};
use crate::policy::Policy;
use crate::report::{End, Protocol, Report, Reports};

impl<T, S> Gateway<T, S> {
    /// Datagrams that come to `socket`, which the owner has bound, are for the guest's address and
    /// port `guest`, if their senders are in the networks `from`; empty means all. The guest's own
    /// datagrams from there leave by it, if the outside permits that ([`Outside::adopt`]) and no
    /// earlier one is published for this end. It has no lifetime and does not make room for others.
    /// Returns its token; `None` if the outside cannot use the socket.
    pub fn publish_udp<O, P>(
        &mut self,
        mut socket: S,
        guest: SocketAddr,
        from: Vec<Cidr>,
        around: &mut Around<'_, O, P>,
    ) -> Option<Token>
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let key = SessionKey::Udp(guest);
        let (outside, mut adopted) = (&mut *around.outside, None);
        let made: Result<SessionId, S> =
            self.sessions.slots.try_insert_with_key(|id: SessionId| {
                adopted = outside.adopt(id.token(), &key, &mut socket);
                match adopted {
                    Some(_) => Ok(Session::new(key, socket, Class::Published, around.now)),
                    None => Err(socket),
                }
            });
        let id = match made {
            Ok(id) => id,
            Err(socket) => {
                around.outside.close(socket);
                return None;
            }
        };
        self.sessions.published += 1;
        self.sessions.clients.admit(id, from);
        let before = self.sessions.by_key.get(&key).copied();
        let is_published = before
            .and_then(|id| self.sessions.slots.get(id))
            .is_some_and(|session| session.class == Class::Published);
        if adopted == Some(true) && !is_published {
            if let Some(before) = before {
                self.end_session(before, End::Evicted, around);
            }
            self.sessions.by_key.insert(key, id);
        }
        // Something may have come before.
        self.sessions.ready(id);
        Some(id.token())
    }

    /// Close a published socket, by the token of [`Gateway::publish_udp`].
    pub fn unpublish_udp<O, P>(&mut self, token: Token, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let Some(id) = SessionId::of(token) else { return };
        let session = self.sessions.slots.get(id);
        if session.is_some_and(|session| session.class == Class::Published) {
            self.end_session(id, End::Finished, around);
        }
    }

    /// Forget clients whose life is over.
    pub(crate) fn expire_clients(&mut self, now: Instant) {
        while let Some(ends) = self.sessions.clients.due(now) {
            forget(&ends, End::Finished, &mut self.sessions.clients, &mut self.reports);
        }
    }
}

/// Forget a client; returns whether there was one.
pub(super) fn forget(ends: &Ends, end: End, clients: &mut Clients, reports: &mut Reports) -> bool {
    let Some(client) = clients.remove(ends) else { return false };
    let (bytes_up, bytes_down) = client.bytes;
    let (protocol, ends, since) = (Protocol::Udp, *ends, client.since);
    reports.push(Report { protocol, ends, end, since, bytes_up, bytes_down });
    true
}

/// What sessions work with that is not their own.
pub(super) struct Books<'a> {
    pub(super) config: &'a mut Config,
    pub(super) counts: &'a mut Counts,
    pub(super) clients: &'a mut Clients,
    pub(super) reports: &'a mut Reports,
}

impl Books<'_> {
    /// The address under which the guest sees a sender to its published port. The client that has
    /// been idle longest makes room for a new one. `None`: there is no room.
    pub(super) fn client(
        &mut self,
        (id, guest): (SessionId, SocketAddr),
        from: SocketAddr,
        gateway: impl FnOnce() -> Option<IpAddr>,
        now: Instant,
    ) -> Option<SocketAddr> {
        if let Some(seen) = self.clients.seen(id, from) {
            return Some(seen);
        }
        if !self.config.budget.admits(Limit::GatewaySessionPeers, self.clients.count(id)) {
            let oldest = self.clients.oldest(id)?;
            forget(&oldest, End::Evicted, self.clients, self.reports);
        }
        let own = self.config.seen_by_guest(from, guest);
        let seen = self.clients.name((own, gateway()), from.port(), guest)?;
        self.clients.add(Ends { guest, remote: seen }, id, from, now);
        Some(seen)
    }
}
