//! The example `multicast` on a TAP in a bridge that snoops: our reports are in the bridge's table,
//! a datagram to the group arrives, and an address of the kernel's is not taken. RFC 3376,
//! RFC 3810, RFC 5227, RFC 4862 section 5.4.

use super::capture::Capture;
use super::links::{beside, bridged};
use super::steps::{LIMIT, arrived, until};
use crate::interop::Workbench;
use crate::interop::host::Host;
use crate::interop::outside::shown;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Bytes of a datagram, which fits 1,500 with all headers.
const DATAGRAM: usize = 1_400;

/// Addresses and commands of a version of IP.
struct Version {
    ours: &'static str,
    /// The kernel's address in the bridge, which our stack tries to take for itself.
    taken: &'static str,
    group: &'static str,
    /// The arguments of the example and of socat.
    at: &'static str,
    socat: &'static str,
    /// tshark's display filters: for a report of ours, and for our check whether an address is
    /// taken.
    report: &'static str,
    question: &'static str,
}

const VERSIONS: [Version; 2] = [
    Version {
        ours: "10.9.0.2/24",
        taken: "10.9.0.1/24",
        group: "239.1.2.3",
        at: "239.1.2.3:5300",
        socat: "UDP4-DATAGRAM:239.1.2.3:5300,ip-multicast-if=10.9.0.3",
        report: "igmp.type == 0x22 && ip.src == 10.9.0.2",
        question: "arp.src.proto_ipv4 == 0.0.0.0 && arp.dst.proto_ipv4 == 10.9.0.1",
    },
    Version {
        ours: "fd09::2/64",
        taken: "fd09::1/64",
        group: "ff15::1234",
        at: "[ff15::1234]:5300",
        socat: "UDP6-DATAGRAM:[ff15::1234]:5300",
        report: "icmpv6.type == 143 && icmpv6.mldr.mar.multicast_address == ff15::1234",
        question: "icmpv6.type == 135 && ipv6.src == :: && icmpv6.nd.ns.target_address == fd09::1",
    },
];

fn multicast(program: &Path, host: &Host<'_>, addr: &str, group: &str) -> Result<Command> {
    let mut ours = host.command(shown(program)?);
    ours.args(["ws0", addr, group]);
    Ok(ours)
}

pub(super) fn joined(bench: &Workbench) -> Result<()> {
    bench.file("sent", DATAGRAM)?;
    let program = bench.built("examples/multicast")?;
    let bridge = bridged(bench)?;
    bridge.ip("link set br0 type bridge mcast_snooping 1 mcast_querier 1 mcast_igmp_version 3 \
         mcast_mld_version 2")?;
    let sender = beside(bench, &bridge, 3, 1500)?;
    for version in &VERSIONS {
        let capture = Capture::start(bench, &bridge, "ws0")?;
        let mut ours = multicast(&program, &bridge, version.ours, version.at)?;
        let ours = bridge.start("received", &mut ours)?;
        until("the bridge knows our group", LIMIT, || is_in_table(bench, &bridge, version))?;
        let script = format!("socat -u -b 70000 - '{}' < sent", version.socat);
        let mut socat = sender.command("sh");
        bench.run(socat.args(["-c", &script]).current_dir(bench.path("")), LIMIT)?;
        ours.finish(LIMIT)?;
        std::fs::rename(bench.path("received.out"), bench.path("received"))?;
        arrived(bench).with_context(|| format!("to {}", version.group))?;
        let captured = capture.finish(bench)?;
        captured.has(version.report)?;
        captured.is_clean()?;
    }
    Ok(())
}

/// Does the bridge's table have our port as a member of the group?
fn is_in_table(bench: &Workbench, bridge: &Host<'_>, version: &Version) -> Result<bool> {
    let mut table = bridge.command("bridge");
    let table = bench.run(table.args(["mdb", "show", "dev", "br0"]), LIMIT)?;
    Ok(table.lines().any(|line| line.contains("port ws0") && line.contains(version.group)))
}

pub(super) fn taken(bench: &Workbench) -> Result<()> {
    let program = bench.built("examples/multicast")?;
    let host = Host::new(bench)?;
    for version in &VERSIONS {
        let capture = Capture::start(bench, &host, "ws0")?;
        let mut ours = multicast(&program, &host, version.taken, version.at)?;
        let refused = bench.run(&mut ours, LIMIT).err().context("an address was taken twice")?;
        let refused = refused.to_string();
        ensure!(refused.contains("is another host's"), "{refused}");
        let captured = capture.finish(bench)?;
        captured.has(version.question)?;
        captured.is_clean()?;
    }
    Ok(())
}
