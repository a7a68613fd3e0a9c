//! Suite `soak`: five minutes of small frames at full rate, with the interface removed in the
//! middle.
//!
//! It is a command of its own, `cargo xtask interop soak`, and not part of `cargo xtask test`. It
//! passes if echoes come back whole and pings are answered before, during and after, `services`
//! still runs, and its memory has not grown.

use super::devices::{hosts, join, kernel};
use super::host::{Host, Running};
use super::outside::{IP, SOCAT, shown};
use super::{Case, Need, Workbench};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::{Duration, Instant};

const HPING: Need = Need::Program { program: "hping3", package: "hping3" };
const PING: Need = Need::Program { program: "ping", package: "iputils-ping" };

pub(super) const CASES: &[Case] = &[Case {
    name: "AF_PACKET: five minutes of small frames, the interface down and deleted in the middle",
    needs: &[Need::Root, IP, SOCAT, PING, HPING],
    run: soak,
}];

/// Length of the whole test.
const LENGTH: Duration = Duration::from_secs(300);
/// Interval between two checks.
const LOOK: Duration = Duration::from_secs(15);
/// How long the interface is missing.
const ABSENCE: Duration = Duration::from_secs(2);
/// The longest time that an echo in the flood may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pings at each check, and how many of them must come back: the ring overflows now and then.
const PINGS: u32 = 20;
const ANSWERED: u32 = 10;
/// Bytes of an echo.
const ECHO: usize = 200_000;
/// Resident memory may grow by this much after the first look, in KB.
const GROWTH_KB: u64 = 16 << 10;

/// Datagrams of 22 bytes, frames of 64 with the check sequence, to a port that discards them.
fn flood(theirs: &Host<'_>) -> Result<Running> {
    let mut hping = theirs.command("hping3");
    hping.args(["--flood", "--udp", "-q", "-p", "9", "-d", "22", "10.9.0.2"]);
    theirs.start("flood", &mut hping)
}

fn echo(bench: &Workbench, theirs: &Host<'_>) -> Result<()> {
    let sent = bench.path("sent");
    let (from, to) = (shown(&sent)?.to_owned(), bench.path("back"));
    let script = format!(
        "socat -t 20 - TCP4:10.9.0.2:7,connect-timeout=20 < {from} > {} && cmp {from} {}",
        to.display(),
        to.display()
    );
    let mut command = theirs.command("sh");
    bench.run(command.args(["-c", &script]), PATIENCE).map(drop).context("an echo")
}

/// Pings during the flood, whose datagrams draw ICMP errors; returns how many were answered.
fn pings(bench: &Workbench, theirs: &Host<'_>) -> Result<u32> {
    let mut ping = theirs.command("ping");
    ping.args(["-q", "-i", "0.05", "-W", "1", "-c", &PINGS.to_string(), "10.9.0.2"]);
    let text = bench.run(&mut ping, PATIENCE).context("not one ping was answered")?;
    let (_, counts) = text.split_once("transmitted, ").context("ping says no count")?;
    let answered = counts.split_whitespace().next().unwrap_or_default().parse()?;
    ensure!(answered >= ANSWERED, "{answered} of {PINGS} pings were answered");
    Ok(answered)
}

fn soak(bench: &Workbench) -> Result<()> {
    bench.file("sent", ECHO)?;
    std::fs::create_dir_all(bench.path("run"))?;
    let (ours, theirs) = hosts(bench)?;
    kernel(bench, &theirs, "packet:va")?;
    let mut command = ours.command(shown(&bench.wirespeed()?)?);
    command.args(["services", "--dev", "packet:va", "--addr", "10.9.0.2/24"]);
    let mut services = ours.start("services", &mut command)?;
    let answers = || {
        theirs.until(|| {
            let mut ping = theirs.command("ping");
            ping.args(["-c", "1", "-W", "1", "10.9.0.2"]);
            Ok(ping)
        })
    };
    answers()?;
    let mut flooding = Some(flood(&theirs)?);
    let (begun, mut rss_kb, mut is_flapped) = (Instant::now(), None, false);
    let (mut echoes, mut answered) = (0, 0);
    while begun.elapsed() < LENGTH {
        std::thread::sleep(LOOK);
        ensure!(services.is_alive()?, "ours has ended: {}", ours.printed("services"));
        echo(bench, &theirs)?;
        echoes += 1;
        answered += pings(bench, &theirs)?;
        let now_kb = resident_kb(&services)?;
        let first_kb = *rss_kb.get_or_insert(now_kb);
        let growth_kb = now_kb.saturating_sub(first_kb);
        ensure!(growth_kb <= GROWTH_KB, "resident memory grew by {growth_kb} KB");
        if !is_flapped && begun.elapsed() >= LENGTH / 2 {
            is_flapped = true;
            ours.ip("link set va down")?;
            std::thread::sleep(ABSENCE);
            ours.ip("link set va up")?;
            answers()?;
            ours.ip("link delete dev va")?;
            drop(flooding.take());
            std::thread::sleep(ABSENCE);
            join(&ours, &theirs)?;
            kernel(bench, &theirs, "packet:va")?;
            answers()?;
            flooding = Some(flood(&theirs)?);
        }
    }
    drop(flooding);
    answers()?;
    echo(bench, &theirs)?;
    let frames = received(bench, &ours, &services)?;
    ensure!(frames > 1_000_000, "only {frames} frames came");
    println!(
        "{frames} frames in {} s, {echoes} echoes among them and {answered} of {} pings; resident \
         memory {} KB, {} at first",
        LENGTH.as_secs(),
        echoes * PINGS,
        resident_kb(&services)?,
        rss_kb.unwrap_or(0)
    );
    Ok(())
}

/// Frames that our stack has received, as it reports.
fn received(bench: &Workbench, ours: &Host<'_>, services: &Running) -> Result<u64> {
    let mut show = ours.command(shown(&bench.wirespeed()?)?);
    show.args(["show", "--json", "--pid", &services.id().to_string()]);
    let text = bench.run(&mut show, PATIENCE)?;
    let document: Value = serde_json::from_str(&text).context("show printed no JSON")?;
    let frames = document.pointer("/stacks/0/counters/rx_frames").and_then(Value::as_u64);
    frames.context("no count of frames")
}

fn resident_kb(running: &Running) -> Result<u64> {
    let path = format!("/proc/{}/status", running.id());
    let text = std::fs::read_to_string(path).context("ours has ended")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")
}
