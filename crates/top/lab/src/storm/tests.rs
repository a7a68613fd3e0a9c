//! Legacy hosts make a storm; hosts of ours do not, and a router of ours does not forward one.

use super::*;

fn settings() -> Settings {
    Settings { frames_max: 5_000, seconds: 2, ..Settings::new(true) }
}

/// If legacy hosts made no storm, the tests of the other cases would show nothing.
#[test]
fn legacy_hosts_make_a_storm_and_ours_cannot() {
    let storm = legacy_hosts(&settings());
    assert!(storm.was_ended && storm.per_original() >= Some(100.0), "{storm:?}");
    let ours = our_hosts(&settings());
    assert!(ours.originals >= 100 && ours.per_original() <= Some(2.0), "{ours:?}");
    // Our hosts accept both forms: each datagram reaches the programs of all other hosts.
    assert_eq!(ours.received, ours.originals * 19, "{ours:?}");
    assert_eq!(legacy_hosts(&settings()), storm, "the same seed, the same storm");
}

/// Legacy hosts that agree about the broadcast address make no storm: the disagreement causes it.
#[test]
fn legacy_hosts_of_one_form_are_quiet() {
    let storm = cases::legacy_hosts_of_one_form(&settings());
    assert!(storm.originals > 100 && storm.per_original() == Some(1.0), "{storm:?}");
}

#[test]
fn nothing_of_a_storm_crosses_our_router_and_a_unicast_does() {
    let behind = behind_router(&settings());
    assert!(behind.storming_frames >= 5_000, "{behind:?}");
    assert_eq!(behind.storm.frames, 0, "{behind:?}");
    assert!(behind.unicasts.0 == 10 && behind.unicasts.1 > 0, "{behind:?}");
}

#[test]
fn a_bystander_keeps_its_connection_and_its_neighbours() {
    let beside = bystander(&settings());
    assert!(beside.storm.busy_percent > 90.0 && beside.storm.frames > 5_000, "{beside:?}");
    assert!(beside.is_connected && beside.knows_peer, "{beside:?}");
    // The connection gets about a fair share of the wire, as two of 22 stations.
    assert!(beside.storm_bytes_per_s > 50_000.0, "{beside:?}");
    assert!(beside.quiet_bytes_per_s > 800_000.0, "{beside:?}");
    assert!(!beside.names.is_empty() && beside.neighbours < 30, "{beside:?}");
}
