//! Initial sequence numbers, RFC 6528: a clock that ticks every 4 us plus a keyed hash of addresses
//! and ports, so that one connection's numbers do not reveal another's.

use base::{Instant, KeyedHash, SeqNumber};

/// The initial sequence number of a connection with these addresses and ports.
/// RFC 9293 MUST-8, SHLD-1, MUST-9. RFC 6528 3-a, 3-b.
pub fn initial_sequence_number<const N: usize>(
    secret: &KeyedHash,
    addresses_and_ports: [u64; N],
    now: Instant,
) -> SeqNumber {
    let clock = (now.as_nanos() / 4_000) as u32;
    SeqNumber(clock.wrapping_add(secret.hash(addresses_and_ports) as u32))
}
