//! Forwarded packets belong to no user, and skip routes that are marked "no forward".

use base::{Cidr, DropReason};
use inet::icmp::{ErrorKind, Unreachable};
use inet::route::Action;
use inet::{Route, Rule};

use super::super::forward::{A, Router, error, frame, ip};
use super::{exclude, include};
use crate::PortId;

const FAR: &str = "203.0.113.9";

fn routed(change: impl Fn(Route) -> Route) -> Router {
    let mut router = Router::new(1500);
    let dest: Cidr = "203.0.113.0/24".parse().expect("a network");
    let route = Route::new(dest, Some(ip("198.51.100.9")), PortId(1).0);
    assert!(router.stack.add_route(change(route)));
    router
}

/// Sends a packet through the router; if it does not pass, returns the error that its source got.
fn sent(router: &mut Router) -> Result<(), Option<ErrorKind>> {
    let [back, on] = router.exchange(&frame(A, FAR, 9, b"packet"));
    match (back.as_slice(), on.len()) {
        ([], 1) => Ok(()),
        ([], 0) => Err(None),
        ([told], 0) => Err(Some(error(told, "192.0.2.1", A))),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_forward_and_lists_of_those_who_are_in_leave_forwarded_packets_out() {
    let no_route = Err(Some(ErrorKind::Unreachable(Unreachable::Net)));
    assert_eq!(sent(&mut routed(|route| route)), Ok(()));
    assert_eq!(sent(&mut routed(|route| Route { no_forward: true, ..route })), no_route);
    assert_eq!(sent(&mut routed(|route| Route { access: include(), ..route })), no_route);
    assert_eq!(sent(&mut routed(|route| Route { access: exclude(), ..route })), Ok(()));
    // Without an admitted route, the next shorter prefix is used.
    let mut router = routed(|route| Route { no_forward: true, ..route });
    let any: Cidr = "0.0.0.0/0".parse().expect("a network");
    router.stack.add_route(Route::new(any, Some(ip("198.51.100.9")), 1));
    for _ in 0..3 {
        assert_eq!(sent(&mut router), Ok(()));
    }
}

#[test]
fn rules_decide_about_forwarded_packets_by_source_and_port() {
    let mut router = routed(|route| route);
    assert_eq!(sent(&mut router), Ok(()));
    let rule = |action| Rule {
        in_port: Some(0),
        from: Some("192.0.2.0/24".parse().expect("a network")),
        ..Rule::new(10, action)
    };
    let told = |why| Err(Some(ErrorKind::Unreachable(why)));
    for (action, expected, reason) in [
        (Action::Blackhole, Err(None), DropReason::IpBlackhole),
        (Action::Prohibit, told(Unreachable::Prohibited), DropReason::IpProhibit),
        (Action::Unreachable, told(Unreachable::Host), DropReason::IpUnreachable),
    ] {
        router.stack.add_rule(rule(action)).expect("new");
        assert_eq!(sent(&mut router), expected);
        assert_eq!(router.drops(reason), 1);
        assert!(router.stack.remove_rule(&rule(action)));
        assert_eq!(sent(&mut router), Ok(()));
    }
    let other = Rule { in_port: Some(1), ..rule(Action::Blackhole) };
    router.stack.add_rule(other).expect("new");
    assert_eq!(sent(&mut router), Ok(()), "a packet by another port did not pass");
}
