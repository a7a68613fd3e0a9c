//! FRR's daemons in a host's namespace. Their configurations, sockets and logs are in a folder of
//! the case, so nothing of the machine's own FRR is read or changed.
//!
//! Called by: the cases of the suite `frr`. Dropping [`Frr`] kills the daemons.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::super::Workbench;
use super::super::host::{Host, Running};
use super::super::ip::until;
use super::super::router::scene::LIMIT;

/// The folder of the daemons in Debian's package.
const DAEMONS: &str = "/usr/lib/frr";

/// The daemons of one host, which its caller keeps.
pub(in crate::interop) struct Frr {
    name: String,
    folder: PathBuf,
    running: BTreeMap<&'static str, Running>,
}

impl Frr {
    /// No daemon yet. The folder is called `name`.
    pub(in crate::interop) fn new(bench: &Workbench, name: &str) -> Result<Frr> {
        let folder = bench.path(name);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("vtysh.conf"), "")?;
        // The daemons are user frr, and make their sockets here.
        bench.run(Command::new("chown").arg("frr:frr").arg(&folder), LIMIT)?;
        Ok(Frr { name: name.to_owned(), folder, running: BTreeMap::new() })
    }

    /// Start a daemon at a host with this configuration and these words, and wait until it answers.
    pub(in crate::interop) fn start(
        &mut self,
        (bench, host): (&Workbench, &Host<'_>),
        daemon: &'static str,
        config: &str,
        words: &[&str],
    ) -> Result<()> {
        let path = |end: &str| self.folder.join(format!("{daemon}.{end}"));
        std::fs::write(path("conf"), config)?;
        let mut command = host.command(&format!("{DAEMONS}/{daemon}"));
        command.arg("-f").arg(path("conf")).arg("-i").arg(path("pid"));
        command.arg("-z").arg(self.folder.join("zserv.api"));
        command.arg("--vty_socket").arg(&self.folder).args(["-P", "0"]);
        command.arg("--log").arg(format!("file:{}", path("log").display())).args(words);
        let running = host.start(&self.printed(daemon), &mut command)?;
        self.running.insert(daemon, running);
        let answers = || {
            let mut vtysh = self.shell(host);
            Ok(bench.run(vtysh.args(["-d", daemon, "-c", "show version"]), LIMIT).is_ok())
        };
        until(&format!("{daemon} answers"), LIMIT, answers)
            .with_context(|| format!("{daemon} said: {}", self.log(bench, daemon)))
    }

    /// What a daemon prints has this name.
    fn printed(&self, daemon: &str) -> String {
        format!("{}-{daemon}", self.name)
    }

    /// The log of a daemon, and what it printed.
    pub(in crate::interop) fn log(&self, bench: &Workbench, daemon: &str) -> String {
        let log = std::fs::read_to_string(self.folder.join(format!("{daemon}.log")));
        let printed = bench.path(&format!("{}.err", self.printed(daemon)));
        let printed = std::fs::read_to_string(printed);
        log.unwrap_or_default() + &printed.unwrap_or_default()
    }

    /// Kill a daemon: it cleans nothing up.
    pub(in crate::interop) fn kill(&mut self, daemon: &str) {
        self.running.remove(daemon);
    }

    /// Was a daemon started, and not killed?
    pub(in crate::interop) fn runs(&self, daemon: &str) -> bool {
        self.running.contains_key(daemon)
    }

    /// Send a daemon this signal, `-STOP` for example.
    pub(in crate::interop) fn signal(
        &self,
        bench: &Workbench,
        (daemon, signal): (&str, &str),
    ) -> Result<()> {
        let id = self.running.get(daemon).context("it does not run")?.id().to_string();
        bench.run(Command::new("kill").args([signal, &id]), LIMIT).map(drop)
    }

    /// Say this to one daemon, whatever the others do.
    pub(in crate::interop) fn tell(
        &self,
        (bench, host): (&Workbench, &Host<'_>),
        daemon: &str,
        commands: &[&str],
    ) -> Result<String> {
        let mut vtysh = self.shell(host);
        vtysh.args(["-d", daemon]);
        for command in commands {
            vtysh.args(["-c", command]);
        }
        bench.run(&mut vtysh, LIMIT)
    }

    /// The output of `vtysh` for these commands.
    pub(in crate::interop) fn vtysh(
        &self,
        (bench, host): (&Workbench, &Host<'_>),
        commands: &[&str],
    ) -> Result<String> {
        let mut vtysh = self.shell(host);
        for command in commands {
            vtysh.args(["-c", command]);
        }
        bench.run(&mut vtysh, LIMIT)
    }

    /// Let all daemons read a configuration, as `vtysh -b` does at a start.
    pub(in crate::interop) fn read(
        &self,
        (bench, host): (&Workbench, &Host<'_>),
        config: &str,
    ) -> Result<()> {
        let file = self.folder.join("frr.conf");
        std::fs::write(&file, config)?;
        bench.run(self.shell(host).arg("-f").arg(file), LIMIT).map(drop)
    }

    fn shell(&self, host: &Host<'_>) -> Command {
        let mut vtysh = host.command("vtysh");
        vtysh.arg("--vty_socket").arg(&self.folder).arg("--config_dir").arg(&self.folder);
        vtysh
    }
}
