//! Bytes of the guest to the outside: received buffers are handed over as they lie, many in one
//! call. They leave the stack only while the outside takes them, so that the guest's window is the
//! outside's room.
//!
//! Called by: `run.rs`.

use std::io::IoSlice;

use mbuf::Mbuf;
use stack::CallError;

use crate::flow::{Flow, bit};
use crate::outside::{Outside, Stop};
use crate::tcp::Step;
use crate::tcp::run::{Legs, NO_CONNECTION};

/// Buffers of one call.
pub(crate) const BUFFERS_MAX: usize = 64;
/// The most bytes that a received buffer has: an IP packet's.
pub(crate) const BUFFER_BYTES_MAX: usize = 65_535;

/// Move bytes until a side has no more of them or no more room, or `budget` is used up.
pub(crate) fn pump<O: Outside>(
    flow: &mut Flow<O::Tcp>,
    legs: &mut Legs<'_, O>,
    budget: usize,
) -> Step {
    let mut left = budget;
    loop {
        if !flow.has(bit::HOST_WRITABLE) || flow.has(bit::UP_OVER | bit::HELLO) {
            return Step::Idle;
        }
        if flow.stages_up() {
            match send_staged(flow, legs, left) {
                Ok(0) if left == 0 => return Step::UsedUp,
                Ok(sent) => {
                    left -= sent;
                    continue;
                }
                Err(step) => return step,
            }
        }
        if flow.has(bit::GUEST_FIN) {
            if let Some(outer) = &mut flow.outer {
                legs.outside.tcp_shutdown(outer);
            }
            flow.set(bit::UP_OVER);
            return Step::Idle;
        }
        if !flow.has(bit::GUEST_READABLE) {
            return Step::Idle;
        }
        // The next buffer could be this long.
        if left < BUFFER_BYTES_MAX {
            return Step::UsedUp;
        }
        if let Err(step) = gather(flow, legs, left) {
            return step;
        }
    }
}

/// Bytes of the guest that wait.
pub(crate) fn staged_bytes<T>(flow: &Flow<T>) -> usize {
    flow.staged.as_ref().map_or(0, |staged| staged.up.iter().map(Mbuf::len).sum())
}

/// Take buffers from the stack, for one call.
pub(crate) fn gather<O: Outside>(
    flow: &mut Flow<O::Tcp>,
    legs: &mut Legs<'_, O>,
    most: usize,
) -> Result<(), Step> {
    let (handle, mut bytes) = (legs.handle, 0);
    while bytes + BUFFER_BYTES_MAX <= most
        && flow.staged.as_ref().is_none_or(|staged| staged.up.len() < BUFFERS_MAX)
    {
        if flow.has(bit::GUEST_URGENT) && gather_urgent(flow, legs) {
            return Ok(());
        }
        match legs.stack.tcp_read_mbuf(handle) {
            Ok(Some(m)) => {
                bytes += m.len();
                flow.staged(legs.spare).up.push_back(m);
            }
            Ok(None) => {
                flow.set(bit::GUEST_FIN);
                flow.clear(bit::GUEST_READABLE);
                return Ok(());
            }
            Err(CallError::WouldBlock) => {
                flow.clear(bit::GUEST_READABLE);
                return Ok(());
            }
            Err(_) => return Err(Step::GuestFailed),
        }
    }
    Ok(())
}

/// Take the urgent byte if it is the next one; a call ends before it. Returns whether it was taken.
fn gather_urgent<O: Outside>(flow: &mut Flow<O::Tcp>, legs: &mut Legs<'_, O>) -> bool {
    let handle = legs.handle;
    if legs.stack.tcp_at_mark(handle) == Some(true) {
        let mut byte = [0];
        if legs.stack.tcp_read(handle, &mut byte) == Ok(1) {
            flow.staged(legs.spare).urgent = Some(byte[0]);
            return true;
        }
    } else if legs.stack.tcp_urgent_left(handle).is_none_or(|left| left == 0) {
        flow.clear(bit::GUEST_URGENT);
    }
    false
}

/// Send what waits; returns how many bytes the outside took.
fn send_staged<O: Outside>(
    flow: &mut Flow<O::Tcp>,
    legs: &mut Legs<'_, O>,
    most: usize,
) -> Result<usize, Step> {
    let (Some(outer), Some(staged)) = (&mut flow.outer, &mut flow.staged) else {
        return Err(Step::HostFailed(NO_CONNECTION));
    };
    if most == 0 {
        return Ok(0);
    }
    let mut offered = 1;
    let sent = if staged.up.is_empty() {
        match staged.urgent {
            Some(byte) => legs.outside.tcp_send_urgent(outer, byte).map(|()| 1),
            None => return Ok(0),
        }
    } else {
        let mut waiting = staged.up.iter();
        let mut room = most;
        let parts: [IoSlice<'_>; BUFFERS_MAX] = core::array::from_fn(|_| {
            let bytes = waiting.next().map_or(&[][..], |m| m.as_slice());
            let bytes = &bytes[..bytes.len().min(room)];
            room -= bytes.len();
            IoSlice::new(bytes)
        });
        let count = staged.up.len().min(BUFFERS_MAX);
        offered = most - room;
        legs.outside.tcp_send(outer, &parts[..count])
    };
    match sent {
        Ok(sent) => {
            if sent < offered {
                // The rest would block; readiness is reported when it would not.
                flow.bits &= !bit::HOST_WRITABLE;
            }
            flow.bytes_up += sent as u64;
            if staged.up.is_empty() {
                staged.urgent = None;
            } else {
                drop_front(&mut staged.up, sent, legs);
            }
            Ok(sent)
        }
        Err(Stop::WouldBlock) => {
            flow.clear(bit::HOST_WRITABLE);
            Ok(0)
        }
        Err(Stop::Failed(why)) => Err(Step::HostFailed(why)),
    }
}

/// The first `sent` bytes were taken.
fn drop_front<O: Outside>(
    waiting: &mut std::collections::VecDeque<Mbuf>,
    mut sent: usize,
    legs: &mut Legs<'_, O>,
) {
    while let Some(first) = waiting.front_mut() {
        if first.len() > sent {
            first.trim_front(sent);
            return;
        }
        sent -= first.len();
        if let Some(m) = waiting.pop_front() {
            legs.stack.give_back(m);
        }
    }
}
