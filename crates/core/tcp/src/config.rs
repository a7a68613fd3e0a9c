//! The settings of a connection.

use base::Duration;

use crate::cc::Algorithm;

/// When a connection searches for the path MTU by itself (RFC 4821), without relying on ICMP, which
/// many routers do not send and many firewalls drop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtuProbing {
    /// Never: a black hole for large segments ends the connection.
    Off,
    /// When large segments vanish, segments are made smaller, and larger ones are tried again, one
    /// at a time. This is also done ten minutes after an ICMP message made segments smaller. Linux:
    /// tcp_mtu_probing=1. The default: it costs nothing on a path whose MTU is that of the link.
    #[default]
    AfterBlackHole,
    /// Every connection begins with segments that nearly every path carries, and tries larger ones
    /// from there, unless the path MTU is known. Linux: tcp_mtu_probing=2.
    Always,
}

/// Explicit congestion notification, RFC 3168.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Neither requested nor accepted.
    Off,
    /// Accepted if the peer requests it; our own SYNs do not request it, as in Linux.
    #[default]
    Accept,
    /// Our SYNs request it as well.
    On,
}

/// Behaviour in which other systems differ from us where the RFCs leave a choice. The defaults are
/// ours; tests that are written for another system select its behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compat {
    /// Answer an ACK of data never sent with an ACK, as RFC 9293 section 3.10.7.4 and RFC 5961
    /// section 5 require. Linux does not answer, so that two desynchronised ends cannot loop.
    pub unsent_acks_answered: bool,
    /// In slow start cwnd grows while more than half of it is used, as on Linux (RFC 7661 section
    /// 4.3 calls that validated), and not only while it limits sending.
    pub growth_when_half_used: bool,
    /// After a loss or CE mark ssthresh is computed from cwnd, as on Linux, and not from FlightSize
    /// (RFC 5681 section 3.1). RFC 9438 section 4.6 permits this if cwnd does not grow while the
    /// sender leaves it unused.
    pub reduces_whole_window: bool,
    /// After reordering cwnd grows by the bytes that an ACK newly delivers, as on Linux, and not by
    /// the bytes it acknowledges, some of which SACKs or duplicate ACKs had reported before.
    pub growth_by_delivery: bool,
    /// A super-segment waits while the free room is less than the smaller of cwnd and the peer's
    /// window divided by this number, at most a millisecond after the last transmission. At least
    /// 1. tcp_tso_win_divisor of Linux.
    pub super_room_part: u16,
    /// How long the peer may delay the ACK of a lone segment, up to 255 ms; a tail loss probe waits
    /// longer by this time (RFC 8985 section 7.2). Linux and Windows delay such an ACK by 40 ms and
    /// a tick.
    pub peer_ack_delay: Duration,
    /// Minimum wait before a tail loss probe, up to 255 ms: a busy peer's pause is no loss.
    pub probe_min: Duration,
}

impl Default for Compat {
    fn default() -> Compat {
        Compat {
            unsent_acks_answered: true,
            growth_when_half_used: false,
            reduces_whole_window: false,
            growth_by_delivery: false,
            super_room_part: 3,
            peer_ack_delay: Duration::from_millis(45),
            probe_min: Duration::from_millis(45),
        }
    }
}

