//! Cases with a second host, which is behind the router of our stack or on the same wire: redirects
//! (RFC 792, RFC 4861 section 8), path MTU discovery (RFC 1191, RFC 8201), and an MTU for each
//! neighbour.
//!
//! Called by: `ip.rs`.

use super::capture::Capture;
use super::steps::{LIMIT, arrived, counter, ours, sink, sysctl, until};
use crate::interop::Workbench;
use crate::interop::host::Host;
use crate::interop::outside::shown;
use anyhow::{Context, Result, ensure};
use std::time::Duration;

/// Bytes of the file in most cases.
const FILE: usize = 10_000_000;
/// Bytes of the file if the network changes during its transfer, and how many of them are sent
/// before the change.
const LONG_FILE: usize = 150_000_000;
const BEFORE: u64 = 20_000_000;

/// How the kernel and our tools write a version of IP.
pub(super) struct Version {
    tcp: &'static str,
    /// tshark's field of the destination.
    dst: &'static str,
    /// A server on no link, and the route to it that the first host has.
    server: &'static str,
    route: &'static str,
    /// Our addresses, and the first host's as gateway: redirects come from a link-local address.
    ours: &'static [&'static str],
    via: &'static str,
    /// The second host's address on the link between the two, and our option for its MTU.
    second: &'static str,
    limit: &'static str,
    mtu_field: &'static str,
}

pub(super) const V4: Version = Version {
    tcp: "TCP4",
    dst: "ip.dst",
    server: "10.77.0.1",
    route: "10.77.0.0/24 via 10.9.0.3",
    ours: &["10.9.0.2/24"],
    via: "10.9.0.1",
    second: "10.9.0.3",
    limit: "10.9.0.3=1500",
    mtu_field: "ip.len",
};

pub(super) const V6: Version = Version {
    tcp: "TCP6",
    dst: "ipv6.dst",
    server: "fd77::1",
    route: "fd77::/64 via fe80::3 dev br0",
    ours: &["fd09::2/64", "fe80::2/64"],
    via: "fe80::1",
    second: "fd09::3",
    limit: "fd09::3=1500",
    mtu_field: "ipv6.plen",
};

/// A router's report that a packet does not fit the next link.
const TOO_BIG: &str = "(icmp.type == 3 && icmp.code == 4) || icmpv6.type == 2";

/// The hardware address of the host on our wire, the first that joins the bridge.
const BESIDE: &str = "02:00:00:00:00:b3";

/// A host whose TAP is in a bridge, and which has its addresses there.
pub(super) fn bridged(bench: &Workbench) -> Result<Host<'_>> {
    let host = Host::without_tap(bench)?;
    for line in [
        "tuntap add dev ws0 mode tap vnet_hdr",
        "link set ws0 txqueuelen 10000",
        "link add br0 address 02:00:00:00:00:b1 type bridge",
        "link set ws0 master br0",
        "addr add 10.9.0.1/24 dev br0",
        "addr add fd09::1/64 dev br0 nodad",
        "link set br0 addrgenmode none",
        "addr add fe80::1/64 dev br0 nodad",
        "link set ws0 up",
        "link set br0 up",
    ] {
        host.ip(line)?;
    }
    Ok(host)
}

/// A host with the addresses 10.9.0.NUMBER, fd09::NUMBER and fe80::NUMBER in the bridge of another.
pub(super) fn beside<'a>(
    bench: &'a Workbench,
    bridged: &Host<'_>,
    number: u8,
    mtu: u32,
) -> Result<Host<'a>> {
    let host = Host::without_tap(bench)?;
    let (here, mac) = (format!("v{number}"), format!("02:00:00:00:00:b{number}"));
    let peer = format!("peer name {here} address {mac} mtu {mtu} netns {}", host.name());
    bridged.ip(&format!("link add {here} mtu {mtu} type veth {peer}"))?;
    bridged.ip(&format!("link set {here} master br0"))?;
    bridged.ip(&format!("link set {here} up"))?;
    host.ip(&format!("link set {here} addrgenmode none"))?;
    host.ip(&format!("link set {here} up"))?;
    host.ip(&format!("addr add 10.9.0.{number}/24 dev {here}"))?;
    for prefix in ["fd09", "fe80"] {
        host.ip(&format!("addr add {prefix}::{number}/64 dev {here} nodad"))?;
    }
    Ok(host)
}

