//! Attacks on a router, and through it on the hosts behind: `wirespeed up` with the attacker on one
//! side. Packets that no router forwards must not reach the other side.
//!
//! Called by: the suite `attacks`. A connection between both sides goes on beside each attack, and
//! tshark looks for the attacker's packets behind the router.

use super::super::host::Running;
use super::super::ip::capture::Capture;
use super::super::ip::{TCPDUMP, TSHARK};
use super::super::iperf::{self, IPERF3};
use super::super::router::scene::{LIMIT, Scene, each};
use super::super::{Need, Workbench};
use super::scene::{PROGRAM, PYTHON, Seen, within_limits};
use super::{IP, PING, SCAPY, TUN};
use anyhow::{Context, Result, ensure};

pub(super) const NEEDS: &[Need] =
    &[Need::Root, TUN, IP, PING, Need::File(PYTHON), SCAPY, IPERF3, TCPDUMP, TSHARK];

/// The attacker's side has the addresses of the other attacks.
const CONFIG: &str = "[[port]]\nname = \"wan\"\ndevice = \"tap:ws0\"\n\
                      addresses = [\"10.9.0.2/24\", \"fd09::2/64\"]\n\
                      [[port]]\nname = \"lan\"\ndevice = \"tap:ws1\"\n\
                      addresses = [\"172.16.0.1/16\", \"2001:db8:2::1/64\"]\n";
const LEFT: [&str; 6] = [
    "addr add 10.9.0.1/24 dev ws0",
    "addr add fd09::1/64 dev ws0 nodad",
    "link set ws0 txqueuelen 10000",
    "link set ws0 up",
    "route add default via 10.9.0.2",
    "route add default via fd09::2",
];
const RIGHT: [&str; 6] = [
    "addr add 172.16.0.2/16 dev ws1",
    "addr add 2001:db8:2::2/64 dev ws1 nodad",
    "link set ws1 txqueuelen 10000",
    "link set ws1 up",
    "route add default via 172.16.0.1",
    "route add default via 2001:db8:2::1",
];

/// Resident memory may grow by this much under an attack, in KB.
const GROWTH_KB: u64 = 32 << 10;

struct Attack {
    /// Its name in attacker.py.
    program: &'static str,
    name: &'static str,
    expected: &'static str,
    /// Drops that must have been counted, alternatives joined by `|`.
    counted: &'static [&'static str],
    /// A display filter that no frame behind the router may match.
    never: &'static str,
}

const ALL: [Attack; 6] = [
    Attack {
        program: "router_martians",
        name: "martians at a router",
        expected: "not forwarded, not answered",
        counted: &["ip_martian_source", "ip_martian_destination", "ip_link_local"],
        never: "(udp.dstport == 9 || tcp.dstport == 7) || (icmp.type == 8) || (icmpv6.type == 128)",
    },
    Attack {
        program: "router_land",
        name: "land at a router",
        expected: "dropped",
        counted: &["tcp_land|ip_martian_source"],
        never: "tcp.dstport == 7",
    },
    Attack {
        program: "router_smurf",
        name: "smurf through a router",
        expected: "no directed broadcast passes, nothing is answered",
        counted: &["ip_directed_broadcast", "ip_link_broadcast|icmp_broadcast|udp_broadcast"],
        never: "ip.src == 10.9.0.66",
    },
    Attack {
        program: "router_source_routes",
        name: "source routes at a router",
        expected: "dropped",
        counted: &["ipv4_source_route", "ipv6_routing_header"],
        never: "ip.src == 10.9.0.66 || ipv6.routing.type == 0",
    },
    Attack {
        program: "router_neighbours",
        name: "scans of the networks behind: ND and ARP exhaustion",
        expected: "the table and the rate of questions are bounded, neighbours in use stay",
        counted: &[
            "ip_no_neighbour|neighbour_queue_full|neighbour_table_full|neighbour_rate_limited",
        ],
        never: "ip.src == 10.9.0.66 || ipv6.src == fd09::66",
    },
    Attack {
        program: "router_arp",
        name: "claims of a router's addresses and neighbours",
        expected: "no entry from what nobody asked for",
        counted: &["arp_unsolicited|neighbour_conflict", "neighbour_conflict"],
        never: "arp.src.proto_ipv4 == 10.9.0.2",
    },
];

pub(super) fn run(bench: &Workbench) -> Result<()> {
    let scene = Scene::new(bench, CONFIG, (&["ws0"], &["ws1"]))?;
    each(&scene.left, &LEFT)?;
    each(&scene.right, &RIGHT)?;
    for host in ["10.9.0.2", "fd09::2", "172.16.0.2", "2001:db8:2::2"] {
        scene.answers(host)?;
    }
    let _server = scene.server()?;
    for attack in ALL {
        fire(&scene, &attack).with_context(|| attack.name)?;
    }
    scene.end()
}

fn fire(scene: &Scene<'_>, attack: &Attack) -> Result<()> {
    let bench = scene.bench;
    let (before, before_kb) = (scene.show_all()?, resident_kb(scene)?);
    let capture = Capture::start(bench, &scene.right, "ws1")?;
    let beside = beside(scene)?;
    let mut attacker = scene.left.command(PYTHON);
    attacker.arg(bench.root().join(PROGRAM)).arg(attack.program);
    let ran = bench.run(&mut attacker, 3 * LIMIT);
    let line = std::fs::read_to_string(bench.path("stdout")).unwrap_or_default();
    let line = line.trim().to_owned();
    ran.with_context(|| format!("it saw: {line}"))?;
    beside.finish(2 * LIMIT)?;
    let moved = iperf::moved(&scene.left.printed("beside"))?;
    let passed = capture.finish(bench)?.count(attack.never)?;
    ensure!(passed == 0, "{passed} frames behind the router are `{}`", attack.never);
    let after = scene.show_all()?;
    within_limits(&after)?;
    let growth_kb = resident_kb(scene)?.saturating_sub(before_kb);
    ensure!(growth_kb <= GROWTH_KB, "resident memory grew by {growth_kb} KB");
    let text = format!("{:.0} Mb/s beside; +{growth_kb} KB", moved * 1e3);
    let seen = Seen::between(before, after, text);
    let counted = seen.counted(attack.counted)?;
    let Attack { name, expected, .. } = attack;
    println!("{name} | {expected} | {line}; {counted}; {}", seen.text);
    scene.answers("172.16.0.2")?;
    scene.answers("2001:db8:2::2")
}

/// A connection from one side to the other, longer than an attack.
fn beside(scene: &Scene<'_>) -> Result<Running> {
    let mut client = scene.client("-c 172.16.0.2 -t 8 -b 20M");
    scene.left.start("beside", &mut client)
}

fn resident_kb(scene: &Scene<'_>) -> Result<u64> {
    let [_, worker] = scene.processes()?;
    let status = std::fs::read_to_string(format!("/proc/{worker}/status"));
    let status = status.context("the router has ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")
}
