//! A bridge between two `mem` links, in virtual time.

use base::{Duration, LinkKind, Mtu};
use device::Burst;
use device::mem::{self, Mem};
use mbuf::Mbuf;

use super::*;

/// A bridge, and the hosts' ends of the two links.
fn joined(settings: [Settings; 2], config: &mem::Config) -> (Bridge, [Mem; 2]) {
    let (a, host_a) = mem::pair(config);
    let (b, host_b) = mem::pair(config);
    let bridge =
        Bridge::new([Box::new(a), Box::new(b)], settings, 1, 1 << 26).expect("two of a kind");
    (bridge, [host_a, host_b])
}

fn at(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

fn frame(pool: &mut Pool, number: u8, len: usize) -> Mbuf {
    let mut data = vec![0; 14 + len];
    data[14] = number;
    pool.copy_of(&data).expect("the pool is large")
}

fn send(host: &mut Mem, pool: &mut Pool, number: u8) {
    let mut burst = Burst::new();
    burst.push(frame(pool, number, 1500));
    assert_eq!(host.tx_burst(pool, &mut burst), 1, "the wire has room");
}

/// The numbers of the frames that a host has received.
fn received(host: &mut Mem, pool: &mut Pool) -> Vec<u8> {
    let mut burst = Burst::new();
    host.rx_burst(pool, &mut burst);
    let numbers = burst.iter().map(|frame| frame.as_slice()[14]).collect();
    burst.drain(..).for_each(|frame| pool.free(frame));
    numbers
}

/// 12 Mb/s: a packet of 1,500 bytes takes 1 ms.
fn line() -> Settings {
    Settings { rate_bps: Some(12_000_000), delay: Duration::from_millis(10), ..Settings::default() }
}

#[test]
fn each_way_has_its_own_settings_and_packets_arrive_when_the_model_says() {
    let back = Settings { delay: Duration::from_millis(2), ..Settings::default() };
    let (mut bridge, [mut a, mut b]) = joined([line(), back], &mem::Config::default());
    let mut pool = Pool::new(1 << 24);
    send(&mut a, &mut pool, 1);
    send(&mut a, &mut pool, 2);
    send(&mut b, &mut pool, 3);
    assert!(bridge.turn(|| at(0)) > 0);
    assert_eq!(bridge.next_event(), at(2_000));
    bridge.turn(|| at(1_999));
    assert!(received(&mut a, &mut pool).is_empty());
    bridge.turn(|| at(2_000));
    assert_eq!(received(&mut a, &mut pool), [3]);
    assert_eq!(
        bridge.next_event(),
        at(11_000),
        "the arrival is not after 1 ms of transmission and 10 ms of delay"
    );
    // A late call delivers the packet late, but does not change the times in the model.
    bridge.turn(|| at(11_500));
    assert_eq!(received(&mut b, &mut pool), [1]);
    bridge.turn(|| at(12_000));
    assert_eq!(received(&mut b, &mut pool), [2]);
    let [there, _] = bridge.directions();
    assert_eq!(there.carried().link.arrived, 2);
    assert_eq!(there.carried().bytes_out, 2 * 1514);
    let late = there.lateness();
    assert_eq!((late.count(), late.later_than(Duration::from_micros(400))), (2, 1));
}

#[test]
fn a_full_device_keeps_packets_until_it_has_room() {
    let small = mem::Config { depth: 2, ..mem::Config::default() };
    let (mut bridge, [mut a, mut b]) = joined([Settings::default(), Settings::default()], &small);
    let mut pool = Pool::new(1 << 24);
    let mut got = Vec::new();
    for number in 0..6 {
        send(&mut a, &mut pool, number);
        bridge.turn(|| at(1));
    }
    assert!(bridge.wants_room(1) && !bridge.wants_room(0));
    for _ in 0..4 {
        got.extend(received(&mut b, &mut pool));
        bridge.turn(|| at(2));
    }
    assert_eq!(got, [0, 1, 2, 3, 4, 5], "packets were lost or reordered");
    assert!(!bridge.wants_room(1));
}

#[test]
fn an_mtu_that_shrinks_swallows_what_is_longer() {
    let (mut bridge, [mut a, mut b]) =
        joined([Settings::default(), Settings::default()], &mem::Config::default());
    let mut pool = Pool::new(1 << 24);
    send(&mut a, &mut pool, 1);
    bridge.turn(|| at(1));
    let shorter = Settings { mtu: Mtu::new(1280).expect("an MTU"), ..Settings::default() };
    bridge.set_settings(0, shorter, at(2));
    send(&mut a, &mut pool, 2);
    bridge.turn(|| at(3));
    assert_eq!(received(&mut b, &mut pool), [1]);
    assert_eq!(bridge.directions()[0].carried().link.too_long, 1);
}

#[test]
fn two_kinds_of_frames_cannot_be_joined() {
    let bare = mem::Config { link: LinkKind::Ip, ..mem::Config::default() };
    let (a, _) = mem::pair(&mem::Config::default());
    let (b, _) = mem::pair(&bare);
    let settings = [Settings::default(), Settings::default()];
    let refused = Bridge::new([Box::new(a), Box::new(b)], settings, 1, 1 << 20);
    let error = refused.err().expect("devices of two kinds were joined");
    assert!(error.to_string().contains("use two of a kind"), "{error}");
}
