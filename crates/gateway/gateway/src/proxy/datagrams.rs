//! UDP ASSOCIATE: a socket beside the client's connection, at which datagrams come with their
//! target in front (RFC 1928 section 7), and sockets of the outside, one for each version of IP.
//!
//! Called by: `greet.rs`. An association ends with its connection. Only hosts to which the client
//! has sent something may answer. Limits: `gateway_session_peers`, [`LOOKUPS_MAX`], [`HELD_MAX`].

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};

use base::{Instant, Limit};
use host::dns::DomainName;

use super::association::{Association, Peer, Socket};
use super::client::{Client, Next, State};
use super::ids::ClientId;
use super::protocol::{Target, datagram, header};
use crate::around::Around;
use crate::datagrams::SessionKey;
use crate::gateway::Gateway;
use crate::outside::{Ends, Outgoing, Outside};
use crate::policy::{Policy, Verdict};
use crate::report::End;

/// Names of an association that are known or looked up.
const LOOKUPS_MAX: usize = 64;
/// Datagrams that wait for an address.
const HELD_MAX: usize = 32;
/// Datagrams of a socket in a turn.
const A_TURN: usize = 64;
/// Hops of a datagram that we send (RFC 1700).
const TTL: u8 = 64;
const DATAGRAM_MAX: usize = 65_535;

