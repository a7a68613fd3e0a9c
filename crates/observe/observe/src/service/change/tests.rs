//! Tests of changes: each verb when the object exists and when it does not, and invalid requests.

use device::mem;
use stack::{PortConfig, StackConfig};

use super::*;

const PORT: PortId = PortId(0);

fn stack() -> Stack {
    stack_with(StackConfig::new([1, 2]))
}

fn stack_with(config: StackConfig) -> Stack {
    let mut stack = Stack::new(config);
    let (device, _) = mem::pair(&mem::Config::default());
    let addresses = vec!["192.0.2.1/24".parse().expect("a network")];
    stack.add_port(
        Box::new(device),
        PortConfig { mac: MacAddr([2; 6]), addresses, ..PortConfig::default() },
    );
    stack
}

fn done(stack: &mut Stack, verb: Verb, of: Object) -> Result<(), Refusal> {
    let answer = answer(stack, &Users::default(), &[Change { verb, of }]);
    answer.error.map_or(Ok(()), |_| Err(answer.refusal))
}

fn spec(to: &str, via: Option<&str>, metric: u32) -> RouteSpec {
    let via = via.map(|via| via.parse().expect("an address"));
    let hops = vec![Hop { via, port: via.is_none().then_some(0), weight: None }];
    RouteSpec { to: to.to_owned(), table: 254, hops, metric: Some(metric), ..RouteSpec::default() }
}

#[test]
fn routes_follow_the_verbs_of_ip() {
    let mut stack = stack();
    let mut route = |verb, spec: &RouteSpec| done(&mut stack, verb, Object::Route(spec.clone()));
    let first = spec("10.0.0.0/8", Some("192.0.2.2"), 5);
    assert_eq!(route(Verb::Change, &first), Err(Refusal::Missing));
    assert_eq!(route(Verb::Del, &first), Err(Refusal::Missing));
    assert_eq!(route(Verb::Add, &first), Ok(()));
    assert_eq!(route(Verb::Add, &first), Err(Refusal::Exists));
    // The stack would replace the first route.
    let worse = spec("10.0.0.0/8", Some("192.0.2.2"), 6);
    assert_eq!(route(Verb::Add, &worse), Err(Refusal::Exists));
    let second = spec("10.0.0.0/8", Some("192.0.2.3"), 5);
    assert_eq!(route(Verb::Replace, &second), Ok(()));
    assert_eq!(route(Verb::Change, &second), Ok(()));
    // Linux deletes by the fields that are given.
    assert_eq!(route(Verb::Del, &first), Err(Refusal::Missing));
    let any = RouteSpec { to: "10.0.0.0/8".to_owned(), table: 254, ..RouteSpec::default() };
    assert_eq!(route(Verb::Del, &any), Ok(()));
    assert_eq!(stack.routes_to("10.0.0.0/8".parse().expect("a prefix"), 254), []);
}

#[test]
fn routes_that_drop_packets_have_a_type_and_no_next_hop() {
    let mut stack = stack();
    let of = |name: &str| RouteSpec {
        discard: Some(name.to_owned()),
        hops: Vec::new(),
        ..spec("10.0.0.0/8", None, 0)
    };
    let mut route = |verb, spec: RouteSpec| done(&mut stack, verb, Object::Route(spec));
    assert_eq!(route(Verb::Add, of("throw")), Err(Refusal::Wrong));
    let hops = spec("10.0.0.0/8", Some("192.0.2.2"), 0).hops;
    assert_eq!(route(Verb::Add, RouteSpec { hops, ..of("blackhole") }), Err(Refusal::Wrong));
    assert_eq!(route(Verb::Add, of("blackhole")), Ok(()));
    assert_eq!(route(Verb::Add, of("prohibit")), Err(Refusal::Exists));
    assert_eq!(route(Verb::Replace, of("prohibit")), Ok(()));
    assert_eq!(route(Verb::Del, of("blackhole")), Err(Refusal::Missing));
    assert_eq!(route(Verb::Del, of("prohibit")), Ok(()));
}

