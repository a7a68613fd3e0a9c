//! Our side of every row: the one file of this crate that knows the stack.
//! Called by `core.rs`. Each function does what its peer does: real payload from
//! `measure::pattern`, checksums made and verified, a copy by the application at both ends,
//! `cpu_s` from `measure::thread_cpu_s` around the loop that moves bytes, set-up left out.
//! Until the stack is wired in, all of them say so and their rows have no value.

use anyhow::{Result, bail};

use crate::measure::Measurement;

/// How our stack moves bytes one way: two stacks in memory, polled by the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    /// MTU of the link, IP header included.
    pub mtu: usize,
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// Bytes the application hands to one write.
    pub write: usize,
    /// The link takes segments of up to 64 KB with a segment size, as a TSO device does.
    pub super_segments: bool,
    /// Connections; each gets one segment a turn if there is more than one.
    pub flows: usize,
}

impl Default for Bulk {
    fn default() -> Bulk {
        Bulk { mtu: 1500, v6: false, write: 16 << 10, super_segments: false, flows: 1 }
    }
}

/// Bulk for `seconds`. `units` counts data segments; `settings` names what is not in `Bulk`.
pub fn bulk(_shape: Bulk, _seconds: f64) -> Result<Measurement> {
    bail!("not built yet")
}

/// Writes of `size` bytes as fast as they go, read at the other end, MTU 65535 as loopback's.
/// `units` counts writes.
pub fn small_writes(_size: usize, _seconds: f64) -> Result<Measurement> {
    bail!("not built yet")
}

/// `size` bytes there and back, both ends polled by one thread. Sets `p50_ns`.
pub fn ping_pong(_size: usize, _seconds: f64) -> Result<Measurement> {
    bail!("not built yet")
}

/// Bytes of memory an established, idle endpoint takes, with `connections` of them: what the
/// process's live allocations grew by, over the number of endpoints (two a connection).
pub fn idle_endpoint_bytes(_connections: usize) -> Result<f64> {
    bail!("not built yet")
}

/// Instructions of one predicted data segment without its byte passes, from `xtask icount`.
pub fn predicted_segment_instructions() -> Result<f64> {
    bail!("not built yet")
}

/// The checksum the stack uses, over all of `data`.
pub fn checksum(_data: &[u8]) -> Result<u16> {
    bail!("not built yet")
}

/// The byte-wise checksum every faster one is compared with.
pub fn checksum_byte_loop(_data: &[u8]) -> Result<u16> {
    bail!("not built yet")
}

/// Copies `from` to `to` (same length) and returns the checksum, in one pass if that wins.
pub fn copy_and_sum(_to: &mut [u8], _from: &[u8]) -> Result<u16> {
    bail!("not built yet")
}

/// Bytes a second of virtual time for a sender with a 2,048-byte buffer into a 32 KB window
/// over a 10 ms path whose receiver delays ACKs by 200 ms. The same number every run.
pub fn small_sender_bytes_per_s(_send_space_estimate: bool) -> Result<f64> {
    bail!("not built yet")
}
