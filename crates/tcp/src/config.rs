//! What a user may set on a connection.

use base::Duration;

use crate::cc::Algorithm;

/// When a connection finds out by itself what its path carries (RFC 4821), and not by messages
/// alone, which many routers do not send and many firewalls do not pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtuProbing {
    /// Never: a path that swallows large segments in silence ends the connection.
    Off,
    /// Once large segments vanish, segments are made smaller; then, and ten minutes after any
    /// message made them smaller, larger ones are tried one at a time. As tcp_mtu_probing=1 of
    /// Linux. The default: a path that carries what the link does costs nothing.
    #[default]
    AfterBlackHole,
    /// Every connection begins with segments that nearly every path carries, and tries larger ones
    /// from there, unless its path is known. As tcp_mtu_probing=2 of Linux.
    Always,
}

/// Explicit congestion notification, RFC 3168.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Neither asked for nor agreed to.
    Off,
    /// A peer that asks for it gets it; our own SYNs do not ask, as in Linux.
    #[default]
    Accept,
    /// Our SYNs ask for it as well.
    On,
}

/// The settings of one connection; a listener hands its own to those it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes of received data that may wait for the reader, to begin with: the largest window
    /// offered.
    pub receive_buffer_bytes: u32,
    /// What the receive buffer may become if path and reader are fast enough: the shift of the
    /// window is chosen for it (RFC 7323 section 2.3). No more than `receive_buffer_bytes`, 0 for
    /// instance: the buffer keeps its size.
    pub receive_buffer_max_bytes: u32,
    /// Bytes that may be queued for sending, unacknowledged ones included, to begin with.
    pub send_buffer_bytes: u32,
    /// What the send buffer may become with the congestion window. No more than
    /// `send_buffer_bytes`, 0 for instance: it keeps its size.
    pub send_buffer_max_bytes: u32,
    /// Bytes not yet sent above which a write takes no more, or a sixteenth of the window if that
    /// is more; see [`crate::usrreq::write`].
    pub unsent_limit_bytes: u32,
    /// Send small segments at once (Nagle's algorithm off, RFC 9293 section 3.7.4).
    pub no_delay: bool,
    /// Longest wait before data is acknowledged; under 500 ms (RFC 9293 MUST-40).
    pub ack_delay: Duration,
    /// Least retransmission time-out. RFC 6298 rule 2.4 says SHOULD 1 s; ours is 200 ms, as
    /// docs/decisions/0005 explains.
    /// RFC 6298 2-d.
    pub rto_min: Duration,
    /// Longest retransmission time-out, backoff included: 120 s, as TCP_RTO_MAX_MS of Linux. Rule
    /// 2.5 asks for 60 s at least; less is for networks whose outages are short.
    /// RFC 6298 2-e.
    pub rto_max: Duration,
    /// Time-out before the first measurement, RFC 6298 rule 2.1.
    pub rto_initial: Duration,
    /// How long a peer may keep back the ACK for a lone segment: a tail loss probe waits so much
    /// longer for it (RFC 8985 section 7.2); up to 255 ms. Linux and Windows keep it for 40 ms and
    /// a tick.
    pub peer_ack_delay: Duration,
    /// No tail loss probe comes before this; up to 255 ms. A pause of a busy peer is no loss.
    pub probe_min: Duration,
    /// Retransmissions in a row before the connection is given up (R2 of RFC 9293, 3.8.3).
    pub retries_max: u8,
    /// The same once the user has let go of the connection, and for the probes of a shut window
    /// then, answered or not: no more than `retries_max`. The default takes 102 s and more, as
    /// tcp_orphan_retries of Linux.
    pub orphan_retries_max: u8,
    /// The same for a SYN. The default ends an open after 247 s; in Linux it is 127 s.
    pub syn_retries_max: u8,
    /// How long sent data, a SYN or a window probe may stay unanswered before the connection is
    /// given up, however often it was sent; `None` leaves it to the counts above (RFC 9293 section
    /// 3.9.1 calls it the user timeout, Linux TCP_USER_TIMEOUT).
    /// RFC 9293 MUST-21.
    pub user_timeout: Option<Duration>,
    /// Tell the peer in our SYN how long we keep data that it does not acknowledge, and adopt what
    /// it says of itself (RFC 5482): the longer of both from then on, from 100 s to an hour, be
    /// there ever so many sendings. `None` neither tells nor listens; where `user_timeout` is
    /// set that stays, and the peer is told this. Up to 22 days.
    pub user_timeout_option: Option<Duration>,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Once timestamps are agreed, drop segments without (RFC 7323 section 3.2, a SHOULD); Linux
    /// takes them.
    pub timestamps_required: bool,
    /// Answer an ACK of what was never sent with one of ours, which is what RFC 9293 section
    /// 3.10.7.4 and RFC 5961 section 5 ask for; Linux says nothing, so that two ends that disagree
    /// cannot keep each other talking.
    pub unsent_acks_answered: bool,
    /// In slow start the window grows while more than half of it is used, as on Linux (RFC 7661
    /// section 4.3 calls that validated), and not only while it is what held data back.
    pub growth_when_half_used: bool,
    /// A loss, or a mark, reduces the window, as on Linux, and not what was in flight of it (RFC
    /// 5681 section 3.1). RFC 9438 section 4.6 leaves it open for windows that do not grow unused.
    pub reduces_whole_window: bool,
    /// After reordering the window grows by what an ACK newly delivers, as on Linux, and not by
    /// what it acknowledges, of which SACKs and duplicate ACKs had told some before.
    pub growth_by_delivery: bool,
    /// Offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Segments to send and to ask the peer for are no larger than this, payload and the room of
    /// options together; what the link admits counts as well. TCP_MAXSEG of other systems.
    pub mss_max: u16,
    /// A peer that asks for smaller segments than this gets segments of this size all the same, as
    /// far as ours may be so large; 48 at least. With the least, a peer has us send a header for
    /// each 36 bytes (CVE-2019-11479); no host that keeps to RFC 1122 needs less than 536, and with
    /// that floor the few on narrower links are not served. tcp_min_snd_mss of Linux.
    pub mss_min: u16,
    /// Segments that a super-segment has at most, where the device takes any; at least 1.
    pub super_segments_max: u16,
    /// A super-segment waits while the windows have room for less than this part of them, for a
    /// millisecond at most; at least 1. tcp_tso_win_divisor of Linux.
    pub super_room_part: u16,
    /// How to find the path MTU where no router reports it.
    pub mtu_probing: MtuProbing,
    /// Explicit congestion notification (RFC 3168). With BBR, which does not slow down for a mark,
    /// marks are echoed but what we send does not ask for them.
    pub ecn: Ecn,
    /// Keepalive probes after this much silence; `None` is off (RFC 9293 MUST-25).
    /// RFC 9293 MUST-27.
    pub keepalive_idle: Option<Duration>,
    /// Between keepalive probes.
    pub keepalive_interval: Duration,
    /// Unanswered probes before the connection is given up.
    pub keepalive_probes_max: u8,
    /// How long FIN-WAIT-2 may last once the connection was closed for reading.
    pub fin_wait_2: Duration,
    /// How long TIME-WAIT lasts: two maximum segment lifetimes.
    /// RFC 9293 MUST-13.
    pub time_wait: Duration,
}

