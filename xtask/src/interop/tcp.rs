//! Suite `tcp`: Linux and our stack over `wirespeed wire`, which loses, delays and corrupts
//! packets, and after a second drops long ones silently. The received bytes equal the sent ones.

use super::host::{Host, Running};
use super::outside::{IP, SHA256SUM, SOCAT, TRANSFER, TUN, same, shown, sum_of};
use super::{Case, Need, Workbench};
use anyhow::{Context, Result};
use std::time::Duration;

/// Bytes of the file.
const FILE: usize = 10_000_000;
const LIMIT: Duration = Duration::from_secs(120);

/// 0.5 % lost, 1 % ten milliseconds late, 0.1 % corrupted; after a second no packet over 1,280
/// bytes passes any more, and no ICMP error reports it.
const TROUBLE: [&str; 12] = [
    "--delay",
    "5ms",
    "--rate",
    "200Mbit",
    "--loss",
    "0.5%",
    "--late",
    "1%:10ms",
    "--corrupt",
    "0.1%",
    "--mtu",
    "1500",
];
const SHRINKS: [&str; 4] = ["--mtu", "1280@1s", "--exempt", "100"];

const LINUX: &[Need] = &[Need::Root, TUN, IP, SOCAT, SHA256SUM];

pub(super) const CASES: &[Case] = &[
    Case {
        name: "Linux to Linux over a bad wire whose MTU shrinks, IPv4, both directions",
        needs: LINUX,
        run: |b| linux_to_linux(b, &V4),
    },
    Case {
        name: "Linux to Linux over a bad wire whose MTU shrinks, IPv6, both directions",
        needs: LINUX,
        run: |b| linux_to_linux(b, &V6),
    },
    Case {
        name: "ours to Linux over the same, behind a router, IPv4 and IPv6",
        needs: TRANSFER,
        run: |b| both(b, ours_to_linux),
    },
    Case {
        name: "Linux to ours over the same, behind a router, IPv4 and IPv6",
        needs: TRANSFER,
        run: |b| both(b, linux_to_ours),
    },
];

/// How socat writes the addresses of a version of IP.
struct Version {
    tcp: &'static str,
    /// Addresses of the hosts at both ends of the wire.
    ends: [&'static str; 2],
    /// Addresses of our stack behind the first host, plain and for socat.
    ours: [&'static str; 2],
}

const V4: Version =
    Version { tcp: "TCP4", ends: ["10.8.0.1", "10.8.0.2"], ours: ["10.9.0.2", "10.9.0.2"] };
const V6: Version =
    Version { tcp: "TCP6", ends: ["[fd08::1]", "[fd08::2]"], ours: ["fd09::2", "[fd09::2]"] };

fn both(bench: &Workbench, run: fn(&Workbench, &Version) -> Result<()>) -> Result<()> {
    run(bench, &V4).context("IPv4")?;
    run(bench, &V6).context("IPv6")
}

/// Two hosts and the wire between them; dropping this ends the wire.
struct Joined<'a> {
    hosts: [Host<'a>; 2],
    _wire: Running,
}

/// If our stack is behind a TAP of the first host, that host is a router as well.
fn joined<'a>(bench: &'a Workbench, with_ours: bool) -> Result<Joined<'a>> {
    let first = if with_ours { Host::new(bench)? } else { Host::without_tap(bench)? };
    let hosts = [first, Host::without_tap(bench)?];
    let mut wire = std::process::Command::new(bench.wirespeed()?);
    wire.arg("wire").args(hosts.each_ref().map(|host| format!("tap:w0@{}", host.name())));
    wire.args(TROUBLE).args(SHRINKS).args(["--every", "0s", "--offload", "off"]);
    let wire = hosts[0].start("wire", &mut wire)?;
    for (number, host) in hosts.iter().enumerate() {
        let number = number + 1;
        host.until(|| Ok(ip_of(host, "link show dev w0")))?;
        host.ip(&format!("addr add 10.8.0.{number}/24 dev w0"))?;
        host.ip(&format!("addr add fd08::{number}/64 dev w0 nodad"))?;
        // No ICMP error reports to Linux that the MTU shrank: it has to probe.
        sysctl(bench, host, "ipv4/tcp_mtu_probing")?;
    }
    if with_ours {
        for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            sysctl(bench, &hosts[0], name)?;
        }
        hosts[1].ip("route add 10.9.0.0/24 via 10.8.0.1")?;
        hosts[1].ip("route add fd09::/64 via fd08::1")?;
    }
    Ok(Joined { hosts, _wire: wire })
}

