//! `dump` of a running transfer in memory, to the terminal and to files, and of files.

mod files;
use std::path::PathBuf;

use crate::common::{code, program, run, stderr};
use crate::running::Running;

/// The magic numbers of pcap files with microseconds, and with nanoseconds.
const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;

/// The link types of their packets.
const ETHERNET: u32 = 1;
const RAW_IP: u32 = 101;

fn text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Number of packets that `dump` printed. Hex of unknown packets is on lines of its own.
fn packets(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with('\t')).count()
}

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A pcap file of packets at these times (seconds, fraction), in the byte order of `order`.
fn pcap(
    name: &str,
    order: fn(u32) -> [u8; 4],
    [magic, link]: [u32; 2],
    times: &[(u32, u32)],
) -> String {
    let packet: Vec<u8> = match link {
        // A frame from 02:00:00:00:00:01, with an experimental Ethertype.
        ETHERNET => {
            [&[2_u8, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5][..], &[0; 46][..]].concat()
        }
        // A packet from 192.0.2.1 to 192.0.2.2, of protocol 253.
        _ => vec![69, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2],
    };
    let version = if order(1)[0] == 1 { [2, 0, 4, 0] } else { [0, 2, 0, 4] };
    let mut bytes = [order(magic), version].concat();
    bytes.extend([0, 0, 65_535, link].map(order).concat());
    for (seconds, fraction) in times {
        let len = packet.len() as u32;
        bytes.extend([*seconds, *fraction, len, len].map(order).concat());
        bytes.extend(&packet);
    }
    let path = place(name);
    std::fs::write(&path, bytes).expect("room");
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// Run the program with `-w`; the path of the file.
fn written(name: &str, args: &[&str]) -> String {
    let path = place(name).to_str().expect("a path in UTF-8").to_owned();
    let output = run(&[args, &["-w", path.as_str()][..]].concat());
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    path
}

/// A capture of a running transfer.
fn capture(name: &str, count: &str) -> PathBuf {
    let running = Running::start("1").ready();
    let path = place(name);
    let written = path.to_str().expect("a path in UTF-8");
    let output = running.ask(&["dump", "-c", count, "-s", "100", "-w", written]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("{count} packets captured")), "{}", stderr(&output));
    path
}

#[test]
fn a_running_transfer_is_shown_from_outside() {
    for threads in ["1", "2"] {
        let running = Running::start(threads).ready();
        let output = running.ask(&["dump", "-c", "300", "-v", "--pid", &running.pid()]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = text(&output);
        assert_eq!(text.matches(": Flags [").count(), 300, "{text}");
        // Each line names the port and the direction, as one of tcpdump's `-i any` does.
        assert!(
            text.contains(" sender:0 Out IP ") || text.contains(" receiver:0 Out IP "),
            "{text}"
        );
        assert!(
            text.contains(" receiver:0 In  IP ") || text.contains(" sender:0 In  IP "),
            "{text}"
        );
        assert!(text.contains("(correct)") && !text.contains("incorrect"), "{text}");
        let closing = stderr(&output);
        for line in ["300 packets captured", "packets seen by the filter", "packets dropped"] {
            assert!(closing.contains(line), "{closing}");
        }
        // This repeats more often than the limit on taps, in case taps are left behind.
        for _ in 0..20 {
            let output = running.ask(&["dump", "-c", "1"]);
            assert_eq!(code(&output), 0, "{}", stderr(&output));
        }
        let limits = running.ask(&["show", "limits", "--json"]).stdout;
        let limits: serde_json::Value = serde_json::from_slice(&limits).expect("one document");
        let taps = &limits["stacks"][0]["limits"]["control_taps"];
        assert_eq!((&taps["value"], &taps["hits"]), (&32.into(), &0.into()), "{limits}");
    }
}

/// The times at the beginning of lines that `dump` printed.
fn times(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split(' ').next()).collect()
}

