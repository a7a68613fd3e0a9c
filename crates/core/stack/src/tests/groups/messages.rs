//! IGMP and MLD on the wire: reports of joins and leaves, queries and their answers, and queries
//! that must be ignored.

use inet::group::{Message as Sent, packet};
use inet::{Address, AddressState};
use wire::checksum::Ladder;

use super::*;
use crate::StackConfig;

fn after(ms: u64) -> Instant {
    NOW + Duration::from_millis(ms)
}

/// All frames that the stack sends up to `until`, when it is polled at each of its deadlines.
fn run(bench: &mut Bench, until: Instant) -> Vec<(Instant, Vec<u8>)> {
    let mut all = Vec::new();
    for _ in 0..10_000 {
        let now = bench.stack.next_deadline().max(bench.stack.now());
        if now > until {
            return all;
        }
        all.extend(bench.poll(now).into_iter().map(|frame| (now, frame)));
    }
    panic!("deadlines without end");
}

/// A frame with a query as a router sends it: to all nodes, or to the group that it is about.
fn query(version: IpVersion, group: Option<IpAddr>, most: Duration) -> Vec<u8> {
    query_from(
        version,
        group,
        most,
        ip(if version == IpVersion::V4 { "192.0.2.2" } else { "fe80::2" }),
    )
}

fn query_from(version: IpVersion, group: Option<IpAddr>, most: Duration, src: IpAddr) -> Vec<u8> {
    let ms = most.as_millis();
    let mut bytes;
    let all_nodes;
    if version == IpVersion::V4 {
        bytes = vec![0x11, (ms / 100) as u8, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0];
        if let Some(IpAddr::V4(group)) = group {
            bytes[4..8].copy_from_slice(&group.octets());
        }
        let field = Ladder::Word64.sum(&bytes).field();
        bytes[2..4].copy_from_slice(&field);
        all_nodes = ip("224.0.0.1");
    } else {
        bytes = vec![0; 28];
        bytes[0] = 130;
        bytes[4..6].copy_from_slice(&(ms as u16).to_be_bytes());
        if let Some(IpAddr::V6(group)) = group {
            bytes[8..24].copy_from_slice(&group.octets());
        }
        all_nodes = ip("ff02::1");
        let dst = group.unwrap_or(all_nodes);
        let field = super::super::craft::transport_sum(src, dst, 58, &bytes).field();
        bytes[2..4].copy_from_slice(&field);
    }
    let message = Sent { dst: group.unwrap_or(all_nodes), bytes };
    packet(base::LinkKind::Ethernet, pair::mac(2), src, &message).expect("of one version")
}

fn member(version: IpVersion) -> (Bench, UdpHandle, IpAddr) {
    let mut bench = bench(version);
    bench.poll(NOW);
    let (socket, group) = (bind(&mut bench, any(9)), group_of(version));
    bench.stack.udp_join(socket, PORT, group).expect("joined");
    run(&mut bench, after(5_000));
    (bench, socket, group)
}

/// RFC 3376 5.1-a, 4-b, 4.2.13-a, 4.2.14-a, RFC 3810 6.1-a, 5-a, 5.2.13-a, 5.2.14-a.
#[test]
fn leaving_sends_a_report() {
    for version in BOTH {
        let mut bench = bench(version);
        bench.poll(NOW);
        let (socket, group) = (bind(&mut bench, any(9)), group_of(version));
        bench.stack.udp_join(socket, PORT, group).expect("joined");
        let first = bench.sent();
        assert_eq!(first.len(), 1, "no report left before a poll");
        assert_eq!(records(&first[0]), [(RecordKind::ToExclude, group, vec![])]);
        assert_eq!(run(&mut bench, after(5_000)).len(), 1, "the report was not repeated once");
        let second = bind(&mut bench, SocketAddr::new(group, 9));
        bench.stack.udp_join(second, PORT, group).expect("joined");
        bench.stack.udp_close(socket);
        assert_eq!(
            run(&mut bench, after(10_000)),
            [],
            "a report left, although one member remains"
        );
        bench.stack.udp_close(second);
        let last = bench.sent();
        assert_eq!(records(&last[0]), [(RecordKind::ToInclude, group, vec![])]);
        assert_eq!(run(&mut bench, after(20_000)).len(), 1);
        assert_eq!(bench.stack.counters().of(Counter::GroupReportsOut), 4);
        assert_eq!(bench.stack.next_deadline(), Instant::NEVER);
    }
}

