//! The setting of an attack: our stack at one end of a TAP, the attacker and a well-behaved peer at
//! the other, and the checks before and afterwards.
//!
//! Called by: the suite `attacks`. `configured.rs` has the servers that give addresses.

use super::super::Workbench;
use super::super::host::{Host, Running};
use super::configured;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Debian's Python, which finds Debian's scapy, whatever else is on PATH.
pub(super) const PYTHON: &str = "/usr/bin/python3";
pub(super) const PROGRAM: &str = "xtask/src/interop/attacks/attacker.py";
/// Resident memory may grow by this much under an attack, in KB: the peer's own buffers and the
/// memory that limits allow to strangers.
const GROWTH_KB: u64 = 64 << 10;
/// Our address of IPv6 if it is fixed.
const OURS_V6: &str = "fd09::2";
/// An attack of the Python program is over by then, on a busy machine too.
const ATTACK: Duration = Duration::from_secs(90);
/// Time for our stack to get its addresses: a router's answer, or a lease and the check for
/// conflicts.
const START: Duration = Duration::from_secs(25);
/// Time for the peer's last round, connections included; no less than it needs to give up.
const LAST_ROUND: Duration = Duration::from_secs(25);

/// The source of our stack's addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Addresses {
    /// The command line.
    Fixed,
    /// radvd, beside a fixed one of IPv4.
    Auto,
    /// dnsmasq, beside a fixed one of IPv6.
    Dhcp,
}

/// The programs around an attack.
pub(super) struct Scene<'a> {
    bench: &'a Workbench,
    pub(super) host: Host<'a>,
    ours: Running,
    /// radvd or dnsmasq.
    _server: Option<Running>,
    /// Our address of IPv6 that the peer uses.
    v6: String,
    peer: Option<Running>,
    before: Value,
    rss_kb: u64,
}

/// The state before and after an attack.
pub(super) struct Seen {
    before: Value,
    after: Value,
    pub(super) text: String,
}

