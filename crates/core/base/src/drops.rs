//! Drop reasons. A packet that is not delivered adds one to exactly one of these counters; nothing
//! is dropped silently. `advice.rs` has a sentence for each reason on what to do about it.

use core::fmt;

macro_rules! drop_reasons {
    ($($variant:ident $name:literal $meaning:literal;)*) => {
        /// Why a packet was not delivered.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $meaning] $variant,)* }

        impl DropReason {
            /// Every reason, in order.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)*];

            /// The name in counters and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// A description for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(DropReason::$variant => $meaning,)* }
            }
        }
    };
}

drop_reasons! {
    EtherShort "ether_short" "frame shorter than an Ethernet header";
    EtherNotForUs "ether_not_for_us" "unicast frame for another station";
    EtherTypeUnknown "ether_type_unknown" "no handler for the Ethernet type";
    VlanUnknown "vlan_unknown" "tagged frame on a port without that VLAN";
    ArpMalformed "arp_malformed" "ARP packet too short, or not for IPv4 over Ethernet";
    ArpNotForUs "arp_not_for_us" "ARP request for another host's address";
    ArpUnsolicited "arp_unsolicited" "ARP reply without a request";
    NdNotForUs "nd_not_for_us" "neighbour solicitation for another host's address";
    NdUnsolicited "nd_unsolicited" "neighbour advertisement without a solicitation";
    NdFragmented "nd_fragmented" "neighbour discovery message in fragments (RFC 6980)";
    NdTentative "nd_tentative"
        "neighbour solicitation for an address of ours that is being checked for duplicates";
    NdLooped "nd_looped" "our own solicitation, looped back (RFC 7527)";
    NdNoLinkAddress "nd_no_link_address"
        "neighbour discovery on a port without link addresses";
    RaNotFromLink "ra_not_from_link"
        "router advertisement that is not from a router on the link (hop limit, source)";
    RaIgnored "ra_ignored" "router advertisement to a port that is not autoconfigured";
    RaRateLimited "ra_rate_limited" "router advertisement beyond the rate limit";
    RsInvalid "rs_invalid"
        "router solicitation that is malformed or not from the link (hop limit, source)";
    RedirectRefused "redirect_refused"
        "redirect that is not from the current first hop, or not plausible";
    RedirectIgnored "redirect_ignored" "redirect while packets are forwarded";
    NeighbourRateLimited "neighbour_rate_limited"
        "ARP or ND request or reply suppressed by the rate limit";
    NeighbourMovesTooOften "neighbour_moves_too_often"
        "a neighbour's link address changed again, and had changed too often: two stations have it";
    NeighbourConflict "neighbour_conflict" "another station uses our address";
    NeighbourQueueFull "neighbour_queue_full" "pending queue of a neighbour is full";
    NeighbourTableFull "neighbour_table_full" "neighbour table is full and no entry can be evicted";
    Ipv4Short "ipv4_short" "IPv4 packet shorter than its header";
    Ipv4Version "ipv4_version" "version field is not 4";
    Ipv4HeaderLength "ipv4_header_length" "header length below 20 or past the packet";
    Ipv4TotalLength "ipv4_total_length" "total length below the header's or past the frame";
    Ipv4Checksum "ipv4_checksum" "IPv4 header checksum wrong";
    Ipv4SourceRoute "ipv4_source_route" "source route option (RFC 7126)";
    Ipv4Options "ipv4_options" "options malformed";
    Ipv6Short "ipv6_short" "IPv6 packet shorter than its header";
    Ipv6Version "ipv6_version" "version field is not 6";
    Ipv6PayloadLength "ipv6_payload_length" "payload length past the frame";
    Ipv6ExtensionHeader "ipv6_extension_header"
        "extension header that is cut off, or a fragment inside of a fragment";
    Ipv6HeaderChain "ipv6_header_chain"
        "extension headers in excess of a limit, or hop-by-hop options that are not first";
    Ipv6Option "ipv6_option" "unknown option that must not be skipped (RFC 8200 section 4.2)";
    Ipv6RoutingHeader "ipv6_routing_header" "routing header with segments left (RFC 5095)";
    Ipv6NoNextHeader "ipv6_no_next_header" "packet with no upper-layer header (next header 59)";
    FragmentMalformed "fragment_malformed"
        "fragment without data, or not the last and no multiple of 8 bytes";
    FragmentTooBig "fragment_too_big" "fragment that ends past 65,535 bytes (ping of death)";
    FragmentHeaders "fragment_headers" "first fragment without all headers (RFC 7112, RFC 1858)";
    FragmentOverlap "fragment_overlap" "fragments of a datagram in which two overlap (RFC 5722)";
    FragmentContradiction "fragment_contradiction"
        "fragments of a datagram that disagree about its end or its ECN field";
    FragmentDuplicate "fragment_duplicate" "copy of a fragment that is held";
    FragmentLimit "fragment_limit" "fragments of a datagram that has too many";
    FragmentOfDropped "fragment_of_dropped" "fragment of a datagram that was dropped before";
    FragmentEvicted "fragment_evicted" "fragments of the oldest datagrams, evicted at a limit";
    FragmentTimeout "fragment_timeout" "fragments of a datagram that was not complete in time";
    IpSourceCheck "ip_source_check"
        "no route to the source leads back by the port that the packet came by (RFC 3704)";
    IpMartianSource "ip_martian_source" "source that cannot be a host on this link";
    IpMartianDestination "ip_martian_destination"
        "destination that no packet may be sent or forwarded to";
    IpLinkBroadcast "ip_link_broadcast"
        "unicast destination in a link-level broadcast or multicast (RFC 1122 section 3.3.6)";
    IpLinkLocal "ip_link_local" "packet to forward from or to a link-local address";
    IpDirectedBroadcast "ip_directed_broadcast"
        "broadcast to another network while directed broadcasts are off (RFC 2644)";
    IpHopLimit "ip_hop_limit" "packet to forward that has no hop left";
    IpSuperSegment "ip_super_segment"
        "super-segment to forward that is not TCP or UDP, or whose checksum is finished";
    IpBroadcastNextHop "ip_broadcast_next_hop"
        "next hop that is a broadcast or multicast address, which no neighbour has";
    IpNotForUs "ip_not_for_us" "destination is not ours and forwarding is off";
    IpProtocolUnknown "ip_protocol_unknown" "no handler for the protocol";
    IpNoRoute "ip_no_route" "no route to the destination";
    IpUnreachable "ip_unreachable" "a rule or a route makes the destination unreachable";
    IpProhibit "ip_prohibit" "a rule or a route prohibits the packet";
    IpBlackhole "ip_blackhole" "a rule or a route drops the packet and reports nothing";
    FilterRule "filter_rule" "a rule of the filter, or its default, refuses the packet";
    FilterNoState "filter_no_state"
        "TCP segment of no known flow that is no SYN, where rules pass only beginnings of flows";
    FilterWindow "filter_window"
        "TCP segment outside of the windows that the filter has seen: not passed, not translated";
    FilterTcpState "filter_tcp_state"
        "TCP segment that cannot come in the state of its flow, such as SYN with FIN";
    FilterIcmp "filter_icmp"
        "ICMP error that quotes no packet of a known flow, and that no stateless rule passes";
    FilterFragment "filter_fragment"
        "fragment whose first one was refused or did not come, or which overlaps its header";
    FilterStateLimit "filter_state_limit"
        "first packet of a flow while the table of states is full of flows with answers";
    FilterSourceLimit "filter_source_limit"
        "first packet of a flow of a source that has as many states as its rule allows";
    FilterRate "filter_rate" "first packet of a flow beyond the rate of its rule";
    FilterMalformed "filter_malformed"
        "packet to filter whose transport header is short or contradicts its length";
    NatNoPort "nat_no_port" "no free address and port for a new flow to be translated";
    NatFiltered "nat_filtered"
        "packet from inside to an outside endpoint whose filtering does not let it in yet";
    NatLoop "nat_loop" "packet that translation would send back to where it came from";
    IpNoNeighbour "ip_no_neighbour" "next hop does not answer: no link address";
    IpTooBig "ip_too_big"
        "larger than an IP packet can be, or than the MTU and not to be fragmented";
    IcmpMalformed "icmp_malformed" "ICMP message short or with a wrong checksum";
    IcmpUnhandled "icmp_unhandled" "ICMP type that is not handled";
    IcmpRateLimited "icmp_rate_limited"
        "echo request, path MTU report or redirect beyond its rate limit";
    IcmpErrorNoMatch "icmp_error_no_match" "ICMP error that quotes no packet of ours";
    IcmpErrorOutOfWindow "icmp_error_out_of_window"
        "ICMP error about a TCP segment that is not in flight (RFC 5927)";
    IcmpErrorIgnored "icmp_error_ignored" "ICMP error that changes nothing, or is not plausible";
    IcmpEchoNoSocket "icmp_echo_no_socket" "echo reply that no socket waits for";
    IcmpEchoQueueFull "icmp_echo_queue_full" "receive queue of the echo socket is full";
    GroupMalformed "group_malformed"
        "IGMP or MLD message short, with a wrong checksum, or not from this link";
    GroupUnhandled "group_unhandled" "IGMP or MLD message that says nothing to this host";
    GroupNotJoined "group_not_joined" "packet to a multicast group that nobody here has joined";
    GroupFiltered "group_filtered"
        "datagram to a group from a source that no socket on its UDP port takes";
    UdpShort "udp_short" "UDP datagram shorter than its header or its length field";
    UdpChecksum "udp_checksum" "UDP checksum wrong";
    UdpZeroChecksum "udp_zero_checksum"
        "UDP over IPv6 without a checksum, to a socket that does not take that (RFC 6935)";
    UdpSuperDatagram "udp_super_datagram"
        "super-datagram to a group or without a checksum, which no sender makes";
    UdpNoSocket "udp_no_socket" "no socket on that UDP port";
    UdpNotPeer "udp_not_peer" "datagram from an address that the UDP socket is not connected to";
    UdpQueueFull "udp_queue_full" "receive queue of the UDP socket is full";
    ForeignQueueFull "foreign_queue_full"
        "queue of datagrams for other hosts, which the program takes, is full";
    PuntRate "punt_rate"
        "packet for a mirror, of no routing protocol, beyond the rate of those";
    PuntRoutingRate "punt_routing_rate"
        "packet of a routing protocol for a mirror beyond the rate of those";
    PuntQueueFull "punt_queue_full" "queue of packets for mirrors is full";
    PuntNoMirror "punt_no_mirror" "packet that waited for a mirror which was taken away";
    MirrorMalformed "mirror_malformed" "frame by a mirror that is no whole IP packet";
    MirrorNotIp "mirror_not_ip" "frame by a mirror that carries neither IPv4 nor IPv6";
    MirrorSource "mirror_source" "packet by a mirror from an address that is not ours";
    MirrorDestination "mirror_destination"
        "packet by a mirror to an address that no packet leaves for";
    MirrorNeighbourDiscovery "mirror_neighbour_discovery"
        "neighbour discovery by a mirror, which the router does itself";
    MirrorTooBig "mirror_too_big"
        "packet by a mirror that is larger than its path and must not be fragmented";
    DhcpMalformed "dhcp_malformed"
        "DHCP message that is short or long, or whose options contradict its length";
    DhcpNotForUs "dhcp_not_for_us" "DHCP message for another client or of another transaction";
    DhcpUnexpected "dhcp_unexpected" "DHCP message that the client's state does not wait for";
    DhcpOtherServer "dhcp_other_server" "DHCP message of a server that was not selected";
    DhcpUnusable "dhcp_unusable"
        "DHCP offer or reply without an address, mask and lifetime that a host can use";
    DhcpRefused "dhcp_refused" "DHCPv6 reply whose status refuses what was asked for";
    DhcpNoAddress "dhcp_no_address"
        "DHCP message of a client for which the server has no free address";
    DhcpNotServed "dhcp_not_served"
        "DHCP message that a server does not answer: by a relay, or about a lease that is not its \
         own";
    UdpErrorQueueFull "udp_error_queue_full"
        "ICMP error for a UDP socket whose error queue is full";
    TcpShort "tcp_short" "TCP segment shorter than its header";
    TcpDataOffset "tcp_data_offset" "data offset below 20 bytes or past the segment";
    TcpOptions "tcp_options" "TCP options malformed";
    TcpChecksum "tcp_checksum" "TCP checksum wrong";
    TcpLand "tcp_land" "source equals destination";
    TcpGroupAddress "tcp_group_address"
        "TCP to or from a broadcast or multicast address, or to a router's anycast address";
    TcpNoSocket "tcp_no_socket"
        "no connection and no listener: answered with RST, within resets_per_second";
    TcpNoSocketRst "tcp_no_socket_rst" "RST for no connection";
    TcpListenRst "tcp_listen_rst" "RST to a listener";
    TcpListenAck "tcp_listen_ack" "ACK to a listener: answered with RST, within resets_per_second";
    TcpListenNotSyn "tcp_listen_not_syn" "neither SYN, ACK nor RST to a listener";
    TcpListenSynFin "tcp_listen_syn_fin" "SYN with FIN to a listener";
    TcpBacklogFull "tcp_backlog_full" "listener's backlog is full";
    TcpSynOnce "tcp_syn_once"
        "first SYN of a peer while SYNs overfill the device; answered when it comes again";
    TcpForwardDropped "tcp_forward_dropped" "SYN that the user of a forwarder ignored";
    TcpConnectionLimit "tcp_connection_limit" "connection table is full";
    TcpBadAck "tcp_bad_ack" "SYN-SENT or SYN-RECEIVED: ACK of data never sent";
    TcpSynSentNoSyn "tcp_syn_sent_no_syn" "SYN-SENT: neither SYN nor RST";
    TcpOutOfWindow "tcp_out_of_window" "sequence number outside the receive window";
    TcpPaws "tcp_paws" "timestamp older than the last one (RFC 7323 section 5)";
    TcpBadRst "tcp_bad_rst" "RST that is not exactly at rcv_nxt: challenged (RFC 5961)";
    TcpRst "tcp_rst" "RST that ended a connection";
    TcpSynInWindow "tcp_syn_in_window" "SYN on a synchronised connection: challenged (RFC 5961)";
    TcpNoAck "tcp_no_ack" "segment without ACK on a synchronised connection";
    TcpAckTooOld "tcp_ack_too_old" "ACK older than the largest window (RFC 5961 section 5)";
    TcpAckUnsent "tcp_ack_unsent" "ACK of data never sent";
    TcpDuplicate "tcp_duplicate" "segment without new data";
    TcpAfterClose "tcp_after_close" "data for a connection that was closed for reading";
    TcpReassemblyFull "tcp_reassembly_full" "out-of-order queue is at its limit";
    TcpReceiveFull "tcp_receive_full" "receive buffer is full";
    TcpTimeWait "tcp_time_wait" "segment for a connection in TIME-WAIT";
    TcpChallengeLimited "tcp_challenge_limited" "challenge ACK suppressed by the rate limit";
    ShardRingFull "shard_ring_full"
        "frame of another shard's flow while the ring to that shard was full";
    DnsMalformed "dns_malformed" "DNS answer that is no DNS message";
    DnsNotAsked "dns_not_asked"
        "DNS answer whose source, id or question is not that of the query (RFC 5452)";
    DnsCase "dns_case" "DNS answer that repeats the question in other letter cases";
    DnsQueryMalformed "dns_query_malformed"
        "DNS message to a forwarder that is no question, or too long for one";
    DnsQueryRepeated "dns_query_repeated"
        "DNS question that came again while a forwarder awaited its answer";
    RpcMalformed "rpc_malformed" "message that is no ONC RPC message, or is cut off";
    RpcRecord "rpc_record" "record that is longer than the limit, or in too many fragments";
    RpcNotAsked "rpc_not_asked" "RPC reply that no call waits for";
    RpcNoAnswer "rpc_no_answer" "RPC call that a service does not answer, on purpose";
    RpcInProgress "rpc_in_progress" "RPC call that comes again while it is carried out";
    RpcConnections "rpc_connections" "connection to an RPC server beyond the limit of connections";
    MbufExhausted "mbuf_exhausted" "no buffer left under the memory budget";
    TxFull "tx_full" "reply lost because the device was full; it is not sent again";
    TxGapFull "tx_gap_full"
        "datagram to a destination with a gap between frames while too many wait for gaps";
    TxNoPort "tx_no_port" "the port to send on is gone";
    DeviceLinkDown "device_link_down" "the other end of the link is gone";
    DeviceFrameTooBig "device_frame_too_big" "frame larger than the device's limit";
    DeviceRefused "device_refused" "frame that the operating system refuses";
    DeviceBadHeader "device_bad_header"
        "received frame that contradicts the offload header in front of it";
    DeviceRingFull "device_ring_full"
        "frame lost because the device's receive queue was full";
    DeviceQueueFull "device_queue_full"
        "sent frame dropped by a full queue behind the device";
    DeviceCollisions "device_collisions"
        "sent frame given up after sixteen collisions in a row";
    SwitchFlooded "switch_flooded"
        "broadcast, multicast or frame to an unknown station beyond the limit of a switch's port";
    FaultInjected "fault_injected" "lost on purpose by the fault injector";
}

