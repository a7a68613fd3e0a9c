//! Why a script of google's suite may fail here: it expects behaviour specific to Linux, not to
//! TCP.
//!
//! Called by: `packetdrill/mod.rs`, for the line of a script that fails. The script still counts as
//! failed.

/// Part of a script's name, and what it expects; the first match counts.
const NOTES: &[(&str, &str)] = &[
    ("cubic/cubic-bulk-166k", "Linux's HyStart and buffer sizes; ours is HyStart++, RFC 9406"),
    ("cubic/cubic-hystart", "when Linux's HyStart ends slow start; ours is HyStart++, RFC 9406"),
    ("cwnd-moderation-ecn-enter-cwr", "a mark reduces the window by PRR there, at once here"),
    ("epoll/epoll_out_edge", "what wmem sysctls admit, overhead of Linux's buffers included"),
    ("fr-4pkt-fack-last-byte", "a tail probe although SACKs came, which RFC 8985 7.3 excludes"),
    ("fr-4pkt-fack-last-mss", "Linux adds jiffies to the reordering timer"),
    ("gro/gro-mss-option", "the segment size that GRO tells Linux"),
    ("mtu_probe/", "routes with an MSS and a lock, by `ip route`"),
    ("nagle/https_client", "PSH inside what is cut in software"),
    ("notsent_lowat/", "what Linux's buffers admit, overhead included"),
    ("sack-shift", "counts of lost packets while they are sent again"),
    ("shutdown-rdwr-send-queue", "the borders of what was cut by the congestion window"),
    ("slow-start-after", "sizes of TSO packets"),
    ("slow-start-fq", "pacing by the queue discipline fq"),
    ("splice/", "a splice of nothing at the urgent mark, which is no error there"),
    ("tcp-info-sndbuf-limited", "what Linux's buffers admit, overhead included"),
    ("timestamping/", "SO_TIMESTAMPING, which the stack lacks"),
    ("user-timeout-probe", "a queue discipline that drops all, by `tc`"),
    ("zerocopy/maxfrags", "pieces of a page in one packet"),
    ("blocking-sendmsg-multi-iov", "delayed ACKs later in a connection; here every one is at once"),
    (
        "client/blocking-sendto",
        "counts delivered packets; here delivered bytes are told in segments",
    ),
    ("cookie-less-sendto", "Minshall's variant of Nagle's algorithm: small behind large"),
    ("sendto-over-mss", "Minshall's variant of Nagle's algorithm: small behind large"),
    ("fallback-exp-opt", "a client that asks again under the experimental kind"),
    ("client/nonblocking-sendto", "`ip tcp_metrics flush`, which forgets cookies"),
    (
        "simultaneous-fast-open",
        "a SYN-ACK in SYN-RECEIVED that acknowledges the data; here it goes again",
    ),
    ("syn-data-icmp", "an ICMP error that has the SYN sent again at once, smaller"),
    ("syn-data-only-syn-acked", "counts the SYN's data as retransmitted when it goes again"),
    ("syn-data-partial", "counts the SYN's data as retransmitted when it goes again"),
    ("synack-data", "a SYN-ACK whose timestamp echoes nothing of ours is reset there"),
    ("client-ack-dropped", "sizes of TSO packets"),
    (
        "server/icmp-baseline",
        "an ICMP error that ends a half-open connection; soft here (RFC 5927)",
    ),
    ("icmp-before-accept", "counters of Linux's, by `nstat`"),
];

/// The note about a script.
pub(crate) fn note(name: &str) -> Option<&'static str> {
    NOTES.iter().find(|(script, _)| name.contains(script)).map(|&(_, why)| why)
}
