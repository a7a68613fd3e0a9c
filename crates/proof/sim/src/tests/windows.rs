//! Windows that follow the path, and closed windows, from the sender's point of view.

use super::*;
use crate::goodput;

/// With default settings the peer's window never limits the sender, neither in slow start nor when
/// a queue of one bandwidth-delay product is full.
#[track_caller]
fn the_window_stays_ahead(rate_bps: u64, delay_ms: u64, length_ms: u64) {
    let path = Goodput::new(rate_bps, Duration::from_millis(delay_ms));
    let mut world = goodput::world(&path);
    let mut most = 0;
    for ms in (0..length_ms).step_by(5) {
        let now = Instant::ZERO + Duration::from_millis(ms);
        world.run_until(now).expect("streams are whole");
        let Some(info) = world.info(0).filter(|info| info.cwnd > 0) else { continue };
        let used = info.in_flight as usize + info.snd_mss;
        assert!(used <= info.snd_wnd as usize, "at {ms} ms: {used} of {}", info.snd_wnd);
        most = most.max(info.in_flight);
    }
    let bdp = path.bdp_bytes(1.0);
    assert!(most as usize > 3 * bdp / 2, "{most} bytes in flight where {bdp} fill the path");
}

#[test]
fn receive_auto_tuning_stays_ahead_at_100_mb_and_100_ms() {
    the_window_stays_ahead(100_000_000, 50, 6_000);
}

#[test]
fn receive_auto_tuning_stays_ahead_at_1_gb_and_50_ms() {
    the_window_stays_ahead(1_000_000_000, 25, 1_200);
}

#[test]
fn receive_auto_tuning_stays_ahead_at_10_gb_and_20_ms() {
    the_window_stays_ahead(10_000_000_000, 10, 400);
}

/// A sender, and a reader with a buffer of 64 KB that stops for 5 s. The direction from the reader
/// may have an outage.
fn stopped_reader(cut: Option<Outage>) -> World {
    let mut config = tcp::Config::default();
    config.set_fixed_buffers(BUFFER as u32, 1 << 20);
    let stop = Read::Stop(Duration::from_secs(5));
    let mut scripts = bulk(1_000_000);
    scripts.1.reads = vec![Read::Bytes(READ), stop, Read::ToEnd];
    let mut world = World::new(1, true, None);
    let hosts = (host(&mut world, 0), host(&mut world, 1));
    let back = Settings { outages: cut.into_iter().collect(), ..path() };
    let port = PortSettings::default();
    world.join(0, hosts, (&port, &port), (path(), back), true);
    let (network, version, at) = (0, IpVersion::V4, Instant::ZERO);
    let flow = FlowSettings { hosts, network, version, config: (config, config), scripts, at };
    world.add_flow(flow).expect("the port is free");
    world
}

const BUFFER: u64 = 65_536;
/// Bytes read before the stop.
const READ: u64 = 100_000;
/// The round trip of `path()` in milliseconds, with a full packet in one direction.
const RTT_MS: f64 = 21.3;

/// Run until more than `bytes` have been read. Returns the time in milliseconds.
fn until_read(world: &mut World, bytes: u64) -> f64 {
    let mut us = world.now().as_nanos() / 1000;
    while world.received(0) <= bytes {
        us += 100;
        world.run_until(Instant::from_nanos(us * 1000)).expect("every law holds");
    }
    us as f64 / 1000.0
}

/// RFC 9293 section 3.8.6.1: the first probe is sent after one RTO, and each interval is twice the
/// one before.
#[test]
fn a_zero_window_is_probed_and_left_within_a_round_trip_of_its_update() {
    let mut world = stopped_reader(None);
    let stopped = until_read(&mut world, READ - 1);
    let opened = until_read(&mut world, READ);
    assert!((opened - stopped - 5_000.0).abs() < 1.0, "{stopped} {opened}");
    let probes = world.info(0).expect("open").timeouts;
    assert!((3..=5).contains(&probes), "{probes} in 5 s, the first after some 200 ms");
    let resumed = until_read(&mut world, READ + BUFFER);
    assert!(resumed - opened <= 1.1 * RTT_MS, "after {} ms", resumed - opened);
    end(&mut world).expect("every law holds");
    assert_eq!(world.received(0), 1_000_000);
}

#[test]
fn a_zero_window_whose_update_is_lost_is_left_within_a_probe_interval() {
    let mut plain = stopped_reader(None);
    let opened = until_read(&mut plain, READ);
    let at = |ms: f64| Instant::from_nanos((ms * 1e6) as u64);
    let mut world =
        stopped_reader(Some(Outage { from: at(opened - 1.0), until: at(opened + 5.0) }));
    world.run_until(at(opened - 1.0)).expect("every law holds");
    let interval = world.info(0).expect("open").rto.as_secs_f64() * 1e3;
    let resumed = until_read(&mut world, READ + BUFFER);
    let after = resumed - opened;
    assert!(after > 2.0 * RTT_MS, "the update was lost: {after} ms");
    assert!(after <= 1.1 * interval, "after {after} ms, probes come every {interval} ms");
    end(&mut world).expect("every law holds");
}

/// The send buffer grows with the congestion window. With a small buffer the wire would be idle
/// between ACKs.
#[test]
fn send_auto_tuning_keeps_the_wire_full() {
    let mut path = Goodput::new(1_000_000_000, Duration::from_millis(25));
    // The queue is so long that nothing is lost: the writer is measured.
    path.queue_bytes = 1 << 30;
    (path.from, path.length) = (Duration::from_millis(1_500), Duration::from_millis(2_000));
    let outcome = measure(&path).expect("streams are whole");
    assert!(outcome.share > 0.999, "{}", outcome.share);
}
