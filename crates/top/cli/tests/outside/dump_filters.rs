//! Filters of `wirespeed dump`: on each link type they match as many packets as with tcpdump, and a
//! filter that needs more than the bytes (directions, netmasks) is answered or refused.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use testbed::{Case, Need, Running, ip, until};

pub(crate) const CASES: &[Case] = &[
    ("filters_of_each_link_type_match_what_tcpdump_matches", &[Need::TCPDUMP], each_link_type),
    ("filters_of_directions_and_netmasks_are_answered_live", &[Need::TCPDUMP], live),
    ("filters_of_directions_are_answered_for_files_that_say_them", &[Need::TCPDUMP], of_files),
    ("a_filters_code_has_the_snapshot_length_of_the_file", &[Need::TCPDUMP], snaplen),
];

fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().expect("looked for before")
}

fn dump(args: &[&str]) -> Output {
    run(env!("CARGO_BIN_EXE_wirespeed"), &[&["dump"], args].concat())
}

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The number that `--count` prints; `None` if the filter was refused.
fn counted(output: &Output) -> Option<u32> {
    let said = text(&output.stdout);
    let number = said.split_whitespace().next().and_then(|word| word.parse().ok());
    if output.status.success() { number } else { None }
}

/// An EtherType and the packet behind it.
type Carried = (u16, Vec<u8>);

const V4: u16 = 0x0800;
const V6: u16 = 0x86dd;
const ARP: u16 = 0x0806;

fn v4(protocol: u8, to: [u8; 4], payload: &[u8]) -> Carried {
    let len = (20 + payload.len() as u16).to_be_bytes();
    let front = [0x45, 0, len[0], len[1], 0, 7, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1];
    (V4, [&front[..], &to, payload].concat())
}

fn v6(next: u8, payload: &[u8]) -> Carried {
    let len = (payload.len() as u16).to_be_bytes();
    let host = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let front = [0x60, 0, 0, 0, len[0], len[1], next, 64];
    (V6, [&front[..], &host, &host, payload].concat())
}

fn ports(from: u16, to: u16, rest: &[u8]) -> Vec<u8> {
    [&from.to_be_bytes()[..], &to.to_be_bytes(), rest].concat()
}

fn carried() -> Vec<Carried> {
    const HOST: [u8; 4] = [192, 0, 2, 2];
    let segment = |flags: u8| [0, 0, 0, 9, 0, 0, 0, 5, 0x50, flags, 4, 0, 1, 2, 0, 0];
    let datagram = [0, 8, 0, 0];
    let behind_options = [&[17, 0, 5, 2, 0, 0, 0, 0][..], &ports(9, 53, &datagram)].concat();
    let authenticated = [&[6, 2][..], &[0; 14], &ports(80, 9, &segment(0x10))].concat();
    let mut fragment = v4(17, HOST, &[7; 40]);
    fragment.1[7] = 5;
    vec![
        v4(6, HOST, &ports(4000, 80, &segment(2))),
        v4(6, HOST, &ports(80, 4000, &segment(0x12))),
        v4(17, HOST, &ports(4000, 53, &datagram)),
        v4(17, [224, 0, 0, 251], &ports(5353, 5353, &datagram)),
        v4(17, [255; 4], &ports(68, 67, &datagram)),
        v4(1, [198, 51, 100, 7], &[8, 0, 1, 2, 0, 17, 0, 1]),
        v4(51, HOST, &authenticated),
        v4(6, HOST, &[0; 3]),
        fragment,
        v6(6, &ports(443, 4000, &segment(0x10))),
        v6(0, &behind_options),
        v6(58, &[128, 0, 1, 2, 0, 17, 0, 1]),
        (ARP, [&[0, 1, 8, 0, 6, 4, 0, 1][..], &[2; 20]].concat()),
        (V4, vec![0x45]),
    ]
}

