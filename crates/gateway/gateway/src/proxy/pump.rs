//! Bytes of a client's flow, in both directions.
//!
//! Called by: `greet.rs`. A side is read only while the other takes what it got, so that a slow
//! reader holds its peer back; [`CHUNK`] bytes wait at most.

use std::io::{IoSlice, IoSliceMut};

use super::client::{Attempt, Client, Next, Side, State};
use crate::TURN_BYTES;
use crate::around::Around;
use crate::gateway::Gateway;
use crate::outside::{Failure, Outside, Stop};
use crate::policy::{Glance, Policy};
use crate::report::End;

/// Bytes that are moved at once.
const CHUNK: usize = 64 * 1024;
/// Bytes that a policy sees.
const HELLO_MAX: usize = 16 * 1024;

/// Why a direction stops.
enum Halt {
    /// A side has no bytes or no room now.
    Waits,
    /// It has moved what it may in a turn.
    UsedUp,
    /// The side that is read, or the one that is written to, has failed.
    From(Failure),
    To(Failure),
}

impl<T, S> Gateway<T, S> {
    pub(super) fn move_client_bytes<O: Outside<Tcp = T, Socket = S>, P: Policy>(
        &mut self,
        client: &mut Client<T, S>,
        (mut attempt, mut far): (Attempt, Side<T>),
        around: &mut Around<'_, O, P>,
    ) -> Next<T, S> {
        if attempt.wants_hello
            && let Err(end) = glance(client, &mut attempt, around)
        {
            self.counts.refused_by_hello += u64::from(end == End::Refused);
            return Next::Over(State::Open(attempt, far), end);
        }
        let mut buffer = core::mem::take(&mut self.proxies.buffer);
        buffer.resize(CHUNK, 0);
        let outside = &mut *around.outside;
        let mut halts = [Halt::Waits, Halt::Waits];
        let mut moved = [0, 0];
        if !attempt.wants_hello {
            let (near, up) = (&mut client.near, &mut client.up);
            (moved[0], halts[0]) = pump((near, &mut far), up, &mut buffer, outside);
        }
        let (near, down) = (&mut client.near, &mut client.down);
        (moved[1], halts[1]) = pump((&mut far, near), down, &mut buffer, outside);
        self.proxies.buffer = buffer;
        attempt.bytes_up += moved[0];
        attempt.bytes_down += moved[1];
        self.counts.bytes_up += moved[0];
        self.counts.bytes_down += moved[1];
        for (halt, is_up) in halts.into_iter().zip([true, false]) {
            let end = match (halt, is_up) {
                (Halt::Waits, _) => continue,
                (Halt::UsedUp, _) => {
                    self.counts.budgets_used_up += 1;
                    client.has_more = true;
                    continue;
                }
                (Halt::From(_), true) | (Halt::To(_), false) => End::ResetByGuest,
                (Halt::To(why), true) | (Halt::From(why), false) => End::ResetByOutside(why),
            };
            return Next::Over(State::Open(attempt, far), end);
        }
        match client.near.is_over && far.is_over {
            true => Next::Over(State::Open(attempt, far), End::Finished),
            false => Next::Waits(State::Open(attempt, far)),
        }
    }
}

/// Show the policy what a client has sent first.
fn glance<T, S, O: Outside<Tcp = T, Socket = S>, P: Policy>(
    client: &mut Client<T, S>,
    attempt: &mut Attempt,
    around: &mut Around<'_, O, P>,
) -> Result<(), End> {
    loop {
        let before = client.up.len();
        super::greet::read(client, around.outside)?;
        let is_all = client.near.has_ended || client.up.len() >= HELLO_MAX;
        let seen = client.up.get(..HELLO_MAX).unwrap_or(&client.up);
        match around.policy.hello(&attempt.ends, seen, is_all) {
            Glance::More if !is_all && client.up.len() > before => {}
            Glance::More if !is_all => return Ok(()),
            Glance::More | Glance::Pass => {
                attempt.wants_hello = false;
                return Ok(());
            }
            Glance::Refuse => return Err(End::Refused),
        }
    }
}

/// Move bytes from one side to the other; returns how many the other has taken.
fn pump<O: Outside>(
    (from, to): (&mut Side<O::Tcp>, &mut Side<O::Tcp>),
    staged: &mut Vec<u8>,
    buffer: &mut [u8],
    outside: &mut O,
) -> (u64, Halt) {
    let mut moved = 0;
    while moved < TURN_BYTES as u64 {
        if from.is_over {
            return (moved, Halt::Waits);
        }
        if !staged.is_empty() {
            match send(to, staged, outside) {
                Ok(0) => return (moved, Halt::Waits),
                Ok(taken) => {
                    moved += taken as u64;
                    staged.drain(..taken);
                }
                Err(why) => return (moved, Halt::To(why)),
            }
            continue;
        }
        staged.shrink_to_fit();
        if from.has_ended {
            outside.tcp_shutdown(&mut to.tcp);
            from.is_over = true;
            return (moved, Halt::Waits);
        }
        if !from.is_readable || !to.is_writable {
            return (moved, Halt::Waits);
        }
        match outside.tcp_receive(&mut from.tcp, &mut [IoSliceMut::new(buffer)]) {
            Ok(received) if received.bytes == 0 => from.has_ended = true,
            Ok(received) => {
                from.is_readable = !received.is_drained;
                let bytes = buffer.get(..received.bytes).unwrap_or(&[]);
                match send(to, bytes, outside) {
                    Ok(taken) => {
                        moved += taken as u64;
                        staged.extend_from_slice(bytes.get(taken..).unwrap_or(&[]));
                    }
                    Err(why) => return (moved, Halt::To(why)),
                }
            }
            Err(Stop::WouldBlock) => {
                from.is_readable = false;
                return (moved, Halt::Waits);
            }
            Err(Stop::Failed(why)) => return (moved, Halt::From(why)),
        }
    }
    (moved, Halt::UsedUp)
}

/// Send; returns how many bytes were taken.
fn send<O: Outside>(
    to: &mut Side<O::Tcp>,
    bytes: &[u8],
    outside: &mut O,
) -> Result<usize, Failure> {
    if !to.is_writable {
        return Ok(0);
    }
    match outside.tcp_send(&mut to.tcp, &[IoSlice::new(bytes)]) {
        Ok(taken) => {
            to.is_writable = taken == bytes.len();
            Ok(taken)
        }
        Err(Stop::WouldBlock) => {
            to.is_writable = false;
            Ok(0)
        }
        Err(Stop::Failed(why)) => Err(why),
    }
}
