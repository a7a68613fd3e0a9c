//! Datagrams and echo requests of guests: each finds its session, or begins one; a peer that the
//! session does not know is the policy's to judge.
//!
//! Called by: `gateway.rs`.

use core::net::SocketAddr;

use base::{Instant, Limit};
use stack::{
    ErrorKind, ForeignDatagram, ForeignError, ForeignFlow, ForeignKind, Stack, Unreachable,
};

use super::session::{Class, Peers, is_over};
use super::{DATAGRAMS_A_TURN, Session, SessionId, SessionKey};
use crate::around::Around;
use crate::gateway::Gateway;
use crate::names::NAMES_PORT;
use crate::outside::{Ends, Failure, Outgoing, Outside};
use crate::policy::{Policy, Verdict};

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
        let Some(&id) = self.sessions.by_key.get(&SessionKey::Udp(guest)) else { return };
        let Some(session) = self.sessions.slots.get_mut(id) else { return };
        session.peers.remove(remote);
        if session.peers.len() == 0 {
            self.end_session(id, around);
        }
    }

    fn send_datagram<O, P>(&mut self, datagram: &ForeignDatagram, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let flow = &datagram.flow;
        let is_question = flow.kind == ForeignKind::Udp && flow.dst.port() == NAMES_PORT;
        if let Some(names) = self.names.as_mut().filter(|_| is_question) {
            return names.question(datagram, around);
        }
        let key = match flow.kind {
            ForeignKind::Udp => SessionKey::Udp(flow.src),
            ForeignKind::Echo { id, .. } => SessionKey::Echo(flow.src.ip(), id),
        };
        let known = self.sessions.by_key.get(&key).copied();
        let peer = known.and_then(|id| self.sessions.slots.get(id)?.peers.get(flow.dst));
        let to = match peer {
            Some(to) => to,
            None => match self.judge(datagram, around) {
                Some(to) => to,
                None => return,
            },
        };
        let id = match known {
            Some(id) => id,
            None => match self.begin_session(key, datagram, around) {
                Some(id) => id,
                None => return,
            },
        };
        let Some(session) = self.sessions.slots.get_mut(id) else { return };
        if peer.is_none() {
            let limit = Limit::GatewaySessionPeers;
            if !self.config.budget.admits(limit, session.peers.len()) {
                self.counts.datagrams_without_room += 1;
                return;
            }
            session.is_rewritten |= to != flow.dst;
            session.peers.add(flow.dst, to);
        }
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
        match around.outside.send(&mut session.socket, &outgoing) {
            Ok(()) => {
                session.bytes.0 += outgoing.payload.len() as u64;
                self.counts.datagrams_up += 1;
            }
            Err(why) => {
                self.counts.datagrams_not_sent += 1;
                refuse(around.stack, datagram, why, around.now);
            }
        }
    }

    /// Where a datagram to a peer that its session does not know leads; `None` if nowhere.
    fn judge<O, P>(
        &mut self,
        datagram: &ForeignDatagram,
        around: &mut Around<'_, O, P>,
    ) -> Option<SocketAddr>
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let ForeignFlow { src, dst, kind } = datagram.flow;
        let ends = Ends { guest: src, remote: dst };
        let verdict = match kind {
            ForeignKind::Udp => around.policy.udp(&ends),
            ForeignKind::Echo { .. } => around.policy.echo(&ends),
        };
        let why = match verdict {
            Verdict::Allow => return Some(dst),
            Verdict::To(to) => return Some(to),
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

    fn begin_session<O, P>(
        &mut self,
        key: SessionKey,
        datagram: &ForeignDatagram,
        around: &mut Around<'_, O, P>,
    ) -> Option<SessionId>
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        let (is_echo, now) = (matches!(key, SessionKey::Echo(..)), around.now);
        let (limit, used) = match is_echo {
            true => (Limit::GatewayEchoes, self.sessions.echoes),
            false => (Limit::GatewaySessions, self.sessions.slots.len() - self.sessions.echoes),
        };
        if !self.config.budget.admits(limit, used) {
            let Some(oldest) = self.sessions.ages.oldest(is_echo, now) else {
                self.counts.datagrams_without_room += 1;
                return None;
            };
            self.counts.sessions_evicted += 1;
            self.end_session(oldest, around);
        }
        let sessions = &mut self.sessions;
        // The socket is opened with the session's token.
        let opened: Result<SessionId, Failure> =
            sessions.slots.try_insert_with_key(|id: SessionId| {
                let socket = around.outside.open(id.token(), &key)?;
                let is_names = datagram.flow.dst.port() == 53 && !is_echo;
                let class = match (is_echo, is_names) {
                    (true, _) => Class::Echo,
                    (false, true) => Class::Names,
                    (false, false) => Class::Single,
                };
                Ok(Session {
                    key,
                    socket,
                    peers: Peers::Few(Vec::new()),
                    is_rewritten: false,
                    is_queued: false,
                    class,
                    exchanged: (0, 0),
                    bytes: (0, 0),
                    since: now,
                    last: now,
                    listed: now,
                })
            });
        match opened {
            Ok(id) => {
                sessions.by_key.insert(key, id);
                sessions.echoes += usize::from(is_echo);
                let class = sessions.slots.get(id).map_or(Class::Single, |session| session.class);
                sessions.ages.add(class, now, id);
                self.counts.sessions_opened += 1;
                Some(id)
            }
            Err(why) => {
                self.counts.sessions_not_opened += 1;
                refuse(around.stack, datagram, why, now);
                None
            }
        }
    }

    pub(crate) fn end_session<O, P>(&mut self, id: SessionId, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        if let Some(socket) = self.sessions.remove(id) {
            around.outside.close(socket);
        }
    }

    /// End sessions whose life is over.
    pub(crate) fn expire_sessions<O, P>(&mut self, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        while let Some(id) = self.sessions.ages.due(around.now) {
            let Some(session) = self.sessions.slots.get_mut(id) else { return };
            if is_over(session, around.now) {
                self.counts.sessions_expired += 1;
                self.end_session(id, around);
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

/// Tell the guest that its datagram was not sent.
fn refuse(stack: &mut Stack, datagram: &ForeignDatagram, why: Failure, now: Instant) {
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
