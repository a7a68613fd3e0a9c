//! The neighbours of a running `services`, and us as a neighbour of the kernel's: ARP (RFC 826) and
//! neighbour unreachability detection (RFC 4861 section 7.3), which we use for IPv4 as well.

use super::{LIMIT, ours, show, until, with_control};
use crate::interop::Workbench;
use crate::interop::host::{Host, Running};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// The kernel's addresses with their networks, ours, and ours as socat connects to its chargen.
const ENDS: [[&str; 3]; 2] = [
    ["10.9.0.1/24", "10.9.0.2", "TCP4:10.9.0.2:19"],
    ["fd09::1/64", "fd09::2", "TCP6:[fd09::2]:19"],
];

/// A neighbour that does not confirm its address is asked three times, a second apart, after as
/// much as 45 s as reachable and 5 s of delay; an acknowledgement confirms it again.
const NOTICED: Duration = Duration::from_secs(60);

pub(super) fn come_and_go(bench: &Workbench) -> Result<()> {
    with_control(bench)?;
    let host = Host::new(bench)?;
    let mut services = ours(bench, &host, "services", &["10.9.0.2/24", "fd09::2/64"])?;
    let _services = host.start("services", &mut services)?;
    let mac = bench.run(host.command("cat").arg("/sys/class/net/ws0/address"), LIMIT)?;
    both_know(bench, &host, mac.trim())?;
    // Bytes without end, so that the stack has something to send when nobody is there.
    let readers = ENDS.iter().zip(["chargen4", "chargen6"]).map(|(ends, name)| {
        let mut socat = host.command("socat");
        host.start(name, socat.args(["-u", ends[2], "OPEN:/dev/null"]))
    });
    let readers: Vec<Running> = readers.collect::<Result<_>>()?;
    for [kernel, ours, _] in ENDS {
        until(&format!("{kernel} is confirmed by what it acknowledges"), LIMIT, || {
            let row = neighbour(bench, &host, kernel)?.context("it is no neighbour")?;
            Ok(row["state"] == "reachable" && reachable(bench, &host, ours)?)
        })?;
    }
    for [kernel, ..] in ENDS {
        host.ip(&format!("addr del {kernel} dev ws0"))?;
    }
    for [kernel, ..] in ENDS {
        until(&format!("{kernel} is noticed to be gone"), NOTICED, || {
            let row = neighbour(bench, &host, kernel)?;
            Ok(row.is_none_or(|row| row["mac"].is_null()))
        })?;
    }
    drop(readers);
    for ([kernel, ..], nodad) in ENDS.iter().zip(["", " nodad"]) {
        host.ip(&format!("addr add {kernel} dev ws0{nodad}"))?;
    }
    both_know(bench, &host, mac.trim()).context("after the neighbour came back")
}

/// The kernel's ping is answered, and then both have each other's link address.
fn both_know(bench: &Workbench, host: &Host<'_>, mac: &str) -> Result<()> {
    for [kernel, ours, _] in ENDS {
        host.until(|| {
            let mut ping = host.command("ping");
            ping.args(["-c", "2", "-i", "0.2", "-W", "1", ours]);
            Ok(ping)
        })?;
        let row = neighbour(bench, host, kernel)?;
        let row = row.with_context(|| format!("{kernel} is no neighbour"))?;
        ensure!(row["mac"] == mac, "{kernel} is at {mac}, not as in {row}");
        ensure!(reachable(bench, host, ours)?, "the kernel does not reach {ours}");
    }
    Ok(())
}

/// Our entry for an address of the kernel's.
fn neighbour(bench: &Workbench, host: &Host<'_>, kernel: &str) -> Result<Option<Value>> {
    let kernel = kernel.split('/').next().context("a network")?;
    let mut rows = show(bench, host, "neighbours")?;
    let rows = rows.as_array_mut().context("neighbours are no list")?;
    Ok(rows.iter_mut().find(|row| row["address"] == kernel).map(Value::take))
}

/// Has the kernel confirmed that it reaches us?
fn reachable(bench: &Workbench, host: &Host<'_>, ours: &str) -> Result<bool> {
    let mut show = Command::new("ip");
    show.args(["-n", host.name(), "neigh", "show", ours, "dev", "ws0", "nud", "reachable"]);
    Ok(bench.run(&mut show, LIMIT)?.contains("REACHABLE"))
}
