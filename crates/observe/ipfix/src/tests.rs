//! Tests: whatever happens, a decoder that was written apart from the encoder reads the same.

mod decoder;
mod events;

use std::collections::BTreeMap;

use base::{Duration, Instant};
use filter::firewall::{Event, RefusedFlow, Shortage};
use filter::states::{Direction, Reported, What, Why};
use proptest::prelude::*;

use crate::{Clock, Exporter, Interface};
use decoder::{Collector, Record};
use events::{block, events, state, tuple};

const AT: Instant = Instant::from_nanos(1_000_000_000_000);
const CLOCK: Clock = Clock { now: AT, unix_ms: 1_700_000_000_000 };

fn exporter(most: usize) -> Exporter {
    let mut exporter = Exporter::new(7, CLOCK, true);
    exporter.set_most(most);
    exporter
}

/// The records of all messages.
fn collect(exporter: &mut Exporter, collector: &mut Collector) -> Vec<Record> {
    exporter.finish();
    let mut all = Vec::new();
    while let Some(message) = exporter.next_message(&CLOCK) {
        let records = collector.message(&message.bytes);
        assert_eq!(records.len(), message.records as usize);
        all.extend(records);
    }
    all
}

fn decoded(all: &[Event]) -> Vec<Record> {
    decoded_by(exporter(1_400), all)
}

fn decoded_by(mut exporter: Exporter, all: &[Event]) -> Vec<Record> {
    exporter.templates();
    all.iter().for_each(|event| exporter.event(event));
    collect(&mut exporter, &mut Collector::new(7))
}