/// Our gateway knows a better first hop on the same wire, and the connection goes by that from then
/// on.
pub(super) fn redirected(bench: &Workbench, version: &Version) -> Result<()> {
    let sent = bench.file("sent", FILE)?;
    let router = bridged(bench)?;
    let server = beside(bench, &router, 3, 1500)?;
    for (name, value) in [("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")] {
        sysctl(bench, &router, name, value)?;
    }
    router.ip(&format!("route add {}", version.route))?;
    server.ip(&format!("addr add {}/{} dev lo", version.server, full(version)))?;
    let socat = sink(bench, &server, version.tcp)?;
    let capture = Capture::start(bench, &router, "ws0")?;
    let mut sender = ours(bench, &router, "ttcp", version.ours)?;
    sender.args(["--offload", "off", "--via", version.via]);
    sender.args(["-t", version.server, "--json", "--file"]).arg(&sent);
    let report = bench.run(&mut sender, LIMIT)?;
    socat.finish(LIMIT)?;
    arrived(bench)?;
    let captured = capture.finish(bench)?;
    captured.is_clean()?;
    ensure!(counter(&report, "redirects")? == 1, "not one redirect was followed: {report}");
    let to_server = format!("{} == {} && tcp", version.dst, version.server);
    let segments = captured.lines(&to_server, &["eth.dst"])?;
    let by_router = segments.iter().filter(|mac| *mac != BESIDE).count();
    let is_straight = segments.last().is_some_and(|mac| mac == BESIDE);
    ensure!(is_straight, "the last segment did not go straight, and {by_router} did not");
    let most = segments.len() / 2;
    ensure!(by_router <= most, "{by_router} of {} went by the router", segments.len());
    Ok(())
}

/// The length of a prefix that is a single address.
fn full(version: &Version) -> u8 {
    if version.tcp == "TCP4" { 32 } else { 128 }
}

/// The link behind our gateway carries packets of 1,500 bytes at first, and smaller ones later.
pub(super) fn path_shrinks(bench: &Workbench) -> Result<()> {
    bench.file("sent", LONG_FILE)?;
    for (version, to) in [(&V4, "10.8.0.2"), (&V6, "fd08::2")] {
        shrinks(bench, version, to).with_context(|| format!("to {to}"))?;
    }
    Ok(())
}

fn shrinks(bench: &Workbench, version: &Version, to: &str) -> Result<()> {
    let (router, server) = (Host::new(bench)?, Host::without_tap(bench)?);
    for (name, value) in [("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")] {
        sysctl(bench, &router, name, value)?;
    }
    router.ip(&format!("link add va type veth peer name vb netns {}", server.name()))?;
    for (host, number, name) in [(&router, 1, "va"), (&server, 2, "vb")] {
        host.ip(&format!("link set {name} up"))?;
        host.ip(&format!("addr add 10.8.0.{number}/24 dev {name}"))?;
        host.ip(&format!("addr add fd08::{number}/64 dev {name} nodad"))?;
    }
    server.ip("route add 10.9.0.0/24 via 10.8.0.1")?;
    server.ip("route add fd09::/64 via fd08::1")?;
    let received = bench.path("received");
    // Remove the file of the other version of IP.
    if received.exists() {
        std::fs::remove_file(&received)?;
    }
    let socat = sink(bench, &server, version.tcp)?;
    // For a second the kernel sends no solicitations from new IPv6 addresses.
    router.until(|| {
        let mut ping = router.command("ping");
        ping.args(["-c", "1", "-W", "1", to]);
        Ok(ping)
    })?;
    let capture = Capture::start(bench, &router, "ws0")?;
    let mut sender = router.ours("ttcp")?;
    sender.args(["--offload", "off", "--via", "10.9.0.1", "--via", "fd09::1"]);
    sender.args(["-t", to, "--json", "--file"]);
    let sender = router.start("ttcp", sender.arg(bench.path("sent")))?;
    let so_far = || std::fs::metadata(&received).map_or(0, |file| file.len());
    until("some of the file has arrived", LIMIT, || Ok(so_far() >= BEFORE))?;
    router.ip("link set va mtu 1300")?;
    let before = so_far();
    ensure!(before < LONG_FILE as u64, "all was sent before the MTU shrank: the file is too short");
    sender.finish(Duration::from_secs(120))?;
    socat.finish(LIMIT)?;
    arrived(bench)?;
    let lowered = counter(&router.printed("ttcp"), "path_mtu_lowered")?;
    ensure!(lowered > 0, "the path's MTU was not found smaller after {before} bytes");
    // A refused segment of 1,448 bytes is sent again as one of 1,248 and one of 200.
    capture.finish(bench)?.is_clean_but_for(TOO_BIG, 2)
}

