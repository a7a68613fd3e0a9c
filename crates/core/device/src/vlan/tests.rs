//! A trunk over `mem`, whose other end the test reads; the tag code compared with the stack's.

mod tagged;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use base::{DropReason, Drops};
use mbuf::{Flags, Mbuf, Pool};
use proptest::collection;
use proptest::prelude::*;

use super::*;
use crate::{Burst, Offloads, mem};

const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

/// A frame of `len` bytes with these tags, EtherType 0x88b5, then `number` in every byte.
fn bytes(tags: &[(u16, u16)], number: u8, len: usize) -> Vec<u8> {
    let mut bytes = ADDRESSES.to_vec();
    for (protocol, control) in tags {
        bytes.extend(protocol.to_be_bytes());
        bytes.extend(control.to_be_bytes());
    }
    bytes.extend([0x88, 0xb5]);
    bytes.resize(len, number);
    bytes
}

fn wire(offloads: Offloads) -> (mem::Mem, mem::Mem) {
    mem::pair(&mem::Config { offloads, ..mem::Config::default() })
}

fn trunk(ids: &[Id]) -> (Vec<Port>, mem::Mem) {
    let (ours, theirs) = wire(Offloads::default());
    (split(Box::new(ours), TAG, ids).expect("a good trunk"), theirs)
}

fn send(device: &mut impl Device, pool: &mut Pool, frames: &[Vec<u8>]) {
    let mut burst: Burst = frames.iter().map(|f| pool.copy_of(f).expect("room")).collect();
    device.tx_burst(pool, &mut burst);
    assert!(burst.is_empty());
}

fn receive(device: &mut impl Device, pool: &mut Pool) -> Vec<Mbuf> {
    let mut burst = Burst::new();
    device.rx_burst(pool, &mut burst);
    burst.into_iter().collect()
}

fn slices(frames: &[Mbuf]) -> Vec<Vec<u8>> {
    frames.iter().map(|frame| frame.as_slice().to_vec()).collect()
}

#[test]
fn each_port_has_its_frames_and_the_rest_is_nobodys() {
    let mut pool = Pool::new(4 << 20);
    let (mut ports, mut peer) = trunk(&[Id::Vlan(5), Id::Vlan(6), Id::Untagged]);
    let sent = [
        bytes(&[(TAG, 0xa005)], 1, 64),
        bytes(&[(TAG, 6)], 2, 64),
        bytes(&[], 3, 64),
        bytes(&[(TAG, 0xe000)], 4, 64),
        bytes(&[(TAG, 7)], 5, 64),
        bytes(&[(TAG, 5)], 6, 64),
        bytes(&[(SERVICE_TAG, 5)], 7, 64),
    ];
    send(&mut peer, &mut pool, &sent);
    // Send a frame with a truncated tag, and one with a tag that no EtherType follows.
    send(&mut peer, &mut pool, &[sent[0][..15].to_vec(), sent[0][..17].to_vec()]);
    let of_five = receive(&mut ports[0], &mut pool);
    assert_eq!(slices(&of_five), [bytes(&[], 1, 60), bytes(&[], 6, 60)]);
    assert!(of_five[0].has(Flags::VLAN) && of_five[0].vlan() == 0xa005, "its priority stays");
    assert!(ports[1].rx_ready());
    assert_eq!(slices(&receive(&mut ports[1], &mut pool)), [bytes(&[], 2, 60)]);
    let untagged = [bytes(&[], 3, 64), bytes(&[], 4, 60), bytes(&[(SERVICE_TAG, 5)], 7, 64)];
    assert_eq!(slices(&receive(&mut ports[2], &mut pool)), untagged);
    receive(&mut ports[0], &mut pool);
    let drops = ports[0].drops().expect("it counts");
    assert_eq!([DropReason::VlanUnknown, DropReason::EtherShort].map(|r| drops.of(r)), [1, 2]);
    drop(of_five);
    assert_eq!(pool.outstanding(), 0);
}

