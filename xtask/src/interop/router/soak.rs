//! `router-soak`: valid and invalid configurations, and links that are cut and repaired, all at
//! random, while two connections carry data.
//!
//! Called by: the suite `router-soak`, by its name alone. After each step the routes have to be
//! those of the last valid file. A ping to a network has to be answered if that file has a route to
//! it, else an ICMP error has to come back. Both connections have to stay open. At the end the
//! processes may have little more memory than after the first rounds. The printed seed repeats all
//! steps.

mod plan;

use super::super::Workbench;
use super::super::host::Running;
use super::super::ip::until;
use super::super::soaking::{Random, have_not_grown, length_and_seed, resident_kb};
use super::links::{RIGHT_SPARE, replacing, with_spare};
use super::scene::{LIMIT, Scene, tail};
use crate::process;
use anyhow::{Context, Result, ensure};
use plan::{NETS, Plan};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Seconds for which connections go on after the last step.
const LONGER: u64 = 10;
/// The longest time that a connection may move no byte, in seconds.
const STILL_MAX: usize = 3;
/// The round after which memory is measured for the first time.
const FIRST_ROUNDS: u64 = 10;
/// Networks that are probed after each step.
const PROBES: u64 = 3;

/// The two connections: iperf3's words, and the port of its server.
const FLOWS: [(&str, &str); 2] =
    [("-c 198.51.100.2 -b 20M", "5001"), ("-c 2001:db8:2::2 -b 20M -R", "5002")];

/// The steps that were done.
#[derive(Default)]
struct Done {
    reloads: u64,
    broken: u64,
    cuts: u64,
    probes: u64,
}

pub(super) fn run(bench: &Workbench) -> Result<()> {
    let (length, seed) = length_and_seed("router-soak", bench.soak())?;
    let mut random = Random::new(seed);
    let mut plan = Plan::default();
    let scene = with_spare(bench, &plan.text())?;
    for net in 0..NETS {
        scene.right.ip(&format!("addr add 10.20.{net}.1/32 dev lo"))?;
    }
    for host in ["198.51.100.2", "203.0.113.2", "2001:db8:2::2"] {
        scene.answers(host)?;
    }
    let processes = scene.processes()?;
    let mut flows = begin(&scene, length.as_secs() + LONGER)?;
    let (begun, mut first_kb, mut done) = (Instant::now(), None, Done::default());
    for round in 1.. {
        if begun.elapsed() >= length {
            break;
        }
        ensure!(!process::interrupted(), "interrupted");
        step(&scene, &mut plan, &mut random, &mut done)
            .with_context(|| format!("seed {seed}, round {round}; the file:\n{}", plan.text()))?;
        ensure!(scene.processes()? == processes, "a process was started again");
        for flow in &mut flows {
            ensure!(flow.client.is_alive()?, "a connection has ended: {}", flow.printed(&scene));
        }
        if round == FIRST_ROUNDS {
            first_kb = Some(resident_kb(processes)?);
        }
    }
    let last_kb = resident_kb(processes)?;
    let still: Vec<usize> =
        flows.into_iter().map(|flow| flow.finish(&scene)).collect::<Result<_>>()?;
    let first_kb = first_kb.unwrap_or(last_kb);
    println!(
        "  {} reloads, {} invalid files, {} cuts, {} probes; resident memory \
         {first_kb:?} KB, then {last_kb:?} (first process, worker); at most {still:?} s without a \
         byte",
        done.reloads, done.broken, done.cuts, done.probes
    );
    have_not_grown(first_kb, last_kb)?;
    scene.end()
}

/// Change the configuration, offer an invalid one, or cut a link; then check.
fn step(scene: &Scene<'_>, plan: &mut Plan, random: &mut Random, done: &mut Done) -> Result<()> {
    match random.below(10) {
        0..6 => {
            plan.change(random);
            scene.reload(&plan.text(), "changes took effect, 0 failed")?;
            done.reloads += 1;
        }
        6..8 => {
            scene.reload(&plan.broken(random), "the running configuration stays")?;
            done.broken += 1;
        }
        _ => {
            scene.link_changed(|| scene.right.ip("link set ws2 down"))?;
            check(scene, plan, false, random, done).context("while a link was cut")?;
            repair(scene)?;
            done.cuts += 1;
        }
    }
    check(scene, plan, true, random, done)
}

/// Bring the second link up again, and restore the kernel's routes over it.
fn repair(scene: &Scene<'_>) -> Result<()> {
    scene.link_changed(|| scene.right.ip("link set ws2 up"))?;
    let routes = &RIGHT_SPARE[4..];
    until("the kernel's routes", LIMIT, || {
        Ok(routes.iter().all(|route| scene.right.ip(&replacing(route)).is_ok()))
    })
}

