//! Suite `ip`: IPv4 and IPv6 as a host among others: routers that advertise and redirect,
//! neighbours that come and go, fragments, paths and neighbours with MTUs of their own. The kernel
//! and its programs are at the other end of a TAP.

pub(super) mod capture;
mod dhcp;
mod fragments;
mod groups;
mod links;
mod names;
mod neighbours;
mod slaac;

use super::host::{Host, Running};
use super::outside::{IP, SHA256SUM, SOCAT, TUN, same, shown, sum_of};
use super::{Case, Need, Workbench};
use crate::process;
use anyhow::{Context, Result, ensure};
use capture::Capture;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

const BRIDGE: Need = Need::Program { program: "bridge", package: "iproute2" };
const DNSMASQ: Need = Need::Program { program: "dnsmasq", package: "dnsmasq-base" };
pub(super) const PING: Need = Need::Program { program: "ping", package: "iputils-ping" };
const RADVD: Need = Need::Program { program: "radvd", package: "radvd" };
pub(super) const TCPDUMP: Need = Need::Program { program: "tcpdump", package: "tcpdump" };
pub(super) const TSHARK: Need = Need::Program { program: "tshark", package: "tshark" };

/// For any one program.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) const CASES: &[Case] = &[
    Case {
        name: "neighbours are asked, found and confirmed; one that goes away is noticed",
        needs: &[Need::Root, TUN, IP, SOCAT, TCPDUMP, TSHARK, PING],
        run: neighbours::come_and_go,
    },
    Case {
        name: "datagrams of 64 KB in fragments, both ways, IPv4 and IPv6",
        needs: CAPTURED,
        run: fragments::echoed,
    },
    Case {
        name: "a redirect of the kernel's is followed, IPv6",
        needs: CAPTURED,
        run: |b| links::redirected(b, &links::V6),
    },
    Case {
        name: "a redirect of the kernel's is followed, IPv4",
        needs: CAPTURED,
        run: |b| links::redirected(b, &links::V4),
    },
    Case {
        name: "a neighbour's link address changes in mid-transfer, IPv4 and IPv6",
        needs: CAPTURED,
        run: links::neighbour_moves,
    },
    Case {
        name: "a lease of dnsmasq: address, router, names; renewed and given back",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK, DNSMASQ],
        run: dhcp::leased,
    },
    Case {
        name: "names of dnsmasq: A, AAAA, aliases, an answer that takes TCP",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK, DNSMASQ],
        run: names::looked_up,
    },
    Case {
        name: "groups: the kernel's bridge has our reports in its table, IGMPv3 and MLDv2",
        needs: &[Need::Root, TUN, IP, BRIDGE, SOCAT, SHA256SUM, TCPDUMP, TSHARK],
        run: groups::joined,
    },
    Case {
        name: "an address of the kernel's is found to be taken, IPv4 and IPv6",
        needs: &[Need::Root, TUN, IP, TCPDUMP, TSHARK],
        run: groups::taken,
    },
];

/// Those that move much, with every frame captured.
pub(super) const TRANSFERS: &[Case] = &[
    Case {
        name: "100 MB each way over IPv6, by SLAAC and a link-local gateway",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK, RADVD],
        run: slaac::transfer,
    },
    Case {
        name: "the path's MTU shrinks in mid-transfer, IPv4 and IPv6",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK, PING],
        run: links::path_shrinks,
    },
    Case {
        name: "neighbours at 1500 and 65521 on one wire each get their best size",
        needs: CAPTURED,
        run: links::neighbours_differ,
    },
];

const CAPTURED: &[Need] = &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK];

/// `wirespeed COMMAND` in a host's namespace, over its TAP, with these addresses.
pub(super) fn ours(
    bench: &Workbench,
    host: &Host<'_>,
    command: &str,
    addresses: &[&str],
) -> Result<Command> {
    let mut ours = host.command(shown(&bench.wirespeed()?)?);
    ours.args([command, "--dev", "tap:ws0"]);
    ours.args(addresses.iter().flat_map(|addr| ["--addr", addr]));
    Ok(ours)
}

/// What `wirespeed show SECTION --json` prints of the first stack of the program that runs.
fn show(bench: &Workbench, host: &Host<'_>, section: &str) -> Result<Value> {
    let program = bench.wirespeed()?;
    let text = host.until(|| {
        let mut show = host.command(shown(&program)?);
        show.args(["show", section, "--json"]);
        Ok(show)
    })?;
    let mut document: Value = serde_json::from_str(&text).context("show printed no JSON")?;
    let found = document.pointer_mut(&format!("/stacks/0/{section}")).map(Value::take);
    found.with_context(|| format!("show has no {section}: {text}"))
}

/// The folder in which `show` finds the control socket.
pub(super) fn with_control(bench: &Workbench) -> Result<()> {
    std::fs::create_dir_all(bench.path("run")).context("cannot make a folder")
}

/// Repeat `is_so` until it is, for as long as `limit`; `what` is what was waited for.
pub(super) fn until(
    what: &str,
    limit: Duration,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !is_so()? {
        ensure!(!process::interrupted(), "interrupted");
        ensure!(Instant::now() < deadline, "not within {} s: {what}", limit.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Set a sysctl of a host's kernel, below /proc/sys/net.
pub(super) fn sysctl(bench: &Workbench, host: &Host<'_>, name: &str, value: &str) -> Result<()> {
    let mut command = host.command("sh");
    command.args(["-c", &format!("echo {value} > /proc/sys/net/{name}")]);
    bench.run(&mut command, LIMIT).map(drop)
}

/// A socat that writes what comes to port 5001 into `received`; `tcp` is TCP4 or TCP6.
fn sink(bench: &Workbench, host: &Host<'_>, tcp: &str) -> Result<Running> {
    let to = format!("CREATE:{}", shown(&bench.path("received"))?);
    let mut socat = host.command("socat");
    socat.args(["-u", "-b", "131072", &format!("{tcp}-LISTEN:5001,reuseaddr"), &to]);
    let socat = host.start("socat", &mut socat)?;
    host.until_listening()?;
    Ok(socat)
}

/// The files `sent` and `received` are the same.
fn arrived(bench: &Workbench) -> Result<()> {
    same(&sum_of(bench, &bench.path("sent"))?, &sum_of(bench, &bench.path("received"))?)
}

/// A counter of the document that `ttcp --json` printed.
fn counter(report: &str, name: &str) -> Result<u64> {
    let report: Value = serde_json::from_str(report).context("ttcp --json printed no JSON")?;
    let count = report["counters"][name].as_u64();
    count.with_context(|| format!("ttcp counts no {name}: {}", report["counters"]))
}
