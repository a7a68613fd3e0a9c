//! What a card does for a guest that keeps the rules.

use base::{DropReason, LinkKind};
use device::vnet::{GSO_NONE, GSO_TCPV4, Header};
use device::{Burst, Device};
use mbuf::{Flags, Pool};
use vhost::VhostBackend;
use wirespeed_virtio::VhostUser;

use crate::guest::{
    ALL, CSUM, EVENT_IDX, GUEST_CSUM, GUEST_TSO, Guest, HOST_TSO, MRG_RXBUF, RX, TX, VERSION_1,
};
use crate::world::{BIG, SMALL, World, beside, connect, place, wakes, woken_within};

/// Sets of features that drivers have.
const SETS: [u64; 4] = [ALL, VERSION_1, VERSION_1 | MRG_RXBUF, VERSION_1 | EVENT_IDX | GUEST_CSUM];

/// A TCP segment over IPv4 and Ethernet with this much payload, and an unfinished checksum.
fn segment(payload: usize) -> Vec<u8> {
    let mut frame = vec![0; 14 + 20 + 20];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    let ip = &mut frame[14..34];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
    ip[6] = 0x40;
    (ip[8], ip[9]) = (64, 6);
    ip[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = ip.chunks(2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    (frame[46], frame[47]) = (0x50, 0x18);
    frame.extend((0..payload).map(|at| at as u8));
    frame
}

/// Send one segment of ours with its checksum left to the device; 0: no super-segment.
fn send_unfinished(world: &mut World, payload: usize, segment_size: u16) {
    let mut frame = world.pool.copy_of(&segment(payload)).expect("memory");
    frame.set(Flags::CSUM_PARTIAL);
    frame.set_csum(34);
    frame.set_segment_size(segment_size);
    let mut burst = Burst::new();
    burst.push(frame);
    assert_eq!(world.port.tx_burst(&mut world.pool, &mut burst), 1);
}

/// Is a TCP checksum right?
fn is_right(frame: &[u8]) -> bool {
    let ip = wire::ipv4::Header::parse(&frame[14..]).expect("a header");
    let tcp = &frame[34..14 + usize::from(ip.total_len)];
    let sum = wire::checksum::Sum::pseudo_v4(ip.src, ip.dst, 6);
    let sum = sum.plus(wire::checksum::Sum::of_be16(tcp.len() as u16));
    sum.plus(wire::checksum::Ladder::best().sum(tcp)).field() == [0, 0]
}

#[test]
fn frames_pass_in_both_directions_whatever_the_driver_can_do() {
    for features in SETS {
        let mut world = World::new(features, SMALL);
        for n in 1..=300_usize {
            let (up, down) = (vec![n as u8; 60 + n], vec![!n as u8; 60 + n]);
            assert!(world.guest.send([0; 10], &up));
            assert_eq!(world.received(), [up]);
            assert_eq!(world.sent(&[&down, &down[..60]]), 2);
            assert_eq!(world.guest.receive().expect("a frame").1, down);
            assert_eq!(world.guest.receive().expect("a frame").1, down[..60]);
        }
        assert!(world.guest.receive().is_none());
        let drops: Vec<_> = world.port.drops().expect("it counts").nonzero().collect();
        assert!(drops.is_empty(), "{drops:?}");
    }
}

#[test]
fn a_super_segment_of_64_kb_passes_whole_in_both_directions() {
    for (features, room) in [(ALL, SMALL), (ALL & !MRG_RXBUF, BIG)] {
        let mut world = World::new(features, room);
        send_unfinished(&mut world, 65_000, 1_448);
        let (header, bytes) = world.guest.receive().expect("a frame");
        assert_eq!(header.gso_type(), GSO_TCPV4);
        assert_eq!(header.asked(), (Some((34, 50)), 1_448));
        assert!(bytes == segment(65_000));
        assert!(world.guest.send(header.to_bytes(), &bytes));
        let mut burst = Burst::new();
        world.port.rx_burst(&mut world.pool, &mut burst);
        let frame = burst.pop().expect("a frame");
        assert_eq!(frame.segment_size(), 1_448);
        assert!(frame.has(Flags::CSUM_PARTIAL | Flags::CSUM_VERIFIED));
        assert!(frame.as_slice() == bytes);
    }
}

#[test]
fn what_a_guest_leaves_to_us_is_finished_here() {
    // No checksums; checksums without segmentation; nothing merged.
    for features in [VERSION_1 | MRG_RXBUF, VERSION_1 | GUEST_CSUM, VERSION_1] {
        let mut world = World::new(features, SMALL);
        send_unfinished(&mut world, 100, 0);
        let (header, bytes) = world.guest.receive().expect("a frame");
        let is_finished = !header.needs_checksum();
        assert_eq!(is_finished, features & GUEST_CSUM == 0);
        assert_eq!(is_right(&bytes), is_finished);
        send_unfinished(&mut world, 20_000, 1_448);
        let mut all = Vec::new();
        while let Some((header, bytes)) = world.guest.receive() {
            assert!(header.gso_type() == GSO_NONE && is_right(&bytes));
            all.extend_from_slice(&bytes[54..]);
        }
        assert!(all == segment(20_000)[54..], "{} bytes", all.len());
    }
}

#[test]
fn a_guest_without_buffers_pushes_back_and_wakes_us_when_it_has_some() {
    for features in [ALL, VERSION_1] {
        let mut world = World::new(features, SMALL);
        let frame = [7; 900];
        let mut sent = 0;
        while world.sent(&[&frame]) == 1 {
            sent += 1;
        }
        assert_eq!(sent, usize::from(crate::guest::SIZE));
        assert!(!world.port.tx_ready() && !world.port.rx_ready());
        let mut taken = 0;
        assert!(!wakes(&world.port), "nothing has changed");
        assert_eq!(world.sent(&[&frame]), 0);
        while world.guest.receive().is_some() {
            taken += 1;
        }
        assert_eq!(taken, sent);
        assert!(wakes(&world.port), "there are buffers");
        assert!(world.port.tx_ready());
        assert_eq!(world.sent(&[&frame]), 1);
        assert_eq!(world.guest.receive().expect("a frame").1, frame);
    }
}

#[test]
fn parts_of_a_finished_frame_wait_for_room_and_keep_their_order() {
    let mut world = World::new(VERSION_1, SMALL);
    let fills = usize::from(crate::guest::SIZE) - 5;
    for _ in 0..fills {
        assert_eq!(world.sent(&[&[1; 60]]), 1);
    }
    send_unfinished(&mut world, 20_000, 1_448);
    assert_eq!(world.sent(&[&[2; 60]]), 0, "it comes after the parts");
    let mut parts = Vec::new();
    for _ in 0..20 {
        while let Some((_, bytes)) = world.guest.receive() {
            if bytes.len() > 60 {
                parts.extend_from_slice(&bytes[54..]);
            }
        }
        // The notification alone lets the parts go on.
        world.received();
    }
    assert!(parts == segment(20_000)[54..]);
    assert_eq!(world.sent(&[&[2; 60]]), 1);
}

#[test]
fn a_sleeping_port_is_woken_and_a_busy_one_is_not() {
    for features in [ALL, VERSION_1] {
        let mut world = World::new(features, SMALL);
        assert!(world.received().is_empty());
        assert!(!world.port.rx_ready() && !wakes(&world.port));
        assert!(world.guest.send([0; 10], &[1; 60]));
        assert!(wakes(&world.port) && world.port.rx_ready());
        // From here on we are at work, and nobody asked to be woken.
        assert_eq!(world.received().len(), 1);
        let _ = world.guest.rings[TX].kick.read();
        for _ in 0..50 {
            assert!(world.guest.send([0; 10], &[1; 60]));
            assert!(world.guest.rings[TX].kick.read().is_err(), "we are at work");
        }
        assert_eq!(world.received().len(), 50);
        assert!(!world.port.rx_ready());
        assert!(!wakes(&world.port));
    }
}

#[test]
fn the_guest_is_called_when_it_wants_that() {
    let mut world = World::new(ALL, SMALL);
    world.guest.was_called(RX);
    world.guest.rings[RX].ask_for_calls(&world.guest.memory);
    assert_eq!(world.sent(&[[1_u8; 60].as_slice(); 8]), 8);
    assert!(world.guest.was_called(RX));
    // It has not asked again, so it is at work.
    assert_eq!(world.sent(&[[1_u8; 60].as_slice(); 8]), 8);
    assert!(!world.guest.was_called(RX));
}

#[test]
fn a_machine_that_goes_is_followed_by_the_next() {
    let (path, mut pool) = (place(), Pool::new(1 << 20));
    let mut port = VhostUser::listen(&path).expect("a place");
    let says = |port: &VhostUser| port.failure().map(ToString::to_string).unwrap_or_default();
    assert!(!port.link_up() && says(&port).contains("-netdev vhost-user"));
    for n in 1..=3 {
        let features = [ALL, VERSION_1][n % 2];
        let guest = connect(&mut port, &mut pool, &path, features, SMALL);
        let mut world = World { port, pool, guest, path: path.clone() };
        assert!(world.port.link_up());
        assert!(world.guest.send([0; 10], &[n as u8; 60]));
        assert_eq!(world.received(), [vec![n as u8; 60]]);
        assert_eq!(world.sent(&[&[4; 60]]), 1);
        assert_eq!(world.guest.receive().expect("a frame").1, [4; 60]);
        let dropped = world.dropped(DropReason::DeviceLinkDown);
        (port, pool) = world.without_guest();
        // The memory of the machine is still there; its frontend is not.
        assert!(wakes(&port) && port.rx_ready());
        assert_eq!(port.rx_burst(&mut pool, &mut Burst::new()), 0);
        assert!(!port.link_up() && !port.is_gone() && !wakes(&port));
        let mut burst = Burst::new();
        burst.push(pool.copy_of(&[1; 60]).expect("memory"));
        assert_eq!(port.tx_burst(&mut pool, &mut burst), 1);
        let now = port.drops().expect("it counts").of(DropReason::DeviceLinkDown);
        assert_eq!(now, dropped + 1);
    }
}

#[test]
fn we_connect_to_a_machine_that_listens_and_again_when_it_is_back() {
    let (path, mut pool) = (place(), Pool::new(1 << 20));
    let why = VhostUser::connect(&path).err().expect("nobody listens").to_string();
    assert!(why.contains("is the other end running?"), "{why}");
    let listen = || std::os::unix::net::UnixListener::bind(&path).expect("a place");
    let mut machine = listen();
    let mut port = VhostUser::connect(&path).expect("it listens");
    for round in 0..2 {
        let (socket, _) = machine.accept().expect("we connect");
        drop(machine);
        std::fs::remove_file(&path).expect("it was there");
        let frontend = vhost::vhost_user::Frontend::from_stream(socket, 2);
        let guest = beside(&mut port, &mut pool, move || Guest::start_at(frontend, ALL, SMALL));
        let mut world = World { port, pool, guest, path: path.clone() };
        assert!(world.guest.send([0; 10], &[round; 60]));
        assert_eq!(world.received(), [vec![round; 60]]);
        (port, pool) = world.without_guest();
        assert!(port.rx_ready(), "its end is news");
        assert_eq!(port.rx_burst(&mut pool, &mut Burst::new()), 0);
        assert!(!port.link_up());
        machine = listen();
        // The timer wakes us.
        assert!(port.rx_ready() || woken_within(&port, 5_000));
        assert_eq!(port.rx_burst(&mut pool, &mut Burst::new()), 0);
    }
}

#[test]
fn a_ring_that_stops_goes_on_where_it_was() {
    let mut world = World::new(ALL, SMALL);
    for n in 0..200 {
        assert!(world.guest.send([0; 10], &[n; 60]));
        assert_eq!(world.received(), [vec![n; 60]]);
    }
    let World { mut port, mut pool, mut guest, path } = world;
    guest = beside(&mut port, &mut pool, move || {
        // A machine that is reset, or saved and loaded.
        assert_eq!(guest.frontend.get_vring_base(TX).expect("an answer"), 200);
        assert_eq!(guest.frontend.get_vring_base(RX).expect("an answer"), 0);
        guest
    });
    assert!(!port.link_up());
    guest = beside(&mut port, &mut pool, move || {
        guest.rings[TX].collect(&guest.memory, |_, _| {});
        guest.start_ring(RX);
        guest.start_ring(TX);
        guest
    });
    let mut world = World { port, pool, guest, path };
    assert!(world.port.link_up());
    assert!(world.guest.send([0; 10], &[9; 60]));
    assert_eq!(world.received(), [vec![9; 60]]);
}

#[test]
fn features_are_offered_and_no_others_taken() {
    let world = World::new(ALL, SMALL);
    let asked = CSUM | HOST_TSO | GUEST_TSO;
    assert_eq!(world.guest.offered & asked, asked);
    assert_eq!(world.guest.features, ALL);
    // 22: several queues.
    assert_eq!(world.guest.offered & 1 << 22, 0);
    let header = Header::default().to_bytes();
    assert_eq!(header, [0; 10], "a plain frame has nothing in its header");
    assert_eq!(world.port.limits().link, LinkKind::Ethernet);
}