/// A priority tag does not decide which port gets a frame; the tag after it does.
#[test]
fn a_frame_with_a_priority_tag_is_whose_it_is_without() {
    let mut pool = Pool::new(4 << 20);
    let (mut ports, mut peer) = trunk(&[Id::Vlan(5), Id::Untagged]);
    let sent = [
        bytes(&[(TAG, 0xa000), (TAG, 5)], 1, 64),
        bytes(&[(TAG, 0)], 2, 64),
        bytes(&[(SERVICE_TAG, 0xe000)], 3, 64),
        bytes(&[(SERVICE_TAG, 0), (TAG, 0), (TAG, 5)], 4, 64),
        bytes(&[(TAG, 5), (TAG, 0)], 5, 64),
        bytes(&[(TAG, 0), (TAG, 0), (TAG, 0)], 6, 64),
    ];
    send(&mut peer, &mut pool, &sent);
    let of_five = slices(&receive(&mut ports[0], &mut pool));
    let behind = bytes(&[(TAG, 0)], 5, 60);
    assert_eq!(of_five, [bytes(&[], 1, 56), bytes(&[], 4, 52), behind.clone()]);
    let untagged = slices(&receive(&mut ports[1], &mut pool));
    assert_eq!(untagged, [bytes(&[], 2, 60), bytes(&[], 3, 60)]);
    receive(&mut ports[0], &mut pool);
    assert_eq!(ports[0].drops().map(|d| d.of(DropReason::VlanUnknown)), Some(1), "three tags");
    // Inside a VLAN the stack removes the priority tag. If another handle shares the frame, the tag
    // is removed in a copy.
    let mut frame = pool.copy_of(&behind).expect("room");
    let other = pool.share(&mut frame);
    assert!(strip_priority(&mut frame, &mut pool));
    assert_eq!((frame.as_slice(), frame.vlan()), (&bytes(&[], 5, 56)[..], 0));
    assert!(!strip_priority(&mut frame, &mut pool));
    assert_eq!(other.expect("room").as_slice(), behind);
}

#[test]
fn frames_leave_with_the_ports_tag_and_their_own_priority() {
    let mut pool = Pool::new(4 << 20);
    let (mut ports, mut peer) = trunk(&[Id::Vlan(5), Id::Untagged]);
    let mut urgent = pool.copy_of(&bytes(&[], 1, 60)).expect("room");
    urgent.set(Flags::VLAN);
    urgent.set_vlan(0xb007);
    let plain = pool.copy_of(&bytes(&[], 2, 60)).expect("room");
    let mut burst = Burst::from_iter([urgent, plain]);
    assert_eq!(ports[0].tx_burst(&mut pool, &mut burst), 2);
    send(&mut ports[1], &mut pool, &[bytes(&[], 3, 60)]);
    let got = slices(&receive(&mut peer, &mut pool));
    let wanted = [bytes(&[(TAG, 0xb005)], 1, 64), bytes(&[(TAG, 5)], 2, 64), bytes(&[], 3, 60)];
    assert_eq!(got, wanted);
    // A frame without an EtherType is dropped and counted.
    send(&mut ports[0], &mut pool, &[vec![1; 13]]);
    receive(&mut ports[0], &mut pool);
    assert_eq!(ports[0].drops().map(|d| d.of(DropReason::EtherShort)), Some(1));
}

#[test]
fn the_tag_is_the_one_that_the_stack_reads() {
    let mut pool = Pool::new(1 << 20);
    for (priority, drop_eligible, id) in [(0, false, 1), (7, true, 4094), (3, false, 100)] {
        let header = wire::vlan::Header { priority, drop_eligible, id, ethertype: 0x88b5 };
        let mut control = [0; 4];
        assert!(header.emit(&mut control));
        let tagged = bytes(&[(TAG, u16::from_be_bytes([control[0], control[1]]))], 9, 70);
        let mut frame = pool.copy_of(&bytes(&[], 9, 66)).expect("room");
        let tci = u16::from(priority) << 13 | u16::from(drop_eligible) << 12 | id;
        tag::push(&mut frame, TAG, tci, &mut pool).expect("room");
        assert_eq!(frame.as_slice(), tagged);
        assert_eq!(wire::vlan::Header::parse(&frame.as_slice()[14..]), Ok(header));
        tag::pop(&mut frame);
        assert_eq!(frame.as_slice(), bytes(&[], 9, 66));
    }
}

