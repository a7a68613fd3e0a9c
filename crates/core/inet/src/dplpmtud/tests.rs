//! Discovery over paths of every MTU, with and without reports, and over paths that change.

use super::*;

const START: Instant = Instant::from_nanos(1_000_000_000);

fn at(seconds: u64) -> Instant {
    START + Duration::from_secs(seconds)
}

fn started(version: IpVersion, mtu: usize) -> Dplpmtud {
    let mut discovery = Dplpmtud::new(Config::new(version, mtu));
    discovery.start(START);
    discovery
}

/// Send probes over a path that carries `carries` bytes until none is due; returns their number.
fn probe(discovery: &mut Dplpmtud, carries: usize, now: Instant) -> usize {
    let mut probes = 0;
    while let Some(size) = discovery.next_probe(now) {
        probes += 1;
        assert!(probes < 200, "the search does not end");
        match size <= carries {
            true => discovery.acknowledged(size, now),
            false => discovery.lost(size, now),
        }
    }
    probes
}

/// RFC 8899 4.1-a, 3-c.
#[test]
fn there_is_one_probe_at_a_time_and_none_before_the_peer_answers() {
    let mut discovery = Dplpmtud::new(Config::new(IpVersion::V4, 1500));
    assert_eq!((discovery.state(), discovery.plpmtu()), (State::Disabled, 1200));
    assert_eq!(discovery.next_probe(START), None);
    discovery.start(START);
    assert_eq!(discovery.next_probe(START), Some(1200));
    assert_eq!(discovery.next_probe(START), None);
    discovery.acknowledged(1200, START);
    assert_eq!(discovery.state(), State::Searching);
    assert_eq!(
        discovery.next_probe(START),
        Some(1472),
        "the first probe does not have the largest size"
    );
}

/// RFC 8899 3-a: the MTU of every path is found, to within a step below it.
#[test]
fn every_path_is_found_out() {
    for version in [IpVersion::V4, IpVersion::V6] {
        for mtu in [1280, 1500, 9000, 65_535] {
            let config = Config::new(version, mtu);
            for carries in (config.base..=config.max).step_by(7).chain([config.max]) {
                let mut discovery = started(version, mtu);
                let probes = probe(&mut discovery, carries, START);
                assert_eq!(discovery.state(), State::SearchComplete);
                let found = discovery.plpmtu();
                assert!(found <= carries && carries - found < STEP, "{found} of {carries}");
                assert!(probes <= 3 * 16, "{probes} probes for {carries} of {mtu}");
            }
        }
    }
}

/// RFC 8899 5.1.2-a, 5.2-a.
#[test]
fn a_path_narrower_than_the_base_size_is_an_error_until_it_is_wider() {
    let mut discovery = started(IpVersion::V4, 1500);
    assert_eq!(probe(&mut discovery, 900, START), usize::from(MAX_PROBES));
    assert_eq!((discovery.state(), discovery.plpmtu()), (State::Error, 40));
    assert_eq!(discovery.next_probe(at(15)), None, "the base size is probed again at once");
    probe(&mut discovery, 900, at(16));
    assert_eq!(discovery.state(), State::Error);
    probe(&mut discovery, 1400, at(60));
    assert_eq!(discovery.state(), State::SearchComplete);
    assert!((1400 - STEP..=1400).contains(&discovery.plpmtu()));
}

/// RFC 8899 5.1.1-a, 5.1.1-b.
#[test]
fn timers_lose_probes_and_take_a_search_up_again() {
    let mut discovery = started(IpVersion::V4, 1500);
    assert_eq!(discovery.next_probe(START), Some(1200));
    assert_eq!(discovery.next_deadline(), at(16));
    discovery.expire(at(15));
    assert_eq!(
        discovery.next_probe(at(15)),
        None,
        "a second probe is sent before the first has a result"
    );
    discovery.expire(at(16));
    assert_eq!(discovery.next_probe(at(16)), Some(1200));
    discovery.acknowledged(1200, at(17));
    probe(&mut discovery, 1300, at(17));
    assert_eq!(discovery.state(), State::SearchComplete);
    assert_eq!(discovery.next_deadline(), at(617));
    discovery.expire(at(617));
    probe(&mut discovery, 1472, at(617));
    assert_eq!((discovery.state(), discovery.plpmtu()), (State::SearchComplete, 1472));
    // A timer of less than a second is not used.
    let hasty = Config { probe_timer: Duration::ZERO, ..Config::new(IpVersion::V4, 1500) };
    let mut discovery = Dplpmtud::new(hasty);
    discovery.start(START);
    discovery.next_probe(START);
    assert_eq!(discovery.next_deadline(), at(1));
}

