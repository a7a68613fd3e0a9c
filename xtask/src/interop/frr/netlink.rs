//! Routes that BIRD, and `ip route` with a daemon's protocol, write into the kernel's tables of the
//! control namespace: they arrive, change and go; two metrics; more at once than a socket holds.
//!
//! Called by: `mod.rs`.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use super::super::Workbench;
use super::super::host::{Host, Running};
use super::super::ip::until;
use super::super::router::scene::{LAN, LIMIT, Scene, WAN, each};
use super::fpm::INTERFACES;
use super::tables::{self, Table, of_daemon, of_kernel};

/// Routes of one batch.
const MANY: u32 = 20_000;

const BIRD: &str = "router id 192.0.2.2;
protocol device {}
protocol kernel { ipv4 { export all; }; }
protocol kernel { ipv6 { export all; }; }
protocol static { ipv4;
  route 10.61.0.0/16 via 198.51.100.2;
  route 10.62.0.0/16 blackhole;
  route 10.63.0.0/16 via 198.51.100.2 via 192.0.2.1;
}
protocol static { ipv6; route 2001:db8:61::/48 via 2001:db8:2::2; }
";

pub(super) fn routes(bench: &Workbench) -> Result<()> {
    let control = Host::without_tap(bench)?;
    let name = control.name();
    let config = format!("[frr]\nnetlink = true\nnamespace = \"{name}\"\n{WAN}{LAN}");
    let scene = Scene::plain(bench, &config)?;
    each(&control, &INTERFACES)?;
    each(&control, &["link set wan up", "link set lan up"])?;
    scene.right.ip("addr add 10.61.0.1/32 dev lo")?;
    by_hand(bench, &scene, &control)?;
    many(bench, &scene, &control)?;
    let bird = start_bird(bench, &control)?;
    equal(bench, &scene, &control, 4)?;
    scene.answers("10.61.0.1")?;
    drop(bird);
    equal(bench, &scene, &control, 4).context("BIRD was killed")?;
    // The kernel takes the routes of a link away without a message.
    control.ip("link set lan down")?;
    until("routes by the link are gone", LIMIT, || {
        Ok(!ours(&scene)?.iter().any(|route| route.contains("10.61.0.0/16")))
    })
}

/// `ip route` as another daemon: protocols, metrics, replacement.
fn by_hand(bench: &Workbench, scene: &Scene<'_>, control: &Host<'_>) -> Result<()> {
    control.ip("route add 10.59.0.0/16 via 198.51.100.2")?;
    control.ip("route add 10.60.0.0/16 via 198.51.100.2 proto bird metric 32")?;
    equal(bench, scene, control, 1)?;
    control.ip("route add 10.60.0.0/16 via 192.0.2.1 proto bird metric 5")?;
    let leads = |via: &str| -> Result<bool> {
        let all = ours(scene)?;
        Ok(all.len() == 1 && all.iter().all(|route| route.contains(via)))
    };
    until("the better metric is used", LIMIT, || leads("192.0.2.1 wan"))?;
    control.ip("route del 10.60.0.0/16 metric 5")?;
    until("the other metric is used again", LIMIT, || leads("198.51.100.2 lan"))?;
    control.ip("route replace 10.60.0.0/16 via 192.0.2.1 proto bird metric 32")?;
    until("it is replaced", LIMIT, || leads("192.0.2.1 wan"))?;
    ensure!(ours(scene)?.iter().all(|route| !route.contains("10.59")), "a route of no daemon");
    control.ip("route del 10.60.0.0/16 metric 32")?;
    until("it is gone", LIMIT, || Ok(ours(scene)?.is_empty()))
}

/// A batch, which fills the socket, and its end.
fn many(bench: &Workbench, scene: &Scene<'_>, control: &Host<'_>) -> Result<()> {
    for (verb, count) in [("add", MANY), ("del", 0)] {
        let mut batch = String::new();
        for n in 0..MANY {
            let to = std::net::Ipv4Addr::from_bits(0x0b00_0000 + (n << 8));
            writeln!(batch, "route {verb} {to}/24 via 198.51.100.2 dev lan proto bird")?;
        }
        std::fs::write(bench.path("batch"), batch)?;
        let mut ip = control.command("ip");
        bench.run(ip.arg("-batch").arg(bench.path("batch")), LIMIT)?;
        until("all of a batch arrived", LIMIT, || Ok(ours(scene)?.len() == count as usize))
            .with_context(|| format!("{verb}: {:?} routes", ours(scene).map(|all| all.len())))?;
    }
    Ok(())
}

fn start_bird(bench: &Workbench, control: &Host<'_>) -> Result<Running> {
    std::fs::write(bench.path("bird.conf"), BIRD)?;
    let mut bird = control.command("bird");
    bird.arg("-f").arg("-c").arg(bench.path("bird.conf"));
    bird.arg("-s").arg(bench.path("bird.ctl")).arg("-P").arg(bench.path("bird.pid"));
    control.start("bird", &mut bird)
}

fn ours(scene: &Scene<'_>) -> Result<Table> {
    of_daemon(scene, "rtnetlink")
}

fn equal(bench: &Workbench, scene: &Scene<'_>, control: &Host<'_>, count: usize) -> Result<()> {
    let compare = || tables::same(&ours(scene)?, &of_kernel(bench, control)?);
    let are_equal = || Ok(ours(scene)?.len() == count && compare().is_ok());
    until("our routes are those of the kernel", LIMIT, are_equal)
        .with_context(|| format!("{:?}", ours(scene)))
        .and_then(|()| compare())
}
