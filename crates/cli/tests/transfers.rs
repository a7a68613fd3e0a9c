//! Transfers in memory arrive whole: files at all MTUs and IP versions, threads, loans,
//! super-segments, UDP.

mod common;

use common::{code, file, run, stderr};
use serde_json::Value;

/// The document of a run that must succeed.
fn json(args: &[&str]) -> Value {
    let output = run(&[&["ttcp", "--json"], args].concat());
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON document and nothing else")
}

fn check(found: &Value, len: usize, sum: &str) {
    assert_eq!(found["sha256_sent"], sum);
    assert_eq!(found["sha256_received"], sum);
    assert_eq!(found["bytes"], len);
    // On a busy machine an end may pause until the other sends a tail probe, which is no loss.
    let probes = found["counters"]["tcp_tail_probes"].as_u64().expect("a count");
    assert!(found["retransmits"].as_u64() <= Some(probes), "{found}");
    assert_eq!(found["counters"]["tcp_timeouts"], 0, "{found}");
    let drops = found["drops"].as_object().expect("names and counts");
    let repeated =
        |(name, n): (&String, &Value)| name == "tcp_duplicate" && n.as_u64() <= Some(probes);
    assert!(drops.iter().all(repeated), "{found}");
}

fn move_file(name: &str, len: usize, args: &[&str]) -> Value {
    let (path, sum) = file(name, len);
    let path = path.to_str().expect("a plain name");
    let found = json(&[&["--file", path], args].concat());
    check(&found, len, &sum);
    found
}

#[test]
fn files_of_awkward_sizes_arrive_whole() {
    for len in [0, 1, 1447, 1448, 1449, 65_536, (1 << 20) + 1, (3 << 19) - 7] {
        move_file(&format!("size{len}"), len, &[]);
    }
}

#[test]
fn files_arrive_whole_at_every_mtu_and_version() {
    let v4 = [["-4", "68"], ["-4", "536"], ["-4", "1500"], ["-4", "65535"]];
    let v6 = [["-6", "1280"], ["-6", "1500"], ["-6", "65535"]];
    for [version, mtu] in v4.iter().chain(&v6) {
        let name = format!("mtu{version}-{mtu}");
        for predict in ["on", "off"] {
            let found =
                move_file(&name, (1 << 20) + 1, &[version, "--mtu", mtu, "--predict", predict]);
            assert_eq!(found["mtu"].to_string(), *mtu);
            let predicted = found["predicted_fraction"].as_f64().expect("a number");
            assert_eq!(predicted > 0.0, predict == "on", "{found}");
        }
    }
}

#[test]
fn files_arrive_whole_whatever_is_turned_on() {
    let ways: [&[&str]; 12] = [
        &["--threads", "2"],
        &["--loan"],
        &["--loan", "--threads", "2", "--mtu", "9000"],
        &["--super"],
        &["--super", "-6", "--threads", "2"],
        &["--super", "--loan"],
        &["--checksum", "off"],
        &["--cc", "newreno", "-D"],
        &["-l", "64"],
        &["-l", "4M", "--switch", "write-units=off"],
        &["-b", "8K"],
        &["--switch", "burst-ack=off", "--switch", "fused-sum=off", "--switch", "simd-sum=off"],
    ];
    for (n, way) in ways.iter().enumerate() {
        move_file(&format!("way{n}"), (2 << 20) + 17, way);
    }
}

#[test]
fn bulk_is_predicted_and_nothing_is_sent_again() {
    for args in [
        &["--bytes", "200M"][..],
        &["--bytes", "200M", "--mtu", "65535"],
        &["--bytes", "200M", "--mtu", "536"],
        &["--bytes", "200M", "-6", "--mtu", "1280"],
        &["--bytes", "200M", "-6", "--mtu", "65535"],
        &["--bytes", "200M", "--super"],
        &["--bytes", "100M", "--threads", "2"],
    ] {
        let found = json(args);
        let predicted = found["predicted_fraction"].as_f64().expect("a number");
        assert!(predicted >= 0.99, "{args:?}: {found}");
        let probes = found["counters"]["tcp_tail_probes"].as_u64();
        assert!(found["retransmits"].as_u64() <= probes, "{args:?}: {found}");
    }
}

