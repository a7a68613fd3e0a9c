//! Suite `devices`: a real file over each kind of port except the TAP, which has a suite of its
//! own.
//!
//! Two hosts with a veth pair between them: `va` is ours, `vb` the kernel's or another stack's.

use super::host::Host;
use super::outside::{IP, SHA256SUM, SOCAT, same, shown, sum_of};
use super::{Case, Need, Workbench};
use anyhow::{Result, ensure};
use std::process::Command;
use std::time::{Duration, Instant};

/// Bytes of the file.
const FILE: usize = 100_000_000;
/// Bytes of the file where no device offloads segmentation and checksums.
pub(super) const SMALL_FILE: usize = 30_000_000;

/// Long enough on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const ETHTOOL: Need = Need::Program { program: "ethtool", package: "ethtool" };
const XDP: &[Need] = &[Need::Root, IP, SOCAT, SHA256SUM, ETHTOOL];
/// How long the interface is missing.
const ABSENCE: Duration = Duration::from_millis(400);

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
    Case {
        name: "AF_PACKET: our interface goes down, and is deleted, in the middle of a file",
        needs: TRANSFER,
        run: flap,
    },
    Case {
        name: "AF_XDP: a file of 30 MB from the kernel's TCP to us",
        needs: XDP,
        run: |b| from_kernel(b, "xdp:va", SMALL_FILE),
    },
    Case {
        name: "AF_XDP: a file of 30 MB from us to the kernel's TCP",
        needs: XDP,
        run: |b| to_kernel(b, "xdp:va", SMALL_FILE),
    },
    Case { name: "two stacks on a trunk: VLAN 5, and 5 inside 7", needs: OURS_ALONE, run: trunk },
    super::guest::CASE,
    super::dump::OF_A_PROCESS,
    super::dump::OF_A_TRUNK,
];

/// The two hosts, joined. The kernel has no address on `va`.
pub(super) fn hosts(bench: &Workbench) -> Result<(Host<'_>, Host<'_>)> {
    let (ours, theirs) = (Host::without_tap(bench)?, Host::without_tap(bench)?);
    join(&ours, &theirs)?;
    Ok((ours, theirs))
}

/// Both ends always have the same hardware addresses.
pub(super) fn join(ours: &Host<'_>, theirs: &Host<'_>) -> Result<()> {
    let (va, vb) = ("va address 02:00:00:00:00:0a", "vb address 02:00:00:00:00:0b");
    ours.ip(&format!("link add {va} type veth peer name {vb} netns {}", theirs.name()))?;
    ours.ip("link set va up")?;
    theirs.ip("link set vb up")
}

/// Give the kernel's end its address. XDP sees frames before their checksums are finished, so the
/// kernel has to finish them itself.
pub(super) fn kernel(bench: &Workbench, theirs: &Host<'_>, dev: &str) -> Result<()> {
    theirs.ip("addr add 10.9.0.1/24 dev vb")?;
    if dev.starts_with("xdp:") {
        bench.run(theirs.command("ethtool").args(["-K", "vb", "tx", "off"]), LIMIT)?;
    }
    Ok(())
}

/// `wirespeed ttcp` on a device, with an address.
pub(super) fn ttcp(bench: &Workbench, host: &Host<'_>, dev: &str, addr: &str) -> Result<Command> {
    let mut command = host.command(shown(&bench.wirespeed()?)?);
    command.args(["ttcp", "--dev", dev, "--addr", addr]);
    Ok(command)
}

fn from_kernel(bench: &Workbench, dev: &str, bytes: usize) -> Result<()> {
    let (sent, received) = (bench.file("sent", bytes)?, bench.path("received"));
    let (ours, theirs) = hosts(bench)?;
    kernel(bench, &theirs, dev)?;
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
    kernel(bench, &theirs, dev)?;
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

/// The file is sent in three parts, the second and third while the interface is missing: the
/// transfer continues when the interface exists again, under any index.
fn flap(bench: &Workbench) -> Result<()> {
    let (sent, received) = (bench.file("sent", SMALL_FILE)?, bench.path("received"));
    let (ours, theirs) = hosts(bench)?;
    kernel(bench, &theirs, "packet:va")?;
    let mut socat = theirs.command("socat");
    let to = format!("CREATE:{}", shown(&received)?);
    let socat =
        theirs.start("socat", socat.args(["-u", "-b", "131072", "TCP4-LISTEN:5001", &to]))?;
    theirs.until_listening()?;
    let (program, part) = (bench.wirespeed()?, SMALL_FILE / 3);
    let script = format!(
        "(dd bs={part} count=1; until [ -e second ]; do sleep 0.1; done; dd bs={part} count=1; \
         until [ -e third ]; do sleep 0.1; done; cat) < {} 2> dd | \
         {} ttcp -t 10.9.0.1 --dev packet:va --addr 10.9.0.2/24",
        shown(&sent)?,
        shown(&program)?
    );
    let mut sender = ours.command("sh");
    let mut sender =
        ours.start("ttcp", sender.args(["-c", &script]).current_dir(bench.path("")))?;
    let mut until = |bytes: usize| -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while std::fs::metadata(&received).map_or(0, |file| file.len()) < bytes as u64 {
            ensure!(sender.is_alive()?, "the sender ended early: {}", ours.printed("ttcp"));
            ensure!(Instant::now() < deadline, "fewer than {bytes} bytes arrived");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    };
    until(part)?;
    ours.ip("link set va down")?;
    std::fs::write(bench.path("second"), "")?;
    std::thread::sleep(ABSENCE);
    ours.ip("link set va up")?;
    until(2 * part)?;
    ours.ip("link delete dev va")?;
    std::fs::write(bench.path("third"), "")?;
    std::thread::sleep(ABSENCE);
    join(&ours, &theirs)?;
    kernel(bench, &theirs, "packet:va")?;
    sender.finish(LIMIT)?;
    socat.finish(LIMIT)?;
    same(&sum_of(bench, &sent)?, &sum_of(bench, &received)?)
}

/// One tag with offloads, two without: both ways to build a frame.
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
