//! `frr-soak`: carriers and frames of cables are lost, daemons, workers and routers are killed, and
//! configurations are read again, at random, in a fabric of four routers with traffic. The same
//! happens to a fabric of kernels with the same daemons.
//!
//! Called by: the suite `frr-soak`, by its name alone. After each event the tables of ours have to
//! be those of the kernels' routers (`show ip fib`, see [`Network::fib`]), and those that follow
//! from cables and announcements. How long the daemons take to agree is FRR's affair
//! (advertisements every 10 s, hold times of 3 s); [`LIMIT`] counts from when the daemons of both
//! have decided the same. The printed seed repeats all events.

mod expected;
mod plan;
mod traffic;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::super::Workbench;
use super::super::soaking::{Random, have_not_grown, length_and_seed, resident_kb};
use super::network::{Kind, Network, Victim};
use super::routing::FABRIC;
use super::tables::Table;
use crate::process;
use plan::{Event, Plan, ROUTERS};
use traffic::{TARGETS, Traffic};

/// The time from the daemons' decision until our tables have it.
const LIMIT: Duration = Duration::from_secs(5);
/// The same after zebra was killed: its last routes are swept after 60 s.
const SWEEP: Duration = Duration::from_secs(75);
/// The time until the daemons of both networks decide the same.
const AGREE: Duration = Duration::from_secs(90);
/// Both have to stay equal for this long.
const QUIET: Duration = Duration::from_secs(2);
/// After that no ping may be lost.
const PINGS: u32 = 25;

/// Both networks.
struct Both<'a> {
    ours: Network<'a>,
    theirs: Network<'a>,
}

pub(super) fn run(bench: &Workbench) -> Result<()> {
    let (length, seed) = length_and_seed("frr-soak", bench.soak())?;
    let (mut plan, mut random) = (Plan::default(), Random::new(seed));
    let theirs = Network::patched(bench, &FABRIC, Kind::Kernel)?;
    let mut both = Both { ours: Network::patched(bench, &FABRIC, Kind::Ours)?, theirs };
    settle(&both, &expected::tables(&plan, None), LIMIT).context("at the start")?;
    let (begun, mut memory, mut events) = (Instant::now(), Memory::default(), 0);
    let mut step = |event: Event, plan: &mut Plan| -> Result<()> {
        events += 1;
        let at = begun.elapsed().as_secs();
        let said = one(bench, &mut both, event, plan).with_context(|| {
            let states = [&both.theirs, &both.ours].map(|of| of.states().unwrap_or_default());
            let states = states.join("\nours:\n");
            format!("seed {seed}, event {events} after {at} s: {event}\n{states}")
        })?;
        let lacking = match lacking(&both.theirs)? {
            0 => String::new(),
            n => format!("; {n} kernels lack next hops that zebra has"),
        };
        println!("  {at:4} s: {event}: {said}{lacking}");
        memory.look(&both.ours)
    };
    while begun.elapsed() < length {
        ensure!(!process::interrupted(), "interrupted");
        let event = plan.next(&mut random);
        step(event, &mut plan)?;
    }
    while let Some(event) = plan.repair() {
        step(event, &mut plan)?;
    }
    println!("  {events} events");
    memory.has_not_grown(&both.ours)
}

/// Let an event happen to both, with traffic through ours; returns what to print.
fn one(bench: &Workbench, both: &mut Both<'_>, event: Event, plan: &mut Plan) -> Result<String> {
    let traffic = Traffic::begin(bench, &both.ours)?;
    let mut said = String::new();
    for part in parts(event) {
        part.happens(both)?;
        if let (Event::Bgpd(n) | Event::Zebra(n), true) = (event, part.is_last) {
            plan.forget(n);
        }
        let without = match event {
            Event::Bgpd(n) if !part.is_last => Some(n),
            _ => None,
        };
        let settled = settle(both, &expected::tables(plan, without), part.limit)?;
        let Settled { equal, behind } = settled;
        write!(said, "{}equal after {:.1} s", part.name, equal.as_secs_f64())?;
        write!(said, " ({:.1} s after the daemons agreed); ", behind.as_secs_f64())?;
    }
    let lost = traffic.end();
    for ((lost, sent), version) in lost.into_iter().zip(["IPv4", "IPv6"]) {
        write!(said, "{version} lost {lost} of {sent} pings; ")?;
    }
    if !plan.leads() {
        return Ok(said + "no path is left");
    }
    let begun = Instant::now();
    for to in TARGETS {
        while !both.ours.all_answered(("h1", to), PINGS)? {
            ensure!(
                begun.elapsed() < LIMIT,
                "tables are equal, but pings to {to} are lost: {said}"
            );
        }
    }
    Ok(said + "then none")
}

