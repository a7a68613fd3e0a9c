//! The cases, with their needs beyond root and TUN.

use serde_json::Value;
use testbed::{Need, Running};

use crate::fixture::Fixture;

pub(crate) type Case = testbed::Case<fn(&Fixture)>;

pub(crate) const CASES: &[Case] = &[
    ("files_reach_socat_whole_over_both_versions", &[Need::SOCAT], transmit),
    ("files_come_from_socat_whole_over_both_versions", &[Need::SOCAT], receive),
    ("a_file_arrives_whole_over_a_bad_wire", &[Need::SOCAT], faults),
    ("a_capture_opens_in_tshark", &[Need::SOCAT, Need::TSHARK], capture),
    ("show_tells_of_a_running_transfer", &[Need::SOCAT], show),
    ("without_io_uring_there_is_no_ring_and_a_file_arrives_whole", &[Need::SOCAT], without_a_ring),
    ("a_device_deleted_in_mid_transfer_ends_it_with_a_sentence", &[Need::SOCAT], deleted),
    ("nobody_listening_and_no_route_say_what_to_do", &[], refused),
    ("without_the_privilege_the_command_that_helps_is_named", &[Need::SETPRIV], privilege),
    ("without_the_driver_the_command_that_helps_is_named", &[Need::UNSHARE], driver),
];

pub(crate) const DEVICE: &str = "--dev tun:ws0 --addr 10.9.0.2/24 --addr fd09::2/64";

/// socat listens on port 5001 and writes to the file `out`.
pub(crate) fn sink(fixture: &Fixture, version: u8) -> Running {
    let running = fixture.start(&format!("socat -u TCP{version}-LISTEN:5001,reuseaddr CREATE:out"));
    // Long enough for it to listen; an earlier SYN would be refused.
    std::thread::sleep(std::time::Duration::from_millis(500));
    running
}

fn transmit(fixture: &Fixture) {
    let sum = fixture.file("in", 20_000_001);
    for (version, host) in [(4, "10.9.0.1"), (6, "fd09::1")] {
        let mut socat = sink(fixture, version);
        let line = format!("ttcp -t {host} {DEVICE} --file in --json");
        let (code, out, err) = fixture.tool(&line);
        assert_eq!(code, 0, "{err}");
        assert!(socat.succeeds());
        let found: Value = serde_json::from_str(&out).expect("one JSON document");
        assert_eq!(found["sha256_sent"], sum, "{out}");
        assert_eq!(found["bytes"], 20_000_001);
        assert_eq!(fixture.sum("out"), sum);
    }
}

fn receive(fixture: &Fixture) {
    let sum = fixture.file("in", 20_000_001);
    for address in ["TCP4:10.9.0.2:5001", "TCP6:[fd09::2]:5001"] {
        let source = format!("socat -u OPEN:in {address},retry=50,interval=0.2");
        let _socat = fixture.start(&source);
        let (code, out, err) = fixture.tool(&format!("ttcp -r {DEVICE} --file out --json"));
        assert_eq!(code, 0, "{err}");
        let found: Value = serde_json::from_str(&out).expect("one JSON document");
        assert_eq!(
            (&found["sha256_received"], fixture.sum("out")),
            (&sum.clone().into(), sum.clone())
        );
    }
}

fn faults(fixture: &Fixture) {
    let sum = fixture.file("in", 2_000_000);
    let mut socat = sink(fixture, 4);
    let faults = "drop=0.05,duplicate=0.02,reorder=0.05,corrupt=0.01,seed=7";
    let line = format!("ttcp -t 10.9.0.1 {DEVICE} --offload off --file in --json --fault {faults}");
    let (code, out, err) = fixture.tool(&line);
    assert_eq!(code, 0, "{err}");
    assert!(socat.succeeds());
    assert_eq!(fixture.sum("out"), sum);
    let found: Value = serde_json::from_str(&out).expect("one JSON document");
    assert!(found["faults"]["tx"]["dropped"].as_u64() > Some(0), "{out}");
    assert!(found["retransmits"].as_u64() > Some(0), "{out}");
}

fn capture(fixture: &Fixture) {
    fixture.file("in", 100_000);
    let _socat = sink(fixture, 4);
    let line = format!("ttcp -t 10.9.0.1 {DEVICE} --file in --capture c.pcapng");
    let (code, _, err) = fixture.tool(&line);
    assert_eq!(code, 0, "{err}");
    let file = fixture.path("c.pcapng");
    let output = std::process::Command::new("tshark")
        .args(["-r", &file, "-Y", "tcp.flags.syn == 1"])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    // An interface that has just got its carrier may lose the first SYN; then there is more than
    // one.
    let both = text.contains("[SYN]") && text.contains("[SYN, ACK]");
    assert!(output.status.success() && both, "{text}");
}

