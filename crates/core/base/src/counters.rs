//! Counters of a stack, by name. [`crate::Drops`] counts dropped packets.

use core::fmt;

use crate::drops::by_name;

macro_rules! counters {
    ($($variant:ident $name:literal $meaning:literal;)*) => {
        /// An event or amount that a stack counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Counter { $(#[doc = $meaning] $variant,)* }

        impl Counter {
            /// Every counter, in order.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant,)*];

            /// The name in tables and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name,)* }
            }

            /// A description for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(Counter::$variant => $meaning,)* }
            }
        }
    };
}

counters! {
    RxFrames "rx_frames" "frames taken from devices";
    RxBytes "rx_bytes" "bytes taken from devices";
    RxBursts "rx_bursts" "non-empty bursts taken from devices";
    TxFrames "tx_frames" "frames given to devices";
    TxBytes "tx_bytes" "bytes given to devices";
    TxBursts "tx_bursts" "non-empty bursts given to devices";
    TxPushedBack "tx_pushed_back" "times a full device pushed back to the stack";
    TcpSegmentsIn "tcp_segments_in" "TCP segments with a good checksum; a super-segment is one";
    TcpPredicted "tcp_predicted" "segments that took the predicted path";
    TcpFollowed "tcp_followed" "predicted segments with the headers of the one before";
    TcpSegmentsOut "tcp_segments_out" "TCP segments sent; a super-segment is one";
    TcpStamped "tcp_stamped" "segments sent with the headers of the one before";
    TcpRetransmits "tcp_retransmits" "TCP segments sent again";
    TcpAcksOut "tcp_acks_out" "TCP segments sent that carried nothing but an ACK";
    TcpConnects "tcp_connects" "active opens";
    TcpAccepts "tcp_accepts" "passive opens that were established";
    TcpCookiesSent "tcp_cookies_sent" "SYNs answered with a cookie because the backlog was full";
    TcpCookiesAccepted "tcp_cookies_accepted" "connections established from a cookie";
    TcpCookiesLate "tcp_cookies_late"
        "good cookies that met a full accept queue; the peer may try again";
    TcpCookiesRefused "tcp_cookies_refused"
        "ACKs without a valid cookie to a listener that sends cookies";
    TcpFastOpenCookiesSent "tcp_fast_open_cookies_sent"
        "SYNs answered with a Fast Open cookie, requested or in place of a wrong one";
    TcpFastOpenAccepted "tcp_fast_open_accepted"
        "connections accepted at their SYN, which had a good Fast Open cookie";
    TcpFastOpenRefused "tcp_fast_open_refused"
        "SYNs with a wrong Fast Open cookie; the handshake is an ordinary one";
    TcpFastOpenFull "tcp_fast_open_full"
        "SYNs with a good Fast Open cookie while too many are pending; the handshake is an \
         ordinary one";
    TcpFastOpenSent "tcp_fast_open_sent" "SYNs sent with data";
    TcpFastOpenNotTaken "tcp_fast_open_not_taken"
        "SYNs sent with data that was not acknowledged, and was sent again after the handshake";
    TcpHalfOpenReplaced "tcp_half_open_replaced"
        "overdue half-open connections evicted by a newer SYN at a full backlog";
    TcpOrphansReset "tcp_orphans_reset"
        "orphaned connections reset at the limit `orphans`";
    TcpCeIn "tcp_ce_in" "segments of ECN connections received with a congestion mark (CE)";
    TcpEcnReductions "tcp_ecn_reductions"
        "congestion windows reduced because the peer echoed a mark (RFC 3168)";
    TcpTailProbes "tcp_tail_probes" "tail loss probes sent (RFC 8985)";
    TcpTimeouts "tcp_timeouts" "retransmission timer expiries";
    TcpChallengeAcks "tcp_challenge_acks" "challenge ACKs sent (RFC 5961)";
    TcpResetsOut "tcp_resets_out" "RSTs sent";
    DemuxHit "demux_hit" "segments whose connection was in the flow cache";
    DemuxMiss "demux_miss" "segments whose connection had to be looked up";
    FragmentsIn "fragments_in" "fragments received for this host";
    FragmentsJoined "fragments_joined" "fragments received that became part of a datagram";
    DatagramsReassembled "datagrams_reassembled" "datagrams reassembled from fragments";
    DatagramsFragmented "datagrams_fragmented" "datagrams sent in fragments";
    FragmentsOut "fragments_out" "fragments sent";
    UdpIn "udp_in" "UDP datagrams delivered";
    UdpOut "udp_out" "UDP datagrams sent";
    UdpSegments "udp_segments"
        "UDP datagrams sent with the headers of another one of the same call";
    UdpCoalesced "udp_coalesced" "UDP datagrams received behind another one in the same read";
    UdpZeroChecksumIn "udp_zero_checksum_in"
        "UDP datagrams over IPv6 delivered without a checksum (RFC 6935)";
    UdpZeroChecksumOut "udp_zero_checksum_out"
        "UDP datagrams sent without a checksum, as their socket asked";
    UdpErrorsQueued "udp_errors_queued" "errors put into the error queue of a UDP socket";
    ForeignIn "foreign_in"
        "datagrams and echo requests for other hosts that the program takes";
    ForeignErrors "foreign_errors"
        "ICMP errors that the program sent about packets to other hosts";
    ForeignEchoReplies "foreign_echo_replies"
        "echo replies that the program sent in the name of other hosts";
    PuntedRouting "punted_routing"
        "packets of routing protocols that were put into the queue for mirrors";
    PuntedOther "punted_other" "other packets that were put into the queue for mirrors";
    MirrorOut "mirror_out" "packets that programs sent by mirrors";
    GroupQueriesIn "group_queries_in" "IGMP and MLD queries received and used";
    GroupReportsIn "group_reports_in" "IGMP and MLD reports of other hosts received and used";
    GroupReportsOut "group_reports_out" "IGMP and MLD messages sent";
    GroupDatagramsIn "group_datagrams_in" "UDP datagrams to groups, however many sockets took them";
    GroupLooped "group_looped" "UDP datagrams to groups that came back to sockets of this host";
    IcmpEchoReplies "icmp_echo_replies" "echo requests answered";
    IcmpEchoRequests "icmp_echo_requests" "echo requests sent";
    IcmpEchoRepliesIn "icmp_echo_replies_in" "echo replies delivered to a socket";
    IcmpErrorsIn "icmp_errors_in" "ICMP errors reported to a connection or a socket";
    IcmpErrorsOut "icmp_errors_out" "ICMP errors sent";
    BroadcastsOtherForm "broadcasts_other_form"
        "link-level broadcasts to an IP address that is not this port's broadcast address";
    RoutesRefused "routes_refused"
        "routes that a network offered, by DHCP or router advertisements, and that were not taken";
    Looped "looped" "packets of this host to itself";
    Forwarded "forwarded" "packets forwarded";
    ForwardedInBursts "forwarded_in_bursts" "forwarded packets that took the burst path";
    SuperSegmentsForwarded "super_segments_forwarded"
        "super-segments forwarded whole; each is one of `forwarded`";
    SuperSegmentsCut "super_segments_cut"
        "super-segments cut into packets for a port that does not take them; each is one of \
         `forwarded`";
    SegmentsMerged "segments_merged"
        "forwarded segments that were merged into super-segments for a port that takes them";
    LinkChanges "link_changes"
        "links of ports that went down, or came up, while packets were forwarded";
    TcpRerouted "tcp_rerouted"
        "connections that leave by another port because their route is over it now";
    ArpIn "arp_in" "ARP packets received and used";
    NdIn "nd_in" "neighbour discovery messages received and used";
    NeighbourSolicitations "neighbour_solicitations" "ARP requests and solicitations sent";
    NeighbourAdvertisements "neighbour_advertisements" "ARP replies and advertisements sent";
    DadProbes "dad_probes" "solicitations sent to check an address for duplicates";
    DadDuplicates "dad_duplicates" "addresses of ours that another host turned out to have";
    RouterSolicitations "router_solicitations" "router solicitations sent";
    RouterAdvertisements "router_advertisements" "router advertisements received and used";
    Redirects "redirects" "redirects received and followed";
    RedirectsOut "redirects_out" "redirects sent to the source of a packet that was forwarded";
    AddressProbes "address_probes" "ARP probes sent for addresses of ours (RFC 5227)";
    AddressConflicts "address_conflicts" "times another host used or wanted an address of ours";
    NeighbourFailures "neighbour_failures" "neighbours that did not answer, or were evicted";
    PathMtuLowered "path_mtu_lowered" "connections whose segment size was lowered to the path MTU";
    PathMtuDoubted "path_mtu_doubted"
        "path MTU reports that contradict acknowledged segments; kept until a segment is lost";
    PathBlackHoles "path_black_holes"
        "times a connection assumed a black hole and lowered its segment size (RFC 4821)";
    PathMtuProbes "path_mtu_probes" "larger segments sent to find the path's MTU (RFC 4821)";
    PathMtuRaised "path_mtu_raised" "path MTU probes that were acknowledged";
    WakeupsSent "wakeups_sent" "wake-ups of a sleeping thread or task";
    WakeupsSuppressed "wakeups_suppressed" "wake-ups not needed because nobody slept";
    TimersFired "timers_fired" "timers that came due";
}

