//! `wirespeed up` as hosts on both sides see it with their own tools: hops, smaller MTUs, routes
//! that go, and transfers that go on while configurations change.

use std::process::Command;

use rustix::process::Signal;
use testbed::{Case, Need, Running, ip, until};

use crate::up::{TIMEOUT, World, pings};

const IPERF3: Need = Need::Program("iperf3", "iperf3");
const TRACEROUTE: Need = Need::Program("traceroute", "traceroute");

pub(crate) const CASES: &[Case] = &[
    ("up_is_a_hop_and_says_which_size_passes", &[Need::PING, TRACEROUTE], hop),
    ("up_forgets_a_route_that_the_file_no_longer_has", &[Need::PING], stale),
    ("up_keeps_flows_while_configurations_come_and_go", &[Need::PING, IPERF3], flows),
];

/// The network behind carries 1400 bytes.
const CONFIG: &str = r#"
[[port]]
name = "wan"
device = "tap:ws0"
addresses = ["192.0.2.2/24", "2001:db8:1::2/64"]
[[port]]
name = "lan"
device = "tap:ws1"
mtu = 1400
addresses = ["198.51.100.1/24", "2001:db8:2::1/64"]
"#;

/// A route to the host behind, with a network of its own.
const BEHIND: &str = "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"198.51.100.2\"\n";

fn world(config: &str) -> World {
    let world = World::new(config);
    assert!(ip("addr add 2001:db8:1::1/64 dev ws0 nodad"));
    assert!(ip("route add 2001:db8:2::/64 via 2001:db8:1::2"));
    assert!(world.behind.ip("addr add 2001:db8:2::2/64 dev ws1 nodad"));
    assert!(world.behind.ip("route add default via 2001:db8:2::1"));
    for host in ["198.51.100.2", "2001:db8:2::2"] {
        assert!(until(TIMEOUT, || pings(host)), "{host}: {}", world.log());
    }
    world
}

fn said(program: &str, words: &str) -> String {
    let output = Command::new(program).args(words.split(' ')).output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn hop() {
    let world = world(CONFIG);
    for (router, host) in [("192.0.2.2", "198.51.100.2"), ("2001:db8:1::2", "2001:db8:2::2")] {
        let trace = said("traceroute", &format!("-n -q 1 -w 2 -m 4 {host}"));
        let hops: Vec<&str> =
            trace.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(hops, [router, host], "{trace}");
    }
    // 1428 bytes. Without DF the router cuts them; with it, and over IPv6, it reports the MTU.
    let cut = said("ping", "-c 1 -W 2 -M dont -s 1400 198.51.100.2");
    assert!(cut.contains(" 1 received"), "{cut}");
    let refused = said("ping", "-c 1 -W 2 -M do -s 1400 198.51.100.2");
    assert!(refused.contains("From 192.0.2.2") && refused.contains("mtu = 1400"), "{refused}");
    let refused = said("ping", "-c 1 -W 2 -M do -s 1400 2001:db8:2::2");
    assert!(refused.contains("From 2001:db8:1::2"), "{refused}");
    assert!(refused.contains("Packet too big: mtu=1400"), "{refused}");
    assert_eq!(world.end(Signal::TERM), 0);
}

fn stale() {
    let world = world(&format!("{CONFIG}{BEHIND}"));
    assert!(world.behind.ip("addr add 10.9.0.1/32 dev lo"));
    assert!(ip("route add 10.9.0.0/16 via 192.0.2.2"));
    assert!(until(TIMEOUT, || pings("10.9.0.1")), "{}", world.log());
    world.reload(CONFIG, "1 changes took effect, 0 failed");
    assert!(!world.show("routes").contains("10.9.0.0/16"));
    let probe = said("ping", "-c 1 -W 2 10.9.0.1");
    assert!(probe.contains("From 192.0.2.2") && probe.contains("Unreachable"), "{probe}");
    assert_eq!(world.end(Signal::TERM), 0);
}

/// Resident memory of a process in KB.
fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel's");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn flows() {
    let world = world(CONFIG);
    let _server = Running(world.behind.command("iperf3").arg("-s").spawn().expect("it starts"));
    let broken = format!("{CONFIG}mtuu = 9\n");
    let more = format!("{CONFIG}{BEHIND}");
    let first_kb = resident_kb(world.worker());
    for (host, words) in [
        ("198.51.100.2", ""),
        ("198.51.100.2", " -R"),
        ("2001:db8:2::2", ""),
        ("2001:db8:2::2", " -R"),
    ] {
        let mut first = String::new();
        let listens = until(TIMEOUT, || {
            first = said("iperf3", &format!("-c {host} -n 1K -J"));
            !first.contains("\"error\"")
        });
        assert!(listens, "{host}: {first}{}", world.show("drops"));
        // Between two tests iperf3 closes its listening socket: connections that wait are reset.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let words = format!("-c {host} -t 3 -J{words}");
        let report = std::thread::scope(|scope| {
            let client = scope.spawn(|| said("iperf3", &words));
            while !client.is_finished() {
                for config in [more.as_str(), broken.as_str(), CONFIG] {
                    world.write(config);
                    world.signal(Signal::HUP);
                    std::thread::sleep(std::time::Duration::from_millis(150));
                }
            }
            client.join().expect("no panic")
        });
        assert!(!report.contains("\"error\""), "{report}");
        let (_, received) = report.rsplit_once("\"sum_received\"").expect("a sum");
        let bytes = received.split("\"bytes\":").nth(1).and_then(|rest| rest.split(',').next());
        let bytes: u64 = bytes.expect("a figure").trim().parse().expect("a number");
        assert!(bytes > 1_000_000, "{report}{}", world.show("drops"));
    }
    let log = world.log();
    assert!(log.matches("1 changes took effect, 0 failed").count() >= 12, "{log}");
    assert!(log.matches("the running configuration stays").count() >= 6, "{log}");
    assert!(!log.contains("opened anew"), "{log}");
    let growth_kb = resident_kb(world.worker()).saturating_sub(first_kb);
    assert!(growth_kb < 32 << 10, "{growth_kb} KB");
    println!("  resident memory of the worker: {first_kb} KB, then {growth_kb} KB more");
    assert_eq!(world.end(Signal::TERM), 0);
}
