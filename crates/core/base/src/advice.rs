//! Advice on each drop reason and counter: the last column of the tables in `docs/counters.md`, a
//! page that [`document`] makes. Each reason or counter is in one line of its table only.
//!
//! Called by: `drops.rs` and `counters.rs`; a test compares the document, and fails for a reason or
//! counter without a sentence here. The tables are separate from the tables of names, because most
//! sentences belong to several entries.

use crate::{Counter, Counter as C, DropReason, DropReason as D};

const STRANGER: &str = "A few are noise of the link. Many of them have one sender: `wirespeed \
                        dump` shows which; fix or block that host.";
const CORRUPT: &str = "A few are corruption on the way. If they grow with the traffic, look at the \
                       cable, the wireless link or the card in front of this port, and turn off \
                       offloads of a device that computes checksums wrong.";
const FORGED: &str = "Expected under blind attacks, and harmless. If a connection of yours breaks \
                      at the same time, `wirespeed dump` shows who sends.";
const LATE: &str = "Nothing: copies and late segments are a part of every network. If they grow \
                    with the traffic, the path reorders or repeats; `wirespeed explain` says which \
                    connection suffers.";
const READ_FASTER: &str = "The program reads too slowly: have it read more often, or give the \
                           socket a larger receive buffer.";
const FRAGMENTS: &str = "Nothing for a few. Many are an attack on reassembly or a broken sender: \
                         `wirespeed dump 'ip[6:2] & 0x1fff != 0'` shows who sends them.";
const LIMITED: &str = "A flood, or a limit that is too low for this network: raise it if the \
                       traffic is wanted (`wirespeed show limits` names it).";
const ROUTES: &str = "Look at the routes: `wirespeed ip route get ADDRESS` says what is chosen for \
                      the destination and why.";
const POLICY: &str = "A rule or a route says so: `wirespeed show fib lookup ADDRESS` says \
                      which; `wirespeed ip rule` and `ip route` list them.";
const NAMES: &str = "A few are late answers. Many are attempts to poison the resolver, or a broken \
                     name server: ask another one with `--dns`.";
const RPC: &str = "A few are strangers that scan. If a program of yours gets no answer, look at \
                   what it sends with `wirespeed dump`.";
const LEASE: &str = "Nothing if an address was obtained. Else look at the server's log, and at \
                     what it sends: `wirespeed dump port 67 or port 68 or port 546 or port 547`.";
const GUEST: &str = "A guest with a broken client, or one that tries what it may: `wirespeed \
                     dump` shows what it sends.";
const NOTHING: &str = "Nothing: it is a measure of the traffic.";
const RATIO: &str = "Nothing. Compare it with its total: a low share costs processor time, not \
                     data.";
const WORKS: &str = "Nothing: it is a part of how the protocol works.";
const LOSS: &str = "Some are normal. Many of them beside few segments sent are loss on the path: \
                    `wirespeed explain` says where, `--cc bbr` bears random loss better.";
const COOKIES: &str = "The backlog of a listener was full: a flood of SYNs, or a program that \
                       accepts too slowly. Raise the backlog in the latter case.";
const DUPLICATE_ADDRESS: &str = "Two hosts have one address: give one of them another. `wirespeed \
                                 dump arp or icmp6` shows the other one's link address.";

