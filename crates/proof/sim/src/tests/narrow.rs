//! Paths with a smaller MTU than the sender's link: with a router that reports the MTU, with a
//! router that reports it late, and with a black hole (RFC 1191, RFC 8201, RFC 4821).

use tcp::MtuProbing;

use super::*;

const BYTES: u64 = 3_000_000;

/// Two hosts at a router. The router's link to the second host has an MTU of 1,000 bytes (1,300
/// with IPv6).
fn routed(version: IpVersion, reports_from: Instant, mtu_probing: MtuProbing) -> World {
    let mut world = World::new(1, true, None);
    let hosts = (host(&mut world, 0), host(&mut world, 1));
    let narrow = if version == IpVersion::V4 { 1_000 } else { 1_300 };
    let leg = |host: usize, mtu| RouterLeg {
        host,
        network: host as u8 + 1,
        port: PortSettings::default(),
        there: path(),
        back: path(),
        mtu: Mtu::new(mtu).expect("an MTU"),
    };
    world.join_by_router(&[leg(0, 1_500), leg(1, narrow)], reports_from);
    let config = tcp::Config { mtu_probing, ..tcp::Config::default() };
    let (at, config) = (Instant::ZERO, (config, config));
    let (network, scripts) = (2, bulk(BYTES));
    world
        .add_flow(FlowSettings { hosts, network, version, config, scripts, at })
        .expect("the port is free");
    world.expect_progress(Instant::ZERO, Duration::from_secs(200));
    world
}

/// Seconds until all bytes have arrived. Then runs the world to its end, in which every law must
/// hold.
fn seconds(world: &mut World) -> f64 {
    let latest = Instant::ZERO + Duration::from_secs(3000);
    let all = world.run_until_that(latest, |world| world.received(0) == BYTES);
    let at = all.expect("every law holds").expect("it arrives");
    end(world).expect("every law holds");
    at.since(Instant::ZERO).as_secs_f64()
}

#[test]
fn a_router_tells_what_is_too_long_for_the_next_network() {
    for version in [IpVersion::V4, IpVersion::V6] {
        let mut world = routed(version, Instant::ZERO, MtuProbing::default());
        let seconds = seconds(&mut world);
        let counts = world.router_counts(0);
        assert_eq!((counts.swallowed, counts.dropped), (0, 0));
        assert!(counts.reported > 0 && counts.forwarded > 3_000, "{counts:?}");
        // The payload takes 2.4 s on the wire. Headers and a few round trips of 40 ms come in
        // addition.
        assert!(seconds < 3.2, "{version:?}: {seconds} s");
    }
}

#[test]
fn a_black_hole_is_left_once_the_router_tells() {
    for version in [IpVersion::V4, IpVersion::V6] {
        let mut world = routed(version, Instant::ZERO + Duration::from_secs(5), MtuProbing::Off);
        seconds(&mut world);
        let counts = world.router_counts(0);
        assert_eq!(counts.dropped, 0);
        assert!(counts.swallowed > 0 && counts.reported > 0, "{counts:?}");
    }
}

/// Time-outs detect the black hole, segments that are small enough pass it, and larger ones are
/// tried until the path MTU is reached.
#[test]
fn a_black_hole_that_never_tells_is_found() {
    for (version, fits) in [(IpVersion::V4, 1_000 - 52), (IpVersion::V6, 1_300 - 72)] {
        let mut world = routed(version, Instant::NEVER, MtuProbing::default());
        let mut largest = 0;
        let sizes = world.run_until_that(Instant::ZERO + Duration::from_secs(30), |world| {
            let swallowed = world.router_counts(0).swallowed > 0;
            largest = world.info(0).map_or(largest, |info| info.snd_mss);
            swallowed && world.received(0) > 2_500_000
        });
        sizes.expect("every law holds").expect("it goes on");
        assert!((fits - 20..=fits).contains(&largest), "{version:?}: {largest} of {fits}");
        let seconds = seconds(&mut world);
        let counts = world.router_counts(0);
        assert_eq!(counts.reported, 0);
        assert!(seconds < 6.0, "{version:?}: {seconds} s");
    }
}

/// Without path MTU probing the connection ends in the black hole.
#[test]
fn a_black_hole_that_nobody_looks_for_is_the_end() {
    let mut world = routed(IpVersion::V4, Instant::NEVER, MtuProbing::Off);
    assert_eq!(end(&mut world).expect_err("nothing arrives").oracle, "liveness");
}
