//! The state machine in virtual time: which messages are sent, when, and to which address.

mod merged;

use wire::group::{Message as Parsed, Query};

use super::heard::ASKED_MAX;
use super::*;

const SECRET: KeyedHash = KeyedHash::new(7, 9);

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(1_000_000 * ms)
}

/// The contents of a message: kind, group and sources of each record.
fn said(message: &Message) -> Vec<(String, IpAddr, Vec<IpAddr>)> {
    let parsed = match message.dst {
        IpAddr::V4(_) => wire::igmp::parse(&message.bytes),
        IpAddr::V6(_) => wire::mld::parse(&message.bytes),
    };
    match parsed.expect("we parse what we write") {
        Parsed::Records(records) => records
            .iter()
            .map(|r| (format!("{:?}", r.kind), r.group, r.sources.iter().collect()))
            .collect(),
        Parsed::Report(version, group) => vec![(format!("Report{version:?}"), group, vec![])],
        Parsed::Leave(group) => vec![("Leave".to_owned(), group, vec![])],
        Parsed::Query(_) => panic!("a host asks nothing"),
    }
}

fn source_of(host: &Host) -> IpAddr {
    if host.version == IpVersion::V4 { ip("192.0.2.1") } else { ip("fe80::1") }
}

/// All messages sent up to `until`, each with its time.
fn run(host: &mut Host, until: Instant) -> Vec<(Instant, Message)> {
    let (mut sent, src) = (Vec::new(), source_of(host));
    while host.next_deadline() <= until {
        let due = host.next_deadline();
        let now = sent.last().map_or(due, |&(last, _): &(Instant, _)| last.max(due));
        host.expire(now);
        while let Some(message) = host.next_message(src, 1_400) {
            sent.push((now, message));
        }
    }
    sent
}

/// The contents of all messages sent up to `until`.
fn words(host: &mut Host, until: Instant) -> Vec<(String, IpAddr, Vec<IpAddr>)> {
    run(host, until).iter().flat_map(|(_, message)| said(message)).collect()
}

fn host(version: IpVersion) -> Host {
    Host::new(version, SECRET, 0)
}

fn record(kind: &str, group: &str, sources: &[&str]) -> (String, IpAddr, Vec<IpAddr>) {
    (kind.to_owned(), ip(group), sources.iter().map(|s| ip(s)).collect())
}

fn query(version: Version, group: Option<&str>, ms: u64) -> Query<'static> {
    let none: Query<'_> = match wire::igmp::parse(&[0x11, 1, 0xee, 0xfe, 0, 0, 0, 0]) {
        Ok(Parsed::Query(query)) => query,
        other => panic!("{other:?}"),
    };
    Query {
        version,
        group: group.map(ip),
        max_response: Duration::from_millis(ms),
        robustness: 0,
        interval: Duration::ZERO,
        sources: none.sources,
    }
}

/// The bytes of a group-and-source-specific query with these sources.
fn query_sources(group: &str, sources: &[&str], ms: u64) -> Vec<u8> {
    let IpAddr::V4(group) = ip(group) else { panic!("IPv4") };
    let mut message = vec![0x11, (ms / 100) as u8, 0, 0];
    message.extend_from_slice(&group.octets());
    message.extend_from_slice(&[2, 125, 0, sources.len() as u8]);
    for source in sources {
        let IpAddr::V4(source) = ip(source) else { panic!("IPv4") };
        message.extend_from_slice(&source.octets());
    }
    let field = wire::checksum::Ladder::Word64.sum(&message).field();
    message[2..4].copy_from_slice(&field);
    message
}

fn ask(host: &mut Host, message: &[u8], now: Instant) {
    match wire::igmp::parse(message) {
        Ok(Parsed::Query(query)) => host.query(&query, now),
        other => panic!("{other:?}"),
    }
}

