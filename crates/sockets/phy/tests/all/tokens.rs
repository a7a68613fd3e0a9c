//! The rules of smoltcp's tokens: one that is dropped unused has no effect but the loss of its
//! frame; frames that wait here are seen before a sleep; a peer that vanished takes everything.

use device::{Device as _, Offloads, mem};
use smoltcp::phy::{Device as _, Medium, RxToken as _, TxToken as _};
use smoltcp::time::Instant;
use wirespeed_phy::{AsPhy, FromPhy};

use crate::wire::pair;
use crate::world::World;

#[test]
fn a_token_that_is_dropped_sends_nothing_and_loses_its_frame_alone() {
    let (a, b) = mem::pair(&mem::Config::default());
    let (mut a, mut b) = (AsPhy::new(a, 1 << 20), AsPhy::new(b, 1 << 20));
    for n in 1..=2 {
        a.transmit(Instant::ZERO).unwrap().consume(60, |room| room.fill(n));
    }
    assert!(a.transmit(Instant::ZERO).is_some() && b.receive(Instant::ZERO).is_some());
    let (token, _) = b.receive(Instant::ZERO).unwrap();
    token.consume(|frame| assert_eq!(frame, [2; 60]));
    assert!(b.receive(Instant::ZERO).is_none() && !b.is_ready());
    assert!(a.receive(Instant::ZERO).is_none(), "the answers were not sent");
    assert_eq!((a.drops().total(), b.drops().total()), (0, 0));
}

/// A port looks for frames and for room before its driver sleeps.
#[test]
fn a_look_at_a_device_of_smoltcp_sends_nothing() {
    let (a, mut b) = pair(Medium::Ip, 1_500, 2);
    let sent = a.tx.clone();
    b.transmit(Instant::ZERO).unwrap().consume(20, |room| room.fill(5));
    let port = FromPhy::new(a).unwrap();
    for _ in 0..3 {
        assert!(port.rx_ready() && port.tx_ready());
    }
    assert!(sent.lock().unwrap().is_empty());
}

/// `Interface::poll_delay` knows the sockets alone, and the device's descriptor is not readable any
/// more: what was cut has to be seen here.
#[test]
fn frames_of_a_super_segment_are_seen_before_a_sleep() {
    let offloads = Offloads { tx_checksum: true, tso_max_bytes: 60_000, ..Offloads::default() };
    let (a, b) = mem::pair(&mem::Config { offloads, ..mem::Config::default() });
    let mut world = World::new(a, AsPhy::new(b, 4 << 20));
    let (handle, _) = world.connected(0);
    assert!(world.stack.tcp_write(handle, &[7; 10_000]).unwrap() == 10_000);
    world.stack.poll(world.now());
    let mut frames = 0;
    let mut only_here = 0;
    while world.device.is_ready() {
        only_here += usize::from(!world.device.device().rx_ready());
        let (token, _) = world.device.receive(Instant::ZERO).unwrap();
        token.consume(|frame| assert!(frame.len() <= 1_514));
        frames += 1;
    }
    assert!(frames >= 7 && only_here >= 6, "{frames} frames, {only_here} only here");
}

#[test]
fn a_peer_that_vanished_takes_all_frames() {
    let (a, b) = mem::pair(&mem::Config { depth: 4, ..mem::Config::default() });
    let mut phy = AsPhy::new(a, 1 << 20);
    drop(b);
    for _ in 0..10_000 {
        let token = phy.transmit(Instant::ZERO).expect("nobody is waited for");
        token.consume(1_514, |room| room.fill(5));
    }
    assert!(phy.receive(Instant::ZERO).is_none() && !phy.is_ready());
    assert!(phy.device().is_gone());
    assert_eq!(phy.drops().total(), 0, "no buffer was missing");
}
