//! Traffic through a router that does not change: hops, transfers, sizes, VLANs.
//!
//! Called by: the suite `router`. RFC 1812 section 5.3.1 (hops), RFC 791 (fragments), RFC 1191 and
//! RFC 8201 (path MTUs), IEEE 802.1Q.

use super::super::Workbench;
use super::super::ip::capture::Capture;
use super::super::ip::until;
use super::PYTHON;
use super::scene::{ENDS, LAN, LIMIT, RIGHT, Scene, WAN, each};
use anyhow::{Result, ensure};

/// iperf3's options for a transfer whose frames are captured: as much as tshark reads in seconds.
const CAPTURED: &str = "-t 1 -b 30M";

/// Directions of iperf3.
const BOTH_WAYS: [(&str, &str); 2] = [("", "to the right"), (" -R", "to the left")];

pub(super) fn across(bench: &Workbench) -> Result<()> {
    let scene = Scene::plain(bench, &format!("{WAN}{LAN}"))?;
    for (host, router) in ENDS {
        let trace = scene.said(&format!("traceroute -n -q 1 -w 2 -m 4 {host}"))?;
        let lines = trace.lines().skip(1);
        let hops: Vec<&str> = lines.filter_map(|line| line.split_whitespace().nth(1)).collect();
        ensure!(hops == [router, host], "wrong hops to {host}: {trace}");
    }
    let _server = scene.server()?;
    for (host, _) in ENDS {
        for (words, way) in BOTH_WAYS {
            let gbit_per_s = scene.transfer(&format!("-c {host} -t 2{words}"))?;
            println!("  iperf3 with {host}, {way}, forwarded: {gbit_per_s:.2} Gb/s");
        }
    }
    let capture = Capture::start(bench, &scene.left, "ws0")?;
    for (host, _) in ENDS {
        for (words, _) in BOTH_WAYS {
            scene.transfer(&format!("-c {host} {CAPTURED}{words}"))?;
        }
    }
    let captured = capture.finish(bench)?;
    captured.is_sound()?;
    // The hop limit is one less than the kernel's.
    captured.has("ip.src == 198.51.100.2 && tcp && ip.ttl == 63")?;
    captured.has("ipv6.src == 2001:db8:2::2 && tcp && ipv6.hlim == 63")?;
    let burst = scene.show("counters")?["forwarded_in_bursts"].as_u64().unwrap_or(0);
    ensure!(burst > 10_000, "{burst} packets took the burst path");
    scene.end()
}

pub(super) fn narrow(bench: &Workbench) -> Result<()> {
    let scene = Scene::plain(bench, &format!("{WAN}{LAN}mtu = 1400\n"))?;
    let near = Capture::start(bench, &scene.left, "ws0")?;
    let far = Capture::start(bench, &scene.right, "ws1")?;
    // 1428 bytes, before the kernel knows of the MTU.
    let cut = scene.said("ping -c 1 -W 2 -M dont -s 1400 198.51.100.2")?;
    ensure!(cut.contains(" 1 received"), "without DF: {cut}");
    let refused = scene.said("ping -c 1 -W 2 -M do -s 1400 198.51.100.2")?;
    ensure!(refused.contains("From 192.0.2.2") && refused.contains("mtu = 1400"), "DF: {refused}");
    let refused = scene.said("ping -c 1 -W 2 -M do -s 1400 2001:db8:2::2")?;
    ensure!(refused.contains("From 2001:db8:1::2"), "IPv6: {refused}");
    ensure!(refused.contains("Packet too big: mtu=1400"), "IPv6: {refused}");
    for (host, _) in ENDS {
        let known = scene.said(&format!("ip route get {host}"))?;
        ensure!(known.contains("mtu 1400"), "the kernel did not learn the MTU to {host}: {known}");
    }
    // Now the kernel knows the MTU, and makes the fragments itself.
    let cut = scene.said("ping -c 1 -W 2 -s 1400 2001:db8:2::2")?;
    ensure!(cut.contains(" 1 received"), "IPv6 in fragments: {cut}");
    let _server = scene.server()?;
    for (host, _) in ENDS {
        scene.transfer(&format!("-c {host} {CAPTURED}"))?;
    }
    let (near, far) = (near.finish(bench)?, far.finish(bench)?);
    near.is_sound()?;
    near.has("icmp.type == 3 && icmp.code == 4 && icmp.mtu == 1400 && ip.src == 192.0.2.2")?;
    near.has("icmpv6.type == 2 && icmpv6.mtu == 1400 && ipv6.src == 2001:db8:1::2")?;
    far.is_sound()?;
    // The router's fragments: two, the first of which is full.
    far.has("ip.dst == 198.51.100.2 && ip.flags.mf == 1 && ip.len <= 1400 && ip.ttl == 63")?;
    let long = far.count("ip.len > 1400 || ipv6.plen > 1360")?;
    ensure!(long == 0, "{long} packets were too long for the link");
    scene.end()
}

