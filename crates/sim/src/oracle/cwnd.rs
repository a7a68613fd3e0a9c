//! No more is in flight than the congestion window allows, outside loss recovery.
//!
//! Called by: the oracles, after each step of a host. RFC 5681 section 3.1, and RFC 3042, which
//! allows two segments more for duplicate ACKs. In recovery the law is about an estimate of what
//! is in the network, which cannot be seen from outside: a connection is looked at again once
//! everything is acknowledged that was sent before its last sign of loss. A SACK block is one: what
//! it reports is not in the network any more, if it is true.
//!
//! At all times: the window has grown by no more than was acknowledged, counted in bytes and not in
//! ACKs (RFC 3465, RFC 9438 section 4.10), whoever divides them.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use super::{Look, Violation};
use crate::seen::Seen;

#[derive(Debug, Default)]
struct Last {
    signs: (u32, u32, u32, u32, u32),
    /// Looked at again once this much is acknowledged.
    calm_from: u64,
    in_flight: u32,
}

/// Connections by the number of their end.
#[derive(Debug, Default)]
pub(crate) struct Cwnd {
    last: BTreeMap<usize, Last>,
    /// Segments with SACK blocks that reached a local address from a remote one.
    sacks: BTreeMap<(SocketAddr, SocketAddr), u32>,
}

impl Cwnd {
    pub(crate) fn arrived(&mut self, seen: &Seen) {
        if !seen.sack.is_empty() {
            *self.sacks.entry((seen.dst, seen.src)).or_default() += 1;
        }
    }

    pub(crate) fn check(&mut self, look: &Look<'_>) -> Result<(), Violation> {
        let info = &look.info;
        // RFC 6928 section 2: ten segments, 14,600 bytes or two segments; four to spare.
        let mss = info.snd_mss as u64;
        let grown = 14_600.max(2 * mss) + info.bytes_acked + 4 * mss;
        if info.cwnd > grown {
            let what = format!(
                "end {}: cwnd is {} with {} bytes acknowledged",
                look.index, info.cwnd, info.bytes_acked
            );
            return Err(Violation::new("cwnd", what));
        }
        let last = self.last.entry(look.index).or_default();
        let sacks = || self.sacks.get(&look.stack.tcp_addresses(look.end.handle?)?).copied();
        let sacks = if self.sacks.is_empty() { 0 } else { sacks().unwrap_or(0) };
        let signs =
            (info.duplicate_acks, info.retransmits, info.timeouts, info.fast_recoveries, sacks);
        if signs != last.signs {
            last.signs = signs;
            last.calm_from = info.bytes_acked + u64::from(info.in_flight) + 1;
        }
        let has_grown = info.in_flight > last.in_flight;
        last.in_flight = info.in_flight;
        // What is sent is whole segments; SYN and FIN take a byte each.
        let most = info.cwnd + 2 * info.snd_mss as u64 + 2;
        if has_grown && info.bytes_acked >= last.calm_from && u64::from(info.in_flight) > most {
            let what = format!(
                "end {}: {} bytes in flight, cwnd is {}",
                look.index, info.in_flight, info.cwnd
            );
            return Err(Violation::new("cwnd", what));
        }
        Ok(())
    }
}
