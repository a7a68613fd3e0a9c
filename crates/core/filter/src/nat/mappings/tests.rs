//! Mappings by the requirements of RFC 4787, 5382, 5508 and 6888.

use std::collections::BTreeSet;

use base::{Cidr, Duration, Instant};
use wire::protocol::{ICMP, TCP, UDP};

use super::super::pool::{Filtering, HOLD, PORTS, PoolId, Sockets};
use super::*;
use crate::Tuple;
use crate::packet::query_dst_port;

mod model;

fn addr(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Inside host number `host`.
fn inside(host: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, host])
}

const REMOTE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 1));
const OUTSIDE: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(203, 0, 113, 1));

fn at(s: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(s)
}

fn network(text: &str) -> Addresses {
    Addresses::Network(text.parse::<Cidr>().expect("a network"))
}

/// A table with one pool, and what its calls need.
struct Nat {
    table: Mappings,
    budget: Budget,
    pool: PoolId,
    now: Instant,
}

impl Nat {
    fn of(shards: Shards, pool: Pool) -> Nat {
        let mut budget = Budget::default();
        budget.set(Limit::NatMappings, 10_000);
        let mut table = Mappings::new(shards, [1, 2], &budget);
        let pool = table.add_pool(pool).expect("a pool");
        Nat { table, budget, pool, now: Instant::ZERO }
    }

    fn new(pool: Pool) -> Nat {
        Nat::of(Shards::ALONE, pool)
    }

    /// One outside address with these ports.
    fn ports(first: u16, last: u16, filtering: Filtering) -> Nat {
        let addresses = network("203.0.113.1/32");
        Nat::new(Pool { ports: (first, last), filtering, ..Pool::new(addresses) })
    }

    fn flow(&mut self, protocol: u8, src: IpAddr, port: u16) -> Result<Mapped, Refused> {
        self.flow_to(protocol, src, port, REMOTE)
    }

    fn flow_to(
        &mut self,
        protocol: u8,
        src: IpAddr,
        src_port: u16,
        dst: IpAddr,
    ) -> Result<Mapped, Refused> {
        let (tuple, sockets) =
            (Tuple { src, dst, protocol, src_port, dst_port: 53 }, Sockets::NONE);
        let request =
            Request { pool: self.pool, tuple, port_address: Some(OUTSIDE), sockets, now: self.now };
        self.table.acquire(&request, &mut self.budget)
    }

    fn end(&mut self, mapped: Mapped) {
        self.table.release(mapped.id, REMOTE, self.now);
    }

    fn events(&mut self) -> Vec<BlockEvent> {
        core::iter::from_fn(|| self.table.next_event()).collect()
    }
}

#[test]
fn an_endpoint_has_one_mapping_to_all_destinations() {
    // RFC 4787 REQ-1, RFC 5382 REQ-1, RFC 5508 REQ-1a.
    for protocol in [UDP, TCP, ICMP] {
        let mut nat = Nat::ports(2_000, 3_000, Filtering::Independent);
        let one = nat.flow_to(protocol, inside(1), 5_000, REMOTE).expect("a mapping");
        let other = nat.flow_to(protocol, inside(1), 5_000, addr("198.51.100.7"));
        assert_eq!(other, Ok(Mapped { is_new: false, ..one }));
        let next = nat.flow(protocol, inside(1), 5_001).expect("a mapping");
        assert_ne!(next.port, one.port);
        assert_eq!(next.addr, one.addr);
        nat.end(one);
        let found = nat.table.find_outside(protocol, OUTSIDE, one.port, REMOTE).expect("mapped");
        assert_eq!((found.addr, found.port, found.id), (inside(1), 5_000, one.id));
    }
}

#[test]
fn a_port_is_kept_if_it_is_free_and_in_the_range() {
    let mut nat = Nat::new(Pool::new(network("203.0.113.1/32")));
    assert_eq!(nat.flow(UDP, inside(1), 5_000).map(|mapped| mapped.port), Ok(5_000));
    // The same number of another protocol is free: RFC 7857 5-a.
    assert_eq!(nat.flow(TCP, inside(2), 5_000).map(|mapped| mapped.port), Ok(5_000));
    for (host, port) in [(2, 5_000), (3, 61_000), (3, 80), (3, 0)] {
        let mapped = nat.flow(UDP, inside(host), port).expect("a mapping");
        assert_ne!(mapped.port, port);
        assert!((PORTS.0..=PORTS.1).contains(&mapped.port), "{mapped:?}");
    }
    assert_eq!(nat.table.counters().kept, 2);
}

