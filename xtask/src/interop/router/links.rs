//! Changes while packets pass: a link that is cut, another configuration, the end.
//!
//! Called by: the suite `router`. RFC 2992 (ECMP), docs/decisions/0078.

use super::super::ip::capture::Capture;
use super::super::ip::until;
use super::super::{Workbench, iperf};
use super::scene::{ENDS, LAN, LEFT, LIMIT, RIGHT, Scene, WAN, each, said};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::Duration;

/// A second link to the host on the right.
pub(super) const SPARE: &str = "[[port]]\nname = \"spare\"\ndevice = \"tap:ws2\"\n\
                                offloads = false\n\
                                addresses = [\"203.0.113.1/24\", \"2001:db8:3::1/64\"]\n";
/// The host on the right answers over the link that it prefers, even if the packets came over the
/// other one.
pub(super) const LOOSE: &str = "source_check = \"loose\"\n";
pub(super) const RIGHT_SPARE: [&str; 6] = [
    "addr add 203.0.113.2/24 dev ws2",
    "addr add 2001:db8:3::2/64 dev ws2 nodad",
    "link set ws2 txqueuelen 10000",
    "link set ws2 up",
    "route add default via 203.0.113.1 metric 2000",
    "route add default via 2001:db8:3::1 metric 2000",
];

/// The number of hosts behind the host on the right. Both links lead to them.
const HOSTS: u32 = 16;

/// A router with one link to the host on the left and two links to the host on the right.
pub(super) fn with_spare<'a>(bench: &'a Workbench, config: &str) -> Result<Scene<'a>> {
    let scene = Scene::new(bench, config, (&["ws0"], &["ws1", "ws2"]))?;
    each(&scene.left, &LEFT)?;
    each(&scene.right, &RIGHT)?;
    each(&scene.right, &RIGHT_SPARE)?;
    Ok(scene)
}

/// Cut the link of the router's second port at the other end, where the kernel loses its routes
/// over the link.
fn down(scene: &Scene<'_>) -> Result<()> {
    scene.link_changed(|| scene.right.ip("link set ws1 down"))
}

fn up(scene: &Scene<'_>) -> Result<()> {
    scene.link_changed(|| scene.right.ip("link set ws1 up"))?;
    let routes = [RIGHT[4], RIGHT[5]];
    // The kernel adds the route to an address's network a little later.
    until("the kernel's routes", LIMIT, || {
        let mut missing = routes.iter().filter(|route| scene.right.ip(&replacing(route)).is_err());
        Ok(missing.next().is_none())
    })?;
    // The kernel solicits nobody before it knows that its link-local address is not a duplicate.
    until("the kernel's link-local address", LIMIT, || {
        let addresses = said(scene.bench, &scene.right, "ip -6 addr show dev ws1 scope link")?;
        Ok(addresses.contains("fe80::") && !addresses.contains("tentative"))
    })
}

/// The line with `ip route replace` instead of `add`, for a route that may exist already.
pub(super) fn replacing(line: &str) -> String {
    line.replacen("route add", "route replace", 1)
}

fn route(to: &str, via: &str, more: &str) -> String {
    format!("[[route]]\nto = \"{to}\"\nvia = \"{via}\"\n{more}")
}

/// Pings each host behind the host on the right once; returns how many frames came over each link.
fn ping_all(scene: &Scene<'_>, version: &str) -> Result<[u64; 2]> {
    let before = received(scene)?;
    let script = format!(
        "for n in $(seq 1 {HOSTS}); do ping -n -c 1 -W 1 {version}$n >/dev/null || echo $n; done"
    );
    let lost = scene.said(&script)?;
    ensure!(lost.trim().is_empty(), "no answer from {version}N, N = {}", lost.replace('\n', " "));
    let after = received(scene)?;
    Ok([after[0] - before[0], after[1] - before[1]])
}

/// Frames that the host on the right has received over each link.
fn received(scene: &Scene<'_>) -> Result<[u64; 2]> {
    let mut counts = [0; 2];
    for (count, link) in counts.iter_mut().zip(["ws1", "ws2"]) {
        let mut cat = scene.right.command("cat");
        cat.arg(format!("/sys/class/net/{link}/statistics/rx_packets"));
        *count = scene.bench.run(&mut cat, LIMIT)?.trim().parse().context("no count")?;
    }
    Ok(counts)
}