#[test]
fn the_last_packets_of_a_transfer_come_before_its_end() {
    for threads in ["1", "2"] {
        let running = Running::with(&["--threads", threads, "--seconds", "2"]).ready();
        let output = running.ask(&["dump", "tcp[tcpflags] & tcp-fin != 0"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = text(&output);
        // The FINs of both ends, each seen where it is sent and where it is received.
        let finished = text.matches("Flags [F").count();
        assert_eq!(finished, 4, "{threads}: {text}{}", stderr(&output));
        assert!(times(&text).is_sorted(), "{text}");
    }
}

#[test]
fn one_port_of_a_program_is_watched_alone() {
    let running = Running::start("1").ready();
    let output = running.ask(&["dump", "-c", "50", "--port", "receiver:0", "len > 1000"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    // With both ports a packet would be seen twice.
    let text = text(&output);
    let numbers: Vec<_> = text.lines().filter_map(|l| l.split("seq ").nth(1)).collect();
    assert_eq!(numbers.len(), 50, "{text}");
    let apart: std::collections::BTreeSet<_> = numbers.iter().collect();
    assert_eq!(apart.len(), 50, "{text}");
    let output = running.ask(&["dump", "--port", "sender:7"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("it has sender:0, receiver:0"), "{}", stderr(&output));
}

#[test]
fn packets_of_several_ports_come_in_the_order_of_their_times() {
    let running = Running::start("1").ready();
    let output = running.ask(&["dump", "-c", "20000"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = text(&output);
    assert_eq!(times(&text).len(), 20_000);
    assert!(times(&text).is_sorted());
}

#[test]
fn a_program_that_stands_still_for_a_while_ends_no_capture() {
    // Long enough for that many packets on a busy machine.
    let running = Running::with(&["--threads", "1", "--seconds", "240"]).ready();
    let stand = "sleep 1; kill -STOP $PID; sleep 7; kill -CONT $PID";
    let script = format!("PID={}; ({stand}) & exec $WIRESPEED dump -c 100000 -w -", running.pid());
    let path = place("stood.pcapng");
    let output = running.shell(&script);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    std::fs::write(&path, &output.stdout).expect("room");
    // Packets were captured at each port; none is counted at both.
    let path = path.to_str().expect("a path in UTF-8");
    let read = run(&["dump", "-r", path, "-e"]);
    assert_eq!(code(&read), 0, "{}", stderr(&read));
    assert_eq!(text(&read).lines().count(), 100_000);
}

#[test]
fn nobody_reads_and_it_ends() {
    let running = Running::start("1").ready();
    let output = running.shell("timeout 20 $WIRESPEED dump | head -n 3; echo ${PIPESTATUS:-none}");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("packets captured"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_done_says_what_to_do() {
    let says = |args: &[&str], status: i32, words: &str| {
        let output = run(args);
        let said = stderr(&output);
        assert_eq!(code(&output), status, "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    };
    says(&["dump", "-r", "/nowhere/at/all"], 1, "/nowhere/at/all");
    says(&["dump", "-i", "eth0", "-r", "x"], 2, "--help");
    says(&["dump", "-c", "0"], 2, "--help");
    says(&["dump", "-C", "1"], 2, "-w");
    says(&["dump", "-w", "-", "-C", "1"], 2, "leave out -C and -G");
    says(&["dump", "-w", "-", "-G", "1"], 2, "leave out -C and -G");
    says(&["dump", "-w", "cap-%", "-G", "1"], 2, "strftime");
    says(&["dump", "-s", "262145"], 2, "0..=262144");
    says(&["dump", "--pid", "1"], 1, "1");
    let running = Running::start("1").ready();
    let full = running.ask(&["dump", "-c", "5000", "-w", "/dev/full"]);
    assert_eq!(code(&full), 1);
    assert!(stderr(&full).contains("No space left"), "{}", stderr(&full));
}

#[test]
fn the_filter_that_keeps_all_is_one_return() {
    assert_eq!(text(&run(&["dump", "-d"])), "(000) ret      #262144\n");
    assert_eq!(text(&run(&["dump", "-ddd"])), "1\n6 0 0 262144\n");
    // As with tcpdump, 0 is the maximum.
    assert_eq!(text(&run(&["dump", "-d", "-s", "0"])), "(000) ret      #262144\n");
    assert_eq!(text(&run(&["dump", "-d", "-s", "96"])), "(000) ret      #96\n");
}

#[test]
fn a_count_is_of_the_packets_on_the_wire() {
    let running = Running::with(&["--super"]).ready();
    let lengths = |args: &[&str]| -> Vec<usize> {
        let output = running.ask(&[&["dump"][..], args].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = text(&output);
        let length = |line: &str| line.rsplit_once("length ")?.1.parse::<usize>().ok();
        text.lines().filter_map(length).collect()
    };
    let whole = lengths(&["-c", "100"]);
    assert!(whole.len() == 100 && whole.iter().any(|len| *len > 10_000), "{whole:?}");
    let parts = lengths(&["-c", "20", "--segment"]);
    assert!(parts.len() == 20 && parts.iter().all(|len| *len <= 1_460), "{parts:?}");
}

/// The test's database has one zone (RFC 9636, version 1): one type of local time, 5 h 30 min east
/// of UTC, called IST.
#[test]
fn a_time_zone_may_be_given_by_its_name() {
    let zones = place("zones");
    std::fs::create_dir_all(zones.join("Test")).expect("room");
    let counts = [0_u32, 0, 0, 0, 1, 4].map(u32::to_be_bytes).concat();
    let kind = [&19_800_i32.to_be_bytes()[..], &[0, 0][..]].concat();
    let zone = [&b"TZif"[..], &[0; 16][..], &counts[..], &kind[..], &b"IST\0"[..]].concat();
    std::fs::write(zones.join("Test/Place"), zone).expect("room");
    let path = pcap("zoned.pcap", u32::to_le_bytes, [MICRO, ETHERNET], &[(1, 0)]);
    let mut dump = program();
    dump.args(["dump", "-r", path.as_str()]).env("TZ", "Test/Place").env("TZDIR", &zones);
    let shown = text(&dump.output().expect("the program starts"));
    assert!(shown.starts_with("05:30:01.000000 "), "{shown}");
}

#[test]
fn a_link_type_of_which_nothing_is_known_is_shown_in_hex() {
    let path = pcap("user0.pcap", u32::to_le_bytes, [MICRO, 147], &[(1, 0)]);
    let shown = run(&["dump", "-t", "-r", &path]);
    assert_eq!(code(&shown), 0, "{}", stderr(&shown));
    assert!(text(&shown).starts_with("UNSUPPORTED\n\t0x0000:  4500 0014 "), "{}", text(&shown));
    assert!(stderr(&shown).contains("not decoded"), "{}", stderr(&shown));
    // A copy keeps the link type.
    let copy = written("user0.pcapng", &["dump", "-r", &path]);
    assert_eq!(text(&run(&["dump", "-t", "-r", &copy])), text(&shown));
}

#[test]
fn packets_go_to_standard_output_and_the_rest_to_standard_error() {
    let path = pcap("quiet.pcap", u32::to_le_bytes, [MICRO, RAW_IP], &[(1, 0), (2, 0)]);
    let shown = run(&["dump", "-r", &path]);
    assert_eq!(text(&shown).lines().count(), 2);
    assert_eq!(stderr(&shown).lines().count(), 1, "{}", stderr(&shown));
    assert_eq!(text(&run(&["dump", "--count", "-r", &path])), "2 packets\n");
    // After an error only the error is printed.
    let bytes = std::fs::read(&path).expect("it was written");
    let cut = place("quiet-cut.pcap");
    std::fs::write(&cut, &bytes[..bytes.len() - 1]).expect("room");
    let output = run(&["dump", "-r", cut.to_str().expect("UTF-8")]);
    assert_eq!((code(&output), text(&output).lines().count()), (1, 1));
    let said = stderr(&output);
    assert!(said.lines().last().is_some_and(|line| line.starts_with("error: ")), "{said}");
}

#[test]
fn a_filter_may_come_from_a_file_and_a_direction_is_a_filter() {
    let path = capture("directions.pcapng", "5000");
    let path = path.to_str().expect("a path in UTF-8");
    let count = |more: &[&str]| {
        let shown = run(&[&["dump", "-r", path][..], more].concat());
        assert_eq!(code(&shown), 0, "{}", stderr(&shown));
        text(&shown).lines().count()
    };
    let (received, sent) = (count(&["-Q", "in"]), count(&["-Q", "out"]));
    assert!(received > 0 && sent > 0 && received + sent == 5000, "{received} and {sent}");
    assert_eq!(count(&["-Q", "inout"]), 5000);
    let filter = place("filter.txt");
    std::fs::write(&filter, "\n").expect("room");
    // The empty filter of the file matches all, whatever the command line says.
    assert_eq!(count(&["-F", filter.to_str().expect("UTF-8"), "tcp port nowhere"]), 5000);
    assert_eq!(code(&run(&["dump", "-F", "/nowhere/at/all"])), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn the_interfaces_of_this_machine_are_listed() {
    let listed = text(&run(&["dump", "-D"]));
    assert!(listed.contains(".lo [") && listed.contains("Loopback"), "{listed}");
    assert!(listed.ends_with(".any (all interfaces that are up)\n"), "{listed}");
    let document: serde_json::Value =
        serde_json::from_slice(&run(&["dump", "-D", "--json"]).stdout).expect("one document");
    let interfaces = document["interfaces"].as_array().expect("a list");
    assert!(interfaces.iter().any(|i| i["name"] == "lo"), "{document}");
}
