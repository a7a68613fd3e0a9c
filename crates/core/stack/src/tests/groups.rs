//! Multicast over whole stacks: what is received, what is sent, and what routers are told by
//! reports. RFC 1112, RFC 3376, RFC 3810, RFC 3678. The tests of queries are in `messages.rs`.

mod messages;
mod sending;

use core::net::{IpAddr, SocketAddr};

use base::{Cidr, Counter, DropReason, Duration, Instant, IpVersion, Limit, Owner};
use device::mem;
use wire::group::{Message, RecordKind};
use wire::{ipv4, ipv6, protocol};

use super::craft::{Bench, frame_between};
use super::icmp::{BOTH, NOW, bench};
use crate::pair::{self, PairConfig};
use crate::{Event, GroupError, PortConfig, PortId, SourceChange, SourceFilter, UdpHandle};

pub(super) const PORT: PortId = PortId(0);

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(super) fn group_of(version: IpVersion) -> IpAddr {
    ip(if version == IpVersion::V4 { "239.1.2.3" } else { "ff0e::123" })
}

fn any(port: u16) -> SocketAddr {
    SocketAddr::new(ip("0.0.0.0"), port)
}

pub(super) fn bind(bench: &mut Bench, to: SocketAddr) -> UdpHandle {
    bench.stack.udp_bind(to, Owner::program()).expect("free")
}

/// A frame with a datagram from `src` to UDP port 9 of a group.
fn datagram(src: IpAddr, group: IpAddr, payload: &[u8]) -> Vec<u8> {
    let flow = inet::udp::flow_sum(SocketAddr::new(src, 7), SocketAddr::new(group, 9));
    let sum = wire::checksum::Ladder::Word64.sum(payload);
    let header = inet::udp::header((7, 9), payload.len(), flow, Some(sum));
    frame_between(src, group, protocol::UDP, &[&header[..], payload].concat())
}

/// Takes all datagrams that wait in a socket.
fn received(bench: &mut Bench, socket: UdpHandle) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(datagram) = bench.stack.udp_receive(socket) {
        all.push(datagram.payload.as_slice().to_vec());
        bench.stack.give_back(datagram.payload);
    }
    all
}

fn drops(bench: &Bench, reason: DropReason) -> u64 {
    bench.stack.drops().of(reason)
}

/// The records of a report. Asserts that the report was sent as it must be: with TTL or hop limit
/// 1, Router Alert, the group's MAC address as destination, and a source that may send reports.
pub(super) fn records(frame: &[u8]) -> Vec<(RecordKind, IpAddr, Vec<IpAddr>)> {
    let packet = &frame[14..];
    let message = if packet[0] >> 4 == 4 {
        let h = ipv4::Header::parse(packet).expect("a header");
        assert_eq!(
            (h.ttl, h.protocol, h.tos, h.dst),
            (1, 2, 0xc0, "224.0.0.22".parse().expect("v4"))
        );
        assert!(ipv4::has_router_alert(&packet[..h.header_len]));
        assert_eq!(frame[..6], [1, 0, 0x5e, 0, 0, 0x16]);
        wire::igmp::parse(&packet[h.header_len..usize::from(h.total_len)])
    } else {
        let h = ipv6::Header::parse(packet).expect("a header");
        assert_eq!((h.hop_limit, h.dst), (1, "ff02::16".parse().expect("v6")));
        assert!(h.src.is_unspecified() || h.src.is_unicast_link_local());
        assert!(ipv6::has_router_alert(packet));
        assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 0x16]);
        let message = &packet[48..40 + usize::from(h.payload_len)];
        wire::icmpv6::Header::parse(message, h.src, h.dst).expect("its checksum is right");
        wire::mld::parse(message)
    };
    let Ok(Message::Records(records)) = message else { panic!("{message:?}") };
    records.iter().map(|r| (r.kind, r.group, r.sources.iter().collect())).collect()
}