/// The port gets another device at `at`; returns the reports on its link in the next 30 seconds.
fn heard_by_another_link(bench: &mut Bench, at: Instant) -> Vec<(Instant, Vec<u8>)> {
    let (device, wire) = mem::pair(&mem::Config::default());
    bench.stack.set_now(at);
    assert!(bench.stack.replace_port(PORT, Box::new(device)).is_ok());
    bench.wire = wire;
    run(bench, at + Duration::from_secs(30))
}

#[test]
fn the_routers_of_another_device_hear_of_the_groups() {
    for version in BOTH {
        let (mut bench, _, group) = member(version);
        let told = heard_by_another_link(&mut bench, after(10_000));
        assert_eq!(
            (told.len(), told[0].0),
            (2, after(10_000)),
            "not reported at once and once more"
        );
        assert_eq!(records(&told[0].1), [(RecordKind::ToExclude, group, vec![])]);
    }
}

/// RFC 3376 5.2-a, 4.1.12-a, RFC 3810 6.2-b, 5.1.15-a.
#[test]
fn queries_are_answered_once_within_their_time() {
    for version in BOTH {
        let (mut bench, _, group) = member(version);
        let begin = after(10_000);
        for asked in [None, Some(group), None] {
            let frame = query(version, asked, Duration::from_secs(2));
            assert_eq!(
                bench.exchange(&frame, begin),
                [] as [Vec<u8>; 0],
                "the query was answered at once"
            );
        }
        let answers = run(&mut bench, after(60_000));
        let times: Vec<Instant> = answers.iter().map(|&(at, _)| at).collect();
        // The answer to the general query and, if its random delay was shorter, the answer for the
        // group.
        assert!((1..=2).contains(&answers.len()), "{times:?}");
        for (at, frame) in &answers {
            assert!(*at > begin && *at <= after(12_000), "{times:?}");
            assert_eq!(records(frame), [(RecordKind::IsExclude, group, vec![])]);
        }
        assert_eq!(bench.stack.counters().of(Counter::GroupQueriesIn), 3);
    }
}

/// RFC 3376 9.1-a, 9.1-b, RFC 3810 6.2-a, 5.1.14-a.
#[test]
fn hostile_queries_change_nothing() {
    for version in BOTH {
        let (mut bench, _, group) = member(version);
        let second = Duration::from_secs(1);
        let good = query(version, None, second);
        let (is_v4, mut frames) = (version == IpVersion::V4, Vec::new());
        let header_len = if is_v4 { 14 + 24 } else { 14 + 48 };
        // Any changed byte of the message makes its checksum wrong.
        for at in header_len..good.len() {
            let mut frame = good.clone();
            frame[at] ^= 1;
            frames.push(frame);
        }
        let mut far = good.clone();
        far[14 + if is_v4 { 8 } else { 7 }] = 2;
        let mut quiet = good.clone();
        if is_v4 {
            quiet[34..38].fill(1);
        } else {
            quiet[14 + 42..14 + 46].copy_from_slice(&[1, 4, 0, 0]);
        }
        for frame in [&mut far, &mut quiet] {
            if is_v4 {
                frame[24..26].fill(0);
                let field = Ladder::Word64.sum(&frame[14..38]).field();
                frame[24..26].copy_from_slice(&field);
            }
        }
        frames.extend([far, quiet]);
        if is_v4 {
            frames.push(query_from(version, None, second, ip("127.0.0.1")));
            frames.push(query_from(version, None, second, ip("224.0.0.1")));
        } else {
            frames.push(query_from(version, None, second, ip("2001:db8::2")));
            frames.push(query_from(version, None, second, ip("::")));
        }
        let before = bench.stack.drops().total();
        for frame in &frames {
            assert_eq!(bench.exchange(frame, after(10_000)), [] as [Vec<u8>; 0]);
        }
        assert_eq!(
            bench.stack.drops().total() - before,
            frames.len() as u64,
            "not every frame has one drop reason"
        );
        assert_eq!(run(&mut bench, after(60_000)), [], "a bad query was answered");
        let other = ip(if is_v4 { "239.9.9.9" } else { "ff0e::9" });
        bench.exchange(&query(version, Some(other), second), after(60_000));
        assert_eq!(drops(&bench, DropReason::GroupNotJoined), 1);
        assert_eq!(bench.stack.counters().of(Counter::GroupQueriesIn), 0);
        // The valid query is answered, so the bad ones were not ignored for some other reason.
        bench.exchange(&good, after(70_000));
        let answers = run(&mut bench, after(90_000));
        assert_eq!(records(&answers[0].1), [(RecordKind::IsExclude, group, vec![])]);
    }
}