#[test]
fn every_key_is_there_and_the_figures_fit_each_other() {
    let found = json(&["--bytes", "64M"]);
    for key in [
        "gbit_per_s",
        "gbit_per_cpu_s",
        "ns_per_segment",
        "segments",
        "bytes",
        "mtu",
        "checksum",
        "predicted_fraction",
        "retransmits",
        "drops",
        "cpu_s_sender",
        "cpu_s_receiver",
        "sha256_sent",
        "sha256_received",
        "wakeups_sent",
        "wakeups_suppressed",
        "version",
        "time",
        "settings",
    ] {
        assert!(found.get(key).is_some(), "{key}");
    }
    let number = |key: &str| found[key].as_f64().expect("a number");
    let cpu_s = number("cpu_s_sender") + number("cpu_s_receiver");
    assert!(number("cpu_s_sender") > 0.0 && number("cpu_s_receiver") > 0.0);
    let gbit = number("bytes") * 8.0 / 1e9;
    assert!((number("gbit_per_cpu_s") * cpu_s - gbit).abs() < 1e-6);
    assert!((number("ns_per_segment") * number("segments") / 1e9 - cpu_s).abs() < 1e-6);
    assert_eq!(found["sha256_sent"], Value::Null);
    assert_eq!(found["checksum"], true);
    assert_eq!(json(&["--bytes", "1K", "--checksum", "off"])["checksum"], false);
}

#[test]
fn writes_times_length_is_what_arrives() {
    let found = json(&["-n", "100", "-l", "1000", "-s", "-p", "9"]);
    assert_eq!(found["bytes"], 100_000);
    assert_eq!(found["settings"]["length"], 1000);
    assert_eq!(found["settings"]["port"], 9);
}

#[test]
fn datagrams_that_arrive_and_those_lost_add_up() {
    for args in [
        &["--bytes", "20M"][..],
        &["--bytes", "20M", "-6", "--mtu", "65535"],
        &["--bytes", "1M", "-l", "4"],
        // In fragments.
        &["--bytes", "20M", "-l", "8K"],
        &["--bytes", "20M", "-6", "-l", "65527"],
        &["--bytes", "20M", "--threads", "2"],
        &["--bytes", "1001", "-l", "1000"],
        &["--bytes", "0"],
        &["--bytes", "20M", "-l", "100", "--segments"],
        &["--bytes", "1M", "-6", "--segments", "7", "--threads", "2"],
        &["--bytes", "20M", "-l", "8K", "--segments"],
    ] {
        let found = json(&[&["-u"], args].concat());
        let of = |key: &str| found["datagrams"][key].as_u64().expect("a count");
        assert_eq!(of("received") + of("lost"), of("sent"), "{args:?}: {found}");
        assert_eq!(of("out_of_order"), 0);
        // On one thread the receiver keeps up by construction.
        assert!(found["settings"]["threads"] == 2 || of("lost") == 0, "{args:?}: {found}");
    }
}

#[test]
fn datagrams_are_sent_in_segments_and_the_report_says_how() {
    let sent = |args: &[&str]| json(&[&["-u", "--bytes", "1M", "-l", "1000"], args].concat());
    let of = |found: &Value, key: &str| found["datagrams"][key].as_u64().expect("a number");
    let alone = sent(&[]);
    assert_eq!((of(&alone, "segments"), of(&alone, "path_mtu")), (1, 1500));
    assert_eq!(of(&alone, "calls"), of(&alone, "sent"));
    let together = sent(&["--segments"]);
    assert_eq!(of(&together, "segments"), 64);
    assert!(of(&together, "calls") <= of(&together, "sent") / 16, "{together}");
    assert!(together["counters"]["udp_segments"].as_u64() > Some(0), "{together}");
    // Segments are whole packets: what leaves in fragments goes one by one.
    let large = json(&["-u", "--bytes", "1M", "-l", "8K", "--segments"]);
    assert_eq!((of(&large, "segments"), &large["datagrams"]["fragmented"]), (1, &true.into()));
}
