//! Hosts without an address: their broadcasts and router solicitations come to a program that wants
//! them, and its advertisements leave. RFC 1122 section 3.2.1.3, RFC 4861 section 6.2.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::{DropReason, IpVersion, Limit, Owner};
use device::mem;
use wire::nd::router_solicitation;

use crate::pair::{self, PairConfig};
use crate::tests::craft::{Bench, frame_between};
use crate::{Event, Foreign, PortConfig, PortId, Stack};

use super::NOW;

const PORT: PortId = PortId(0);
const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

fn bench(version: IpVersion, newcomers: bool) -> Bench {
    let mut config = PairConfig { version, ..PairConfig::new([3, 4]) };
    config.stack.foreign = Foreign { newcomers, ..Foreign::default() };
    let mut bench = Bench::among_strangers(&config);
    let (left, wire) = mem::pair(&config.wire);
    bench.stack = Stack::new(config.stack);
    let mut addresses = pair::addresses(1).to_vec();
    addresses.push("fe80::1/64".parse().expect("an address"));
    let config = PortConfig { mac: pair::mac(1), addresses, answer_all: false };
    bench.stack.add_port(Box::new(left), config);
    bench.wire = wire;
    bench
}

fn solicitation(from: Ipv6Addr) -> Vec<u8> {
    let mut message = [0; 16];
    let len = router_solicitation(&mut message, pair::mac(2), from, ROUTERS).expect("room");
    let mut frame = frame_between(from.into(), ROUTERS.into(), 58, &message[..len]);
    frame[14 + 7] = 255;
    frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 2]);
    frame
}

#[test]
fn a_broadcast_of_a_host_without_address_comes_to_a_socket() {
    for newcomers in [false, true] {
        let mut bench = bench(IpVersion::V4, newcomers);
        let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 67);
        let socket = bench.stack.udp_bind(any, Owner::program()).expect("free");
        let ask = [&[0, 68, 0, 67, 0, 11, 0, 0][..], b"ask"].concat();
        let (zero, all) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        let mut frame = frame_between(zero.into(), all.into(), 17, &ask);
        frame[..6].fill(0xff);
        bench.exchange(&frame, NOW);
        let heard = bench.stack.udp_receive(socket);
        assert_eq!(heard.is_some(), newcomers);
        assert_eq!(bench.stack.drops().of(DropReason::IpMartianSource), u64::from(!newcomers));
        let Some(heard) = heard else { continue };
        assert_eq!((heard.payload.as_slice(), heard.payload.in_port()), (&b"ask"[..], PORT.0));
        bench.stack.give_back(heard.payload);
        // Only broadcasts may come from nobody.
        let ours: IpAddr = [192, 0, 2, 1].into();
        bench.exchange(&frame_between(zero.into(), ours, 17, &ask), NOW);
        assert!(bench.stack.udp_receive(socket).is_none());
    }
}

#[test]
fn solicitations_come_to_the_program_and_are_bounded() {
    let mut bench = bench(IpVersion::V6, true);
    let guest: Ipv6Addr = "fe80::2".parse().expect("an address");
    for from in [Ipv6Addr::UNSPECIFIED, guest] {
        bench.exchange(&solicitation(from), NOW);
        assert_eq!(bench.stack.next_event(), Some(Event::Foreign));
        let asked = bench.stack.take_router_solicitation().expect("one waits");
        assert_eq!((asked.port, asked.from, asked.hop_limit), (PORT, from, 255));
        assert_eq!(asked.message[0], 133);
    }
    let most = bench.stack.budget().of(Limit::RouterSolicitors);
    for _ in 0..=most {
        bench.exchange(&solicitation(guest), NOW);
    }
    assert_eq!(bench.stack.drops().of(DropReason::ForeignQueueFull), 1);
    let waiting = core::iter::from_fn(|| bench.stack.take_router_solicitation());
    assert_eq!(waiting.count(), most);
}

#[test]
fn nobody_who_does_not_want_them_gets_solicitations() {
    let mut bench = bench(IpVersion::V6, false);
    bench.exchange(&solicitation(Ipv6Addr::UNSPECIFIED), NOW);
    assert_eq!(bench.stack.next_event(), None);
    assert_eq!(bench.stack.take_router_solicitation(), None);
}

#[test]
fn advertisements_leave_to_all_and_to_one() {
    let mut bench = bench(IpVersion::V6, true);
    let ours: Ipv6Addr = "fe80::1".parse().expect("an address");
    let guest: Ipv6Addr = "fe80::2".parse().expect("an address");
    let message = [134, 0, 1, 2, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let stack = &mut bench.stack;
    stack.send_router_advertisement(PORT, (ours, NODES), &message, NOW).expect("sent");
    let sent = bench.sent();
    let [frame] = &sent[..] else { panic!("{} frames", sent.len()) };
    assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!((frame[14 + 7], &frame[54..]), (255, &message[..]));
    // The link address of one host is asked for first.
    let stack = &mut bench.stack;
    stack.send_router_advertisement(PORT, (ours, guest), &message, NOW).expect("waits");
    let sent = bench.sent();
    assert_eq!(sent.iter().map(|frame| frame[54]).collect::<Vec<_>>(), [135]);
    let other = bench.stack.send_router_advertisement(PORT, (guest, NODES), &message, NOW);
    assert_eq!(other, Err(DropReason::IpMartianSource));
}
