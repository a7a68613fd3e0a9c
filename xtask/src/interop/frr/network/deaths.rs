//! What happens to a network in a soak: cables are cut, programs are killed and come back, and
//! configurations are read again.
//!
//! Called by: `soak.rs`. A kernel cannot be killed: its router loses its daemons, their routes and
//! the carrier of its cables for a while.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::super::ip::until;
use super::super::super::router::scene::{LIMIT, tail};
use super::super::tables::{self, Table};
use super::{Kind, Network, Site};

/// Which part of a router is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    /// The process that has the stack; the first process ends with it. The daemons live.
    Worker,
    /// All processes, those of the daemons too.
    All,
}

impl Network<'_> {
    fn site(&self, name: &str) -> Result<&'static Site> {
        let site = self.plan.sites.iter().find(|site| site.name == name);
        site.with_context(|| format!("no router is called {name}"))
    }

    /// Both ends of a cable between routers get a carrier, or lose it.
    pub(in crate::interop::frr) fn set_carrier(&self, cable: usize, has: bool) -> Result<()> {
        self.patch.as_ref().context("cables without bridges")?.set_carrier(cable, has)
    }

    /// All frames of a cable between routers pass, or none.
    pub(in crate::interop::frr) fn set_passing(&self, cable: usize, passes: bool) -> Result<()> {
        self.patch.as_ref().context("cables without bridges")?.set_passing(cable, passes)
    }

    /// Kill a daemon.
    pub(in crate::interop::frr) fn kill(&mut self, name: &str, daemon: &str) -> Result<()> {
        if daemon == "zebra"
            && let Some(said) = self.decided(name)?
        {
            self.router_mut(name)?.last_said = Some(said);
        }
        self.router_mut(name)?.frr.kill(daemon);
        Ok(())
    }

    /// Kill all daemons of a router that still run, and start all.
    pub(in crate::interop::frr) fn restart_daemons(&mut self, name: &str) -> Result<()> {
        let site = self.site(name)?;
        for daemon in site.daemons.iter().chain(&["zebra"]) {
            self.kill(name, daemon)?;
        }
        self.daemons(site)
    }

    /// Start the daemon of a router that does not run, and let it read the configuration.
    pub(in crate::interop::frr) fn start_daemon(
        &mut self,
        name: &str,
        daemon: &'static str,
    ) -> Result<()> {
        let (site, bench, kind) = (self.site(name)?, self.bench, self.kind);
        let router = self.router_mut(name)?;
        router.frr.start((bench, &router.control), daemon, "", &[])?;
        router.frr.read((bench, &router.control), &kind.told(site))
    }

    /// Kill a part of a router, and start it again.
    pub(in crate::interop::frr) fn crash(&mut self, name: &str, victim: Victim) -> Result<()> {
        let site = self.site(name)?;
        if victim == Victim::All {
            for daemon in site.daemons.iter().chain(&["zebra"]) {
                self.kill(name, daemon)?;
            }
        }
        match self.kind {
            Kind::Ours => self.crash_ours(name, victim)?,
            Kind::Kernel => self.crash_kernel(name, victim)?,
        }
        match victim {
            Victim::Worker if self.kind == Kind::Ours => {
                let up = self.up(site, &self.router(name)?.control)?;
                self.router_mut(name)?.up = Some(up);
                Ok(())
            }
            Victim::Worker => Ok(()),
            Victim::All => self.boot(site),
        }
    }

    fn crash_ours(&mut self, name: &str, victim: Victim) -> Result<()> {
        let worker = self.worker(name)?;
        let mut up = self.router_mut(name)?.up.take().context("it does not run")?;
        match victim {
            Victim::Worker => {
                let id = worker.to_string();
                self.bench.run(Command::new("kill").args(["-KILL", &id]), LIMIT)?;
                let status = up.status(LIMIT).context("the worker was killed")?;
                ensure!(!status.success(), "the worker was killed, and the router ends well");
            }
            Victim::All => drop(up),
        }
        // A process that nobody waits for has no command line any more.
        let line = format!("/proc/{worker}/cmdline");
        let is_gone = || Ok(std::fs::read(&line).unwrap_or_default().is_empty());
        until("the worker ends with its first process", LIMIT, is_gone)
    }

    fn crash_kernel(&self, name: &str, victim: Victim) -> Result<()> {
        let patch = self.patch.as_ref().context("cables without bridges")?;
        let of_router = self.plan.cables.iter().enumerate().filter(|(cable, ends)| {
            ends.iter().any(|(at, _)| *at == name)
                && ends.iter().all(|(at, _)| self.routers.contains_key(at))
                && patch.has_carrier(*cable)
        });
        let cables: Vec<usize> = of_router.map(|(cable, _)| cable).collect();
        cables.iter().try_for_each(|cable| patch.set_carrier(*cable, false))?;
        let control = &self.router(name)?.control;
        if victim == Victim::All {
            for version in ["-4", "-6"] {
                let mut flush = Command::new("ip");
                flush.args(["-n", control.name(), version, "route", "flush", "proto", "bgp"]);
                self.bench.run(&mut flush, LIMIT)?;
            }
        }
        cables.iter().try_for_each(|cable| patch.set_carrier(*cable, true))
    }

    /// Let a router of ours read its configuration with these lines more; a kernel has none.
    pub(in crate::interop::frr) fn reload(&self, name: &str, more: &str) -> Result<()> {
        const DONE: &str = "took effect, 0 failed";
        let router = self.router(name)?;
        let Some(up) = &router.up else { return Ok(()) };
        let before = self.log(name).matches(DONE).count();
        let config = Network::config(self.site(name)?, &router.control)?;
        std::fs::write(self.bench.path(&format!("{name}.toml")), config + more)?;
        self.bench.run(Command::new("kill").args(["-HUP", &up.id().to_string()]), LIMIT)?;
        until("it is read again", LIMIT, || Ok(self.log(name).matches(DONE).count() > before))
            .with_context(|| format!("{name} said: {}", tail(&self.log(name))))
    }

    /// Say this to the daemons of a router.
    pub(in crate::interop::frr) fn tell(&self, name: &str, commands: &[&str]) -> Result<String> {
        let router = self.router(name)?;
        router.frr.vtysh((self.bench, &router.control), commands)
    }

    /// The routes that zebra of a router has chosen, by itself; `None` while it does not run.
    pub(in crate::interop::frr) fn decided(&self, name: &str) -> Result<Option<Table>> {
        if !self.router(name)?.frr.runs("zebra") {
            return Ok(None);
        }
        let mut table = Table::new();
        for (version, shown) in [("-4", "show ip route json"), ("-6", "show ipv6 route json")] {
            table.extend(tables::of_zebra(&self.tell(name, &[shown])?, version)?);
        }
        Ok(Some(table))
    }

    /// The routes of a kernel's router as zebra says it has installed them (`show ip fib`), or said
    /// so before it was killed. When a carrier goes and comes back, zebra 8.4.4 does not notice
    /// that the kernel has removed a member of a nexthop group, and packets use the other members
    /// alone until that group changes: the kernel's own table has fewer next hops then.
    pub(in crate::interop::frr) fn fib(&self, name: &str) -> Result<Table> {
        match (self.decided(name)?, &self.router(name)?.last_said) {
            (Some(said), _) => Ok(said),
            (None, Some(said)) => Ok(said.clone()),
            (None, None) => self.table(name),
        }
    }

    /// The two processes of a router of ours.
    pub(in crate::interop::frr) fn processes(&self, name: &str) -> Result<[u32; 2]> {
        let first = self.router(name)?.up.as_ref().context("it does not run")?.id();
        Ok([first, self.worker(name)?])
    }

    /// Does a host get answers to all of these pings, 20 ms apart?
    pub(in crate::interop::frr) fn all_answered(
        &self,
        (from, to): (&str, &str),
        pings: u32,
    ) -> Result<bool> {
        let mut ping = self.place(from)?.command("ping");
        ping.args(["-q", "-c", &pings.to_string(), "-i", "0.02", "-W", "1", to]);
        Ok(self.bench.run(&mut ping, LIMIT).is_ok_and(|said| said.contains(" 0% packet loss")))
    }
}
