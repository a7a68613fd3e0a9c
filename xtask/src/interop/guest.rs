//! Case of the suite `devices`: port `vm:SOCKET`, which exchanges Ethernet frames over a Unix
//! socket in QEMU's framing (a length before each frame), with passt, an implementation that is not
//! ours.
//!
//! Called by: `devices.rs`. passt gives a virtual machine, its *guest*, a network: it takes the
//! guest's frames from the socket, and carries each TCP connection of the guest on through a socket
//! of the host's kernel. No virtual machine runs here. The guest is our stack when it sends the
//! file, and the kernel of another namespace when it receives the file.

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
    // passt gives its guest the address of the interface that has the default route.
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

/// Start passt, which listens on a Unix socket; returns it, and that socket as `--dev` names it.
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

/// Our stack is the guest and sends the file. passt takes the guest's gateway, 10.9.0.1, for the
/// host's loopback, where socat listens. Returns the digest of the received file.
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

/// socat on the host sends the file to passt, which accepts at the host's port 5001 and connects to
/// the guest's. Returns the digest of the received file.
///
/// passt learns of a guest only by a frame from it, so the guest has to send first, and then
/// listen. A kernel does that: the guest is another namespace, which pings the gateway. `wirespeed
/// wire` carries frames between its interface (`vd`, by way of `vc`) and passt's socket.
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
