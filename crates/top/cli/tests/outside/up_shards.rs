//! `wirespeed up` of two shards, between kernels of namespaces: over TAPs of two queues, over
//! groups of packet sockets and over the queues of AF_XDP, with neighbours, VLANs, transfers of
//! many flows, and reloads.

use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Case, Namespace, Need, Running, ip, until};

use crate::up::{CONFIG, TIMEOUT, World, pings};
use crate::up_ports::{hosts_ping, port, veth, veth_of_queues};

const IPERF3: Need = Need::Program("iperf3", "iperf3");
const ETHTOOL: Need = Need::Program("ethtool", "ethtool");

pub(crate) const CASES: &[Case] = &[
    ("up_of_two_shards_forwards_over_taps", &[Need::PING, IPERF3], taps),
    ("up_of_two_shards_forwards_over_packet_sockets", &[Need::PING, IPERF3, ETHTOOL], packets),
    ("up_of_two_shards_forwards_over_xdp_queues", &[Need::PING, IPERF3, ETHTOOL], xdp_queues),
    ("up_of_two_shards_reloads", &[Need::PING], reloads),
    ("up_says_what_shards_cannot_have", &[], refused),
];

fn sharded(config: &str) -> String {
    format!("shards = 2\n{config}")
}

/// `iperf3` of eight connections to `to`, both ways, for a second each.
fn transfers(server: &Namespace, from: Option<&Namespace>, to: &str) {
    let serve = || {
        let mut iperf3 = Command::new("iperf3");
        iperf3.args(["-s", "-B", to]).stdout(Stdio::null()).stderr(Stdio::null());
        Running(iperf3.spawn().expect("iperf3 starts"))
    };
    let _server = server.inside(serve).expect("no panic");
    for direction in [&[][..], &["-R"]] {
        let run = || {
            let mut iperf3 = Command::new("iperf3");
            iperf3.args(["-c", to, "-P", "8", "-t", "1", "--connect-timeout", "5000"]);
            iperf3.args(direction).output().expect("iperf3 starts")
        };
        let mut last = String::new();
        let is_through = || {
            let output = match from {
                Some(host) => host.inside(run).expect("no panic"),
                None => run(),
            };
            last = String::from_utf8_lossy(&output.stderr).into_owned()
                + &String::from_utf8_lossy(&output.stdout);
            output.status.success()
        };
        // The server may not listen yet.
        assert!(until(TIMEOUT, is_through), "{last}");
    }
}

/// The counter of each shard, and their sum.
fn counted(world: &World, name: &str) -> (Vec<u64>, u64) {
    let document: Value = serde_json::from_str(&world.show_json("counters")).expect("JSON");
    let of = |stack: &Value| stack["counters"][name].as_u64().expect("a counter");
    let each = document["stacks"].as_array().expect("stacks").iter().map(of).collect();
    (each, document["host"]["counters"][name].as_u64().expect("a sum"))
}

/// Both shards forwarded, and `show` adds them up.
fn both_forwarded(world: &World) {
    let (each, sum) = counted(world, "forwarded");
    assert_eq!(each.len(), 2);
    assert!(each.iter().all(|&n| n > 20), "{each:?}");
    assert!(sum >= each.iter().sum(), "{each:?} {sum}");
}

fn taps() {
    let world = World::new(&sharded(CONFIG));
    // The kernel asks for the router's link address, and the router for the kernel's.
    assert!(until(TIMEOUT, || pings("198.51.100.2")), "{}", world.log());
    assert!(pings("192.0.2.2") && pings("198.51.100.1"), "the router itself answers");
    transfers(&world.behind, None, "198.51.100.2");
    both_forwarded(&world);
    // A neighbour whose entry was flushed, and one that does not exist.
    assert!(ip("neigh flush dev ws0") && world.behind.ip("neigh flush dev ws1"));
    assert!(until(TIMEOUT, || pings("198.51.100.2")), "{}", world.log());
    assert!(!pings("198.51.100.77"));
    let routes = world.show("routes");
    assert_eq!(routes.matches("192.0.2.0/24").count(), 1, "one table for all: {routes}");
    let metrics = crate::up::asked("/metrics");
    assert!(metrics.contains("wirespeed_shards 2\n"), "{metrics}");
    assert!(crate::up::asked("/healthz").ends_with("ok\n"));
    assert_eq!(world.end(Signal::TERM), 0);
    assert!(until(TIMEOUT, || !ip("link show ws0")));
}

