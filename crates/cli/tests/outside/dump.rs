//! `wirespeed dump` beside tcpdump: the same file, the same lines; an interface; filters.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::Signal;
use testbed::{Case, Need, Running, ip, until};

use crate::host::{Host, KERNEL, OURS, TAP, set_up_tap};

pub(crate) const CASES: &[Case] = &[
    ("dump_prints_what_tcpdump_prints", &[Need::TCPDUMP], same_lines),
    ("dump_of_an_interface_sees_both_ways", &[Need::PING, Need::TCPDUMP], interface),
    ("dump_waits_for_an_interface_and_ends_with_it", &[], deleted),
    ("dump_says_what_is_wrong_with_a_filter", &[Need::TCPDUMP], wrong_filter),
];

fn dump(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    command.arg("dump").args(args).output().expect("the program starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A capture by tcpdump of what passes while the kernel pings us and is refused a connection.
fn recorded(name: &str) -> PathBuf {
    let mut host = Host::new();
    let path = place(name);
    let tcpdump = Command::new("tcpdump")
        .args(["--immediate-mode", "-i", TAP, "-U", "-w"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let tcpdump = Running(tcpdump.expect("looked for before"));
    host.until("a capture", |_| path.metadata().is_ok_and(|file| file.len() >= 24));
    for ours in OURS {
        let ping = ["-n", "-c", "2", "-i", "0.2", "-W", "5", ours];
        let mut ping =
            Command::new("ping").args(ping).stdout(Stdio::null()).spawn().expect("looked for");
        host.until("the end of ping", |_| ping.try_wait().expect("our child").is_some());
        let to = format!("[{ours}]:4000").replace("[192.0.2.2]", "192.0.2.2");
        let refused = std::thread::spawn(move || std::net::TcpStream::connect(to).is_err());
        host.until("a refusal", |_| refused.is_finished());
        let socket = std::net::UdpSocket::bind("[::]:0").expect("a port");
        let to = if ours.contains(':') { ours.to_owned() } else { format!("::ffff:{ours}") };
        let sent = socket.send_to(b"nobody is there", (to.as_str(), 4001));
        sent.expect("it is sent");
    }
    let end = std::time::Instant::now() + std::time::Duration::from_millis(300);
    host.until("a while", |_| std::time::Instant::now() > end);
    let (_, _, said) = tcpdump.end_by(Signal::INT);
    assert!(said.contains("packets captured"), "{said}");
    path
}

/// Every way to print, line for line.
fn same_lines() {
    let path = recorded("beside-tcpdump.pcap");
    let path = path.to_str().expect("UTF-8");
    // With -v tcpdump takes errors and neighbour discovery apart; ours does not.
    let plain = "tcp or udp or arp or icmp[0] == 8 or icmp[0] == 0 or icmp6[0] == 128";
    for more in ["-n", "-e", "-v", "-vv", "-S", "-X"] {
        let options = &["-n", more][..];
        let filter: &[&str] = if more.starts_with("-v") { &[plain] } else { &[] };
        let theirs = Command::new("tcpdump").args(options).args(["-r", path]).args(filter).output();
        let theirs = text(&theirs.expect("looked for before"));
        let ours = dump(&[options, &["-r", path], filter].concat());
        assert_eq!(ours.status.code(), Some(0), "{}", errors(&ours));
        let ours = text(&ours);
        assert!(theirs.lines().count() > 10, "{theirs}");
        for (ours, theirs) in ours.lines().zip(theirs.lines()) {
            assert_eq!(ours, theirs, "{options:?}");
        }
        assert_eq!(ours.lines().count(), theirs.lines().count(), "{options:?}");
    }
    for filter in ["tcp", "icmp or icmp6", "udp port 4001", "arp", "ip6 and not tcp"] {
        let theirs = Command::new("tcpdump").args(["-n", "-r", path, filter]).output();
        let theirs = text(&theirs.expect("looked for before"));
        assert_eq!(text(&dump(&["-n", "-r", path, filter])), theirs, "{filter}");
        let code = Command::new("tcpdump").args(["-d", "-r", path, filter]).output();
        assert_eq!(text(&dump(&["-d", "-r", path, filter])), text(&code.expect("as before")));
    }
}

fn interface() {
    let mut host = Host::new();
    let dump = Command::new(env!("CARGO_BIN_EXE_wirespeed"))
        .args(["dump", "-i", TAP, "-c", "4", "-v", "icmp"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut dump = Running(dump.expect("the program starts"));
    let ping = ["-n", "-c", "50", "-i", "0.1", "-W", "5", OURS[0]];
    let mut ping =
        Command::new("ping").args(ping).stdout(Stdio::null()).spawn().expect("looked for");
    host.until("four packets", |_| dump.0.try_wait().expect("our child").is_some());
    let _ = ping.kill();
    let _ = ping.wait();
    let (code, out, err) = dump.end();
    assert_eq!(code, 0, "{err}");
    for (from, to, what) in [(KERNEL[0], OURS[0], "request"), (OURS[0], KERNEL[0], "reply")] {
        assert_eq!(out.matches(&format!("{from} > {to}: ICMP echo {what}")).count(), 2, "{out}");
    }
    assert!(err.contains("4 packets captured") && err.contains("0 packets dropped"), "{err}");
}

/// A dump of the TAP, and what it says, line by line as it comes.
fn watching() -> (Running, Receiver<String>) {
    let dump = Command::new(env!("CARGO_BIN_EXE_wirespeed"))
        .args(["dump", "-i", TAP])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut dump = Running(dump.expect("the program starts"));
    let stderr = dump.0.stderr.take().expect("piped");
    let (say, said) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let _ = say.send(line);
        }
    });
    (dump, said)
}

fn is_watched() -> bool {
    let shown = Command::new("ip").args(["-d", "link", "show", "dev", TAP]).output();
    shown.is_ok_and(|shown| text(&shown).contains("promiscuity 1"))
}

/// Up until then; and down, where the kernel says nothing of the end.
fn deleted() {
    const PATIENCE: Duration = Duration::from_secs(20);
    for is_up in [true, false] {
        set_up_tap();
        assert!(is_up || ip(&format!("link set dev {TAP} down")));
        let (mut dump, said) = watching();
        if is_up {
            assert!(until(PATIENCE, is_watched), "it does not watch");
        } else {
            let first = said.recv_timeout(PATIENCE).expect("it says something");
            assert!(first.contains(&format!("sudo ip link set {TAP} up")), "{first}");
            // Time enough to say it again and again.
            std::thread::sleep(Duration::from_millis(500));
        }
        assert!(ip(&format!("link delete dev {TAP}")));
        assert_eq!(dump.wait().code(), Some(1));
        let rest: Vec<String> = said.iter().collect();
        assert!(is_up || !rest.iter().any(|line| line.contains("is down")), "{rest:?}");
        let last = rest.last().expect("it says why");
        assert!(last.starts_with(&format!("error: interface '{TAP}' is not there")), "{rest:?}");
        assert!(rest.iter().any(|line| line.contains("packets captured")), "{rest:?}");
    }
}

fn wrong_filter() {
    let output = dump(&["-d", "tcp", "port", "eighty-eight"]);
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output);
    assert!(said.contains("tcp port eighty-eight") && said.contains("at byte 9"), "{said}");
    let output = dump(&["-i", "nowhere0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("nowhere0"), "{}", errors(&output));
}