fn show(fixture: &Fixture) {
    let _socat = sink(fixture, 4);
    let _tool = fixture.start_tool(&format!("ttcp -t 10.9.0.1 {DEVICE} -s --seconds 30"));
    fixture.until(|| fixture.tool("show connections --json").1.contains("ESTABLISHED"));
    let (code, out, err) = fixture.tool("show --json");
    assert_eq!(code, 0, "{err}");
    let found: Value = serde_json::from_str(&out).expect("one JSON document");
    let stack = &found["stacks"][0];
    assert_eq!(stack["connections"][0]["remote"], "10.9.0.1:5001");
    assert!(stack["connections"][0]["bytes_acked"].as_u64() > Some(0), "{out}");
    assert_eq!(stack["ports"][0]["link"], "ip");
    assert_eq!(stack["routes"].as_array().map(Vec::len), Some(2));
    assert_eq!(stack["limits"]["control_clients"]["value"], 16);
    assert_eq!(stack["switches"]["predict"], true);
    let (code, out, _) = fixture.tool("show");
    assert!(code == 0 && out.contains("10.9.0.1:5001") && !out.contains('\x1b'), "{out}");
    let (code, _, err) = fixture.tool("show --pid 4194305");
    assert!(code == 1 && err.contains("is the program still running"), "{err}");
}

/// Does the program have an io_uring? Looks at its descriptors.
fn has_ring(tool: &Running) -> bool {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", tool.0.id())).expect("it runs");
    let targets = descriptors.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.into_iter().any(|target| target.to_string_lossy().contains("io_uring"))
}

fn without_a_ring(fixture: &Fixture) {
    let sum = fixture.file("in", 3_000_001);
    let mut socat = sink(fixture, 4);
    let line = format!("ttcp -t 10.9.0.1 {DEVICE} --io-uring off --file in");
    let (code, _, err) = fixture.tool(&line);
    assert!(code == 0 && socat.succeeds(), "{code} {err}");
    assert_eq!(fixture.sum("out"), sum);
    // If the kernel forbids io_uring, the program has none either way.
    for (how, ring) in [("on", Need::IoUring.is_there()), ("off", false)] {
        let _socat = sink(fixture, 4);
        let line = format!("ttcp -t 10.9.0.1 {DEVICE} -s --seconds 30 --io-uring {how}");
        let tool = fixture.start_tool(&line);
        fixture.until(|| fixture.tool("show connections --json").1.contains("ESTABLISHED"));
        assert_eq!(has_ring(&tool), ring, "--io-uring {how}");
    }
}

fn deleted(fixture: &Fixture) {
    let _socat = sink(fixture, 4);
    std::thread::scope(|scope| {
        let line = format!("ttcp -t 10.9.0.1 {DEVICE} -s --seconds 50");
        let tool = scope.spawn(move || fixture.tool(&line));
        fixture.until(|| fixture.tool("show connections --json").1.contains("ESTABLISHED"));
        assert!(fixture.ip("link delete dev ws0"));
        let (code, _, err) = tool.join().expect("it does not panic");
        assert_eq!(code, 1, "{err}");
        assert!(err.contains("'ws0' is gone"), "{err}");
    });
}

fn refused(fixture: &Fixture) {
    let (code, _, err) = fixture.tool(&format!("ttcp -t 10.9.0.1 {DEVICE} -s --bytes 1K"));
    assert!(code == 1 && err.contains("nobody listens"), "{code} {err}");
    let (code, _, err) = fixture.tool(&format!("ttcp -t 192.0.2.1 {DEVICE} -s --bytes 1K"));
    assert!(code == 1 && err.contains("--via GATEWAY"), "{code} {err}");
    let (code, _, err) = fixture.tool(&format!("ttcp -t no..host {DEVICE}"));
    assert!(code != 0 && err.contains("no..host"), "{code} {err}");
}

fn privilege(fixture: &Fixture) {
    let tool = env!("CARGO_BIN_EXE_wirespeed");
    let (code, _, err) = fixture.run(&format!(
        "setpriv --bounding-set=-net_admin {tool} ttcp -t 10.9.0.1 --dev tun:ws9 --addr 10.9.0.2/24"
    ));
    assert!(code == 1 && err.contains("setcap cap_net_admin"), "{code} {err}");
}

fn driver(fixture: &Fixture) {
    let tool = env!("CARGO_BIN_EXE_wirespeed");
    let line = format!("{tool} ttcp -t 10.9.0.1 {DEVICE}");
    let words = format!("unshare -m sh -c 'mount -t tmpfs none /dev/net && exec {line}'");
    let (code, _, err) = fixture.run(&words);
    assert!(code == 1 && err.contains("modprobe tun"), "{code} {err}");
}