/// The advice on drops.
const DROPS: &[(&[DropReason], &str)] = &[
    (
        &[D::EtherNotForUs],
        "Nothing on a hub or a port that is mirrored. Else the switch has forgotten this \
            port: look whether the link address is in use twice.",
    ),
    (
        &[D::EtherTypeUnknown],
        "Nothing: other protocols than IP and ARP share the link (LLDP, spanning tree).",
    ),
    (
        &[D::VlanUnknown],
        "If this host should be in that VLAN, add a port for it (`--vlan`, `vlan = ID`); \
            else have the switch not send it here.",
    ),
    (
        &[
            D::EtherShort,
            D::ArpMalformed,
            D::NdNoLinkAddress,
            D::NdFragmented,
            D::Ipv4Short,
            D::Ipv4Version,
            D::Ipv4HeaderLength,
            D::Ipv4TotalLength,
            D::Ipv4Options,
            D::Ipv6Short,
            D::Ipv6Version,
            D::Ipv6PayloadLength,
            D::Ipv6ExtensionHeader,
            D::Ipv6HeaderChain,
            D::Ipv6Option,
            D::Ipv6NoNextHeader,
            D::IcmpMalformed,
            D::GroupMalformed,
            D::UdpShort,
            D::TcpShort,
            D::TcpDataOffset,
            D::TcpOptions,
            D::TcpListenNotSyn,
            D::TcpListenSynFin,
            D::TcpSynSentNoSyn,
            D::TcpNoAck,
        ],
        STRANGER,
    ),
    (
        &[D::ArpNotForUs, D::NdNotForUs, D::GroupUnhandled, D::GroupNotJoined],
        "Nothing: it is the business of other hosts on the link.",
    ),
    (
        &[D::ArpUnsolicited, D::NdUnsolicited],
        "A few are hosts that announce themselves. Many may be an attempt to take over \
            addresses: `wirespeed dump arp or icmp6` shows the sender.",
    ),
    (&[D::NdTentative, D::NeighbourConflict, D::NeighbourMovesTooOften], DUPLICATE_ADDRESS),
    (&[D::NdLooped], "The link returns our own frames: look for a loop of switches."),
    (
        &[D::RaNotFromLink, D::RedirectRefused],
        "An attempt to become your gateway, or a broken router: `wirespeed dump icmp6 or \
            icmp` shows who sends it.",
    ),
    (&[D::RaIgnored], "Nothing, or configure the port by routers: `--addr auto`."),
    (&[D::RedirectIgnored], "Nothing: a router follows no redirects."),
    (&[D::RaRateLimited, D::NeighbourRateLimited, D::IcmpRateLimited], LIMITED),
    (
        &[D::NeighbourQueueFull],
        "A neighbour answers slowly or not at all: see `wirespeed ip neigh`.",
    ),
    (
        &[D::NeighbourTableFull],
        "More hosts on the link than the limit `neighbours` allows, or a scan of the whole \
            network: raise the limit, or have a router in front refuse the scan.",
    ),
    (&[D::Ipv4Checksum, D::UdpChecksum, D::TcpChecksum], CORRUPT),
    (
        &[D::Ipv4SourceRoute, D::Ipv6RoutingHeader],
        "Nothing: source routes are refused, because they go around filters. `wirespeed \
            dump` shows who sends them.",
    ),
    (
        &[
            D::FragmentMalformed,
            D::FragmentTooBig,
            D::FragmentHeaders,
            D::FragmentOverlap,
            D::FragmentContradiction,
            D::FragmentDuplicate,
            D::FragmentLimit,
            D::FragmentOfDropped,
            D::FragmentEvicted,
        ],
        FRAGMENTS,
    ),
    (
        &[D::FragmentTimeout],
        "Fragments are lost on the path, or a firewall drops those behind the first: have \
            the sender send smaller datagrams.",
    ),
    (
        &[D::IpMartianSource, D::IpMartianDestination, D::TcpGroupAddress, D::TcpLand],
        "Forged, or a host with a wrong address: `wirespeed dump -e` shows its link \
            address.",
    ),
    (
        &[D::IpLinkBroadcast, D::IpDirectedBroadcast, D::IpBroadcastNextHop],
        "A host with a wrong netmask, or an attempt to amplify: `wirespeed dump -e` shows \
            its link address. Routes must not name a broadcast address as gateway.",
    ),
    (
        &[D::IpLinkLocal],
        "Nothing: such packets must not leave their link. The sender should use a global \
            address.",
    ),
    (
        &[D::IpHopLimit],
        "Nothing for a few: traceroute makes them. Many are a loop of routes: `wirespeed \
            ip route get ADDRESS` here and at the next router.",
    ),
    (
        &[D::FilterRule],
        "`wirespeed show filter` has the count of each rule, and `wirespeed filter explain` says \
            which one refuses a packet and why those before it did not match.",
    ),
    (
        &[D::FilterNoState, D::FilterWindow, D::FilterTcpState],
        "A few are late segments of flows that ended. If flows break, the packets of one direction \
            take a way around this router: a rule with `loose` passes such flows; `wirespeed show \
            states` has the windows.",
    ),
    (
        &[D::FilterIcmp, D::FilterFragment, D::FilterMalformed],
        "A few are late, or noise of the network. Many of them are an attack: `wirespeed dump` \
            shows who sends them.",
    ),
    (
        &[D::FilterStateLimit, D::FilterSourceLimit, D::FilterRate],
        "A flood, or a limit that is too low: `wirespeed show limits` and `show filter` name it, \
            `wirespeed show states` shows who has the states.",
    ),
    (
        &[D::NatNoPort],
        "All ports of the outside addresses are in use: give the rule more addresses, or limit \
            the sources that have them (`wirespeed show nat`).",
    ),
    (
        &[D::NatFiltered],
        "Nothing for a few: the other host has to send first. If inside hosts never reach each \
            other, give the rule of NAT `filtering address` or `filtering independent`.",
    ),
    (
        &[D::NatLoop],
        "A rule of NAT sends the packet back to its own port and host: `wirespeed show nat` \
            lists the rules.",
    ),
    (
        &[D::IpSourceCheck],
        "Forged sources, or a path back by another port: `wirespeed dump` shows who sends them. \
         Where paths differ by direction set `source_check = \"loose\"` for the port.",
    ),
    (
        &[D::IpSuperSegment],
        "A broken driver or virtual machine: turn off offloads of the interface that receives \
            them, with `offloads = false` of the port or `ethtool -K NAME gro off lro off`.",
    ),
    (
        &[D::IpNotForUs],
        "Nothing on a link that is shared. If this host should be a router, turn \
            forwarding on (`wirespeed up`).",
    ),
    (&[D::IpProtocolUnknown], "Nothing: this host has no such protocol (SCTP, GRE, ESP)."),
    (&[D::IpNoRoute], ROUTES),
    (&[D::IpUnreachable, D::IpProhibit, D::IpBlackhole], POLICY),
    (
        &[D::IpNoNeighbour],
        "The next hop is down, or on another link: see `wirespeed ip neigh`, and whether \
            the gateway's address and the netmask are right.",
    ),
    (
        &[D::IpTooBig],
        "A sender forbids fragments and ignores the ICMP errors that it gets: look whether \
            a firewall on the way drops them.",
    ),
    (
        &[D::IcmpUnhandled, D::IcmpErrorIgnored, D::IcmpErrorNoMatch],
        "Nothing: errors about flows that ended, or about packets that were forged with \
            our address.",
    ),
    (&[D::IcmpErrorOutOfWindow, D::TcpBadRst, D::TcpSynInWindow, D::TcpBadAck], FORGED),
    (&[D::TcpAckTooOld, D::TcpAckUnsent, D::TcpChallengeLimited], FORGED),
    (&[D::IcmpEchoNoSocket], "Nothing: answers to a ping that has ended."),
    (
        &[D::IcmpEchoQueueFull, D::UdpQueueFull, D::UdpErrorQueueFull, D::ForeignQueueFull],
        READ_FASTER,
    ),
    (
        &[D::PuntRate, D::PuntRoutingRate],
        "A scan or a flood to the router's own addresses: a rule of the filter (`to self`) refuses \
         it before it costs anything. Raise the rate if the traffic is wanted.",
    ),
    (
        &[D::PuntQueueFull],
        "The program behind the mirrors reads too slowly, or not at all: look whether it runs.",
    ),
    (&[D::PuntNoMirror], "Nothing: a mirror was taken away while packets waited for it."),
    (
        &[D::MirrorMalformed, D::MirrorNotIp],
        "A program sends other frames than IP by a mirror (ARP, LLDP, IS-IS): the router sends no \
         such frames for it.",
    ),
    (
        &[D::MirrorSource, D::MirrorDestination],
        "A program sends from an address that the router does not have, or to one that nothing \
         leaves for: give the port the address, or look at the program's update source.",
    ),
    (
        &[D::MirrorNeighbourDiscovery],
        "Nothing for a few. The router answers for its addresses: turn duplicate address detection \
         off at the mirror (`accept_dad=0`).",
    ),
    (
        &[D::MirrorTooBig],
        "The path is narrower than the mirror: give the mirror's route that MTU, or the program a \
         smaller packet size.",
    ),
    (
        &[D::GroupFiltered, D::UdpNotPeer],
        "Nothing: the program receives from certain senders only.",
    ),
    (
        &[D::UdpZeroChecksum],
        "If the sender is a tunnel that omits checksums on purpose, allow that at the socket (RFC \
         6935).",
    ),
    (&[D::UdpSuperDatagram], "A broken sender or driver: turn off `rx-udp-gro-forwarding`."),
    (
        &[D::UdpNoSocket, D::TcpNoSocket, D::TcpNoSocketRst],
        "A scan, or a program that is not running: `wirespeed show sockets` lists what \
            listens.",
    ),
    (
        &[
            D::DhcpMalformed,
            D::DhcpNotForUs,
            D::DhcpUnexpected,
            D::DhcpOtherServer,
            D::DhcpUnusable,
            D::DhcpRefused,
        ],
        LEASE,
    ),
    (
        &[D::DhcpNoAddress],
        "More clients than addresses: enlarge the pool, or shorten the leases. If one host asks \
            under many names, it is an attack: `wirespeed dump port 67` shows it.",
    ),
    (&[D::DhcpNotServed, D::RsInvalid, D::DnsQueryMalformed], GUEST),
    (&[D::DnsQueryRepeated], LATE),
    (&[D::TcpListenRst, D::TcpListenAck, D::TcpRst], "Nothing: ends of connections, or a scan."),
    (
        &[D::TcpBacklogFull, D::TcpSynOnce, D::TcpForwardDropped],
        "A flood of SYNs, or a program that accepts too slowly: have it accept more often, \
            or raise the backlog.",
    ),
    (
        &[D::TcpConnectionLimit],
        "Raise the limit `connections`, or end connections that are idle (keepalive).",
    ),
    (&[D::TcpOutOfWindow, D::TcpPaws, D::TcpDuplicate, D::TcpTimeWait, D::RpcInProgress], LATE),
    (
        &[D::TcpAfterClose],
        "The program closed before the peer had sent all. If data is missed, have it read \
            to the end first.",
    ),
    (&[D::TcpReassemblyFull, D::TcpReceiveFull], READ_FASTER),
    (
        &[D::ShardRingFull],
        "One shard is slower than the others: see `wirespeed top`, and give the machine \
            more cores or the router fewer shards.",
    ),
    (&[D::DnsMalformed, D::DnsNotAsked, D::DnsCase], NAMES),
    (&[D::RpcMalformed, D::RpcRecord, D::RpcNotAsked, D::RpcNoAnswer], RPC),
    (&[D::RpcConnections], "Raise `--most`, or look who holds the connections."),
    (
        &[D::MbufExhausted],
        "Raise the memory budget (`wirespeed show limits`), or give connections smaller \
            buffers.",
    ),
    (
        &[D::TxFull, D::DeviceQueueFull],
        "The device is slower than the traffic: use a faster link, or a longer queue (`ip link set \
            NAME txqueuelen N`).",
    ),
    (
        &[D::SwitchFlooded],
        "A machine sends thousands of broadcasts a second, or two ports of the switch lead to the \
            same network: `wirespeed dump broadcast or multicast` shows which.",
    ),
    (&[D::TxGapFull], "Programs send faster than the gap allows: lower the gap, or send less."),
    (
        &[D::TxNoPort, D::DeviceLinkDown],
        "Nothing while the link is down on purpose. Else look at the cable and at \
            `ip link`.",
    ),
    (
        &[D::DeviceFrameTooBig],
        "The two ends of the link have different MTUs: set both to the same (`ip link set NAME mtu \
         N`).",
    ),
    (
        &[D::DeviceRefused],
        "The interface of the kernel is down, or a filter of the kernel drops the frame: see `ip \
            -s link` and `nft list ruleset`.",
    ),
    (&[D::DeviceBadHeader], "A broken driver: turn off offloads with `ethtool -K NAME`."),
    (
        &[D::DeviceRingFull],
        "The stack is too slow for the traffic: see `wirespeed show budget`, give it a \
            core of its own, or a larger ring (`ethtool -G NAME rx N`).",
    ),
    (&[D::DeviceCollisions], "A half-duplex link with too much traffic: use a switch."),
    (&[D::FaultInjected], "Nothing: the fault injector drops frames on purpose."),
];

