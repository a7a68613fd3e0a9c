//! Forwarding beside punting, and beside mirrors and FPM. Called by the table of bench `frr`.
//!
//! `wirespeed up` forwards between two veths, on a core of its own, as fast as it can; the cost is
//! the CPU time of the process with its stack. What the kernel does with punted packets is in it:
//! the softirq of a mirror runs in the router's system call.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::daemons::{Frr, MODULE};
use super::load::{Counted, FAR, Load, NEAR, SINK, SOURCE, networks};
use super::router::{METRICS, Metrics, Router};
use super::space::{Space, until};
use super::world;
use super::world::World;
use crate::gateway::processes;
use crate::harness::{Bench, Figure, paired};
use crate::measure::{median, pin};

/// Punted packets a second that belong to no routing protocol, by default.
const RATE: f64 = 1_000.0;
/// Routes, to as many networks; the load is spread over them.
const ROUTES: u32 = 1_000;
/// How long zebra may take to connect and to send them.
const LIMIT: Duration = Duration::from_secs(30);
/// Pairs are more than those of other benches, because the differences are small.
const PAIRS: usize = 4;
/// A tenth of a second's punted packets may come at once; they have after so many seconds.
const AT_ONCE_S: f64 = 0.15;
/// The time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// The namespaces of a router.
struct Ground {
    router: Space,
    hosts: Space,
    control: Space,
}

impl Ground {
    fn new() -> Result<Ground> {
        let [router, hosts] = [Space::new("router")?, Space::new("hosts")?];
        let control = Space::new("control")?;
        for (port, end) in [("near", &NEAR), ("far", &FAR)] {
            Space::join((&router, port, 0), (&hosts, port))?;
            router.ip(&format!("link set {port} address {}", end.mac))?;
            router.leave_to_router(port)?;
            // The hosts leave everything to the load.
            hosts.leave_to_router(port)?;
        }
        Ok(Ground { router, hosts, control })
    }

    /// The configuration of a router, with routes by FPM and mirrors, or mirrors alone, or neither.
    fn config(&self, has_mirrors: bool, has_fpm: bool) -> Result<String> {
        let mut text = METRICS.to_owned();
        for (port, own, host) in [("near", &NEAR, &SOURCE), ("far", &FAR, &SINK)] {
            writeln!(text, "[[port]]\nname = \"{port}\"\ndevice = \"packet:{port}\"")?;
            writeln!(text, "addresses = [\"{}/24\"]", own.addr)?;
            writeln!(text, "[[neighbour]]\nport = \"{port}\"\naddress = \"{}\"", host.addr)?;
            writeln!(text, "mac = \"{}\"", host.mac)?;
        }
        let control = self.control.name();
        if has_mirrors {
            writeln!(text, "[control]\nmirrors = \"all\"\nnamespace = \"{control}\"")?;
        }
        if has_fpm {
            writeln!(text, "[frr]\nfpm = \"127.0.0.1:2620\"\nnamespace = \"{control}\"")?;
            return Ok(text);
        }
        for network in networks(ROUTES) {
            writeln!(text, "[[route]]\nto = \"{network}\"\nvia = \"{}\"", SINK.addr)?;
        }
        Ok(text)
    }
}

/// A router with a load.
struct Forwarder<'a> {
    name: &'static str,
    router: Router<'a>,
    load: Load,
    /// Counts what is punted, if there is a mirror.
    mirror: Option<Counted>,
    _zebra: Option<Frr<'a>>,
}

/// What has passed in a window, and what it cost.
struct Window {
    forwarded: u64,
    cpu_s: f64,
    wall_s: f64,
    punted: u64,
}

impl<'a> Forwarder<'a> {
    fn new(
        (world, b): (&World, &Bench),
        ground: &'a Ground,
        (name, has_mirrors, has_fpm): (&'static str, bool, bool),
    ) -> Result<Forwarder<'a>> {
        // The router has a core of its own, if there are two, and programs have that of their
        // parent.
        pin(&[b.cores.second.unwrap_or(b.cores.first)])?;
        let config = ground.config(has_mirrors, has_fpm)?;
        let router = Router::start(world, &ground.router, ground.router.name(), &config);
        pin(&[b.cores.first])?;
        let router = router?;
        let (mut mirror, mut frr) = (None, None);
        if has_mirrors {
            let addressed = format!("-4 route get {} from {}", SOURCE.addr, NEAR.addr);
            let is_there = || Ok(ground.control.ip(&addressed).is_ok());
            until("there is a mirror", LIMIT, LOOK, is_there).with_context(|| router.said())?;
            mirror = Some(Counted::of(&ground.control, "near")?);
        }
        if has_fpm {
            frr = Some(zebra(world, ground)?);
            let has_all = || {
                let metrics = router.beside(Metrics::read)?;
                Ok(metrics.value("fpm_routes")? == u64::from(ROUTES))
            };
            let what = format!("zebra sends {ROUTES} routes");
            until(&what, LIMIT, LOOK, has_all).with_context(|| router.said())?;
        }
        let load = Load::new(&ground.hosts, ROUTES)?;
        Ok(Forwarder { name, router, load, mirror, _zebra: frr })
    }

