//! Flow export: what an exporter hears of flows, of blocks of ports, and of flows that NAT refused.

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

/// RFC 8158 5.2-a.
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
    // Under attack there are so many a second, and the rest is counted.
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