/// RFC 3376 5.1-a, 5.1-b, RFC 3810 6.1-a, 6.1-b, RFC 1112 7.1-a.
#[test]
fn joins_and_leaves_are_reported_twice() {
    for (version, group) in [(IpVersion::V4, "239.1.2.3"), (IpVersion::V6, "ff0e::123")] {
        let mut host = host(version);
        host.set(ip(group), Filter::ANYTHING, at(5_000));
        assert_eq!(host.next_deadline(), at(5_000), "the first report is not due at once");
        let sent = run(&mut host, at(60_000));
        assert_eq!(sent.len(), 2);
        assert_eq!(sent[0].0, at(5_000));
        let gap = sent[1].0.since(sent[0].0);
        assert!(gap > Duration::ZERO && gap <= Duration::from_secs(1), "{gap:?}");
        for (_, message) in &sent {
            assert_eq!(said(message), [record("ToExclude", group, &[])]);
        }
        let to = if version == IpVersion::V4 { "224.0.0.22" } else { "ff02::16" };
        assert_eq!(sent[0].1.dst, ip(to));
        host.set(ip(group), Filter::NOTHING, at(70_000));
        assert_eq!(host.filter(ip(group)), None, "the group is still received");
        assert_eq!(words(&mut host, at(99_000)), vec![record("ToInclude", group, &[]); 2]);
        assert!(host.is_empty(), "the state of the group was not removed");
        assert_eq!(host.next_deadline(), Instant::NEVER);
    }
}

/// RFC 3376 section 5.1: the table of changes.
#[test]
fn changes_of_sources_are_reported_as_differences() {
    let mut host = host(IpVersion::V4);
    let (group, [a, b, c]) = ("239.1.2.3", ["192.0.2.10", "192.0.2.11", "192.0.2.12"]);
    let mut time = 0;
    let mut change = |filter, expected: &[(String, IpAddr, Vec<IpAddr>)]| {
        time += 10_000;
        host.set(ip(group), filter, at(time));
        let twice = [expected, expected].concat();
        assert_eq!(words(&mut host, at(time + 9_000)), twice);
    };
    let [s, t, u] = [a, b, c].map(ip);
    change(Filter::include([s, t]), &[record("Allow", group, &[a, b])]);
    change(Filter::include([t, u]), &[record("Allow", group, &[c]), record("Block", group, &[a])]);
    change(Filter::exclude([s, t]), &[record("ToExclude", group, &[a, b])]);
    change(Filter::exclude([t, u]), &[record("Allow", group, &[a]), record("Block", group, &[c])]);
    change(Filter::include([s]), &[record("ToInclude", group, &[a])]);
    change(Filter::NOTHING, &[record("Block", group, &[a])]);
    change(Filter::NOTHING, &[]);
}

/// RFC 3376 section 5.1: a change that was not reported often enough is in the next reports, too.
#[test]
fn changes_that_overlap_are_merged() {
    let mut host = host(IpVersion::V4);
    let (group, src) = ("239.1.2.3", ip("192.0.2.1"));
    host.set(ip(group), Filter::exclude([ip("192.0.2.10")]), at(0));
    host.expire(at(0));
    let first = host.next_message(src, 1_400).expect("one is due");
    assert_eq!(said(&first), [record("ToExclude", group, &["192.0.2.10"])]);
    host.set(ip(group), Filter::exclude([ip("192.0.2.11")]), at(1));
    // The second report of the mode has the new list; one more report is the second one of the
    // sources.
    let allow = record("Allow", group, &["192.0.2.10"]);
    let block = record("Block", group, &["192.0.2.11"]);
    let to = record("ToExclude", group, &["192.0.2.11"]);
    assert_eq!(words(&mut host, at(9_000)), [to, allow, block]);
}

/// RFC 3376 5.2-a, 5.2-c, RFC 3810 6.2-b, 6.3-a.
#[test]
fn queries_are_answered_once_within_their_time() {
    for (version, group) in [(IpVersion::V4, "239.1.2.3"), (IpVersion::V6, "ff0e::123")] {
        let mut delays = BTreeSet::new();
        for salt in 0..20 {
            let mut host = Host::new(version, SECRET, salt);
            host.set(ip(group), Filter::ANYTHING, at(0));
            run(&mut host, at(9_000));
            let now = at(10_000);
            for _ in 0..5 {
                host.query(&query(Version::V3, None, 3_000), now);
            }
            host.query(&query(Version::V3, Some("239.9.9.9"), 3_000), now);
            let sent = run(&mut host, at(60_000));
            assert_eq!(sent.len(), 1, "not exactly one message");
            assert_eq!(said(&sent[0].1), [record("IsExclude", group, &[])]);
            assert!(sent[0].0 > now && sent[0].0 <= at(13_000));
            delays.insert(sent[0].0);
        }
        assert!(delays.len() > 15, "the delays are not random: {delays:?}");
    }
}