#[test]
fn no_two_endpoints_have_one_outside_port() {
    // RFC 4787 REQ-3, REQ-11, RFC 6888 REQ-13.
    let mut nat = Nat::ports(2_000, 2_999, Filtering::Port);
    let ports: BTreeSet<u16> = (0..1_000_u16)
        .map(|n| nat.flow(UDP, inside((n % 7) as u8), n).expect("a mapping").port)
        .collect();
    assert_eq!(ports.len(), 1_000);
    assert_eq!(ports, (2_000..3_000).collect());
    assert_eq!(nat.flow(UDP, inside(1), 9_999), Err(Refused::Ports));
    assert_eq!(nat.table.counters().no_port, 1);
}

#[test]
fn well_known_ports_get_well_known_ones_if_the_pool_has_them() {
    // RFC 4787 section 4.2.1.
    let mut nat = Nat::new(Pool { well_known: true, ..Pool::new(network("203.0.113.1/32")) });
    assert_eq!(nat.flow(UDP, inside(1), 123).map(|mapped| mapped.port), Ok(123));
    let other = nat.flow(UDP, inside(2), 123).expect("a mapping");
    assert!((1..1_024).contains(&other.port) && other.port != 123);
}

#[test]
fn a_source_has_one_outside_address() {
    // RFC 4787 REQ-2, RFC 6888 REQ-2, RFC 7857 4-c.
    let mut nat = Nat::new(Pool::new(network("203.0.113.0/24")));
    let mut addrs = BTreeSet::new();
    for host in 0..100 {
        let first = nat.flow(UDP, inside(host), 1).expect("a mapping").addr;
        for (protocol, port) in [(UDP, 2), (TCP, 3), (ICMP, 4), (47, 0)] {
            let mapped = nat.flow(protocol, inside(host), port);
            assert!(mapped.is_ok_and(|m| m.addr == first) || mapped == Err(Refused::Ports));
        }
        addrs.insert(first);
    }
    assert!(addrs.len() > 50, "{}", addrs.len());
}

#[test]
fn a_new_source_goes_where_there_are_ports() {
    let mut nat = Nat::new(Pool { ports: (2_000, 2_000), ..Pool::new(network("203.0.113.0/30")) });
    let addrs: BTreeSet<IpAddr> =
        (0..4).map(|host| nat.flow(UDP, inside(host), 1).expect("a mapping").addr).collect();
    assert_eq!(addrs.len(), 4);
    // A source with an address stays with it.
    assert_eq!(nat.flow(UDP, inside(0), 2), Err(Refused::Ports));
}

#[test]
fn a_free_port_is_held_for_its_source_where_others_could_get_its_packets() {
    // RFC 6888 REQ-8, RFC 7857 11-a.
    let mut nat = Nat::ports(2_000, 2_001, Filtering::Independent);
    let one = nat.flow(UDP, inside(1), 2_000).expect("a mapping");
    nat.end(one);
    assert_eq!(nat.table.find_outside(UDP, OUTSIDE, 2_000, REMOTE), None);
    let other = nat.flow(UDP, inside(2), 2_000).expect("a mapping");
    assert_eq!(other.port, 2_001);
    // The source itself gets it back.
    let back = nat.flow(UDP, inside(1), 2_000).expect("a mapping");
    assert_eq!((back.port, back.is_new), (2_000, false));
    assert_eq!(nat.table.counters().revived, 1);
    nat.end(back);
    nat.end(other);
    nat.now = Instant::ZERO + HOLD;
    let third = nat.flow(UDP, inside(3), 2_000).expect("a mapping");
    assert_eq!((third.port, nat.table.counters().early), (2_000, 0));
}

#[test]
fn a_held_port_is_used_before_a_flow_is_refused() {
    let mut nat = Nat::ports(2_000, 2_001, Filtering::Independent);
    let one = nat.flow(UDP, inside(1), 2_000).expect("a mapping");
    let _ = nat.flow(UDP, inside(2), 2_001).expect("a mapping");
    nat.end(one);
    assert_eq!(nat.flow(UDP, inside(3), 7).map(|mapped| mapped.port), Ok(2_000));
    assert_eq!(nat.table.counters().early, 1);
    assert!(!nat.table.is_alive(one.id));
    assert_eq!(nat.flow(UDP, inside(4), 7), Err(Refused::Ports));
}

