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
        // Datagrams that wait, and behind them room for the longest one.
        buffer.resize(2 * DATAGRAM_BYTES_MAX, 0);
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

/// Datagrams that were received and go to the guest together: of one peer and one size, of which
/// the last one may be shorter. They are at the beginning of the buffer.
struct Run {
    first: Incoming,
    seen: SocketAddr,
    /// How many they are, and their bytes.
    count: u64,
    bytes: usize,
}

impl Run {
    /// Is this datagram one more of them?
    fn takes(&self, next: &Incoming, seen: SocketAddr) -> bool {
        let Run { first, bytes, .. } = self;
        let is_like = (first.from, first.ttl) == (next.from, next.ttl) && self.seen == seen;
        is_like
            && first.segment_size == 0
            && next.segment_size == 0
            && (1..=first.bytes).contains(&next.bytes)
            && bytes.is_multiple_of(first.bytes)
            && bytes + next.bytes <= DATAGRAM_BYTES_MAX
    }

    /// Send them. Those that do not fit one packet each go alone, in fragments.
    fn send(
        self,
        key: SessionKey,
        buffer: &[u8],
        (stack, now): (&mut Stack, Instant),
        books: &mut Books<'_>,
    ) {
        let Run { first, seen, count, bytes } = self;
        let payload = &buffer[..bytes];
        let segment_size = if count > 1 { first.bytes as u16 } else { first.segment_size };
        if send(key, seen, &Incoming { segment_size, ..first }, payload, (stack, now)) {
            books.counts.datagrams_down += count;
        } else if count == 1 {
            books.counts.datagrams_lost += 1;
        } else {
            for one in payload.chunks(first.bytes.max(1)) {
                match send(key, seen, &first, one, (stack, now)) {
                    true => books.counts.datagrams_down += 1,
                    false => books.counts.datagrams_lost += 1,
                }
            }
        }
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
    let key = session.key;
    let is_udp = matches!(key, SessionKey::Udp(_));
    let mut run: Option<Run> = None;
    let mut took = 0;
    while took < most {
        if let Some(problem) = outside.take_error(&mut session.socket) {
            took += 1;
            books.counts.datagram_errors += 1;
            report((id, session), &problem, (stack, *now), books);
            continue;
        }
        let at = run.as_ref().map_or(0, |run| run.bytes);
        let Some(got) = outside.receive(&mut session.socket, &mut buffer[at..]) else { break };
        took += 1;
        let Some(seen) = seen_as((id, session), got.from, (stack, *now), books) else { continue };
        session.exchanged.1 = session.exchanged.1.saturating_add(1).min(2);
        let bytes = got.bytes.min(buffer.len() - at);
        match &mut run {
            Some(run) if is_udp && run.takes(&got, seen) => {
                (run.count, run.bytes) = (run.count + 1, run.bytes + bytes);
            }
            _ => {
                if let Some(run) = run.take() {
                    run.send(key, buffer, (stack, *now), books);
                }
                buffer.copy_within(at..at + bytes, 0);
                run = Some(Run { first: got, seen, count: 1, bytes });
            }
        }
        // What the guest's link loses later has come as well.
        books.counts.datagram_bytes_down += bytes as u64;
        session.bytes.1 += bytes as u64;
        match session.peers.get_mut(seen) {
            Some(peer) => peer.bytes.1 += bytes as u64,
            None => books.clients.used(&session.ends(seen).1, (0, bytes as u64), *now),
        }
    }
    if let Some(run) = run {
        run.send(key, buffer, (stack, *now), books);
    }
    took
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

/// Send to the guest; returns whether the stack took it, or the first of several.
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
            sent.is_ok()
        }
        SessionKey::Udp(guest) => stack.udp_send_between(seen, guest, ip, payload, now).is_ok(),
        SessionKey::Echo(guest, id) => {
            let to = SocketAddr::new(guest, 0);
            stack.echo_reply((seen.ip(), to), (id, got.seq), ip, payload, now).is_ok()
        }
        SessionKey::Names(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_one_peer_and_one_size_go_together() {
        let from = SocketAddr::from(([192, 0, 2, 1], 53));
        let first = Incoming { from, ttl: 60, seq: 0, bytes: 1_400, segment_size: 0 };
        let mut run = Run { first, seen: from, count: 1, bytes: 1_400 };
        assert!(run.takes(&first, from));
        let last = Incoming { bytes: 1, ..first };
        assert!(run.takes(&last, from), "the last one is shorter");
        let other = SocketAddr::from(([192, 0, 2, 2], 53));
        for (next, seen) in [
            (Incoming { bytes: 1_401, ..first }, from),
            (Incoming { bytes: 0, ..first }, from),
            (Incoming { ttl: 59, ..first }, from),
            (Incoming { from: other, ..first }, from),
            (Incoming { segment_size: 700, ..first }, from),
            (first, other),
        ] {
            assert!(!run.takes(&next, seen), "{next:?}");
        }
        (run.count, run.bytes) = (2, 1_401);
        assert!(!run.takes(&last, from), "nothing follows a shorter one");
        (run.count, run.bytes) = (46, 46 * 1_400);
        assert!(!run.takes(&first, from), "they are as long as a packet at most");
    }
}
