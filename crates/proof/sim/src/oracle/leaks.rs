//! No leaks: once everything has ended and every timer has expired, no buffer, no reserved budget,
//! no connection and no TIME-WAIT record is left.
//!
//! Called by: the oracles, at the very end.

use base::Limit;

use crate::host::Host;
use crate::violation::Violation;

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