pub(super) fn cut(bench: &Workbench) -> Result<()> {
    let config = [WAN, LAN, LOOSE, SPARE, LOOSE].concat()
        + &route("10.9.0.0/24", "198.51.100.2", "")
        + &route("10.9.0.0/24", "203.0.113.2", "")
        + &route("2001:db8:9::/64", "2001:db8:2::2", "")
        + &route("2001:db8:9::/64", "2001:db8:3::2", "")
        + &route("10.10.0.0/24", "198.51.100.2", "")
        + &route("10.10.0.0/24", "203.0.113.2", "metric = 20\n")
        + &route("10.11.0.0/24", "198.51.100.2", "");
    let scene = with_spare(bench, &config)?;
    for n in 1..=HOSTS {
        each(
            &scene.right,
            &[
                &format!("addr add 10.9.0.{n}/32 dev lo"),
                &format!("addr add 2001:db8:9::{n}/128 dev lo nodad"),
            ],
        )?;
    }
    each(&scene.right, &["addr add 10.10.0.1/32 dev lo", "addr add 10.11.0.1/32 dev lo"])?;
    for host in ["10.9.0.1", "10.10.0.1", "10.11.0.1", "203.0.113.2", "2001:db8:3::2"] {
        scene.answers(host)?;
    }
    let capture = Capture::start(bench, &scene.left, "ws0")?;
    for version in ["10.9.0.", "2001:db8:9::"] {
        let [one, two] = ping_all(&scene, version)?;
        ensure!(one >= 3 && two >= 3, "{one} frames over one link, {two} over the other");
    }
    let host = over_first(&scene)?;
    let lost = pinged_across_the_cut(&scene, &host)?;
    for version in ["10.9.0.", "2001:db8:9::"] {
        let [one, two] = ping_all(&scene, version)?;
        ensure!(one == 0 && two >= u64::from(HOSTS), "cut link: {one} frames, other: {two}");
    }
    scene.answers("10.10.0.1")?;
    let told = scene.said("ping -n -c 1 -W 2 10.11.0.1")?;
    ensure!(told.contains("From 192.0.2.2") && told.contains("Net Unreachable"), "{told}");
    up(&scene)?;
    for version in ["10.9.0.", "2001:db8:9::"] {
        let [one, two] = ping_all(&scene, version)?;
        ensure!(one >= 3 && two >= 3, "again {one} frames over one link, {two} over the other");
    }
    scene.answers("10.11.0.1")?;
    let bytes = transferred_across_the_cut(&scene, &host)?;
    println!(
        "  a cut link: {lost} of 100 pings 20 ms apart were lost; iperf3 moved {bytes} bytes in \
         the last second of four"
    );
    capture.finish(bench)?.is_sound()?;
    scene.end()
}

/// A host behind the host on the right, to which packets go over the first link.
fn over_first(scene: &Scene<'_>) -> Result<String> {
    for n in 1..=HOSTS {
        let host = format!("10.9.0.{n}");
        let before = received(scene)?;
        scene.answers(&host)?;
        if received(scene)?[1] == before[1] {
            return Ok(host);
        }
    }
    anyhow::bail!("all packets go by the second link")
}

/// Cut the link while pings go over it; returns how many were lost.
fn pinged_across_the_cut(scene: &Scene<'_>, host: &str) -> Result<u64> {
    let mut ping = scene.left.command("ping");
    ping.args(["-n", "-q", "-c", "100", "-i", "0.02", "-W", "1", host]);
    let pinging = scene.left.start("pings", &mut ping)?;
    std::thread::sleep(Duration::from_millis(500));
    down(scene)?;
    pinging.finish(LIMIT)?;
    let said = scene.left.printed("pings");
    let counts = said.split_once("transmitted, ").map(|(_, rest)| rest).context("no counts")?;
    let answered: u64 = counts.split_whitespace().next().unwrap_or_default().parse()?;
    ensure!(answered > 50, "{answered} of 100 pings were answered: the flow stayed on its link");
    Ok(100 - answered)
}

/// Cut the link in mid-transfer; returns the bytes of the transfer's last second.
fn transferred_across_the_cut(scene: &Scene<'_>, host: &str) -> Result<u64> {
    let _server = scene.server()?;
    let mut client = scene.client(&format!("-c {host} -t 4 -b 200M"));
    let client = scene.left.start("iperf3", &mut client)?;
    std::thread::sleep(Duration::from_secs(1));
    down(scene)?;
    client.finish(LIMIT)?;
    let printed = scene.left.printed("iperf3");
    iperf::moved(&printed)?;
    let report: Value = serde_json::from_str(&printed).context("iperf3 -J printed no JSON")?;
    let intervals = report["intervals"].as_array().context("no intervals")?;
    let last = intervals.last().and_then(|last| last["sum"]["bytes"].as_u64());
    let bytes = last.context("no bytes in the last interval")?;
    ensure!(bytes > 0, "the flow has stood still since its link was cut");
    up(scene)?;
    Ok(bytes)
}

pub(super) fn reloaded(bench: &Workbench) -> Result<()> {
    let config = [WAN, LAN].concat();
    let scene = Scene::plain(bench, &config)?;
    scene.right.ip("addr add 10.9.0.1/32 dev lo")?;
    let more = config.clone() + &route("10.9.0.0/24", "198.51.100.2", "");
    let capture = Capture::start(bench, &scene.left, "ws0")?;
    for (host, _) in ENDS {
        // Each transfer has its own server, because iperf3 does not listen between two tests.
        let _server = scene.server()?;
        let mut client = scene.client(&format!("-c {host} -t 3 -b 50M"));
        let mut client = scene.left.start("iperf3", &mut client)?;
        std::thread::sleep(Duration::from_millis(500));
        scene.reload(&more, "router.toml: 1 changes took effect, 0 failed")?;
        scene.answers("10.9.0.1")?;
        scene.reload(&format!("{more}mtuu = 9\n"), "the running configuration stays")?;
        scene.answers("10.9.0.1")?;
        scene.reload(&config, "router.toml: 1 changes took effect, 0 failed")?;
        let told = scene.said("ping -n -c 1 -W 2 10.9.0.1")?;
        ensure!(told.contains("From 192.0.2.2") && told.contains("Unreachable"), "{told}");
        ensure!(client.is_alive()?, "the transfer with {host} ended before the last change");
        client.finish(LIMIT)?;
        iperf::moved(&scene.left.printed("iperf3"))?;
    }
    capture.finish(bench)?.is_clean()?;
    ensure!(scene.times("opened anew") == 0, "a port was opened anew: {}", scene.log());
    // The router also ends properly in mid-transfer. Nobody receives packets that arrive after its
    // end.
    let _server = scene.server()?;
    let mut client = scene.client("-c 198.51.100.2 -t 20");
    let _client = scene.left.start("iperf3", &mut client)?;
    std::thread::sleep(Duration::from_millis(500));
    scene.end()
}
