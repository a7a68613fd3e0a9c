//! FRR's daemons and BIRD in a namespace. Their configurations, sockets and logs are in a folder of
//! the run, so nothing of the machine's own FRR is read or changed. Called by the rows. The daemons
//! end with their values.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::space::{End, Running, Space, run, until};
use super::world::World;

/// The folder of the daemons in Debian's package.
const DAEMONS: &str = "/usr/lib/frr";
/// The module that sends routes by FPM.
pub(super) const MODULE: [&str; 2] = ["-M", "dplane_fpm_nl"];
/// How long a daemon may take until it answers.
const LIMIT: Duration = Duration::from_secs(30);

/// Daemons of FRR in one namespace.
pub(super) struct Frr<'a> {
    space: &'a Space,
    folder: PathBuf,
    running: Vec<Running>,
}

impl<'a> Frr<'a> {
    /// No daemon yet; `name` is that of their folder.
    ///
    /// # Errors
    /// There is no user frr.
    pub(super) fn new(world: &World, space: &'a Space, name: &str) -> Result<Frr<'a>> {
        let folder = world.path(name);
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("vtysh.conf"), "")?;
        run(Command::new("chown").arg("frr:frr").arg(&folder))?;
        Ok(Frr { space, folder, running: Vec::new() })
    }

    /// Starts a daemon with this configuration and these words, and waits until it answers.
    ///
    /// # Errors
    /// It does not start; the error has its words.
    pub(super) fn start(&mut self, daemon: &str, config: &str, words: &[&str]) -> Result<()> {
        let path = |end: &str| self.folder.join(format!("{daemon}.{end}"));
        std::fs::write(path("conf"), config)?;
        let mut command = self.space.command(format!("{DAEMONS}/{daemon}"));
        command.arg("-f").arg(path("conf")).arg("-i").arg(path("pid"));
        command.arg("-z").arg(self.folder.join("zserv.api"));
        command.arg("--vty_socket").arg(&self.folder).args(["-P", "0"]);
        command.arg("--log").arg(format!("file:{}", path("log").display())).args(words);
        let running = Running::start(&mut command, &path("out"), End::Killed)?;
        let mut answers = || {
            let mut vtysh = self.shell();
            Ok(run(vtysh.args(["-d", daemon, "-c", "show version"])).is_ok())
        };
        until(&format!("{daemon} answers"), LIMIT, Duration::from_millis(100), &mut answers)
            .with_context(|| {
                let said = ["log", "out"].map(|end| std::fs::read_to_string(path(end)));
                said.into_iter().map(Result::unwrap_or_default).collect::<String>()
            })?;
        // In the order of their ends: zebra, which the others use, is the last one.
        self.running.insert(0, running);
        Ok(())
    }

    /// What `vtysh` prints for these commands.
    ///
    /// # Errors
    /// A command is refused.
    pub(super) fn vtysh(&self, commands: &[&str]) -> Result<String> {
        let mut vtysh = self.shell();
        for command in commands {
            vtysh.args(["-c", command]);
        }
        run(&mut vtysh)
    }

    /// Has all daemons read a configuration, as `vtysh -b` does at a start.
    ///
    /// # Errors
    /// A line is refused.
    pub(super) fn read(&self, config: &str) -> Result<()> {
        let file = self.folder.join("frr.conf");
        std::fs::write(&file, config)?;
        run(self.shell().arg("-f").arg(file)).map(drop)
    }

    fn shell(&self) -> Command {
        let mut vtysh = self.space.command("vtysh");
        vtysh.arg("--vty_socket").arg(&self.folder).arg("--config_dir").arg(&self.folder);
        vtysh
    }
}

/// BIRD in a namespace.
pub(super) struct Bird<'a> {
    space: &'a Space,
    socket: PathBuf,
    _running: Running,
}

impl<'a> Bird<'a> {
    /// Starts it; `name` is that of its files.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start(
        world: &World,
        space: &'a Space,
        name: &str,
        config: &str,
    ) -> Result<Bird<'a>> {
        let path = |end: &str| world.path(format!("{name}.{end}"));
        std::fs::write(path("conf"), config)?;
        let socket = path("ctl");
        let mut command = space.command("bird");
        command.arg("-f").arg("-c").arg(path("conf")).arg("-s").arg(&socket);
        command.arg("-P").arg(path("pid"));
        let running = Running::start(&mut command, &path("out"), End::Killed)?;
        let bird = Bird { space, socket, _running: running };
        let answers = || Ok(bird.ask(&["show", "status"]).is_ok());
        until("bird answers", LIMIT, Duration::from_millis(100), answers)
            .with_context(|| std::fs::read_to_string(path("out")).unwrap_or_default())?;
        Ok(bird)
    }

    /// What `birdc` prints for a command.
    ///
    /// # Errors
    /// The command is refused.
    pub(super) fn ask(&self, words: &[&str]) -> Result<String> {
        run(self.space.command("birdc").arg("-s").arg(&self.socket).args(words))
    }
}
