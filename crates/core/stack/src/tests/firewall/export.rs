//! Flow export: what an exporter is told about flows, about blocks of ports, and about flows that
//! NAT refused.

use base::{Duration, Limit};
use filter::firewall::{Event, Shortage};
use filter::states::What;

use super::*;

const ACTIVE: Duration = Duration::from_secs(10);

fn exporting(nat: &str) -> Router {
    let mut router = router("pass in lan out wan", nat);
    export(&mut router, Some(ACTIVE));
    router
}

fn export(router: &mut Router, active: Option<Duration>) {
    let (budget, now) = (router.stack.budget().clone(), router.stack.now());
    let firewall = router.stack.filter_mut().expect("rules are set");
    firewall.export(active, &budget, now);
}

fn events(router: &mut Router) -> Vec<Event> {
    let now = router.stack.now();
    let mut all = Vec::new();
    let firewall = router.stack.filter_mut().expect("rules are set");
    while firewall.take_events(2, now, |event| all.push(event)) {}
    all
}

#[test]
fn a_session_begins_and_nothing_is_queued_for_nobody() {
    let mut router = router("pass in lan out wan", "source out wan from 192.0.2.0/24 to port");
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    assert_eq!(events(&mut router), []);
    export(&mut router, Some(ACTIVE));
    for port in 40_001..40_004 {
        one(cross(&mut router, 0, &udp((A, port), THERE)), 1);
    }
    let all = events(&mut router);
    assert_eq!(all.len(), 3, "{all:?}");
    for (event, port) in all.iter().zip(40_001..) {
        let Event::Flow(event) = event else { panic!("{event:?}") };
        assert_eq!((event.what, event.state.original.src_port), (What::Began, port));
        assert_eq!(event.state.reply.dst, ip(WAN));
    }
    export(&mut router, None);
    one(cross(&mut router, 0, &udp((A, 40_009), THERE)), 1);
    assert_eq!(events(&mut router), []);
}

/// RFC 8158 5.2-a, RFC 6888 REQ-11C.
#[test]
fn a_port_too_few_is_an_event_with_its_address() {
    let nat = "source out wan from 192.0.2.0/24 to port ports 2000-2000";
    let mut router = exporting(nat);
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    assert_eq!(cross(&mut router, 0, &udp((A, 40_001), THERE))[1].len(), 0);
    let all = events(&mut router);
    let [Event::Flow(_), Event::Refused(refused)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((refused.why, refused.rule), (Shortage::Ports(Some(ip(WAN))), 1));
    assert_eq!(refused.tuple.src_port, 40_001);
    // During an attack there are that many in a second: the events beyond a limit are only counted.
    for port in 1..301 {
        cross(&mut router, 0, &udp((A, port), THERE));
    }
    assert_eq!(events(&mut router).len(), 99);
    assert_eq!(router.stack.filter().map(filter::Firewall::events_lost), Some(201));
    router.stack.poll(router.stack.now());
    assert!(router.stack.budget().hits(Limit::FilterEvents) > 0);
}

#[test]
fn a_block_of_ports_is_an_event() {
    let mut router = exporting("source out wan from 192.0.2.0/24 to port block 64");
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    let all = events(&mut router);
    let [Event::Flow(_), Event::Block(block)] = &all[..] else { panic!("{all:?}") };
    assert!(block.is_allocation);
    assert_eq!((block.inside, block.outside), (ip(A), ip(WAN)));
    assert_eq!(block.ports.1 - block.ports.0, 63);
}

/// RFC 8158 4.6.7-c, 4.6.7-d.
#[test]
fn a_source_with_too_many_flows_is_an_event_with_the_limit_that_it_has_reached() {
    const NAT: &str = "source out wan from 192.0.2.0/24 to port";
    let refused = |router: &mut Router| -> Vec<Shortage> {
        let all = events(router);
        let refused = all.iter().filter_map(|event| match event {
            Event::Refused(flow) => Some((flow.why, flow.tuple.src)),
            _ => None,
        });
        refused.inspect(|(_, source)| assert_eq!(*source, ip(A))).map(|(why, _)| why).collect()
    };
    let mut by_rule = super::router("pass in lan out wan states 1 per source", NAT);
    export(&mut by_rule, Some(ACTIVE));
    for port in 40_001..40_004 {
        cross(&mut by_rule, 0, &udp((A, port), THERE));
    }
    assert_eq!(refused(&mut by_rule), [Shortage::StatesOfSource(1); 2]);
    by_rule.stack.core.cx.budget.set(Limit::FilterStatesPerSource, 1);
    cross(&mut by_rule, 0, &udp((A, 40_004), THERE));
    assert_eq!(refused(&mut by_rule), [Shortage::StatesOfSource(1)]);

    let mut of_all = exporting(NAT);
    of_all.stack.core.cx.budget.set(Limit::FilterStatesPerSource, 2);
    for port in 40_001..40_004 {
        cross(&mut of_all, 0, &udp((A, port), THERE));
    }
    assert_eq!(refused(&mut of_all), [Shortage::StatesOfSource(2)]);

    // Without NAT it is no event of NAT.
    let mut plain = exporting("");
    plain.stack.core.cx.budget.set(Limit::FilterStatesPerSource, 1);
    for port in 40_001..40_004 {
        cross(&mut plain, 0, &udp((A, port), THERE));
    }
    assert_eq!(refused(&mut plain), []);
}

/// RFC 792, RFC 950: a flow begins with an echo request, a timestamp request, or another query.
#[test]
fn a_flow_of_icmp_says_how_it_began() {
    let mut router = exporting("source out wan from 192.0.2.0/24 to port");
    for (id, kind) in [(1, 8), (2, 13), (3, 17)] {
        one(cross(&mut router, 0, &packets::echo(kind, A, B, id)), 1);
    }
    one(cross(&mut router, 0, &udp(HERE, THERE)), 1);
    let icmp = |event: &Event| match event {
        Event::Flow(event) => event.state.icmp,
        other => panic!("{other:?}"),
    };
    let all: Vec<_> = events(&mut router).iter().map(icmp).collect();
    assert_eq!(all, [Some((8, 0)), Some((13, 0)), Some((17, 0)), None]);
}