/// The settings of one connection; an accepted connection has those of its listener.
///
/// ```
/// # mod wirespeed {
/// #     pub use base::*;
/// #     pub mod tcp { pub use wirespeed_tcp::{Config, cc::Algorithm}; }
/// # }
/// use wirespeed::Duration;
/// use wirespeed::tcp::{Algorithm, Config};
///
/// let config = Config {
///     algorithm: Algorithm::Bbr,
///     no_delay: true, // no Nagle
///     user_timeout: Some(Duration::from_secs(30)),
///     ..Config::default()
/// };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Receive buffer at the start, in bytes. It limits the offered window until the buffer grows.
    pub receive_buffer_bytes: u32,
    /// Maximum of the receive buffer, reached if path and reader are fast enough. The window scale
    /// is chosen for it (RFC 7323 section 2.3). A value up to `receive_buffer_bytes` (0, for
    /// instance) fixes the size.
    pub receive_buffer_max_bytes: u32,
    /// Initial send buffer in bytes, unacknowledged data included.
    pub send_buffer_bytes: u32,
    /// Maximum of the send buffer, which grows with cwnd. A value up to `send_buffer_bytes` (0, for
    /// instance) fixes the size.
    pub send_buffer_max_bytes: u32,
    /// A write takes no more bytes once this many are unsent, or a sixteenth of the window if that
    /// is more; see `usrreq::write`.
    pub unsent_limit_bytes: u32,
    /// Send small segments at once (Nagle's algorithm off, RFC 9293 section 3.7.4).
    pub no_delay: bool,
    /// Maximum delay of an ACK for data; under 500 ms (RFC 9293 MUST-40).
    pub ack_delay: Duration,
    /// Minimum RTO: the time-out is at least this much above SRTT. RFC 6298 rule 2.4 recommends
    /// (SHOULD) 1 s; the default here is 200 ms, as docs/decisions/0005 explains.
    /// RFC 6298 2-d.
    pub rto_min: Duration,
    /// Maximum retransmission time-out, backoff included: 120 s, as TCP_RTO_MAX_MS of Linux. Rule
    /// 2.5 requires at least 60 s; less is for networks with short outages.
    /// RFC 6298 2-e.
    pub rto_max: Duration,
    /// Time-out before the first measurement, RFC 6298 rule 2.1.
    pub rto_initial: Duration,
    /// Consecutive retransmissions before the connection is given up (R2 of RFC 9293, 3.8.3).
    pub retries_max: u8,
    /// Consecutive retransmissions before an orphan (a connection that its program has closed) is
    /// given up. It also limits an orphan's probes of a zero window, answered or not. At most
    /// `retries_max`. The default takes 102 s and more, as tcp_orphan_retries of Linux.
    pub orphan_retries_max: u8,
    /// Consecutive retransmissions of a SYN before the open fails. The default ends an open after
    /// 247 s, that of Linux after 127 s.
    pub syn_retries_max: u8,
    /// The user timeout of RFC 9293 section 3.9.1 (TCP_USER_TIMEOUT of Linux): how long sent data,
    /// a SYN or a window probe may stay unanswered before the connection is given up, however many
    /// retries there were. `None`: only the counts above apply.
    /// RFC 9293 MUST-21.
    pub user_timeout: Option<Duration>,
    /// Announce in our SYN how long we keep unacknowledged data, and take the peer's announcement
    /// (RFC 5482). The longer of the two times, between 100 s and an hour, then replaces the counts
    /// above. `None` neither sends nor reads the option. If `user_timeout` is set, that
    /// timeout applies here, and the peer is sent the value of this option. Up to 22 days.
    pub user_timeout_option: Option<Duration>,
    /// Congestion control algorithm.
    pub algorithm: Algorithm,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Once timestamps are agreed, drop segments without them (RFC 7323 section 3.2, a SHOULD). Off
    /// by default, as on Linux, because keep-alives of middleboxes have none (decision 0106).
    pub timestamps_required: bool,
    /// Offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Maximum segment size to send and to ask the peer for, payload and options together; the
    /// link's MTU is a limit as well. TCP_MAXSEG of other systems.
    pub mss_max: u16,
    /// Minimum of the peer's MSS: a peer that asks for less gets segments of this size, if our own
    /// limits permit it. At least 48. With 48, a peer can make us send a header per 36 bytes
    /// (CVE-2019-11479). No host that conforms to RFC 1122 needs less than 536, but with that value
    /// the few hosts on narrower links are not served. tcp_min_snd_mss of Linux.
    pub mss_min: u16,
    /// Maximum number of segments in a super-segment, if the device takes any; at least 1.
    pub super_segments_max: u16,
    /// How to find the path MTU when no router reports it.
    pub mtu_probing: MtuProbing,
    /// Explicit congestion notification (RFC 3168). With BBR, which does not respond to CE marks,
    /// we echo them but do not send ECT.
    pub ecn: Ecn,
    /// Keepalive probes after this idle time; `None` is off (RFC 9293 MUST-25).
    /// RFC 9293 MUST-27.
    pub keepalive_idle: Option<Duration>,
    /// Interval between keepalive probes.
    pub keepalive_interval: Duration,
    /// Unanswered probes before the connection is given up.
    pub keepalive_probes_max: u8,
    /// How long an orphan may stay in FIN-WAIT-2.
    pub fin_wait_2: Duration,
    /// Behaviour in which other systems differ from us.
    pub compat: Compat,
    /// How long TIME-WAIT lasts: two maximum segment lifetimes.
    /// RFC 9293 MUST-13.
    pub time_wait: Duration,
}

/// The maximum window with a window scale of 11: 128 MB, less one unit.
const BUFFER_MAX_BYTES: u32 = 65_535 << 11;

impl Config {
    /// Fixed buffers of exactly these sizes.
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
            // RFC 9293 SHLD-11.
            retries_max: 15,
            orphan_retries_max: 8,
            // RFC 9293 MUST-23.
            syn_retries_max: 7,
            user_timeout: None,
            user_timeout_option: None,
            algorithm: Algorithm::Cubic,
            timestamps: true,
            timestamps_required: false,
            sack: true,
            window_scaling: true,
            mss_max: u16::MAX,
            mss_min: 48,
            super_segments_max: u16::MAX,
            mtu_probing: MtuProbing::AfterBlackHole,
            ecn: Ecn::default(),
            keepalive_idle: None,
            keepalive_interval: Duration::from_secs(75),
            keepalive_probes_max: 9,
            fin_wait_2: Duration::from_secs(60),
            compat: Compat::default(),
            time_wait: Duration::from_secs(60),
        }
    }
}

/// The lowest minimum MSS. Linux's value (CVE-2019-11479), and the default of `Config::mss_min`.
pub(crate) const MSS_FLOOR: usize = 48;