/// RFC 8899 4.3-a.
#[test]
fn a_black_hole_is_left_for_the_base_size() {
    let mut discovery = started(IpVersion::V4, 1500);
    probe(&mut discovery, 1472, START);
    // Losses between acknowledgments, and losses of small datagrams, count as congestion.
    for _ in 0..9 {
        discovery.data_lost(1472);
        discovery.data_lost(1472);
        discovery.data_acknowledged(1472);
        (0..5).for_each(|_| discovery.data_lost(1000));
    }
    assert_eq!(discovery.plpmtu(), 1472);
    for _ in 0..MAX_PROBES {
        discovery.data_acknowledged(1000);
        discovery.data_lost(1472);
    }
    assert_eq!((discovery.state(), discovery.plpmtu()), (State::Base, 1200));
    // RFC 8899 3-e: an acknowledgment that comes after the losses is too late.
    discovery.acknowledged(1472, at(1));
    assert_eq!(discovery.plpmtu(), 1200);
    probe(&mut discovery, 1300, at(1));
    assert_eq!(discovery.state(), State::SearchComplete);
    assert!((1300 - STEP..=1300).contains(&discovery.plpmtu()));
}

/// RFC 8899 4.6.2-a, 4.6.2-b, 4.6.2-c, 4.6.2-d.
#[test]
fn reports_are_used_as_far_as_they_fit_what_was_sent() {
    let searching = || {
        let mut discovery = started(IpVersion::V4, 1500);
        discovery.next_probe(START);
        discovery.acknowledged(1200, START);
        assert_eq!(discovery.next_probe(START), Some(1472));
        discovery
    };
    let mut discovery = searching();
    for implausible in [0, 39, 1472, 1473, 9000] {
        assert!(!discovery.packet_too_big(implausible, START), "{implausible}");
    }
    assert_eq!((discovery.state(), discovery.plpmtu()), (State::Searching, 1200));
    // A size between the one in use and the probed one: it is probed next.
    assert!(discovery.packet_too_big(1372, START));
    assert_eq!(discovery.plpmtu(), 1200, "a size is used before the peer has acknowledged it");
    assert_eq!(probe(&mut discovery, 1372, START), 1);
    assert_eq!((discovery.state(), discovery.plpmtu()), (State::SearchComplete, 1372));
    // Below the size in use.
    assert!(discovery.packet_too_big(1300, START));
    assert_eq!((discovery.state(), discovery.plpmtu()), (State::Base, 1200));
    probe(&mut discovery, 1300, START);
    assert_eq!((discovery.state(), discovery.plpmtu()), (State::SearchComplete, 1300));
    // The report names exactly the size in use: the search ends.
    let mut discovery = searching();
    assert!(discovery.packet_too_big(1200, START));
    assert_eq!((discovery.state(), discovery.plpmtu()), (State::SearchComplete, 1200));
    // Below the base size.
    assert!(searching().packet_too_big(600, START));
    let mut discovery = searching();
    discovery.packet_too_big(600, START);
    assert_eq!((discovery.state(), discovery.plpmtu()), (State::Error, 40));
}

#[test]
fn what_could_not_be_sent_tells_nothing_of_the_path() {
    let mut discovery = started(IpVersion::V6, 1500);
    for n in 0..10 {
        assert_eq!(discovery.next_probe(at(16 * n)), Some(1232));
        discovery.unsent(1232, at(16 * n));
    }
    assert_eq!(discovery.state(), State::Base);
}

/// Any reports in any order: discovery sends no more probes than it may, and its sizes stay within
/// their limits.
#[test]
fn anything_may_be_said_to_it() {
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for round in 0..200 {
        let version = if round % 2 == 0 { IpVersion::V4 } else { IpVersion::V6 };
        let config = Config::new(version, [68, 1280, 1500, 9000][round % 4]);
        let mut discovery = Dplpmtud::new(config);
        let mut now = START;
        for _ in 0..500 {
            now += Duration::from_millis(random(4_000) as u64);
            let size = random(config.max + 100);
            match random(9) {
                0 => discovery.start(now),
                1 => discovery.acknowledged(size, now),
                2 => discovery.lost(size, now),
                3 => drop(discovery.packet_too_big(size, now)),
                4 => discovery.data_lost(size),
                5 => discovery.data_acknowledged(size),
                6 => discovery.expire(now),
                7 => discovery.unsent(size, now),
                _ => {
                    let probe = discovery.next_probe(now);
                    assert!(probe.is_none_or(|size| (config.min..=config.max).contains(&size)));
                    match probe {
                        Some(size) if random(2) == 0 => discovery.lost(size, now),
                        Some(size) if random(2) == 0 => discovery.acknowledged(size, now),
                        _ => {}
                    }
                }
            }
            assert!((config.min..=config.max).contains(&discovery.plpmtu()));
        }
    }
}
