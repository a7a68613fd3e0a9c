//! The law: a connection has no more bytes in flight than its congestion window allows. The window
//! grows by no more than the bytes acknowledged, whatever number of ACKs the receiver divides an
//! acknowledgment into (RFC 3465, RFC 9438 section 4.10).
//!
//! Called by: the oracles, after each step of a host. RFC 5681 section 3.1, with RFC 6675's
//! estimate of the bytes in flight ("pipe"). The window may shrink below the bytes in flight, and
//! segments that seemed lost or delivered may turn out not to be. So a connection is checked only
//! if it has more bytes in flight than at the last check, and since then has sent something, has
//! undone no reduction, had no time-out and sent no probe. Without SACK the bytes in flight are an
//! estimate: a duplicate ACK may be for another segment than the one for which it is counted.

use std::collections::BTreeMap;

use super::look::Look;
use crate::violation::Violation;

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    pipe: u32,
    /// How many bytes were sent for the first time, and how many segments were retransmitted.
    sent: (u64, u32),
    cwnd: u64,
    /// How many reductions were undone, and how many time-outs and probes there were. After each of
    /// these more bytes may be in flight than the window allows.
    turns: (u32, u32, u32),
}

/// The state of each connection, by the number of its end.
#[derive(Debug, Default)]
pub(crate) struct Cwnd {
    last: BTreeMap<usize, Last>,
    /// The largest segment size of each connection so far. If the path MTU becomes smaller, the
    /// window, which counts bytes, does not change.
    largest_mss: BTreeMap<usize, u64>,
}

impl Cwnd {
    pub(crate) fn check(&mut self, look: &Look<'_>) -> Result<(), Violation> {
        let info = &look.info;
        // RFC 6928 section 2: the initial window is ten segments, but at most 14,600 bytes or two
        // segments. The law allows four more segments.
        let mss = self.largest_mss.entry(look.index).or_default();
        *mss = (*mss).max(info.snd_mss as u64);
        // BBR's window also grows by SACKed bytes.
        let sacked = if info.algorithm == "bbr" { u64::from(info.in_flight) } else { 0 };
        let grown = 14_600.max(2 * *mss) + info.bytes_acked + sacked + 4 * *mss;
        if info.cwnd > grown {
            let what = format!(
                "end {} ({}): cwnd is {} with {} bytes acknowledged",
                look.index, info.algorithm, info.cwnd, info.bytes_acked
            );
            return Err(Violation::new("cwnd", what));
        }
        if !info.sack {
            return Ok(());
        }
        let pipe = info.in_flight.saturating_sub(info.sacked_bytes + info.lost_bytes);
        let turns = (info.undone, info.timeouts, info.tail_probes);
        let sent = (info.bytes_acked + u64::from(info.in_flight), info.retransmits);
        let before = self
            .last
            .insert(look.index, Last { pipe, cwnd: info.cwnd, sent, turns })
            .unwrap_or_default();
        // Only whole segments are sent, a probe may add another segment, and SYN and FIN take a
        // byte each. All of them may have been sent before the window was reduced.
        let most = info.cwnd.max(before.cwnd) + 2 * info.snd_mss as u64 + 2;
        // One retransmission may be sent whatever the window is.
        let has_sent = sent.0 != before.sent.0 || sent.1 > before.sent.1 + 1;
        let judged = has_sent && turns == before.turns;
        if judged && pipe > before.pipe && u64::from(pipe) > most {
            let what = format!(
                "end {} ({}): {pipe} bytes in flight, cwnd is {}",
                look.index, info.algorithm, info.cwnd
            );
            return Err(Violation::new("cwnd", what));
        }
        Ok(())
    }
}
