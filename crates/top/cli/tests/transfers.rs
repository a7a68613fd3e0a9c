//! Transfers in memory arrive whole: files at all MTUs and IP versions, threads, loans,
//! super-segments, UDP; either way, both ways and on many connections at once.

use serde_json::Value;

use crate::common::{code, file, run, stderr};

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
            let switch = format!("predict={predict}");
            let options = [version, "--mtu", mtu, "--switch", &switch];
            let found = move_file(&name, (1 << 20) + 1, &options);
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
        &["--switch", "checksum-rx=off", "--switch", "checksum-tx=off"],
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
        // On a busy machine pauses cost some predictions, of 4,000 segments at the largest MTU.
        assert!(predicted >= 0.95, "{args:?}: {found}");
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
    let off = ["--switch", "checksum-rx=off", "--switch", "checksum-tx=off"];
    let found = json(&[&["--bytes", "1K"][..], &off].concat());
    assert_eq!(found["checksum"], false);
    assert_eq!(found["settings"]["checksums"], Value::Null);
}

#[test]
fn the_report_says_how_checksums_are_made_and_why() {
    let found = json(&["--bytes", "1K"]);
    let told = found["settings"]["checksums"].as_str().expect("a sentence");
    // The reason stands in brackets behind the name of the rung.
    let (rung, why) = told.split_once(" (").expect("a reason");
    assert!(["word64", "avx2", "avx512"].contains(&rung) && why.ends_with(')'), "{told}");
    let output = run(&["ttcp", "--bytes", "1K", "--switch", "simd-sum=off"]);
    let line = match rung {
        "word64" => format!("  checksums {told}\n"),
        _ => "  checksums word64 (switch simd-sum is off)\n".to_owned(),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&line), "{text}");
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
        // These datagrams are sent in fragments.
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
    // Segments are whole packets: datagrams that leave in fragments go one by one.
    let large = json(&["-u", "--bytes", "1M", "-l", "8K", "--segments"]);
    assert_eq!((of(&large, "segments"), &large["datagrams"]["fragmented"]), (1, &true.into()));
}

/// The settings of a transfer both ways or on many connections, and what it must have moved each
/// way.
const SHAPES: [(&[&str], &[&str], u64); 8] = [
    (&[], &["tx"], 1),
    (&["-R"], &["rx"], 1),
    (&["--bidir"], &["tx", "rx"], 1),
    (&["-P", "3"], &["tx"], 3),
    (&["-P", "128"], &["tx"], 128),
    (&["-R", "-P", "3"], &["rx"], 3),
    (&["--bidir", "-P", "3"], &["tx", "rx"], 3),
    (&["--bidir", "-P", "128", "--super"], &["tx", "rx"], 128),
];

/// Every flow moved its share, and the sums are those of the flows.
fn check_flows(found: &Value, directions: &[&str], parallel: u64, bytes: u64) {
    let streams = found["streams"].as_array().expect("a list");
    assert_eq!(streams.len() as u64, directions.len() as u64 * parallel, "{found}");
    let mut flows = streams.iter();
    for direction in directions {
        for n in 0..parallel {
            let flow = flows.next().expect("it was counted");
            assert_eq!(
                (&flow["direction"], &flow["stream"]),
                (&(*direction).into(), &(n + 1).into())
            );
            let share = bytes / parallel + u64::from(n < bytes % parallel);
            assert_eq!(flow["bytes_sent"], share, "{direction} {n}: {found}");
            assert_eq!(flow["bytes_received"], share, "{direction} {n}: {found}");
        }
        let sum = &found["sum"][*direction];
        assert_eq!((&sum["bytes_sent"], &sum["bytes_received"]), (&bytes.into(), &bytes.into()));
        assert!(sum["bits_per_second"].as_f64() > Some(0.0), "{found}");
    }
    assert_eq!(found["sum"].as_object().map(serde_json::Map::len), Some(directions.len()));
    let all = bytes * directions.len() as u64;
    assert_eq!((&found["bytes"], &found["bytes_sent"]), (&all.into(), &all.into()));
    assert_eq!(found["settings"]["parallel"], parallel);
}

