//! `wirespeed gateway --switch`: machines that see each other; and what the gateway's process has
//! of the host.

use std::net::TcpListener;

use rustix::process::{Pid, Signal, kill_process};
use testbed::{Case, Need, Running, until};

use super::gateway::{BUSYBOX, Folder, Machine, SERVER, SOON, connect, gateway, serve};

pub(crate) const CASES: &[Case] = &[
    ("machines_at_a_switch_see_each_other", &[BUSYBOX, Need::PING, Need::CURL], switched),
    ("two_machines_with_one_address_are_a_message", &[BUSYBOX], twins),
    ("the_process_of_machines_has_nothing_of_the_host", &[], confined),
    ("a_killed_process_of_machines_ends_both", &[], killed),
];

/// Machines at a stream socket each.
fn two(folder: &Folder, more: &[&str]) -> (Running, [Machine; 2]) {
    let paths = ["a", "b"].map(|name| folder.path(name));
    let vms = paths.each_ref().map(|path| format!("qemu:{}", path.display()));
    let mut options = vec!["--switch", "--vm", &vms[0], "--vm", &vms[1], "--net6", "fd77::/64"];
    options.extend(more);
    let gateway = gateway(&options, &[&paths[0], &paths[1]]);
    (gateway, paths.each_ref().map(|path| Machine::start(&|| connect(path))))
}

fn switched() {
    let folder = Folder::new("switch");
    let capture = folder.path("capture");
    let capture = capture.to_str().expect("text");
    let more = ["-p", "127.0.0.1/18080:10.0.2.101:80", "--capture", capture];
    let (gateway, machines) = two(&folder, &more);
    let leases = machines.each_ref().map(|machine| machine.dhcp(&folder));
    assert_eq!(leases[0], "lease 10.0.2.100/24 10.0.2.2 10.0.2.3 65520");
    assert_eq!(leases[1], "lease 10.0.2.101/24 10.0.2.2 10.0.2.3 65520");
    let pings = |machine: usize, to: &str| {
        let (well, text) = machines[machine].runs("ping", &format!("-n -c 2 -W 5 {to}"));
        assert!(well, "{text}");
    };
    let global = |machine: &Machine| {
        // An address cannot be used while it is checked for duplicates.
        let (_, text) = machine.runs("ip", "-6 -o addr show dev eth0 scope global -tentative");
        let address = text.split_whitespace().find(|word| word.starts_with("fd77:"));
        address.and_then(|address| Some(address.split_once('/')?.0.to_owned()))
    };
    assert!(until(SOON, || machines.iter().all(|machine| global(machine).is_some())));
    let of_second = global(&machines[1]).expect("it has one");
    pings(0, "10.0.2.101");
    pings(1, "10.0.2.100");
    pings(0, &of_second);
    pings(0, "10.0.2.2");
    pings(1, "fd77::2");
    // A connection between the two does not pass the gateway, and one to the outside does.
    let inside = machines[1].host.inside(|| TcpListener::bind(("0.0.0.0", 80)).expect("a port"));
    serve(inside.expect("no panic"), "inside");
    serve(TcpListener::bind((SERVER, 8_000)).expect("a port"), "outside");
    let gets = |machine: usize, url: &str| {
        machines[machine].runs("curl", &format!("-sS --max-time 20 http://{url}/"))
    };
    assert_eq!(gets(0, "10.0.2.101"), (true, "inside".to_owned()));
    assert_eq!(gets(0, &format!("{SERVER}:8000")), (true, "outside".to_owned()));
    assert_eq!(gets(1, &format!("{SERVER}:8000")), (true, "outside".to_owned()));
    // Nobody has this address, and the gateway does not answer for it.
    let (reached, text) = machines[0].runs("ping", "-n -c 1 -W 2 10.0.2.77");
    assert!(!reached && !text.contains("10.0.2.2 icmp_seq"), "{text}");
    // The published port leads to the second one.
    let published = std::process::Command::new("curl")
        .args(["-sS", "--max-time", "20", "http://127.0.0.1:18080/"])
        .output()
        .expect("curl");
    assert_eq!(String::from_utf8_lossy(&published.stdout), "inside");
    drop(machines);
    let (code, _, err) = gateway.end_by(Signal::TERM);
    assert_eq!(code, 0, "{err}");
    assert!(!folder.path("a").exists() && !folder.path("b").exists(), "the sockets stay");
    assert!(std::fs::metadata(capture).expect("it is there").len() > 1_000);
}

fn twins() {
    let folder = Folder::new("twins");
    let (gateway, machines) = two(&folder, &[]);
    for machine in &machines {
        let (well, text) = machine.runs("ip", "link set eth0 address 02:00:00:00:00:99");
        assert!(well, "{text}");
    }
    for _ in 0..4 {
        machines.iter().for_each(|machine| drop(machine.dhcp(&folder)));
    }
    drop(machines);
    let (_, _, err) = gateway.end_by(Signal::INT);
    assert!(err.contains("two machines have the hardware address 02:00:00:00:00:99"), "{err}");
}

/// A gateway for a machine that does not come, and its second process.
fn alone(folder: &Folder, kind: &str) -> (Running, Pid) {
    let path = folder.path("vm");
    let gateway = gateway(&["--vm", &format!("{kind}:{}", path.display())], &[&path]);
    let launcher = gateway.0.id();
    let children = format!("/proc/{launcher}/task/{launcher}/children");
    let mut child = None;
    assert!(until(SOON, || {
        let text = std::fs::read_to_string(&children).unwrap_or_default();
        child = text.split_whitespace().next().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        child.is_some_and(|child| line(child, "Seccomp") == "2")
    }));
    (gateway, child.expect("it is there"))
}

/// A line of a process's status.
fn line(pid: Pid, key: &str) -> String {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

fn confined() {
    for (kind, files) in [("qemu", 0), ("vfkit", 1)] {
        let folder = Folder::new("confined");
        let (gateway, child) = alone(&folder, kind);
        for capabilities in ["CapEff", "CapPrm", "CapBnd", "CapInh"] {
            assert_eq!(line(child, capabilities), "0000000000000000", "{capabilities}");
        }
        assert_eq!(line(child, "NoNewPrivs"), "1");
        let root = format!("/proc/{}/root/", child.as_raw_nonzero());
        let has_files = std::fs::read_dir(root).expect("root may").count() > 0;
        assert_eq!(has_files, files > 0, "{kind}");
        let (code, _, err) = gateway.end_by(Signal::HUP);
        assert_eq!(code, 0, "{err}");
    }
}

fn killed() {
    let folder = Folder::new("killed");
    let (mut gateway, child) = alone(&folder, "qemu");
    kill_process(child, Signal::KILL).expect("it runs");
    assert!(!gateway.wait().success());
    assert!(!folder.path("vm").exists(), "the socket stays");
    let (mut gateway, child) = alone(&folder, "qemu");
    kill_process(Pid::from_child(&gateway.0), Signal::KILL).expect("it runs");
    gateway.wait();
    // Its new parent may leave it a zombie.
    let has_ended = || matches!(line(child, "State").chars().next(), None | Some('Z'));
    assert!(until(SOON, has_ended), "the second process is left");
}
