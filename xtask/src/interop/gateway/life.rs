//! How a run ends: exit statuses, Ctrl-C, `--keep`, `--pid`, `--hide`; and each of the three
//! processes killed at a random moment of a run with traffic.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::scene::{Site, USER};
use crate::interop::Workbench;
use crate::interop::ip::until;
use crate::interop::router::scene::tail;

/// How many kills, if `WIRESPEED_KILLS` says nothing.
const KILLS: u64 = 20;
/// The latest moment of a kill after the start.
const LATEST_MS: u64 = 700;
/// All is gone by then.
const SOON: Duration = Duration::from_secs(20);

pub(super) fn ends(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench)?;
    for (options, line, status) in [
        ("", "exit 3", 3),
        ("--pid", "exit 3", 3),
        ("", "kill -9 $$", 137),
        ("--allow web.example:443", "kill -TERM $$", 143),
    ] {
        let (code, text) = site.inside(options, line)?;
        ensure!(code == status, "netns {options} -- {line}: exit {code}, not {status}: {text}");
    }
    for (command, status, says) in [
        ("$WS netns -- no-such-program", 127, "not found"),
        ("$WS netns -- /etc/passwd", 126, "cannot be executed"),
        ("$WS netns --link nonsense -- true", 2, "expected dsl"),
        ("$WS netns --policy no-such-file -- true", 125, "no-such-file"),
        ("$WS netns --hide /no/such/path -- true", 125, "/no/such/path"),
    ] {
        let (code, text) = site.on_host(command)?;
        ensure!(code == status && text.contains(says), "{command}: exit {code}: {}", tail(&text));
    }
    println!("  exit statuses: ok");
    interrupted(&site)?;
    let late = "(sleep 1; curl -sS http://web.example/ > late) > /dev/null 2>&1 &";
    site.inside("--keep", late)?;
    ensure!(site.read("home/late").contains("hello"), "--keep does not wait");
    site.inside("--pid", "rm late; (sleep 1; echo hello > late) > /dev/null 2>&1 &")?;
    std::thread::sleep(Duration::from_millis(1_500));
    ensure!(site.read("home/late").is_empty(), "--pid left a process behind");
    println!("  --keep, --pid: ok");
    std::fs::create_dir(bench.path("secrets"))?;
    std::fs::write(bench.path("secrets/key"), "secret")?;
    let read = "cat $F/secrets/key && echo reached";
    site.prints("", read, "secret")?;
    let (_, text) = site.inside(&format!("--hide {}", bench.path("secrets").display()), read)?;
    ensure!(!text.contains("reached"), "--hide: {text}");
    println!("  --hide: ok");
    Ok(())
}

/// Ctrl-C of a terminal goes to the whole group of processes.
fn interrupted(site: &Site<'_>) -> Result<()> {
    let script = "trap 'echo caught; exit 42' INT; echo begun; while :; do sleep 0.1; done";
    for (line, status) in [(script, 42), ("echo begun; exec sleep 100", 130)] {
        std::fs::write(site.bench.path("line.sh"), line)?;
        let mut running = site.start("ctrl-c", "setsid $WS netns -- sh $F/line.sh")?;
        site.wait_for("ctrl-c.out", "begun")?;
        let group = Pid::from_raw(running.id().cast_signed()).context("a process")?;
        kill_process_group(group, Signal::INT)?;
        let ended = running.status(SOON)?;
        ensure!(ended.code() == Some(status), "Ctrl-C: {ended}: {}", site.read("ctrl-c.err"));
        ensure!(status != 42 || site.read("ctrl-c.out").contains("caught"), "no trap");
    }
    println!("  Ctrl-C: ok");
    Ok(())
}

/// Which of the three.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Launcher,
    Gateway,
    Program,
}

/// The traffic of a run: names, TCP, UDP. With a PID namespace in several processes; without one
/// the program's own children outlive it, as those of any program do.
const ONE: &str = "exec $PROBE traffic";
const SEVERAL: &str = "\
while :; do curl -s -m 5 https://web.example/ > /dev/null || sleep 0.1; done &
while :; do $PROBE udp 8.8.4.99 6666 > /dev/null; done &
exec curl -s http://web.example/large --limit-rate 1M -o /dev/null -m 60
";

