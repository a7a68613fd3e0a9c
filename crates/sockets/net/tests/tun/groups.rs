//! Multicast with the kernel at the other end of a TAP: datagrams to groups in both directions, our
//! reports in answer to the kernel's queries, and our reports as tshark decodes them. RFC 1112,
//! RFC 3376, RFC 3810.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::process::{Child, Command, Stdio};

use base::{Cidr, Counter, Limit, MacAddr};
use device::tap::{Config, Setup, Tap};
use stack::{PortConfig, PortId, SourceFilter, Stack, StackConfig};
use testbed::{Case, Need};
use wirespeed_net::{DriverThread, Net, blocking};

use crate::ends::{SOON, ip};

pub(crate) const CASES: &[Case] = &[
    ("datagrams_to_a_group_go_both_ways_v4", &[], v4),
    ("datagrams_to_a_group_go_both_ways_v6", &[], v6),
    ("the_kernels_bridge_asks_and_is_answered", &[BRIDGE], queried),
    ("tshark_reads_our_reports_without_complaint", &[Need::TSHARK], reports),
];

const BRIDGE: Need = Need::Program("bridge", "iproute2");

const GROUP_V4: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x1234);
const KERNEL_V4: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 1);
const OURS_V4: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);
const OURS_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

fn tap() -> Tap {
    let config = Config { name: Some("ws0".to_owned()), ..Config::default() };
    let mut tap = Tap::open(&config).expect("root opens a TAP");
    tap.configure(&Setup { up: true, ..Setup::default() }).expect("root sets it up");
    tap
}

/// A stack at the TAP with an IPv4 and an IPv6 address, and the driver thread that runs it.
fn net(tap: Tap) -> (Net, DriverThread) {
    let mut config = StackConfig::new([3, 14]);
    config.budget.set(Limit::MbufBytes, 64 << 20);
    let mut stack = Stack::new(config);
    let cidr = |ip: IpAddr, prefix_len| Cidr::new(ip, prefix_len).expect("a prefix");
    let addresses = vec![cidr(OURS_V4.into(), 24), cidr(OURS_V6.into(), 64)];
    // The port has a MAC address because the kernel's bridge drops frames with a source of zeros.
    let port = PortConfig { mac: MacAddr([2, 0, 0, 0, 0, 2]), addresses, ..PortConfig::default() };
    stack.add_port(Box::new(tap), port);
    Net::spawn_thread(stack).expect("the thread starts")
}

fn socket(net: &Net, at: SocketAddr) -> blocking::UdpSocket {
    let socket = blocking::UdpSocket::bind(net, at).expect("free");
    socket.set_read_timeout(Some(SOON)).expect("not zero");
    socket
}

/// The kernel's interface index of the TAP.
fn index() -> u32 {
    let text = std::fs::read_to_string("/sys/class/net/ws0/ifindex").unwrap_or_default();
    // If /sys was mounted in another network namespace, it does not list the TAP, but `ip` does.
    text.trim().parse().unwrap_or_else(|_| {
        let shown =
            Command::new("ip").args(["-o", "link", "show", "ws0"]).output().expect("ip runs");
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        text.split(':').next().and_then(|n| n.trim().parse().ok()).expect("a number")
    })
}

/// The kernel's socket and ours are members of the group. Each sends a datagram to the group, and
/// both sockets receive it. `to` is the group as the kernel's socket and as ours addresses it.
fn talk(kernel: &std::net::UdpSocket, ours: &blocking::UdpSocket, to: [SocketAddr; 2]) {
    let mut into = [0; 64];
    kernel.send_to(b"from the kernel", to[0]).expect("sent");
    let (n, _) = ours.recv_from(&mut into).expect("it arrives here");
    assert_eq!(&into[..n], b"from the kernel");
    let (n, _) = kernel.recv_from(&mut into).expect("the kernel loops it back");
    assert_eq!(&into[..n], b"from the kernel");
    ours.send_to(b"from us", to[1]).expect("sent");
    let (n, from) = kernel.recv_from(&mut into).expect("it arrives at the kernel");
    assert_eq!((&into[..n], from.port()), (&b"from us"[..], 5_300));
    let (n, _) = ours.recv_from(&mut into).expect("we loop it back");
    assert_eq!(&into[..n], b"from us");
}