/// RFC 1112 7.2-b, 7.2-d, 7.1-a, 7.1-b.
#[test]
fn a_group_that_nobody_joined_is_not_received() {
    for version in BOTH {
        let mut bench = bench(version);
        let (group, theirs) = (group_of(version), bench.theirs);
        let socket = bind(&mut bench, any(9));
        let frame = datagram(theirs, group, b"hello");
        bench.exchange(&frame, NOW);
        assert_eq!(drops(&bench, DropReason::GroupNotJoined), 1);
        assert_eq!(bench.stack.udp_join(socket, PORT, group), Ok(()));
        assert_eq!(bench.stack.udp_join(socket, PORT, group), Err(GroupError::AlreadyMember));
        bench.exchange(&frame, NOW);
        let heard = bench.stack.udp_receive(socket).expect("delivered");
        assert_eq!(heard.to, SocketAddr::new(group, 9));
        assert_eq!(heard.from, SocketAddr::new(theirs, 7));
        assert_eq!(heard.payload.as_slice(), b"hello");
        bench.stack.give_back(heard.payload);
        let all_nodes = ip(if version == IpVersion::V4 { "224.0.0.1" } else { "ff02::1" });
        bench.exchange(&datagram(all_nodes, group, b"from a group"), NOW);
        assert_eq!(drops(&bench, DropReason::IpMartianSource), 1);
        assert_eq!(bench.stack.udp_leave(socket, PORT, group), Ok(()));
        assert_eq!(bench.stack.udp_leave(socket, PORT, group), Err(GroupError::NotAMember));
        bench.exchange(&frame, NOW);
        assert_eq!(drops(&bench, DropReason::GroupNotJoined), 2);
        assert_eq!(received(&mut bench, socket), [] as [Vec<u8>; 0]);
        bench.stack.settle();
        assert_eq!(bench.peers_buffers_out(), 0);
    }
}

/// RFC 3376 3.2-c, 3.1-a, RFC 3810 4.1-a, RFC 3678.
#[test]
fn source_filters() {
    for version in BOTH {
        let mut bench = bench(version);
        let (group, good) = (group_of(version), bench.theirs);
        let bad = ip(if version == IpVersion::V4 { "192.0.2.66" } else { "2001:db8::66" });
        let socket = bind(&mut bench, any(9));
        let hears = |bench: &mut Bench| {
            for source in [good, bad] {
                bench.exchange(&datagram(source, group, &[u8::from(source == good)]), NOW);
            }
            received(bench, socket).concat()
        };
        let change = |bench: &mut Bench, source, change| {
            bench.stack.udp_change_source(socket, PORT, group, source, change)
        };
        let blocked = change(&mut bench, bad, SourceChange::Block);
        assert_eq!(blocked, Err(GroupError::NotAMember));
        bench.stack.udp_join(socket, PORT, group).expect("joined");
        assert_eq!(hears(&mut bench), [1, 0]);
        assert_eq!(change(&mut bench, good, SourceChange::Join), Err(GroupError::OtherMode));
        change(&mut bench, bad, SourceChange::Block).expect("blocked");
        assert_eq!(hears(&mut bench), [1]);
        assert_eq!(drops(&bench, DropReason::GroupFiltered), 1);
        assert_eq!(change(&mut bench, bad, SourceChange::Block), Err(GroupError::AlreadyMember));
        change(&mut bench, bad, SourceChange::Unblock).expect("unblocked");
        assert_eq!(hears(&mut bench), [1, 0]);
        bench.stack.udp_leave(socket, PORT, group).expect("left");
        change(&mut bench, bad, SourceChange::Join).expect("joined");
        assert_eq!(hears(&mut bench), [0], "source-specific");
        let filter = SourceFilter::include([good]);
        bench.stack.udp_set_source_filter(socket, PORT, group, filter).expect("set");
        assert_eq!(hears(&mut bench), [1]);
        assert_eq!(change(&mut bench, bad, SourceChange::Leave), Err(GroupError::NotAMember));
        change(&mut bench, good, SourceChange::Leave).expect("left");
        assert_eq!(
            bench.stack.udp_source_filter(socket, PORT, group),
            None,
            "a filter is left after the last source"
        );
        let of_other = if version == IpVersion::V4 { ip("2001:db8::1") } else { ip("192.0.2.1") };
        for wrong in [of_other, group, ip("127.0.0.1"), ip("::")] {
            let joined = change(&mut bench, wrong, SourceChange::Join);
            assert_eq!(joined, Err(GroupError::NotASource), "{wrong}");
        }
    }
}

