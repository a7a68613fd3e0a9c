use super::*;
use crate::group::RecordKind;

const SRC: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 0x1234);

fn query_of(len: usize, code: u16, group: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![0; len];
    message[0] = QUERY;
    message[4..6].copy_from_slice(&code.to_be_bytes());
    message[8..24].copy_from_slice(&group.octets());
    message
}

/// RFC 3810 8.1-a.
#[test]
fn the_version_of_a_query_follows_from_its_length() {
    let of = |message: &[u8]| match parse(message) {
        Ok(Message::Query(query)) => Ok((query.version, query.group, query.max_response)),
        Ok(other) => panic!("{other:?}"),
        Err(reason) => Err(reason),
    };
    let (ms, none) = (Duration::from_millis, Ipv6Addr::UNSPECIFIED);
    assert_eq!(of(&query_of(24, 0xffff, none)), Ok((Version::V2, None, ms(65_535))));
    assert_eq!(of(&query_of(28, 10_000, none)), Ok((Version::V3, None, ms(10_000))));
    let group = Some(IpAddr::V6(GROUP));
    assert_eq!(of(&query_of(28, 0xffff, GROUP)), Ok((Version::V3, group, ms(8_387_584))));
    for len in [0, 4, 23, 25, 26, 27] {
        let message = &query_of(28, 1, none)[..len];
        assert_eq!(of(message), Err(DropReason::GroupMalformed), "{len}");
    }
    assert_eq!(
        of(&query_of(28, 1, SRC)),
        Err(DropReason::GroupMalformed),
        "a query about an address that is no group was accepted"
    );
    let mut short = query_of(28, 1, GROUP);
    short[27] = 1;
    assert_eq!(of(&short), Err(DropReason::GroupMalformed), "a source past the end was accepted");
    short.extend_from_slice(&SRC.octets());
    let Ok(Message::Query(query)) = parse(&short) else { panic!("a query") };
    assert_eq!(query.sources.iter().collect::<Vec<_>>(), [IpAddr::V6(SRC)]);
    short[8..24].fill(0);
    assert_eq!(
        of(&short),
        Err(DropReason::GroupMalformed),
        "sources without a group were accepted"
    );
}

#[test]
fn messages_parse_as_they_were_written() {
    let dst = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
    let is_whole = |bytes: &[u8], dst| icmpv6::Header::parse(bytes, SRC, dst).is_ok();
    for (kind, expected) in [
        (REPORT_V1, Message::Report(Version::V2, GROUP.into())),
        (DONE, Message::Leave(GROUP.into())),
    ] {
        let bytes = older(kind, GROUP, (SRC, GROUP));
        assert!(is_whole(&bytes, GROUP));
        assert_eq!(parse(&bytes), Ok(expected));
    }
    let mut buf = [0; 100];
    let mut records = Writer::new(&mut buf).expect("room");
    assert!(records.push(RecordKind::IsExclude, GROUP.into(), [IpAddr::V6(SRC)].iter()));
    let len = report(records, (SRC, dst));
    assert_eq!(len, 8 + 20 + 16);
    assert!(is_whole(&buf[..len], dst));
    let Ok(Message::Records(records)) = parse(&buf[..len]) else { panic!("a report") };
    let only: Vec<_> = records.iter().collect();
    assert_eq!((only.len(), only[0].kind), (1, RecordKind::IsExclude));
    assert_eq!(only[0].sources.len(), 1);
    for cut in 1..len {
        assert_eq!(parse(&buf[..cut]), Err(DropReason::GroupMalformed), "{cut}");
    }
    assert_eq!(parse(&[135; 40]), Err(DropReason::GroupUnhandled));
}

#[test]
fn router_alert_is_found_in_hop_by_hop_options() {
    use crate::ipv6::{HEADER_LEN, Header, ROUTER_ALERT, has_router_alert};
    use crate::protocol::{HOP_BY_HOP, ICMPV6};
    let with = |next_header: u8, behind: &[u8]| {
        let mut packet = vec![0; HEADER_LEN];
        let payload_len = behind.len() as u16;
        let (traffic_class, flow_label, hop_limit) = (0, 0, 1);
        Header {
            traffic_class,
            flow_label,
            payload_len,
            next_header,
            hop_limit,
            src: SRC,
            dst: SRC,
        }
        .emit(&mut packet);
        packet.extend_from_slice(behind);
        has_router_alert(&packet)
    };
    assert!(with(HOP_BY_HOP, &ROUTER_ALERT));
    assert!(with(HOP_BY_HOP, &[ICMPV6, 0, 0, 0, 5, 2, 0, 0]));
    assert!(!with(60, &ROUTER_ALERT), "router alert in destination options was accepted");
    for none in [&[][..], &[58], &[58, 0, 5, 2, 0, 1, 1, 0], &[58, 0, 1, 4, 0, 0, 0, 0], &[58, 9]] {
        assert!(!with(HOP_BY_HOP, none), "{none:?}");
    }
}