/// A part of an event, after which both settle.
struct Part {
    name: &'static str,
    acts: fn(&mut Network<'_>, Event) -> Result<()>,
    event: Event,
    limit: Duration,
    /// Killed daemons run again.
    is_last: bool,
}

impl Part {
    fn happens(&self, both: &mut Both<'_>) -> Result<()> {
        (self.acts)(&mut both.theirs, self.event)?;
        (self.acts)(&mut both.ours, self.event)
    }
}

fn parts(event: Event) -> Vec<Part> {
    let part = |name, acts| Part { name, acts, event, limit: LIMIT, is_last: true };
    let first = |acts| Part { is_last: false, ..part("without it ", acts) };
    match event {
        Event::Bgpd(_) => vec![first(kill_bgpd), part("with it ", start_bgpd)],
        Event::Zebra(_) => {
            vec![first(kill_zebra), Part { limit: SWEEP, ..part("with it ", restart) }]
        }
        _ => vec![part("", whole)],
    }
}

/// All of an event that has one part.
fn whole(network: &mut Network<'_>, event: Event) -> Result<()> {
    match event {
        Event::Cut(cable) => network.set_carrier(cable, false),
        Event::Silence(cable) => network.set_passing(cable, false),
        Event::Repair { cable, had_carrier: true } => network.set_passing(cable, true),
        Event::Repair { cable, .. } => network.set_carrier(cable, true),
        Event::Worker(n) => network.crash(ROUTERS[n], Victim::Worker),
        Event::Router(n) => network.crash(ROUTERS[n], Victim::All),
        Event::Reload { router, has_more } => {
            let more = "\n[[route]]\nto = \"10.99.0.0/16\"\ntype = \"blackhole\"\n";
            network.reload(ROUTERS[router], if has_more { more } else { "" })
        }
        Event::Announce { router, is_withdrawn } => announce(network, router, is_withdrawn),
        Event::Bgpd(_) | Event::Zebra(_) => bail!("it has parts"),
    }
}

fn kill_bgpd(network: &mut Network<'_>, event: Event) -> Result<()> {
    network.kill(router(event)?, "bgpd")
}

fn start_bgpd(network: &mut Network<'_>, event: Event) -> Result<()> {
    network.start_daemon(router(event)?, "bgpd")
}

fn kill_zebra(network: &mut Network<'_>, event: Event) -> Result<()> {
    network.kill(router(event)?, "zebra")
}

/// watchfrr starts all daemons again when zebra ends.
fn restart(network: &mut Network<'_>, event: Event) -> Result<()> {
    network.restart_daemons(router(event)?)
}

fn router(event: Event) -> Result<&'static str> {
    match event {
        Event::Bgpd(n) | Event::Zebra(n) => Ok(ROUTERS[n]),
        _ => bail!("{event}: it is of no daemon"),
    }
}

/// bgpd announces a network of its own, or withdraws it.
fn announce(network: &Network<'_>, router: usize, is_withdrawn: bool) -> Result<()> {
    const SYSTEMS: [u32; 4] = [65001, 65002, 65011, 65012];
    let bgp = format!("router bgp {}", SYSTEMS[router]);
    let no = if is_withdrawn { "no " } else { "" };
    let [v4, v6] = expected::announced(router).map(|network| format!("{no}network {network}"));
    let (v4_family, v6_family) = ("address-family ipv4 unicast", "address-family ipv6 unicast");
    let commands =
        ["conf t", &bgp, "no bgp network import-check", v4_family, &v4, "exit", v6_family, &v6];
    network.tell(ROUTERS[router], &commands).map(drop)
}

