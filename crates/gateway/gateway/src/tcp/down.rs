//! Bytes of the outside to the guest: they are received into the buffers in which they leave. They
//! are received only while the guest's connection has room.
//!
//! Called by: `run.rs`.

use std::io::IoSliceMut;

use mbuf::Mbuf;
use stack::CallError;

use crate::flow::{Flow, bit};
use crate::outside::{Outside, Received, Stop};
use crate::tcp::Step;
use crate::tcp::run::{Legs, NO_CONNECTION};

/// Buffers of one call.
const BUFFERS_MAX: usize = crate::flow::BUFFERS_MAX as usize;
/// Bytes of one call: a socket of the host rarely has more at once.
const CALL_BYTES: usize = 64 * 1024;

/// A turn does not begin a call for fewer bytes than this.
const LEAST: usize = 4 * 1024;

/// Move bytes until a side has no more of them or no more room, or `budget` is used up.
pub(crate) fn pump<O: Outside>(
    flow: &mut Flow<O::Tcp>,
    legs: &mut Legs<'_, O>,
    budget: usize,
) -> Step {
    let mut left = budget;
    loop {
        if flow.has(bit::DOWN_OVER) || !flow.has(bit::GUEST_WRITABLE) {
            return Step::Idle;
        }
        if let Err(step) = write_staged(flow, legs, &mut left) {
            return step;
        }
        if flow.stages_down() {
            return if flow.has(bit::GUEST_WRITABLE) { Step::UsedUp } else { Step::Idle };
        }
        if flow.has(bit::HOST_FIN) {
            legs.stack.tcp_shutdown_write(legs.handle);
            flow.set(bit::DOWN_OVER);
            return Step::Idle;
        }
        if !flow.has(bit::HOST_READABLE) {
            return Step::Idle;
        }
        // A few bytes are not worth a call.
        if left < LEAST {
            return Step::UsedUp;
        }
        let room = match legs.stack.tcp_writable(legs.handle) {
            Ok(room) => room,
            Err(CallError::WouldBlock) => {
                flow.clear(bit::GUEST_WRITABLE);
                return Step::Idle;
            }
            Err(_) => return Step::GuestFailed,
        };
        if flow.has(bit::HOST_URGENT) {
            match urgent(flow, legs) {
                Ok(true) => {
                    left -= 1;
                    continue;
                }
                Ok(false) => {}
                Err(step) => return step,
            }
        }
        if let Err(step) = receive(flow, legs, room.min(left)) {
            return step;
        }
    }
}

/// Receive up to `most` bytes into buffers that wait to be written.
fn receive<O: Outside>(
    flow: &mut Flow<O::Tcp>,
    legs: &mut Legs<'_, O>,
    most: usize,
) -> Result<(), Step> {
    let mut buffers: [Option<Mbuf>; BUFFERS_MAX] = [const { None }; BUFFERS_MAX];
    let (mut room, mut unit, mut count) = (0, 0, 0);
    let most = most.min(CALL_BYTES);
    for buffer in buffers.iter_mut().take(flow.buffers.into()) {
        // Whole buffers: what goes into a part of one leaves in a packet of its own.
        if room >= most || room + unit > CALL_BYTES {
            break;
        }
        let Some((m, bytes)) = legs.stack.tcp_alloc(legs.handle) else { break };
        (room, unit, count) = (room + bytes, bytes, count + 1);
        *buffer = Some(m);
    }
    let Some(outer) = &mut flow.outer else { return Err(Step::HostFailed(NO_CONNECTION)) };
    if room == 0 {
        return Err(Step::NoBuffer);
    }
    let mut left = room.min(most);
    let mut parts = {
        let mut buffers = buffers.iter_mut().flatten();
        core::array::from_fn::<_, BUFFERS_MAX, _>(|_| {
            let tail = buffers.next().map_or(&mut [][..], |m| m.tail_mut());
            let len = tail.len().min(unit).min(left);
            left -= len;
            IoSliceMut::new(&mut tail[..len])
        })
    };
    let got = legs.outside.tcp_receive(outer, &mut parts[..count]);
    let lens = parts.map(|part| part.len());
    let mut bytes = got.map_or(0, |got| got.bytes);
    flow.expect_bytes(bytes, unit, bytes == room.min(most));
    for (mut m, len) in buffers.into_iter().flatten().zip(lens) {
        let filled = len.min(bytes);
        bytes -= filled;
        if filled == 0 {
            legs.stack.give_back(m);
            continue;
        }
        m.extend(filled);
        flow.staged(legs.spare).down.push_back(m);
    }
    match got {
        Ok(Received { bytes: 0, .. }) => {
            flow.set(bit::HOST_FIN);
            flow.clear(bit::HOST_READABLE);
        }
        Ok(got) if got.is_drained => flow.clear(bit::HOST_READABLE),
        Ok(_) => {}
        Err(Stop::WouldBlock) => flow.clear(bit::HOST_READABLE),
        Err(Stop::Failed(why)) => return Err(Step::HostFailed(why)),
    }
    Ok(())
}

/// Queue what was received.
fn write_staged<O: Outside>(
    flow: &mut Flow<O::Tcp>,
    legs: &mut Legs<'_, O>,
    left: &mut usize,
) -> Result<(), Step> {
    let Some(staged) = &mut flow.staged else { return Ok(()) };
    while let Some(m) = staged.down.pop_front() {
        let len = m.len();
        if len > *left {
            staged.down.push_front(m);
            return Ok(());
        }
        match legs.stack.tcp_write_mbuf(legs.handle, m) {
            Ok(()) => {
                *left -= len;
                flow.bytes_down += len as u64;
            }
            Err((why, m)) => {
                if why != CallError::WouldBlock {
                    legs.stack.give_back(m);
                    return Err(Step::GuestFailed);
                }
                staged.down.push_front(m);
                flow.bits &= !bit::GUEST_WRITABLE;
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Is the next byte urgent? Then pass it on alone, as such; returns whether it was.
fn urgent<O: Outside>(flow: &mut Flow<O::Tcp>, legs: &mut Legs<'_, O>) -> Result<bool, Step> {
    let Some(outer) = &mut flow.outer else { return Err(Step::HostFailed(NO_CONNECTION)) };
    match legs.outside.tcp_at_mark(outer) {
        Some(true) => {}
        Some(false) => return Ok(false),
        None => {
            flow.clear(bit::HOST_URGENT);
            return Ok(false);
        }
    }
    let mut byte = [0];
    match legs.outside.tcp_receive(outer, &mut [IoSliceMut::new(&mut byte)]) {
        Ok(Received { bytes: 1, .. }) => {}
        Ok(_) | Err(Stop::WouldBlock) => return Ok(false),
        Err(Stop::Failed(why)) => return Err(Step::HostFailed(why)),
    }
    flow.clear(bit::HOST_URGENT);
    match legs.stack.tcp_write_urgent(legs.handle, &byte) {
        Ok(_) => {
            flow.bytes_down += 1;
            Ok(true)
        }
        // There was room a moment ago, so memory is short: the byte goes as an ordinary one.
        Err(CallError::WouldBlock) => match legs.stack.tcp_alloc(legs.handle) {
            Some((mut m, _)) => {
                m.append(&byte);
                flow.staged(legs.spare).down.push_back(m);
                Ok(false)
            }
            None => Err(Step::GuestFailed),
        },
        Err(_) => Err(Step::GuestFailed),
    }
}
