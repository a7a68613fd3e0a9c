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
    let mut exporter = Exporter::new(7, CLOCK);
    exporter.set_most(most);
    exporter
}

/// The records of all messages.
fn collect(exporter: &mut Exporter, collector: &mut Collector) -> Vec<Record> {
    exporter.finish();
    let mut all = Vec::new();
    while let Some(message) = exporter.next_message() {
        let records = collector.message(&message.bytes);
        assert_eq!(records.len(), message.records as usize);
        all.extend(records);
    }
    all
}

fn decoded(all: &[Event]) -> Vec<Record> {
    let mut exporter = exporter(1_400);
    exporter.templates(&[]);
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
        assert_eq!(number(session, 323), CLOCK.unix_ms);
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

/// RFC 8158 4.6.5-a, 4.6.6-a, 4.6.7-d, 4.6.10-a.
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
    ]);
    let events: Vec<u64> = records.iter().map(|record| number(record, 230)).collect();
    assert_eq!(events, [16, 17, 13, 13, 13, 12, 3, 3]);
    assert_eq!((number(&records[0], 361), number(&records[0], 362)), (1_024, 1_535));
    let quotas = [(2, 1, 471, 100), (3, 2, 472, 200), (4, 3, 473, 300)];
    for (at, quota, limit, most) in quotas {
        assert_eq!((number(&records[at], 466), number(&records[at], limit)), (quota, most));
    }
    assert_eq!(records[4][&8], [10, 0, 0, 5]);
    assert_eq!(records[5][&225], [192, 0, 2, 1]);
    assert_eq!(number(&records[7], 283), 3);
}

/// RFC 7011 6.1.6-a, 7-c, 8-c, 8.4-a.
#[test]
fn templates_come_again_and_records_need_them() {
    let mut exporter = exporter(1_400);
    let interfaces = [Interface { port: 1, name: "wan".to_owned() }];
    exporter.templates(&interfaces);
    let named = collect(&mut exporter, &mut Collector::new(7));
    assert_eq!((number(&named[0], 10), named[0][&82].as_slice()), (2, &b"wan"[..]));
    exporter.event(&Event::Block(block(true)));
    // A collector that began later cannot read it, until templates come again.
    let mut late = Collector::new(7);
    exporter.finish();
    let message = exporter.next_message().expect("a message");
    assert_eq!(late.unknown(&message.bytes), 1);
    exporter.templates(&interfaces);
    exporter.event(&Event::Block(block(true)));
    assert_eq!(collect(&mut exporter, &mut late).len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// RFC 7011 3.1-a, 3.1-b, 3.1-c, 3.3.1-a, 3.3.2-a, 3.3.2-b, 3.4.1-a, 3.4.1-b, 3.4.2-a, 7-a,
    /// 8-a, 8.2-c, 8.4-d, 10.3.3-a, 10.3.3-b.
    #[test]
    fn every_event_is_read_as_it_was(
        all in proptest::collection::vec(events(), 0..60),
        most in 0..1_600_usize,
        every in 1..20_usize,
        name in "\\PC{0,200}",
    ) {
        let mut exporter = exporter(most);
        let interfaces = [Interface { port: 0, name }];
        let mut collector = Collector::new(7);
        let most = most.clamp(Exporter::MOST_UNKNOWN, 65_507);
        exporter.templates(&interfaces);
        let mut expected: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (at, event) in all.iter().enumerate() {
            exporter.event(event);
            if at % every == 0 {
                exporter.templates(&interfaces);
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
        while let Some(message) = exporter.next_message() {
            prop_assert!(message.bytes.len() <= most);
            prop_assert_eq!(message.bytes[8..12].to_vec(), sequence.to_be_bytes().to_vec());
            sequence += message.records;
            for record in collector.message(&message.bytes) {
                if record.contains_key(&1) {
                    *found.entry((number(&record, 2), number(&record, 1))).or_default() += 1;
                }
            }
        }
        expected.retain(|_, count| *count > 0);
        prop_assert_eq!(found, expected);
    }
}
