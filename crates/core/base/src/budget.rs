//! The memory budget of a stack: every limit has a name and a counter of hits.

use crate::Instant;

macro_rules! limits {
    ($($variant:ident $name:literal $default:literal $meaning:literal;)*) => {
        /// A limit that has a name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Limit { $(#[doc = $meaning] $variant,)* }

        impl Limit {
            /// Every limit, in order.
            pub const ALL: &'static [Limit] = &[$(Limit::$variant,)*];

            /// The name in configuration and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Limit::$variant => $name,)* }
            }

            /// The default value.
            pub const fn default_value(self) -> usize {
                match self { $(Limit::$variant => $default,)* }
            }

            /// A description for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(Limit::$variant => $meaning,)* }
            }
        }
    };
}

limits! {
    MbufBytes "mbuf_bytes" 268_435_456 "bytes of buffers a stack may hold";
    ReceiveBufferBytes "receive_buffer_bytes" 134_217_728
        "bytes that tuning adds to receive buffers, all together; at most half of mbuf_bytes";
    SendBufferBytes "send_buffer_bytes" 134_217_728
        "bytes of buffers in use above which tuned send buffers do not grow; half of mbuf_bytes at \
         most";
    Connections "connections" 1_048_576 "TCP connections, TIME-WAIT records not counted";
    TimeWait "time_wait" 131_072 "TIME-WAIT records; the oldest is evicted";
    HalfOpen "half_open" 4_096 "connections in SYN-RECEIVED";
    Orphans "orphans" 65_536
        "connections that their program has closed and that still send or wait; at the limit the \
         oldest is reset";
    FastOpenPending "fast_open_pending" 1_024
        "connections of all listeners accepted by Fast Open whose handshake is not done";
    FastOpenPeers "fast_open_peers" 4_096
        "peers whose Fast Open cookie is remembered; the oldest is evicted";
    ForwardRequests "forward_requests" 4_096 "SYNs that wait for the decision of a forwarder";
    Forwarded "forwarded" 65_536 "connections that a forwarder has open";
    GatewayFlows "gateway_flows" 4_096
        "TCP flows of a gateway; one that was idle for two hours is reset for a new one";
    GatewayPending "gateway_pending" 512
        "TCP flows of a gateway that are not open yet; the SYN goes without an answer";
    GatewayPendingPerDestination "gateway_pending_per_destination" 64
        "TCP flows of a gateway to one host that are not open yet";
    GatewayConnectsPerSecond "gateway_connects_per_second" 10_000
        "connects of a gateway in a second, and four times as many at once after a rest";
    GatewaySessions "gateway_sessions" 4_096
        "addresses and ports of guests that send datagrams; the oldest makes room, if it was not \
         active lately";
    GatewaySessionPeers "gateway_session_peers" 1_024
        "destinations of datagrams from one address and port of a guest";
    GatewayEchoes "gateway_echoes" 64
        "identifiers of guests that send echo requests; the oldest makes room, if it was not \
         active lately";
    GatewayPins "gateway_pins" 4_096
        "addresses whose names a gateway remembers; the one that was named longest ago makes room, \
         if no flow uses it";
    GatewayDnsConnections "gateway_dns_connections" 64
        "connections over which guests ask a gateway for names; the SYN goes without an answer";
    GatewayLogBytes "gateway_log_bytes" 10_485_760
        "bytes of each of the two files of a gateway's log; the older one makes room";
    Sockets "sockets" 1_048_576 "listeners and UDP sockets";
    ReassemblySegments "reassembly_segments" 65_536
        "out-of-order segments a connection may hold, fewer with a small receive buffer";
    SackRanges "sack_ranges" 16_384
        "ranges of a connection's data that the peer holds out of order";
    UdpQueueBytes "udp_queue_bytes" 262_144 "bytes waiting in one UDP socket";
    UdpErrors "udp_errors" 64 "errors of the network waiting in one UDP socket with an error queue";
    ForeignDatagrams "foreign_datagrams" 1_024
        "datagrams for other hosts that wait for the program";
    ForeignBytes "foreign_bytes" 4_194_304 "bytes of buffers that these datagrams hold";
    ForeignErrorsPerSecond "foreign_errors_per_second" 1_000
        "ICMP errors that the program sends in a second about packets to other hosts";
    PuntBytes "punt_bytes" 4_194_304
        "bytes of buffers that packets for mirrors hold; those of routing protocols evict others";
    FragmentBytes "fragment_bytes" 4_194_304
        "bytes of buffers that fragments of incomplete datagrams hold; the oldest datagram is \
         evicted";
    FragmentBytesPerSource "fragment_bytes_per_source" 1_048_576
        "the same for one source: an IPv4 address, or an IPv6 network of 64 bits";
    FragmentDatagrams "fragment_datagrams" 1_024
        "incomplete datagrams; the oldest is evicted";
    FragmentDatagramsPerSource "fragment_datagrams_per_source" 128
        "the same for one source";
    FragmentsPerDatagram "fragments_per_datagram" 256
        "fragments of one datagram; a datagram of more is dropped";
    ExtensionHeaders "extension_headers" 8 "extension headers of an IPv6 packet";
    ExtensionHeaderBytes "extension_header_bytes" 1_280
        "bytes of all extension headers of an IPv6 packet";
    ExtensionOptions "extension_options" 8
        "unknown options that are skipped in one IPv6 extension header";
    NeighbourQueue "neighbour_queue" 64
        "packets in the pending queue of one neighbour; the oldest is dropped";
    NeighbourQueueTotal "neighbour_queue_total" 512
        "packets in the pending queues of all neighbours";
    SolicitationsPerSecond "solicitations_per_second" 1_000
        "ARP requests and neighbour solicitations sent in a second";
    AdvertisementsPerSecond "advertisements_per_second" 1_000
        "ARP replies and neighbour advertisements sent in a second";
    Neighbours "neighbours" 4_096 "neighbour entries";
    NeighbourMtus "neighbour_mtus" 4_096 "neighbours whose MTU was set";
    Addresses "addresses" 64 "addresses of a port";
    PortMacs "port_macs" 16 "further link addresses of a port";
    RefusedRoutes "refused_routes" 64
        "refused routes of networks that are remembered, so that each is reported once";
    OtherBroadcasters "other_broadcasters" 16
        "neighbours that broadcast to another address and are remembered; the oldest is evicted";
    TemporaryAddresses "temporary_addresses" 4 "temporary addresses of one prefix (RFC 8981)";
    Routers "routers" 8 "default routers of a port that were learnt from advertisements";
    Prefixes "prefixes" 8
        "prefixes of a port that were learnt from router advertisements: on the link, and for \
         addresses";
    AdvertisedRoutes "advertised_routes" 16
        "routes of a port that were learnt from router advertisements (RFC 4191)";
    NameServers "name_servers" 8 "name servers of a port that routers advertise";
    SearchDomains "search_domains" 8 "search domains of a port that routers advertise";
    RouterAdvertisementsPerSecond "router_advertisements_per_second" 100
        "router advertisements of a port processed in a second: so many of known routers, and as \
         many of other senders";
    Routes "routes" 2_000_000 "routes of all tables; 2,097,152 at most";
    Rules "rules" 1_024 "rules of policy routing";
    FilterRules "filter_rules" 4_096 "rules of the filter, and as many of NAT";
    FilterSetNetworks "filter_set_networks" 4_194_304 "networks in all sets of the filter";
    FilterStates "filter_states" 262_144
        "flows that the filter knows; from 60 % on their timeouts shrink, then flows without \
         answers are evicted, then new ones are refused";
    FilterStatesPerSource "filter_states_per_source" 65_536
        "the same for one source: an IPv4 address, or an IPv6 network of 64 bits";
    FilterSources "filter_sources" 65_536
        "sources whose states and new flows are counted; if there are more, the source that was \
         idle longest is forgotten, sources without states first";
    FilterEvents "filter_events" 16_384
        "flows that began or ended, waiting for flow export; more are lost";
    FilterCopies "filter_copies" 16_384
        "changes of states, waiting to be copied to the partner; if there are more, all states are \
         copied again";
    FilterFragmentBytes "filter_fragment_bytes" 1_048_576
        "bytes of fragments that wait for the first fragment of their datagram";
    FilterFragments "filter_fragments" 256
        "datagrams whose fragments wait for the first fragment, and as many whose first fragment \
         has a verdict";
    FilterLogPerSecond "filter_log_per_second" 100 "lines of the filter's log in a second";
    NatMappings "nat_mappings" 262_144 "NAT mappings, each of an inside address and port";
    NatAddresses "nat_addresses" 4_096
        "outside addresses that have mappings; each takes up to 25 KB for its ports";
    NatPortsPerSource "nat_ports_per_source" 32_768
        "outside ports of one inside address; half of an address";
    Redirects "redirects" 256
        "routes that were learnt from redirects; the first to expire is evicted";
    GroupsPerPort "groups_per_port" 1_024 "multicast groups that a port receives";
    MembershipsPerSocket "memberships_per_socket" 128 "multicast groups that one socket has joined";
    SourcesPerGroup "sources_per_group" 128
        "sources in the filter of a multicast group; a port whose sockets name more asks for all";
    GroupReportsPerSecond "group_reports_per_second" 100
        "IGMP and MLD messages sent in a second; more are sent later";
    IcmpErrorsPerSecond "icmp_errors_per_second" 1_000
        "ICMP errors sent in a second; the bound is random between half of it and all";
    IcmpErrorsPerDestination "icmp_errors_per_destination" 100
        "ICMP errors sent in a second to one host, an IPv6 network of 64 bits being one";
    EchoRepliesPerSecond "echo_replies_per_second" 1_000 "ICMP echo replies sent in a second";
    PathChangesPerSecond "path_changes_per_second" 1_000
        "path MTU reports and redirects processed in a second";
    PathMtus "path_mtus" 4_096 "destinations whose path MTU is remembered; the oldest is evicted";
    PingSockets "ping_sockets" 64 "echo sockets";
    PingReplies "ping_replies" 256 "echo replies waiting in one echo socket";
    PacedFrames "paced_frames" 65_536
        "frames that wait for their departure time; more are sent at once";
    BurstGaps "burst_gaps" 64 "networks whose frames leave with a gap between them";
    GapDestinations "gap_destinations" 1_024
        "destinations with a gap that have frames on the way at the same time";
    GapQueue "gap_queue" 256
        "frames that wait for the gaps of one destination; then sockets that send there are pushed \
         back";
    ChallengeAcksPerSecond "challenge_acks_per_second" 100
        "challenge ACKs a connection sends in a second; the bound is random between half of it \
         and all";
    OutOfWindowAcksPerSecond "out_of_window_acks_per_second" 2
        "ACKs in a second for segments out of window that are no retransmissions, or late in \
         TIME-WAIT";
    ResetsPerSecond "resets_per_second" 10_000 "RSTs for no connection sent in a second";
    DhcpMessageBytes "dhcp_message_bytes" 4_096 "bytes of a DHCP message that is received";
    DhcpListEntries "dhcp_list_entries" 32
        "routes taken from a DHCP message, and as many DNS servers and search domains";
    DhcpLeases "dhcp_leases" 1_024
        "addresses that a DHCP server remembers, those that were offered or declined among them; \
         one that is not in use is forgotten first";
    RouterSolicitors "router_solicitors" 8
        "hosts that a sender of router advertisements answers one by one; more are answered all \
         together";
    DnsInFlight "dns_in_flight" 256
        "questions of which a DNS forwarder awaits the answer; more are answered with SERVFAIL";
    ControlClients "control_clients" 16 "connections to a control socket";
    ControlFrameBytes "control_frame_bytes" 1_048_576 "bytes of a message on a control socket";
    ControlDescriptors "control_descriptors" 16
        "descriptors that come with a message on a control socket";
    ControlHalfFrameMs "control_half_frame_ms" 5_000
        "milliseconds that receiving a message on a control socket may take";
    ControlIdleMs "control_idle_ms" 60_000
        "milliseconds that a client of a control socket may be idle";
    ControlTaps "control_taps" 32
        "taps that other programs have asked for, each with two megabytes of buffers";
    ControlUserClients "control_user_clients" 8
        "connections to a control socket of one user that is neither root nor the program's own";
    ControlUserAccepts "control_user_accepts" 100
        "connections in a second to a control socket of one user that is neither root nor the \
         program's own, or is refused; then all wait a little";
    ControlSockets "control_sockets" 256 "sockets of the stack that other programs have opened";
    ControlUserSockets "control_user_sockets" 16 "sockets of the stack that one user has opened";
}

