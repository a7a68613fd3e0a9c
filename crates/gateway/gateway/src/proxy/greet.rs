//! A turn of a client, and its way from the first byte to a request.
//!
//! Called by: `proxy.rs`.

use std::io::{IoSlice, IoSliceMut};

use base::Instant;

use super::Proxies;
use super::client::{Client, ENDING, Next, State};
use super::ids::ClientId;
use super::protocol::{Handshake, No, Request, Target, Wish, Wrong};
use crate::around::Around;
use crate::gateway::Gateway;
use crate::outside::{Outside, Stop};
use crate::policy::Policy;
use crate::report::End;

/// Bytes of a read.
const READ_BYTES: usize = 4_096;

impl<T, S> Gateway<T, S> {
    /// Let a client do what it can; `false` if it ends.
    pub(super) fn serve<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        client: &mut Client<T, S>,
        around: &mut Around<'_, O, P>,
    ) -> bool {
        client.has_more = false;
        client.near.note(self.proxies.legs.get_mut(client.near.leg));
        if let State::Connecting(_, far) | State::Open(_, far) = &mut client.state {
            far.note(self.proxies.legs.get_mut(far.leg));
        }
        loop {
            let next = match core::mem::replace(&mut client.state, State::Ending) {
                State::Greeting(handshake) => self.greet(id, client, handshake, around),
                State::Resolving(lookup, port) => {
                    self.resolving(id, client, (lookup, port), around)
                }
                State::Asking(attempt) => self.asking(id, client, attempt, around),
                State::Connecting(attempt, far) => {
                    self.client_connecting(id, client, (attempt, far), around)
                }
                State::Open(attempt, far) => self.move_client_bytes(client, (attempt, far), around),
                State::Associated(association) => {
                    self.relay_datagrams(id, client, association, around)
                }
                State::Ending => self.ending(client, around),
            };
            match next {
                Next::Waits(state) => {
                    client.state = state;
                    return true;
                }
                Next::Goes(state) => client.state = state,
                Next::Over(state, end) => {
                    client.state = state;
                    client.end = end;
                    return false;
                }
            }
        }
    }

    fn greet<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        client: &mut Client<T, S>,
        mut handshake: Handshake,
        around: &mut Around<'_, O, P>,
    ) -> Next<T, S> {
        if client.is_late {
            return Next::Over(State::Ending, End::Evicted);
        }
        if let Err(end) = read(client, around.outside).and_then(|()| flush(client, around.outside))
        {
            return Next::Over(State::Ending, end);
        }
        let credentials = self.proxies.credentials.as_ref();
        match handshake.take(&mut client.up, &mut client.down, credentials) {
            Ok(Some(request)) => self.request(id, client, request, around),
            Ok(None) if client.near.has_ended => Next::Over(State::Ending, End::Finished),
            Ok(None) => match flush(client, around.outside) {
                Ok(()) => {
                    client.has_more |= client.near.is_readable;
                    Next::Waits(State::Greeting(handshake))
                }
                Err(end) => Next::Over(State::Ending, end),
            },
            Err(wrong) => {
                match wrong {
                    Wrong::Malformed => self.counts.clients_malformed += 1,
                    Wrong::Unauthorized => self.counts.clients_unauthorized += 1,
                }
                self.say_no(id, client, around.now)
            }
        }
    }

    fn request<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        client: &mut Client<T, S>,
        request: Request,
        around: &mut Around<'_, O, P>,
    ) -> Next<T, S> {
        client.speaks = request.speaks;
        client.up.splice(..0, request.first);
        match request.wish {
            Wish::Connect(Target::Address(to)) => self.attempt(id, client, vec![to], around),
            Wish::Connect(Target::Name(name, port)) => match self.look_up(id, 0, name, around) {
                Some(lookup) => Next::Waits(State::Resolving(lookup, port)),
                None => self.refuse_client(id, client, No::Name, around.now),
            },
            Wish::Associate(port) => self.associate(id, client, port, around),
        }
    }

    /// A client hears why it does not get what it wants.
    pub(super) fn refuse_client(
        &mut self,
        id: ClientId,
        client: &mut Client<T, S>,
        why: No,
        now: Instant,
    ) -> Next<T, S> {
        let no = client.speaks.no(why);
        client.down.extend(no);
        self.say_no(id, client, now)
    }

    fn say_no(&mut self, id: ClientId, client: &mut Client<T, S>, now: Instant) -> Next<T, S> {
        client.is_late = false;
        self.proxies.set_deadline(id, client, now + ENDING);
        Next::Goes(State::Ending)
    }

    /// Send what is left to say, and wait until the client has read it: closing earlier would reset
    /// the connection, because bytes of it may be unread.
    fn ending<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        client: &mut Client<T, S>,
        around: &mut Around<'_, O, P>,
    ) -> Next<T, S> {
        client.up.clear();
        let moved = flush(client, around.outside).and_then(|()| read(client, around.outside));
        if client.is_late || moved.is_err() || client.near.has_ended && client.down.is_empty() {
            return Next::Over(State::Ending, End::Finished);
        }
        if client.down.is_empty() && !client.near.is_over {
            client.near.is_over = true;
            around.outside.tcp_shutdown(&mut client.near.tcp);
        }
        client.has_more |= client.near.is_readable;
        Next::Waits(State::Ending)
    }

    /// A client ends: its connections do, its flows are reported.
    pub(super) fn end_client<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        id: ClientId,
        client: Client<T, S>,
        around: &mut Around<'_, O, P>,
    ) {
        let Proxies { clients, legs, deadlines, .. } = &mut self.proxies;
        clients.remove(id);
        deadlines.remove(&(client.deadline, id));
        legs.remove(client.near.leg);
        let end = client.end;
        let has_finished = end == End::Finished;
        match end {
            End::Finished => {}
            End::ResetByGuest => self.counts.reset_by_guest += 1,
            End::ResetByOutside(_) => self.counts.reset_by_outside += 1,
            _ => {}
        }
        match has_finished {
            true => around.outside.tcp_close(client.near.tcp),
            false => around.outside.tcp_abort(client.near.tcp),
        }
        match client.state {
            State::Connecting(attempt, far) => {
                self.proxies.legs.remove(far.leg);
                around.outside.tcp_abort(far.tcp);
                self.reports.push(attempt.report(end));
            }
            State::Open(attempt, far) => {
                self.counts.finished += u64::from(has_finished);
                self.proxies.legs.remove(far.leg);
                match has_finished {
                    true => around.outside.tcp_close(far.tcp),
                    false => around.outside.tcp_abort(far.tcp),
                }
                self.reports.push(attempt.report(end));
            }
            State::Asking(attempt) => self.reports.push(attempt.report(end)),
            State::Associated(association) => self.end_association(id, *association, end, around),
            State::Resolving(..) => self.forget_lookups(id),
            State::Greeting(_) | State::Ending => {}
        }
    }
}