    /// Forwards for `seconds`, with these packets a second for the router itself.
    fn window(&mut self, seconds: f64, to_router_per_s: f64) -> Result<Window> {
        if to_router_per_s > 0.0 {
            // The packets that may be punted at once are not a part of the window.
            self.load.run(AT_ONCE_S, to_router_per_s)?;
        }
        let worker = [self.router.worker()?.cast_signed()];
        let mirror = self.mirror.as_ref();
        let punted = || mirror.map_or(Ok(0), Counted::packets);
        let before = punted()?;
        let (begun, cpu_s) = (Instant::now(), processes::cpu_s(&worker)?);
        let forwarded = self.load.run(seconds, to_router_per_s)?;
        let cpu_s = processes::cpu_s(&worker)? - cpu_s;
        let wall_s = begun.elapsed().as_secs_f64();
        let window = Window { forwarded, cpu_s, wall_s, punted: punted()? - before };
        ensure!(cpu_s > 0.0 && forwarded > 0, "nothing is forwarded: {}", self.router.said());
        eprintln!(
            "    {} with {to_router_per_s:.0} packets a second for itself: {}",
            self.name,
            window.shown()
        );
        Ok(window)
    }
}

impl Window {
    fn per_cpu_s(&self) -> f64 {
        self.forwarded as f64 / self.cpu_s
    }

    fn shown(&self) -> String {
        format!(
            "{:.3} M packets a CPU-second, {:.3} M a second, {:.2} of a core, {} punted",
            self.per_cpu_s() * 1e-6,
            self.forwarded as f64 / self.wall_s * 1e-6,
            self.cpu_s / self.wall_s,
            self.punted
        )
    }
}

/// zebra with static routes to all networks.
fn zebra<'a>(world: &World, ground: &'a Ground) -> Result<Frr<'a>> {
    let mut frr = Frr::new(world, &ground.control, &format!("frr-{}", ground.control.name()))?;
    frr.start("zebra", "fpm address 127.0.0.1 port 2620\n", &MODULE)?;
    let mut routes = String::new();
    for network in networks(ROUTES) {
        writeln!(routes, "ip route {network} {}", SINK.addr)?;
    }
    frr.start("staticd", &routes, &[])?;
    Ok(frr)
}

/// SYNs for the router at ten times the limit, beside the load, over the load alone.
pub(super) fn beyond_the_limit(b: &Bench) -> Result<Figure> {
    let (world, ground) = (world(b)?, Ground::new()?);
    let mut router = Forwarder::new((world, b), &ground, ("mirrors", true, false))?;
    let (mut shown_with, mut shown_without) = (String::new(), String::new());
    let mut punted_per_s = Vec::new();
    let seconds = b.seconds;
    router.window(b.trial_s, 0.0)?;
    let router = std::cell::RefCell::new(router);
    let samples = paired(
        PAIRS * b.pairs,
        || {
            let window = router.borrow_mut().window(seconds, 10.0 * RATE)?;
            punted_per_s.push(window.punted as f64 / window.wall_s);
            shown_with = window.shown();
            Ok(window.per_cpu_s())
        },
        || {
            let window = router.borrow_mut().window(seconds, 0.0)?;
            shown_without = window.shown();
            Ok(window.per_cpu_s())
        },
    )?;
    let punted = median(&punted_per_s);
    ensure!(
        (0.9 * RATE..1.2 * RATE).contains(&punted),
        "{punted:.0} packets a second were punted, not {RATE:.0}"
    );
    let (with, without) = (shown_with, shown_without);
    let note = format!(
        "packets a CPU-second of the router; with {:.0} SYNs a second for it, of which \
         {punted:.0} are punted: {with}; without: {without}; the last pair",
        10.0 * RATE
    );
    Ok(Figure { value: median(&samples), samples, note })
}

/// Mirrors and routes by FPM over neither, with the same routes by the file.
pub(super) fn with_mirrors(b: &Bench) -> Result<Figure> {
    let (world, grounds) = (world(b)?, [Ground::new()?, Ground::new()?]);
    let mut on = Forwarder::new((world, b), &grounds[0], ("on", true, true))?;
    let mut off = Forwarder::new((world, b), &grounds[1], ("off", false, false))?;
    let (mut shown_with, mut shown_without) = (String::new(), String::new());
    on.window(b.trial_s, 0.0)?;
    off.window(b.trial_s, 0.0)?;
    let samples = paired(
        PAIRS * b.pairs,
        || {
            let window = on.window(b.seconds, 0.0)?;
            shown_with = window.shown();
            Ok(window.per_cpu_s())
        },
        || {
            let window = off.window(b.seconds, 0.0)?;
            shown_without = window.shown();
            Ok(window.per_cpu_s())
        },
    )?;
    let (with, without) = (shown_with, shown_without);
    let note = format!(
        "packets a CPU-second of the router; on, {ROUTES} routes by FPM: {with}; off, the same \
         routes by the file: {without}; the last pair; zebra {}",
        world.zebra
    );
    Ok(Figure { value: median(&samples), samples, note })
}