/// Only the daemon removes its routes, and a command's route may stand beside them.
#[test]
fn routes_of_a_daemon_are_its_own() {
    let mut stack = stack();
    let to: Cidr = "10.0.0.0/8".parse().expect("a prefix");
    let via = "192.0.2.2".parse().ok();
    let theirs = Route::new(to, via, PORT.0).with_origin(stack::RouteOrigin::Fpm);
    assert!(stack.add_route(theirs.clone()));
    let ours = spec("10.0.0.0/8", Some("192.0.2.2"), 0);
    let any = RouteSpec { to: to.to_string(), table: 254, ..RouteSpec::default() };
    let mut route = |verb, spec: &RouteSpec| done(&mut stack, verb, Object::Route(spec.clone()));
    assert_eq!(route(Verb::Del, &any), Err(Refusal::Wrong));
    assert_eq!(route(Verb::Add, &ours), Ok(()));
    assert_eq!(route(Verb::Del, &any), Ok(()));
    assert_eq!(route(Verb::Del, &ours), Err(Refusal::Wrong));
    assert_eq!(stack.routes_to(to, 254), [theirs]);
}

#[test]
fn several_next_hops_are_one_route() {
    let mut stack = stack();
    let hop = |via: &str, weight| Hop {
        via: Some(via.parse().expect("an address")),
        port: None,
        weight: Some(weight),
    };
    let hops = vec![hop("192.0.2.2", 2), hop("192.0.2.3", 1)];
    let shared = RouteSpec { hops, ..spec("10.0.0.0/8", None, 0) };
    assert_eq!(done(&mut stack, Verb::Add, Object::Route(shared)), Ok(()));
    let dest = "10.0.0.0/8".parse().expect("a prefix");
    assert_eq!(stack.routes_to(dest, 254).len(), 2);
    let alone = spec("10.0.0.0/8", Some("192.0.2.9"), 0);
    assert_eq!(done(&mut stack, Verb::Replace, Object::Route(alone)), Ok(()));
    assert_eq!(stack.routes_to(dest, 254).len(), 1, "other routes of the same network remain");
}

#[test]
fn routes_that_cannot_be_are_refused_and_change_nothing() {
    let mut stack = stack();
    let before = stack.snapshot().routes;
    for wrong in [
        spec("10.0.0.1/8", Some("192.0.2.2"), 0),
        spec("10.0.0.0/33", Some("192.0.2.2"), 0),
        spec("nonsense", Some("192.0.2.2"), 0),
        spec("10.0.0.0/8", Some("203.0.113.1"), 0),
        spec("10.0.0.0/8", Some("fe80::1"), 0),
        spec("127.0.0.0/8", Some("192.0.2.2"), 0),
        spec("0.0.0.0/8", Some("192.0.2.2"), 0),
        spec("10.0.0.0/8", Some("0.0.0.0"), 0),
        RouteSpec { hops: Vec::new(), ..spec("10.0.0.0/8", None, 0) },
        RouteSpec { hops: vec![Hop::default()], ..spec("10.0.0.0/8", None, 0) },
        RouteSpec { hops: vec![Hop::default(); 65], ..spec("10.0.0.0/8", None, 0) },
        RouteSpec { table: 0, ..spec("10.0.0.0/8", None, 0) },
        RouteSpec { mtu: Some(67), ..spec("10.0.0.0/8", None, 0) },
        RouteSpec { mtu: Some(1279), ..spec("2001:db8::/32", None, 0) },
    ] {
        for verb in [Verb::Add, Verb::Replace] {
            let refused = done(&mut stack, verb, Object::Route(wrong.clone()));
            assert_eq!(refused, Err(Refusal::Wrong), "{wrong:?}");
        }
    }
    let elsewhere = vec![Hop { port: Some(9), ..Hop::default() }];
    let elsewhere = RouteSpec { hops: elsewhere, ..spec("10.0.0.0/8", None, 0) };
    assert_eq!(done(&mut stack, Verb::Add, Object::Route(elsewhere)), Err(Refusal::Missing));
    assert_eq!(stack.snapshot().routes, before);
    let many =
        vec![Change { verb: Verb::Add, of: Object::Route(spec("10.0.0.0/8", None, 0)) }; 501];
    assert!(answer(&mut stack, &Users::default(), &many).error.is_some());
    assert_eq!(stack.snapshot().routes, before);
}

