//! Static routes of `vtysh` arrive by FPM, change and go; zebra is killed, and comes back with
//! other routes; it is stopped, and goes on.
//!
//! Called by: `mod.rs`. The interfaces that zebra sees are two veths with the names and addresses
//! of our ports, beside which the router itself forwards by its TAPs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::super::Workbench;
use super::super::ip::until;
use super::super::router::scene::{LAN, LIMIT, Scene, WAN, each};
use super::daemons::Frr;
use super::tables::{self, of_kernel, of_ours};

/// The interfaces of the control plane.
pub(super) const INTERFACES: [&str; 8] = [
    "link add wan type veth peer name wan-far",
    "link add lan type veth peer name lan-far",
    "addr add 192.0.2.2/24 dev wan",
    "addr add 2001:db8:1::2/64 dev wan nodad",
    "addr add 198.51.100.1/24 dev lan",
    "addr add 2001:db8:2::1/64 dev lan nodad",
    "link set wan-far up",
    "link set lan-far up",
];

const ZEBRA: &str = "fpm address 127.0.0.1 port 2620\n";
const MODULE: [&str; 2] = ["-M", "dplane_fpm_nl"];

/// Routes of all kinds.
const FIRST: &str = "ip route 10.50.0.0/16 198.51.100.2\n\
                     ip route 10.51.0.0/16 198.51.100.2\n\
                     ip route 10.51.0.0/16 192.0.2.1\n\
                     ip route 10.52.0.0/16 lan\n\
                     ip route 10.53.0.0/16 198.51.100.7\n\
                     ip route 10.56.0.0/16 blackhole\n\
                     ip route 10.57.0.0/16 reject\n\
                     ipv6 route 2001:db8:50::/48 2001:db8:2::2\n\
                     ipv6 route 2001:db8:57::/48 reject\n";
/// Those after a restart: one is gone, one has another next hop, one is new.
const SECOND: &str = "ip route 10.50.0.0/16 198.51.100.2\n\
                      ip route 10.51.0.0/16 192.0.2.1\n\
                      ip route 10.52.0.0/16 lan\n\
                      ip route 10.54.0.0/16 198.51.100.2\n\
                      ipv6 route 2001:db8:50::/48 2001:db8:2::2\n";
/// The end of zebra's routes in the kernel: next hops take theirs along.
const FLUSH: [&str; 4] = [
    "nexthop flush",
    "route del blackhole 10.56.0.0/16",
    "route del unreachable 10.57.0.0/16",
    "-6 route del unreachable 2001:db8:57::/48",
];
/// The sweep comes 60 s after zebra has connected.
const SWEEP: Duration = Duration::from_secs(90);

/// For how long zebra is stopped.
const STOPPED: Duration = Duration::from_secs(20);
/// What the router shows meanwhile comes within this time, beside a busy machine too.
const SOON: Duration = Duration::from_secs(10);

/// A router, and FRR with the first routes.
fn begin(bench: &Workbench) -> Result<(Scene<'_>, Frr)> {
    let config = format!("[frr]\nfpm = \"127.0.0.1:2620\"\n{WAN}{LAN}");
    let scene = Scene::plain(bench, &config)?;
    each(&scene.middle, &INTERFACES)?;
    each(&scene.middle, &["link set wan up", "link set lan up"])?;
    scene.right.ip("addr add 10.50.0.1/32 dev lo")?;
    let (mut frr, at) = (Frr::new(bench, "frr")?, (bench, &scene.middle));
    frr.start(at, "zebra", ZEBRA, &MODULE)?;
    frr.start(at, "staticd", FIRST, &[])?;
    Ok((scene, frr))
}

