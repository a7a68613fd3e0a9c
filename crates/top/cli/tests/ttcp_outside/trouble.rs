//! Failures during a transfer, and Ctrl-C: the end, the message, and what is left behind.

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Need, Running};

use crate::cases::{Case, DEVICE, sink};
use crate::fixture::Fixture;

pub(crate) const CASES: &[Case] = &[
    ("a_file_comes_whole_over_a_bad_wire", &[Need::SOCAT], faults),
    ("a_peer_that_vanishes_fails_the_sender_after_the_user_timeout", &[Need::SOCAT], sender),
    ("a_peer_that_vanishes_fails_the_receiver_after_the_user_timeout", &[Need::SOCAT], receiver),
    ("a_host_that_never_answers_fails_the_connect_after_the_user_timeout", &[], connect),
    ("a_kernel_without_an_address_is_given_the_command", &[], addressless),
    ("our_own_address_and_a_taken_interface_are_refused_at_once", &[], ours),
    ("an_interface_that_goes_down_is_named", &[Need::SOCAT], down),
    ("ctrl_c_ends_the_sender_with_its_figures_and_130", &[Need::SOCAT], interrupt_sender),
    ("ctrl_c_ends_the_receiver_and_leaves_no_interface", &[Need::SOCAT], interrupt_receiver),
    ("what_is_behind_a_gateway_is_reached_by_via_alone", &[Need::SOCAT], via),
];

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("one JSON document, {why}: {text}"))
}

/// A transfer that has moved bytes.
fn under_way(fixture: &Fixture, words: &str) -> Running {
    let tool = fixture.start_tool(words);
    fixture.until(|| {
        let (_, out, _) = fixture.tool("show connections --json");
        let found: Value = serde_json::from_str(&out).unwrap_or_default();
        let connection = &found["stacks"][0]["connections"][0];
        ["bytes_acked", "bytes_received"].iter().any(|k| connection[*k].as_u64() > Some(100_000))
    });
    tool
}

/// socat sends zeros to us, from the host at `address`.
fn source(fixture: &Fixture, address: &str) -> Running {
    fixture.start(&format!("socat -u OPEN:/dev/zero TCP4:{address}:5001,retry=50,interval=0.2"))
}

fn faults(fixture: &Fixture) {
    let sum = fixture.file("in", 2_000_000);
    let _socat = fixture.start("socat -u OPEN:in TCP4:10.9.0.2:5001,retry=50,interval=0.2");
    let faults = "drop=0.05,duplicate=0.02,reorder=0.05,corrupt=0.01,seed=9";
    let line = format!("ttcp -r {DEVICE} --offload off --file out --json --fault {faults}");
    let (code, out, err) = fixture.tool(&line);
    assert_eq!(code, 0, "{err}");
    assert_eq!(fixture.sum("out"), sum);
    let found = json(&out);
    assert_eq!(found["sha256_received"], sum);
    assert!(found["faults"]["rx"]["dropped"].as_u64() > Some(0), "{out}");
}

/// Without its address the kernel accepts nothing from us and answers nothing, as if unplugged.
fn vanish(fixture: &Fixture) {
    assert!(fixture.ip("addr del 10.9.0.1/24 dev ws0"));
}

fn ended(tool: Running) -> (i32, String) {
    // SIGCONT does nothing to it: the program ends by itself.
    let (code, _, err) = tool.end_by(Signal::CONT);
    (code, err)
}

fn sender(fixture: &Fixture) {
    let _socat = sink(fixture, 4);
    let line = format!("ttcp -t 10.9.0.1 {DEVICE} -s --seconds 50 --user-timeout 2");
    let tool = under_way(fixture, &line);
    vanish(fixture);
    let (code, err) = ended(tool);
    assert!(code == 1 && err.contains("the host does not answer"), "{code} {err}");
    assert!(err.contains("error: after ") && err.contains(" bytes: "), "{err}");
}

fn receiver(fixture: &Fixture) {
    let _socat = source(fixture, "10.9.0.2");
    let tool = under_way(fixture, &format!("ttcp -r {DEVICE} -s --user-timeout 2"));
    vanish(fixture);
    let (code, err) = ended(tool);
    assert!(code == 1 && err.contains("the host does not answer"), "{code} {err}");
}

fn connect(fixture: &Fixture) {
    // No interface of this host has the address, and TUN has no neighbour discovery.
    let line = format!("ttcp -t 10.9.0.77 {DEVICE} -s --bytes 1K --user-timeout 1");
    let (code, _, err) = fixture.tool(&line);
    assert!(code == 1 && err.contains("the host does not answer"), "{code} {err}");
    let (code, _, err) = fixture.tool(&format!("ttcp -r {DEVICE} -s --user-timeout 0.1"));
    assert!(code == 2 && err.contains("1 to 86400"), "{code} {err}");
}