fn packets() {
    let hosts = [Namespace::new().expect("root may"), Namespace::new().expect("root may")];
    veth(1, &hosts[0]);
    veth(2, &hosts[1]);
    let world = World::started(&sharded(&between("packet")));
    assert!(until(TIMEOUT, || hosts_ping(&hosts[0], "10.2.0.2")), "{}", world.log());
    transfers(&hosts[1], Some(&hosts[0]), "10.2.0.2");
    both_forwarded(&world);
    assert_eq!(world.end(Signal::TERM), 0);
}

/// A router of two ports of that kind.
fn between(kind: &str) -> String {
    port("one", &format!("{kind}:r1"), "\"10.1.0.1/24\"")
        + &port("two", &format!("{kind}:r2"), "\"10.2.0.1/24\"")
}

/// The hosts' kernels do this work themselves, and leave it to no device.
fn leaves_to_nobody(hosts: &[Namespace], work: &[&str]) {
    for (host, end) in hosts.iter().zip(["h1", "h2"]) {
        let off = || {
            let words = work.iter().flat_map(|what| [what, "off"]);
            Command::new("ethtool").args(["-K", end]).args(words).stdout(Stdio::null()).status()
        };
        assert!(host.inside(off).expect("no panic").is_ok_and(|status| status.success()));
    }
}

/// The kernel puts a flow into either queue, which need not be that of its shard.
fn xdp_queues() {
    let hosts = [Namespace::new().expect("root may"), Namespace::new().expect("root may")];
    veth_of_queues(1, &hosts[0], 2);
    veth_of_queues(2, &hosts[1], 2);
    // This device does not finish checksums either.
    leaves_to_nobody(&hosts, &["tso", "gso", "tx"]);
    let config = between("xdp") + "[privileges]\nseparate = false\n";
    let world = World::started(&sharded(&config));
    assert!(until(TIMEOUT, || hosts_ping(&hosts[0], "10.2.0.2")), "{}", world.log());
    assert!(hosts_ping(&hosts[0], "10.1.0.1"), "the router itself answers");
    assert!(hosts_ping(&hosts[1], "10.1.0.1"), "by any of its addresses");
    transfers(&hosts[1], Some(&hosts[0]), "10.2.0.2");
    both_forwarded(&world);
    assert_eq!(world.end(Signal::TERM), 0);
    // The program of the interface went with the router.
    let shown = || Command::new("ip").args(["link", "show", "r1"]).output().expect("ip starts");
    assert!(until(TIMEOUT, || !String::from_utf8_lossy(&shown().stdout).contains("xdp")));
}

fn reloads() {
    let world = World::new(&sharded(CONFIG));
    assert!(until(TIMEOUT, || pings("198.51.100.2")), "{}", world.log());
    let vlan = "[[port]]\nname = \"guests\"\nparent = \"wan\"\nvlan = 20\n\
                addresses = \"203.0.113.1/24\"\n";
    let narrow = CONFIG.replacen("device = \"tap:ws0\"", "device = \"tap:ws0\"\nmtu = 1400", 1);
    world.reload(&sharded(&format!("{narrow}{vlan}")), "changes took effect, 0 failed");
    // Untagged frames pass beside the VLAN's port, whichever shard has them.
    for _ in 0..4 {
        assert!(until(TIMEOUT, || pings("198.51.100.2")), "{}", world.log());
    }
    // A changed number of shards takes effect at the next start.
    world.reload(CONFIG, "shards counts from the start of the program");
    world.says("port guests: removed");
    assert!(until(TIMEOUT, || pings("198.51.100.2")), "{}", world.log());
    assert_eq!(counted(&world, "forwarded").0.len(), 2);
    assert_eq!(world.end(Signal::TERM), 0);
}

fn refused() {
    let gap = "[[gap]]\nto = \"192.0.2.0/24\"\nmicroseconds = 60\n";
    let (code, log) = World::fails(&sharded(&format!("{CONFIG}{gap}")), "");
    assert_eq!(code, 2, "{log}");
    assert!(log.contains("router.toml:14:6: each shard would keep a gap of its own"), "{log}");
    // An interface of one queue that is there already has no second one.
    assert!(ip("tuntap add dev ws0 mode tap"));
    let (code, log) = World::fails(&sharded(&port("wan", "tap:ws0", "\"192.0.2.2/24\"")), "");
    assert_eq!(code, 1, "{log}");
    assert!(log.contains("port wan: ") && log.contains("multi_queue"), "{log}");
    assert!(ip("tuntap del dev ws0 mode tap"));
    // More shards than cores is no mistake.
    let many = format!("shards = 64\n{CONFIG}");
    let world = World::started(&many);
    world.says("shards = 64 on ");
    assert_eq!(world.end(Signal::TERM), 0);
}