fn ip_of(host: &Host<'_>, words: &str) -> std::process::Command {
    let mut command = std::process::Command::new("ip");
    command.args(["-n", host.name()]).args(words.split(' '));
    command
}

/// Set a sysctl of a host's kernel to 1.
fn sysctl(bench: &Workbench, host: &Host<'_>, name: &str) -> Result<()> {
    let mut command = host.command("sh");
    command.args(["-c", &format!("echo 1 > /proc/sys/net/{name}")]);
    bench.run(&mut command, Duration::from_secs(10)).map(drop)
}

fn linux_to_linux(bench: &Workbench, version: &Version) -> Result<()> {
    let joined = joined(bench, false)?;
    for (from, to) in [(0, 1), (1, 0)] {
        let (sent, received) = (bench.file("sent", FILE)?, bench.path("received"));
        let sink = listen(bench, &joined.hosts[to], version)?;
        let to = format!("{}:{}:5001,retry=50,interval=0.2", version.tcp, version.ends[to]);
        let mut socat = joined.hosts[from].command("socat");
        socat.args(["-u", "-b", "131072", &format!("FILE:{}", shown(&sent)?), &to]);
        bench.run(&mut socat, LIMIT)?;
        sink.finish(LIMIT)?;
        same(&sum_of(bench, &sent)?, &sum_of(bench, &received)?)
            .with_context(|| format!("from host {} on", from + 1))?;
    }
    Ok(())
}

/// A socat that writes what it receives into `received`.
fn listen(bench: &Workbench, host: &Host<'_>, version: &Version) -> Result<Running> {
    let into = format!("CREATE:{}", shown(&bench.path("received"))?);
    let mut socat = host.command("socat");
    socat.args(["-u", "-b", "131072", &format!("{}-LISTEN:5001,reuseaddr", version.tcp), &into]);
    let socat = host.start("socat", &mut socat)?;
    host.until_listening()?;
    Ok(socat)
}

fn ours_to_linux(bench: &Workbench, version: &Version) -> Result<()> {
    let joined = joined(bench, true)?;
    let (sent, received) = (bench.file("sent", FILE)?, bench.path("received"));
    let sink = listen(bench, &joined.hosts[1], version)?;
    let to = version.ends[1].trim_matches(['[', ']']);
    let mut ours = joined.hosts[0].ours("ttcp")?;
    ours.args(["--via", "10.9.0.1", "--via", "fd09::1", "-t", to, "--file"]).arg(&sent);
    bench.run(&mut ours, LIMIT)?;
    sink.finish(LIMIT)?;
    same(&sum_of(bench, &sent)?, &sum_of(bench, &received)?)
}

fn linux_to_ours(bench: &Workbench, version: &Version) -> Result<()> {
    let joined = joined(bench, true)?;
    let (sent, received) = (bench.file("sent", FILE)?, bench.path("received"));
    let mut ours = joined.hosts[0].ours("ttcp")?;
    ours.args(["--via", "10.9.0.1", "--via", "fd09::1", "-r", "--file"]).arg(&received);
    let ours = joined.hosts[0].start("ttcp", &mut ours)?;
    let to = format!("{}:{}:5001,retry=50,interval=0.2", version.tcp, version.ours[1]);
    let mut socat = joined.hosts[1].command("socat");
    socat.args(["-u", "-b", "131072", &format!("FILE:{}", shown(&sent)?), &to]);
    bench.run(&mut socat, LIMIT)?;
    ours.finish(LIMIT)?;
    same(&sum_of(bench, &sent)?, &sum_of(bench, &received)?)
}