fn v4() {
    let tap = tap();
    ip(&format!("addr add {KERNEL_V4}/24 dev ws0"));
    ip("route add 224.0.0.0/4 dev ws0");
    let (net, driver) = net(tap);
    let kernel = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 5_300)).expect("free");
    kernel.set_read_timeout(Some(SOON)).expect("not zero");
    kernel.join_multicast_v4(&GROUP_V4, &KERNEL_V4).expect("joined");
    let ours = socket(&net, (Ipv4Addr::UNSPECIFIED, 5_300).into());
    ours.join_multicast_v4(GROUP_V4, OURS_V4).expect("joined");
    assert_eq!(ours.multicast_ttl_v4().expect("the driver runs"), 1);
    let to = SocketAddr::from((GROUP_V4, 5_300));
    talk(&kernel, &ours, [to, to]);
    let again = ours.join_multicast_v4(GROUP_V4, Ipv4Addr::UNSPECIFIED).expect_err("joined");
    assert_eq!(again.kind(), std::io::ErrorKind::AddrInUse);
    ours.leave_multicast_v4(GROUP_V4, OURS_V4).expect("left");
    // This filter admits 10.79.0.9 only, so that the kernel's next datagram is dropped.
    let other = SourceFilter::include(["10.79.0.9".parse().expect("an address")]);
    ours.set_source_filter(PortId(0), GROUP_V4.into(), other).expect("set");
    kernel.send_to(b"filtered", to).expect("sent");
    let filtered = || net.with_stack(|s| s.drops().of(base::DropReason::GroupFiltered));
    let is_filtered = || filtered().expect("the driver runs") > 0;
    assert!(testbed::until(SOON, is_filtered), "the datagram was not filtered in time");
    ours.leave_ssm_v4("10.79.0.9".parse().expect("v4"), GROUP_V4, OURS_V4).expect("left");
    ours.join_ssm_v4(KERNEL_V4, GROUP_V4, OURS_V4).expect("joined");
    kernel.send_to(b"taken", to).expect("sent");
    let mut into = [0; 64];
    let (n, _) = ours.recv_from(&mut into).expect("it arrives");
    assert_eq!(&into[..n], b"taken");
    driver.stop().expect("no panic");
}

fn v6() {
    let tap = tap();
    ip("addr add fe80::1/64 dev ws0 nodad");
    let (net, driver) = net(tap);
    let kernel = std::net::UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 5_300)).expect("free");
    kernel.set_read_timeout(Some(SOON)).expect("not zero");
    kernel.join_multicast_v6(&GROUP_V6, index()).expect("joined");
    let ours = socket(&net, (Ipv6Addr::UNSPECIFIED, 5_300).into());
    let scope_id = PortId(0).scope_id();
    ours.join_multicast_v6(&GROUP_V6, scope_id).expect("joined");
    let to = |scope| SocketAddr::V6(SocketAddrV6::new(GROUP_V6, 5_300, 0, scope));
    talk(&kernel, &ours, [to(index()), to(scope_id)]);
    ours.leave_multicast_v6(&GROUP_V6, scope_id).expect("left");
    let left = ours.leave_multicast_v6(&GROUP_V6, scope_id).expect_err("it has left");
    assert_eq!(left.kind(), std::io::ErrorKind::AddrNotAvailable);
    driver.stop().expect("no panic");
}