/// The value of every limit, and how often each was hit.
///
/// ```
/// # use wirespeed_base as wirespeed;
/// use wirespeed::{Budget, Limit};
///
/// let mut budget = Budget::default(); // for `StackConfig`, or `Stack::budget`
/// budget.set(Limit::Routes, 2);
/// assert!(budget.admits(Limit::Routes, 1));
/// assert!(!budget.admits(Limit::Routes, 2), "there are two already");
/// assert_eq!(budget.hits(Limit::Routes), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    values: [usize; Limit::ALL.len()],
    hits: [u64; Limit::ALL.len()],
    reserved: [usize; Limit::ALL.len()],
}

impl Default for Budget {
    fn default() -> Budget {
        let mut values = [0; Limit::ALL.len()];
        for &l in Limit::ALL {
            values[l as usize] = l.default_value();
        }
        Budget { values, hits: [0; Limit::ALL.len()], reserved: [0; Limit::ALL.len()] }
    }
}

impl Budget {
    /// The value of `limit`.
    #[inline]
    pub fn of(&self, limit: Limit) -> usize {
        self.values[limit as usize]
    }

    /// Set `limit`.
    pub fn set(&mut self, limit: Limit, value: usize) {
        self.values[limit as usize] = value;
    }

    /// May one more item of `limit` be added if there are `used` already? If not, the hit is
    /// counted.
    #[inline]
    pub fn admits(&mut self, limit: Limit, used: usize) -> bool {
        self.admits_of(limit, self.of(limit), used)
    }

