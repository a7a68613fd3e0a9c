//! Frames as zebra writes them, a recording of zebra, and bytes of any kind.

mod craft;
mod hostile;
mod kernel;
mod recording;

use super::*;
use craft::{Attributes, delete_nexthop, delete_route, frame, group, nexthop, route};

/// The changes of a connection that sends these bytes.
pub(super) fn changes(fpm: &mut Fpm, bytes: &[u8]) -> Vec<Change> {
    let mut all = Vec::new();
    fpm.receive(bytes, &mut |change| all.push(change)).expect("the bytes keep to the protocol");
    all
}

fn key(prefix: &str) -> Key {
    Key { table: 254, prefix: prefix.parse().expect("a prefix") }
}

fn hop(gateway: &str, interface: u32) -> Hop {
    Hop { interface, gateway: Some(gateway.parse().expect("an address")), weight: 1 }
}

fn replaced(prefix: &str, next_hops: NextHops) -> Change {
    Change::Replace { key: key(prefix), next_hops, metric: 20, protocol: 196 }
}

fn inline(hops: Vec<Hop>) -> NextHops {
    NextHops::Inline(Reachable::Hops(hops))
}

#[test]
fn an_inline_gateway_and_interface_are_the_next_hop() {
    let attributes = Attributes::default().word(6, 20).gateway("192.0.2.2").word(4, 7);
    let bytes = frame(&[route("10.1.0.0/16", 196, 1, attributes)]);
    let got = changes(&mut Fpm::default(), &bytes);
    assert_eq!(got, [replaced("10.1.0.0/16", inline(vec![hop("192.0.2.2", 7)]))]);
}

#[test]
fn ipv4_by_a_gateway_of_ipv6_is_understood_in_all_three_places() {
    let six = hop("fe80::5", 7);
    let via = Attributes::default().word(6, 20).via("fe80::5").word(4, 7);
    let path = Attributes::default().via("fe80::5");
    let several = Attributes::default().word(6, 20).paths(&[(7, 0, path)]);
    let by_id = Attributes::default().word(6, 20).word(30, 9);
    let bytes = frame(&[
        route("10.1.0.0/16", 196, 1, via),
        route("10.2.0.0/16", 196, 1, several),
        nexthop(9, Attributes::default().nh_gateway("fe80::5").word(5, 7)),
        route("10.3.0.0/16", 196, 1, by_id),
    ]);
    let got = changes(&mut Fpm::default(), &bytes);
    let reachable = Reachable::Hops(vec![six]);
    assert_eq!(
        got,
        [
            Change::NextHops { id: 9, to: Some(reachable.clone()) },
            replaced("10.1.0.0/16", NextHops::Inline(reachable.clone())),
            replaced("10.2.0.0/16", NextHops::Inline(reachable)),
            replaced("10.3.0.0/16", NextHops::Id(9)),
        ]
    );
}

#[test]
fn a_group_may_come_before_its_members() {
    let mut fpm = Fpm::default();
    let one = |id, ip| frame(&[nexthop(id, Attributes::default().nh_gateway(ip).word(5, 7))]);
    let got = changes(&mut fpm, &frame(&[group(15, &[(11, 0), (16, 2)])]));
    assert_eq!(got, [Change::NextHops { id: 15, to: Some(Reachable::Hops(vec![])) }]);
    changes(&mut fpm, &one(11, "192.0.2.2"));
    let got = changes(&mut fpm, &one(16, "192.0.2.3"));
    let second = Hop { weight: 3, ..hop("192.0.2.3", 7) };
    let both = Reachable::Hops(vec![hop("192.0.2.2", 7), second]);
    assert!(got.contains(&Change::NextHops { id: 15, to: Some(both.clone()) }), "{got:?}");
    assert_eq!(fpm.next_hops(15), Some(both));
    let got = changes(&mut fpm, &frame(&[delete_nexthop(11)]));
    let left = Some(Reachable::Hops(vec![second]));
    assert!(got.contains(&Change::NextHops { id: 15, to: left }), "{got:?}");
    assert!(got.contains(&Change::NextHops { id: 11, to: None }), "{got:?}");
}