/// A flood of queries with a maximum response delay of zero: no more answers than the limit leave,
/// and each buffer is returned.
#[test]
fn reports_are_limited_in_a_second() {
    for version in BOTH {
        let (mut bench, ..) = member(version);
        let frame = query(version, None, Duration::ZERO);
        let mut sent = 0;
        for _ in 0..1_000 {
            sent += bench.exchange(&frame, after(10_000)).len();
        }
        assert_eq!(sent, Limit::GroupReportsPerSecond.default_value());
        let hits = bench.stack.budget().hits(Limit::GroupReportsPerSecond);
        assert!(hits > 0 && bench.stack.next_deadline() <= after(11_000), "later");
        // The pending answer, and one answer to all queries since that answer was made.
        assert_eq!(run(&mut bench, after(20_000)).len(), 2);
        assert_eq!(bench.peers_buffers_out(), 0);
    }
}

/// Attacks like flood_mld26: reports and leave messages of other hosts are for routers. Each is
/// counted, causes no answer, and does not keep the next query from being answered.
#[test]
fn floods_of_reports_are_nothing_for_a_host() {
    for version in BOTH {
        let (mut bench, _, group) = member(version);
        let sent_before = bench.stack.counters().of(Counter::GroupReportsOut);
        let all_nodes = ip(if version == IpVersion::V4 { "224.0.0.1" } else { "ff02::1" });
        let mut heard = 0;
        for dst in [group, all_nodes] {
            for bytes in reports_of(group) {
                let frame = from_neighbour(dst, bytes);
                for _ in 0..200 {
                    assert_eq!(bench.exchange(&frame, after(10_000)), [] as [Vec<u8>; 0]);
                    heard += 1;
                }
            }
        }
        // A host whose own report is pending records other members' reports of the older version
        // about the group.
        let taken = bench.stack.counters().of(Counter::GroupReportsIn);
        assert_eq!((taken, taken + drops(&bench, DropReason::GroupUnhandled)), (200, heard));
        assert_eq!(run(&mut bench, after(60_000)), []);
        assert_eq!(bench.stack.counters().of(Counter::GroupReportsOut), sent_before);
        bench.exchange(&query(version, None, Duration::from_secs(1)), after(70_000));
        let answers = run(&mut bench, after(90_000));
        assert_eq!(records(&answers[0].1), [(RecordKind::IsExclude, group, vec![])]);
    }
}

/// The messages of another member, without their checksums: a report of the older version, a leave
/// message, and a report of the current version.
fn reports_of(group: IpAddr) -> [Vec<u8>; 3] {
    let (kinds, address) = match group {
        IpAddr::V4(group) => ([0x16, 0x17, 0x22], group.octets().to_vec()),
        IpAddr::V6(group) => ([131, 132, 143], group.octets().to_vec()),
    };
    let head = |kind: u8| match group.is_ipv4() {
        true => vec![kind, 0, 0, 0],
        false => vec![kind, 0, 0, 0, 0, 0, 0, 0],
    };
    let older = |kind| [head(kind), address.clone()].concat();
    // One record: the filter mode became EXCLUDE, without sources.
    let current = [&[kinds[2], 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0], &address[..]].concat();
    [older(kinds[0]), older(kinds[1]), current]
}

/// A frame with a message of another host on the link, its checksum filled in.
fn from_neighbour(dst: IpAddr, mut bytes: Vec<u8>) -> Vec<u8> {
    let src = ip(if dst.is_ipv4() { "192.0.2.2" } else { "fe80::2" });
    let sum = match dst.is_ipv4() {
        true => Ladder::Word64.sum(&bytes),
        false => super::super::craft::transport_sum(src, dst, 58, &bytes),
    };
    bytes[2..4].copy_from_slice(&sum.field());
    packet(base::LinkKind::Ethernet, pair::mac(2), src, &Sent { dst, bytes }).expect("a frame")
}