#[test]
fn ports_of_tcp_and_of_filtered_pools_are_free_at_once() {
    // RFC 6888 REQ-8A and REQ-8C.
    let cases = [(TCP, Filtering::Independent), (UDP, Filtering::Address), (UDP, Filtering::Port)];
    for (protocol, filtering) in cases {
        let mut nat = Nat::ports(2_000, 2_000, filtering);
        let one = nat.flow(protocol, inside(1), 1).expect("a mapping");
        nat.end(one);
        assert!(nat.table.is_empty());
        assert_eq!(nat.flow(protocol, inside(2), 1).map(|mapped| mapped.port), Ok(2_000));
        assert_eq!(nat.table.counters().early, 0);
    }
}

#[test]
fn filtering_is_as_the_pool_says() {
    // RFC 4787 REQ-8, REQ-8a, RFC 5382 REQ-3, REQ-3a.
    let stranger = addr("198.51.100.99");
    let cases = [
        (Filtering::Independent, true, true),
        (Filtering::Address, true, false),
        (Filtering::Port, false, false),
    ];
    for (filtering, known, unknown) in cases {
        let mut nat = Nat::ports(2_000, 3_000, filtering);
        let mapped = nat.flow(UDP, inside(1), 2_000).expect("a mapping");
        let open =
            |nat: &Nat, remote| nat.table.find_outside(UDP, OUTSIDE, 2_000, remote).is_some();
        assert_eq!((open(&nat, REMOTE), open(&nat, stranger)), (known, unknown));
        // A second flow to the stranger's address opens it, until it ends.
        let second = nat.flow_to(UDP, inside(1), 2_000, stranger).expect("a mapping");
        assert_eq!(open(&nat, stranger), known);
        nat.table.release(second.id, stranger, nat.now);
        assert_eq!((open(&nat, REMOTE), open(&nat, stranger)), (known, unknown));
        nat.end(mapped);
        assert!(!open(&nat, REMOTE));
        assert_eq!(nat.table.remotes.len(), 0);
    }
}

#[test]
fn a_flow_from_outside_keeps_the_mapping() {
    let mut nat = Nat::ports(2_000, 3_000, Filtering::Independent);
    let mapped = nat.flow(UDP, inside(1), 2_000).expect("a mapping");
    let found = nat.table.find_outside(UDP, OUTSIDE, 2_000, REMOTE).expect("mapped");
    assert!(nat.table.retain(found.id, REMOTE));
    nat.end(mapped);
    assert!(nat.table.find_outside(UDP, OUTSIDE, 2_000, REMOTE).is_some());
    nat.end(mapped);
    assert!(nat.table.find_outside(UDP, OUTSIDE, 2_000, REMOTE).is_none());
    assert!(!nat.table.retain(found.id, REMOTE));
}

#[test]
fn inside_hosts_reach_each_other_by_their_outside_endpoints() {
    // The table can do what RFC 4787 section 6 demands: both ends are outside endpoints to the
    // other host.
    let mut nat = Nat::ports(2_000, 3_000, Filtering::Independent);
    let server = nat.flow(UDP, inside(1), 2_500).expect("a mapping");
    let client = nat.flow_to(UDP, inside(2), 2_700, server.addr).expect("a mapping");
    let found = nat.table.find_outside(UDP, server.addr, server.port, client.addr);
    assert_eq!(found.map(|found| (found.addr, found.port)), Some((inside(1), 2_500)));
    assert_ne!(client.port, server.port);
}