/// The most that a window with a shift of 11 can say: 128 MB, less one unit.
const BUFFER_MAX_BYTES: u32 = 65_535 << 11;

impl Config {
    /// Buffers of exactly these sizes, which nothing tunes.
    pub fn set_fixed_buffers(&mut self, receive_bytes: u32, send_bytes: u32) {
        self.receive_buffer_bytes = receive_bytes;
        self.receive_buffer_max_bytes = 0;
        self.send_buffer_bytes = send_bytes;
        self.send_buffer_max_bytes = 0;
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            receive_buffer_bytes: 512 * 1024,
            receive_buffer_max_bytes: BUFFER_MAX_BYTES,
            send_buffer_bytes: 1024 * 1024,
            send_buffer_max_bytes: BUFFER_MAX_BYTES,
            unsent_limit_bytes: 64 * 1024,
            no_delay: false,
            ack_delay: Duration::from_millis(40),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(120),
            // RFC 6298 2-a.
            rto_initial: Duration::from_secs(1),
            peer_ack_delay: Duration::from_millis(45),
            probe_min: Duration::from_millis(45),
            // RFC 9293 SHLD-11.
            retries_max: 15,
            orphan_retries_max: 8,
            // RFC 9293 MUST-23.
            syn_retries_max: 7,
            user_timeout: None,
            user_timeout_option: None,
            algorithm: Algorithm::Cubic,
            timestamps: true,
            timestamps_required: true,
            unsent_acks_answered: true,
            growth_when_half_used: false,
            reduces_whole_window: false,
            growth_by_delivery: false,
            sack: true,
            window_scaling: true,
            mss_max: u16::MAX,
            mss_min: 48,
            super_segments_max: u16::MAX,
            super_room_part: 3,
            mtu_probing: MtuProbing::AfterBlackHole,
            ecn: Ecn::default(),
            keepalive_idle: None,
            keepalive_interval: Duration::from_secs(75),
            keepalive_probes_max: 9,
            fin_wait_2: Duration::from_secs(60),
            time_wait: Duration::from_secs(60),
        }
    }
}
