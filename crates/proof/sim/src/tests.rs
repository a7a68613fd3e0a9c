//! Tests: every law holds for fixed seeds; a replay has the same packets, byte for byte; each law
//! can be broken.

mod ecn;
mod gateway;
mod interrupts;
mod narrow;
mod windows;

use core::net::SocketAddr;

use base::{Duration, Instant, IpVersion, Mtu};
use device::mitigation::Threshold;
use link::{Loss, Outage, Settings};
use stack::StackConfig;

use crate::app::{Finish, Read, Script, Write};
use crate::background::{BackgroundSettings, Kind};
use crate::flow::FlowSettings;
use crate::goodput::{Goodput, measure};
use crate::host::{Cost, HostSettings, PortSettings};
use crate::run::{Campaign, WorldKind, campaign, replay, run};
use crate::world::{RouterLeg, ScheduledEvent, World, address};

#[test]
fn fixed_seeds_hold_every_law() {
    let fixed = Campaign { kind: WorldKind::Hosts, first: 0, seeds: 600, shard: (0, 1), jobs: 1 };
    let failures = campaign(&fixed, |_| {});
    let reported: Vec<_> = failures.iter().map(|v| (v.seed, &v.failure)).collect();
    assert!(failures.is_empty(), "cargo xtask sim --seed S replays them: {reported:?}");
}

#[test]
fn shards_share_all_seeds_between_them() {
    let seen = std::sync::Mutex::new(Vec::new());
    for index in 0..3 {
        let part =
            Campaign { kind: WorldKind::Hosts, first: 5, seeds: 8, shard: (index, 3), jobs: 2 };
        campaign(&part, |verdict| seen.lock().expect("nobody panics here").push(verdict.seed));
    }
    let mut seen = seen.into_inner().expect("nobody panics here");
    seen.sort_unstable();
    assert_eq!(seen, (5..13).collect::<Vec<u64>>());
}

#[test]
fn a_replay_with_somebody_watching_is_the_same_to_the_byte() {
    for seed in [2, 21, 42] {
        let (plain, again) =
            (run(WorldKind::Hosts, seed), replay(WorldKind::Hosts, seed, 20, None));
        assert_eq!(plain, again.verdict);
        assert!(!again.rows.is_empty() && again.rows.len() <= 20);
    }
    assert_ne!(run(WorldKind::Hosts, 2).digest, run(WorldKind::Hosts, 3).digest);
}

