//! ICMP redirects: from which hosts, about which packets, to which gateways and for how long they
//! are accepted. RFC 1122 section 3.2.2.2.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{Counter, DropReason, Duration, IpVersion, Limit, Owner};
use inet::{Route, RouteOrigin};

use super::craft::{Bench, frame_between};
use super::icmp::{NOW, bench};
use crate::{PortId, pair};

const PORT: PortId = PortId(0);

fn v4(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A stack with a far host beyond the first hop 192.0.2.2; the better first hop is 192.0.2.3.
fn routed() -> (Bench, SocketAddr, IpAddr) {
    let mut bench = bench(IpVersion::V4);
    let any = "0.0.0.0/0".parse().expect("a network");
    bench.stack.add_route(Route::new(any, Some(bench.theirs), PORT.0));
    let better = v4("192.0.2.3");
    bench.stack.add_neighbour(PORT, better, pair::mac(3));
    (bench, SocketAddr::new(v4("198.51.100.7"), 80), better)
}

/// A redirect to `gateway`, sent by `from`, which quotes `packet`.
fn redirect(bench: &Bench, from: IpAddr, gateway: IpAddr, packet: &[u8], code: u8) -> Vec<u8> {
    let IpAddr::V4(gateway) = gateway else { panic!("IPv4") };
    let mut message = vec![0; 8];
    message.extend_from_slice(&packet[..28]);
    wire::icmp::Header::Redirect { code, gateway }.emit(&mut message);
    frame_between(from, bench.ours, 1, &message)
}

fn redirects(bench: &Bench) -> usize {
    bench.stack.routes.iter().filter(|r| r.origin == RouteOrigin::Redirect).count()
}

/// RFC 1122 3.2.2.2-b, 3.2.2.2-c, 3.2.2.2-d, 3.3.1.1-a.
#[test]
fn icmp_redirect_only_from_the_current_first_hop() {
    for code in 0..4 {
        let (mut bench, far, better) = routed();
        let config = tcp::Config::default();
        let first_hop = bench.theirs;
        bench.stack.tcp_connect(far, None, &config, Owner::program(), NOW).expect("routed");
        let syn = bench.sent().remove(0);
        assert_eq!(syn[..6], pair::mac(2).0);
        let packet = syn[14..].to_vec();
        let mut wrong_port = packet.clone();
        wrong_port[21] ^= 1;
        let mut wrong_seq = packet.clone();
        wrong_seq[24] ^= 0x80;
        let mut wrong_source = packet.clone();
        wrong_source[15] ^= 1;
        for (from, gateway, packet, why) in [
            (better, better, &packet, DropReason::RedirectRefused),
            (v4("192.0.2.9"), better, &packet, DropReason::RedirectRefused),
            (far.ip(), better, &packet, DropReason::RedirectRefused),
            // Redirects to the first hop itself, to no neighbour, to the stack, to a broadcast
            // address, to no host.
            (first_hop, v4("203.0.113.1"), &packet, DropReason::RedirectRefused),
            (first_hop, bench.ours, &packet, DropReason::RedirectRefused),
            (first_hop, v4("192.0.2.255"), &packet, DropReason::RedirectRefused),
            (first_hop, v4("192.0.2.0"), &packet, DropReason::RedirectRefused),
            (first_hop, v4("0.0.0.0"), &packet, DropReason::RedirectRefused),
            (first_hop, v4("224.0.0.1"), &packet, DropReason::RedirectRefused),
            (first_hop, v4("127.0.0.1"), &packet, DropReason::RedirectRefused),
            // A redirect about a packet that the stack did not send.
            (first_hop, better, &wrong_port, DropReason::IcmpErrorNoMatch),
            (first_hop, better, &wrong_seq, DropReason::IcmpErrorNoMatch),
            (first_hop, better, &wrong_source, DropReason::IcmpErrorNoMatch),
        ] {
            let before = bench.stack.drops().of(why);
            let frame = redirect(&bench, from, gateway, packet, code);
            bench.exchange(&frame, NOW);
            assert_eq!(bench.stack.drops().of(why), before + 1, "{from} {gateway} {why:?}");
            assert_eq!(redirects(&bench), 0);
        }
        let frame = redirect(&bench, first_hop, better, &packet, code);
        bench.exchange(&frame, NOW);
        assert_eq!(bench.stack.counters().of(Counter::Redirects), 1);
        // The connection uses the new first hop, and so do new connections.
        let again = bench.poll(NOW + Duration::from_millis(1_100)).remove(0);
        assert_eq!(again[..6], pair::mac(3).0);
        // Redirects from the former first hop are not accepted any more.
        let frame = redirect(&bench, first_hop, v4("192.0.2.4"), &packet, code);
        bench.exchange(&frame, NOW);
        assert_eq!(bench.stack.drops().of(DropReason::RedirectRefused), 11);
        // Packets to another destination leave as before.
        let other = SocketAddr::new(v4("198.51.100.8"), 80);
        bench.stack.tcp_connect(other, None, &config, Owner::program(), NOW).expect("routed");
        assert!(bench.sent().iter().any(|frame| frame[..6] == pair::mac(2).0));
    }
}

#[test]
fn a_redirect_is_followed_for_ten_minutes_by_datagrams_and_echoes() {
    let (mut bench, far, better) = routed();
    let at = SocketAddr::new(bench.ours, 9);
    let udp = bench.stack.udp_bind(at, Owner::program()).expect("free");
    let ping = bench.stack.ping_open(Owner::program()).expect("a socket");
    bench.stack.ping_send(ping, far.ip(), 1, b"12345678", NOW).expect("sent");
    let echo = bench.sent().remove(0);
    let mut other = echo[14..].to_vec();
    other[24] ^= 1;
    let hop = bench.theirs;
    let frame = redirect(&bench, hop, better, &other, 1);
    bench.exchange(&frame, NOW);
    assert_eq!(
        redirects(&bench),
        0,
        "a redirect about an identifier without a socket was accepted"
    );
    let frame = redirect(&bench, hop, better, &echo[14..], 1);
    bench.exchange(&frame, NOW);
    let to = |bench: &mut Bench, at| {
        bench.stack.udp_send(udp, far, b"x", at).expect("sent");
        bench.sent().remove(0)[..6].to_vec()
    };
    assert_eq!(to(&mut bench, NOW), pair::mac(3).0);
    let end = NOW + Duration::from_secs(600);
    assert_eq!(bench.stack.next_deadline(), end);
    bench.poll(end);
    assert_eq!(redirects(&bench), 0);
    assert_eq!(to(&mut bench, end), pair::mac(2).0);
    // A redirect about a datagram is accepted, but not about a datagram of no socket.
    bench.stack.udp_send(udp, far, b"x", end).expect("sent");
    let datagram = bench.sent().remove(0);
    let mut other = datagram[14..].to_vec();
    other[21] ^= 1;
    let frame = redirect(&bench, hop, better, &other, 0);
    bench.exchange(&frame, end);
    assert_eq!(redirects(&bench), 0);
    let frame = redirect(&bench, hop, better, &datagram[14..], 0);
    bench.exchange(&frame, end);
    assert_eq!(redirects(&bench), 1);
}

#[test]
fn redirects_are_bounded_and_leave_the_users_routes() {
    let (mut bench, _, better) = routed();
    bench.stack.core.cx.budget.set(Limit::Redirects, 8);
    let at = SocketAddr::new(bench.ours, 9);
    let udp = bench.stack.udp_bind(at, Owner::program()).expect("free");
    let hop = bench.theirs;
    let mine = Ipv4Addr::new(198, 51, 100, 99);
    let dest = format!("{mine}/32").parse().expect("a host");
    bench.stack.add_route(Route::new(dest, Some(hop), PORT.0));
    let send = |bench: &mut Bench, host: IpAddr, ms: u64| {
        let now = NOW + Duration::from_millis(ms);
        bench.stack.udp_send(udp, SocketAddr::new(host, 9), b"x", now).expect("sent");
        let datagram = bench.sent().remove(0);
        let frame = redirect(bench, hop, better, &datagram[14..], 1);
        bench.exchange(&frame, now);
    };
    send(&mut bench, mine.into(), 0);
    assert_eq!(redirects(&bench), 0, "a redirect replaced the user's host route");
    for n in 1..=40 {
        send(&mut bench, Ipv4Addr::new(198, 51, 100, n).into(), u64::from(n) * 10);
        assert!(redirects(&bench) <= 8);
    }
    assert_eq!(redirects(&bench), 8);
    assert!(bench.stack.budget().hits(Limit::Redirects) == 32);
    // The newest redirects are kept.
    let newest = v4("198.51.100.40");
    assert!(bench.stack.routes.iter().any(|r| r.dest.addr == newest && r.dest.prefix_len == 32));
}

/// RFC 1122 section 3.3.1.4: a gateway that does not answer is dead, whoever has named it.
/// RFC 1122 3.3.1.4-a.
#[test]
fn a_gateway_that_does_not_answer_is_forgotten() {
    let (mut bench, far, _) = routed();
    let at = SocketAddr::new(bench.ours, 9);
    let udp = bench.stack.udp_bind(at, Owner::program()).expect("free");
    bench.stack.udp_send(udp, far, b"x", NOW).expect("sent");
    let datagram = bench.sent().remove(0);
    let hop = bench.theirs;
    let frame = redirect(&bench, hop, v4("192.0.2.66"), &datagram[14..], 1);
    bench.exchange(&frame, NOW);
    assert_eq!(redirects(&bench), 1);
    bench.stack.udp_send(udp, far, b"x", NOW).expect("queued");
    for ms in (0..4_000).step_by(100) {
        bench.poll(NOW + Duration::from_millis(ms));
    }
    assert_eq!(redirects(&bench), 0);
    bench.stack.udp_send(udp, far, b"x", NOW).expect("sent");
    assert_eq!(bench.sent().remove(0)[..6], pair::mac(2).0);
}
