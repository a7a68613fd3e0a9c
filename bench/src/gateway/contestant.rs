//! A gateway that runs, with a client behind it: ours, pasta, slirp4netns, or none, where the
//! client is in the host's namespace itself; or ours or passt, with the client in a machine. Called
//! by the rows. Gateways run as an ordinary user, as people run them.
//!
//! A gateway ends when its client ends, and the client when its standard input does: with this
//! value, and with this process.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::machine::UNTIL_END;
use super::policies;
use super::processes;
use super::server::SERVER;
use super::world::{USER, World};
use crate::build;

/// How long a client may take for an answer. pasta's uploads may stand still for seconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the client may take to begin: a machine starts first.
const BEGIN: Duration = Duration::from_secs(60);
/// How long a gateway may take to end.
const END: Duration = Duration::from_secs(4);

/// What is between the client and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `wirespeed netns`.
    Ours,
    /// The same with a link.
    Linked(&'static str),
    /// The same without a limit of connects a second.
    Unlimited,
    /// The same with a thousand rules, too.
    Ruled,
    /// passt's pasta.
    Pasta,
    /// slirp4netns.
    Slirp,
    /// `wirespeed gateway` with a machine of QEMU, in which the client is.
    OursAtQemu,
    /// passt in its place.
    Passt,
    /// Nothing: the kernel of the host.
    Direct,
}

impl Kind {
    /// Its name in notes.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Ours => "ours",
            Kind::Linked(_) => "ours with a link",
            Kind::Unlimited => "ours without a limit of connects",
            Kind::Ruled => "ours with rules",
            Kind::Pasta => "pasta",
            Kind::Slirp => "slirp4netns",
            Kind::OursAtQemu => "ours at QEMU",
            Kind::Passt => "passt",
            Kind::Direct => "direct",
        }
    }
}

/// A gateway, or what does its work, with a client.
pub(super) struct Contestant<'a> {
    pub(super) kind: Kind,
    world: &'a World,
    client: Running,
    answers: Receiver<String>,
    /// What the gateway says beside its work.
    errors: PathBuf,
    /// slirp4netns, which is started after its client; what serves a machine, before it.
    beside: Option<Running>,
    /// The processes of the gateway.
    pub(super) helpers: Vec<i32>,
}