#[test]
fn a_replay_captures_what_went_over_each_port() {
    let folder = std::env::temp_dir().join(format!("wirespeed-sim-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
    let shown = replay(WorldKind::Hosts, 2, 20, Some(folder.join("seed")));
    let sizes: Vec<u64> = std::fs::read_dir(&folder)
        .expect("it was made above")
        .filter_map(|entry| entry.ok()?.metadata().ok().map(|m| m.len()))
        .collect();
    std::fs::remove_dir_all(&folder).expect("it was made above");
    assert_eq!(shown.trouble, Vec::<String>::new());
    assert!(sizes.len() >= 2 && sizes.iter().all(|&bytes| bytes > 100), "{sizes:?}");
}

fn host(world: &mut World, number: u64) -> usize {
    world.add_host(HostSettings {
        stack: StackConfig::new([9, number]),
        clock: Duration::from_secs(1),
        own_buffers: true,
        interrupt: Threshold::EACH,
        cost: Cost::default(),
    })
}

fn bulk(bytes: u64) -> (Script, Script) {
    let writes = vec![Write::Bytes(bytes), Write::Finish];
    (
        Script { writes, reads: vec![Read::ToEnd], finish: Finish::Close },
        Script { writes: vec![Write::Finish], reads: vec![Read::ToEnd], finish: Finish::Close },
    )
}

/// Two hosts, one link, one flow.
fn pair(there: Settings, scripts: (Script, Script), config: tcp::Config) -> World {
    let mut world = World::new(1, true, None);
    let hosts = (host(&mut world, 0), host(&mut world, 1));
    let back = there.recovered();
    let port = PortSettings::default();
    world.join(0, hosts, (&port, &port), (there, back), true);
    let at = Instant::ZERO;
    let (network, version, config) = (0, IpVersion::V4, (config, config));
    let flow = FlowSettings { hosts, network, version, config, scripts, at };
    world.add_flow(flow).expect("the port is free");
    world.expect_progress(Instant::ZERO, Duration::from_secs(200));
    world
}

fn path() -> Settings {
    Settings { rate_bps: Some(10_000_000), delay: Duration::from_millis(10), ..Settings::default() }
}

fn end(world: &mut World) -> Result<(), crate::Violation> {
    world.run_to_end(Instant::ZERO + Duration::from_secs(3000))
}

#[test]
fn a_transfer_over_a_bad_path_arrives_whole() {
    let bad = Settings {
        loss: Loss::Random(0.02),
        late: 0.05,
        late_by: Duration::from_millis(30),
        duplicate: 0.02,
        corrupt: 0.02,
        ..path()
    };
    let mut world = pair(bad, bulk(1_000_000), tcp::Config::default());
    end(&mut world).expect("every law holds");
    assert_eq!(world.received(0), 1_000_000);
    let counts = world.link_counts(0);
    assert!(counts.lost > 0 && counts.late > 0 && counts.corrupted > 0, "{counts:?}");
}

#[test]
fn a_path_that_is_cut_for_good_is_found_by_liveness() {
    let outages = vec![Outage { from: Instant::from_nanos(50_000_000), until: Instant::NEVER }];
    let config = tcp::Config { retries_max: 200, ..tcp::Config::default() };
    let mut world = pair(Settings { outages, ..path() }, bulk(1_000_000), config);
    let violation = end(&mut world).expect_err("nothing can arrive");
    assert_eq!(violation.oracle, "liveness");
}

#[test]
fn a_graceful_end_that_failed_is_found() {
    let outages = vec![Outage { from: Instant::from_nanos(50_000_000), until: Instant::NEVER }];
    let config = tcp::Config {
        retries_max: 3,
        keepalive_idle: Some(Duration::from_secs(5)),
        keepalive_interval: Duration::from_secs(5),
        keepalive_probes_max: 3,
        ..tcp::Config::default()
    };
    let mut world = pair(Settings { outages, ..path() }, bulk(1_000_000), config);
    let violation = end(&mut world).expect_err("nothing can arrive");
    assert_eq!(violation.oracle, "stream");
}

#[test]
fn bytes_that_nobody_sent_are_found() {
    // Without the receiver's checksum a flipped bit reaches the application.
    let corrupt = Settings { corrupt: 0.1, exempt_bytes: 200, ..path() };
    let mut world = World::new(1, true, None);
    let hosts = (host(&mut world, 0), host(&mut world, 1));
    world.hosts[1].stack.set_switch(base::Switch::ChecksumRx, false);
    let port = PortSettings::default();
    world.join(0, hosts, (&port, &port), (corrupt, path()), true);
    let (network, version, at) = (0, IpVersion::V4, Instant::ZERO);
    let config = (tcp::Config::default(), tcp::Config::default());
    let scripts = bulk(3_000_000);
    world
        .add_flow(FlowSettings { hosts, network, version, config, scripts, at })
        .expect("the port is free");
    let violation = end(&mut world).expect_err("bits are flipped");
    assert_eq!(violation.oracle, "stream", "{violation}");
}

#[test]
fn a_buffer_that_is_kept_is_found() {
    let mut world = pair(path(), bulk(10_000), tcp::Config::default());
    let kept = world.hosts[1].stack.pool().alloc(100);
    let violation = end(&mut world).expect_err("one is missing");
    assert_eq!((violation.oracle, kept.is_some()), ("leaks", true));
}

#[test]
fn hosts_that_pause_jump_and_lose_their_memory_go_on() {
    let mut world = pair(path(), bulk(3_000_000), tcp::Config::default());
    let ms = |n| Instant::ZERO + Duration::from_millis(n);
    world.schedule(ms(300), ScheduledEvent::Pause(1, Duration::from_millis(700)));
    world.schedule(ms(1200), ScheduledEvent::ClockJump(0, 20_000_000_000));
    world.schedule(ms(1400), ScheduledEvent::ClockJump(1, -2_000_000_000));
    world.schedule(ms(1500), ScheduledEvent::Exhaust(1));
    world.schedule(ms(1900), ScheduledEvent::Release(1));
    end(&mut world).expect("every law holds");
    assert_eq!(world.received(0), 3_000_000);
}

#[test]
fn a_hub_carries_each_frame_to_its_host() {
    let mut world = World::new(1, true, None);
    let hosts: Vec<usize> = (0..3).map(|n| host(&mut world, n)).collect();
    let members: Vec<_> =
        hosts.iter().map(|&h| (h, PortSettings::default(), path(), path())).collect();
    // The hosts do not know each other's link addresses, so they have to solicit all of them.
    world.join_by_hub(0, &members, false);
    for (from, to, version) in [(0, 2, IpVersion::V4), (1, 2, IpVersion::V6)] {
        let config = (tcp::Config::default(), tcp::Config::default());
        let (network, scripts, at) = (0, bulk(100_000), Instant::ZERO);
        world
            .add_flow(FlowSettings { hosts: (from, to), network, version, config, scripts, at })
            .expect("the port is free");
    }
    end(&mut world).expect("every law holds");
    assert_eq!((world.received(0), world.received(1)), (100_000, 100_000));
}

fn background_flow(kind: Kind, version: IpVersion) -> BackgroundSettings {
    BackgroundSettings {
        kind,
        hosts: (0, 1),
        to: SocketAddr::new(address(0, 1, version).addr, 7_000),
        messages: 100,
        every: Duration::from_millis(20),
        bytes_max: 1_400,
        must_arrive_from: Some(Instant::ZERO),
        seed: 1,
    }
}

#[test]
fn datagrams_and_echoes_arrive_beside_tcp() {
    for (kind, version) in [
        (Kind::Datagrams, IpVersion::V4),
        (Kind::Datagrams, IpVersion::V6),
        (Kind::Echoes, IpVersion::V4),
        (Kind::Echoes, IpVersion::V6),
    ] {
        let mut world = pair(path(), bulk(300_000), tcp::Config::default());
        assert!(world.add_background_flow(background_flow(kind, version), Instant::ZERO));
        end(&mut world).expect("every law holds");
        let (sent, arrived) = world.background_counts(0);
        assert_eq!((sent, world.received(0)), (100, 300_000), "{kind:?}");
        assert!(arrived > 50, "only {arrived} {kind:?} arrived");
    }
}

#[test]
fn a_datagram_that_nobody_sent_is_found() {
    let corrupt = Settings { corrupt: 0.2, ..path() };
    let mut world = pair(corrupt, bulk(1_000), tcp::Config::default());
    world.hosts[1].stack.set_switch(base::Switch::ChecksumRx, false);
    world.add_background_flow(background_flow(Kind::Datagrams, IpVersion::V4), Instant::ZERO);
    let violation = end(&mut world).expect_err("bits are flipped");
    assert_eq!(violation.oracle, "datagrams", "{violation}");
}

#[test]
fn messages_that_never_arrive_are_found() {
    let outages = vec![Outage { from: Instant::from_nanos(500_000_000), until: Instant::NEVER }];
    let mut world = pair(Settings { outages, ..path() }, bulk(1_000), tcp::Config::default());
    let late = Instant::from_nanos(600_000_000);
    let settings = BackgroundSettings {
        must_arrive_from: Some(late),
        every: Duration::from_millis(200),
        ..background_flow(Kind::Datagrams, IpVersion::V4)
    };
    world.add_background_flow(settings, late);
    let violation = end(&mut world).expect_err("nothing can arrive");
    assert_eq!(violation.oracle, "datagrams", "{violation}");
}

#[test]
fn super_segments_reach_the_wire_in_pieces() {
    let mut path = Goodput::new(10_000_000, Duration::from_millis(5));
    path.length = Duration::from_secs(2);
    // The queue holds all data in flight, so that nothing is lost and retransmitted.
    path.queue_bytes = 200_000;
    path.buffer_bytes = Some(65_536);
    let plain = measure(&path).expect("streams are whole");
    path.tso_max_bytes = 65_535;
    let with = measure(&path).expect("streams are whole");
    assert!(with.share > 0.8 && plain.share > 0.8, "{} {}", with.share, plain.share);
    // With TSO there are as many packets per byte as without, so the link carried segments and not
    // super-segments.
    let packets = |o: &crate::goodput::Outcome| o.bottleneck.arrived as f64 / o.flows_bps[0];
    assert!((packets(&with) / packets(&plain) - 1.0).abs() < 0.02);
}

#[test]
fn a_writer_refused_for_want_of_memory_is_told_when_there_is_some() {
    let mut scripts = bulk(100_000);
    scripts.0.writes.insert(0, Write::Sleep(Duration::from_millis(200)));
    let mut world = pair(path(), scripts, tcp::Config::default());
    let ms = |n| Instant::ZERO + Duration::from_millis(n);
    world.schedule(ms(100), ScheduledEvent::Exhaust(0));
    world.schedule(ms(1000), ScheduledEvent::Release(0));
    end(&mut world).expect("the writer goes on");
    assert_eq!(world.received(0), 100_000);
}

#[test]
fn what_is_written_before_the_handshake_leaves_in_full_segments() {
    let (early, mut waits) = (bulk(60_000), bulk(60_000));
    waits.0.writes.insert(0, Write::AwaitOpen);
    let packets = |scripts| {
        let mut world = pair(path(), scripts, tcp::Config::default());
        end(&mut world).expect("every law holds");
        world.link_counts(0).sent
    };
    let (early, waits) = (packets(early), packets(waits));
    assert!(early <= waits + 2, "{early} packets instead of {waits}");
}