#[test]
fn a_full_table_takes_no_part_of_a_route() {
    let mut budget = base::Budget::default();
    budget.set(base::Limit::Routes, 2);
    let mut stack = stack_with(StackConfig { budget, ..StackConfig::new([1, 2]) });
    let hop = |last: u8| Hop { via: Some([192, 0, 2, last].into()), port: None, weight: Some(1) };
    let shared = RouteSpec { hops: vec![hop(2), hop(3)], ..spec("10.0.0.0/8", None, 0) };
    assert_eq!(done(&mut stack, Verb::Add, Object::Route(shared)), Err(Refusal::Full));
    assert_eq!(stack.snapshot().routes, 1);
}

#[test]
fn neighbours_follow_the_verbs_of_ip() {
    let mut stack = stack();
    let mut neighbour = |verb, mac: Option<&str>| {
        let (ip, mac) = ("192.0.2.2".parse().expect("an address"), mac.map(str::to_owned));
        done(&mut stack, verb, Object::Neighbour { port: 0, ip, mac })
    };
    let mac = Some("02:00:00:00:00:02");
    assert_eq!(neighbour(Verb::Change, mac), Err(Refusal::Missing));
    assert_eq!(neighbour(Verb::Del, None), Err(Refusal::Missing));
    for wrong in [None, Some("ff:ff:ff:ff:ff:ff"), Some("2"), Some("02:00:00:00:00:+2"), Some("")] {
        assert_eq!(neighbour(Verb::Add, wrong), Err(Refusal::Wrong), "{wrong:?}");
    }
    assert_eq!(neighbour(Verb::Add, mac), Ok(()));
    assert_eq!(neighbour(Verb::Add, mac), Err(Refusal::Exists));
    assert_eq!(neighbour(Verb::Replace, Some("2:0:0:0:0:3")), Ok(()));
    assert_eq!(neighbour(Verb::Del, None), Ok(()));
    assert_eq!(stack.neighbour_state(PORT, "192.0.2.2".parse().expect("an address")), None);
}

#[test]
fn addresses_follow_the_verbs_of_ip() {
    let mut stack = stack();
    let mut address = |verb, cidr: &str, valid_s, preferred_s| {
        let cidr = cidr.to_owned();
        let of = Object::Address { port: 0, cidr, valid_s, preferred_s, nodad: true };
        done(&mut stack, verb, of)
    };
    assert_eq!(address(Verb::Add, "192.0.2.1/24", None, None), Err(Refusal::Exists));
    assert_eq!(address(Verb::Del, "192.0.2.1/25", None, None), Err(Refusal::Missing));
    assert_eq!(address(Verb::Add, "224.0.0.1/24", None, None), Err(Refusal::Wrong));
    assert_eq!(address(Verb::Add, "198.51.100.1/24", Some(5), Some(6)), Err(Refusal::Wrong));
    assert_eq!(address(Verb::Add, "198.51.100.1/24", Some(u64::MAX), Some(0)), Ok(()));
    assert_eq!(address(Verb::Add, "2001:db8::1/64", None, None), Ok(()));
    assert_eq!(address(Verb::Del, "192.0.2.1/24", None, None), Ok(()));
    let states: Vec<_> = stack.addresses(PORT).iter().map(|a| a.state).collect();
    assert_eq!(states, [AddressState::Deprecated, AddressState::Preferred]);
}
