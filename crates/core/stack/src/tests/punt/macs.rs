//! Further link addresses of a port: VRRP's virtual router.

use base::{Counter, DropReason, Limit, MacAddr};

use super::super::forward::{A, B, HOSTS, MACS, NOW, Router, ip};
use super::{OURS, OURS6, frame, is_punted, mirrored, udp_frame};
use crate::{PortId, PortMacError, PuntClass};

const VIRTUAL: MacAddr = MacAddr([0, 0, 0x5e, 0, 1, 7]);

fn to_virtual(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[..6].copy_from_slice(&VIRTUAL.0);
    bytes
}

/// Frames to it are forwarded in bursts, and are for the host, as those to the port's own.
#[test]
fn frames_to_a_further_link_address_are_the_ports() {
    let mut router = mirrored();
    let mut through = super::super::forward::frame(A, B, 9, b"transit");
    through[..6].copy_from_slice(&VIRTUAL.0);
    let to_us = to_virtual(udp_frame(0, A, OURS, (40_000, 53)));
    router.exchange(&through);
    router.exchange(&to_us);
    assert_eq!(router.drops(DropReason::EtherNotForUs), 2);
    router.stack.add_port_mac(PortId(0), VIRTUAL).expect("room");
    let [_, out] = router.exchange(&through);
    assert_eq!(out.len(), 1);
    let [_, out] = router.exchange(&through);
    assert_eq!(out.len(), 1);
    assert!(router.stack.counters().of(Counter::ForwardedInBursts) > 0, "the long way");
    router.exchange(&to_us);
    let got = super::punted(&mut router);
    assert_eq!(got[0].2[..6], MACS[0].0);
    assert_eq!(got[0].2[6..], to_us[6..]);
    // A host takes them as well.
    router.stack.set_forwarding(false);
    router.exchange(&to_us);
    assert_eq!(super::punted(&mut router).len(), 1);
    assert!(router.stack.remove_port_mac(PortId(0), VIRTUAL));
    assert!(!router.stack.remove_port_mac(PortId(0), VIRTUAL));
    router.exchange(&to_us);
    assert_eq!(router.drops(DropReason::EtherNotForUs), 3);
}

fn asks(router: &mut Router) -> Vec<u8> {
    let sender = (HOSTS[0], "192.0.2.9".parse().expect("an address"));
    let target = (MacAddr::default(), OURS.parse().expect("an address"));
    let request = inet::nd::arp_output(wire::arp::Operation::Request, sender, target);
    let request = [&[0xff; 6][..], &HOSTS[0].0, &[8, 6], &request].concat();
    router.exchange(&request)[0].remove(0)
}

#[test]
fn an_address_is_advertised_with_it() {
    let mut router = mirrored();
    assert_eq!(asks(&mut router)[22..28], MACS[0].0);
    let set = |router: &mut Router, address, mac| {
        router.stack.set_address_mac(PortId(0), ip(address), mac)
    };
    assert_eq!(set(&mut router, OURS, Some(VIRTUAL)), Err(PortMacError::NoMac));
    router.stack.add_port_mac(PortId(0), VIRTUAL).expect("room");
    assert_eq!(set(&mut router, A, Some(VIRTUAL)), Err(PortMacError::NoAddress));
    set(&mut router, OURS, Some(VIRTUAL)).expect("both are ours");
    let [told, _] = router.sent(NOW);
    // A gratuitous ARP from the virtual router, to all.
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0][..6], &told[0][6..12]), (&[0xff; 6][..], &VIRTUAL.0[..]));
    assert_eq!(told[0][22..28], VIRTUAL.0);
    let answer = asks(&mut router);
    assert_eq!((&answer[6..12], &answer[22..28]), (&VIRTUAL.0[..], &VIRTUAL.0[..]));
    set(&mut router, OURS6, Some(VIRTUAL)).expect("both are ours");
    let [told, _] = router.sent(NOW);
    assert_eq!(told[0][54], 136);
    assert_eq!(told[0][80..86], VIRTUAL.0);
    router.stack.remove_port_mac(PortId(0), VIRTUAL);
    assert_eq!(asks(&mut router)[22..28], MACS[0].0);
}

/// VRRP's own packets come from the virtual router, so that switches learn its place.
#[test]
fn a_mirror_may_send_from_it() {
    let mut router = mirrored();
    let mut bytes = frame(0, OURS, "224.0.0.18", 112, b"VRRP");
    bytes[6..12].copy_from_slice(&VIRTUAL.0);
    let source = |router: &mut Router, bytes: &[u8]| {
        router.stack.send_by_mirror(NOW, PortId(0), bytes).expect("it leaves");
        router.sent(NOW)[0][0][6..12].to_vec()
    };
    assert_eq!(source(&mut router, &bytes), MACS[0].0);
    router.stack.add_port_mac(PortId(0), VIRTUAL).expect("room");
    assert_eq!(source(&mut router, &bytes), VIRTUAL.0);
    is_punted(&mut router, 0, &frame(0, A, "224.0.0.18", 112, b"VRRP"), PuntClass::Routing);
}

