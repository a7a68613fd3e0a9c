//! Datagrams from any source.

use base::{Counter, DropReason};
use mbuf::Mbuf;

use super::*;
use crate::{IpSettings, UdpError};

const IP: IpSettings =
    IpSettings { ttl: 57, tos: 0x88, mark: 0, vrf: inet::Vrf::NONE, transparent: false };

/// What the guest's socket has received.
fn received(guest: &mut End, socket: UdpHandle) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(datagram) = guest.stack.udp_receive(socket) {
        all.push((datagram.from, datagram.payload.as_slice().to_vec()));
        guest.stack.give_back(datagram.payload);
    }
    all
}

#[test]
fn answers_come_from_the_host_that_was_asked() {
    for version in BOTH {
        let (mut guest, mut gateway) = guest_and_gateway(&config(version));
        let (socket, asked) = ask(&mut guest, b"which?");
        exchange(&mut guest, &mut gateway);
        let to = take(&mut gateway.stack)[0].flow.src;
        let third = SocketAddr::new(asked.ip(), 54);
        let stack = &mut gateway.stack;
        stack.udp_send_between(asked, to, IP, b"one", NOW).expect("sent");
        let many = [(asked, to, &b"two"[..]), (third, to, b""), (asked, to, b"four")];
        assert_eq!(stack.udp_send_many_between(&many, IP, NOW), Ok(3));
        exchange(&mut gateway, &mut guest);
        let all = received(&mut guest, socket);
        let texts: Vec<_> = all.iter().map(|(_, text)| &text[..]).collect();
        assert_eq!(texts, [&b"one"[..], b"two", b"", b"four"]);
        assert_eq!(
            all.iter().map(|(from, _)| *from).collect::<Vec<_>>(),
            [asked, asked, third, asked]
        );
        assert_eq!(guest.stack.drops().total(), 0, "checksums are right");
        assert_eq!(gateway.stack.counters().of(Counter::UdpOut), 4);
    }
}

#[test]
fn large_ones_leave_in_fragments_also_before_the_link_address_is_known() {
    for version in BOTH {
        let (mut guest, mut gateway) = guest_and_gateway(&config(version));
        let (socket, asked) = ask(&mut guest, b"which?");
        let payload: Vec<u8> = (0..5_000).map(|n| (n * 7) as u8).collect();
        let to = SocketAddr::new(guest.addr, 4_000);
        gateway.stack.udp_send_between(asked, to, IP, &payload, NOW).expect("sent");
        exchange(&mut gateway, &mut guest);
        assert!(received(&mut guest, socket) == [(asked, payload.clone())]);
        // The whole datagram waits for the answer to a solicitation.
        assert!(gateway.stack.remove_neighbour(gateway.port, guest.addr));
        gateway.stack.forget_neighbour(gateway.port, guest.addr);
        gateway.stack.udp_send_between(asked, to, IP, &payload, NOW).expect("waits");
        for _ in 0..3 {
            exchange(&mut gateway, &mut guest);
        }
        assert!(received(&mut guest, socket) == [(asked, payload)]);
        assert_eq!(guest.stack.drops().total(), 0);
    }
}

/// A buffer of the stack's with this payload.
fn buffer(stack: &mut Stack, payload: &[u8]) -> Mbuf {
    stack.pool().copy_of(payload).expect("memory")
}

#[test]
fn segments_and_buffers_arrive_alike_with_offloads_and_without() {
    for version in BOTH {
        for offloads in [false, true] {
            let mut config = config(version);
            if offloads {
                let to = &mut config.wire.offloads;
                (to.tx_checksum, to.rx_checksum) = (true, true);
                to.uso_max_bytes = 65_535 + 14;
            }
            let (mut guest, mut gateway) = guest_and_gateway(&config);
            let (socket, asked) = ask(&mut guest, b"which?");
            let ends = (asked, SocketAddr::new(guest.addr, 4_000));
            let payload: Vec<u8> = (0..1_050).map(|n| (n * 3) as u8).collect();
            let parts: Vec<_> = payload.chunks(100).map(|part| (asked, part.to_vec())).collect();
            let sent = |guest: &mut End, gateway: &mut End, frames: u64| {
                let before = gateway.stack.counters().of(Counter::TxFrames);
                exchange(gateway, guest);
                assert!(received(guest, socket) == parts, "{version:?} {offloads}");
                let now = gateway.stack.counters().of(Counter::TxFrames);
                assert_eq!(now - before, if offloads { 1 } else { frames });
            };
            let stack = &mut gateway.stack;
            let outcome = stack.udp_send_segments_between(ends, IP, &payload, 100, NOW);
            assert_eq!(outcome, Ok(1_050));
            sent(&mut guest, &mut gateway, 11);
            let m = buffer(&mut gateway.stack, &payload);
            assert_eq!(gateway.stack.udp_send_mbuf_between(ends, IP, m, 100, NOW), Ok(1_050));
            sent(&mut guest, &mut gateway, 11);
            // One datagram, written in front of the data.
            for len in [0, 1, 1_400, 5_000] {
                let payload: Vec<u8> = (0..len).map(|n| (n * 5) as u8).collect();
                let m = buffer(&mut gateway.stack, &payload);
                assert_eq!(gateway.stack.udp_send_mbuf_between(ends, IP, m, 0, NOW), Ok(len));
                exchange(&mut gateway, &mut guest);
                assert!(received(&mut guest, socket) == [(asked, payload)], "{len}");
            }
            assert_eq!(guest.stack.drops().total(), 0);
            gateway.stack.settle();
            guest.stack.settle();
            assert_eq!(gateway.stack.pool().outstanding(), 0);
        }
    }
}

