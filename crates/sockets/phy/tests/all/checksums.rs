//! Devices that compute or verify checksums themselves, and devices on which nobody does.

use smoltcp::phy::{Checksum, ChecksumCapabilities, Medium};
use wirespeed_phy::FromPhy;

use crate::wire::pair;
use crate::world::World;

fn caps(ip: Checksum, tcp: Checksum, udp: Checksum, icmp: Checksum) -> ChecksumCapabilities {
    let mut caps = ChecksumCapabilities::default();
    (caps.ipv4, caps.tcp, caps.udp) = (ip, tcp, udp);
    (caps.icmpv4, caps.icmpv6) = (icmp, icmp);
    caps
}

/// smoltcp sends every checksum as zero, and ignores ours, as on its `Loopback`. Neighbour
/// discovery is ICMPv6, so these need its checksum too.
#[test]
fn nobody_computes_them() {
    for medium in [Medium::Ethernet, Medium::Ip] {
        for version in [0, 1] {
            let world = || {
                let (mut a, mut b) = pair(medium, 1_514, 64);
                a.checksum = ChecksumCapabilities::ignored();
                b.checksum = ChecksumCapabilities::ignored();
                World::new(FromPhy::new(a).unwrap(), b)
            };
            world().echo_tcp(version, 100_000);
            world().echo_udp(version, 1_000);
        }
    }
}

/// A field that the device computes leaves as zero, and the others leave whole.
#[test]
fn fields_of_the_device_leave_as_zero() {
    use Checksum::{Both, None, Rx, Tx};
    for (tcp, is_zero) in [(Both, false), (Tx, false), (Rx, true), (None, true)] {
        for udp in [Both, Rx] {
            let (mut a, b) = pair(Medium::Ip, 1_500, 64);
            a.checksum = caps(Both, tcp, udp, Both);
            let sent = a.tx.clone();
            let mut world = World::new(FromPhy::new(a).unwrap(), b);
            let to = "192.0.2.2:7".parse().unwrap();
            let now = world.now();
            world
                .stack
                .tcp_connect(to, Option::None, &Default::default(), base::Owner::program(), now)
                .unwrap();
            world.stack.poll(now);
            let syn = sent.lock().unwrap().pop_front().expect("a SYN");
            assert_ne!(syn[10..12], [0, 0], "the IP header's is ours");
            assert_eq!(syn[36..38] == [0, 0], is_zero, "{tcp:?}, UDP {udp:?}");
        }
    }
}

/// What a device says to verify is verified.
#[test]
fn a_wrong_checksum_is_dropped_unless_the_device_has_verified_it() {
    for (tcp, answers) in [(Checksum::Both, 0), (Checksum::Tx, 1)] {
        let (mut a, b) = pair(Medium::Ip, 1_500, 64);
        a.checksum = caps(Checksum::Both, tcp, Checksum::Tx, Checksum::Both);
        let (sent, received) = (a.tx.clone(), a.rx.clone());
        let mut world = World::new(FromPhy::new(a).unwrap(), b);
        let socket = world.tcp_socket();
        let client = world.sockets.get_mut::<smoltcp::socket::tcp::Socket>(socket);
        let to = ("192.0.2.1".parse::<std::net::Ipv4Addr>().unwrap(), 9);
        client.connect(world.iface.context(), to, 50_000).unwrap();
        let now = smoltcp::time::Instant::from_micros(10);
        world.iface.poll(now, &mut world.device, &mut world.sockets);
        received.lock().unwrap()[0][36] ^= 1;
        world.stack.poll(world.now());
        assert_eq!(sent.lock().unwrap().len(), answers, "answers with {tcp:?}");
    }
}
