//! One look at a connection: its figures, and what holds its data back at this moment.
//!
//! Called by: the code that answers for a stack, which makes looks; `verdict`, which counts their
//! causes. The conditions are those by which `tcp::output` decides whether to send (RFC 9293
//! section 3.8.6.2.1, RFC 5681 section 3.1), evaluated from outside. The control socket sends looks
//! as JSON with these fields; fields may be added.

use base::{Counter, Duration, Instant};
use control::protocol::Connection;
use serde::{Deserialize, Serialize};
use stack::Stack;
use stack::snapshot::ConnectionRow;
use tcp::info::Repair;

use crate::limit::Held;

/// Figures of a connection's stack and its devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// CPU time that the stack's thread has used, in microseconds; `None` if it is not measured.
    pub cpu_us: Option<u64>,
    /// How often a device of the stack refused frames because it was full.
    pub pushed_back: u64,
}

impl Surroundings {
    /// The surroundings of a connection of this stack, whose thread has used this much CPU time.
    pub fn of(stack: &Stack, cpu_us: Option<u64>) -> Surroundings {
        Surroundings { cpu_us, pushed_back: stack.counters().of(Counter::TxPushedBack) }
    }
}

/// The time from one look to the next: 20 ms on average, but different each time, so that a program
/// with a periodic behaviour is not always looked at in the same phase.
pub fn apart(number: usize) -> Duration {
    // Multiples of the golden ratio are spread evenly over the unit interval.
    let part = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
    Duration::from_micros(10_000 + part * 20_000 / (1 << 20))
}

/// The figures of a look. Sizes are in bytes; counts are since the connection began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    /// The stack's time in microseconds.
    pub at_us: u64,
    /// The state, by its name in RFC 9293.
    pub state: String,
    /// The name of the congestion control.
    pub control: String,
    /// The largest payload sent in a segment, and the largest that both ends and our link allow.
    pub mss: u64,
    /// See `mss`.
    pub mss_most: u64,
    /// The largest payload received in a segment.
    pub rcv_mss: u64,
    /// Congestion window.
    pub cwnd: u64,
    /// The peer's window.
    pub snd_wnd: u64,
    /// Our window.
    pub rcv_wnd: u64,
    /// Bytes that were sent and not acknowledged.
    pub in_flight: u64,
    /// Bytes that congestion control counts as in flight (RFC 6675 section 4).
    pub pipe: u64,
    /// Bytes that wait to be sent.
    pub unsent: u64,
    /// Bytes that wait to be read.
    pub unread: u64,
    /// Size of the send buffer.
    pub send_buffer: u64,
    /// Size of the receive buffer.
    pub receive_buffer: u64,
    /// Bytes that the peer has acknowledged.
    pub acked: u64,
    /// Bytes received in order.
    pub received: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Time-outs, probes of a zero window included.
    pub timeouts: u64,
    /// Episodes of fast recovery.
    pub fast_recoveries: u64,
    /// Reductions of cwnd that were undone.
    pub undone: u64,
    /// Reductions of cwnd because of congestion marks.
    pub ecn_reductions: u64,
    /// Segments received out of order.
    pub out_of_order: u64,
    /// Consecutive time-outs without an answer.
    pub retries: u64,
    /// Consecutive probes without an answer.
    pub probes: u64,
    /// Smoothed round-trip time.
    pub rtt_us: u64,
    /// The shortest round-trip time.
    pub min_rtt_us: u64,
    /// The pacing rate.
    pub pacing_bytes_per_s: Option<u64>,
    /// The next segment waits for its time.
    pub waits_for_pacing: bool,
    /// A loss is being repaired.
    pub recovers: bool,
    /// A write was cut short, and its program waits for room.
    pub write_blocked: bool,
    /// Nagle's algorithm is off.
    pub no_delay: bool,
    /// Our port's link is down.
    pub link_down: bool,
    /// See [`Surroundings`].
    pub cpu_us: Option<u64>,
    /// See [`Surroundings`].
    pub pushed_back: u64,
}

/// A connection and a look at it, as the control socket has them: one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Looked {
    /// The figures of the connection.
    #[serde(flatten)]
    pub connection: Connection,
    /// The look.
    pub look: Look,
}