impl DropReason {
    /// What to do about drops for this reason.
    pub fn advice(self) -> &'static str {
        let is_it = |(of, _): &&(&[DropReason], &'static str)| of.contains(&self);
        DROPS.iter().find(is_it).map_or("", |&(_, advice)| advice)
    }
}

/// The advice on counters.
const COUNTERS: &[(&[Counter], &str)] = &[
    (
        &[
            C::RxFrames,
            C::RxBytes,
            C::TxFrames,
            C::TxBytes,
            C::TcpSegmentsIn,
            C::TcpSegmentsOut,
            C::TcpConnects,
            C::TcpAccepts,
            C::UdpIn,
            C::UdpOut,
            C::ForeignIn,
            C::PuntedRouting,
            C::PuntedOther,
            C::MirrorOut,
            C::ForeignEchoReplies,
            C::IcmpEchoReplies,
            C::IcmpEchoRequests,
            C::IcmpEchoRepliesIn,
            C::Forwarded,
            C::SuperSegmentsForwarded,
            C::GroupDatagramsIn,
            C::GroupLooped,
            C::Looped,
            C::UdpZeroChecksumIn,
            C::UdpZeroChecksumOut,
        ],
        NOTHING,
    ),
    (
        &[
            C::RxBursts,
            C::TxBursts,
            C::TcpPredicted,
            C::TcpFollowed,
            C::TcpStamped,
            C::TcpAcksOut,
            C::DemuxHit,
            C::DemuxMiss,
            C::UdpSegments,
            C::UdpCoalesced,
            C::ForwardedInBursts,
            C::SuperSegmentsCut,
            C::SegmentsMerged,
            C::WakeupsSent,
            C::WakeupsSuppressed,
            C::TimersFired,
        ],
        RATIO,
    ),
    (
        &[C::TxPushedBack],
        "Nothing for a few: the device is the bottleneck then, which is as it should be on \
            a fast machine.",
    ),
    (&[C::TcpRetransmits, C::TcpTailProbes, C::TcpTimeouts], LOSS),
    (&[C::TcpCookiesSent, C::TcpCookiesAccepted, C::TcpCookiesLate], COOKIES),
    (&[C::TcpCookiesRefused], FORGED),
    (
        &[
            C::TcpFastOpenCookiesSent,
            C::TcpFastOpenAccepted,
            C::TcpFastOpenRefused,
            C::TcpFastOpenSent,
        ],
        WORKS,
    ),
    (
        &[C::TcpFastOpenFull],
        "Clients that are not heard of again: a flood by Fast Open, or raise its limit.",
    ),
    (
        &[C::TcpFastOpenNotTaken],
        "A middlebox on the path drops data in SYNs: turn Fast Open off there.",
    ),
    (&[C::TcpHalfOpenReplaced], COOKIES),
    (
        &[C::TcpOrphansReset],
        "Peers do not read the last data of connections that were closed: raise the limit \
            `orphans` if they are honest.",
    ),
    (
        &[C::TcpCeIn, C::TcpEcnReductions],
        "Nothing: a queue on the path reports that it fills up, without loss.",
    ),
    (&[C::TcpChallengeAcks], FORGED),
    (
        &[C::TcpResetsOut],
        "A scan, or clients of a program that is not running: `wirespeed show sockets`.",
    ),
    (
        &[C::FragmentsIn, C::FragmentsJoined, C::DatagramsReassembled],
        "Have the senders send datagrams that fit the MTU: one lost fragment loses the datagram.",
    ),
    (
        &[C::DatagramsFragmented, C::FragmentsOut],
        "Have the program send datagrams that fit the MTU: one lost fragment loses the datagram.",
    ),
    (&[C::UdpErrorsQueued], "Have the program read the error queue of its socket."),
    (&[C::GroupQueriesIn, C::GroupReportsIn, C::GroupReportsOut], WORKS),
    (
        &[C::IcmpErrorsIn, C::IcmpErrorsOut, C::ForeignErrors],
        "Some are normal. `wirespeed dump icmp or icmp6` shows what they report and about which \
            host.",
    ),
    (
        &[C::BroadcastsOtherForm],
        "Hosts on the link disagree about the broadcast address: look at their netmasks.",
    ),
    (&[C::LinkChanges], "Look at the cable or at the other end, if it was not on purpose."),
    (&[C::TcpRerouted], WORKS),
    (
        &[
            C::ArpIn,
            C::NdIn,
            C::NeighbourSolicitations,
            C::NeighbourAdvertisements,
            C::DadProbes,
            C::RouterSolicitations,
            C::RouterAdvertisements,
            C::AddressProbes,
        ],
        WORKS,
    ),
    (&[C::DadDuplicates, C::AddressConflicts], DUPLICATE_ADDRESS),
    (
        &[C::Redirects, C::RedirectsOut],
        "A better gateway for that destination is on the link: give hosts a route to it.",
    ),
    (
        &[C::NeighbourFailures],
        "Hosts that are down, or a scan: `wirespeed ip neigh` shows which do not answer.",
    ),
    (&[C::PathMtuLowered], WORKS),
    (&[C::PathMtuDoubted], FORGED),
    (
        &[C::RoutesRefused],
        "A DHCP server or router offers routes that would take packets of other networks: the log \
         names them. Look whether that server or router is yours.",
    ),
    (
        &[C::PathBlackHoles],
        "A router or firewall on the path drops ICMP errors: have it let \"packet too \
            big\" pass.",
    ),
    (&[C::PathMtuProbes, C::PathMtuRaised], WORKS),
];

