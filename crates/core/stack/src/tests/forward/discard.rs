//! Routes that drop their packets: what the source gets, and what is counted.

use super::*;
use base::Cidr;
use inet::Route;
use inet::route::Discard;

const FAR: &str = "203.0.113.5";
const FAR6: &str = "2001:db8:9::5";

/// A router that drops the packets to both networks.
fn router(how: Discard, in_bursts: bool) -> Router {
    let mut router = Router::new(1_500);
    router.stack.set_switch(base::Switch::ForwardBurst, in_bursts);
    for network in ["203.0.113.0/24", "2001:db8:9::/48"] {
        let dest = network.parse().expect("a network");
        assert!(router.stack.add_route(Route::discarding(dest, how)));
    }
    router
}

#[test]
fn each_type_reports_what_linux_does_and_is_counted() {
    let (net, host) = (Some(Unreachable::Net), Some(Unreachable::Host));
    let prohibited = Some(Unreachable::Prohibited);
    for in_bursts in [true, false] {
        for (how, of_v4, of_v6, reason) in [
            (Discard::Blackhole, None, None, DropReason::IpBlackhole),
            (Discard::Unreachable, host, net, DropReason::IpUnreachable),
            (Discard::Prohibit, prohibited, prohibited, DropReason::IpProhibit),
        ] {
            for (dst, src, ours, wanted) in
                [(FAR, A, "192.0.2.1", of_v4), (FAR6, A6, "2001:db8:1::1", of_v6)]
            {
                let mut router = router(how, in_bursts);
                let [back, on] = router.exchange(&frame(src, dst, 9, b"packet"));
                assert!(on.is_empty(), "{how:?} {dst}");
                let reported = back.first().map(|frame| error(frame, ours, src));
                assert_eq!(reported, wanted.map(ErrorKind::Unreachable), "{how:?} {dst}");
                assert_eq!(router.drops(reason), 1, "{how:?} {dst}");
            }
        }
    }
}

#[test]
fn a_longer_prefix_leads_on_and_a_better_metric_takes_its_place() {
    for in_bursts in [true, false] {
        let mut router = router(Discard::Blackhole, in_bursts);
        let host = Cidr::host(ip(FAR));
        router.stack.add_route(Route::new(host, Some(ip(B)), 1));
        let frames: Vec<_> = [FAR, "203.0.113.6"].map(|dst| frame(A, dst, 9, b"x")).to_vec();
        for round in 1..4 {
            let [back, on] = router.exchange_burst(0, &frames, NOW);
            assert_eq!((back.len(), on.len()), (0, 1));
            assert_eq!(router.drops(DropReason::IpBlackhole), round);
        }
        let worse = Route { metric: 9, ..Route::new(Cidr::host(ip(FAR6)), Some(ip(B6)), 1) };
        router.stack.add_route(worse);
        let dropping = Route::discarding(Cidr::host(ip(FAR6)), Discard::Prohibit);
        router.stack.add_route(Route { metric: 5, ..dropping.clone() });
        let [_, on] = router.exchange(&frame(A6, FAR6, 9, b"x"));
        assert_eq!((on.len(), router.drops(DropReason::IpProhibit)), (0, 1));
        router.stack.remove_one_route(&dropping);
        let [_, on] = router.exchange(&frame(A6, FAR6, 9, b"x"));
        assert_eq!(on.len(), 1);
    }
}
