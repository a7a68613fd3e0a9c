//! Statistics of a connection, like Linux's TCP_INFO. Called by: the stack.

use base::{Duration, Instant, SeqNumber};

use crate::ecn;
use crate::marks::{EcnBits, Marks};
use crate::recovery::{Phase, Resent};
use crate::state::{Error, State};
use crate::tcb::Tcb;

/// What a connection is recovering from. The numbers are those of Linux's TCP_INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Repair {
    /// No recovery.
    #[default]
    Nothing = 0,
    /// Data was SACKed or duplicate ACKs came, but nothing is deemed lost.
    Suspicion = 1,
    /// cwnd was reduced because of a CE mark.
    Mark = 2,
    /// A loss found by SACKs, duplicate ACKs or RACK.
    Fast = 3,
    /// A loss found by the retransmission timer.
    TimeOut = 4,
}

/// When a connection's timers are due; [`Instant::NEVER`] for those that are not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Retransmission, or the next window probe.
    pub retransmit: Instant,
    /// The delayed ACK.
    pub delayed_ack: Instant,
    /// The next keepalive probe, or the end of FIN-WAIT-2.
    pub keepalive: Instant,
    /// The next paced segment.
    pub pacing: Instant,
}

/// A snapshot of one connection. Sizes and windows are in bytes.
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
    /// Data in the SYN was accepted, the peer's or ours (RFC 7413).
    pub syn_data: bool,
    /// Window scales of the peer's window and of ours (RFC 7323), if negotiated.
    pub window_scales: Option<(u8, u8)>,
    /// What is being repaired.
    pub repair: Repair,
    /// Consecutive time-outs without an answer.
    pub retries: u8,
    /// Consecutive window and keepalive probes without an answer.
    pub probes: u8,
    /// How often the time-out has doubled.
    pub backoff: u8,
    /// The MSS that our SYN offered.
    pub advertised_mss: u16,
    /// Largest payload sent in a segment.
    pub snd_mss: usize,
    /// The largest payload that both ends accept and our link carries: more than `snd_mss` if the
    /// path carries less.
    pub snd_mss_most: usize,
    /// Nagle's algorithm is off.
    pub no_delay: bool,
    /// A write was cut short, and the program has not been notified of room since then.
    pub write_blocked: bool,
    /// Largest payload received in a segment.
    pub rcv_mss: usize,
    /// Smoothed round-trip time (RFC 6298); zero before the first measurement.
    pub srtt: Duration,
    /// Round-trip time variation (RFC 6298).
    pub rttvar: Duration,
    /// The minimum round-trip time seen.
    pub min_rtt: Duration,
    /// The current retransmission time-out.
    pub rto: Duration,
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Pacing rate in bytes a second; 0 without pacing.
    pub pacing_rate: u64,
    /// The peer's window.
    pub snd_wnd: u32,
    /// Our window.
    pub rcv_wnd: u32,
    /// Bytes sent and not acknowledged.
    pub in_flight: u32,
    /// The part of `in_flight` that the peer holds out of order, by its SACKs or duplicate ACKs.
    pub sacked_bytes: u32,
    /// The part of `in_flight` that is deemed lost and not retransmitted yet.
    pub lost_bytes: u32,
    /// The part of `in_flight` that was retransmitted.
    pub resent_bytes: u32,
    /// Bytes waiting to be sent.
    pub unsent: usize,
    /// Bytes waiting to be read.
    pub unread: usize,
    /// Current size of the receive buffer, as tuned.
    pub receive_buffer_bytes: usize,
    /// Current size of the send buffer, which follows cwnd; under memory pressure fewer bytes are
    /// admitted.
    pub send_buffer_bytes: usize,
    /// Bytes the peer has acknowledged.
    pub bytes_acked: u64,
    /// The part of `bytes_acked` that our SYN carried (RFC 7413).
    pub syn_bytes_acked: u32,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Segments sent; a super-segment is one.
    pub segments_out: u32,
    /// Segments received.
    pub segments_in: u32,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Expirations of the retransmission or persist timer.
    pub timeouts: u32,
    /// Fast recovery episodes.
    pub fast_recoveries: u32,
    /// Tail loss probes (RFC 8985) sent.
    pub tail_probes: u32,
    /// Reductions of cwnd that were undone because nothing had been lost.
    pub undone: u32,
    /// Duplicate ACKs received.
    pub duplicate_acks: u32,
    /// Segments received out of order.
    pub out_of_order: u32,
    /// Segments received with a CE mark; a super-segment counts as one.
    pub ce_marks: u32,
    /// Reductions of cwnd because the peer echoed a CE mark.
    pub ecn_reductions: u32,
    /// The most the peer ever sent between two of our ACKs.
    pub send_space_bytes: u32,
    /// The last soft error: an ICMP error about the path, with no ACK of new data since. The path
    /// may recover.
    /// RFC 9293 MUST-47, SHLD-25.
    pub soft_error: Option<Error>,
    /// When the timers are due.
    pub due: Due,
}