/// How long it took until both were equal.
struct Settled {
    equal: Duration,
    /// From when the daemons of both had decided the same.
    behind: Duration,
}

/// The tables of all routers at one time.
struct Look {
    ours: Vec<Table>,
    decided: Vec<Table>,
    theirs: Vec<Table>,
}

impl Look {
    fn at(both: &Both<'_>) -> Result<Look> {
        let all = |read: &dyn Fn(&str) -> Result<Table>| -> Result<Vec<Table>> {
            ROUTERS.iter().map(|name| read(name)).collect()
        };
        Ok(Look {
            theirs: all(&|name| both.theirs.fib(name)).context("of the kernels")?,
            decided: all(&|name| match both.ours.decided(name)? {
                Some(table) => Ok(table),
                // What was decided before stays.
                None => both.theirs.fib(name),
            })
            .context("of our daemons")?,
            ours: all(&|name| both.ours.table(name)).context("ours")?,
        })
    }

    /// What differs, by router.
    fn difference(&self, expected: &[Table]) -> String {
        let mut text = String::new();
        for (n, name) in ROUTERS.iter().enumerate() {
            let all =
                [("ours", &self.ours), ("our zebra", &self.decided), ("kernel's", &self.theirs)];
            for (of, tables) in all {
                if tables[n] != expected[n] {
                    text += &format!("{name}, {of}: {:?}, not {:?}\n", tables[n], expected[n]);
                }
            }
        }
        text
    }
}

/// How many of the kernels' tables lack a next hop that their zebra takes for installed.
fn lacking(theirs: &Network<'_>) -> Result<usize> {
    let lacks = |name: &&str| -> Result<bool> { Ok(theirs.table(name)? != theirs.fib(name)?) };
    let all: Result<Vec<bool>> = ROUTERS.iter().map(lacks).collect();
    Ok(all?.into_iter().filter(|lacks| *lacks).count())
}

/// Wait until our tables and the kernels' are those expected, and stay so.
fn settle(both: &Both<'_>, expected: &[Table], limit: Duration) -> Result<Settled> {
    let begun = Instant::now();
    let (mut agreed, mut equal) = (None, None);
    loop {
        ensure!(!process::interrupted(), "interrupted");
        let look = Look::at(both)?;
        // Seen at the latest now.
        let now = Instant::now();
        if look.decided == expected && look.theirs == expected {
            agreed.get_or_insert(now);
        } else {
            agreed = None;
        }
        if look.ours == expected && agreed.is_some() {
            equal.get_or_insert(now);
        } else {
            equal = None;
        }
        if let (Some(equal), Some(agreed)) = (equal, agreed) {
            if equal.elapsed() >= QUIET {
                return Ok(Settled { equal: equal - begun, behind: equal - agreed });
            }
        } else if let Some(agreed) = agreed {
            let behind = agreed.elapsed();
            ensure!(
                behind <= limit,
                "ours differ {behind:.1?} later:\n{}",
                look.difference(expected)
            );
        } else {
            ensure!(
                begun.elapsed() <= AGREE,
                "the daemons do not agree:\n{}",
                look.difference(expected)
            );
        }
    }
}

/// Resident memory of our processes when it was looked at first, in KB.
#[derive(Default)]
struct Memory(Vec<([u32; 2], [u64; 2])>);

impl Memory {
    /// Look at processes that are new since the last time.
    fn look(&mut self, ours: &Network<'_>) -> Result<()> {
        for name in ROUTERS {
            let processes = ours.processes(name)?;
            if self.0.iter().all(|(known, _)| *known != processes) {
                self.0.push((processes, resident_kb(processes)?));
            }
        }
        Ok(())
    }

    fn has_not_grown(&self, ours: &Network<'_>) -> Result<()> {
        for name in ROUTERS {
            let processes = ours.processes(name)?;
            let Some((_, first_kb)) = self.0.iter().find(|(known, _)| *known == processes) else {
                continue;
            };
            let last_kb = resident_kb(processes)?;
            println!("  {name}: resident memory {first_kb:?} KB, then {last_kb:?}");
            have_not_grown(*first_kb, last_kb)?;
        }
        Ok(())
    }
}