/// The header in front of a packet, by link type; `swapped` is for headers in the byte order of the
/// machine that captured. `None`: the type does not carry it.
fn header(link: u32, ethertype: u16, number: usize, is_little: bool) -> Option<Vec<u8>> {
    let [high, low] = ethertype.to_be_bytes();
    let ppp = match ethertype {
        V4 => 0x21,
        V6 => 0x57,
        _ => {
            return if matches!(link, 1 | 104 | 113 | 276) {
                other(link, ethertype, number)
            } else {
                None
            };
        }
    };
    let family = if ethertype == V4 { 2_u32 } else { 10 };
    Some(match link {
        0 if is_little => family.to_le_bytes().to_vec(),
        0 | 108 => family.to_be_bytes().to_vec(),
        9 | 50 => vec![0xff, 3, 0, ppp],
        51 => vec![0x11, 0, 0, 1, 0, 40, 0, ppp],
        12 | 101 => Vec::new(),
        107 => vec![0x18, 0x41, 3, if ethertype == V4 { 0xcc } else { 0x8e }],
        228 if ethertype == V4 => Vec::new(),
        229 if ethertype == V6 => Vec::new(),
        228 | 229 => return None,
        105 => [&[8, 1, 0, 0][..], &[2; 18], &[0, 0, 0xaa, 0xaa, 3, 0, 0, 0, high, low]].concat(),
        127 => {
            [&[0, 0, 8, 0, 0, 0, 0, 0][..], &header(105, ethertype, number, is_little)?].concat()
        }
        _ => return other(link, ethertype, number),
    })
}

fn other(link: u32, ethertype: u16, number: usize) -> Option<Vec<u8>> {
    let protocol = ethertype.to_be_bytes();
    let to: &[u8] = if number.is_multiple_of(3) { &[0xff; 6] } else { &[2, 0, 0, 0, 0, 2] };
    // Received, sent, for all.
    let kind = [0, 4, 1][number % 3];
    Some(match link {
        // Every fourth frame has a tag.
        1 if number % 4 == 3 => [to, &[2; 6], &[0x81, 0, 0, 5], &protocol].concat(),
        1 => [to, &[2; 6], &protocol].concat(),
        104 => [&[0x0f, 0][..], &protocol].concat(),
        113 => [&[0, kind, 0, 1, 0, 6][..], &[2; 8], &protocol].concat(),
        276 => [&protocol[..], &[0, 0, 0, 0, 0, 3, 0, 1, kind, 6], &[2; 8]].concat(),
        _ => return None,
    })
}

/// A pcap file of this link type, in either byte order.
fn file(link: u32, is_little: bool) -> String {
    let word = |word: u32| if is_little { word.to_le_bytes() } else { word.to_be_bytes() };
    let version: [u8; 4] = if is_little { [2, 0, 4, 0] } else { [0, 2, 0, 4] };
    let mut bytes = [word(0xa1b2_c3d4), version].concat();
    bytes.extend([0, 0, 65_535, link].map(word).concat());
    for (number, (ethertype, packet)) in carried().into_iter().enumerate() {
        let Some(header) = header(link, ethertype, number, is_little) else { continue };
        let len = (header.len() + packet.len()) as u32;
        bytes.extend([1, 0, len, len + number as u32 % 2].map(word).concat());
        bytes.extend([header, packet].concat());
    }
    let path = place(&format!("link-{link}-{is_little}.pcap"));
    std::fs::write(&path, bytes).expect("room");
    path.to_str().expect("UTF-8").to_owned()
}

/// 14, OpenBSD's number for bare IP, is left out: tcpdump on Linux knows no filter for it.
const LINKS: [u32; 16] = [0, 1, 9, 12, 50, 51, 101, 104, 105, 107, 108, 113, 127, 228, 229, 276];

const FILTERS: [&str; 28] = [
    "ip",
    // For 802.11 these filters read a word of the scratch memory M that they did not write.
    "geneve",
    "pppoes",
    "ip6",
    "arp",
    "tcp",
    "udp port 53",
    "tcp port 80 or 443",
    "icmp",
    "host 192.0.2.2",
    "net 192.0.2.0/24",
    "not ip",
    "greater 60",
    "less 45",
    "ip[8] = 64",
    "tcp[tcpflags] & tcp-syn != 0",
    "portrange 50-100",
    "ip multicast",
    "ether broadcast",
    "ip protochain 6",
    "ip6 protochain 17",
    "link[0] = 2",
    "inbound",
    "outbound",
    "vlan 5 and ip",
    "ether host 02:02:02:02:02:02",
    "ip proto 17 and not broadcast",
    "len > 40 and ip[6:2] & 0x1fff != 0",
];