impl Tcb {
    /// SND.UNA and RCV.NXT: they move when new data is acknowledged or arrives, and that is the
    /// forward progress that confirms a neighbour (RFC 4861 section 7.3.1).
    pub fn progress(&self) -> (SeqNumber, SeqNumber) {
        (self.snd_una, self.rcv_nxt)
    }

    /// Take a snapshot.
    pub fn info(&self) -> Info {
        Info {
            state: self.state,
            algorithm: self.cc.algorithm().name(),
            timestamps: self.marks.has(Marks::TIMESTAMPS),
            sack: self.marks.has(Marks::SACK),
            ecn: self.ecn.has(EcnBits::AGREED),
            syn_data: self.syn_data_taken(),
            window_scales: self
                .peer_scales
                .then(|| (self.snd_wscale.shift(), self.rcv_wscale.shift())),
            repair: self.repair(),
            retries: self.rtt.retries,
            probes: self.probes,
            backoff: self.rtt.backoff,
            advertised_mss: self.advertised_mss.0,
            snd_mss: self.snd_mss.bytes(),
            snd_mss_most: self.path_most as usize,
            no_delay: self.marks.has(Marks::NO_DELAY),
            write_blocked: self.marks.has(Marks::WRITE_BLOCKED),
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
            resent_bytes: self.resent_bytes(),
            unsent: self.sendq.unsent_bytes(),
            unread: self.receive.len(),
            receive_buffer_bytes: self.receive.limit_bytes(),
            send_buffer_bytes: crate::send_tuning::send_buffer(self),
            bytes_acked: self.stats.bytes_acked,
            syn_bytes_acked: self.fast_open_outcome().map_or(0, |outcome| outcome.taken_bytes),
            bytes_received: self.stats.bytes_received,
            segments_out: self.stats.segments_out,
            segments_in: self.stats.segments_in,
            retransmits: self.stats.rare.retransmits,
            timeouts: self.stats.rare.timeouts,
            fast_recoveries: self.stats.rare.fast_recoveries,
            tail_probes: self.stats.rare.tail_probes,
            undone: self.stats.rare.undone,
            duplicate_acks: self.stats.rare.duplicate_acks,
            out_of_order: self.stats.rare.out_of_order,
            ce_marks: self.stats.rare.ce_marks,
            ecn_reductions: self.stats.rare.ecn_reductions,
            send_space_bytes: self.send_space_bytes,
            soft_error: self.fresh_soft_error(),
            due: Due {
                retransmit: self.timers.retransmit,
                delayed_ack: self.timers.ack,
                keepalive: self.timers.idle,
                pacing: self.timers.pace,
            },
        }
    }

    fn repair(&self) -> Repair {
        match (self.is_repairing(), self.recovery.phase) {
            (true, Phase::Fast) => Repair::Fast,
            (true, Phase::Loss) => Repair::TimeOut,
            _ if ecn::is_reduced(self) => Repair::Mark,
            (true, Phase::Open) if self.recovery.arrived_bytes() > 0 => Repair::Suspicion,
            _ => Repair::Nothing,
        }
    }

    fn resent_bytes(&self) -> u32 {
        if !self.is_repairing() {
            return 0;
        }
        let una = self.snd_una;
        let in_flight = |resent: &Resent| {
            let (from, to) = resent.range;
            to.since(if from.lt(una) { una } else { from }).max(0) as u32
        };
        self.recovery.resent.iter().map(in_flight).sum()
    }
}
