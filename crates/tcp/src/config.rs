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
    pub rto_min: Duration,
    /// Time-out before the first measurement, RFC 6298 rule 2.1.
    pub rto_initial: Duration,
    /// Retransmissions in a row before the connection is given up (R2 of RFC 9293, 3.8.3).
    pub retries_max: u8,
    /// The same for a SYN.
    pub syn_retries_max: u8,
    /// How long sent data, a SYN or a window probe may stay unanswered before the connection is
    /// given up, however often it was sent; `None` leaves it to the counts above (RFC 9293 section
    /// 3.9.1 calls it the user timeout, Linux TCP_USER_TIMEOUT).
    pub user_timeout: Option<Duration>,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// How segments find out what the path carries, where nobody tells.
    pub mtu_probing: MtuProbing,
    /// Explicit congestion notification (RFC 3168). With BBR, which does not slow down for a mark,
    /// marks are echoed but what we send does not ask for them.
    pub ecn: Ecn,
    /// Keepalive probes after this much silence; `None` is off (RFC 9293 MUST-25).
    pub keepalive_idle: Option<Duration>,
    /// Between keepalive probes.
    pub keepalive_interval: Duration,
    /// Unanswered probes before the connection is given up.
    pub keepalive_probes_max: u8,
    /// How long FIN-WAIT-2 may last once nobody can read any more.
    pub fin_wait_2: Duration,
    /// How long TIME-WAIT lasts: two maximum segment lifetimes.
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
            rto_initial: Duration::from_secs(1),
            retries_max: 15,
            syn_retries_max: 6,
            user_timeout: None,
            algorithm: Algorithm::Cubic,
            timestamps: true,
            sack: true,
            window_scaling: true,
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