proptest! {
    /// For any frame: a pushed tag is found, and popping it restores the frame.
    #[test]
    fn what_is_pushed_comes_out_again(
        bytes in collection::vec(any::<u8>(), 0..200),
        protocol: u16,
        control: u16,
        partial: bool,
    ) {
        let mut pool = Pool::new(1 << 20);
        let mut frame = pool.copy_of(&bytes).expect("room");
        if partial {
            frame.set(Flags::CSUM_PARTIAL);
            frame.set_csum(34);
        }
        tag::find(&bytes, protocol);
        if tag::push(&mut frame, protocol, control, &mut pool).is_ok() {
            prop_assert_eq!(frame.len(), bytes.len() + tag::LEN);
            prop_assert_eq!(tag::find(frame.as_slice(), protocol), tag::Found::Tag(control));
            prop_assert_eq!(frame.csum(), if partial { 38 } else { 0 });
            tag::pop(&mut frame);
        } else {
            prop_assert!(bytes.len() < 14);
        }
        prop_assert_eq!(frame.as_slice(), &bytes[..]);
        prop_assert_eq!(frame.csum(), if partial { 34 } else { 0 });
    }
}

#[test]
fn two_tags_are_a_trunk_on_a_port_of_a_trunk() {
    let mut pool = Pool::new(4 << 20);
    let (ours, mut peer) = wire(Offloads::default());
    let outer = split(Box::new(ours), SERVICE_TAG, &[Id::Vlan(7)]).expect("a good trunk");
    let outer = outer.into_iter().next().expect("one port");
    let mut inner = split(Box::new(outer), TAG, &[Id::Vlan(5), Id::Vlan(6)]).expect("a trunk");
    let both = |id, number| bytes(&[(SERVICE_TAG, 7), (TAG, id)], number, 68);
    send(&mut peer, &mut pool, &[both(6, 1), both(5, 2), bytes(&[(SERVICE_TAG, 8)], 3, 64)]);
    assert_eq!(slices(&receive(&mut inner[0], &mut pool)), [bytes(&[], 2, 60)]);
    assert_eq!(slices(&receive(&mut inner[1], &mut pool)), [bytes(&[], 1, 60)]);
    receive(&mut inner[0], &mut pool);
    assert_eq!(inner[0].drops().map(|d| d.of(DropReason::VlanUnknown)), Some(1));
    send(&mut inner[1], &mut pool, &[bytes(&[], 4, 60)]);
    assert_eq!(slices(&receive(&mut peer, &mut pool)), [both(6, 4)]);
}

#[test]
fn offloads_know_of_the_tag() {
    let mut pool = Pool::new(4 << 20);
    let all = Offloads {
        tx_checksum: true,
        rx_checksum: true,
        tso_max_bytes: 65_549,
        uso_max_bytes: 0,
        gro: false,
    };
    let (ours, mut peer) = wire(all);
    let mut ports = split(Box::new(ours), TAG, &[Id::Vlan(5)]).expect("a good trunk");
    assert_eq!(ports[0].limits().offloads.tso_max_bytes, 65_545);
    let mut large = pool.copy_of(&bytes(&[], 1, 9_000)).expect("room");
    large.set(Flags::CSUM_PARTIAL);
    large.set_csum(34);
    large.set_segment_size(1_400);
    let mut burst = Burst::from_iter([large]);
    ports[0].tx_burst(&mut pool, &mut burst);
    let got = receive(&mut peer, &mut pool);
    assert_eq!(slices(&got), [bytes(&[(TAG, 5)], 1, 9_004)]);
    assert_eq!(got[0].segment_size(), 1_400);
    let mut back = pool.copy_of(got[0].as_slice()).expect("room");
    back.set(Flags::CSUM_PARTIAL);
    back.set_csum(38);
    back.set_segment_size(1_400);
    let mut burst = Burst::from_iter([back]);
    peer.tx_burst(&mut pool, &mut burst);
    let got = receive(&mut ports[0], &mut pool);
    assert_eq!(slices(&got), [bytes(&[], 1, 9_000)]);
    assert_eq!(got[0].segment_size(), 1_400);
}

#[test]
fn what_is_pushed_back_is_as_it_was_offered() {
    let mut pool = Pool::new(4 << 20);
    let (ours, mut peer) = mem::pair(&mem::Config { depth: 3, ..mem::Config::default() });
    let mut ports = split(Box::new(ours), TAG, &[Id::Vlan(5)]).expect("a good trunk");
    let mut burst: Burst =
        (0..8).map(|n| pool.copy_of(&bytes(&[], n, 60)).expect("room")).collect();
    for frame in &mut burst {
        frame.set(Flags::CSUM_PARTIAL);
        frame.set_csum(34);
    }
    let mut got = Vec::new();
    while !burst.is_empty() {
        ports[0].tx_burst(&mut pool, &mut burst);
        let offered = |frame: &Mbuf| frame.len() == 60 && frame.csum() == 34;
        assert!(burst.iter().all(offered));
        got.extend(slices(&receive(&mut peer, &mut pool)));
    }
    let wanted: Vec<_> = (0..8).map(|n| bytes(&[(TAG, 5)], n, 64)).collect();
    assert_eq!(got, wanted);
}