impl<T, S> Gateway<T, S> {
    /// A client wants a relay for datagrams that come from this port, if it is not 0.
    pub(super) fn associate<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        client: &mut Client<T, S>,
        port: u16,
        around: &mut Around<'_, O, P>,
    ) -> Next<T, S> {
        let leg = self.proxies.leg(id);
        match around.outside.open_beside(leg.token(), &mut client.near.tcp) {
            Ok((socket, at)) => {
                self.counts.associations += 1;
                self.proxies.set_deadline(id, client, Instant::NEVER);
                client.down.extend(client.speaks.yes(Some(at)));
                Next::Goes(State::Associated(Box::new(Association {
                    relay: Socket { socket, leg },
                    client: SocketAddr::new(client.from.ip(), port),
                    outer: [None, None],
                    peers: BTreeMap::new(),
                    lookups: VecDeque::new(),
                    next: 0,
                    held: VecDeque::new(),
                })))
            }
            Err(why) => {
                self.proxies.legs.remove(leg);
                self.refuse_client(id, client, why.into(), around.now)
            }
        }
    }

    /// Pass datagrams on, until the client's connection ends.
    pub(super) fn relay_datagrams<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        client: &mut Client<T, S>,
        mut association: Box<Association<S>>,
        around: &mut Around<'_, O, P>,
    ) -> Next<T, S> {
        let moved = super::greet::flush(client, around.outside);
        let moved = moved.and_then(|()| super::greet::read(client, around.outside));
        // What comes here means nothing.
        client.up.clear();
        if moved.is_err() || client.near.has_ended {
            return Next::Over(State::Associated(association), End::Finished);
        }
        client.has_more |= client.near.is_readable;
        let mut buffer = core::mem::take(&mut self.proxies.buffer);
        buffer.resize(buffer.len().max(DATAGRAM_MAX), 0);
        let a = &mut *association;
        client.has_more |= self.hear_client(id, a, &mut buffer, around);
        self.send_held(id, a, around);
        for number in 0..a.outer.len() {
            client.has_more |= self.hear_outside(a, number, &mut buffer, around);
        }
        self.proxies.buffer = buffer;
        Next::Waits(State::Associated(association))
    }

    /// Take datagrams of the client; returns whether there may be more.
    fn hear_client<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        a: &mut Association<S>,
        buffer: &mut [u8],
        around: &mut Around<'_, O, P>,
    ) -> bool {
        // Errors about datagrams to the client: it ends the association when it ends.
        while around.outside.take_error(&mut a.relay.socket).is_some() {}
        for _ in 0..A_TURN {
            let Some(got) = around.outside.receive(&mut a.relay.socket, buffer) else {
                return false;
            };
            let is_client = got.from.ip().to_canonical() == a.client.ip().to_canonical()
                && (a.client.port() == 0 || a.client.port() == got.from.port());
            if !is_client {
                self.counts.datagrams_filtered += 1;
                continue;
            }
            a.client.set_port(got.from.port());
            let all = buffer.get(..got.bytes).unwrap_or(&[]);
            let size = match usize::from(got.segment_size) {
                0 => all.len().max(1),
                size => size,
            };
            for bytes in all.chunks(size) {
                match datagram(bytes) {
                    Some((target, at)) => {
                        let payload = bytes.get(at..).unwrap_or(&[]);
                        self.pass_to(id, a, target, payload, around);
                    }
                    None => self.counts.datagrams_malformed += 1,
                }
            }
        }
        true
    }

    fn pass_to<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        a: &mut Association<S>,
        target: Target,
        payload: &[u8],
        around: &mut Around<'_, O, P>,
    ) {
        let (name, port) = match target {
            Target::Address(to) => return self.send_up(id, a, to, payload, around),
            Target::Name(name, port) => (name, port),
        };
        let Some(number) = self.known(id, a, name, around) else {
            self.counts.datagrams_not_sent += 1;
            return;
        };
        if a.held.len() == HELD_MAX {
            a.held.pop_front();
            self.counts.datagrams_without_room += 1;
        }
        a.held.push_back((number, port, payload.to_vec()));
    }

    /// The number of the lookup of a name, which begins if there is none.
    fn known<O, P: Policy>(
        &mut self,
        id: ClientId,
        a: &mut Association<S>,
        name: DomainName,
        around: &mut Around<'_, O, P>,
    ) -> Option<u32> {
        if let Some(known) = a.lookups.iter().find(|lookup| lookup.name == name) {
            return Some(known.number);
        }
        if a.lookups.len() == LOOKUPS_MAX {
            // Its answer, if it is still to come, means nothing then.
            a.lookups.pop_front();
        }
        a.next = a.next.wrapping_add(1);
        let lookup = self.look_up(id, a.next, name, around)?;
        a.lookups.push_back(lookup);
        Some(a.next)
    }

    /// Send what has waited for an address.
    fn send_held<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        a: &mut Association<S>,
        around: &mut Around<'_, O, P>,
    ) {
        for (number, port, payload) in core::mem::take(&mut a.held) {
            let lookup = a.lookup(number);
            if lookup.as_ref().is_some_and(|lookup| lookup.waits > 0) {
                a.held.push_back((number, port, payload));
                continue;
            }
            // A host's IPv4 address works at most places.
            let all = lookup.map(|lookup| lookup.addresses()).unwrap_or_default();
            match all.iter().find(|ip| ip.is_ipv4()).or(all.first()) {
                Some(&ip) => self.send_up(id, a, SocketAddr::new(ip, port), &payload, around),
                None => {
                    a.lookups.retain(|lookup| lookup.number != number);
                    self.counts.datagrams_not_sent += 1;
                }
            }
        }
    }

    /// Send a datagram to a host, if the policy lets the client.
    fn send_up<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        a: &mut Association<S>,
        remote: SocketAddr,
        payload: &[u8],
        around: &mut Around<'_, O, P>,
    ) {
        if !a.peers.contains_key(&remote) && !self.admit_peer(a, remote, around) {
            return;
        }
        let outer = &mut a.outer[usize::from(remote.is_ipv6())];
        if outer.is_none() {
            let leg = self.proxies.leg(id);
            let any: IpAddr = match remote {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let key = SessionKey::Udp(SocketAddr::new(any, 0));
            match around.outside.open(leg.token(), &key) {
                Ok(socket) => *outer = Some(Socket { socket, leg }),
                Err(_) => drop(self.proxies.legs.remove(leg)),
            }
        }
        let (Some(outer), Some(peer)) = (outer, a.peers.get_mut(&remote)) else {
            self.counts.sessions_not_opened += 1;
            return;
        };
        let to = peer.to;
        let what = Outgoing { to, ttl: TTL, tos: 0, seq: 0, segment_size: 0, payload };
        match around.outside.send(&mut outer.socket, &what) {
            Ok(()) => {
                peer.bytes_up += payload.len() as u64;
                self.counts.datagrams_up += 1;
            }
            Err(_) => self.counts.datagrams_not_sent += 1,
        }
    }

    /// May the client send something to this host?
    fn admit_peer<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        a: &mut Association<S>,
        remote: SocketAddr,
        around: &mut Around<'_, O, P>,
    ) -> bool {
        if !self.config.budget.admits(Limit::GatewaySessionPeers, a.peers.len()) {
            self.counts.datagrams_without_room += 1;
            return false;
        }
        let ends = Ends { guest: a.client, remote };
        let to = match around.policy.udp(&ends) {
            Verdict::Allow => remote,
            Verdict::To(to) => to,
            _ => {
                self.counts.datagrams_refused += 1;
                return false;
            }
        };
        a.peers.insert(remote, Peer { to, since: around.now, bytes_up: 0, bytes_down: 0 });
        true
    }

    /// Bring answers to the client; returns whether there may be more.
    fn hear_outside<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        a: &mut Association<S>,
        number: usize,
        buffer: &mut [u8],
        around: &mut Around<'_, O, P>,
    ) -> bool {
        let Some(Some(outer)) = a.outer.get_mut(number) else { return false };
        // SOCKS has no words for them.
        while around.outside.take_error(&mut outer.socket).is_some() {
            self.counts.datagram_errors += 1;
        }
        for _ in 0..A_TURN {
            let Some(got) = around.outside.receive(&mut outer.socket, buffer) else { return false };
            let is_direct = |peer: &Peer| peer.to == got.from;
            let remote = match a.peers.get(&got.from).is_some_and(is_direct) {
                true => Some(got.from),
                false => a.peers.iter().find(|(_, peer)| is_direct(peer)).map(|(&at, _)| at),
            };
            let Some((remote, peer)) = remote.and_then(|at| Some((at, a.peers.get_mut(&at)?)))
            else {
                self.counts.datagrams_filtered += 1;
                continue;
            };
            let all = buffer.get(..got.bytes).unwrap_or(&[]);
            peer.bytes_down += all.len() as u64;
            let size = match usize::from(got.segment_size) {
                0 => all.len().max(1),
                size => size,
            };
            for payload in all.chunks(size) {
                let message = [&header(remote), payload].concat();
                let (to, payload) = (a.client, &message[..]);
                let what = Outgoing { to, ttl: TTL, tos: 0, seq: 0, segment_size: 0, payload };
                match around.outside.send(&mut a.relay.socket, &what) {
                    Ok(()) => self.counts.datagrams_down += 1,
                    Err(_) => self.counts.datagrams_lost += 1,
                }
            }
        }
        true
    }

    /// The client's connection has ended.
    pub(super) fn end_association<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        association: Association<S>,
        end: End,
        around: &mut Around<'_, O, P>,
    ) {
        association.reports(end).into_iter().for_each(|report| self.reports.push(report));
        self.forget_lookups(id);
        let Association { relay, outer, .. } = association;
        for Socket { socket, leg } in outer.into_iter().flatten().chain([relay]) {
            self.proxies.legs.remove(leg);
            around.outside.close(socket);
        }
    }
}