/// Read a little of what a client has sent.
pub(super) fn read<T, S, O: Outside<Tcp = T, Socket = S>>(
    client: &mut Client<T, S>,
    outside: &mut O,
) -> Result<(), End> {
    let near = &mut client.near;
    if !near.is_readable || near.has_ended {
        return Ok(());
    }
    let mut bytes = [0; READ_BYTES];
    match outside.tcp_receive(&mut near.tcp, &mut [IoSliceMut::new(&mut bytes)]) {
        Ok(received) => {
            near.has_ended = received.bytes == 0;
            near.is_readable = !received.is_drained && !near.has_ended;
            client.up.extend_from_slice(bytes.get(..received.bytes).unwrap_or(&[]));
            Ok(())
        }
        Err(Stop::WouldBlock) => {
            near.is_readable = false;
            Ok(())
        }
        Err(Stop::Failed(_)) => Err(End::ResetByGuest),
    }
}

/// Send what a client has not got yet.
pub(super) fn flush<T, S, O: Outside<Tcp = T, Socket = S>>(
    client: &mut Client<T, S>,
    outside: &mut O,
) -> Result<(), End> {
    while !client.down.is_empty() {
        match outside.tcp_send(&mut client.near.tcp, &[IoSlice::new(&client.down)]) {
            Ok(sent) => drop(client.down.drain(..sent)),
            Err(Stop::WouldBlock) => {
                client.near.is_writable = false;
                return Ok(());
            }
            Err(Stop::Failed(_)) => return Err(End::ResetByGuest),
        }
    }
    Ok(())
}