fn each_link_type() {
    let (mut matched, mut refused, mut differ) = (0, 0, Vec::new());
    for link in LINKS {
        for is_little in [true, false] {
            let path = file(link, is_little);
            for filter in FILTERS {
                // tcpdump takes 0 for the netmask of a file; dump refuses what it cannot know.
                let theirs = counted(&run("tcpdump", &["-n", "--count", "-r", &path, filter]));
                let ours = counted(&dump(&["--count", "-r", &path, filter]));
                matched += usize::from(ours.is_some_and(|count| count > 0));
                refused += usize::from(ours.is_none());
                if ours != theirs && !(filter.contains("not broadcast") && ours.is_none()) {
                    differ.push(format!("{link} {is_little} '{filter}': {ours:?}, {theirs:?}"));
                }
            }
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
    assert!(matched > 200 && refused > 60, "{matched} matched, {refused} refused");
}

/// A veth pair; frames go both ways, also to the broadcast address of the network.
fn live() {
    assert!(ip("link add v0 type veth peer name v1"));
    assert!(ip("link set v0 up") && ip("link set v1 up"));
    assert!(ip("addr add 10.1.1.1/24 dev v0"));
    assert!(ip("neigh add 10.1.1.2 lladdr 02:00:00:00:00:02 dev v0"));
    for (filter, matches) in [
        ("inbound and udp", false),
        ("outbound and udp port 9", true),
        ("ip broadcast and udp", true),
        ("ip broadcast and udp and host 10.1.1.2", false),
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        program.args(["dump", "-c", "1", "-i", "v0", filter]);
        let dump = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let dump = Running(dump.expect("the program starts"));
        let watched = || {
            let shown = run("ip", &["-d", "link", "show", "dev", "v0"]);
            text(&shown.stdout).contains("promiscuity 1")
        };
        assert!(until(Duration::from_secs(20), watched), "it does not watch");
        let socket = std::net::UdpSocket::bind("10.1.1.1:9").expect("a port");
        socket.set_broadcast(true).expect("an option");
        for to in ["10.1.1.255:9", "10.1.1.2:9"] {
            socket.send_to(b"x", to).expect("it is sent");
        }
        let (code, out, err) = match matches {
            true => dump.end(),
            false => {
                // Time to see what it should not print.
                std::thread::sleep(Duration::from_millis(500));
                dump.end_by(Signal::INT)
            }
        };
        assert_eq!(code, 0, "{err}");
        assert_eq!(!out.is_empty(), matches, "'{filter}': {out}{err}");
    }
}

/// A file that dump wrote has directions; a pcap file has none.
fn of_files() {
    assert!(ip("link set lo up"));
    let path = place("directions.pcapng");
    let path = path.to_str().expect("UTF-8");
    let dump_of_lo = Command::new(env!("CARGO_BIN_EXE_wirespeed"))
        .args(["dump", "-i", "lo", "-c", "4", "-w", path, "udp"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut written = Running(dump_of_lo.expect("the program starts"));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let done = || {
        let _ = socket.send_to(b"x", "127.0.0.1:9");
        written.0.try_wait().expect("our child").is_some()
    };
    assert!(until(Duration::from_secs(20), done), "it does not end");
    let count = |filter: &str| counted(&dump(&["--count", "-r", path, filter]));
    // On the loopback interface each packet is seen once, when it is received.
    assert_eq!((count("inbound"), count("outbound")), (Some(4), Some(0)));
    assert_eq!((count("not inbound"), count("not outbound and udp")), (Some(0), Some(4)));
    let silent = file(1, true);
    let refused = dump(&["-r", &silent, "outbound"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("does not say whether packet 1 was received or sent"), "{said}");
    let refused = dump(&["-r", &silent, "ip broadcast"]);
    assert!(text(&refused.stderr).contains("dst host"), "{}", text(&refused.stderr));
}

fn snaplen() {
    for (link, filter) in [(1, "tcp"), (113, "outbound"), (101, "ip6"), (0, "ip")] {
        for is_little in [true, false] {
            let path = file(link, is_little);
            for code in ["-d", "-dd", "-ddd"] {
                let theirs = text(&run("tcpdump", &[code, "-r", &path, filter]).stdout);
                assert!(theirs.contains("65535") || theirs.contains("0x0000ffff"), "{theirs}");
                assert_eq!(text(&dump(&[code, "-r", &path, filter]).stdout), theirs, "{filter}");
            }
        }
    }
}
