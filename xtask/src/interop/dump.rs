//! Cases of the suite `devices`: what `wirespeed dump` writes of real transfers, in the eyes of
//! tshark and tcpdump.

use super::devices::{hosts, ttcp};
use super::host::Host;
use super::outside::{IP, SOCAT, TUN, shown};
use super::{Case, Need, Workbench};
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::Duration;

const TSHARK: Need = Need::Program { program: "tshark", package: "tshark" };
const TCPDUMP: Need = Need::Program { program: "tcpdump", package: "tcpdump" };

const LIMIT: Duration = Duration::from_secs(60);

/// Packets of a capture.
const COUNT: &str = "3000";

pub(super) const OF_A_PROCESS: Case = Case {
    name: "dump -w of a running transfer over a TAP: tshark content, dump -r as tcpdump",
    needs: &[Need::Root, TUN, IP, SOCAT, TSHARK, TCPDUMP],
    run: of_a_process,
};

pub(super) const OF_A_TRUNK: Case = Case {
    name: "dump -i of a trunk: tags visible, tshark content",
    needs: &[Need::Root, IP, TSHARK],
    run: of_a_trunk,
};

fn of_a_process(bench: &Workbench) -> Result<()> {
    std::fs::create_dir_all(bench.path("run"))?;
    let host = Host::new(bench)?;
    let mut socat = host.command("socat");
    let socat = host.start("socat", socat.args(["-u", "TCP4-LISTEN:5001", "CREATE:/dev/null"]))?;
    host.until_listening()?;
    let mut ours = host.ours("ttcp")?;
    let ours = host.start("ttcp", ours.args(["-t", "10.9.0.1", "--seconds", "12"]))?;
    let path = bench.path("frames.pcapng");
    let (wirespeed, pid) = (bench.wirespeed()?, ours.id().to_string());
    host.until(|| {
        let mut show = host.command(shown(&wirespeed)?);
        show.args(["show", "stack", "--pid", &pid]);
        Ok(show)
    })?;
    let mut dump = host.command(shown(&wirespeed)?);
    dump.args(["dump", "-c", COUNT, "--pid", &pid, "-w", shown(&path)?, "tcp"]);
    bench.run(&mut dump, LIMIT)?;
    ours.finish(LIMIT)?;
    socat.finish(LIMIT)?;
    content(bench, shown(&path)?)?;
    let lines = |command: &mut Command| bench.run(command, LIMIT);
    let ours = lines(Command::new(&wirespeed).args(["dump", "-n", "-r", shown(&path)?]))?;
    let theirs = lines(Command::new("tcpdump").args(["-n", "-r", shown(&path)?]))?;
    ensure!(ours.lines().count() == 3000, "{} lines", ours.lines().count());
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        ensure!(ours == theirs, "ours {ours}\ntcpdump {theirs}");
    }
    Ok(())
}

/// Nothing malformed, and no checksum that is wrong.
fn content(bench: &Workbench, path: &str) -> Result<()> {
    let mut tshark = Command::new("tshark");
    let wrong = "_ws.malformed || tcp.checksum.status == 0 || ip.checksum.status == 0";
    tshark.args(["-r", path, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]);
    let complaints = bench.run(tshark.args(["-Y", wrong]), LIMIT)?;
    ensure!(complaints.trim().is_empty(), "tshark complains: {complaints}");
    Ok(())
}

fn of_a_trunk(bench: &Workbench) -> Result<()> {
    let sent = bench.file("sent", 3_000_000)?;
    let (one, two) = hosts(bench)?;
    let path = bench.path("trunk.pcapng");
    let mut dump = one.command(shown(&bench.wirespeed()?)?);
    dump.args(["dump", "-i", "va", "-c", "1000", "-w", shown(&path)?, "vlan", "5"]);
    let dump = one.start("dump", &mut dump)?;
    one.until(|| {
        let mut there = Command::new("test");
        there.args(["-s", shown(&path)?]);
        Ok(there)
    })?;
    let mut receiver = ttcp(bench, &two, "packet:vb", "10.9.0.1/24")?;
    receiver.args(["--vlan", "5", "--offload", "off", "-r", "--file", "/dev/null"]);
    let receiver = two.start("ttcp", &mut receiver)?;
    let mut sender = ttcp(bench, &one, "packet:va", "10.9.0.2/24")?;
    sender.args(["--vlan", "5", "--offload", "off", "-t", "10.9.0.1", "--file"]).arg(&sent);
    bench.run(&mut sender, LIMIT)?;
    receiver.finish(LIMIT)?;
    dump.finish(LIMIT)?;
    content(bench, shown(&path)?)?;
    let mut tshark = Command::new("tshark");
    let fields = ["-Y", "vlan.id == 5 && tcp", "-T", "fields", "-e", "vlan.id"];
    tshark.args(["-r", shown(&path)?]).args(fields);
    let tagged = bench.run(&mut tshark, LIMIT)?;
    let count = tagged.lines().filter(|line| line.trim() == "5").count();
    ensure!(count > 900, "{count} frames with a tag");
    let mut lines = Command::new(bench.wirespeed()?);
    let text = bench.run(lines.args(["dump", "-e", "-r", shown(&path)?]), LIMIT)?;
    let first = text.lines().next().context("no line")?;
    ensure!(
        first.contains("ethertype 802.1Q (0x8100)") && first.contains("vlan 5, p 0"),
        "{first}"
    );
    Ok(())
}
