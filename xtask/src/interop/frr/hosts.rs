//! Services for hosts beside the router: dnsmasq and radvd run on the mirror of a port, and a host
//! at that port gets an address, names, a prefix and a router of them.
//!
//! Called by: `mod.rs`. RFC 2131 section 4.1 (an answer to a client without an address), RFC 4861.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::Workbench;
use super::super::host::{Host, Running};
use super::super::ip::{sysctl, until};
use super::super::outside::shown;
use super::super::router::scene::{LAN, LIMIT, Scene, WAN, tail};

/// What a client of DHCP does with its lease.
const SCRIPT: &str = "#!/bin/sh\n[ \"$1\" = bound ] || exit 0\n\
                      ip addr add $ip/$mask dev $interface\necho leased $ip dns $dns\n";
/// Of the port's network; the client may have any of them.
const RANGE: &str = "--dhcp-range=198.51.100.50,198.51.100.59,255.255.255.0,2m";

pub(super) fn served(bench: &Workbench) -> Result<()> {
    let space = Host::without_tap(bench)?;
    let control = format!("[control]\nmirrors = \"all\"\nnamespace = \"{}\"\n", space.name());
    let scene = Scene::plain(bench, &format!("{control}{WAN}{LAN}"))?;
    let has_mirror = || {
        let mut ip = Command::new("ip");
        let said = bench.run(ip.args(["-n", space.name(), "addr", "show", "dev", "lan"]), LIMIT);
        Ok(said.is_ok_and(|said| said.contains("LOWER_UP") && said.contains("inet6 fe80:")))
    };
    until("the mirror of lan is there", LIMIT, has_mirror)
        .with_context(|| tail(&scene.log()).to_owned())?;
    let _dnsmasq = dnsmasq(&space)?;
    // The host has nothing but its link.
    for version in ["-4", "-6"] {
        scene.right.ip(&format!("{version} addr flush dev ws1 scope global"))?;
    }
    for (is_broadcast, client) in [(false, "unicast"), (true, "broadcast")] {
        leased(bench, &scene, client, is_broadcast).with_context(|| told(&scene))?;
    }
    let mut dig = scene.right.command("dig");
    let name = dig.args(["+short", "+tries=5", "+time=2", "@198.51.100.1", "server.test"]);
    let name = bench.run(name, LIMIT).with_context(|| told(&scene))?;
    ensure!(name.trim() == "192.0.2.77", "the name is {name}");
    let _radvd = radvd(bench, &space)?;
    advertised(bench, &scene).with_context(|| told(&scene))?;
    scene.end()
}

fn told(scene: &Scene<'_>) -> String {
    let shown = |part: &str| scene.show(part).map(|all| all.to_string()).unwrap_or_default();
    format!("the router: {}\n{}\n{}", tail(&scene.log()), shown("drops"), shown("neighbours"))
}

fn dnsmasq(space: &Host<'_>) -> Result<Running> {
    let mut dnsmasq = space.command("dnsmasq");
    dnsmasq.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]);
    dnsmasq.args(["--pid-file=", "--user=root", "--interface=lan", "--bind-interfaces"]);
    dnsmasq.args(["--leasefile-ro", "--dhcp-authoritative", "--no-ping", RANGE]);
    dnsmasq.args(["--local=/test/", "--host-record=server.test,192.0.2.77"]);
    let dnsmasq = space.start("dnsmasq", &mut dnsmasq)?;
    space.until(|| {
        let mut command = space.command("sh");
        command.args(["-c", "ss -Hlun sport = :67 | grep -q UNCONN"]);
        Ok(command)
    })?;
    Ok(dnsmasq)
}

/// A client gets a lease, by an answer to its own link address or by a broadcast.
fn leased(bench: &Workbench, scene: &Scene<'_>, client: &str, is_broadcast: bool) -> Result<()> {
    let script = bench.path("lease.sh");
    std::fs::write(&script, SCRIPT)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    let mut udhcpc = scene.right.command("udhcpc");
    // The name makes it another client.
    udhcpc.args(["-f", "-q", "-n", "-t", "10", "-T", "1", "-i", "ws1", "-x"]);
    udhcpc.args([&format!("hostname:{client}"), "-s", shown(&script)?]);
    if is_broadcast {
        udhcpc.arg("-B");
    }
    let said = bench.run(&mut udhcpc, LIMIT).with_context(|| format!("by {client}"))?;
    ensure!(said.contains("leased 198.51.100.5"), "by {client}: {said}");
    ensure!(said.contains("dns 198.51.100.1"), "by {client}: {said}");
    // It reaches its router, and hosts beyond.
    let mut ping = scene.right.command("ping");
    bench.run(ping.args(["-c", "1", "-W", "5", "198.51.100.1"]), LIMIT)?;
    scene.right.ip("-4 addr flush dev ws1 scope global").and_then(|()| {
        let address = said.split(' ').nth(1).context("no address")?;
        scene.right.ip(&format!("addr add {address}/24 dev ws1"))
    })
}

fn radvd(bench: &Workbench, space: &Host<'_>) -> Result<Running> {
    let config = "interface lan { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; \
                  prefix 2001:db8:2::/64 { }; };";
    std::fs::write(bench.path("radvd.conf"), config)?;
    let mut radvd = space.command("radvd");
    radvd.args(["--nodaemon", "--logmethod", "stderr", "--config"]).arg(bench.path("radvd.conf"));
    space.start("radvd", radvd.arg("--pidfile").arg(bench.path("radvd.pid")))
}

/// The host makes an address of the prefix, and uses the router.
fn advertised(bench: &Workbench, scene: &Scene<'_>) -> Result<()> {
    for (key, value) in [("accept_ra", "1"), ("autoconf", "1")] {
        sysctl(bench, &scene.right, &format!("ipv6/conf/ws1/{key}"), value)?;
    }
    let show = |words: &[&str]| {
        let mut ip = Command::new("ip");
        bench.run(ip.args(["-n", scene.right.name(), "-6"]).args(words), LIMIT)
    };
    let has_address = || Ok(show(&["addr", "show", "dev", "ws1"])?.contains("inet6 2001:db8:2:"));
    until("the host has an address of the prefix", LIMIT, has_address)?;
    let routes = show(&["route"])?;
    ensure!(routes.contains("default via fe80:") && routes.contains("proto ra"), "{routes}");
    let answers = || {
        let mut ping = scene.right.command("ping");
        Ok(bench.run(ping.args(["-c", "1", "-W", "1", "2001:db8:1::1"]), LIMIT).is_ok())
    };
    until("the host reaches another one by that router", LIMIT, answers)
}