/// Every socket has its own source filter; those that pass a datagram get the same bytes.
#[test]
fn sockets_bound_to_a_group_share_it() {
    for version in BOTH {
        let mut bench = bench(version);
        let (group, theirs) = (group_of(version), bench.theirs);
        let at = SocketAddr::new(group, 9);
        let sockets = [at, at, at, any(9)].map(|at| bind(&mut bench, at));
        for socket in sockets {
            bench.stack.udp_join(socket, PORT, group).expect("joined");
        }
        let block = SourceChange::Block;
        bench.stack.udp_change_source(sockets[1], PORT, group, theirs, block).expect("blocked");
        let other = bind(&mut bench, SocketAddr::new(group, 10));
        bench.stack.udp_join(other, PORT, group).expect("joined");
        bench.exchange(&datagram(theirs, group, b"all"), NOW);
        let mut told = Vec::new();
        while let Some(event) = bench.stack.next_event() {
            if let Event::Udp(handle) = event {
                told.push(handle);
            }
        }
        told.sort();
        assert_eq!(told, [sockets[0], sockets[2], sockets[3]]);
        let heard = sockets.map(|socket| received(&mut bench, socket).concat());
        assert_eq!(heard, [b"all".to_vec(), vec![], b"all".to_vec(), b"all".to_vec()]);
        assert_eq!(
            received(&mut bench, other),
            [] as [Vec<u8>; 0],
            "a socket of another UDP port got it"
        );
        // Only the socket that does not read loses datagrams.
        let payload = [7; 1_400];
        for _ in 0..300 {
            bench.exchange(&datagram(theirs, group, &payload), NOW);
            received(&mut bench, sockets[0]);
            received(&mut bench, sockets[2]);
        }
        let (full, read) = (drops(&bench, DropReason::UdpQueueFull), sockets[0]);
        assert!(full > 100, "{full}");
        bench.exchange(&datagram(theirs, group, b"last"), NOW);
        assert_eq!(received(&mut bench, read), [b"last"]);
        for socket in sockets.into_iter().chain([other]) {
            bench.stack.udp_close(socket);
        }
        bench.stack.poll(NOW + Duration::from_secs(60));
        assert!(bench.stack.groups_page(0, 10).rows.is_empty());
        bench.sent();
        bench.stack.settle();
        assert_eq!((bench.peers_buffers_out(), bench.stack.pool().outstanding()), (0, 0));
        bench.exchange(&datagram(theirs, group, b"nobody"), NOW);
        assert_eq!(drops(&bench, DropReason::GroupNotJoined), 1);
    }
}

/// As on FreeBSD, and on Linux with IP_MULTICAST_ALL off: a membership counts for its own socket
/// only.
/// RFC 1112 7.2-a, 7.2-c.
#[test]
fn a_socket_that_did_not_join_gets_nothing_but_what_all_nodes_get() {
    for (version, all) in [(IpVersion::V4, "224.0.0.1"), (IpVersion::V6, "ff02::1")] {
        let mut bench = bench(version);
        let (group, theirs) = (group_of(version), bench.theirs);
        let member = bind(&mut bench, SocketAddr::new(group, 9));
        bench.stack.udp_join(member, PORT, group).expect("joined");
        let other = bind(&mut bench, any(9));
        bench.exchange(&datagram(theirs, group, b"x"), NOW);
        assert_eq!(received(&mut bench, member), [b"x"]);
        assert_eq!(received(&mut bench, other), [] as [Vec<u8>; 0]);
        bench.exchange(&datagram(theirs, ip(all), b"y"), NOW);
        assert_eq!(received(&mut bench, other), [b"y"]);
        bench.stack.udp_connect(other, SocketAddr::new(theirs, 8)).expect("open");
        bench.exchange(&datagram(theirs, ip(all), b"z"), NOW);
        assert_eq!(received(&mut bench, other), [] as [Vec<u8>; 0]);
        assert_eq!(drops(&bench, DropReason::UdpNotPeer), 1);
        // No error is sent for a group without a socket.
        bench.stack.udp_close(other);
        assert_eq!(bench.exchange(&datagram(theirs, ip(all), b"z"), NOW).len(), 0);
    }
}