#[test]
fn a_port_that_nobody_empties_loses_its_own_frames_alone() {
    let mut pool = Pool::new(64 << 20);
    let (mut ports, mut peer) = trunk(&[Id::Vlan(5), Id::Vlan(6)]);
    let many = trunk::QUEUE + 100;
    for n in 0..many {
        send(&mut peer, &mut pool, &[bytes(&[(TAG, 6)], n as u8, 64)]);
        assert!(receive(&mut ports[0], &mut pool).is_empty());
    }
    send(&mut peer, &mut pool, &[bytes(&[(TAG, 5)], 1, 64)]);
    assert_eq!(receive(&mut ports[0], &mut pool).len(), 1);
    receive(&mut ports[0], &mut pool);
    assert_eq!(ports[0].drops().map(|d| d.of(DropReason::DeviceRingFull)), Some(100));
    // A dropped port gets no frames, and its queued frames are freed.
    drop(ports.pop());
    send(&mut peer, &mut pool, &[bytes(&[(TAG, 6)], 1, 64)]);
    receive(&mut ports[0], &mut pool);
    assert_eq!(ports[0].drops().map(|d| d.of(DropReason::VlanUnknown)), Some(1));
    assert_eq!(pool.outstanding(), 0);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn whoever_takes_a_frame_for_a_sleeper_wakes_it() {
    let mut pool = Pool::new(4 << 20);
    let (mut ports, mut peer) = trunk(&[Id::Vlan(5), Id::Vlan(6)]);
    let woken = [Arc::new(Woken::default()), Arc::new(Woken::default())];
    let times = || woken.each_ref().map(|w| w.0.load(Ordering::Relaxed));
    for (port, woken) in ports.iter_mut().zip(&woken) {
        assert!(port.arm(&woken.clone().into()), "memory wakes");
    }
    send(&mut peer, &mut pool, &[bytes(&[(TAG, 6)], 1, 64)]);
    // `mem` delays its notification until the sender calls `rx_ready`.
    assert!(!peer.rx_ready());
    assert_eq!(times(), [1, 1], "the trunk wakes all ports: it does not know whose frame it is");
    assert!(!ports[1].arm(&woken[1].clone().into()), "there is something");
    assert!(receive(&mut ports[0], &mut pool).is_empty());
    assert_eq!(times(), [1, 2], "the other port has queued its frame");
    assert!(!ports[1].arm(&woken[1].clone().into()));
    assert_eq!(receive(&mut ports[1], &mut pool).len(), 1);
    assert!(ports[1].arm(&woken[1].clone().into()));
}

/// Two ports on a link that holds two frames; the first port was pushed back.
fn pushed_back(pool: &mut Pool) -> (Vec<Port>, mem::Mem, Burst) {
    let (ours, theirs) = mem::pair(&mem::Config { depth: 2, ..mem::Config::default() });
    let mut ports = split(Box::new(ours), TAG, &[Id::Vlan(5), Id::Vlan(6)]).expect("a trunk");
    let mut burst: Burst =
        (0..3).map(|n| pool.copy_of(&bytes(&[], n, 60)).expect("room")).collect();
    assert_eq!(ports[0].tx_burst(pool, &mut burst), 2);
    assert!(!ports[0].tx_ready());
    (ports, theirs, burst)
}

/// When this happens, the device has forgotten the push back of the first port.
#[test]
fn a_burst_of_another_port_wakes_who_was_pushed_back() {
    let mut pool = Pool::new(4 << 20);
    let (mut ports, mut peer, mut burst) = pushed_back(&mut pool);
    let woken = Arc::new(Woken::default());
    assert!(ports[0].arm(&woken.clone().into()), "no room");
    receive(&mut peer, &mut pool);
    assert_eq!(woken.0.load(Ordering::Relaxed), 0, "memory holds its news back");
    send(&mut ports[1], &mut pool, &[bytes(&[], 9, 60)]);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert!(ports[0].tx_ready());
    assert_eq!(ports[0].tx_burst(&mut pool, &mut burst), 1);
    send(&mut ports[1], &mut pool, &[]);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1, "once");
}