/// One value per [`Counter`]. `Display` and `Debug` print the values above 0, by name.
///
/// ```
/// # use wirespeed_base as wirespeed;
/// use wirespeed::Counters;
///
/// let counters = Counters::default(); // or `Stack::counters`
/// for (counter, value) in counters.iter() {
///     println!("{} {value}: {}", counter.name(), counter.meaning());
/// }
/// ```
#[derive(Clone)]
pub struct Counters([u64; Counter::ALL.len()]);

impl Default for Counters {
    fn default() -> Counters {
        Counters([0; Counter::ALL.len()])
    }
}

impl Counters {
    /// Add `n` to `counter`.
    #[inline(always)]
    pub fn add(&mut self, counter: Counter, n: u64) {
        self.0[counter as usize] += n;
    }

    /// The value of `counter`.
    pub fn of(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Add the values of another stack's counters.
    pub fn include(&mut self, other: &Counters) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, n)| *sum += n);
    }

    /// Every counter with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().map(|&c| (c, self.of(c)))
    }
}

impl Counters {
    /// The counters above 0, with their values.
    pub fn nonzero(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        self.iter().filter(|&(_, n)| n > 0)
    }
}

/// For example `rx_frames 3, udp_in 1`; `none` if all are 0.
impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        by_name(f, self.nonzero().map(|(counter, n)| (counter.name(), n)))
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.nonzero().map(|(counter, n)| (counter.name(), n))).finish()
    }
}