#[test]
fn every_direction_on_every_connection_moves_its_share() {
    // This is neither a multiple of the connections nor of a segment.
    let bytes = 8_000_003;
    for (args, directions, parallel) in SHAPES {
        for more in [&["--threads", "1"][..], &["--threads", "2"], &["--loan", "-6"]] {
            let found = json(&[&["--bytes", "8000003"], args, more].concat());
            check_flows(&found, directions, parallel, bytes);
        }
    }
    // Connections that have nothing to move end, too.
    let found = json(&["--bytes", "2", "-P", "5", "--bidir", "--threads", "2"]);
    check_flows(&found, &["tx", "rx"], 5, 2);
}

#[test]
fn a_file_goes_to_who_connects() {
    for threads in ["1", "2"] {
        move_file(&format!("reverse{threads}"), (2 << 20) + 17, &["-R", "--threads", threads]);
    }
}

#[test]
fn a_time_ends_both_directions_of_all_connections_which_all_moved_something() {
    for threads in ["1", "2"] {
        let args = ["--seconds", "0.5", "-i", "0.1", "--bidir", "-P", "4", "--threads", threads];
        let output = run(&[&["ttcp", "--json"], &args[..]].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        let streams = found["streams"].as_array().expect("a list");
        assert_eq!(streams.len(), 8);
        let moved = |of: &Value| -> u64 {
            let intervals = of["intervals"].as_array().expect("a list");
            intervals.iter().map(|one| one["bytes"].as_u64().expect("a count")).sum()
        };
        for flow in streams {
            assert!(flow["bytes_received"].as_u64() > Some(0), "{flow}");
            assert_eq!(flow["bytes_sent"], flow["bytes_received"]);
            assert_eq!(flow["bytes_received"], moved(flow), "its intervals are all of it: {flow}");
        }
        for direction in ["tx", "rx"] {
            let sum = &found["sum"][direction];
            assert_eq!(sum["bytes_received"], moved(sum), "{direction}: {found}");
        }
        assert_eq!(found["bytes"], moved(&found));
        let lines = stderr(&output);
        for line in ["[  1][TX] ", "[  4][RX] ", "[SUM][TX] ", "[SUM][RX] "] {
            assert!(lines.contains(line), "{line}: {lines}");
        }
    }
}

#[test]
fn the_report_has_a_line_for_each_of_several_flows() {
    let text = |args: &[&str]| {
        let output = run(&[&["ttcp", "--bytes", "1M"], args].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let alone = text(&[]);
    assert!(!alone.contains('['), "{alone}");
    let both = text(&["--bidir"]);
    assert!(both.contains("both directions") && both.contains("ttcp-t: 2097152 bytes"), "{both}");
    assert!(both.contains("[  1][TX] ") && both.contains("[  1][RX] "), "{both}");
    assert!(!both.contains("SUM"), "a direction of one flow is its own sum: {both}");
    let many = text(&["-P", "3"]);
    assert!(many.contains("3 connections") && many.contains("[  3] "), "{many}");
    assert!(many.contains("[SUM] ") && many.contains("ttcp-r: 1048576 bytes"), "{many}");
}

#[test]
fn datagrams_go_both_ways_and_between_many_sockets() {
    for (args, flows) in [
        (&["--bidir"][..], 2),
        (&["-P", "5"], 5),
        (&["-P", "128", "-p", "65408"], 128),
        (&["--bidir", "-P", "3", "-6", "--segments"], 6),
        (&["--bidir", "-P", "3", "--threads", "2"], 6),
    ] {
        let found = json(&[&["-u", "--bytes", "3M", "-l", "1000"], args].concat());
        let of = |key: &str| found["datagrams"][key].as_u64().expect("a count");
        assert_eq!(of("received") + of("lost"), of("sent"), "{args:?}: {found}");
        assert_eq!(found["streams"].as_array().map(Vec::len), Some(flows), "{args:?}");
        assert!(found["settings"]["threads"] == 2 || of("lost") == 0, "{args:?}: {found}");
    }
}