/// A switch between a trunk and access ports, one for each VLAN.
const SWITCH: &str = "xtask/src/interop/router/trunk.py";

/// Both hosts are behind one TAP, each on a VLAN.
pub(super) fn stick(bench: &Workbench) -> Result<()> {
    let vlan = |name: &str, id: u32, addresses: &str| {
        format!(
            "[[port]]\nname = \"{name}\"\nparent = \"trunk\"\nvlan = {id}\n\
             addresses = {addresses}\n"
        )
    };
    let config = "[[port]]\nname = \"trunk\"\ndevice = \"tap:ws0\"\noffloads = false\n".to_owned()
        + &vlan("red", 10, "[\"192.0.2.2/24\", \"2001:db8:1::2/64\"]")
        + &vlan("blue", 20, "[\"198.51.100.1/24\", \"2001:db8:2::1/64\"]");
    let scene = Scene::new(bench, &config, (&["ws0"], &[]))?;
    let to_right = format!("link set ws1 netns {}", scene.right.name());
    each(&scene.left, &["link set ws0 txqueuelen 10000", "link set ws0 up"])?;
    let mut switch = scene.left.command(PYTHON);
    // The right host's interface is called `ws1`, as in the other cases.
    switch.arg(bench.root().join(SWITCH)).args(["ws0", "red:10", "ws1:20"]);
    let _switch = scene.left.start("switch", &mut switch)?;
    until("the switch has its ports", LIMIT, || Ok(scene.left.ip("link show ws1").is_ok()))?;
    each(
        &scene.left,
        &[
            &to_right,
            "addr add 192.0.2.1/24 dev red",
            "addr add 2001:db8:1::1/64 dev red nodad",
            "link set red up",
            "route add default via 192.0.2.2",
            "route add default via 2001:db8:1::2",
        ],
    )?;
    each(&scene.right, &RIGHT)?;
    let capture = Capture::start(bench, &scene.left, "ws0")?;
    for (host, _) in ENDS {
        scene.answers(host)?;
    }
    let _server = scene.server()?;
    for (host, _) in ENDS {
        for (words, _) in BOTH_WAYS {
            scene.transfer(&format!("-c {host} {CAPTURED}{words}"))?;
        }
    }
    let captured = capture.finish(bench)?;
    captured.is_sound()?;
    // Each packet passes twice: with one tag, then with the other tag and a hop limit one less.
    for (to_router, from_router) in [
        ("ip.dst == 198.51.100.2 && ip.ttl == 64", "ip.dst == 198.51.100.2 && ip.ttl == 63"),
        (
            "ipv6.dst == 2001:db8:2::2 && ipv6.hlim == 64",
            "ipv6.dst == 2001:db8:2::2 && ipv6.hlim == 63",
        ),
    ] {
        let came = captured.count(&format!("vlan.id == 10 && {to_router}"))?;
        let left = captured.count(&format!("vlan.id == 20 && {from_router}"))?;
        ensure!(came > 100 && came == left, "{came} came with tag 10, {left} left with tag 20");
    }
    let untagged = captured.count("!vlan && (ip || arp)")?;
    ensure!(untagged == 0, "{untagged} packets of IPv4 had no tag");
    scene.end()
}
