//! Filter and NAT where the WAN's gateway has an IPv6 address. RFC 8950.

use core::net::Ipv6Addr;

use base::Counter;
use inet::Route;

use super::*;

const FAR: (&str, u16) = ("203.0.113.5", 443);

/// Flows are filtered and translated as by any other gateway, in bursts too.
#[test]
fn flows_are_translated_on_their_way_to_it() {
    let gateway = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 5);
    for in_bursts in [true, false] {
        let nat = "source out wan from 192.0.2.0/24 to port";
        let mut router = router("pass in lan out wan", nat);
        router.stack.set_switch(Switch::ForwardBurst, in_bursts);
        let dest = "203.0.113.0/24".parse().expect("a network");
        assert!(router.stack.add_route(Route::new(dest, Some(gateway.into()), 1)));
        assert!(router.stack.add_neighbour(PortId(1), gateway.into(), HOSTS[1]));
        for _ in 0..4 {
            let sent = one(cross(&mut router, 0, &udp(HERE, FAR)), 1);
            let [from, to] = ends(&sent);
            assert_eq!((from.0.as_str(), to), (WAN, (FAR.0.to_owned(), FAR.1)));
            let back = one(cross(&mut router, 1, &udp(FAR, (WAN, from.1))), 0);
            assert_eq!(ends(&back)[1], (HERE.0.to_owned(), HERE.1));
        }
        let stranger = cross(&mut router, 1, &udp(("203.0.113.6", 443), HERE));
        assert_eq!(stranger, [vec![], vec![]] as [Vec<Vec<u8>>; 2]);
        assert_eq!(router.drops(DropReason::FilterRule), 1);
        let fast = router.stack.counters().of(Counter::ForwardedInBursts);
        assert_eq!(fast > 4, in_bursts, "{fast} in bursts");
    }
}