#[test]
fn limits_are_named_and_counted() {
    // RFC 6888 REQ-4, REQ-4A, REQ-11A, REQ-11D.
    let mut nat = Nat::ports(2_000, 3_000, Filtering::Independent);
    nat.budget.set(Limit::NatPortsPerSource, 2);
    let first = nat.flow(UDP, inside(1), 1).expect("a mapping");
    let second = nat.flow(UDP, inside(1), 2).expect("a mapping");
    assert_eq!(nat.flow(UDP, inside(1), 3), Err(Refused::PortsPerSource));
    assert!(nat.flow(UDP, inside(1), 2).is_ok());
    assert_eq!(nat.budget.hits(Limit::NatPortsPerSource), 1);
    nat.budget.set(Limit::NatMappings, 2);
    assert_eq!(nat.flow(UDP, inside(2), 1), Err(Refused::Mappings));
    assert_eq!(nat.budget.hits(Limit::NatMappings), 1);
    // A mapping that is only held makes room.
    nat.end(first);
    let other = nat.flow(UDP, inside(2), 1).expect("a mapping");
    assert!(nat.table.is_alive(second.id));
    assert_eq!(Refused::Mappings.limit(), Some(Limit::NatMappings));
    let used = nat.table.pool_use(nat.pool);
    assert_eq!((used.sources, used.mappings), (2, 2));
    // Also if it is all that the source had.
    nat.end(other);
    assert!(nat.flow(UDP, inside(2), 2).is_ok());
}

#[test]
fn a_held_mapping_counts_again_when_it_is_used_again() {
    let mut nat = Nat::ports(2_000, 3_000, Filtering::Independent);
    nat.budget.set(Limit::NatPortsPerSource, 1);
    let first = nat.flow(UDP, inside(1), 1).expect("a mapping");
    nat.end(first);
    let second = nat.flow(UDP, inside(1), 2).expect("a mapping");
    assert_eq!(nat.flow(UDP, inside(1), 1), Err(Refused::PortsPerSource));
    nat.end(second);
    assert!(nat.flow(UDP, inside(1), 1).is_ok());
}

#[test]
fn outside_addresses_in_use_are_limited() {
    let mut nat = Nat::new(Pool::new(network("203.0.113.0/24")));
    nat.budget.set(Limit::NatAddresses, 1);
    let first = nat.flow(UDP, inside(1), 1).expect("a mapping");
    let others = (2..20).map(|host| nat.flow(UDP, inside(host), 1)).filter(Result::is_err);
    assert!(others.count() > 10);
    assert!(nat.budget.hits(Limit::NatAddresses) > 10);
    assert_eq!(nat.flow(UDP, inside(1), 2).map(|mapped| mapped.addr), Ok(first.addr));
}

#[test]
fn a_lost_address_ends_its_mappings() {
    for filtering in [Filtering::Independent, Filtering::Port] {
        let mut nat = Nat::new(Pool { filtering, ..Pool::new(Addresses::OfPort) });
        let one = nat.flow(UDP, inside(1), 5_000).expect("a mapping");
        let gre = nat.flow(47, inside(1), 0).expect("a mapping");
        let held = nat.flow(UDP, inside(1), 5_001).expect("a mapping");
        nat.end(held);
        let mut ended = Vec::new();
        nat.table.address_gone(OUTSIDE, nat.now, |id| ended.push(id));
        ended.sort_by_key(|id| id.index);
        assert_eq!(ended, [one.id, gre.id]);
        assert!(nat.table.is_empty());
        assert!(!nat.table.is_alive(one.id));
        // Late releases do nothing, even if the record is in use again.
        let next = nat.flow(UDP, inside(2), 5_000).expect("a mapping");
        nat.end(one);
        assert!(nat.table.is_alive(next.id));
    }
}

#[test]
fn a_held_mapping_ends_if_its_address_is_no_longer_used() {
    let pool = Pool { filtering: Filtering::Independent, ..Pool::new(Addresses::OfPort) };
    let mut nat = Nat::new(pool);
    let held: Vec<Mapped> =
        (1..4).map(|host| nat.flow(UDP, inside(host), 5_000).expect("a mapping")).collect();
    held.into_iter().for_each(|mapped| nat.end(mapped));
    // The one in the middle of the list.
    let port_address = Some(addr("203.0.113.2"));
    let tuple = Tuple { src: inside(2), dst: REMOTE, protocol: UDP, src_port: 5_000, dst_port: 53 };
    let sockets = Sockets::NONE;
    let request = Request { pool: nat.pool, tuple, port_address, sockets, now: nat.now };
    let moved = nat.table.acquire(&request, &mut nat.budget).expect("a mapping");
    assert_eq!((Some(moved.addr), moved.is_new), (port_address, true));
    nat.now = at(200);
    nat.table.sweep(nat.now, 100);
    assert!(nat.table.is_alive(moved.id));
    assert_eq!(nat.table.len(), 1);
}