#[test]
fn who_arms_after_a_burst_of_another_port_tries_first() {
    let mut pool = Pool::new(4 << 20);
    let (mut ports, mut peer, mut burst) = pushed_back(&mut pool);
    let woken = Arc::new(Woken::default());
    receive(&mut peer, &mut pool);
    // The link is full again, and the device remembers no push back.
    send(&mut ports[1], &mut pool, &[bytes(&[], 8, 60), bytes(&[], 9, 60)]);
    assert!(!ports[0].arm(&woken.clone().into()) && ports[0].tx_ready());
    assert_eq!(ports[0].tx_burst(&mut pool, &mut burst), 0);
    assert!(ports[0].arm(&woken.clone().into()) && !ports[0].tx_ready(), "now it does");
    receive(&mut peer, &mut pool);
    assert!(!peer.rx_ready());
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert_eq!(ports[0].tx_burst(&mut pool, &mut burst), 1);
}

#[test]
fn who_finds_room_that_is_anothers_when_it_arms_wakes_that_one() {
    let mut pool = Pool::new(4 << 20);
    let (mut ports, mut peer, _burst) = pushed_back(&mut pool);
    let woken = Arc::new(Woken::default());
    assert!(ports[0].arm(&woken.clone().into()), "no room");
    receive(&mut peer, &mut pool);
    assert!(!ports[1].arm(Waker::noop()), "there is something, and the bell is disarmed");
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
}

#[test]
fn a_port_is_gone_when_what_waits_for_it_is_received() {
    let mut pool = Pool::new(4 << 20);
    let (mut ports, mut peer) = trunk(&[Id::Vlan(5), Id::Vlan(6)]);
    send(&mut peer, &mut pool, &[bytes(&[(TAG, 6)], 1, 64)]);
    assert!(receive(&mut ports[0], &mut pool).is_empty());
    drop(peer);
    assert!(ports[0].is_gone() && !ports[1].is_gone());
    assert_eq!(receive(&mut ports[1], &mut pool).len(), 1);
    assert!(ports[1].is_gone());
}

#[test]
fn what_cannot_be_split_says_why() {
    let refused = |config: mem::Config, ids: &[Id]| {
        let (ours, _theirs) = mem::pair(&config);
        split(Box::new(ours), TAG, ids).err().expect("it is refused")
    };
    let ethernet = mem::Config::default();
    for id in [0, 4095, 5000] {
        assert_eq!(refused(ethernet, &[Id::Vlan(id)]), VlanError::BadId(id));
    }
    let twice = [Id::Vlan(5), Id::Untagged, Id::Vlan(5)];
    assert_eq!(refused(ethernet, &twice), VlanError::Twice(Id::Vlan(5)));
    let twice = [Id::Untagged, Id::Untagged];
    assert_eq!(refused(ethernet, &twice), VlanError::Twice(Id::Untagged));
    let ip = mem::Config { link: LinkKind::Ip, ..ethernet };
    assert_eq!(refused(ip, &[Id::Vlan(5)]), VlanError::NotEthernet);
    assert!(refused(ip, &[]).to_string().contains("TAP, not a TUN"));
}

#[test]
fn a_trunk_that_is_down_says_so_at_every_port() {
    let mut pool = Pool::new(1 << 20);
    let (mut ports, peer) = trunk(&[Id::Vlan(5), Id::Vlan(6)]);
    drop(peer);
    for port in &mut ports {
        receive(port, &mut pool);
        assert!(!port.link_up());
        let why = port.failure().expect("a reason").to_string();
        assert!(why.contains("the trunk carries no frames"), "{why}");
    }
}

#[test]
fn who_shows_the_wire_gets_the_tags_back() {
    let mut pool = Pool::new(4 << 20);
    let (ours, mut peer) = wire(Offloads::default());
    let outer = split(Box::new(ours), SERVICE_TAG, &[Id::Vlan(7)]).expect("a good trunk").remove(0);
    let mut port = split(Box::new(outer), TAG, &[Id::Vlan(5)]).expect("a good trunk").remove(0);
    let sent = bytes(&[(SERVICE_TAG, 7), (TAG, 0xa005)], 1, 64);
    send(&mut peer, &mut pool, std::slice::from_ref(&sent));
    let frames = receive(&mut port, &mut pool);
    let front = port.tags().front(&frames[0]).expect("it has addresses");
    assert_eq!([front.bytes(), front.rest(&frames[0])].concat(), sent);
    assert_eq!(front.tag_bytes(), 8);
    assert!(peer.tags().is_empty());
}