pub(super) fn routes(bench: &Workbench) -> Result<()> {
    let (scene, mut frr) = begin(bench)?;
    let at = (bench, &scene.middle);
    scene.says("frr: zebra has connected from 127.0.0.1:", 1)?;
    equal(bench, &scene, 8)?;
    scene.answers("10.50.0.1")?;
    let shown = scene.show("frr")?;
    ensure!(shown[0]["peer"].as_str().is_some_and(|a| a.starts_with("127.0.0.1:")), "{shown}");
    for to in ["10.57.0.1", "2001:db8:57::1"] {
        let said = scene.said(&format!("ping -c 1 -W 2 {to}"))?;
        ensure!(said.contains("nreachable") || said.contains("No route"), "{said}");
    }
    let said = scene.said("ping -c 1 -W 1 10.56.0.1")?;
    ensure!(said.contains("100% packet loss") && !said.contains("nreachable"), "{said}");

    let changes = ["conf t", "ip route 10.55.0.0/16 198.51.100.2", "no ip route 10.52.0.0/16 lan"];
    frr.vtysh(at, &changes)?;
    equal(bench, &scene, 8)?;
    ensure!(of_ours(&scene)?.iter().any(|route| route.contains("10.55.0.0/16")), "no new route");
    replayed(bench, &scene, &mut frr)
}

/// zebra is stopped, as by a debugger or a machine without memory: it keeps its connection and says
/// nothing.
pub(super) fn stopped(bench: &Workbench) -> Result<()> {
    let (scene, frr) = begin(bench)?;
    let at = (bench, &scene.middle);
    equal(bench, &scene, 8)?;
    let before = of_ours(&scene)?;
    frr.signal(bench, ("zebra", "-STOP"))?;
    frr.tell(at, "staticd", &["conf t", "ip route 10.55.0.0/16 198.51.100.2"])?;
    let (begun, mut slowest) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < STOPPED {
        let asked = Instant::now();
        ensure!(of_ours(&scene)? == before, "routes changed while zebra was stopped");
        slowest = slowest.max(asked.elapsed());
        scene.answers("10.50.0.1")?;
    }
    ensure!(slowest < SOON, "the router showed its routes after {slowest:.1?}");
    frr.signal(bench, ("zebra", "-CONT"))?;
    equal(bench, &scene, 9)?;
    let times = scene.times("frr: zebra has connected from");
    ensure!(times == 1, "zebra has connected {times} times");
    println!("  the slowest of {STOPPED:?} with zebra stopped: routes shown in {slowest:.1?}");
    scene.answers("10.50.0.1")
}

/// zebra is killed; its routes stay until it is back, and those it does not send again are swept.
fn replayed(bench: &Workbench, scene: &Scene<'_>, frr: &mut Frr) -> Result<()> {
    let before = of_ours(scene)?;
    frr.kill("staticd");
    frr.kill("zebra");
    scene.says("routes stay until zebra has connected again", 1)?;
    ensure!(of_ours(scene)? == before, "the routes changed with the end of zebra");
    scene.answers("10.50.0.1")?;
    // Otherwise zebra finds its old routes in the kernel and deletes them, at times by FPM as well,
    // before we can show that stale routes wait for the sweep.
    each(&scene.middle, &FLUSH)?;
    let left = of_kernel(bench, &scene.middle)?;
    ensure!(left.is_empty(), "the kernel has routes left: {left:?}");
    let at = (bench, &scene.middle);
    frr.start(at, "zebra", ZEBRA, &MODULE)?;
    frr.start(at, "staticd", SECOND, &[])?;
    let has = |prefix: &str| -> Result<bool> {
        Ok(of_ours(scene)?.iter().any(|route| route.contains(prefix)))
    };
    until("the new route arrives", LIMIT, || has("10.54.0.0/16"))?;
    ensure!(has("10.53.0.0/16")?, "a route went before the replay was over");
    until("stale routes are swept", SWEEP, || {
        Ok(scene.times("did not send again are removed") > 0)
    })?;
    ensure!(!has("10.53.0.0/16")?, "a stale route outlives the sweep");
    equal(bench, scene, 5)?;
    scene.answers("10.50.0.1")
}

/// Wait until our routes are so many, and equal those of the kernel.
fn equal(bench: &Workbench, scene: &Scene<'_>, count: usize) -> Result<()> {
    let compare = || tables::same(&of_ours(scene)?, &of_kernel(bench, &scene.middle)?);
    let are_equal = || Ok(of_ours(scene)?.len() == count && compare().is_ok());
    until("our routes are those of the kernel", LIMIT, are_equal)
        .with_context(|| format!("{:?}; the log: {}", compare(), scene.log()))
        .and_then(|()| compare())
}