#[test]
fn there_are_few_of_them() {
    let mut router = mirrored();
    let add = |router: &mut Router, port, last| {
        router.stack.add_port_mac(PortId(port), MacAddr([0, 0, 0x5e, 0, 1, last]))
    };
    for last in (0..16).chain(0..16) {
        assert_eq!(add(&mut router, 0, last), Ok(()));
    }
    assert_eq!(add(&mut router, 0, 16), Err(PortMacError::LimitReached));
    assert_eq!(router.stack.budget().hits(Limit::PortMacs), 1);
    assert_eq!(add(&mut router, 9, 16), Err(PortMacError::NoPort));
    let group = router.stack.add_port_mac(PortId(0), MacAddr::BROADCAST);
    assert_eq!(group, Err(PortMacError::NotAStation));
}

/// What a link-level header says about who sent it, and what ARP or neighbour discovery says.
fn announces(frame: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let said = if frame[12..14] == [8, 6] { &frame[22..28] } else { &frame[80..86] };
    (frame[6..12].to_vec(), said.to_vec())
}

/// A switch learns the place of the virtual router from each message that names it; an announcement
/// of the daemon is made by the stack, and one of others is refused.
#[test]
fn an_announcement_of_a_daemon_is_the_stacks() {
    let mut router = mirrored();
    router.stack.add_port_mac(PortId(0), VIRTUAL).expect("room");
    for address in [OURS, OURS6] {
        router.stack.set_address_mac(PortId(0), ip(address), Some(VIRTUAL)).expect("it is ours");
        let [told, _] = router.sent(NOW);
        assert_eq!(announces(&told[0]), (VIRTUAL.0.to_vec(), VIRTUAL.0.to_vec()), "{address}");
    }
    let gratuitous = |of: &str| {
        let of = of.parse().expect("an address");
        let arp =
            inet::nd::arp_output(wire::arp::Operation::Request, (HOSTS[0], of), (HOSTS[0], of));
        [&[0xff; 6][..], &HOSTS[0].0, &[8, 6], &arp].concat()
    };
    let unsolicited = |of: &str| {
        let (of, all) = (of.parse().expect("an address"), inet::nd::ALL_NODES);
        let mut bytes = [0; wire::nd::LEN_MAX];
        let len = inet::nd::advertisement(&mut bytes, (HOSTS[0], true), all, of).expect("it fits");
        frame(0, OURS6, "ff02::1", wire::protocol::ICMPV6, &bytes[..len])
    };
    for bytes in [gratuitous(OURS), unsolicited(OURS6)] {
        router.stack.send_by_mirror(NOW, PortId(0), &bytes).expect("it is ours");
        let [told, _] = router.sent(NOW);
        assert_eq!(told.len(), 1);
        assert_eq!(announces(&told[0]), (VIRTUAL.0.to_vec(), VIRTUAL.0.to_vec()));
    }
    for bytes in [gratuitous("192.0.2.77"), unsolicited("2001:db8:1::77")] {
        assert!(router.stack.send_by_mirror(NOW, PortId(0), &bytes).is_err());
        assert!(router.sent(NOW).iter().all(Vec::is_empty));
    }
}

/// An answer to a neighbour solicitation has the link address in both headers.
#[test]
fn a_solicited_advertisement_comes_from_it() {
    let mut router = mirrored();
    router.stack.add_port_mac(PortId(0), VIRTUAL).expect("room");
    router.stack.set_address_mac(PortId(0), ip(OURS6), Some(VIRTUAL)).expect("it is ours");
    router.sent(NOW);
    let (from, target) = ("2001:db8:1::9".parse().expect("ip"), OURS6.parse().expect("ip"));
    let group = inet::nd::solicited_node(target);
    let mut bytes = [0; wire::nd::LEN_MAX];
    let len = inet::nd::solicitation(&mut bytes, HOSTS[0], from, group, target).expect("it fits");
    let mut asked =
        frame(0, "2001:db8:1::9", &group.to_string(), wire::protocol::ICMPV6, &bytes[..len]);
    asked[21] = 255;
    let [answer, _] = router.exchange(&asked);
    assert_eq!(announces(&answer[0]), (VIRTUAL.0.to_vec(), VIRTUAL.0.to_vec()));
}

/// The interface in the control namespace that has the address has this link address.
#[test]
fn a_packet_to_its_address_is_punted_with_it() {
    let mut router = mirrored();
    router.stack.add_port_mac(PortId(0), VIRTUAL).expect("room");
    let to_us = to_virtual(udp_frame(0, A, OURS, (40_000, 53)));
    router.exchange(&to_us);
    assert_eq!(super::punted(&mut router)[0].2[..6], MACS[0].0);
    router.stack.set_address_mac(PortId(0), ip(OURS), Some(VIRTUAL)).expect("it is ours");
    router.exchange(&to_us);
    assert_eq!(super::punted(&mut router)[0].2, to_us);
    let group = frame(0, A, "224.0.0.18", 112, b"VRRP");
    is_punted(&mut router, 0, &group, PuntClass::Routing);
}
