//! Case of the suite `devices`: our stack as a virtual machine's network card, with passt, the
//! program that QEMU machines connect to. passt speaks QEMU's framing on a socket and passes
//! connections to the kernel, so a file goes through an implementation of the framing that is not
//! ours.

use super::devices::{SMALL_FILE, ttcp};
use super::host::{Host, Running};
use super::outside::{IP, SHA256SUM, SOCAT, same, shown, sum_of};
use super::{Case, Need, Workbench};
use anyhow::Result;
use std::process::Command;
use std::time::Duration;

const PASST: Need = Need::Program { program: "passt", package: "passt" };
const PING: Need = Need::Program { program: "ping", package: "iputils-ping" };
const LIMIT: Duration = Duration::from_secs(60);

pub(super) const CASE: Case = Case {
    name: "QEMU's framing: a file of 30 MB each way, through passt",
    needs: &[Need::Root, IP, SOCAT, SHA256SUM, PASST, PING],
    run: both_ways,
};

fn both_ways(bench: &Workbench) -> Result<()> {
    let sent = bench.file("sent", SMALL_FILE)?;
    let sum = sum_of(bench, &sent)?;
    let host = Host::without_tap(bench)?;
    // passt takes its guest's address from an interface with a default route.
    for line in [
        "link add va type veth peer name vb",
        "addr add 10.9.0.2/24 dev va",
        "link set va up",
        "link set vb up",
        "route add default via 10.9.0.1",
    ] {
        host.ip(line)?;
    }
    same(&sum, &to_kernel(bench, &host, shown(&sent)?)?)?;
    same(&sum, &from_kernel(bench, &host, shown(&sent)?)?)
}

/// Start passt, which listens on a socket; returns it and the socket's path as a device.
fn passt(bench: &Workbench, host: &Host<'_>, args: &[&str]) -> Result<(Running, String)> {
    let socket = bench.path("vm.sock");
    let _ = std::fs::remove_file(&socket);
    let mut passt = host.command("passt");
    passt.args(["-f", "--runas", "0", "--socket", shown(&socket)?]).args(args);
    let passt = host.start("passt", &mut passt)?;
    host.until(|| {
        let mut is_socket = Command::new("test");
        is_socket.arg("-S").arg(&socket);
        Ok(is_socket)
    })?;
    Ok((passt, format!("vm:{}", shown(&socket)?)))
}

/// The guest's gateway is the host's loopback; returns the digest of the received file.
fn to_kernel(bench: &Workbench, host: &Host<'_>, sent: &str) -> Result<String> {
    let received = bench.path("received");
    let to = format!("CREATE:{}", shown(&received)?);
    let mut socat = host.command("socat");
    let socat = host.start("socat", socat.args(["-u", "TCP4-LISTEN:5001", &to]))?;
    host.until_listening()?;
    let (_passt, device) = passt(bench, host, &[])?;
    let mut sender = ttcp(bench, host, &device, "10.9.0.2/24")?;
    bench.run(sender.args(["-t", "10.9.0.1", "--file", sent]), LIMIT)?;
    socat.finish(LIMIT)?;
    sum_of(bench, &received)
}

/// passt accepts on the host's port 5001 and connects to the guest's; returns the digest of the
/// received file. passt knows no guest before the guest has sent something. So the guest is a
/// kernel, which sends a ping first, and `wirespeed wire` connects its card.
fn from_kernel(bench: &Workbench, host: &Host<'_>, sent: &str) -> Result<String> {
    let guest = Host::without_tap(bench)?;
    host.ip(&format!("link add vc type veth peer name vd netns {}", guest.name()))?;
    host.ip("link set vc up")?;
    guest.ip("link set vd up")?;
    guest.ip("addr add 10.9.0.2/24 dev vd")?;
    let received = bench.path("received-by-guest");
    let to = format!("CREATE:{}", shown(&received)?);
    let mut socat = guest.command("socat");
    let socat = guest.start("socat", socat.args(["-u", "TCP4-LISTEN:5001", &to]))?;
    guest.until_listening()?;
    let (_passt, device) = passt(bench, host, &["-t", "5001"])?;
    let mut wire = host.command(shown(&bench.wirespeed()?)?);
    let _wire = host.start("wire", wire.args(["wire", "packet:vc", &device]))?;
    guest.until(|| {
        let mut ask = guest.command("sh");
        ask.args(["-c", "ping -c 1 -W 1 10.9.0.1; ip neigh show 10.9.0.1 | grep -q lladdr"]);
        Ok(ask)
    })?;
    let mut from = host.command("socat");
    from.args(["-u", &format!("FILE:{sent}"), "TCP4:127.0.0.1:5001"]);
    bench.run(&mut from, LIMIT)?;
    socat.finish(LIMIT)?;
    sum_of(bench, &received)
}