impl<'a> Scene<'a> {
    /// Start everything, and wait for the peer's first round.
    pub(super) fn new(bench: &'a Workbench) -> Result<Scene<'a>> {
        let mut scene = Scene::with(bench, Addresses::Fixed)?;
        scene.begin()?;
        Ok(scene)
    }

    /// Start our stack, and wait until it answers.
    pub(super) fn with(bench: &'a Workbench, addresses: Addresses) -> Result<Scene<'a>> {
        let host = Host::new(bench)?;
        // Floods are not for the kernel, which is a router here.
        configured::be_a_router(bench, &host)?;
        std::fs::create_dir_all(bench.path("run"))?;
        let server = configured::server(bench, &host, addresses)?;
        let mut command = configured::services(bench, &host, addresses)?;
        let ours = host.start("ours", &mut command)?;
        let mut scene = Scene {
            bench,
            host,
            ours,
            _server: server,
            v6: OURS_V6.to_owned(),
            peer: None,
            before: Value::Null,
            rss_kb: 0,
        };
        let deadline = Instant::now() + START;
        let serves = |scene: &Scene<'_>| scene.host.printed("ours").contains("Ctrl-C");
        while !serves(&scene) {
            let is_alive = scene.ours.is_alive()? && Instant::now() < deadline;
            let said = std::fs::read_to_string(bench.path("ours.err")).unwrap_or_default();
            ensure!(is_alive, "our stack does not start: {}", said.trim());
            std::thread::sleep(Duration::from_millis(50));
        }
        if addresses == Addresses::Auto {
            scene.v6 = scene.made()?;
        }
        for to in ["10.9.0.2", &scene.v6] {
            scene.host.until(|| {
                let mut ping = scene.host.command("ping");
                ping.args(["-c", "1", "-W", "1", to]);
                Ok(ping)
            })?;
        }
        Ok(scene)
    }

    /// The address that our stack has made itself of radvd's prefix.
    fn made(&self) -> Result<String> {
        let shown = self.show()?;
        let addresses = shown["addresses"].as_array().context("show has no addresses")?;
        let found = addresses.iter().filter_map(|row| row["address"].as_str());
        let found = found.filter_map(|text| text.split('/').next());
        let mut found = found.filter(|text| text.starts_with(configured::PREFIX));
        found.next().map(str::to_owned).context("no address of radvd's prefix")
    }

    /// Start the peer, and wait for its first round.
    pub(super) fn begin(&mut self) -> Result<()> {
        for file in [self.state(), self.bench.path("stop")] {
            if file.exists() {
                std::fs::remove_file(file)?;
            }
        }
        let mut peer = self.host.command(PYTHON);
        peer.arg(self.bench.root().join(PROGRAM)).arg("peer");
        peer.arg(self.bench.path("stop")).arg(self.state()).arg(&self.v6);
        self.peer = Some(self.host.start("peer", &mut peer)?);
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.state().exists() {
            ensure!(Instant::now() < deadline, "the peer found no connection");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(300));
        self.before = self.show()?;
        self.rss_kb = self.resident_kb()?;
        Ok(())
    }

    /// The file in which the peer writes which connection is its own.
    fn state(&self) -> std::path::PathBuf {
        self.bench.path("peer.json")
    }

    /// Run an attack of the Python program; returns the line it printed. It must report success.
    pub(super) fn python(&self, name: &str) -> Result<String> {
        let mut attack = self.host.command(PYTHON);
        attack.arg(self.bench.root().join(PROGRAM)).arg(name).arg(self.state()).arg(&self.v6);
        let ran = self.bench.run(&mut attack, ATTACK);
        // The result is on its standard output, also if the attack failed.
        let line = std::fs::read_to_string(self.bench.path("stdout")).unwrap_or_default();
        let line = line.trim().to_owned();
        ran.with_context(|| format!("{name} saw: {line}"))?;
        Ok(line)
    }

    /// Run a tool until it ends or for this many seconds, whatever its exit status; returns its
    /// output. `OURS6` among its words is our address of IPv6.
    pub(super) fn tool(&self, words: &str, seconds: u64) -> Result<String> {
        let words = words.replace("OURS6", &self.v6);
        let mut words = words.split(' ');
        let mut tool = self.host.command(words.next().unwrap_or_default());
        tool.args(words);
        let running = self.host.start("tool", &mut tool)?;
        running.for_at_most(Duration::from_secs(seconds))?;
        let errors = std::fs::read_to_string(self.bench.path("tool.err")).unwrap_or_default();
        Ok(self.host.printed("tool") + &errors)
    }

    fn show(&self) -> Result<Value> {
        let program = self.bench.wirespeed()?;
        let mut show = self.host.command(program.to_str().context("a path that is no text")?);
        show.args(["show", "--json", "--pid", &self.ours.id().to_string()]);
        let text = self.bench.run(&mut show, Duration::from_secs(10))?;
        let document: Value = serde_json::from_str(&text).context("show printed no JSON")?;
        document.pointer("/stacks/0").cloned().context("show has no stack")
    }

    fn resident_kb(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.ours.id());
        let text = std::fs::read_to_string(Path::new(&path)).context("ours has ended")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let line = line.context("no VmRSS")?;
        line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")
    }

    /// The attack is over: `services` runs, with little more memory than before, and the peer got
    /// all its bytes back.
    pub(super) fn end(&mut self) -> Result<Seen> {
        std::fs::write(self.bench.path("stop"), "")?;
        let peer = self.peer.take().context("the peer is there once")?;
        let ended = peer.finish(LAST_ROUND);
        let complaint = std::fs::read_to_string(self.bench.path("peer.err")).unwrap_or_default();
        ended.with_context(|| format!("the peer beside: {}", complaint.trim()))?;
        ensure!(self.ours.is_alive()?, "ours has ended: {}", self.host.printed("ours"));
        let after = self.show()?;
        within_limits(&after)?;
        let growth_kb = self.resident_kb()?.saturating_sub(self.rss_kb);
        ensure!(growth_kb <= GROWTH_KB, "resident memory grew by {growth_kb} KB");
        let report: Value =
            serde_json::from_str(&self.host.printed("peer")).context("the peer printed no JSON")?;
        let rounds = report["rounds"].as_u64().unwrap_or(0);
        ensure!(rounds >= 2, "the peer had {rounds} rounds");
        let worst = report["worst_s"].as_f64().unwrap_or(f64::NAN);
        let text = format!("peer whole, {rounds} rounds, worst {worst:.2} s; +{growth_kb} KB");
        Ok(Seen { before: std::mem::take(&mut self.before), after, text })
    }
}

/// The lists that strangers fill are no longer than their limits.
pub(super) fn within_limits(shown: &Value) -> Result<()> {
    let limit = |name: &str| shown["limits"][name]["value"].as_u64().unwrap_or(0);
    let routes = 2 * limit("prefixes")
        + limit("advertised_routes")
        + limit("routers")
        + limit("redirects")
        + limit("addresses");
    for (list, most) in [
        ("addresses", limit("addresses")),
        ("routes", routes),
        ("neighbours", limit("neighbours")),
        ("groups", 2 * limit("groups_per_port")),
    ] {
        let rows = shown[list].as_array().with_context(|| format!("show has no {list}"))?;
        ensure!(rows.len() as u64 <= most, "{} {list}, {most} may be", rows.len());
    }
    Ok(())
}

impl Seen {
    /// The state before and after, from two answers of `show`, and a text for the report.
    pub(super) fn between(before: Value, after: Value, text: String) -> Seen {
        Seen { before, after, text }
    }

    /// The growth of this drop, counter or count of limit hits.
    pub(super) fn grown(&self, name: &str) -> u64 {
        let of = |stack: &Value| {
            ["drops", "counters"]
                .iter()
                .filter_map(|section| stack.get(section)?.get(name)?.as_u64())
                .sum::<u64>()
        };
        of(&self.after) - of(&self.before)
    }

    /// The growth of these names, each of which must have grown; of names joined by `|`, one must.
    pub(super) fn counted(&self, names: &[&str]) -> Result<String> {
        let mut told = Vec::new();
        for alternatives in names {
            let hits: Vec<_> = alternatives
                .split('|')
                .map(|name| (name, self.grown(name)))
                .filter(|&(_, grown)| grown > 0)
                .collect();
            ensure!(!hits.is_empty(), "nothing was counted as {alternatives}; {}", self.drops());
            told.extend(hits.iter().map(|(name, grown)| format!("{name} {grown}")));
        }
        Ok(told.join(", "))
    }

    /// Everything that was dropped during the attack.
    pub(super) fn drops(&self) -> String {
        let Some(Value::Object(drops)) = self.after.get("drops") else { return String::new() };
        let grown = drops.keys().map(|name| (name, self.grown(name))).filter(|(_, n)| *n > 0);
        grown.map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
    }
}
