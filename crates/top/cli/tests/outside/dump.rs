//! Compares `wirespeed dump` with tcpdump: lines of the same file, interfaces, filters.

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
    ("dump_of_any_interface_says_which_and_which_way", &[Need::PING, Need::TCPDUMP], any_interface),
    ("dump_waits_for_an_interface_and_ends_with_it", &[], deleted),
    ("dump_says_what_is_wrong_with_a_filter", &[Need::TCPDUMP], wrong_filter),
    ("dump_prints_parts_of_packets_as_tcpdump_does", &[Need::TCPDUMP], parts),
    ("dump_reads_its_own_files_with_a_filter", &[Need::TCPDUMP], own_files),
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

/// A capture by tcpdump while the kernel pings us and its connection is refused.
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

/// The IPv4 flag MF: more fragments follow.
const MORE: u16 = 0x2000;

/// The options for output.
const WAYS: [&str; 19] = [
    "-n", "-e", "-v", "-vv", "-S", "-X", "-XX", "-x", "-xx", "-A", "-AA", "-q", "-t", "-tt",
    "-ttt", "-tttt", "-ttttt", "--number", "-K",
];

/// All output options, compared line by line.
fn same_lines() {
    let path = recorded("beside-tcpdump.pcap");
    let path = path.to_str().expect("UTF-8");
    for more in WAYS {
        let options = &["-n", more][..];
        let theirs = Command::new("tcpdump").args(options).args(["-r", path]).output();
        let theirs = text(&theirs.expect("looked for before"));
        let ours = dump(&[options, &["-r", path]].concat());
        assert_eq!(ours.status.code(), Some(0), "{}", errors(&ours));
        let ours = text(&ours);
        assert!(theirs.lines().count() > 10, "{theirs}");
        for (ours, theirs) in ours.lines().zip(theirs.lines()) {
            assert_eq!(ours, theirs, "{options:?}");
        }
        assert_eq!(ours.lines().count(), theirs.lines().count(), "{options:?}");
    }
    let counted = Command::new("tcpdump").args(["-n", "--count", "-r", path]).output();
    assert_eq!(text(&dump(&["--count", "-r", path])), text(&counted.expect("as before")));
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

/// A dump of the TAP, and a channel with its messages, line by line.
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

/// Delete the interface while it is up, and while it is down, when the kernel reports nothing.
fn deleted() {
    const TIMEOUT: Duration = Duration::from_secs(20);
    for is_up in [true, false] {
        set_up_tap();
        assert!(is_up || ip(&format!("link set dev {TAP} down")));
        let (mut dump, said) = watching();
        let listens = said.recv_timeout(TIMEOUT).expect("it says where it listens");
        if is_up {
            assert!(until(TIMEOUT, is_watched), "it does not watch");
        } else {
            // Whether it is down is checked once dump listens.
            let first = match listens.contains("is down") {
                true => listens,
                false => said.recv_timeout(TIMEOUT).expect("it says something"),
            };
            assert!(first.contains(&format!("sudo ip link set {TAP} up")), "{first}");
            // Enough time to repeat the message, which must not happen.
            std::thread::sleep(Duration::from_millis(500));
        }
        assert!(ip(&format!("link delete dev {TAP}")));
        assert_eq!(dump.wait().code(), Some(1));
        let rest: Vec<String> = said.iter().collect();
        assert!(is_up || !rest.iter().any(|line| line.contains("is down")), "{rest:?}");
        let last = rest.last().expect("it says why");
        assert!(last.starts_with(&format!("error: interface '{TAP}' is not there")), "{rest:?}");
        // After an error only the error is printed.
        assert!(!rest.iter().any(|line| line.contains("captured")), "{rest:?}");
    }
}

/// All interfaces at once, beside tcpdump. Both report when they listen, so neither misses a ping.
fn any_interface() {
    let mut host = Host::new();
    let listening = |mut child: Running| {
        let stderr = child.0.stderr.take().expect("piped");
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("listening on any")), "it does not listen");
        // Drain the pipe, so that the program never blocks on it.
        let rest = std::thread::spawn(move || lines.for_each(drop));
        (child, rest)
    };
    let started = |mut command: Command| {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        listening(Running(child.expect("looked for before")))
    };
    let mut ours = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    ours.args(["dump", "-i", "any", "-c", "4", "icmp"]);
    let mut theirs = Command::new("tcpdump");
    theirs.args(["-n", "-l", "-i", "any", "-c", "4", "icmp"]);
    let ((mut ours, _), (mut theirs, _)) = (started(ours), started(theirs));
    let ping = ["-n", "-c", "2", "-i", "0.2", "-W", "5", OURS[0]];
    let mut ping =
        Command::new("ping").args(ping).stdout(Stdio::null()).spawn().expect("looked for");
    host.until("the end of ping", |_| ping.try_wait().expect("our child").is_some());
    let mut lines = |of: &mut Running| -> Vec<String> {
        host.until("four packets", |_| of.0.try_wait().expect("our child").is_some());
        let printed = std::io::read_to_string(of.0.stdout.take().expect("piped"));
        // The times of the two sockets differ slightly.
        let without_time = |line: &str| line.split_once(' ').map(|(_, rest)| rest.to_owned());
        printed.expect("text").lines().filter_map(without_time).collect()
    };
    let (ours, theirs) = (lines(&mut ours), lines(&mut theirs));
    assert_eq!(ours.len(), 4, "{ours:?}");
    assert_eq!(ours, theirs);
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

