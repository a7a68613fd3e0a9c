//! A TCP connection, as `show`, `top`, `explain` and the live page get it.
//!
//! Called by: `observe`, which fills the fields; tools, which read them. A new field is added here,
//! filled in `rows.rs` of `observe`, and shown where it matters.

use serde::{Deserialize, Serialize};

use super::outer::Outer;

/// A connection. Fields have the names of `ss -ti`, if it has one. Sizes are in bytes; counts are
/// since the connection began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connection {
    /// The index in the stack's table, which another connection may have later.
    pub number: u64,
    /// The local address and port.
    pub local: String,
    /// The peer's address and port.
    pub remote: String,
    /// The state, by its name in RFC 9293.
    pub state: String,
    /// The number of the port that the connection's packets leave by.
    pub port: u16,
    /// The name of that port.
    pub dev: String,
    /// The user that owns the connection.
    pub uid: u32,
    /// The time since the first SYN.
    pub age_ms: u64,
    /// The name of the congestion control.
    pub congestion_control: String,
    /// ECN was agreed in the handshake.
    pub ecn: bool,
    /// SACK was agreed in the handshake.
    pub sack: bool,
    /// Timestamps were agreed in the handshake.
    pub timestamps: bool,
    /// Small segments are sent at once (TCP_NODELAY).
    pub no_delay: bool,
    /// The shift of the peer's window; `None` if scaling was not agreed.
    pub wscale_snd: Option<u8>,
    /// The shift of our window; `None` if scaling was not agreed.
    pub wscale_rcv: Option<u8>,
    /// The MSS that was announced to the peer.
    pub advmss: u64,
    /// The largest payload that is sent in a segment.
    pub mss: u64,
    /// The largest payload that was received in a segment.
    pub rcv_mss: u64,
    /// Smoothed round-trip time.
    pub rtt_us: u64,
    /// The mean deviation of the round-trip time.
    pub rttvar_us: u64,
    /// The shortest round-trip time.
    pub min_rtt_us: u64,
    /// The retransmission time-out.
    pub rto_us: u64,
    /// How often the retransmission time-out was doubled.
    pub backoff: u64,
    /// How many time-outs in a row had no answer.
    pub retries: u64,
    /// How many probes in a row had no answer.
    pub probes: u64,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Slow-start threshold; `None` until there was congestion.
    pub ssthresh_bytes: Option<u64>,
    /// The pacing rate; `None` without pacing.
    pub pacing_bytes_per_s: Option<u64>,
    /// The state of loss recovery, as Linux calls it: `no`, `disorder`, `cwr`, `recovery` or
    /// `loss`.
    pub recovering: String,
    /// The peer's window.
    pub snd_wnd: u64,
    /// Our window.
    pub rcv_wnd: u64,
    /// Bytes that were sent and not acknowledged.
    pub in_flight: u64,
    /// The bytes in flight that SACK reports as received.
    pub sacked_bytes: u64,
    /// The bytes in flight that are taken for lost.
    pub lost_bytes: u64,
    /// The bytes in flight that were sent again.
    pub resent_bytes: u64,
    /// Bytes that wait to be sent.
    pub unsent: u64,
    /// Bytes that wait to be read.
    pub unread: u64,
    /// Size of the receive buffer.
    pub receive_buffer_bytes: u64,
    /// Size of the send buffer.
    pub send_buffer_bytes: u64,
    /// Bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission time-outs, probes of a zero window included.
    pub timeouts: u64,
    /// Episodes of fast recovery.
    pub fast_recoveries: u64,
    /// Tail loss probes.
    pub tail_probes: u64,
    /// Reductions of the congestion window that were undone.
    pub undone: u64,
    /// Duplicate ACKs received.
    pub duplicate_acks: u64,
    /// Segments received out of order.
    pub out_of_order: u64,
    /// Packets received with a congestion mark (CE).
    pub ce_marks: u64,
    /// Reductions of the congestion window because the peer received such marks.
    pub ecn_reductions: u64,
    /// When the timers are due.
    pub timers_ms: Timers,
    /// The other leg of a flow, if the connection ends at a gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outer: Option<Box<Outer>>,
}

/// When a connection's timers are due, in milliseconds from now; `None` if a timer is not running.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names of the timers")]
pub struct Timers {
    pub retransmit: Option<f64>,
    pub delayed_ack: Option<f64>,
    pub keepalive: Option<f64>,
    pub pacing: Option<f64>,
}
