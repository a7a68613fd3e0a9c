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

/// The daemons of one host.
pub(in crate::interop) struct Frr<'a> {
    bench: &'a Workbench,
    host: &'a Host<'a>,
    folder: PathBuf,
    running: BTreeMap<&'static str, Running>,
}

impl<'a> Frr<'a> {
    /// No daemon yet. The folder is called `name`.
    pub(in crate::interop) fn new(
        bench: &'a Workbench,
        host: &'a Host<'a>,
        name: &str,
    ) -> Result<Frr<'a>> {
        let folder = bench.path(name);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("vtysh.conf"), "")?;
        // The daemons are user frr, and make their sockets here.
        bench.run(Command::new("chown").arg("frr:frr").arg(&folder), LIMIT)?;
        Ok(Frr { bench, host, folder, running: BTreeMap::new() })
    }

    /// Start a daemon with this configuration and these words, and wait until it answers.
    pub(in crate::interop) fn start(
        &mut self,
        daemon: &'static str,
        config: &str,
        words: &[&str],
    ) -> Result<()> {
        let path = |end: &str| self.folder.join(format!("{daemon}.{end}"));
        std::fs::write(path("conf"), config)?;
        let mut command = self.host.command(&format!("{DAEMONS}/{daemon}"));
        command.arg("-f").arg(path("conf")).arg("-i").arg(path("pid"));
        command.arg("-z").arg(self.folder.join("zserv.api"));
        command.arg("--vty_socket").arg(&self.folder).args(["-P", "0"]);
        command.arg("--log").arg(format!("file:{}", path("log").display())).args(words);
        let running = self.host.start(daemon, &mut command)?;
        self.running.insert(daemon, running);
        let answers = || Ok(self.ask(Some(daemon), &["show version"]).is_ok());
        until(&format!("{daemon} answers"), LIMIT, answers)
            .with_context(|| format!("{daemon} said: {}", self.log(daemon)))
    }

    /// The log of a daemon, and what it printed.
    pub(in crate::interop) fn log(&self, daemon: &str) -> String {
        let log = std::fs::read_to_string(self.folder.join(format!("{daemon}.log")));
        let printed = std::fs::read_to_string(self.bench.path(&format!("{daemon}.err")));
        log.unwrap_or_default() + &printed.unwrap_or_default()
    }

    /// Kill a daemon: it cleans nothing up.
    pub(in crate::interop) fn kill(&mut self, daemon: &str) {
        self.running.remove(daemon);
    }

    /// The output of `vtysh` for these commands.
    pub(in crate::interop) fn vtysh(&self, commands: &[&str]) -> Result<String> {
        self.ask(None, commands)
    }

    fn ask(&self, daemon: Option<&str>, commands: &[&str]) -> Result<String> {
        let mut vtysh = self.host.command("vtysh");
        vtysh.arg("--vty_socket").arg(&self.folder).arg("--config_dir").arg(&self.folder);
        if let Some(daemon) = daemon {
            vtysh.args(["-d", daemon]);
        }
        for command in commands {
            vtysh.args(["-c", command]);
        }
        self.bench.run(&mut vtysh, LIMIT)
    }
}