/// One counter per [`DropReason`]. `Display` and `Debug` print the counts above 0, by name.
///
/// ```
/// # use wirespeed_base as wirespeed;
/// use wirespeed::{DropReason, Drops};
///
/// let mut drops = Drops::default(); // or `Stack::drops`
/// drops.count(DropReason::DeviceRefused);
/// for (reason, packets) in drops.nonzero() {
///     println!("{} {packets}: {}", reason.name(), reason.meaning());
/// }
/// assert_eq!(drops.total(), 1);
/// ```
#[derive(Clone)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Default for Drops {
    fn default() -> Drops {
        Drops([0; DropReason::ALL.len()])
    }
}

impl Drops {
    /// Count one packet dropped for `reason`.
    #[inline]
    pub fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// Count `n` packets dropped for `reason`.
    pub fn count_many(&mut self, reason: DropReason, n: u64) {
        self.0[reason as usize] += n;
    }

    /// Packets dropped for `reason` so far.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Add the counts of `other` to these.
    pub fn include(&mut self, other: &Drops) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// All packets dropped so far.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The reasons with a count above 0, with their counts.
    pub fn nonzero(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&r| (r, self.of(r))).filter(|&(_, n)| n > 0)
    }
}

/// For example `udp_no_socket 3, tcp_rst 1`; `none` if all are 0.
impl fmt::Display for Drops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        by_name(f, self.nonzero().map(|(reason, n)| (reason.name(), n)))
    }
}

impl fmt::Debug for Drops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.nonzero().map(|(reason, n)| (reason.name(), n))).finish()
    }
}

/// Write names and values in one line, separated by commas.
pub(crate) fn by_name(
    f: &mut fmt::Formatter<'_>,
    counts: impl Iterator<Item = (&'static str, u64)>,
) -> fmt::Result {
    let mut is_first = true;
    for (name, n) in counts {
        let between = if core::mem::replace(&mut is_first, false) { "" } else { ", " };
        write!(f, "{between}{name} {n}")?;
    }
    if is_first { f.write_str("none") } else { Ok(()) }
}
