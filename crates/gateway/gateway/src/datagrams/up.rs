//! Datagrams and echo requests of guests: each finds its session, or begins one; a peer that the
//! session does not know is the policy's to judge.
//!
//! Called by: `gateway.rs`.

use core::net::SocketAddr;

use base::{Instant, Limit};
use stack::{
    ErrorKind, ForeignDatagram, ForeignError, ForeignFlow, ForeignKind, Stack, Unreachable,
};

use super::published::forget;
use super::session::{Class, Peer, is_over};
use super::{DATAGRAMS_A_TURN, Session, SessionId, SessionKey, Sessions};
use crate::around::Around;
use crate::gateway::Gateway;
use crate::names::NAMES_PORT;
use crate::outside::{Ends, Failure, Outgoing, Outside};
use crate::policy::{Policy, Verdict};
use crate::report::{End, Protocol, Report};

impl<T, S> Gateway<T, S> {
    /// Send what guests have sent.
    pub(crate) fn send_datagrams<O, P>(&mut self, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        if !self.sessions.has_input {
            return;
        }
        let mut input = core::mem::take(&mut self.sessions.input);
        let taken = around.stack.foreign_receive(&mut input, DATAGRAMS_A_TURN);
        for datagram in input.drain(..) {
            self.send_datagram(&datagram, around);
            around.stack.give_back(datagram.payload);
        }
        self.sessions.input = input;
        let errors = (0..DATAGRAMS_A_TURN).map_while(|_| {
            let error = around.stack.foreign_take_error()?;
            self.unwanted(&error, around);
            Some(())
        });
        let errors = errors.count();
        self.sessions.has_input = taken.max(errors) == DATAGRAMS_A_TURN;
    }

    /// A guest's port has no program any more, or none for this peer: the peer's datagrams are not
    /// let in before the guest sends it something again. A session without peers ends, so that the
    /// outside says "port unreachable" itself.
    fn unwanted<O, P>(&mut self, error: &ForeignError, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let ForeignFlow { src: remote, dst: guest, .. } = error.about;
        let is_refusal = matches!(error.error, ErrorKind::Unreachable(_));
        // Another host of the guest's network could say so too.
        if !is_refusal || error.from != guest.ip() {
            return;
        }
        self.counts.datagrams_unwanted += 1;
        let ends = Ends { guest, remote };
        if forget(&ends, End::ResetByGuest, &mut self.sessions.clients, &mut self.reports) {
            return;
        }
        let Some(&id) = self.sessions.by_key.get(&SessionKey::Udp(guest)) else { return };
        let Some(session) = self.sessions.slots.get_mut(id) else { return };
        let is_over = session.peers.len() == 1 && session.class != Class::Published;
        match session.peers.remove(remote) {
            Some(peer) => self.report_peer((Protocol::Udp, ends), End::ResetByGuest, &peer),
            None => return,
        }
        if is_over {
            self.end_session(id, End::ResetByGuest, around);
        }
    }

    fn send_datagram<O, P>(&mut self, datagram: &ForeignDatagram, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let flow = &datagram.flow;
        if flow.kind == ForeignKind::Udp && !self.sessions.clients.is_empty() {
            let ends = Ends { guest: flow.src, remote: flow.dst };
            if let Some((id, to)) = self.sessions.clients.get(&ends) {
                return self.carry(id, to, datagram, around);
            }
        }
        let is_question = flow.kind == ForeignKind::Udp && flow.dst.port() == NAMES_PORT;
        if let Some(names) = self.names.as_mut().filter(|_| is_question) {
            return names.question(datagram, around);
        }
        let key = match flow.kind {
            ForeignKind::Udp => SessionKey::Udp(flow.src),
            ForeignKind::Echo { id, .. } => SessionKey::Echo(flow.src.ip(), id),
        };
        let known = self.sessions.by_key.get(&key).copied();
        let session = known.and_then(|id| self.sessions.slots.get(id));
        let before = session.and_then(|session| session.peers.get(flow.dst)).copied();
        let peer = match before.or_else(|| self.judge(datagram, around)) {
            Some(peer) => peer,
            None => return,
        };
        let id = match known {
            Some(id) => id,
            None => match self.begin_session(key, datagram, around) {
                Ok(id) => id,
                Err(end) => return self.report_peer(ends_of(flow), end, &peer),
            },
        };
        if before.is_none() && !self.add_peer(id, flow, peer) {
            return;
        }
        if !peer.is_watched || self.passes(id, datagram, around) {
            self.carry(id, peer.to, datagram, around);
        }
    }

