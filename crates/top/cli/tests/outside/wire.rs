//! `wirespeed wire` between two kernels, each in its own namespace: they observe what the options
//! say.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use testbed::{Case, Namespace, Need, Running, until};

pub(crate) const CASES: &[Case] = &[
    ("a_wire_has_its_delay_and_counts_what_passes", &[Need::PING], delay_and_counters),
    ("a_wire_loses_late_and_long_packets_as_told", &[Need::PING], loss_and_mtu),
    ("a_wire_without_a_second_end_says_what_to_do", &[], what_to_do),
];

/// Two hosts and the link between them, ended on drop.
pub(crate) struct Joined {
    pub(crate) wire: Running,
    pub(crate) hosts: [Namespace; 2],
}

pub(crate) fn joined(options: &[&str]) -> Joined {
    let hosts = [(); 2].map(|()| Namespace::new().expect("root may"));
    let ends = [0, 1].map(|n: usize| format!("tap:w0@{}", hosts[n].name()));
    let wire = Command::new(env!("CARGO_BIN_EXE_wirespeed"))
        .args(["wire", &ends[0], &ends[1]])
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let wire = Running(wire.expect("the program starts"));
    let there = || hosts.iter().all(|host| host.ip("link show dev w0"));
    assert!(until(Duration::from_secs(10), there), "the devices did not come");
    for (n, host) in hosts.iter().enumerate() {
        assert!(host.ip(&format!("addr add 10.9.0.{}/24 dev w0", n + 1)));
        assert!(host.ip(&format!("-6 addr add fd09::{}/64 dev w0 nodad", n + 1)));
    }
    Joined { wire, hosts }
}

impl Joined {
    fn ping(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.hosts[0].command("ping").args(arguments).output().expect("ping is there");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Milliseconds of each reply.
fn times(text: &str) -> Vec<f64> {
    let after = text.lines().filter_map(|line| line.split_once("time=").map(|(_, t)| t));
    after.filter_map(|t| t.split_once(' ')?.0.parse().ok()).collect()
}

fn delay_and_counters() {
    let joined = joined(&["--delay", "ab:30ms", "--delay", "ba:20ms", "--every", "0s", "--json"]);
    for to in ["10.9.0.2", "fd09::2"] {
        // Never less than the delay. The first waits for neighbour discovery, and while a machine
        // is busy the others are late, too.
        let mut said = String::new();
        let is_50 = until(Duration::from_secs(60), || {
            let (well, text) = joined.ping(&["-n", "-c", "6", "-i", "0.2", to]);
            assert!(well, "{text}");
            let mut times = times(&text);
            times.sort_by(f64::total_cmp);
            assert!(times[0] >= 50.0, "{to}: less than 50 ms\n{text}");
            said = text;
            times[times.len() / 2] < 60.0
        });
        assert!(is_50, "{to}: not 50 ms\n{said}");
    }
    let (code, out, err) = joined.wire.end_by(Signal::INT);
    assert_eq!(code, 0, "{err}");
    let total: serde_json::Value = serde_json::from_str(out.trim()).expect("one document");
    assert_eq!(total["total"], true);
    for direction in total["directions"].as_array().expect("two ways") {
        let (sent, arrived) = (&direction["sent"], &direction["arrived"]);
        // At the end a packet of the kernel's own, such as a router solicitation, may be under way.
        let under_way = sent.as_u64().zip(arrived.as_u64()).map(|(sent, arrived)| sent - arrived);
        assert!(arrived.as_u64() >= Some(12) && under_way <= Some(2), "{direction}");
        assert!(direction["lost"] == 0 && direction["queue_full"] == 0, "{direction}");
        assert!(direction["late_us"]["median"].is_number(), "{direction}");
    }
}

fn loss_and_mtu() {
    let joined = joined(&["--loss", "ab:50%", "--mtu", "ba:1200", "--exempt", "90", "--seed", "3"]);
    // Up to 90 bytes are exempt, so neighbour discovery works.
    assert!(joined.ping(&["-n", "-c", "1", "10.9.0.2"]).0, "a small packet is exempt");
    let (_, text) =
        joined.ping(&["-n", "-c", "40", "-i", "0.02", "-W", "1", "-s", "500", "10.9.0.2"]);
    let answers = times(&text).len();
    assert!((8..=32).contains(&answers), "{answers} of 40\n{text}");
    let (well, text) =
        joined.ping(&["-n", "-c", "5", "-i", "0.02", "-W", "1", "-s", "1300", "10.9.0.2"]);
    assert!(!well, "nothing of 1,328 bytes comes back through 1,200\n{text}");
    let (code, out, err) = joined.wire.end_by(Signal::INT);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("by chance") && out.contains("too long"), "{out}");
    assert!(out.contains("handed out later than they should"), "{out}");
}

fn what_to_do() {
    let says = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_wirespeed")).args(arguments).output();
        let output = output.expect("the program starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = says(&["wire", "tap:w0", "tap:w0"]);
    assert!(code == Some(2) && text.contains("a wire has two"), "{text}");
    let (code, text) = says(&["wire", "tap:w0", "tun:w1", "--time", "1s"]);
    assert!(code == Some(1) && text.contains("two of a kind"), "{text}");
    let (code, text) = says(&["wire", "tap:w0@no-such-place", "tap:w1"]);
    assert!(code == Some(1) && text.contains("ip netns add no-such-place"), "{text}");
    let (code, text) = says(&["wire", "tap:w0", "tap:w1", "--rate", "xy:5M"]);
    assert!(code == Some(2) && text.contains("ab: or ba:"), "{text}");
    let (code, text) = says(&["wire", "tap:w0", "tap:w1", "--time", "100ms", "--every", "0s"]);
    assert!(code == Some(0) && text.contains("are joined"), "{text}");
}