fn addressless(fixture: &Fixture) {
    let give = "`sudo ip addr add 10.6.0.1/24 dev ws6`";
    let wire = "--dev tap:ws6 --addr 10.6.0.2/24";
    let (code, _, err) = fixture.tool(&format!("ttcp -t 10.6.0.1 {wire} -s --bytes 1K"));
    assert!(code == 1 && err.contains(give), "{code} {err}");
    let (code, _, err) = fixture.tool(&format!("ping -c 1 -W 1 {wire} 10.6.0.1"));
    assert!(code == 1 && err.contains(give), "{code} {err}");
}

fn ours(fixture: &Fixture) {
    for command in ["ttcp -s --bytes 1K -t", "ping -c 1"] {
        let (code, _, err) = fixture.tool(&format!("{command} 10.9.0.2 {DEVICE}"));
        assert!(code == 2 && err.contains("our own --addr"), "{command}: {code} {err}");
    }
    let _holds = fixture.start_tool(&format!("ttcp -r -s {DEVICE}"));
    // A probe with the tool itself could take the interface before the holder does.
    fixture.until(|| fixture.run("ip link show dev ws0").1.contains("LOWER_UP"));
    let (code, _, err) = fixture.tool(&format!("ping -c 1 {DEVICE} 10.9.0.1"));
    assert!(code == 2 && err.contains("in use by another program"), "{code} {err}");
    // An interface that is not a TUN must not be opened, and not suggested for deletion.
    let (code, _, err) = fixture.tool("ping -c 1 --dev tun:lo --addr 10.9.0.2/24 10.9.0.1");
    assert!(code == 2 && err.contains("Choose another name"), "{code} {err}");
    assert!(!err.contains("delete"), "{err}");
}

fn down(fixture: &Fixture) {
    let _socat = sink(fixture, 4);
    let line = format!("ttcp -t 10.9.0.1 {DEVICE} -s --seconds 50 --user-timeout 2");
    let tool = under_way(fixture, &line);
    assert!(fixture.ip("link set dev ws0 down"));
    let (code, err) = ended(tool);
    assert!(code == 1 && err.contains("'ws0' is down. Bring it up"), "{code} {err}");
}

fn interrupt_sender(fixture: &Fixture) {
    let mut socat = sink(fixture, 4);
    let tool = under_way(fixture, &format!("ttcp -t 10.9.0.1 {DEVICE} -s --seconds 50 --json"));
    let (code, out, err) = tool.end_by(Signal::INT);
    assert_eq!(code, 130, "{err}");
    let found = json(&out);
    assert_eq!(found["interrupted"], true);
    // All counted bytes were sent: the peer has every byte, and the FIN.
    assert!(socat.succeeds());
    let len = std::fs::metadata(fixture.folder.join("out")).expect("socat wrote it").len();
    assert_eq!(found["bytes"], len);
}

fn interrupt_receiver(fixture: &Fixture) {
    let tool = fixture.start_tool("ttcp -r --dev tun:ws5 --addr 10.5.0.2/24 -s");
    fixture.until(|| fixture.ip("link show dev ws5"));
    assert!(fixture.ip("addr add 10.5.0.1/24 dev ws5"));
    let _socat = source(fixture, "10.5.0.2");
    fixture.until(|| fixture.tool("show connections").1.contains("ESTABLISHED"));
    let (code, out, err) = tool.end_by(Signal::INT);
    assert!(code == 130 && out.is_empty(), "{code} {out} {err}");
    assert!(err.contains("(interrupted)") && err.contains("ttcp-r: "), "{err}");
    assert!(!fixture.ip("link show dev ws5"), "an interface stays");
    let left = std::fs::read_dir(fixture.folder.join("run/wirespeed")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "a control socket stays");
}

fn via(fixture: &Fixture) {
    let sum = fixture.file("in", 100_000);
    assert!(fixture.ip("addr add 198.51.100.5/32 dev lo") && fixture.ip("link set lo up"));
    let mut socat = sink(fixture, 4);
    let line = format!("ttcp -t 198.51.100.5 {DEVICE} --file in");
    let (code, _, err) = fixture.tool(&line);
    assert!(code == 1 && err.contains("--via GATEWAY"), "{code} {err}");
    let (code, _, err) = fixture.tool(&format!("{line} --via 10.9.0.1"));
    assert_eq!(code, 0, "{err}");
    assert!(socat.succeeds());
    assert_eq!(fixture.sum("out"), sum);
}
