//! Neighbour resolution between a running `wirespeed services` and the kernel, in both directions:
//! ARP (RFC 826), neighbour discovery, and neighbour unreachability detection (RFC 4861 section
//! 7.3), which our stack uses for IPv4 as well.
//!
//! Called by: `ip.rs`.

use super::capture::Capture;
use super::steps::{LIMIT, ours, show, until, with_control};
use crate::interop::Workbench;
use crate::interop::host::{Host, Running};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Addresses and commands of a version of IP.
struct Version {
    /// A kernel's address that stays, one that the case removes, and the network of the latter.
    stays: &'static str,
    goes: &'static str,
    prefix: &'static str,
    ours: &'static str,
    /// Our character generator, for socat.
    chargen: &'static str,
}

const VERSIONS: [Version; 2] = [
    Version {
        stays: "10.9.0.1",
        goes: "10.9.0.5",
        prefix: "24",
        ours: "10.9.0.2",
        chargen: "TCP4:10.9.0.2:19,bind=10.9.0.5",
    },
    Version {
        stays: "fd09::1",
        goes: "fd09::5",
        prefix: "64 nodad",
        ours: "fd09::2",
        chargen: "TCP6:[fd09::2]:19,bind=[fd09::5]",
    },
];

/// How long to wait until a neighbour that went away is noticed. A link address that was learnt
/// from a request is not confirmed, so five seconds later our stack solicits the neighbour, three
/// times with a second between. A busy machine may take longer.
const ASKED: Duration = Duration::from_secs(60);

pub(super) fn come_and_go(bench: &Workbench) -> Result<()> {
    with_control(bench)?;
    let host = Host::new(bench)?;
    let capture = Capture::start(bench, &host, "ws0")?;
    let mut services = ours(bench, &host, "services", &["10.9.0.2/24", "fd09::2/64"])?;
    let _services = host.start("services", services.args(["--offload", "off"]))?;
    let mac = bench.run(host.command("cat").arg("/sys/class/net/ws0/address"), LIMIT)?;
    let mac = mac.trim();
    change(&host, "add")?;
    for Version { stays, goes, ours, .. } in &VERSIONS {
        pinged(bench, &host, stays, ours, mac)?;
        // The kernel asks again, so that ours learns this address as well by a request.
        host.ip(&format!("neigh del {ours} dev ws0"))?;
        pinged(bench, &host, goes, ours, mac)?;
    }
    // Bytes without end, so that the stack has data to send when the neighbour is gone.
    let readers = VERSIONS.iter().map(|version| {
        let mut socat = host.command("socat");
        host.start(version.ours, socat.args(["-u", version.chargen, "OPEN:/dev/null"]))
    });
    let readers: Vec<Running> = readers.collect::<Result<_>>()?;
    until("both read", LIMIT, || {
        let mut sockets = host.command("ss");
        sockets.args(["-Htn", "state", "established", "dport = :19"]);
        Ok(bench.run(&mut sockets, LIMIT)?.lines().count() == readers.len())
    })?;
    change(&host, "del")?;
    for Version { stays, goes, .. } in &VERSIONS {
        until(&format!("{stays} confirms its address"), ASKED, || {
            let row = neighbour(bench, &host, stays)?.context("it is no neighbour")?;
            Ok(row["state"] == "REACHABLE" && row["confirmed_ms"].is_u64())
        })?;
        until(&format!("{goes} is found to be gone"), ASKED, || {
            let row = neighbour(bench, &host, goes)?;
            Ok(row.is_none_or(|row| row["mac"].is_null()))
        })?;
    }
    drop(readers);
    change(&host, "add")?;
    for Version { goes, ours, .. } in &VERSIONS {
        pinged(bench, &host, goes, ours, mac).context("after the neighbour came back")?;
    }
    // One reader lost its address in the middle, so segments to it were retransmitted.
    capture.finish(bench)?.is_sound()
}

/// Add or delete the kernel's addresses that the case removes.
fn change(host: &Host<'_>, what: &str) -> Result<()> {
    for Version { goes, prefix, .. } in &VERSIONS {
        // Only new addresses are checked for duplicates.
        let prefix = if what == "add" { prefix } else { &prefix[..2] };
        host.ip(&format!("addr {what} {goes}/{prefix} dev ws0"))?;
    }
    Ok(())
}

/// The kernel's ping from its address is answered; both then have each other's link address.
fn pinged(bench: &Workbench, host: &Host<'_>, kernel: &str, ours: &str, mac: &str) -> Result<()> {
    host.until(|| {
        let mut ping = host.command("ping");
        ping.args(["-I", kernel, "-c", "2", "-i", "0.2", "-W", "1", ours]);
        Ok(ping)
    })?;
    let row = neighbour(bench, host, kernel)?;
    let row = row.with_context(|| format!("{kernel} is no neighbour"))?;
    ensure!(row["mac"] == mac, "{kernel} is at {mac}, not as in {row}");
    until(&format!("the kernel reaches {ours}"), ASKED, || {
        let mut show = Command::new("ip");
        show.args(["-n", host.name(), "neigh", "show", ours, "dev", "ws0"]);
        Ok(bench.run(&mut show, LIMIT)?.contains("REACHABLE"))
    })
}

/// The entry of our stack's neighbour table for one of the kernel's addresses.
fn neighbour(bench: &Workbench, host: &Host<'_>, kernel: &str) -> Result<Option<Value>> {
    let mut rows = show(bench, host, "neighbours")?;
    let rows = rows.as_array_mut().context("neighbours are no list")?;
    Ok(rows.iter_mut().find(|row| row["address"] == kernel).map(Value::take))
}