/// A pcap file of raw IP packets, each with its length on the wire.
fn of_ip(name: &str, packets: &[(&[u8], u32)]) -> String {
    let words = |words: [u32; 4]| words.map(u32::to_le_bytes).concat();
    let mut bytes = [&0xa1b2_c3d4_u32.to_le_bytes()[..], &[2, 0, 4, 0][..]].concat();
    bytes.extend(words([0, 0, 262_144, 101]));
    for (packet, len) in packets {
        bytes.extend(words([1, 0, packet.len() as u32, *len]));
        bytes.extend(*packet);
    }
    let path = place(name);
    std::fs::write(&path, bytes).expect("room");
    path.to_str().expect("UTF-8").to_owned()
}

/// An IPv4 packet; `fragment` is the field of flags and fragment offset.
fn v4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let [len, fragment] = [20 + payload.len() as u16, fragment].map(u16::to_be_bytes);
    let front = [0x45, 0, len[0], len[1], 0, 7, fragment[0], fragment[1], 64, protocol];
    let addresses = [0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let mut packet = [&front[..], &addresses[..], payload].concat();
    let words = packet[..20].chunks(2).map(|b| u32::from(u16::from_be_bytes([b[0], b[1]])));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let field = !(sum + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&field.to_be_bytes());
    packet
}

/// An IPv6 fragment of a datagram of `protocol`; `fragment` is the field of offset and M flag.
fn v6(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let [len, fragment] = [8 + payload.len() as u16, fragment].map(u16::to_be_bytes);
    let front = [0x60, 0, 0, 0, len[0], len[1], 44, 64];
    let host = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let header = [protocol, 0, fragment[0], fragment[1], 0, 0, 0x12, 0x34];
    [&front[..], &host[..], &host[..], &header[..], payload].concat()
}

/// Fragments, truncated packets, and ICMP with a wrong checksum.
fn parts() {
    let echo = [&[8_u8, 0, 1, 2, 0, 17, 0, 1][..], &[7; 1472][..]].concat();
    let echo_v6 = [&[128_u8, 0, 1, 2, 0, 17, 0, 1][..], &[7; 1432][..]].concat();
    let udp = [&[3_u8, 232, 7, 208, 11, 192, 1, 2][..], &[7; 1432][..]].concat();
    let tcp = [3_u8, 232, 7, 208, 0, 0, 0, 9, 0, 0, 0, 5, 0x50, 0x10, 4, 0, 1, 2, 0, 0];
    let tcp = [&tcp[..], &[7; 1420][..]].concat();
    let whole = [
        v4(1, MORE, &echo),
        v4(1, MORE | 185, &echo),
        v4(1, 370, &echo[..48]),
        v4(17, MORE, &udp),
        v4(17, 180, &udp),
        v4(6, MORE, &tcp),
        v4(1, 0, &echo[..64]),
        v6(58, 1, &echo_v6),
        v6(58, 1440, &echo_v6[..48]),
        v6(17, 1, &udp),
        v6(6, 1, &tcp),
    ];
    let mut packets: Vec<_> = whole.iter().map(|p| (&p[..], p.len() as u32)).collect();
    // Eight bytes of a ping; a segment's header and little more.
    packets.push((&whole[6][..28], 84));
    packets.push((&whole[5][..50], 1460));
    let path = of_ip("parts.pcap", &packets);
    for more in ["-n", "-v", "-vv", "-S"] {
        let theirs = Command::new("tcpdump").args(["-n", more, "-r", path.as_str()]).output();
        let theirs = text(&theirs.expect("looked for before"));
        let ours = text(&dump(&["-n", more, "-r", &path]));
        assert!(theirs.lines().count() >= packets.len(), "{theirs}");
        for (ours, theirs) in ours.lines().zip(theirs.lines()) {
            assert_eq!(ours, theirs, "{more}");
        }
        assert_eq!(ours.lines().count(), theirs.lines().count(), "{more}");
    }
}

/// A file that dump wrote: the filter is compiled for its link type, and if nothing matches, the
/// new file has no packets.
fn own_files() {
    let segment = [0_u8, 80, 0, 80, 0, 0, 0, 9, 0, 0, 0, 5, 0x50, 0x10, 4, 0, 1, 2, 0, 0];
    let packet = v4(6, 0, &segment);
    let path = of_ip("own.pcap", &[(&packet[..], packet.len() as u32)]);
    let [own, none] = ["own.pcapng", "own-none.pcapng"].map(place);
    let [own, none] = [own.to_str().expect("UTF-8"), none.to_str().expect("UTF-8")];
    let written = dump(&["-r", &path, "-w", own]);
    assert_eq!(written.status.code(), Some(0), "{}", errors(&written));
    for filter in ["tcp", "udp port 4001", "ip6"] {
        let code = Command::new("tcpdump").args(["-d", "-r", path.as_str(), filter]).output();
        let code = text(&code.expect("looked for before"));
        assert_eq!(text(&dump(&["-d", "-r", own, filter])), code, "{filter}");
    }
    let written = dump(&["-r", own, "-w", none, "tcp port 9"]);
    assert_eq!(written.status.code(), Some(0), "{}", errors(&written));
    let theirs = Command::new("tcpdump").args(["-n", "-r", none]).output();
    let theirs = theirs.expect("looked for before");
    assert!(theirs.status.success() && theirs.stdout.is_empty(), "{}", errors(&theirs));
}