impl Counter {
    /// What to do about what this counter counts.
    pub fn advice(self) -> &'static str {
        let is_it = |(of, _): &&(&[Counter], &'static str)| of.contains(&self);
        COUNTERS.iter().find(is_it).map_or("", |&(_, advice)| advice)
    }
}

/// The text of `docs/counters.md`.
pub fn document() -> String {
    let mut text = String::from(
        "# Drops and counters\n\n\
         Every packet that is not delivered adds one to one of the drops; nothing is dropped \
         silently. `wirespeed show`,\n`wirespeed top` and the metrics of a router have them by \
         these names. This page is made from the tables in `crates/core/base`\n\
         (`WRITE_DOCS=1 cargo test -p wirespeed-base counters_md`); a test compares it.\n\n\
         ## Drops\n\n| name | what was dropped | what to do |\n|---|---|---|\n",
    );
    let cell = |text: &str| text.replace('|', "\\|");
    for reason in DropReason::ALL {
        let (meaning, advice) = (cell(reason.meaning()), cell(reason.advice()));
        text += &format!("| `{}` | {meaning} | {advice} |\n", reason.name());
    }
    text += "\n## Counters\n\n| name | what is counted | what to do |\n|---|---|---|\n";
    for counter in Counter::ALL {
        let (meaning, advice) = (cell(counter.meaning()), cell(counter.advice()));
        text += &format!("| `{}` | {meaning} | {advice} |\n", counter.name());
    }
    text
}
