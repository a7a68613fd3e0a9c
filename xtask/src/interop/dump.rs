//! Cases of the suite `devices`: tshark and tcpdump read the captures that `wirespeed dump` writes
//! of real transfers.

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
const COUNT: usize = 3000;

/// No packet of a capture may match this. An unverified checksum is as bad as a wrong one: 1 is
/// good, 0 bad, and 2 or more not verified.
const WRONG: &str = "_ws.malformed || _ws.expert.severity == \"Error\" || \
                     (ip && !(ip.checksum.status == 1)) || (tcp && !(tcp.checksum.status == 1))";

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
    let count = COUNT.to_string();
    dump.args(["dump", "-c", &count, "--pid", &pid, "-w", shown(&path)?, "tcp"]);
    let (_, closing) = bench.run_both(&mut dump, LIMIT)?;
    let (captured, dropped) = (counted(&closing, "captured")?, counted(&closing, "dropped")?);
    ensure!(captured == COUNT as u64, "{captured} packets captured: {closing}");
    ours.finish(LIMIT)?;
    socat.finish(LIMIT)?;
    content(bench, shown(&path)?)?;
    let lines = |command: &mut Command| bench.run(command, LIMIT);
    let ours = lines(Command::new(&wirespeed).args(["dump", "-n", "-r", shown(&path)?]))?;
    let theirs = lines(Command::new("tcpdump").args(["-n", "-r", shown(&path)?]))?;
    same_lines(&ours, &theirs)?;
    println!("{captured} packets captured, {dropped} dropped for want of room");
    Ok(())
}

/// How many packets were captured, or dropped, according to the closing lines of a capture.
pub(super) fn counted(closing: &str, what: &str) -> Result<u64> {
    let end = format!(" packets {what}");
    let count = closing.lines().find_map(|line| Some(line.split_once(&end)?.0));
    let count = count.with_context(|| format!("no word on packets {what}: {closing}"))?;
    count.parse::<u64>().with_context(|| format!("no count of packets {what}: {closing}"))
}

/// Both outputs have the same line for each packet of the capture.
fn same_lines(ours: &str, theirs: &str) -> Result<()> {
    let (here, there) = (ours.lines().count(), theirs.lines().count());
    ensure!(here == COUNT && there == COUNT, "ours prints {here} lines, tcpdump {there}");
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        ensure!(ours == theirs, "ours {ours}\ntcpdump {theirs}");
    }
    Ok(())
}

/// Nothing is malformed, no dissector reports an error, every checksum is verified and good.
fn content(bench: &Workbench, path: &str) -> Result<()> {
    let shows = ["frame.number", "tcp.checksum.status", "ip.checksum.status", "_ws.expert.message"];
    let shows = shows.into_iter().flat_map(|field| ["-e", field]);
    let options: Vec<&str> = ["-Y", WRONG, "-T", "fields"].into_iter().chain(shows).collect();
    let complaints = tshark(bench, path, &options)?;
    ensure!(complaints.trim().is_empty(), "tshark complains of packets: {complaints}");
    let good = ["-Y", "tcp.checksum.status == 1", "-T", "fields", "-e", "frame.number"];
    let verified = tshark(bench, path, &good)?.lines().count();
    ensure!(verified > 0, "tshark has verified no checksum of TCP");
    Ok(())
}

/// tshark's output for a capture, with checksums verified. It may only warn about running as root.
/// ttcp's bytes have no meaning, so dissectors must not guess at them.
fn tshark(bench: &Workbench, path: &str, options: &[&str]) -> Result<String> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-r", path, "-d", "tcp.port==5001,data"]);
    tshark.args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]);
    let (printed, said) = bench.run_both(tshark.args(options), LIMIT)?;
    let is_usual = |line: &str| line.trim().is_empty() || line.starts_with("Running as user ");
    let unusual: Vec<&str> = said.lines().filter(|line| !is_usual(line)).collect();
    ensure!(unusual.is_empty(), "tshark says: {}", unusual.join("\n"));
    Ok(printed)
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
    let fields = ["-Y", "vlan.id == 5 && tcp", "-T", "fields", "-e", "vlan.id"];
    let tagged = tshark(bench, shown(&path)?, &fields)?;
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