    /// A session has another peer, if there is room.
    fn add_peer(&mut self, id: SessionId, flow: &ForeignFlow, peer: Peer) -> bool {
        let Some(session) = self.sessions.slots.get_mut(id) else { return false };
        let limit = Limit::GatewaySessionPeers;
        if !self.config.budget.admits(limit, session.peers.len()) {
            self.counts.datagrams_without_room += 1;
            self.report_peer(ends_of(flow), End::Unanswered, &peer);
            return false;
        }
        session.is_rewritten |= peer.to != flow.dst;
        session.peers.add(flow.dst, peer);
        true
    }

    /// Send a datagram by its session.
    fn carry<O, P>(
        &mut self,
        id: SessionId,
        to: SocketAddr,
        datagram: &ForeignDatagram,
        around: &mut Around<'_, O, P>,
    ) where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let flow = &datagram.flow;
        let Some(session) = self.sessions.slots.get_mut(id) else { return };
        session.last = around.now;
        session.exchanged.0 = session.exchanged.0.saturating_add(1).min(2);
        let class = session.class_now(flow.dst.port() == 53);
        self.sessions.ages.renew(session, id, class);
        let seq = if let ForeignKind::Echo { seq, .. } = flow.kind { seq } else { 0 };
        let outgoing = Outgoing {
            to,
            ttl: datagram.ttl,
            tos: datagram.tos,
            seq,
            segment_size: datagram.segment_size,
            payload: datagram.payload.as_slice(),
        };
        if let Err(why) = around.outside.send(&mut session.socket, &outgoing) {
            self.counts.datagrams_not_sent += 1;
            return refuse(around.stack, datagram, why, around.now);
        }
        self.counts.datagrams_up += 1;
        let bytes = outgoing.payload.len() as u64;
        self.counts.datagram_bytes_up += bytes;
        session.bytes.0 += bytes;
        match session.peers.get_mut(flow.dst) {
            Some(peer) => peer.bytes.0 += bytes,
            None => self.sessions.clients.used(&ends_of(flow).1, (bytes, 0), around.now),
        }
    }

    /// The peer of a datagram that its session does not know; `None` if it may not have one.
    fn judge<O, P>(
        &mut self,
        datagram: &ForeignDatagram,
        around: &mut Around<'_, O, P>,
    ) -> Option<Peer>
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let dst = datagram.flow.dst;
        let (protocol, ends) = ends_of(&datagram.flow);
        let is_echo = protocol == Protocol::Echo;
        let verdict = match is_echo {
            false => around.policy.udp(&ends),
            true => around.policy.echo(&ends),
        };
        let why = match verdict {
            Verdict::Allow => {
                let is_watched = !is_echo && around.policy.wants_datagrams(&ends);
                return Some(Peer { is_watched, ..Peer::new(dst, around.now) });
            }
            Verdict::To(to) => return Some(Peer::new(to, around.now)),
            Verdict::Reset if is_echo => Some(Unreachable::Prohibited),
            Verdict::Reset => Some(Unreachable::Port),
            Verdict::Unreachable(why) => Some(why),
            // Somebody may allow it later; datagrams are not held.
            Verdict::Drop | Verdict::Ask => None,
        };
        self.counts.datagrams_refused += 1;
        if let Some(why) = why {
            refuse(around.stack, datagram, Failure::Unreachable(why), around.now);
        }
        None
    }

    /// Begin a session, or say how its first flow ends.
    fn begin_session<O, P>(
        &mut self,
        key: SessionKey,
        datagram: &ForeignDatagram,
        around: &mut Around<'_, O, P>,
    ) -> Result<SessionId, End>
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let (is_echo, now) = (matches!(key, SessionKey::Echo(..)), around.now);
        let Sessions { slots, echoes, published, .. } = &self.sessions;
        let (limit, used) = match is_echo {
            true => (Limit::GatewayEchoes, *echoes),
            false => (Limit::GatewaySessions, slots.len() - echoes - published),
        };
        if !self.config.budget.admits(limit, used) {
            let Some(oldest) = self.sessions.ages.oldest(is_echo, now) else {
                self.counts.datagrams_without_room += 1;
                return Err(End::Unanswered);
            };
            self.counts.sessions_evicted += 1;
            self.end_session(oldest, End::Evicted, around);
        }
        let is_names = datagram.flow.dst.port() == 53 && !is_echo;
        let class = match (is_echo, is_names) {
            (true, _) => Class::Echo,
            (false, true) => Class::Names,
            (false, false) => Class::Single,
        };
        let sessions = &mut self.sessions;
        // The socket is opened with the session's token.
        let opened: Result<SessionId, Failure> =
            sessions.slots.try_insert_with_key(|id: SessionId| {
                let socket = around.outside.open(id.token(), &key)?;
                Ok(Session::new(key, socket, class, now))
            });
        match opened {
            Ok(id) => {
                sessions.by_key.insert(key, id);
                sessions.echoes += usize::from(is_echo);
                sessions.ages.add(class, now, id);
                self.counts.sessions_opened += 1;
                Ok(id)
            }
            Err(why) => {
                self.counts.sessions_not_opened += 1;
                refuse(around.stack, datagram, why, now);
                Err(End::NotConnected(why))
            }
        }
    }

    pub(crate) fn end_session<O, P>(
        &mut self,
        id: SessionId,
        end: End,
        around: &mut Around<'_, O, P>,
    ) where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let Some(mut session) = self.sessions.remove(id) else { return };
        for (remote, peer) in session.peers.take() {
            self.report_peer(session.ends(remote), end, &peer);
        }
        while let Some(ends) = self.sessions.clients.oldest(id) {
            forget(&ends, end, &mut self.sessions.clients, &mut self.reports);
        }
        self.sessions.clients.end(id);
        around.outside.close(session.socket);
    }

    /// Report what a session has exchanged with a peer.
    pub(super) fn report_peer(
        &mut self,
        (protocol, ends): (Protocol, Ends),
        end: End,
        peer: &Peer,
    ) {
        let (bytes_up, bytes_down) = peer.bytes;
        self.reports.push(Report { protocol, ends, end, since: peer.since, bytes_up, bytes_down });
    }

    /// End sessions whose life is over.
    pub(crate) fn expire_sessions<O, P>(&mut self, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        self.expire_clients(around.now);
        while let Some(id) = self.sessions.ages.due(around.now) {
            let Some(session) = self.sessions.slots.get_mut(id) else { return };
            if is_over(session, around.now) {
                self.counts.sessions_expired += 1;
                self.end_session(id, End::Finished, around);
            } else {
                // Its place in the list was behind.
                let (class, last) = (session.class, session.last);
                let listed = core::mem::replace(&mut session.listed, last);
                self.sessions.ages.remove(class, listed, id);
                self.sessions.ages.add(class, last, id);
            }
        }
    }
}

