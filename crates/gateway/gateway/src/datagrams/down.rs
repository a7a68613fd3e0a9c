//! Answers and errors of the outside: each goes to its session's guest, in the name of the address
//! that the guest used, if the filter lets it.
//!
//! Called by: `gateway.rs`.

use core::net::SocketAddr;

use base::Instant;
use stack::{ForeignFlow, ForeignKind, IpSettings, Stack};

use super::published::Books;
use super::session::Class;
use super::{
    A_SESSION, DATAGRAM_BYTES_MAX, DATAGRAMS_A_TURN, Filtering, Session, SessionId, SessionKey,
};
use crate::around::Around;
use crate::gateway::Gateway;
use crate::outside::{Incoming, Outside, Problem};
use crate::policy::Policy;

impl<T, S> Gateway<T, S> {
    /// Bring what the outside has for guests.
    pub(crate) fn receive_datagrams<O, P>(&mut self, around: &mut Around<'_, O, P>)
    where
        O: Outside<Tcp = T, Socket = S>,
        P: Policy,
    {
        if self.sessions.queue.is_empty() {
            return;
        }
        let mut left = DATAGRAMS_A_TURN;
        let mut buffer = core::mem::take(&mut self.sessions.buffer);
        buffer.resize(DATAGRAM_BYTES_MAX, 0);
        for _ in 0..self.sessions.queue.len() {
            if left == 0 {
                break;
            }
            let Some(id) = self.sessions.queue.pop_front() else { break };
            let Some(session) = self.sessions.slots.get_mut(id) else { continue };
            session.is_queued = false;
            let most = left.min(A_SESSION);
            let mut legs = (&mut *around.stack, &mut *around.outside, around.now);
            let mut books = Books {
                config: &mut self.config,
                counts: &mut self.counts,
                clients: &mut self.sessions.clients,
                reports: &mut self.reports,
            };
            let took = bring((id, session), &mut legs, &mut buffer, most, &mut books);
            left -= took;
            let class = session.class_now(session.class == super::session::Class::Names);
            self.sessions.ages.renew(session, id, class);
            if took == most {
                self.sessions.ready(id);
            }
        }
        self.sessions.buffer = buffer;
    }
}

/// Bring up to `most` datagrams and errors of one session; returns how many.
fn bring<O: Outside>(
    (id, session): (SessionId, &mut Session<O::Socket>),
    (stack, outside, now): &mut (&mut Stack, &mut O, Instant),
    buffer: &mut [u8],
    most: usize,
    books: &mut Books<'_>,
) -> usize {
    for took in 0..most {
        if let Some(problem) = outside.take_error(&mut session.socket) {
            books.counts.datagram_errors += 1;
            report((id, session), &problem, (stack, *now), books);
            continue;
        }
        let Some(got) = outside.receive(&mut session.socket, buffer) else { return took };
        let Some(seen) = seen_as((id, session), got.from, (stack, *now), books) else { continue };
        session.exchanged.1 = session.exchanged.1.saturating_add(1).min(2);
        let payload = &buffer[..got.bytes.min(buffer.len())];
        if !send(session.key, seen, &got, payload, (stack, *now)) {
            books.counts.datagrams_lost += 1;
            continue;
        }
        books.counts.datagrams_down += 1;
        let bytes = payload.len() as u64;
        books.counts.datagram_bytes_down += bytes;
        session.bytes.1 += bytes;
        match session.peers.get_mut(seen) {
            Some(peer) => peer.bytes.1 += bytes,
            None => books.clients.used(&session.ends(seen).1, (0, bytes), *now),
        }
    }
    most
}

/// The source that the guest sees for a datagram; `None` if it is not let in.
fn seen_as<S>(
    (id, session): (SessionId, &Session<S>),
    from: SocketAddr,
    (stack, now): (&Stack, Instant),
    books: &mut Books<'_>,
) -> Option<SocketAddr> {
    let (SessionKey::Udp(guest), Class::Published) = (session.key, session.class) else {
        let seen = session.seen_as(from, books.config.filtering);
        books.counts.datagrams_filtered += u64::from(seen.is_none());
        return seen;
    };
    if let Some(seen) = session.seen_as(from, Filtering::AddressAndPort) {
        return Some(seen);
    }
    if !books.clients.admits(id, from) {
        books.counts.datagrams_filtered += 1;
        return None;
    }
    let seen = books.client((id, guest), from, || stack.source_for(guest), now);
    books.counts.datagrams_without_room += u64::from(seen.is_none());
    seen
}

/// Report an error to the guest, if it is about something that the guest has sent.
fn report<S>(
    (id, session): (SessionId, &Session<S>),
    problem: &Problem,
    (stack, now): (&mut Stack, Instant),
    books: &Books<'_>,
) {
    let (src, kind) = match session.key {
        SessionKey::Udp(guest) => (guest, ForeignKind::Udp),
        SessionKey::Echo(guest, id) => {
            (SocketAddr::new(guest, 0), ForeignKind::Echo { id, seq: problem.seq })
        }
        // No session of a guest.
        SessionKey::Names(_) => return,
    };
    let seen = session.seen_as(problem.to, Filtering::AddressAndPort);
    if let Some(dst) = seen.or_else(|| books.clients.seen(id, problem.to)) {
        let about = ForeignFlow { src, dst, kind };
        let (len, error, from) = (problem.payload_len, problem.error, problem.offender);
        // Beyond the limit of errors the guest learns nothing; the stack counts that.
        let _ = stack.icmp_error(&about, len, error, from, now);
    }
}

/// Send to the guest; returns whether the stack took it.
fn send(
    key: SessionKey,
    seen: SocketAddr,
    got: &Incoming,
    payload: &[u8],
    (stack, now): (&mut Stack, Instant),
) -> bool {
    let ip = IpSettings { ttl: got.ttl, ..IpSettings::default() };
    let size = usize::from(got.segment_size);
    match key {
        SessionKey::Udp(guest) if size > 0 && size < payload.len() => {
            let sent = stack.udp_send_segments_between((seen, guest), ip, payload, size, now);
            sent.is_ok_and(|sent| sent == payload.len())
        }
        SessionKey::Udp(guest) => stack.udp_send_between(seen, guest, ip, payload, now).is_ok(),
        SessionKey::Echo(guest, id) => {
            let to = SocketAddr::new(guest, 0);
            stack.echo_reply((seen.ip(), to), (id, got.seq), ip, payload, now).is_ok()
        }
        SessionKey::Names(_) => false,
    }
}
