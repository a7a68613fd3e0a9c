//! Suite `devices`: a real file over each kind of port but the TAP, which has a suite of its own.
//!
//! Two hosts, a veth pair between them: `va` is ours, `vb` the kernel's or another stack's.

use super::host::Host;
use super::outside::{IP, SHA256SUM, SOCAT, same, shown, sum_of};
use super::{Case, Need, Workbench};
use anyhow::Result;
use std::process::Command;
use std::time::Duration;

/// Bytes of the file.
const FILE: usize = 100_000_000;
/// Bytes of the file where nothing cuts or sums for us.
const SMALL_FILE: usize = 30_000_000;

/// Long enough on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const TRANSFER: &[Need] = &[Need::Root, IP, SOCAT, SHA256SUM];
const OURS_ALONE: &[Need] = &[Need::Root, IP, SHA256SUM];

pub(super) const CASES: &[Case] = &[
    Case {
        name: "AF_PACKET: a file of 100 MB from the kernel's TCP to us",
        needs: TRANSFER,
        run: |b| from_kernel(b, "packet:va", FILE),
    },
    Case {
        name: "AF_PACKET: a file of 100 MB from us to the kernel's TCP",
        needs: TRANSFER,
        run: |b| to_kernel(b, "packet:va", FILE),
    },
    Case { name: "two stacks on a trunk: VLAN 5, and 5 inside 7", needs: OURS_ALONE, run: trunk },
];

/// The two hosts, joined. `va` has no address of the kernel's.
fn hosts(bench: &Workbench) -> Result<(Host<'_>, Host<'_>)> {
    let (ours, theirs) = (Host::without_tap(bench)?, Host::without_tap(bench)?);
    ours.ip(&format!("link add va type veth peer name vb netns {}", theirs.name()))?;
    ours.ip("link set va up")?;
    theirs.ip("link set vb up")?;
    Ok((ours, theirs))
}

/// `wirespeed ttcp` on a device, with an address.
fn ttcp(bench: &Workbench, host: &Host<'_>, dev: &str, addr: &str) -> Result<Command> {
    let mut command = host.command(shown(&bench.wirespeed()?)?);
    command.args(["ttcp", "--dev", dev, "--addr", addr]);
    Ok(command)
}

fn from_kernel(bench: &Workbench, dev: &str, bytes: usize) -> Result<()> {
    let (sent, received) = (bench.file("sent", bytes)?, bench.path("received"));
    let (ours, theirs) = hosts(bench)?;
    theirs.ip("addr add 10.9.0.1/24 dev vb")?;
    let mut receiver = ttcp(bench, &ours, dev, "10.9.0.2/24")?;
    let receiver = ours.start("ttcp", receiver.args(["-r", "--file"]).arg(&received))?;
    let mut socat = theirs.command("socat");
    let from = format!("FILE:{}", shown(&sent)?);
    socat.args(["-u", "-b", "131072", &from, "TCP4:10.9.0.2:5001,retry=50,interval=0.2"]);
    bench.run(&mut socat, LIMIT)?;
    receiver.finish(LIMIT)?;
    same(&sum_of(bench, &sent)?, &sum_of(bench, &received)?)
}

fn to_kernel(bench: &Workbench, dev: &str, bytes: usize) -> Result<()> {
    let (sent, received) = (bench.file("sent", bytes)?, bench.path("received"));
    let (ours, theirs) = hosts(bench)?;
    theirs.ip("addr add 10.9.0.1/24 dev vb")?;
    let mut socat = theirs.command("socat");
    let to = format!("CREATE:{}", shown(&received)?);
    let socat =
        theirs.start("socat", socat.args(["-u", "-b", "131072", "TCP4-LISTEN:5001", &to]))?;
    theirs.until_listening()?;
    let mut sender = ttcp(bench, &ours, dev, "10.9.0.2/24")?;
    bench.run(sender.args(["-t", "10.9.0.1", "--file"]).arg(&sent), LIMIT)?;
    socat.finish(LIMIT)?;
    same(&sum_of(bench, &sent)?, &sum_of(bench, &received)?)
}

/// One tag with offloads, two without: both ways of making a frame.
fn trunk(bench: &Workbench) -> Result<()> {
    let sent = bench.file("sent", SMALL_FILE)?;
    let sum = sum_of(bench, &sent)?;
    let (one, two) = hosts(bench)?;
    for (vlan, offload) in [("5", "on"), ("7.5", "off")] {
        let received = bench.path("received");
        let mut receiver = ttcp(bench, &two, "packet:vb", "10.9.0.1/24")?;
        receiver.args(["--vlan", vlan, "--offload", offload, "-r", "--file"]).arg(&received);
        let receiver = two.start("ttcp", &mut receiver)?;
        let mut sender = ttcp(bench, &one, "packet:va", "10.9.0.2/24")?;
        sender.args(["--vlan", vlan, "--offload", offload, "-t", "10.9.0.1", "--file"]).arg(&sent);
        bench.run(&mut sender, LIMIT)?;
        receiver.finish(LIMIT)?;
        same(&sum, &sum_of(bench, &received)?)?;
        std::fs::remove_file(&received)?;
    }
    Ok(())
}