/// RFC 3810 6-b, 5.2.13-a.
#[test]
fn solicited_node_groups_of_addresses_are_reported() {
    let mut config = PairConfig::new([3, 4]);
    config.stack = StackConfig::new([3, 4]);
    let mut bench = Bench::new(&config);
    bench.poll(NOW);
    let kinds = |frames: Vec<(Instant, Vec<u8>)>| -> Vec<(RecordKind, IpAddr)> {
        let mut all: Vec<_> = frames.iter().flat_map(|(_, frame)| records(frame)).collect();
        assert!(all.iter().all(|(.., sources)| sources.is_empty()));
        all.sort_by_key(|&(kind, group, _)| (group, kind as u8));
        all.into_iter().map(|(kind, group, _)| (kind, group)).collect()
    };
    let node = ip("ff02::1:ff00:1");
    // The first of the two reports was sent by the first poll.
    assert_eq!(kinds(run(&mut bench, after(5_000))), [(RecordKind::ToExclude, node)]);
    let link_local: Cidr = "fe80::aa:bbcc/64".parse().expect("a network");
    let tentative = Address { state: AddressState::Tentative, ..Address::fixed(link_local) };
    bench.stack.add_address(PORT, tentative).expect("added");
    let mut frames = run(&mut bench, after(10_000));
    // Reports have a hop-by-hop header; the probe of duplicate address detection has none.
    frames.retain(|(_, f)| f[20] == 0);
    assert!(frames[0].1[22..38] == [0; 16], "the source is not :: while the address is tentative");
    let new = ip("ff02::1:ffaa:bbcc");
    assert_eq!(kinds(frames), [(RecordKind::ToExclude, new); 2]);
    bench.stack.add_address(PORT, Address::fixed(link_local)).expect("preferred");
    assert_eq!(run(&mut bench, after(20_000)), [], "another report was sent");
    // Another address with the same solicited-node group changes nothing; the group is left with
    // the last of these addresses.
    let twin: Cidr = "2001:db8:9::aa:bbcc/64".parse().expect("a network");
    bench.stack.add_address(PORT, Address::fixed(twin)).expect("added");
    assert!(bench.stack.remove_address(PORT, twin.addr));
    assert_eq!(run(&mut bench, after(30_000)), []);
    let rows = bench.stack.groups_page(0, 10).rows;
    let shown: Vec<_> = rows.iter().map(|r| (r.group, r.is_solicited_node, r.protocol)).collect();
    assert_eq!(shown, [(node, true, "mldv2"), (new, true, "mldv2")]);
    assert!(bench.stack.remove_address(PORT, link_local.addr));
    assert_eq!(kinds(run(&mut bench, after(40_000))), [(RecordKind::ToInclude, new); 2]);
}

/// A host that is queried by an IGMPv2 router answers in that version.
/// RFC 3376 9.2-a.
#[test]
fn an_older_router_gets_older_reports() {
    let (mut bench, _, group) = member(IpVersion::V4);
    let mut bytes = vec![0x11, 10, 0, 0, 0, 0, 0, 0];
    let field = Ladder::Word64.sum(&bytes).field();
    bytes[2..4].copy_from_slice(&field);
    let (dst, src) = (ip("224.0.0.1"), ip("0.0.0.0"));
    let frame = packet(base::LinkKind::Ethernet, pair::mac(2), src, &Sent { dst, bytes });
    bench.exchange(&frame.expect("of one version"), after(10_000));
    let answers = run(&mut bench, after(20_000));
    assert_eq!(answers.len(), 1);
    let packet = &answers[0].1[14..];
    assert_eq!(packet[16..20], [239, 1, 2, 3], "the report was not sent to the group");
    assert_eq!(packet[24], 0x16);
    assert_eq!(bench.stack.groups_page(0, 1).rows[0].protocol, "igmpv2");
    // The report of another member, the message of a router, and a message that is not for hosts.
    let report = |kind, to: IpAddr| {
        let IpAddr::V4(of) = group else { panic!("IPv4") };
        let message = Sent { dst: to, bytes: wire::igmp::older(kind, of).to_vec() };
        packet_from_peer(&message)
    };
    bench.exchange(&report(0x16, group), after(20_000));
    assert_eq!(bench.stack.counters().of(Counter::GroupReportsIn), 1);
    bench.exchange(&report(0x16, ip("224.0.0.1")), after(20_000));
    bench.exchange(&report(0x17, ip("224.0.0.1")), after(20_000));
    assert_eq!(drops(&bench, DropReason::GroupUnhandled), 2);
    let told = heard_by_another_link(&mut bench, after(30_000));
    assert_eq!((told.len(), told[0].1[14 + 24]), (2, 0x16));
}

fn packet_from_peer(message: &Sent) -> Vec<u8> {
    packet(base::LinkKind::Ethernet, pair::mac(2), ip("192.0.2.2"), message).expect("IPv4")
}
