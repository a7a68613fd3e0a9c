use core::net::IpAddr;

use super::*;
use crate::group::{RecordKind, of_long_code};

fn with_checksum(mut message: Vec<u8>) -> Vec<u8> {
    message[2..4].fill(0);
    let field = Ladder::best().sum(&message).field();
    message[2..4].copy_from_slice(&field);
    message
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// RFC 3376 section 7.1: the version of a query follows from its length and code.
/// RFC 3376 7.1-a.
#[test]
fn the_version_of_a_query_follows_from_its_length() {
    let of = |message: &[u8]| match parse(message) {
        Ok(Message::Query(query)) => Ok((query.version, query.max_response.as_millis())),
        Ok(other) => panic!("{other:?}"),
        Err(reason) => Err(reason),
    };
    let query = |code: u8, len: usize| {
        let mut message = vec![0; len];
        (message[0], message[1]) = (QUERY, code);
        with_checksum(message)
    };
    assert_eq!(of(&query(0, 8)), Ok((Version::V1, 10_000)));
    assert_eq!(of(&query(25, 8)), Ok((Version::V2, 2_500)));
    assert_eq!(of(&query(25, 12)), Ok((Version::V3, 2_500)));
    assert_eq!(of(&query(0xff, 12)), Ok((Version::V3, 3_174_400)));
    for len in 9..12 {
        assert_eq!(of(&query(25, len)), Err(DropReason::GroupMalformed), "{len}");
    }
    assert_eq!(
        of(&query(25, 14)),
        Ok((Version::V3, 2_500)),
        "bytes after the query were not ignored"
    );
}

#[test]
fn codes_are_floating_point_numbers() {
    assert_eq!([0, 127, 128, 0x8f, 0xff].map(of_code), [0, 127, 128, 248, 31_744]);
    assert_eq!([0, 32_767, 0x8000, 0xffff].map(of_long_code), [0, 32_767, 32_768, 8_387_584]);
}

/// RFC 3376 4-a.
#[test]
fn queries_have_a_group_and_sources() {
    let mut message = vec![QUERY, 100, 0, 0, 239, 1, 2, 3, 0x0a, 125, 0, 2];
    message.extend_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    let message = with_checksum(message);
    let Ok(Message::Query(query)) = parse(&message) else { panic!("a query") };
    assert_eq!((query.group, query.robustness), (Some(ip("239.1.2.3")), 2));
    assert_eq!(query.interval, Duration::from_secs(125));
    let sources: Vec<IpAddr> = query.sources.iter().collect();
    assert_eq!(sources, [ip("192.0.2.1"), ip("192.0.2.2")]);
    for broken in 0..message.len() {
        let mut message = message.clone();
        message[broken] ^= 0x40;
        assert_eq!(parse(&message), Err(DropReason::GroupMalformed), "byte {broken}");
    }
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut message = message.clone();
        change(&mut message);
        assert_eq!(parse(&with_checksum(message)), Err(DropReason::GroupMalformed));
    };
    refused(&|m| m[11] = 3);
    refused(&|m| m[10] = 255);
    refused(&|m| m[4] = 10);
    refused(&|m| m[4..8].fill(0));
    let other = with_checksum(vec![0x30; 8]);
    assert_eq!(parse(&other), Err(DropReason::GroupUnhandled));
    for len in 0..8 {
        assert_eq!(parse(&message[..len]), Err(DropReason::GroupMalformed));
    }
}

#[test]
fn reports_parse_as_they_were_written() {
    let mut buf = [0xaa; 64];
    let mut records = Writer::new(&mut buf).expect("room");
    let sources = [ip("192.0.2.1"), ip("192.0.2.2")];
    let (a, b) = (ip("239.1.2.3"), ip("224.0.0.251"));
    assert!(records.is_empty());
    assert!(records.push(RecordKind::Allow, a, sources.iter()));
    assert!(records.push(RecordKind::ToExclude, b, [].iter()));
    assert!(
        !records.push(RecordKind::IsInclude, a, [ip("2001:db8::1")].iter()),
        "a record of two IP versions was written"
    );
    assert!(
        !records.push(RecordKind::IsInclude, a, [sources[0]; 9].iter()),
        "a record without room was written"
    );
    assert_eq!(records.room(IpVersion::V4), Some(6));
    let len = report(records);
    assert_eq!(len, 8 + 8 + 8 + 8);
    let Ok(Message::Records(records)) = parse(&buf[..len]) else { panic!("a report") };
    let found: Vec<_> =
        records.iter().map(|r| (r.kind, r.group, r.sources.iter().collect::<Vec<_>>())).collect();
    assert_eq!(
        found,
        [(RecordKind::Allow, a, sources.to_vec()), (RecordKind::ToExclude, b, vec![])]
    );
    // Auxiliary data is skipped, and records of unknown types are left out.
    let odd = [REPORT_V3, 0, 0, 0, 0, 0, 0, 2, 9, 1, 0, 0, 239, 1, 1, 1, 7, 7, 7, 7];
    let odd = with_checksum([&odd[..], &[2, 0, 0, 0, 239, 1, 1, 2]].concat());
    let Ok(Message::Records(records)) = parse(&odd) else { panic!("a report") };
    assert_eq!(records.iter().map(|r| r.group).collect::<Vec<_>>(), [ip("239.1.1.2")]);
    for len in 8..odd.len() {
        let cut = with_checksum(odd[..len].to_vec());
        assert_eq!(parse(&cut), Err(DropReason::GroupMalformed), "{len}");
    }
}

#[test]
fn older_messages_parse_as_they_were_written() {
    let group = Ipv4Addr::new(239, 1, 2, 3);
    for (kind, message) in [
        (REPORT_V1, Message::Report(Version::V1, group.into())),
        (REPORT_V2, Message::Report(Version::V2, group.into())),
        (LEAVE, Message::Leave(group.into())),
    ] {
        assert_eq!(parse(&older(kind, group)), Ok(message));
    }
    let no_group = older(REPORT_V2, Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!(parse(&no_group), Err(DropReason::GroupMalformed));
}

#[test]
fn router_alert_is_found_among_options() {
    use crate::ipv4::has_router_alert;
    let with = |options: &[u8]| has_router_alert(&[&[0; 20][..], options].concat());
    assert!(with(&crate::ipv4::ROUTER_ALERT));
    assert!(with(&[1, 7, 3, 4, 148, 4, 0, 0]));
    for none in [&[][..], &[0, 148, 4, 0], &[1, 1, 1, 0], &[148], &[7, 0, 0, 0], &[7, 1, 148, 4]] {
        assert!(!with(none), "{none:?}");
    }
}