/// A process that is ended on drop: by the end of its input, else by a signal.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.input.take());
        let begun = Instant::now();
        while begun.elapsed() < END {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        eprintln!("    process {} did not end, and is killed", self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Contestant<'a> {
    /// Starts a gateway and a client behind it.
    ///
    /// # Errors
    /// There is no such peer here, or it does not start. The error has its words.
    pub(super) fn start(world: &'a World, kind: Kind) -> Result<Contestant<'a>> {
        ensure!(!build::interrupted(), "interrupted");
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let errors = world.scratch.0.join(format!("errors-{number}"));
        File::create(&errors).context("making a file for errors")?;
        let socket = world.scratch.0.join(format!("run/vm-{number}"));
        let beside = match kind {
            Kind::OursAtQemu | Kind::Passt => {
                let command = words(&gateway(world, kind, &socket)?);
                Some(spawn(world, &command, &errors)?.0)
            }
            _ => None,
        };
        let command = match beside {
            Some(_) => {
                wait_for(&socket)?;
                words(&world.image()?.client(&socket))
            }
            None => command_line(world, kind)?,
        };
        let (client, answers) = spawn(world, &command, &errors)?;
        let mut started =
            Contestant { kind, world, client, answers, errors, beside, helpers: vec![] };
        match started.begin() {
            Ok(()) => Ok(started),
            Err(why) => Err(started.explained(why)).context("it does not start"),
        }
    }

    /// An error, with the last words of the gateway.
    pub(super) fn explained(&self, why: anyhow::Error) -> anyhow::Error {
        let words = std::fs::read_to_string(&self.errors).unwrap_or_default();
        match words.lines().rfind(|line| !line.is_empty() && !line.contains("AVX2")) {
            Some(last) => why.context(format!("it said: {last}")),
            None => why,
        }
    }

    fn begin(&mut self) -> Result<()> {
        ensure!(self.answer(BEGIN)? == "ready", "the client does not begin");
        if self.kind == Kind::Slirp {
            let mut command = self.world.peers().map(super::peers::Peers::slirp)?;
            let (id, options) = (self.client.child.id(), ["--configure", "--mtu=65520"]);
            command.extend(options.map(str::to_owned));
            command.extend(["--exit-fd=0".into(), "--ready-fd=1".into()]);
            command.extend([id.to_string(), "tap0".into()]);
            let (slirp, ready) = spawn(self.world, &words(&command), &self.errors)?;
            self.beside = Some(slirp);
            // It writes a 1 without an end of the line, and keeps the pipe open: wait for the
            // device instead.
            drop(ready);
            self.wait_for_slirp()?;
        }
        self.helpers = match (&self.kind, &self.beside) {
            (Kind::Direct, _) => Vec::new(),
            (_, Some(beside)) => processes::tree(beside.child.id(), &self.world.bench)?,
            (_, None) => processes::tree(self.client.child.id(), &self.world.bench)?,
        };
        Ok(())
    }

    fn wait_for_slirp(&mut self) -> Result<()> {
        let begun = Instant::now();
        let path = format!("/proc/{}/net/route", self.client.child.id());
        while begun.elapsed() < END {
            if let Some(slirp) = &mut self.beside
                && let Some(status) = slirp.child.try_wait()?
            {
                bail!("slirp4netns ended with {status}");
            }
            if std::fs::read_to_string(&path).is_ok_and(|table| table.contains("tap0")) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("slirp4netns did not configure its device")
    }

    /// Gives the client a command, and returns its answer.
    ///
    /// # Errors
    /// The client has ended, or does not answer.
    pub(super) fn tell(&mut self, command: &str) -> Result<String> {
        ensure!(!build::interrupted(), "interrupted");
        let told = self.client.input.as_mut().map(|input| writeln!(input, "{command}"));
        // If it is gone, its last words say why.
        let _ = told.context("the client has no input")?;
        let answer = self.answer(PATIENCE);
        answer
            .with_context(|| format!("{}: `{command}`", self.kind.name()))
            .map_err(|why| self.explained(why))
    }

    fn answer(&self, within: Duration) -> Result<String> {
        self.answers.recv_timeout(within).map_err(|why| match why {
            RecvTimeoutError::Timeout => anyhow!("no answer in {} s", within.as_secs()),
            RecvTimeoutError::Disconnected => anyhow!("it ended"),
        })
    }
}

/// Waits for the socket of what serves a machine.
fn wait_for(socket: &Path) -> Result<()> {
    let begun = Instant::now();
    while !socket.exists() {
        ensure!(begun.elapsed() < END, "there is no {}", socket.display());
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Starts a program in the host's namespace as the ordinary user. Lines that it prints come by the
/// channel.
fn spawn(world: &World, words: &[OsString], errors: &Path) -> Result<(Running, Receiver<String>)> {
    let mut command = user_command(world, words);
    command.stderr(File::options().append(true).open(errors)?);
    let mut child =
        world.at_host(|| command.spawn().with_context(|| format!("starting {:?}", words[0])))?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let (sender, lines) = channel();
    if let Some(output) = output {
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Nobody may listen any more.
                let _ = sender.send(line);
            }
        });
    }
    Ok((Running { child, input }, lines))
}

/// A command of the ordinary user, with pipes for its input and output. It is a process group of
/// its own: Ctrl-C reaches this process alone.
pub(super) fn user_command(world: &World, words: &[OsString]) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
    command.args(["--clear-groups", "--"]).args(words);
    command.env("WIRESPEED_RUNTIME_DIR", world.scratch.0.join("run")).env("HOME", "/");
    command.current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// Words of a command line.
pub(super) fn words(words: &[String]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// The command line of a gateway, at its best settings, with the client as its program.
fn command_line(world: &World, kind: Kind) -> Result<Vec<OsString>> {
    let own = world.wirespeed.display().to_string();
    let ours = |options: &[&str]| {
        let options = ["netns"].iter().chain(options).chain(&["--"]).map(|&word| word.to_owned());
        std::iter::once(own.clone()).chain(options).collect()
    };
    let file = |name: &str| world.scratch.0.join(name).display().to_string();
    let mut command: Vec<String> = match kind {
        Kind::Ours => ours(&[]),
        Kind::Linked(link) => ours(&["--link", link]),
        Kind::Unlimited => ours(&["--policy", &file(policies::UNLIMITED)]),
        Kind::Ruled => ours(&["--policy", &file(policies::RULES), "--dns", &SERVER.to_string()]),
        Kind::Pasta => {
            let mut command = world.peers()?.pasta();
            let options = ["--config-net", "--mtu", "65520", "--no-map-gw", "--quiet"];
            command.extend(options.map(str::to_owned));
            // No ports: nobody asks for them, and scanning for them would cost it time.
            for option in ["-t", "-u", "-T", "-U"] {
                command.extend([option.to_owned(), "none".to_owned()]);
            }
            command.push("--".into());
            command
        }
        Kind::Slirp => ["unshare", "--user", "--map-root-user", "--net"].map(str::to_owned).into(),
        Kind::Direct | Kind::OursAtQemu | Kind::Passt => Vec::new(),
    };
    command.extend([world.bench.display().to_string(), "load".into()]);
    Ok(words(&command))
}

/// The command line of what serves a machine at `socket`.
fn gateway(world: &World, kind: Kind, socket: &Path) -> Result<Vec<String>> {
    let socket = socket.display().to_string();
    let mut command = UNTIL_END.map(str::to_owned).to_vec();
    if kind == Kind::OursAtQemu {
        command.push(world.wirespeed.display().to_string());
        command.extend(["gateway".to_owned(), "--vm".to_owned(), format!("qemu:{socket}")]);
    } else {
        command.extend(world.peers()?.passt());
        command.extend(["--foreground", "--quiet", "--mtu", "65520"].map(str::to_owned));
        command.extend(["--no-map-gw", "--socket", &socket].map(str::to_owned));
    }
    Ok(command)
}