    /// [`Budget::admits`] with `value` in place of the limit's own value.
    #[inline]
    fn admits_of(&mut self, limit: Limit, value: usize, used: usize) -> bool {
        if used < value {
            return true;
        }
        self.hits[limit as usize] += 1;
        false
    }

    /// Reserve `amount` of `limit` until [`Budget::give_back`], if the reserved total stays within
    /// the limit's value and within `most`. If not, the hit is counted.
    pub fn reserve(&mut self, limit: Limit, amount: usize, most: usize) -> bool {
        let index = limit as usize;
        let value = self.values[index].min(most);
        let fits = self.reserved[index].saturating_add(amount) <= value;
        if fits {
            self.reserved[index] += amount;
        } else {
            self.hits[index] += 1;
        }
        fits
    }

    /// Return a reserved amount.
    pub fn give_back(&mut self, limit: Limit, amount: usize) {
        let reserved = &mut self.reserved[limit as usize];
        debug_assert!(
            amount <= *reserved,
            "more of {} is returned than was reserved",
            limit.name()
        );
        *reserved = reserved.saturating_sub(amount);
    }

    /// How much of `limit` is reserved in total.
    pub fn reserved(&self, limit: Limit) -> usize {
        self.reserved[limit as usize]
    }

    /// How often `limit` was hit.
    pub fn hits(&self, limit: Limit) -> u64 {
        self.hits[limit as usize]
    }
}