#[test]
fn tuples_are_translated_on_both_ways() {
    let mut nat = Nat::ports(2_000, 3_000, Filtering::Independent);
    for (protocol, remote_port) in [(UDP, 53), (ICMP, query_dst_port(1))] {
        let mapped = nat.flow(protocol, inside(1), 1).expect("a mapping");
        let own =
            Tuple { src: inside(1), dst: REMOTE, protocol, src_port: 1, dst_port: remote_port };
        let outward = mapped.outward(&own);
        assert_eq!((outward.src, outward.src_port, outward.dst), (OUTSIDE, mapped.port, REMOTE));
        let is_query = protocol == ICMP;
        let remote_port = if is_query { query_dst_port(mapped.port) } else { remote_port };
        assert_eq!(outward.dst_port, remote_port);
        let found = nat.table.find_outside(protocol, OUTSIDE, mapped.port, REMOTE).expect("mapped");
        assert_eq!(found.inward(&outward.reversed()), own.reversed());
    }
}

#[test]
fn a_port_without_an_address_refuses() {
    let mut nat = Nat::new(Pool::new(Addresses::OfPort));
    let tuple = Tuple { src: inside(1), dst: REMOTE, protocol: UDP, src_port: 1, dst_port: 2 };
    for port_address in [None, Some(addr("2001:db8::1"))] {
        let sockets = Sockets::NONE;
        let request = Request { pool: nat.pool, tuple, port_address, sockets, now: nat.now };
        assert_eq!(nat.table.acquire(&request, &mut nat.budget), Err(Refused::Address));
    }
    assert_eq!(nat.table.next_row(None), None);
}

#[test]
fn hosts_share_an_outside_address_for_different_remote_hosts_without_ports() {
    let mut nat = Nat::ports(2_000, 3_000, Filtering::Independent);
    let other = addr("198.51.100.7");
    let one = nat.flow(47, inside(1), 0).expect("a mapping");
    assert_eq!(nat.flow(47, inside(2), 0), Err(Refused::Ports), "the same remote host");
    assert_eq!(nat.table.counters().no_port, 1);
    let two = nat.flow_to(47, inside(2), 0, other).expect("another remote host");
    assert!(nat.flow(50, inside(2), 0).is_ok(), "another protocol");
    for (remote, host) in [(REMOTE, 1), (other, 2)] {
        let found = nat.table.find_outside(47, OUTSIDE, 0, remote);
        assert_eq!(found.map(|found| found.addr), Some(inside(host)));
    }
    nat.end(one);
    assert!(nat.flow(47, inside(2), 0).is_ok());
    nat.table.release(two.id, other, nat.now);
    assert_eq!(nat.table.find_outside(47, OUTSIDE, 0, other), None);
    assert_eq!(nat.table.len(), nat.table.portless.len());
}

#[test]
fn a_source_gets_blocks_and_each_is_an_event() {
    // RFC 6888 REQ-12, REQ-14, RFC 7422.
    let pool = Pool { block: 64, ports: (1_024, 2_047), ..Pool::new(network("203.0.113.1/32")) };
    let mut nat = Nat::new(pool);
    let flows: Vec<Mapped> =
        (0..65).map(|port| nat.flow(UDP, inside(1), port).expect("a mapping")).collect();
    let events = nat.events();
    assert_eq!(events.len(), 2);
    for (event, flow) in [(events[0], flows[0]), (events[1], flows[64])] {
        assert!(event.is_allocation);
        assert_eq!((event.inside, event.outside), (inside(1), OUTSIDE));
        assert_eq!(event.ports.1 - event.ports.0, 63);
        assert!((event.ports.0..=event.ports.1).contains(&flow.port));
    }
    // The blocks are for all protocols, and for no other source.
    let tcp = nat.flow(TCP, inside(1), 9).expect("a mapping");
    assert!(nat.events().is_empty());
    let other = nat.flow(UDP, inside(2), 9).expect("a mapping");
    let of_other = nat.events();
    assert_eq!((of_other.len(), of_other[0].inside), (1, inside(2)));
    assert!((of_other[0].ports.0..=of_other[0].ports.1).contains(&other.port));
    assert!(flows.iter().all(|flow| flow.port / 64 != other.port / 64));
    // A block stays with its source for 120 s: RFC 6888 REQ-8.
    flows.into_iter().chain([tcp]).for_each(|flow| nat.end(flow));
    nat.now = at(119);
    assert!(!nat.table.sweep(nat.now, 100));
    assert!(nat.events().is_empty());
    let again = nat.flow(UDP, inside(1), 9).expect("a mapping");
    assert!(nat.events().is_empty());
    nat.now = at(121);
    nat.table.sweep(nat.now, 100);
    assert_eq!(nat.events().len(), 1, "the block that is not in use again");
    nat.end(again);
    nat.end(other);
    nat.now = at(1_000);
    nat.table.sweep(nat.now, 100);
    assert_eq!(nat.events().len(), 2);
    assert!(nat.table.outsides.find(&nat.table.key, OUTSIDE).is_none());
}

