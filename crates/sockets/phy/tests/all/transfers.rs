//! TCP and UDP between a stack of ours and an interface of smoltcp: by a device of smoltcp as our
//! port, and by a device of ours as smoltcp's.

use base::{LinkKind, Mtu};
use device::{Offloads, mem};
use smoltcp::phy::Medium;
use wirespeed_phy::{AsPhy, FromPhy};

use crate::wire::pair;
use crate::world::World;

const LEN: usize = 300_000;

#[test]
fn a_device_of_smoltcp_is_a_port() {
    for (medium, mtu) in [(Medium::Ethernet, 1_514), (Medium::Ip, 1_500), (Medium::Ip, 1_280)] {
        for version in [0, 1] {
            let (a, b) = pair(medium, mtu, 64);
            World::new(FromPhy::new(a).unwrap(), b).echo_tcp(version, LEN);
            let (a, b) = pair(medium, mtu, 64);
            World::new(FromPhy::new(a).unwrap(), b).echo_tcp_from_theirs(version, LEN);
            let (a, b) = pair(medium, mtu, 64);
            World::new(FromPhy::new(a).unwrap(), b).echo_udp(version, 1_000);
        }
    }
}

#[test]
fn a_device_of_ours_is_one_of_smoltcp() {
    for link in [LinkKind::Ethernet, LinkKind::Ip] {
        for version in [0, 1] {
            let world = || {
                let (a, b) = mem::pair(&mem::Config { link, ..mem::Config::default() });
                World::new(a, AsPhy::new(b, 1 << 20))
            };
            world().echo_tcp(version, LEN);
            world().echo_tcp_from_theirs(version, LEN);
            world().echo_udp(version, 1_000);
        }
    }
}

/// Our stack leaves checksums unfinished and sends super-segments; smoltcp gets neither.
#[test]
fn smoltcp_sees_no_offloads() {
    let offloads = Offloads {
        tx_checksum: true,
        rx_checksum: true,
        tso_max_bytes: 60_000,
        ..Offloads::default()
    };
    for version in [0, 1] {
        let world = || {
            let config = mem::Config { offloads, ..mem::Config::default() };
            let (a, b) = mem::pair(&config);
            World::new(a, AsPhy::new(b, 4 << 20))
        };
        world().echo_tcp(version, LEN);
        world().echo_tcp_from_theirs(version, LEN);
        world().echo_udp(version, 1_000);
    }
}

/// Both kinds push back, and nothing is lost.
#[test]
fn narrow_devices_push_back() {
    for depth in [1, 2, 5] {
        let (a, b) = pair(Medium::Ip, 1_500, depth);
        let mut world = World::new(FromPhy::new(a).unwrap(), b);
        world.echo_tcp(0, 50_000);
        assert_eq!(world.stack.drops().total(), 0);
        let mtu = Mtu::new(1_500).unwrap();
        let config = mem::Config { depth, link: LinkKind::Ip, mtu, ..mem::Config::default() };
        let (a, b) = mem::pair(&config);
        let mut world = World::new(a, AsPhy::new(b, 1 << 20));
        world.echo_tcp(0, 50_000);
        assert_eq!(world.device.drops().total(), 0);
    }
}