/// The TAP is a port of a bridge in the kernel. The bridge sends IGMP and MLD queries, and our
/// groups appear in its multicast table (`bridge mdb`).
fn queried() {
    let tap = tap();
    ip("link add br0 type bridge mcast_snooping 1 mcast_querier 1 mcast_igmp_version 3 \
        mcast_mld_version 2 mcast_query_response_interval 100 mcast_query_interval 200 \
        mcast_startup_query_interval 200");
    ip("link set ws0 master br0");
    ip("link set br0 up");
    let (net, driver) = net(tap);
    let ours = socket(&net, (Ipv4Addr::UNSPECIFIED, 5_300).into());
    ours.join_multicast_v4(GROUP_V4, OURS_V4).expect("joined");
    ours.join_multicast_v6(&GROUP_V6, PortId(0).scope_id()).expect("joined");
    let counted = |c| net.with_stack(|s| s.counters().of(c)).expect("the driver runs");
    let known = || {
        let shown = Command::new("bridge").args(["mdb", "show", "dev", "br0"]).output();
        String::from_utf8_lossy(&shown.expect("bridge runs").stdout).into_owned()
    };
    let all = ["239.1.2.3", "ff15::1234", "ff02::1:ff00:2"];
    let are_known = || all.iter().all(|group| known().contains(group));
    assert!(testbed::until(SOON, are_known), "{}", known());
    println!("{}", known().trim());
    let has_three = || counted(Counter::GroupQueriesIn) >= 3;
    let queries = || counted(Counter::GroupQueriesIn);
    assert!(testbed::until(SOON, has_three), "only {} queries arrived in time", queries());
    // The stack sends two reports for each of the three joins. All further reports are answers.
    let answered = || counted(Counter::GroupReportsOut) > 6;
    let reports = || counted(Counter::GroupReportsOut);
    assert!(testbed::until(SOON, answered), "only {} reports were sent in time", reports());
    let drops: Vec<_> = net
        .with_stack(|s| s.drops().nonzero().filter(|(r, _)| r.name().contains("malf")).collect())
        .expect("the driver runs");
    assert_eq!(drops, []);
    driver.stop().expect("no panic");
}

/// Starts tshark on the TAP and waits until it prints that it captures. tshark ends after it has
/// seen `packets` reports from our stack, or after 20 s.
fn tshark(packets: usize) -> Child {
    let mut command = Command::new("tshark");
    let fields = ["igmp.type", "icmpv6.type", "igmp.checksum.status", "icmpv6.checksum.status"];
    command.args(["-n", "-l", "-i", "ws0", "-a", "duration:20", "-c", &packets.to_string()]);
    command
        .args(["-f", "(ip proto 2 and src host 10.79.0.2) or (ip6 proto 0 and src host fe80::2)"]);
    command.args(["-T", "fields", "-E", "separator=,"]);
    for field in fields.iter().chain(&["_ws.expert.message", "_ws.malformed"]) {
        command.args(["-e", field]);
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let begins = lines.by_ref().map_while(Result::ok).any(|line| line.contains("Capturing on"));
    assert!(begins, "tshark ended without capturing");
    // The pipe stays open, and nobody reads it: what tshark still prints to stderr fits into it.
    std::mem::forget(lines);
    child
}

fn reports() {
    let tap = tap();
    ip(&format!("addr add {KERNEL_V4}/24 dev ws0"));
    let mut child = tshark(12);
    let (net, driver) = net(tap);
    let ours = socket(&net, (Ipv4Addr::UNSPECIFIED, 5_300).into());
    ours.join_multicast_v4(GROUP_V4, OURS_V4).expect("joined");
    ours.join_multicast_v6(&GROUP_V6, PortId(0).scope_id()).expect("joined");
    // tshark prints that it captures before it does. So the socket leaves, joins and changes its
    // filter until tshark has seen its 12 packets and has ended.
    let (mut is_member, group, mut n) = (true, IpAddr::V4(GROUP_V4), 0);
    let change = || {
        match is_member {
            true => ours.leave_multicast_v6(&GROUP_V6, PortId(0).scope_id()).expect("left"),
            false => ours.join_multicast_v6(&GROUP_V6, PortId(0).scope_id()).expect("joined"),
        }
        is_member = !is_member;
        n = (n + 1) % 100;
        let filter = SourceFilter::exclude((1..=n).map(|n| IpAddr::from([10, 79, 1, n])));
        ours.set_source_filter(PortId(0), group, filter).expect("set");
        child.try_wait().expect("a child").is_some()
    };
    assert!(testbed::until(SOON, change), "tshark did not see 12 reports in time");
    let output = child.wait_with_output().expect("tshark has ended");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{}", text.trim());
    assert!(text.contains("0x22") && text.contains("143"), "{text}");
    assert_eq!(text.lines().count(), 12, "{text}");
    for line in text.lines() {
        // Type, checksum status (1: good), no expert message, not malformed.
        assert!(line == "0x22,,1,,," || line == ",143,,1,,", "{line}");
    }
    driver.stop().expect("no panic");
}