#[test]
fn a_held_block_goes_to_another_source_before_that_is_refused() {
    let pool = Pool { block: 512, ports: (1_024, 2_047), ..Pool::new(network("203.0.113.1/32")) };
    let mut nat = Nat::new(pool);
    let one = nat.flow(UDP, inside(1), 1).expect("a mapping");
    assert!(nat.flow(UDP, inside(2), 1).is_ok());
    assert_eq!(nat.flow(UDP, inside(3), 1), Err(Refused::Ports));
    nat.end(one);
    assert!(nat.flow(UDP, inside(3), 1).is_ok());
    let events = nat.events();
    assert_eq!(events.iter().filter(|event| !event.is_allocation).count(), 1);
    assert_eq!(nat.table.counters().early, 1);
}

#[test]
fn a_block_is_free_for_others_after_its_hold() {
    let pool = Pool { block: 512, ports: (1_024, 1_535), ..Pool::new(network("203.0.113.1/32")) };
    let mut nat = Nat::new(pool);
    let one = nat.flow(UDP, inside(1), 1).expect("a mapping");
    nat.end(one);
    nat.now = Instant::ZERO + HOLD;
    assert!(nat.flow(UDP, inside(2), 1).is_ok());
    assert_eq!(nat.table.counters().early, 0);
}

#[test]
fn a_source_has_blocks_of_the_address_that_is_used() {
    let mut nat = Nat::new(Pool { block: 64, ..Pool::new(Addresses::OfPort) });
    for (port, outside) in [(1, OUTSIDE), (2, addr("203.0.113.2"))] {
        let tuple =
            Tuple { src: inside(1), dst: REMOTE, protocol: UDP, src_port: port, dst_port: 2 };
        let port_address = Some(outside);
        let sockets = Sockets::NONE;
        let request = Request { pool: nat.pool, tuple, port_address, sockets, now: nat.now };
        let mapped = nat.table.acquire(&request, &mut nat.budget).expect("a mapping");
        let event = nat.table.next_event().expect("an event");
        assert_eq!((mapped.addr, event.outside), (outside, outside));
        assert!((event.ports.0..=event.ports.1).contains(&mapped.port));
    }
}

#[test]
fn a_lost_address_ends_its_blocks() {
    let mut nat = Nat::new(Pool { block: 64, ..Pool::new(Addresses::OfPort) });
    assert!(nat.flow(UDP, inside(1), 1).is_ok());
    nat.table.address_gone(OUTSIDE, nat.now, |_| {});
    let kinds: Vec<bool> = nat.events().iter().map(|event| event.is_allocation).collect();
    assert_eq!(kinds, [true, false]);
    assert!(nat.flow(UDP, inside(1), 1).is_ok());
}

#[test]
fn shards_take_ports_of_their_own() {
    let pool = Pool { filtering: Filtering::Independent, ..Pool::new(network("203.0.113.1/32")) };
    let mut seen = BTreeSet::new();
    for index in 0..4 {
        let shards = Shards::new(index, 4, 0).expect("shards");
        let mut nat = Nat::of(shards, pool);
        for port in 1_000..1_500 {
            let mapped = nat.flow(UDP, inside(index as u8), port).expect("a mapping");
            assert_eq!(shards.of_outside(UDP, mapped.port), index);
            assert!(seen.insert(mapped.port));
        }
        // Protocols without ports meet in the first shard.
        assert_eq!(nat.flow(47, inside(1), 0).is_ok(), index == 0);
    }
}