impl<S> Session<S> {
    /// Its ends with a peer, as the guest sees them, and what they are of.
    pub(crate) fn ends(&self, remote: SocketAddr) -> (Protocol, Ends) {
        match self.key {
            SessionKey::Echo(ip, id) => {
                (Protocol::Echo, Ends { guest: SocketAddr::new(ip, id), remote })
            }
            SessionKey::Udp(guest) => (Protocol::Udp, Ends { guest, remote }),
            // No session of a guest.
            SessionKey::Names(_) => (Protocol::Udp, Ends { guest: remote, remote }),
        }
    }
}

/// The ends of a flow, and what it is of.
pub(super) fn ends_of(flow: &ForeignFlow) -> (Protocol, Ends) {
    let &ForeignFlow { src: guest, dst: remote, kind } = flow;
    match kind {
        ForeignKind::Udp => (Protocol::Udp, Ends { guest, remote }),
        ForeignKind::Echo { id, .. } => {
            (Protocol::Echo, Ends { guest: SocketAddr::new(guest.ip(), id), remote })
        }
    }
}

/// Tell the guest that its datagram was not sent.
pub(super) fn refuse(stack: &mut Stack, datagram: &ForeignDatagram, why: Failure, now: Instant) {
    let why = match why {
        Failure::Refused | Failure::Reset => Unreachable::Port,
        Failure::Unreachable(why) => why,
        Failure::TimedOut => Unreachable::Host,
        // Lost, as in a full queue.
        Failure::Full => return,
    };
    let (flow, len) = (&datagram.flow, datagram.payload.len());
    // Beyond the limit of errors the guest learns nothing; the stack counts that.
    let _ = stack.icmp_error(flow, len, ErrorKind::Unreachable(why), flow.dst.ip(), now);
}