/// RFC 3376 section 5.2, rules 3 to 5 and the table of answers.
/// RFC 3376 5.2-b, RFC 3810 6.3-b.
#[test]
fn queries_about_sources_are_answered_for_those() {
    let (group, [a, b, c]) = ("239.1.2.3", ["192.0.2.10", "192.0.2.11", "192.0.2.12"]);
    let answer = |filter: Filter, asked: &[&[&str]]| {
        let mut host = host(IpVersion::V4);
        host.set(ip(group), filter, at(0));
        run(&mut host, at(9_000));
        for sources in asked {
            ask(&mut host, &query_sources(group, sources, 2_000), at(10_000));
        }
        words(&mut host, at(30_000))
    };
    let [s, t, u] = [a, b, c].map(ip);
    assert_eq!(answer(Filter::include([s, t]), &[&[b, c]]), [record("IsInclude", group, &[b])]);
    assert_eq!(answer(Filter::exclude([s, t]), &[&[b, c]]), [record("IsInclude", group, &[c])]);
    assert_eq!(
        answer(Filter::include([s]), &[&[b, c]]),
        [],
        "a source that is not received is reported"
    );
    let both = record("IsInclude", group, &[a, b]);
    assert_eq!(
        answer(Filter::include([s, t, u]), &[&[a], &[b]]),
        [both],
        "the sources of two queries were not merged"
    );
    let whole = record("IsInclude", group, &[a, b]);
    assert_eq!(
        answer(Filter::include([s, t]), &[&[a], &[]]),
        vec![whole.clone()],
        "a query for all sources does not replace one for some"
    );
    assert_eq!(
        answer(Filter::include([s, t]), &[&[], &[a]]),
        [whole],
        "a query for some sources replaces one for all"
    );
}

/// RFC 3376 5-a, RFC 3810 6-a, RFC 1112 7.2-a.
#[test]
fn all_nodes_and_groups_within_a_host_are_never_reported() {
    for group in ["224.0.0.1", "ff02::1", "ff01::1", "ff01::fb", "ff00::1"] {
        let mut host = host(IpVersion::of(&ip(group)));
        host.set(ip(group), Filter::ANYTHING, at(0));
        assert!(host.filter(ip(group)).is_some());
        host.query(&query(Version::V3, None, 100), at(10));
        host.query(&query(Version::V3, Some(group), 100), at(10));
        assert_eq!(words(&mut host, at(60_000)), [], "{group}");
        host.set(ip(group), Filter::NOTHING, at(60_000));
        assert!(host.is_empty());
    }
}

/// RFC 3376 7.2.1-a, 7.2.1-b, 7.2.1-c, RFC 3810 8.2.1-a, 8.2.1-b, 8.2.1-c.
#[test]
fn an_older_querier_is_answered_in_its_version_until_it_is_gone() {
    for (version, older, group, to_leave, leaves) in [
        (IpVersion::V4, Version::V1, "239.1.2.3", "", false),
        (IpVersion::V4, Version::V2, "239.1.2.3", "224.0.0.2", true),
        (IpVersion::V6, Version::V2, "ff0e::123", "ff02::2", true),
    ] {
        let mut host = host(version);
        host.set(ip(group), Filter::exclude([]), at(0));
        // Pending messages of the current version are cancelled.
        host.query(&query(older, None, 5_000), at(1));
        let sent = run(&mut host, at(20_000));
        let words: Vec<_> = sent.iter().flat_map(|(_, m)| said(m)).collect();
        assert_eq!(words, [record(&format!("Report{older:?}"), group, &[])]);
        assert_eq!(sent[0].1.dst, ip(group), "the report was not sent to its group");
        host.set(ip(group), Filter::NOTHING, at(30_000));
        let sent = run(&mut host, at(40_000));
        assert_eq!(sent.len(), usize::from(leaves));
        if let Some((_, message)) = sent.first() {
            assert_eq!(
                (said(message), message.dst),
                (vec![record("Leave", group, &[])], ip(to_leave))
            );
        }
        // A join is reported twice here as well, with up to ten seconds between the reports.
        host.set(ip(group), Filter::ANYTHING, at(50_000));
        let sent = run(&mut host, at(100_000));
        assert_eq!(sent.len(), 2);
        assert_eq!(sent[0].0, at(50_000));
        // The older querier counts as gone 2 times 125 s plus 10 s after its last query.
        assert_eq!(host.speaks(at(260_000)), older);
        assert_eq!(host.speaks(at(260_001)), Version::V3);
        host.query(&query(Version::V3, None, 1_000), at(300_000));
        let sent = run(&mut host, at(400_000));
        assert_eq!(said(&sent[0].1), [record("IsExclude", group, &[])]);
    }
}