/// Check that the routes are those of the file, and that packets follow them.
fn check(
    scene: &Scene<'_>,
    plan: &Plan,
    has_second: bool,
    random: &mut Random,
    done: &mut Done,
) -> Result<()> {
    let (shown, wanted) = (routes(&scene.show("routes")?)?, plan.routes());
    let stale: Vec<_> = shown.difference(&wanted).collect();
    let missing: Vec<_> = wanted.difference(&shown).collect();
    ensure!(stale.is_empty() && missing.is_empty(), "stale: {stale:?}, missing: {missing:?}");
    for _ in 0..PROBES {
        let net = random.below(NETS);
        done.probes += 1;
        if plan.leads(net, has_second) {
            scene.answers(&format!("10.20.{net}.1")).context("a network with a route")?;
            continue;
        }
        let told = scene.said(&format!("ping -n -c 1 -W 5 10.20.{net}.1"))?;
        let is_told = told.contains("From 192.0.2.2") && told.contains("Unreachable");
        ensure!(is_told, "10.20.{net}.0/24 has no route, but no ICMP error says so: {told}");
    }
    Ok(())
}

/// Routes as [`Plan::routes`] writes them.
fn routes(shown: &Value) -> Result<BTreeSet<String>> {
    let rows = shown.as_array().context("show has no routes")?;
    let text = |row: &Value| {
        let field = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
        let is_shared = !row["weight"].is_null();
        let metric = row["metric"].as_u64().unwrap_or(u64::MAX);
        let (to, via, origin) = (field("destination"), field("via"), field("origin"));
        format!("{to} via {via} {origin} metric {metric} shared {is_shared}")
    };
    Ok(rows.iter().map(text).collect())
}

/// A connection that lasts.
struct Flow {
    name: String,
    client: Running,
    _server: Running,
}

fn begin(scene: &Scene<'_>, seconds: u64) -> Result<Vec<Flow>> {
    let flow = |&(words, port): &(&str, &str)| {
        let mut server = scene.right.command("iperf3");
        let server =
            scene.right.start(&format!("server-{port}"), server.args(["-s", "-p", port]))?;
        scene.right.until(|| {
            let mut listening = scene.right.command("sh");
            listening.args(["-c", &format!("ss -Hltn sport = :{port} | grep -q LISTEN")]);
            Ok(listening)
        })?;
        let mut client = scene.left.command("iperf3");
        client.args(["-p", port, "-J", "-t", &seconds.to_string()]).args(words.split(' '));
        let name = format!("flow-{port}");
        let client = scene.left.start(&name, &mut client)?;
        Ok(Flow { name, client, _server: server })
    };
    FLOWS.iter().map(flow).collect()
}

impl Flow {
    fn printed(&self, scene: &Scene<'_>) -> String {
        tail(&scene.left.printed(&self.name)).to_owned()
    }

    /// Wait for its end; returns the longest time without a byte, in seconds.
    fn finish(self, scene: &Scene<'_>) -> Result<usize> {
        let Flow { name, client, _server } = self;
        let ended = client.finish(LIMIT + Duration::from_secs(LONGER));
        let printed = scene.left.printed(&name);
        ended.with_context(|| format!("{name}: {}", tail(&printed)))?;
        let report: Value = serde_json::from_str(&printed).context("iperf3 -J printed no JSON")?;
        let intervals = report["intervals"].as_array().context("iperf3 has no intervals")?;
        let moved = intervals.iter().map(|i| i["sum"]["bytes"].as_u64().unwrap_or(0));
        let still = longest_still(moved);
        ensure!(still <= STILL_MAX, "{name} stood still for {still} s");
        Ok(still)
    }
}

/// The length of the longest row of zeros.
fn longest_still(moved: impl Iterator<Item = u64>) -> usize {
    let (mut now, mut longest) = (0, 0);
    for bytes in moved {
        now = if bytes == 0 { now + 1 } else { 0 };
        longest = longest.max(now);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_is_found() {
        assert_eq!(longest_still([5, 0, 0, 3, 0].into_iter()), 2);
        assert_eq!(longest_still([0, 0, 0].into_iter()), 3);
        assert_eq!(longest_still([1].into_iter()), 0);
    }

    #[test]
    fn a_stale_route_is_found() {
        let mut plan = Plan::default();
        let stale = serde_json::json!([{
            "destination": "10.20.0.0/24", "via": "198.51.100.2", "origin": "static", "metric": 0
        }]);
        let shown = routes(&stale).unwrap();
        assert_eq!(shown.difference(&plan.routes()).count(), 1);
        plan.change(&mut Random::new(7));
        assert!(plan.routes().len() >= 6, "the networks of three ports");
    }
}
