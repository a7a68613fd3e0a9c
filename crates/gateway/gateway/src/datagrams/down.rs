//! Answers and errors of the outside: each goes to its session's guest, in the name of the address
//! that the guest used, if the filter lets it.
//!
//! Called by: `gateway.rs`.

use base::Instant;
use stack::{ForeignFlow, ForeignKind, IpSettings, Stack};

use super::{A_SESSION, DATAGRAM_BYTES_MAX, DATAGRAMS_A_TURN, Session, SessionKey};
use crate::around::Around;
use crate::config::Config;
use crate::counts::Counts;
use crate::gateway::Gateway;
use crate::outside::{Incoming, Outside};
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
            let took =
                bring(session, &mut legs, &mut buffer, most, (&self.config, &mut self.counts));
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
    session: &mut Session<O::Socket>,
    (stack, outside, now): &mut (&mut Stack, &mut O, Instant),
    buffer: &mut [u8],
    most: usize,
    (config, counts): (&Config, &mut Counts),
) -> usize {
    for took in 0..most {
        if let Some(problem) = outside.take_error(&mut session.socket) {
            counts.datagram_errors += 1;
            let (src, kind) = match session.key {
                SessionKey::Udp(guest) => (guest, ForeignKind::Udp),
                SessionKey::Echo(guest, id) => {
                    let kind = ForeignKind::Echo { id, seq: problem.seq };
                    (core::net::SocketAddr::new(guest, 0), kind)
                }
                // No session of a guest.
                SessionKey::Names(_) => continue,
            };
            // Errors about what the guest has not sent are nothing for it.
            if let Some(dst) = session.seen_as(problem.to, super::Filtering::AddressAndPort) {
                let about = ForeignFlow { src, dst, kind };
                let (len, error, from) = (problem.payload_len, problem.error, problem.offender);
                // Beyond the limit of errors the guest learns nothing; the stack counts that.
                let _ = stack.icmp_error(&about, len, error, from, *now);
            }
            continue;
        }
        let Some(got) = outside.receive(&mut session.socket, buffer) else { return took };
        let Incoming { from, ttl, seq, bytes, segment_size } = got;
        let Some(seen) = session.seen_as(from, config.filtering) else {
            counts.datagrams_filtered += 1;
            continue;
        };
        session.exchanged.1 = session.exchanged.1.saturating_add(1).min(2);
        let payload = &buffer[..bytes.min(buffer.len())];
        let ip = IpSettings { ttl, ..IpSettings::default() };
        let size = usize::from(segment_size);
        let sent = match session.key {
            SessionKey::Udp(guest) if size > 0 && size < payload.len() => {
                let sent = stack.udp_send_segments_between((seen, guest), ip, payload, size, *now);
                sent.is_ok_and(|sent| sent == payload.len())
            }
            SessionKey::Udp(guest) => {
                stack.udp_send_between(seen, guest, ip, payload, *now).is_ok()
            }
            SessionKey::Echo(guest, id) => {
                let to = core::net::SocketAddr::new(guest, 0);
                stack.echo_reply((seen.ip(), to), (id, seq), ip, payload, *now).is_ok()
            }
            SessionKey::Names(_) => false,
        };
        match sent {
            true => {
                session.bytes.1 += bytes as u64;
                counts.datagrams_down += 1;
            }
            false => counts.datagrams_lost += 1,
        }
    }
    most
}