#[test]
fn groups_sources_and_memberships_are_limited() {
    let mut bench = bench(IpVersion::V4);
    let (a, b) = (bind(&mut bench, any(9)), bind(&mut bench, any(10)));
    let budget = &mut bench.stack.core.cx.budget;
    budget.set(Limit::GroupsPerPort, 3);
    budget.set(Limit::MembershipsPerSocket, 2);
    budget.set(Limit::SourcesPerGroup, 4);
    let group = |n: u8| IpAddr::from([239, 0, 0, n]);
    let stack = &mut bench.stack;
    assert_eq!(stack.udp_join(a, PORT, group(1)), Ok(()));
    assert_eq!(stack.udp_join(a, PORT, group(2)), Ok(()));
    let full = Err(GroupError::LimitReached(Limit::MembershipsPerSocket));
    assert_eq!(stack.udp_join(a, PORT, group(3)), full);
    assert_eq!(stack.udp_join(b, PORT, group(3)), Ok(()));
    let full = Err(GroupError::LimitReached(Limit::GroupsPerPort));
    assert_eq!(stack.udp_join(b, PORT, group(4)), full);
    assert_eq!(
        stack.udp_join(b, PORT, group(1)),
        Ok(()),
        "refused, although the port is a member already"
    );
    let sources = |from: u8, n: u8| (from..from + n).map(|d| IpAddr::from([10, 0, 0, d]));
    let set = |stack: &mut crate::Stack, socket, filter| {
        stack.udp_set_source_filter(socket, PORT, group(1), filter)
    };
    let full = Err(GroupError::LimitReached(Limit::SourcesPerGroup));
    assert_eq!(set(stack, a, SourceFilter::include(sources(1, 5))), full);
    assert_eq!(set(stack, a, SourceFilter::include(sources(1, 4))), Ok(()));
    assert_eq!(set(stack, b, SourceFilter::include(sources(11, 4))), Ok(()));
    // The two sockets include eight sources, more than the limit for a port: the port asks routers
    // for all sources, and each socket filters for itself.
    let rows = stack.groups_page(0, 9).rows;
    let row = rows.iter().find(|row| row.group == group(1)).expect("joined");
    assert_eq!((&row.filter, row.sockets), (&SourceFilter::ANYTHING, 2));
    let gone = stack.udp_join(UdpHandle::default(), PORT, group(1));
    assert_eq!(gone, Err(GroupError::Closed));
    assert_eq!(stack.udp_join(a, PORT, ip("192.0.2.9")), Err(GroupError::NotAGroup));
    let text = GroupError::LimitReached(Limit::SourcesPerGroup).to_string();
    assert!(text.contains("sources_per_group"), "{text}");
    assert_eq!(bench.stack.budget().hits(Limit::GroupsPerPort), 1);
}

/// As on Linux: a socket connected to a group sends to it, and receives nothing, because no
/// datagram is from a group. A socket bound to a group and connected to a host receives from that
/// host.
#[test]
fn a_connected_socket_may_name_a_group_at_either_end() {
    for version in BOTH {
        let mut bench = bench(version);
        let (group, theirs) = (group_of(version), bench.theirs);
        let at = SocketAddr::new(group, 9);
        let own = bench.listen_at(9);
        let owner = Owner::program;
        let sender = bench.stack.udp_bind_connected(own, at, owner()).expect("free");
        bench.stack.udp_join(sender, PORT, group).expect("joined");
        bench.sent();
        bench.stack.udp_send(sender, at, b"to all", NOW).expect("sent");
        assert_eq!(bench.sent().len(), 1);
        let peer = SocketAddr::new(theirs, 7);
        let hearer = bench.stack.udp_bind_connected(at, peer, owner()).expect("shared");
        bench.stack.udp_join(hearer, PORT, group).expect("joined");
        bench.exchange(&datagram(theirs, group, b"from the peer"), NOW);
        let other = ip(if version == IpVersion::V4 { "192.0.2.66" } else { "2001:db8::66" });
        bench.exchange(&datagram(other, group, b"from another"), NOW);
        assert_eq!(received(&mut bench, sender), [] as [Vec<u8>; 0]);
        assert_eq!(received(&mut bench, hearer), [b"from the peer"]);
        assert_eq!(drops(&bench, DropReason::UdpNotPeer), 1);
    }
}
