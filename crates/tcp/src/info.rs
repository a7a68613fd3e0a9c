//! A connection's statistics, after Linux's TCP_INFO.

use base::Duration;

use crate::marks::{EcnBits, Marks};
use crate::state::State;
use crate::tcb::Tcb;

/// A snapshot of one connection. Sizes in bytes, windows in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// State of RFC 9293.
    pub state: State,
    /// Congestion control in use.
    pub algorithm: &'static str,
    /// Timestamps (RFC 7323) were agreed.
    pub timestamps: bool,
    /// Selective acknowledgements (RFC 2018) were agreed.
    pub sack: bool,
    /// Explicit congestion notification (RFC 3168) was agreed.
    pub ecn: bool,
    /// Largest payload sent in a segment.
    pub snd_mss: usize,
    /// Largest payload received in a segment.
    pub rcv_mss: usize,
    /// Smoothed round-trip time (RFC 6298); zero before the first measurement.
    pub srtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// The least round-trip time seen.
    pub min_rtt: Duration,
    /// Retransmission time-out now.
    pub rto: Duration,
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Bytes a second at which segments leave; 0 if they are not spread.
    pub pacing_rate: u64,
    /// The peer's window.
    pub snd_wnd: u32,
    /// Our window.
    pub rcv_wnd: u32,
    /// Bytes sent and not acknowledged.
    pub in_flight: u32,
    /// Of those, bytes that the peer holds out of order, as far as it has said.
    pub sacked_bytes: u32,
    /// Of those, bytes that are deemed lost and were not sent again.
    pub lost_bytes: u32,
    /// Bytes waiting to be sent.
    pub unsent: usize,
    /// Bytes waiting to be read.
    pub unread: usize,
    /// Bytes that may wait to be read, as tuning has it now.
    pub receive_buffer_bytes: usize,
    /// Bytes that may wait to be acknowledged, as the congestion window has it now; a stack short
    /// of memory may admit fewer.
    pub send_buffer_bytes: usize,
    /// Bytes the peer has acknowledged.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Segments sent; a super-segment is one.
    pub segments_out: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Segments sent again.
    pub retransmits: u32,
    /// Retransmission, persist and keepalive time-outs.
    pub timeouts: u32,
    /// Episodes of fast recovery.
    pub fast_recoveries: u32,
    /// Tail loss probes (RFC 8985) sent.
    pub tail_probes: u32,
    /// Reductions of the congestion window that were taken back: nothing had been lost.
    pub undone: u32,
    /// Duplicate ACKs received.
    pub duplicate_acks: u32,
    /// Segments received out of order.
    pub out_of_order: u32,
    /// Segments received with a mark of congestion (CE); a super-segment is one.
    pub ce_marks: u32,
    /// Reductions of the congestion window because the peer echoed a mark.
    pub ecn_reductions: u32,
    /// The most the peer ever sent between two of our ACKs.
    pub send_space_bytes: u32,
}

impl Tcb {
    /// Take a snapshot.
    pub fn info(&self) -> Info {
        Info {
            state: self.state,
            algorithm: self.cc.algorithm().name(),
            timestamps: self.marks.has(Marks::TIMESTAMPS),
            sack: self.marks.has(Marks::SACK),
            ecn: self.ecn.has(EcnBits::AGREED),
            snd_mss: self.snd_mss.bytes(),
            rcv_mss: self.rcv_mss as usize,
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            min_rtt: self.rtt.min(),
            rto: self.rtt.rto(),
            cwnd: self.cc.cwnd,
            ssthresh: self.cc.ssthresh,
            pacing_rate: crate::pacing::rate(self),
            snd_wnd: self.snd_wnd,
            rcv_wnd: self.rcv_wnd(),
            in_flight: self.in_flight(),
            sacked_bytes: self.recovery.arrived_bytes(),
            lost_bytes: self.recovery.lost.bytes(),
            unsent: self.sendq.unsent_bytes(),
            unread: self.receive.len(),
            receive_buffer_bytes: self.receive.limit_bytes(),
            send_buffer_bytes: crate::receive::tuning::send_buffer(self),
            bytes_acked: self.stats.bytes_acked,
            bytes_received: self.stats.bytes_received,
            segments_out: self.stats.segments_out,
            segments_in: self.stats.segments_in,
            retransmits: self.stats.retransmits,
            timeouts: self.stats.timeouts,
            fast_recoveries: self.stats.fast_recoveries,
            tail_probes: self.stats.tail_probes,
            undone: self.stats.undone,
            duplicate_acks: self.stats.duplicate_acks,
            out_of_order: self.stats.out_of_order,
            ce_marks: self.stats.ce_marks,
            ecn_reductions: self.stats.ecn_reductions,
            send_space_bytes: self.send_space_bytes,
        }
    }
}