/// RFC 3376 7.2.2-a: RFC 2236 section 3.
#[test]
fn a_report_of_another_member_is_enough_in_older_versions() {
    let mut host = host(IpVersion::V4);
    let group = ip("239.1.2.3");
    host.set(group, Filter::ANYTHING, at(0));
    run(&mut host, at(5_000));
    host.query(&query(Version::V3, None, 5_000), at(6_000));
    host.heard_report(group, at(6_001));
    assert_eq!(
        words(&mut host, at(20_000)).len(),
        1,
        "a report of another host suppressed one in version 3"
    );
    host.query(&query(Version::V2, None, 5_000), at(30_000));
    host.heard_report(group, at(30_001));
    assert_eq!(words(&mut host, at(60_000)), []);
    host.set(group, Filter::NOTHING, at(60_000));
    assert_eq!(
        words(&mut host, at(90_000)),
        [],
        "a leave message was sent by a host that was not the last to report"
    );
}

/// RFC 3376 4.2.16-a, RFC 3810 5.2.15-a.
#[test]
fn reports_that_are_too_long_are_several() {
    let mut host = host(IpVersion::V4);
    let groups: Vec<IpAddr> = (0..200).map(|n| IpAddr::from([239, 1, 0, n])).collect();
    for &group in &groups {
        host.set(group, Filter::ANYTHING, at(0));
    }
    let many: Vec<IpAddr> = (1..=200).map(|n| IpAddr::from([192, 0, 2, n])).collect();
    host.set(ip("239.2.0.0"), Filter::include(many.iter().copied()), at(0));
    host.set(ip("239.2.0.1"), Filter::exclude(many.iter().copied()), at(0));
    host.expire(at(0));
    let mut heard: BTreeMap<IpAddr, Vec<IpAddr>> = BTreeMap::new();
    let mut messages = 0;
    while let Some(message) = host.next_message(ip("192.0.2.1"), 500) {
        assert!(message.bytes.len() <= 500);
        messages += 1;
        for (_, group, sources) in said(&message) {
            heard.entry(group).or_default().extend(sources);
        }
    }
    assert!((5..12).contains(&messages), "{messages}");
    assert_eq!(heard.len(), 202);
    assert_eq!(heard[&ip("239.2.0.0")], many, "the included sources were not all reported");
    let cut = &heard[&ip("239.2.0.1")];
    assert!(cut.len() > 50 && cut.len() < 200, "{} excluded sources were reported", cut.len());
    // Messages are made for any room, and end.
    host.query(&query(Version::V3, None, 1), at(90_000));
    host.expire(at(90_001));
    assert!((0..5_000).any(|_| host.next_message(ip("192.0.2.1"), 0).is_none()));
}

/// A stranger's queries cost no memory, and cause at most one answer at a time.
#[test]
fn hostile_queries_are_bounded() {
    let mut host = host(IpVersion::V4);
    let group = "239.1.2.3";
    host.set(ip(group), Filter::ANYTHING, at(0));
    run(&mut host, at(9_000));
    for n in 0..2_000_u32 {
        let [.., b, c] = n.to_be_bytes();
        let sources: Vec<String> = (0..60).map(|d| format!("10.{b}.{c}.{d}")).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        ask(&mut host, &query_sources(group, &sources, 25_000), at(10_000));
        let state = host.groups.get(&ip(group)).expect("joined");
        assert!(state.asked.len() <= ASKED_MAX);
    }
    // While nobody takes the messages, no further messages are made.
    for n in 0..100 {
        host.query(&query(Version::V3, None, 0), at(40_000 + n));
        host.expire(at(40_000 + n));
        assert!(host.out.len() <= 2, "{}", host.out.len());
    }
    let unknown = query_sources("239.7.7.7", &["10.0.0.1"], 100);
    ask(&mut host, &unknown, at(50_000));
    assert_eq!(host.len(), 1, "a group that is not joined has state");
    let forever = Query { robustness: 7, interval: Duration::MAX, ..query(Version::V1, None, 1) };
    host.query(&forever, at(60_000));
    assert!(host.speaks(at(60_001)) == Version::V1, "the time of the older querier overflowed");
}