#[test]
fn a_deletion_and_an_addition_in_a_frame_are_one_replacement() {
    let attributes = || Attributes::default().word(6, 20).gateway("192.0.2.2").word(4, 7);
    let pair = [
        delete_route("10.1.0.0/16", 189, Attributes::default()),
        route("10.1.0.0/16", 196, 1, attributes()),
    ];
    let got = changes(&mut Fpm::default(), &frame(&pair));
    assert_eq!(got, [replaced("10.1.0.0/16", inline(vec![hop("192.0.2.2", 7)]))]);
    let [delete, add] = pair;
    let got = changes(&mut Fpm::default(), &frame(&[add, delete]));
    assert_eq!(got, [Change::Delete { key: key("10.1.0.0/16") }]);
}

#[test]
fn tables_come_from_the_attribute_and_zero_is_the_main_one() {
    let in_table = |table| {
        let attributes = Attributes::default().word(15, table).word(4, 1);
        changes(&mut Fpm::default(), &frame(&[delete_route("10.0.0.0/8", 196, attributes)]))
    };
    let deleted = |table| [Change::Delete { key: Key { table, ..key("10.0.0.0/8") } }];
    assert_eq!(in_table(70_000), deleted(70_000));
    assert_eq!(in_table(0), deleted(254));
}

#[test]
fn routes_that_drop_packets_have_no_next_hop() {
    for (kind, discard) in
        [(6, Discard::Blackhole), (7, Discard::Unreachable), (8, Discard::Prohibit)]
    {
        let attributes = Attributes::default().word(6, 20);
        let bytes = frame(&[route("10.3.0.0/16", 196, kind, attributes)]);
        let got = changes(&mut Fpm::default(), &bytes);
        let discards = NextHops::Inline(Reachable::Discard(discard));
        assert_eq!(got, [replaced("10.3.0.0/16", discards)]);
    }
}

#[test]
fn routes_of_the_kernel_are_counted_and_end_the_one_in_force() {
    let mut fpm = Fpm::default();
    let attributes = Attributes::default().word(4, 7);
    let got = changes(&mut fpm, &frame(&[route("192.0.2.0/24", 2, 1, attributes)]));
    assert_eq!(got, [Change::Delete { key: key("192.0.2.0/24") }]);
    assert_eq!(fpm.counts().kernel_routes, 1);
}

#[test]
fn encapsulations_are_refused_by_name() {
    let mut fpm = Fpm::default();
    for number in 1..=10 {
        let attributes = Attributes::default().gateway("192.0.2.2").half(21, number).raw(22, &[1]);
        let got = changes(&mut fpm, &frame(&[route("10.0.0.0/8", 186, 1, attributes)]));
        assert_eq!(got, [Change::Delete { key: key("10.0.0.0/8") }]);
    }
    assert_eq!(fpm.counts().encapsulated[..10], [1; 10]);
    let labelled = Attributes::default().nh_gateway("192.0.2.2").half(7, 1).raw(8, &[0; 4]);
    let got = changes(&mut fpm, &frame(&[nexthop(5, labelled)]));
    assert_eq!(got, [Change::NextHops { id: 5, to: Some(Reachable::Hops(vec![])) }]);
    assert_eq!(fpm.counts().encapsulated[0], 2);
}

#[test]
fn a_sweep_forgets_what_the_last_connection_did_not_send_again() {
    let mut fpm = Fpm::default();
    let one = |id| frame(&[nexthop(id, Attributes::default().nh_gateway("192.0.2.2").word(5, 7))]);
    fpm.begin();
    changes(&mut fpm, &one(1));
    changes(&mut fpm, &one(2));
    fpm.begin();
    changes(&mut fpm, &one(2));
    let mut swept = Vec::new();
    assert_eq!(fpm.sweep(&mut |change| swept.push(change)), 1);
    assert_eq!(swept, [Change::NextHops { id: 1, to: None }]);
    assert_eq!(fpm.nexthops(), 1);
}