pub(super) fn kills(bench: &Workbench) -> Result<()> {
    let site = Site::new(bench)?;
    std::fs::File::create(bench.path("www/large"))?.set_len(1 << 30)?;
    let number = std::env::var("WIRESPEED_KILLS").ok();
    let number = number.map_or(Ok(KILLS), |text| text.parse()).context("WIRESPEED_KILLS")?;
    let mut ends = std::collections::BTreeMap::<String, u64>::new();
    for index in 0..number {
        let random = RandomState::new().build_hasher().finish();
        let victim = [Victim::Launcher, Victim::Gateway, Victim::Program][(index % 3) as usize];
        let moment = Duration::from_millis(random % LATEST_MS);
        let (options, traffic) = [
            ("", ONE),
            ("--pid", SEVERAL),
            ("--allow public", SEVERAL),
            ("--pid --keep", SEVERAL),
            ("--link lte", ONE),
        ][(index % 5) as usize];
        // With --keep a network outlives its launcher.
        let options = match victim {
            Victim::Launcher if options.contains("--keep") => "--pid --root",
            _ => options,
        };
        std::fs::write(bench.path("traffic.sh"), traffic)?;
        let what = format!("kill {index}: {victim:?} after {moment:?}, netns {options}");
        let end = killed(&site, victim, moment, options).with_context(|| what.clone())?;
        *ends.entry(format!("{victim:?}: {end}")).or_default() += 1;
    }
    println!("  {number} kills");
    for (end, times) in ends {
        println!("  {times} times {end}");
    }
    Ok(())
}

/// One kill; returns how the launcher ended.
fn killed(site: &Site<'_>, victim: Victim, moment: Duration, options: &str) -> Result<String> {
    let began = Instant::now();
    let line = format!("$WS netns {options} -- sh $F/traffic.sh");
    let mut running = site.start("killed", &line)?;
    // The launcher's process begins as the shell that executes it.
    until("the launcher begins", SOON, || Ok(command_of(running.id()).contains("/ws\0netns\0")))?;
    let pid = loop {
        std::thread::sleep(moment.saturating_sub(began.elapsed()));
        match victim {
            Victim::Launcher => break Some(running.id()),
            _ => {
                if let Some(pid) = child(running.id(), victim) {
                    break Some(pid);
                }
            }
        }
        ensure!(began.elapsed() < SOON, "there is no {victim:?}");
        std::thread::sleep(Duration::from_millis(5));
    };
    let pid = Pid::from_raw(pid.context("a process")?.cast_signed()).context("a process")?;
    kill_process(pid, Signal::KILL)?;
    let ended = running.status(SOON)?;
    let said = site.read("killed.err");
    let said: Vec<&str> = said.lines().filter(|line| !line.contains("curl")).collect();
    match victim {
        Victim::Launcher => {}
        Victim::Gateway => ensure!(
            ended.code() == Some(125) && said.len() == 1 && said[0].starts_with("wirespeed "),
            "{ended}: {said:?}"
        ),
        Victim::Program => ensure!(
            (ended.code() == Some(137) && said.is_empty())
                || (ended.code() == Some(125) && said.len() == 1),
            "{ended}: {said:?}"
        ),
    }
    if matches!(victim, Victim::Launcher) {
        // Nobody removes the control socket of a launcher that is killed, but the next program.
        let (code, text) = site.on_host("$WS netns -- true")?;
        ensure!(code == 0, "the next run fails: {text}");
    }
    nothing_is_left(site)?;
    let said = said.first().map(|line| format!(", {line}")).unwrap_or_default();
    Ok(format!("{ended}{said}"))
}

/// No process of the user, no namespace of one, no file in the run-time directory.
fn nothing_is_left(site: &Site<'_>) -> Result<()> {
    let deadline = Instant::now() + SOON;
    loop {
        let processes = of_user();
        let files = sockets(&site.bench.path("run"));
        if processes.is_empty() && files.is_empty() {
            break;
        }
        if Instant::now() > deadline {
            bail!("these are left: {processes:?} {files:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let (_, text) =
        site.on_server(&format!("lsns -t net -n -o USER | grep -c -w -e {USER} -e wsuser"))?;
    ensure!(text.trim() == "0", "namespaces are left: {text}");
    Ok(())
}

/// The files of the run-time directory of the user's programs; folders stay.
fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.map(|entry| entry.path()).map(|path| match path.is_dir() {
        true => sockets(&path),
        false => vec![path],
    });
    below.flatten().collect()
}

/// The processes of the user, with their commands.
fn of_user() -> Vec<(u32, String)> {
    let folder = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = folder.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_users = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains(&format!("\nUid:\t{USER}\t")) && !status.contains("\nState:\tZ")
    };
    pids.filter(is_users).map(|pid| (pid, command_of(pid))).collect()
}

fn command_of(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// The gateway or the program of a launcher.
fn child(launcher: u32, victim: Victim) -> Option<u32> {
    let path = format!("/proc/{launcher}/task/{launcher}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
    let is_gateway = |pid: u32| command_of(pid).contains("--jail-gateway");
    pids.find(|&pid| match victim {
        Victim::Gateway => is_gateway(pid),
        _ => !is_gateway(pid),
    })
}