fn number(record: &Record, id: u16) -> u64 {
    record[&id].iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// RFC 7011 3.2-a, 6.1.1-a, 6.1.2-a, 6.1.8-a; RFC 8158 4.3-a, 4.6.1-b.
#[test]
fn a_flow_with_nat_has_both_directions_and_its_session() {
    let mut flow = state(
        tuple("10.0.0.5:4000", "198.51.100.1:443", 6),
        tuple("198.51.100.1:443", "192.0.2.1:61000", 6),
    );
    (flow.packets, flow.bytes) = ([10, 8], [1_000, 90_000]);
    flow.created = AT - Duration::from_secs(10);
    flow.seen = AT - Duration::from_secs(2);
    let event =
        |what, reported| Event::Flow(filter::states::Event { at: AT, state: flow, what, reported });
    let reported =
        Reported { packets: [4, 0], bytes: [400, 0], at: Some(AT - Duration::from_secs(5)) };
    let records = decoded(&[
        event(What::Began, Reported::default()),
        event(What::Ended(Why::Idle), reported),
    ]);
    let [began, ended, there, back] = &records[..] else { panic!("{records:?}") };
    assert_eq!((number(began, 230), number(ended, 230)), (4, 5));
    for session in [began, ended] {
        assert_eq!(session[&8], [10, 0, 0, 5]);
        assert_eq!(session[&225], [192, 0, 2, 1]);
        assert_eq!((number(session, 7), number(session, 227)), (4_000, 61_000));
        assert_eq!((number(session, 323), number(session, 4)), (CLOCK.unix_ms, 6));
        assert_eq!((number(session, 11), number(session, 228)), (443, 443));
    }
    assert_eq!((number(there, 2), number(there, 1)), (6, 600), "without what was reported");
    assert_eq!(number(there, 152), CLOCK.unix_ms - 5_000);
    assert_eq!(number(there, 153), CLOCK.unix_ms - 2_000);
    assert_eq!((number(there, 10), number(there, 14)), (2, 3));
    assert_eq!(
        (there[&8].as_slice(), there[&12].as_slice()),
        (&[10, 0, 0, 5][..], &[198, 51, 100, 1][..])
    );
    assert_eq!((there[&225].as_slice(), number(there, 227)), (&[192, 0, 2, 1][..], 61_000));
    assert_eq!((number(there, 136), number(there, 4)), (1, 6));
    assert_eq!((number(back, 2), number(back, 1)), (8, 90_000));
    assert_eq!(number(back, 4), 6);
    assert_eq!((number(back, 10), number(back, 14)), (3, 2));
    assert_eq!((number(back, 7), number(back, 11)), (443, 61_000));
    assert_eq!((back[&226].as_slice(), number(back, 228)), (&[10, 0, 0, 5][..], 4_000));
}

#[test]
fn a_direction_without_packets_has_no_record() {
    let mut flow =
        state(tuple("10.0.0.5:53", "10.0.0.6:53", 17), tuple("10.0.0.6:53", "10.0.0.5:53", 17));
    (flow.packets, flow.bytes) = ([1, 0], [60, 0]);
    let (at, state, reported) = (AT, flow, Reported::default());
    let event = filter::states::Event { at, state, what: What::Ended(Why::Evicted), reported };
    assert_eq!(event.new_counts(Direction::Reply), (0, 0));
    let records = decoded(&[Event::Flow(event)]);
    assert_eq!(records.len(), 1, "no NAT, no session: {records:?}");
    assert_eq!(number(&records[0], 136), 5);
}

/// RFC 8158 4.6.5-a, 4.6.6-a, 4.6.7-c, 4.6.7-d, 4.6.10-a.
#[test]
fn blocks_and_shortages_have_events_of_their_own() {
    let refused = |why| {
        let tuple = tuple("10.0.0.5:4000", "198.51.100.1:443", 6);
        Event::Refused(RefusedFlow { at: AT, why, tuple, rule: 3 })
    };
    let outside = "192.0.2.1".parse().ok();
    let records = decoded(&[
        Event::Block(block(true)),
        Event::Block(block(false)),
        refused(Shortage::States(100)),
        refused(Shortage::Mappings(200)),
        refused(Shortage::PortsOfSource(300)),
        refused(Shortage::Ports(outside)),
        refused(Shortage::Ports(None)),
        refused(Shortage::Addresses),
        refused(Shortage::StatesOfSource(400)),
    ]);
    let events: Vec<u64> = records.iter().map(|record| number(record, 230)).collect();
    assert_eq!(events, [16, 17, 13, 13, 13, 12, 3, 3, 13]);
    assert!(records.iter().all(|record| number(record, 323) == CLOCK.unix_ms));
    for block in &records[..2] {
        assert_eq!(block[&8], [10, 0, 0, 5]);
        assert_eq!(block[&225], [192, 0, 2, 1]);
    }
    assert_eq!((number(&records[0], 361), number(&records[0], 362)), (1_024, 1_535));
    let quotas = [(2, 1, 471, 100), (3, 2, 472, 200), (4, 3, 473, 300), (8, 3, 473, 400)];
    for (at, quota, limit, most) in quotas {
        assert_eq!((number(&records[at], 466), number(&records[at], limit)), (quota, most));
    }
    assert_eq!((&records[4][&8], &records[8][&8]), (&vec![10, 0, 0, 5], &vec![10, 0, 0, 5]));
    assert_eq!((records[5][&225].as_slice(), number(&records[5], 4)), (&[192, 0, 2, 1][..], 6));
    assert_eq!((number(&records[6], 283), number(&records[7], 283)), (3, 3));
}

/// RFC 7011 6.1.6-a, 7-c, 8-c, 8.4-a.
#[test]
fn templates_come_again_and_records_need_them() {
    let mut exporter = exporter(1_400);
    let interfaces = [Interface { port: 1, name: "wan".to_owned() }];
    exporter.templates();
    exporter.interfaces(&interfaces);
    let named = collect(&mut exporter, &mut Collector::new(7));
    assert_eq!((number(&named[0], 10), named[0][&82].as_slice()), (2, &b"wan"[..]));
    exporter.event(&Event::Block(block(true)));
    // A collector that began later cannot read it, until templates come again.
    let mut late = Collector::new(7);
    exporter.finish();
    let message = exporter.next_message(&CLOCK).expect("a message");
    assert_eq!(late.unknown(&message.bytes), 1);
    exporter.templates();
    exporter.event(&Event::Block(block(true)));
    assert_eq!(collect(&mut exporter, &mut late).len(), 1);
}

fn translated(protocol: u8, is_v6: bool) -> filter::states::State {
    let [inside, remote, outside] = match is_v6 {
        false => ["10.0.0.5:4000", "198.51.100.1:443", "192.0.2.1:61000"],
        true => ["[2001:db8:1::5]:4000", "[2001:db8:9::1]:443", "[2001:db8:2::1]:61000"],
    };
    state(tuple(inside, remote, protocol), tuple(remote, outside, protocol))
}

fn flow(state: filter::states::State, what: What) -> Event {
    Event::Flow(filter::states::Event { at: AT, state, what, reported: Reported::default() })
}

/// RFC 8158 4.1-a, RFC 6888 REQ-12.
#[test]
fn destinations_are_named_if_they_are_asked_for_or_ours() {
    let idle = What::Ended(Why::Idle);
    for (is_v6, address) in [(false, [8, 12, 225, 226]), (true, [27, 28, 281, 282])] {
        let [src, dst, post_src, post_dst] = address;
        let state = translated(6, is_v6);
        let all = [flow(state, What::Began), flow(state, idle)];
        let whole = decoded(&all);
        let short = decoded_by(Exporter::new(7, CLOCK, false), &all);
        // NAT44 alone has sessions.
        assert_eq!((whole.len(), short.len()), if is_v6 { (2, 2) } else { (4, 4) });
        for (whole, short) in whole.iter().zip(&short) {
            // The answers' source is the destination, their outside address is not.
            let is_answer = whole[&dst] == short.get(&dst).cloned().unwrap_or_default();
            let hidden = if is_answer { [src, post_src] } else { [dst, post_dst] };
            let ports = if is_answer { [7, 227] } else { [11, 228] };
            let mut expected = whole.clone();
            expected.retain(|id, _| !hidden.contains(id) && !ports.contains(id));
            assert_eq!(*short, expected);
        }
    }
    // A destination that NAT translates is a host of ours; a flow without NAT is no matter of it.
    let inward = state(
        tuple("198.51.100.1:4000", "192.0.2.1:443", 6),
        tuple("10.0.0.5:8443", "198.51.100.1:4000", 6),
    );
    let plain = tuple("10.0.0.5:4000", "10.0.0.6:443", 6);
    for state in [inward, state(plain, plain.reversed())] {
        let all = [flow(state, What::Began), flow(state, idle)];
        assert_eq!(decoded(&all), decoded_by(Exporter::new(7, CLOCK, false), &all));
    }
}

/// RFC 792, RFC 950, RFC 4443: a query has its identifier and no other port; answers have a type
/// of their own.
#[test]
fn icmp_has_the_types_that_were_seen_and_no_port_of_ours() {
    let idle = What::Ended(Why::Idle);
    for (is_v6, element, kinds) in
        [(false, 32, [[8, 0], [13, 14], [15, 16], [17, 18]]), (true, 139, [[128, 129]; 4])]
    {
        for [query, answer] in kinds {
            let protocol = if is_v6 { 58 } else { 1 };
            let mut state = translated(protocol, is_v6);
            state.icmp = Some((query, 0));
            for destinations in [true, false] {
                let exporter = Exporter::new(7, CLOCK, destinations);
                let records = decoded_by(exporter, &[flow(state, idle)]);
                let [.., there, back] = &records[..] else { panic!("{records:?}") };
                let types = [there, back].map(|record| number(record, element));
                assert_eq!(types, [query, answer].map(|kind| u64::from(kind) << 8));
                assert!(!there.contains_key(&7) && !back.contains_key(&11));
            }
        }
    }
    let mut query = translated(1, false);
    (query.icmp, query.original.dst_port, query.reply.src_port) = (Some((8, 0)), 4_001, 61_001);
    let session = &decoded(&[flow(query, What::Began)])[0];
    assert_eq!([7, 11, 227, 228].map(|id| number(session, id)), [4_000, 0, 61_000, 0]);
    // Nothing is known of the answers to a message that is no query.
    let mut other = translated(1, false);
    (other.icmp, other.packets) = (Some((9, 1)), [1, 1]);
    let records = decoded(&[flow(other, What::Lasts)]);
    assert_eq!(number(&records[0], 32), 0x0901);
    assert!(!records[1].contains_key(&32) && number(&records[1], 11) == 0);
}

/// RFC 7011 6.2-a: the registry's lengths of what is sent.
#[test]
fn elements_have_the_lengths_of_the_registry() {
    let lens = [
        (8, &[1, 2, 152, 153, 323][..]),
        (4, &[8, 10, 12, 14, 225, 226, 283, 466, 471, 472, 473]),
        (2, &[7, 11, 32, 139, 227, 228, 361, 362]),
        (1, &[4, 136, 230]),
        (16, &[27, 28, 281, 282]),
        (0xffff, &[82]),
    ];
    let registry: BTreeMap<u16, u16> =
        lens.iter().flat_map(|(len, ids)| ids.iter().map(|id| (*id, *len))).collect();
    let mut seen = BTreeMap::new();
    for destinations in [true, false] {
        for template in crate::template::Template::all(destinations) {
            seen.extend(template.elements().iter().map(|element| (element.id, element.len)));
        }
    }
    assert_eq!(seen, registry);
}

/// RFC 7011 6.1.6-b.
#[test]
fn a_name_is_cut_between_characters() {
    for (most, bytes) in [(1_400, 252), (Exporter::LEAST, 108)] {
        let mut exporter = exporter(most);
        exporter.templates();
        // Three bytes each.
        exporter.interfaces(&[Interface { port: 1, name: "\u{20ac}".repeat(100) }]);
        let named = collect(&mut exporter, &mut Collector::new(7));
        assert_eq!(named[0][&82], "\u{20ac}".repeat(bytes / 3).as_bytes());
    }
}

fn export_time(message: &crate::Message) -> u32 {
    u32::from_be_bytes(message.bytes[4..8].try_into().expect("four bytes"))
}

/// RFC 7011 5.1-a, 5.2-a, 8.2-b.
#[test]
fn the_export_time_is_when_a_message_is_taken_and_templates_are_never_newer() {
    let mut exporter = exporter(1_400);
    let at = |seconds: u64| Clock { now: AT, unix_ms: seconds * 1_000 };
    exporter.templates();
    exporter.event(&Event::Block(block(true)));
    exporter.finish();
    let first = exporter.next_message(&at(5_000)).expect("templates");
    assert!(first.has_templates && first.records == 0, "in a message of their own");
    assert_eq!(export_time(&first), 5_000);
    // It was not sent, and leaves later.
    exporter.put_back(first);
    let first = exporter.next_message(&at(5_001)).expect("templates");
    assert_eq!(export_time(&first), 5_001);
    let data = exporter.next_message(&at((1 << 32) + 6_000)).expect("data");
    assert_eq!((export_time(&data), data.records), (6_000, 1));
    // The clock is set back.
    exporter.event(&Event::Block(block(false)));
    exporter.finish();
    let again = exporter.next_message(&at(4_000)).expect("templates");
    let data = exporter.next_message(&at(4_000)).expect("data");
    assert!(again.has_templates && !data.has_templates);
    assert_eq!((export_time(&again), export_time(&data)), (4_000, 4_000));
    assert_eq!(data.bytes[8..12], [0, 0, 0, 1], "a record was before it");
    assert_eq!(exporter.next_message(&at(4_000)), None);
}

/// RFC 7011 3.1-b, 10.3.2: numbers are those of a session.
#[test]
fn what_is_lost_counts_and_another_session_begins_at_zero() {
    let mut exporter = exporter(1_400);
    let number_of = |exporter: &mut Exporter| {
        exporter.event(&Event::Block(block(true)));
        exporter.finish();
        exporter.next_message(&CLOCK).map(|message| message.bytes[8..12].to_vec())
    };
    assert_eq!(number_of(&mut exporter), Some(vec![0, 0, 0, 0]));
    exporter.event(&Event::Block(block(true)));
    exporter.finish();
    assert_eq!(exporter.drop_waiting(), 1);
    assert_eq!(number_of(&mut exporter), Some(vec![0, 0, 0, 2]));
    exporter.event(&Event::Block(block(true)));
    assert_eq!(exporter.restart(), 1);
    assert_eq!(number_of(&mut exporter), Some(vec![0, 0, 0, 0]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// RFC 7011 3.1-a, 3.1-b, 3.1-c, 3.3.1-a, 3.3.2-a, 3.3.2-b, 3.4.1-a, 3.4.1-b, 3.4.2-a,
    /// 6.1.6-b, 7-a, 8-a, 8.2-c, 8.4-d, 10.3.3-a, 10.3.3-b.
    #[test]
    fn every_event_is_read_as_it_was(
        all in proptest::collection::vec(events(), 0..60),
        most in proptest::option::of(0..1_600_usize),
        destinations in any::<bool>(),
        every in 1..20_usize,
        name in "\\PC{0,200}",
    ) {
        let mut exporter = Exporter::new(7, CLOCK, destinations);
        most.into_iter().for_each(|most| exporter.set_most(most));
        let most = most.map_or(512 - 48, |most| most.clamp(Exporter::LEAST, 65_507));
        let interfaces = [Interface { port: 0, name: name.clone() }];
        let mut collector = Collector::new(7);
        exporter.templates();
        exporter.interfaces(&interfaces);
        let mut expected: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (at, event) in all.iter().enumerate() {
            exporter.event(event);
            if at % every == 0 {
                exporter.templates();
                exporter.interfaces(&interfaces);
            }
            if let Event::Flow(event) = event && event.what != What::Began {
                for direction in [Direction::Original, Direction::Reply] {
                    let (packets, bytes) = event.new_counts(direction);
                    *expected.entry((packets, bytes)).or_default() += u64::from(packets > 0);
                }
            }
        }
        exporter.finish();
        let (mut found, mut sequence): (BTreeMap<(u64, u64), u64>, u32) = Default::default();
        while let Some(message) = exporter.next_message(&CLOCK) {
            prop_assert!(message.bytes.len() <= most);
            prop_assert_eq!(message.bytes[8..12].to_vec(), sequence.to_be_bytes().to_vec());
            sequence += message.records;
            for record in collector.message(&message.bytes) {
                if let Some(cut) = record.get(&82) {
                    let cut = core::str::from_utf8(cut).expect("UTF-8");
                    prop_assert!(name.starts_with(cut));
                    prop_assert!(cut == name || cut.len() + 4 > 254.min(most - 25));
                }
                if record.contains_key(&1) {
                    *found.entry((number(&record, 2), number(&record, 1))).or_default() += 1;
                }
            }
        }
        expected.retain(|_, count| *count > 0);
        prop_assert_eq!(found, expected);
    }
}