fn second_of(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000_000) as u32
}

/// How much of a limit per second has been used in the current second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerSecond {
    second: u32,
    used: u32,
}

impl PerSecond {
    /// May the event happen once more in the second of `now`? If not, the hit is counted.
    pub fn admits(&mut self, limit: Limit, now: Instant, budget: &mut Budget) -> bool {
        self.admits_of(limit, budget.of(limit), now, budget)
    }

    /// [`PerSecond::admits`] with a random limit for each second, between half of the limit and all
    /// of it; `draw` maps the number of the second to a random number. If an observer does not know
    /// `draw`, counting replies does not tell it how much of the limit others used.
    pub fn admits_drawn(
        &mut self,
        limit: Limit,
        now: Instant,
        budget: &mut Budget,
        draw: impl FnOnce(u64) -> u64,
    ) -> bool {
        let half = budget.of(limit) / 2;
        let drawn = draw(u64::from(second_of(now))) % (half as u64 + 1);
        self.admits_of(limit, budget.of(limit) - half + drawn as usize, now, budget)
    }

    fn admits_of(&mut self, limit: Limit, value: usize, now: Instant, budget: &mut Budget) -> bool {
        let second = second_of(now);
        if self.second != second {
            *self = PerSecond { second, used: 0 };
        }
        let admitted = budget.admits_of(limit, value, self.used as usize);
        self.used = self.used.saturating_add(u32::from(admitted));
        admitted
    }
}