#[test]
fn a_received_buffer_may_be_sent_on() {
    let (mut guest, mut gateway) = guest_and_gateway(&config(IpVersion::V4));
    let (socket, asked) = ask(&mut guest, b"echo this");
    exchange(&mut guest, &mut gateway);
    let datagram = take(&mut gateway.stack).remove(0);
    let ends = (datagram.flow.dst, datagram.flow.src);
    let sent = gateway.stack.udp_send_mbuf_between(ends, IP, datagram.payload, 0, NOW);
    assert_eq!(sent, Ok(9));
    exchange(&mut gateway, &mut guest);
    assert_eq!(received(&mut guest, socket), [(asked, b"echo this".to_vec())]);
}

#[test]
fn ttl_and_tos_are_the_callers() {
    let mut bench = crate::tests::craft::Bench::new(&config(IpVersion::V4));
    let (from, to) = (SocketAddr::new(other(IpVersion::V4), 53), SocketAddr::new(bench.theirs, 9));
    bench.stack.udp_send_between(from, to, IP, b"x", NOW).expect("sent");
    let later = IpSettings { ttl: 3, ..IP };
    bench.stack.udp_send_between(from, to, later, b"x", NOW).expect("sent");
    let frames = bench.sent();
    assert_eq!((frames[0][15], frames[0][22], frames[1][22]), (0x88, 57, 3));
    assert_eq!(frames[0][26..30], [198, 51, 100, 53]);
}

#[test]
fn ends_that_no_host_can_have_are_refused() {
    let (_, mut gateway) = guest_and_gateway(&config(IpVersion::V4));
    let good: SocketAddr = "192.0.2.1:9".parse().expect("an address");
    let send = |stack: &mut Stack, from: &str, to: SocketAddr| {
        stack.udp_send_between(from.parse().expect("an address"), to, IP, b"x", NOW)
    };
    for from in ["0.0.0.0:9", "224.0.0.1:9", "127.0.0.1:9", "192.0.2.255:9", "[2001:db8::9]:9"] {
        assert_eq!(send(&mut gateway.stack, from, good), Err(UdpError::NoAddress), "{from}");
    }
    for to in ["0.0.0.0:9", "224.0.0.1:9", "127.0.0.1:9", "192.0.2.255:9"] {
        let to = to.parse().expect("an address");
        let refused = UdpError::Unsendable(DropReason::IpMartianDestination);
        assert_eq!(send(&mut gateway.stack, "198.51.100.1:9", to), Err(refused), "{to}");
    }
    let unroutable = "203.0.113.1:9".parse().expect("an address");
    let refused = UdpError::Unsendable(DropReason::IpNoRoute);
    assert_eq!(send(&mut gateway.stack, "198.51.100.1:9", unroutable), Err(refused));
    let ends = ("198.51.100.1:9".parse().expect("an address"), good);
    let stack = &mut gateway.stack;
    let segments = stack.udp_send_segments_between(ends, IP, &[0; 200], 0, NOW);
    assert_eq!(segments, Err(UdpError::InvalidSegments));
    let long = stack.udp_send_segments_between(ends, IP, &[0; 4_000], 2_000, NOW);
    assert!(matches!(long, Err(UdpError::TooBig(_))));
    let m = buffer(stack, &[0; 4_000]);
    assert!(matches!(
        stack.udp_send_mbuf_between(ends, IP, m, 2_000, NOW),
        Err(UdpError::TooBig(_))
    ));
    assert_eq!(stack.pool().outstanding(), 0, "the buffer was the stack's");
}
