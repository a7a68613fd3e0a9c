//! The law: memory stays within its limits, that is, the buffers of a host and the bytes queued in
//! a connection.
//!
//! Called by: the oracles, after each step of a host.

use base::{Budget, Limit};
use stack::Stack;

use super::look::Look;
use crate::host::Host;
use crate::violation::Violation;

pub(crate) fn check_host(
    stack: &Stack,
    budget: &Budget,
    connections_max: usize,
) -> Result<(), Violation> {
    let connections = stack.connection_count();
    if connections > connections_max {
        let what = format!("{connections} connections where {connections_max} were opened");
        return Err(Violation::new("memory", what));
    }
    let reserved = budget.reserved(Limit::ReceiveBufferBytes);
    let most = budget.of(Limit::ReceiveBufferBytes).min(budget.of(Limit::MbufBytes) / 2);
    if reserved > most {
        let what = format!("tuning added {reserved} bytes to receive buffers, {most} may");
        return Err(Violation::new("memory", what));
    }
    let time_wait = stack.time_wait_count();
    let most = budget.of(Limit::TimeWait);
    if time_wait > most {
        let what = format!("{time_wait} TIME-WAIT records, the limit is {most}");
        return Err(Violation::new("memory", what));
    }
    Ok(())
}

pub(crate) fn check_connection(look: &Look<'_>) -> Result<(), Violation> {
    let (info, config) = (&look.info, &look.end.config);
    let unread = info.unread;
    // The maximum counts, although the current limit may be lower: data may still arrive for a
    // window that was offered before the buffer became smaller.
    let most = config.receive_buffer_bytes.max(config.receive_buffer_max_bytes).max(1 << 16);
    if unread > most as usize {
        let what = format!("end {}: {unread} bytes wait to be read, {most} may", look.index);
        return Err(Violation::new("memory", what));
    }
    let queued = info.unsent + info.in_flight as usize;
    // A FIN takes sequence space, but no memory.
    let most = config.send_buffer_bytes.max(config.send_buffer_max_bytes);
    if queued > most as usize + 1 {
        let what = format!("end {}: {queued} bytes wait to be sent, {most} may", look.index);
        return Err(Violation::new("memory", what));
    }
    Ok(())
}

// The law about leaks: once everything has ended and every timer has expired, no buffer, no
// reserved budget, no connection and no TIME-WAIT record is left.

pub(crate) fn check(number: usize, host: &mut Host) -> Result<(), Violation> {
    host.release_buffers();
    let mbufs = host.outstanding();
    let held = host.stack.pool().held_bytes();
    let limit = host.stack.pool().limit_bytes();
    let reserved = host.stack.budget().reserved(Limit::ReceiveBufferBytes);
    let (connections, records) = (host.stack.connection_count(), host.stack.time_wait_count());
    let what = if connections > 0 {
        format!("host {number} still has {connections} connections")
    } else if records > 0 {
        format!("host {number} still has {records} TIME-WAIT records")
    } else if mbufs > 0 {
        format!("host {number} still has {mbufs} mbufs out")
    } else if reserved > 0 {
        format!("host {number} still has {reserved} bytes of receive buffers set aside")
    } else if held > limit {
        format!("host {number} took {held} bytes of buffers, {limit} are allowed")
    } else {
        return Ok(());
    };
    Err(Violation::new("leaks", what))
}