/// The wire and one of two hosts on it take packets of 65,521 bytes. The other host takes 1,500,
/// and our stack gets that as an option.
pub(super) fn neighbours_differ(bench: &Workbench) -> Result<()> {
    let sent = bench.file("sent", FILE)?;
    let wire = bridged(bench)?;
    let small = beside(bench, &wire, 3, 1500)?;
    let large = beside(bench, &wire, 4, 65_521)?;
    wire.ip("link set ws0 mtu 65521")?;
    for version in [&V4, &V6] {
        let fourth = version.second.replace('3', "4");
        for (host, to, least, most) in
            [(&small, version.second, 1_400, 1_500), (&large, fourth.as_str(), 60_000, 65_521)]
        {
            let received = bench.path("received");
            if received.exists() {
                std::fs::remove_file(&received)?;
            }
            let socat = sink(bench, host, version.tcp)?;
            let capture = Capture::start(bench, &wire, "ws0")?;
            let mut sender = wire.ours("ttcp")?;
            // Without offloads a frame is a segment.
            sender.args(["--neigh-mtu", version.limit, "--offload", "off", "-t", to, "--file"]);
            bench.run(sender.arg(&sent), LIMIT)?;
            socat.finish(LIMIT)?;
            arrived(bench)?;
            let captured = capture.finish(bench)?;
            captured.is_clean()?;
            let filter = format!("{} == {to} && tcp", version.dst);
            let sizes = captured.lines(&filter, &[version.mtu_field])?;
            let largest = sizes.iter().filter_map(|size| size.parse::<u32>().ok()).max();
            let largest = largest.with_context(|| format!("no segment to {to}"))?;
            ensure!((least..=most).contains(&largest), "{to} got {largest} bytes in a packet");
        }
    }
    Ok(())
}

/// In mid-transfer the host on our wire gets another link address, and announces it: by a
/// gratuitous ARP request (RFC 5227 section 3), or an unsolicited advertisement (RFC 4861 section
/// 7.2.6).
pub(super) fn neighbour_moves(bench: &Workbench) -> Result<()> {
    bench.file("sent", FILE)?;
    let wire = bridged(bench)?;
    let server = beside(bench, &wire, 3, 1500)?;
    for name in ["ipv4/conf/v3/arp_notify", "ipv6/conf/v3/ndisc_notify"] {
        sysctl(bench, &server, name, "1")?;
    }
    for (version, moved) in [(&V4, "02:00:00:00:00:c4"), (&V6, "02:00:00:00:00:c6")] {
        moves(bench, version, (&wire, &server), moved).with_context(|| format!("to {moved}"))?;
    }
    Ok(())
}

/// The rest of the file is sent when the link address has changed.
fn moves(
    bench: &Workbench,
    version: &Version,
    (wire, server): (&Host<'_>, &Host<'_>),
    moved: &str,
) -> Result<()> {
    let received = bench.path("received");
    for old in [received.clone(), bench.path("moved")] {
        if old.exists() {
            std::fs::remove_file(old)?;
        }
    }
    let socat = sink(bench, server, version.tcp)?;
    let capture = Capture::start(bench, wire, "ws0")?;
    let part = FILE / 2;
    let script = format!(
        "(dd bs={part} count=1 2> dd; until [ -e moved ]; do sleep 0.1; done; cat) < sent | {} \
         ttcp --offload off --dev tap:ws0 --addr 10.9.0.2/24 --addr fd09::2/64 -t {}",
        shown(&bench.wirespeed()?)?,
        version.second
    );
    let mut sender = wire.command("sh");
    let mut sender =
        wire.start("ttcp", sender.args(["-c", &script]).current_dir(bench.path("")))?;
    until("half of the file has arrived", LIMIT, || {
        ensure!(sender.is_alive()?, "the sender has ended");
        Ok(std::fs::metadata(&received).map_or(0, |file| file.len()) >= part as u64)
    })?;
    // A change is ignored within a second of another one.
    std::thread::sleep(Duration::from_millis(1_200));
    server.ip(&format!("link set v3 address {moved}"))?;
    std::fs::write(bench.path("moved"), "")?;
    sender.finish(LIMIT)?;
    socat.finish(LIMIT)?;
    arrived(bench)?;
    let captured = capture.finish(bench)?;
    captured.is_clean()?;
    let segments = format!("{} == {} && tcp", version.dst, version.second);
    let segments = captured.lines(&segments, &["eth.dst"])?;
    let (first, last) = (segments.first(), segments.last().context("no segment was captured")?);
    ensure!(first != Some(last), "the link address has not changed");
    ensure!(last == moved, "the last segment went to {last}");
    Ok(())
}