impl Look {
    /// A look at a connection, at the time `now` of its stack.
    pub fn of(row: &ConnectionRow, link_up: bool, around: &Surroundings, now: Instant) -> Look {
        let i = &row.info;
        let gone = i.sacked_bytes.saturating_add(i.lost_bytes);
        Look {
            at_us: now.as_nanos() / 1000,
            state: i.state.name().to_owned(),
            control: i.algorithm.to_owned(),
            mss: i.snd_mss as u64,
            mss_most: i.snd_mss_most as u64,
            rcv_mss: i.rcv_mss as u64,
            cwnd: i.cwnd,
            snd_wnd: u64::from(i.snd_wnd),
            rcv_wnd: u64::from(i.rcv_wnd),
            in_flight: u64::from(i.in_flight),
            pipe: u64::from(i.in_flight.saturating_sub(gone) + i.resent_bytes.min(i.in_flight)),
            unsent: i.unsent as u64,
            unread: i.unread as u64,
            send_buffer: i.send_buffer_bytes as u64,
            receive_buffer: i.receive_buffer_bytes as u64,
            acked: i.bytes_acked,
            received: i.bytes_received,
            segments_in: u64::from(i.segments_in),
            segments_out: u64::from(i.segments_out),
            retransmits: u64::from(i.retransmits),
            timeouts: u64::from(i.timeouts),
            fast_recoveries: u64::from(i.fast_recoveries),
            undone: u64::from(i.undone),
            ecn_reductions: u64::from(i.ecn_reductions),
            out_of_order: u64::from(i.out_of_order),
            retries: u64::from(i.retries),
            probes: u64::from(i.probes),
            rtt_us: i.srtt.as_micros(),
            min_rtt_us: i.min_rtt.as_micros(),
            pacing_bytes_per_s: (i.pacing_rate != 0).then_some(i.pacing_rate),
            waits_for_pacing: i.due.pacing != Instant::NEVER,
            recovers: i.repair != Repair::Nothing,
            write_blocked: i.write_blocked,
            no_delay: i.no_delay,
            link_down: !link_up,
            cpu_us: around.cpu_us,
            pushed_back: around.pushed_back,
        }
    }

    /// Recovery episodes; segments that are lost together count as one.
    pub(crate) fn episodes(&self) -> u64 {
        self.fast_recoveries.saturating_add(self.timeouts)
    }

    /// The payload of a full segment, never 0.
    pub(crate) fn segment(&self) -> u64 {
        self.mss.max(1)
    }

    /// The cause that holds back our sending.
    pub fn of_sending(&self) -> Held {
        let mss = self.segment();
        // A program that waits for room has more to send, however little is queued. A program whose
        // writes are as long as the buffer also waits, although its writes are never cut short.
        let queued = self.unsent + self.in_flight;
        let is_full = self.in_flight > 0 && queued + mss > self.send_buffer;
        if !self.write_blocked && !is_full && self.unsent < mss {
            let is_held = self.unsent > 0 && self.in_flight > 0 && !self.no_delay;
            return if is_held { Held::Nagle } else { Held::Application };
        }
        let window_left = self.snd_wnd.saturating_sub(self.in_flight);
        let cwnd_left = self.cwnd.saturating_sub(self.pipe);
        if window_left < mss && self.snd_wnd <= self.cwnd.max(mss) {
            Held::ReceiveWindow
        } else if is_full && self.unsent < mss && self.send_buffer <= self.cwnd {
            // The whole buffer is in flight, and cwnd allows more.
            Held::SendBuffer
        } else if cwnd_left < mss || self.recovers && self.unsent < mss {
            Held::CongestionWindow
        } else if window_left < mss {
            Held::ReceiveWindow
        } else if self.unsent < mss {
            // The limit of unsent data would let the program write, but the buffer does not.
            Held::SendBuffer
        } else if self.waits_for_pacing {
            Held::Pacing
        } else {
            Held::Device
        }
    }

    /// The cause that holds back our receiving.
    pub fn of_receiving(&self) -> Held {
        let is_closed = self.rcv_wnd < 2 * self.rcv_mss.max(1);
        let is_full = self.unread > 0 && self.unread >= self.receive_buffer / 2;
        if self.unread > 0 && is_closed || is_full { Held::OurReader } else { Held::Peer }
    }
}
