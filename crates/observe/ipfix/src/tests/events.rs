//! Events of the firewall for tests: fixed samples, and a strategy that generates any event.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::{Duration, Instant};
use filter::Tuple;
use filter::firewall::{Event, RefusedFlow, Shortage};
use filter::nat::BlockEvent;
use filter::states::{Phase, Reported, State, What, Why};
use proptest::prelude::*;

use super::AT;

pub(super) fn tuple(from: &str, to: &str, protocol: u8) -> Tuple {
    let end = |text: &str| text.parse::<SocketAddr>().expect("an address and a port");
    let (from, to) = (end(from), end(to));
    let (src_port, dst_port) = (from.port(), to.port());
    Tuple { src: from.ip(), dst: to.ip(), protocol, src_port, dst_port }
}

pub(super) fn state(original: Tuple, reply: Tuple) -> State {
    State {
        original,
        reply,
        packets: [1, 1],
        bytes: [40, 40],
        phase: Phase::TcpEstablished,
        icmp: None,
        rule: 0,
        generation: 1,
        in_port: 1,
        out_port: 2,
        tag: 0,
        loose: false,
        created: AT,
        seen: AT,
        expires: AT + Duration::from_secs(10),
    }
}

pub(super) fn block(is_allocation: bool) -> BlockEvent {
    let (inside, outside) = ([10, 0, 0, 5].into(), [192, 0, 2, 1].into());
    BlockEvent { is_allocation, at: AT, inside, outside, ports: (1_024, 1_535) }
}

fn addr(is_v6: bool, bits: u128) -> IpAddr {
    match is_v6 {
        true => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        false => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
    }
}

fn any_tuple(is_v6: bool) -> impl Strategy<Value = Tuple> {
    any::<(u128, u128, u8, u16, u16)>().prop_map(move |(src, dst, protocol, src_port, dst_port)| {
        let protocol = [1, 6, 17, 47, 58, protocol][usize::from(protocol % 6)];
        Tuple { src: addr(is_v6, src), dst: addr(is_v6, dst), protocol, src_port, dst_port }
    })
}

fn any_state() -> impl Strategy<Value = State> {
    let tuples = any::<bool>().prop_flat_map(|is_v6| (any_tuple(is_v6), any_tuple(is_v6)));
    let phase = prop_oneof![
        Just(Phase::TcpEstablished),
        Just(Phase::TcpTimeWait),
        Just(Phase::UdpReplied),
        Just(Phase::IcmpUnreplied)
    ];
    let rest = any::<([u64; 2], [u64; 2], u16, u16, bool, u64, Option<(u8, u8)>)>();
    (tuples, phase, rest).prop_map(|((original, other), phase, rest)| {
        let (packets, bytes, in_port, out_port, is_translated, seen, icmp) = rest;
        let protocol = original.protocol;
        let reply = Tuple { protocol, ..other };
        let reply = if is_translated { reply } else { original.reversed() };
        let seen = Instant::from_nanos(seen);
        let icmp = icmp.filter(|_| matches!(protocol, 1 | 58));
        let any =
            State { packets, bytes, phase, icmp, in_port, out_port, ..state(original, reply) };
        State { seen, ..any }
    })
}

fn any_flow() -> impl Strategy<Value = Event> {
    let what = prop_oneof![
        Just(What::Began),
        Just(What::Lasts),
        Just(What::Ended(Why::Idle)),
        Just(What::Ended(Why::Pressure)),
        Just(What::Ended(Why::Killed)),
        Just(What::Ended(Why::Replaced))
    ];
    let reported = any::<(bool, u64)>();
    (any_state(), what, reported).prop_map(|(state, what, (is_reported, at))| {
        let reported = match is_reported {
            false => Reported::default(),
            true => Reported {
                packets: state.packets.map(|all| all / 2),
                bytes: state.bytes.map(|all| all / 2),
                at: Some(Instant::from_nanos(at)),
            },
        };
        Event::Flow(filter::states::Event { at: AT, state, what, reported })
    })
}

/// A strategy that generates any event.
pub(super) fn events() -> impl Strategy<Value = Event> {
    let blocks =
        any::<(bool, bool, u128, u16, u16)>().prop_map(|(is_allocation, is_v6, a, p, q)| {
            let (inside, outside) = (addr(is_v6, a), addr(is_v6, a.rotate_left(9)));
            Event::Block(BlockEvent { inside, outside, ports: (p, q), ..block(is_allocation) })
        });
    let why = prop_oneof![
        any::<u32>().prop_map(Shortage::States),
        any::<u32>().prop_map(Shortage::Mappings),
        any::<u32>().prop_map(Shortage::PortsOfSource),
        any::<u32>().prop_map(Shortage::StatesOfSource),
        any::<(bool, u128)>().prop_map(|(is_v6, a)| Shortage::Ports(Some(addr(is_v6, a)))),
        Just(Shortage::Ports(None)),
        Just(Shortage::Addresses)
    ];
    let tuples = any::<bool>().prop_flat_map(any_tuple);
    let refused = (why, tuples, any::<u32>())
        .prop_map(|(why, tuple, rule)| Event::Refused(RefusedFlow { at: AT, why, tuple, rule }));
    prop_oneof![4 => any_flow(), 1 => blocks, 1 => refused]
}
