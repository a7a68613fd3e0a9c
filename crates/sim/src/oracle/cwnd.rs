//! No more is in flight than the congestion window allows, outside loss recovery.
//!
//! Called by: the oracles, after each step of a host. RFC 5681 section 3.1, and RFC 3042, which
//! allows two segments more for duplicate ACKs. In recovery the law is about an estimate of what
//! is in the network, which cannot be seen from outside: a connection is looked at again once
//! everything is acknowledged that was sent before its last sign of loss.

use std::collections::BTreeMap;

use super::{Look, Violation};

#[derive(Debug, Default)]
struct Last {
    signs: (u32, u32, u32, u32),
    /// Looked at again once this much is acknowledged.
    calm_from: u64,
    in_flight: u32,
}

/// Connections by the number of their end.
#[derive(Debug, Default)]
pub(crate) struct Cwnd {
    last: BTreeMap<usize, Last>,
}

impl Cwnd {
    pub(crate) fn check(&mut self, look: &Look<'_>) -> Result<(), Violation> {
        let info = &look.info;
        let last = self.last.entry(look.index).or_default();
        let signs = (info.duplicate_acks, info.retransmits, info.timeouts, info.fast_recoveries);
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