/// RFC 4787 REQ-3.
#[test]
fn a_port_of_a_socket_is_given_to_no_flow() {
    for block in [0, 64] {
        let pool = Pool { ports: (2_048, 2_111), block, ..Pool::new(network("203.0.113.1/32")) };
        let pool = Pool { filtering: Filtering::Independent, ..pool };
        let mut nat = Nat::new(pool);
        let mut flow = |own: u16, free: &[u16], now: u64| {
            let is_bound = |tuple: &Tuple| tuple.src == OUTSIDE && !free.contains(&tuple.src_port);
            let sockets = Sockets(&is_bound);
            let (src, dst) = (inside(1), REMOTE);
            let tuple = Tuple { src, dst, protocol: UDP, src_port: own, dst_port: 53 };
            let request =
                Request { pool: nat.pool, tuple, port_address: None, sockets, now: at(now) };
            nat.table.acquire(&request, &mut nat.budget)
        };
        assert_eq!(flow(2_050, &[], 0), Err(Refused::Ports));
        let one = flow(2_050, &[2_070], 0).expect("one is left");
        assert_eq!(one.port, 2_070);
        assert_eq!(flow(2_050, &[], 0), Err(Refused::Ports), "a socket has its endpoint now");
        assert_eq!(flow(2_051, &[2_070, 2_051], 0).map(|mapped| mapped.port), Ok(2_051));
        nat.table.release(one.id, REMOTE, at(0));
        // A port that is held for its source may be a socket's by now.
        let mut flow = |free: u16| {
            let is_bound = |tuple: &Tuple| tuple.src_port != free;
            let tuple =
                Tuple { src: inside(1), dst: REMOTE, protocol: UDP, src_port: 2_050, dst_port: 53 };
            let sockets = Sockets(&is_bound);
            let request =
                Request { pool: nat.pool, tuple, port_address: None, sockets, now: at(1) };
            nat.table.acquire(&request, &mut nat.budget)
        };
        assert_eq!(flow(2_090).map(|mapped| mapped.port), Ok(2_090));
    }
}

#[test]
fn a_pool_that_stays_keeps_its_mappings_over_a_reload() {
    // RFC 4787 REQ-11.
    let pool = Pool::new(network("203.0.113.1/32"));
    let pool = Pool { filtering: Filtering::Independent, ..pool };
    let mut nat = Nat::new(pool);
    let mapped = nat.flow(UDP, inside(1), 5_000).expect("a mapping");
    let same = nat.table.add_pool(pool).expect("a pool");
    assert_eq!(same, nat.pool);
    let other = nat.table.add_pool(Pool { well_known: true, ..pool }).expect("a pool");
    nat.table.keep_pools(&[other]);
    let next = nat.table.add_pool(Pool::new(network("203.0.113.2/32"))).expect("a pool");
    assert_ne!(next, nat.pool);
    assert_eq!(nat.flow(UDP, inside(1), 5_000), Err(Refused::Address));
    assert!(nat.table.is_alive(mapped.id));
    nat.end(mapped);
    // A retired pool holds no ports, and its slot is free with its last source.
    assert!(nat.table.is_empty());
    let third = nat.table.add_pool(Pool::new(Addresses::OfPort)).expect("a pool");
    assert_eq!(third, nat.pool);
}

#[test]
fn impossible_pools_are_refused() {
    let mut nat = Nat::new(Pool::new(Addresses::OfPort));
    let pool = Pool::new(network("203.0.113.1/32"));
    let mut add = |pool| nat.table.add_pool(pool).expect_err("no pool");
    assert_eq!(add(Pool { ports: (2, 1), ..pool }), InvalidPool::Ports);
    let mut shard = Nat::of(Shards::new(0, 2, 0).expect("shards"), pool);
    let one_shard = Pool { ports: (1_024, 1_087), ..pool };
    assert_eq!(shard.table.add_pool(one_shard), Err(InvalidPool::Ports));
    for block in [1, 63, 96, 8_192] {
        assert_eq!(add(Pool { block, ..pool }), InvalidPool::Block);
    }
    assert_eq!(add(Pool { block: 128, ports: (1_025, 1_200), ..pool }), InvalidPool::Block);
}
