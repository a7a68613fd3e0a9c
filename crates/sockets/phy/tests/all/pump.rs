//! The pump: both directions, a full channel, a flood, and a stack that is gone.

use base::DropReason;
use device::{Burst, Device as _};
use mbuf::Pool;
use smoltcp::phy::{Device as _, Medium, RxToken as _, TxToken as _};
use smoltcp::time::Instant;
use wirespeed_phy::Pump;

use crate::wire::pair;

#[test]
fn frames_move_both_ways_and_are_dropped_when_full() {
    let (a, mut b) = pair(Medium::Ip, 1_500, 1);
    let (mut pump, mut channel) = Pump::new(a, 2).unwrap();
    let (mut pool, mut burst) = (Pool::new(1 << 20), Burst::new());
    for n in 1..4 {
        b.transmit(Instant::ZERO).unwrap().consume(20 + n, |room| room.fill(5));
        pump.turn(Instant::ZERO);
    }
    assert_eq!((channel.rx_burst(&mut pool, &mut burst), pump.dropped()), (2, 1));
    channel.tx_burst(&mut pool, &mut burst);
    // The device takes one frame at a time; the other waits.
    for len in [21, 22] {
        assert_eq!(pump.turn(Instant::ZERO), 1);
        let (token, _) = b.receive(Instant::ZERO).unwrap();
        token.consume(|frame| assert_eq!(frame.len(), len));
    }
    assert_eq!(pump.turn(Instant::ZERO), 0);
}

/// A device that always has a frame does not keep the pump from the other direction.
#[test]
fn a_turn_ends_in_a_flood() {
    let (a, mut b) = pair(Medium::Ip, 1_500, 1_000);
    for _ in 0..1_000 {
        b.transmit(Instant::ZERO).unwrap().consume(20, |room| room.fill(5));
    }
    let (mut pump, mut channel) = Pump::new(a, 8).unwrap();
    let (mut pool, mut burst) = (Pool::new(1 << 20), Burst::new());
    assert_eq!(pump.turn(Instant::ZERO), 8);
    assert_eq!(channel.rx_burst(&mut pool, &mut burst), 8);
    channel.tx_burst(&mut pool, &mut burst);
    assert_eq!((pump.turn(Instant::ZERO), pump.dropped()), (16, 0));
    assert!(b.receive(Instant::ZERO).is_some());
}

/// The channel has room for two VLAN tags; a driver of smoltcp may panic at such a frame.
#[test]
fn a_frame_that_is_too_long_for_the_device_is_dropped() {
    let (a, mut b) = pair(Medium::Ethernet, 1_514, 8);
    let (mut pump, mut channel) = Pump::new(a, 8).unwrap();
    let (mut pool, mut burst) = (Pool::new(1 << 20), Burst::new());
    for len in [1_515, 1_522, 1_514] {
        burst.push(pool.copy_of(&vec![7; len]).unwrap());
    }
    channel.tx_burst(&mut pool, &mut burst);
    assert_eq!((pump.turn(Instant::ZERO), pump.dropped()), (1, 2));
    let (token, _) = b.receive(Instant::ZERO).unwrap();
    token.consume(|frame| assert_eq!(frame.len(), 1_514));
}

#[test]
fn the_pump_closes_when_the_stack_is_gone() {
    let (a, mut b) = pair(Medium::Ip, 1_500, 1);
    let (mut pump, mut channel) = Pump::new(a, 8).unwrap();
    let (mut pool, mut burst) = (Pool::new(1 << 20), Burst::new());
    for _ in 0..2 {
        burst.push(pool.copy_of(&[5; 20]).unwrap());
    }
    channel.tx_burst(&mut pool, &mut burst);
    drop(channel);
    // Its last frames leave first: the device takes one at a time.
    for _ in 0..2 {
        assert!(!pump.is_closed());
        assert_eq!(pump.turn(Instant::ZERO), 1);
        assert!(b.receive(Instant::ZERO).is_some());
    }
    pump.turn(Instant::ZERO);
    assert!(pump.is_closed());
    b.transmit(Instant::ZERO).unwrap().consume(20, |room| room.fill(5));
    assert_eq!((pump.turn(Instant::ZERO), pump.dropped()), (0, 1));
}

#[test]
fn the_stack_sees_that_the_pump_is_gone() {
    let (a, _b) = pair(Medium::Ip, 1_500, 8);
    let (pump, mut channel) = Pump::new(a, 8).unwrap();
    drop(pump);
    let (mut pool, mut burst) = (Pool::new(1 << 20), Burst::new());
    for _ in 0..20 {
        burst.push(pool.copy_of(&[5; 20]).unwrap());
    }
    // They are taken and counted: none waits for a device that is gone.
    assert_eq!((channel.tx_burst(&mut pool, &mut burst), pool.outstanding()), (20, 0));
    assert_eq!(channel.drops().unwrap().of(DropReason::DeviceLinkDown), 20);
    assert!(channel.is_gone() && !channel.link_up());
}
