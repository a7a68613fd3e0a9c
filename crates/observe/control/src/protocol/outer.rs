//! The other leg of a connection that ends at a gateway: a socket of the host, as its kernel sees
//! it.
//!
//! Called by: the gateway, which fills the fields; tools, which read them.

use serde::{Deserialize, Serialize};

/// A TCP connection of the host. Fields have the names of `ss -ti`, if it has one. Sizes are in
/// bytes; counts are since the connection began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outer {
    /// The host's address and port.
    pub local: String,
    /// The peer's address and port.
    pub remote: String,
    /// The state, by its name in RFC 9293.
    pub state: String,
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
    /// The largest payload that is sent in a segment.
    pub mss: u64,
    /// The largest payload that was received in a segment.
    pub rcv_mss: u64,
    /// Congestion window, in segments.
    pub cwnd: u64,
    /// Slow-start threshold, in segments; `None` until there was congestion.
    pub ssthresh: Option<u64>,
    /// Segments that were sent and not acknowledged.
    pub unacked: u64,
    /// Segments in flight that are taken for lost.
    pub lost: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Bytes that wait to be sent.
    pub unsent: u64,
    /// The round-trip time as the receiver sees it.
    pub rcv_rtt_us: u64,
    /// Bytes that are taken from the receive buffer in a round trip.
    pub rcv_space: u64,
    /// The pacing rate; `None` without pacing.
    pub pacing_bytes_per_s: Option<u64>,
    /// The rate at which the newest data was delivered.
    pub delivery_bytes_per_s: u64,
    /// Bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// How long data was in flight or waited to be sent.
    pub busy_us: u64,
    /// How long of this the peer's window was full.
    pub rwnd_limited_us: u64,
    /// How long of this the send buffer was full.
    pub sndbuf_limited_us: u64,
}
