//! Broadcasts to and from a port without an address. RFC 2131 section 4.1.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{DropReason, IpVersion, Owner};

use super::craft::{Bench, frame_between};
use super::icmp::{NOW, bench};
use crate::{PortId, UdpError};

const PORT: PortId = PortId(0);
const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const ALL: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);

#[test]
fn a_port_without_an_address_broadcasts_and_hears_broadcasts() {
    let mut bench = bench(IpVersion::V4);
    let ours = bench.ours;
    assert!(bench.stack.remove_address(PORT, ours));
    let any = SocketAddr::new(ANY.into(), 68);
    let socket = bench.stack.udp_bind(any, Owner::program()).expect("free");
    bench.stack.udp_broadcast(socket, (PORT, ANY), 67, b"ask", NOW).expect("sent");
    let frames = bench.sent();
    let [frame] = &frames[..] else { panic!("{} frames", frames.len()) };
    assert_eq!(frame[..6], [0xff; 6]);
    assert_eq!((&frame[26..30], &frame[30..34]), (&[0; 4][..], &[255; 4][..]));
    assert_eq!((&frame[34..40], &frame[42..45]), (&[0, 68, 0, 67, 0, 11][..], &b"ask"[..]));
    let answer = [&[0, 67, 0, 68, 0, 14, 0, 0][..], b"answer"].concat();
    bench.exchange(&frame_between(bench.theirs, ALL, 17, &answer), NOW);
    let heard = bench.stack.udp_receive(socket).expect("the answer");
    assert_eq!(heard.payload.as_slice(), b"answer");
    bench.stack.give_back(heard.payload);
}

/// RFC 2131 section 4.1: servers answer to the address that they offer, with our link address or
/// the broadcast one. While the port has no address, the client's socket gets such answers, only
/// from an address that a host can have, and whether the stack forwards or not.
#[test]
fn a_port_without_an_address_takes_what_its_dhcp_client_waits_for() {
    let offered: IpAddr = [192, 0, 2, 50].into();
    let answer = [&[0, 67, 0, 68, 0, 14, 0, 0][..], b"answer"].concat();
    for forwards in [false, true] {
        let mut bench = bench(IpVersion::V4);
        let (ours, theirs) = (bench.ours, bench.theirs);
        assert!(bench.stack.remove_address(PORT, ours));
        bench.stack.set_forwarding(forwards);
        let socket = bench.stack.udp_bind(SocketAddr::new(ANY.into(), 68), Owner::program());
        let socket = socket.expect("free");
        let heard = |bench: &mut Bench, from: IpAddr, to_all: bool| {
            let mut frame = frame_between(from, offered, 17, &answer);
            if to_all {
                frame[..6].fill(0xff);
            }
            bench.exchange(&frame, NOW);
            let datagram = bench.stack.udp_receive(socket)?;
            assert_eq!((datagram.to.ip(), datagram.payload.as_slice()), (offered, &b"answer"[..]));
            bench.stack.give_back(datagram.payload);
            Some(())
        };
        for to_all in [false, true] {
            assert_eq!(
                heard(&mut bench, theirs, to_all),
                None,
                "an answer was delivered although no socket waits for it"
            );
        }
        bench.stack.udp_take_offers(socket, PORT, true);
        for to_all in [false, true] {
            assert_eq!(heard(&mut bench, theirs, to_all), Some(()), "{to_all} {forwards}");
            assert_eq!(
                heard(&mut bench, [127, 0, 0, 1].into(), to_all),
                None,
                "an answer from a martian source was delivered"
            );
        }
        bench.stack.udp_take_offers(socket, PORT, false);
        assert_eq!(heard(&mut bench, theirs, false), None);
    }
}

#[test]
fn broadcasts_are_from_an_address_of_the_port_and_fit_its_mtu() {
    let mut bench = bench(IpVersion::V4);
    let any = SocketAddr::new(ANY.into(), 68);
    let socket = bench.stack.udp_bind(any, Owner::program()).expect("free");
    let IpAddr::V4(ours) = bench.ours else { panic!("IPv4") };
    let mut send =
        |from, port, len| bench.stack.udp_broadcast(socket, (port, from), 67, &vec![0; len], NOW);
    assert_eq!(send(ours, PORT, 1_472), Ok(()));
    assert_eq!(send(ours, PORT, 1_473), Err(UdpError::Unsendable(DropReason::IpTooBig)));
    assert_eq!(send([192, 0, 2, 99].into(), PORT, 1), Err(UdpError::NoAddress));
    let no_port = Err(UdpError::Unsendable(DropReason::TxNoPort));
    assert_eq!(send(ANY, PortId(7), 1), no_port);
    bench.stack.udp_close(socket);
    let closed = bench.stack.udp_broadcast(socket, (PORT, ANY), 67, b"ask", NOW);
    assert_eq!(closed, Err(UdpError::Closed));
}
