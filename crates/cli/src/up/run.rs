//! The first process of `up`: it reads the configuration, opens devices, and watches over the
//! worker. It takes no frame and no request: whoever subverts the worker meets nobody here.
//!
//! Called by: `up.rs`. Signals: SIGHUP reads the configuration again, SIGTERM and SIGINT end it. If
//! the worker ends by itself, so does this process, with its exit status.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use router::accounts::Accounts;
use router::config::{BYTES_MAX, Config};
use router::devices::Opener;
use router::orders::{self, Order, Report};
use router::plan;
use rustix::fs::{MemfdFlags, memfd_create};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use super::report::{error, info, summary, warning};
use super::worker::{self, Privileges};
use crate::{Outcome, Usage, output};

/// How long the worker may take to let a configuration take effect, or to answer.
const ANSWER: Duration = Duration::from_secs(60);
/// And so long beyond the time to drain until it has ended.
const END: Duration = Duration::from_secs(10);

/// Look whether a file is valid.
pub(super) fn check(file: &Path) -> Result<Outcome> {
    let (name, text) = read(file).map_err(usage)?;
    match Config::parse_with(&name, &text, &mut Accounts::system()) {
        Ok(config) => {
            output::out(&summary(&name, &config))?;
            crowded(&config);
            Ok(Outcome::Done)
        }
        Err(problems) => {
            output::err(&problems.to_string());
            Ok(Outcome::Exit(1))
        }
    }
}

/// Run a router.
pub(super) fn up(file: &Path) -> Result<Outcome> {
    let (name, text) = read(file).map_err(usage)?;
    let mut accounts = Accounts::system();
    let config = match Config::parse_with(&name, &text, &mut accounts) {
        Ok(config) => config,
        Err(problems) => {
            error(&problems.to_string());
            // Nothing was begun.
            return Ok(Outcome::Exit(2));
        }
    };
    crowded(&config);
    let reload = caught(&[SIGHUP])?;
    let end = caught(&[SIGTERM, SIGINT])?;
    let (ours, theirs) = orders::pair().context("cannot make a pair of sockets")?;
    let worker = start(theirs, config.separate)?;
    let running = Config { forwarding: false, ..Config::default() };
    let opener = Opener::new(config.shards);
    let mut parent = Parent { orders: ours, worker, opener, running };
    let (has_ports, forwarding) = (!config.ports.is_empty(), config.forwarding);
    let began = parent.apply(&name, (&text, &accounts), config);
    match began {
        Ok(_) if has_ports && parent.running.ports.is_empty() => return parent.without_ports(),
        Ok(report) if report.failed.is_empty() => {}
        Ok(report) => warning(&format!("{} settings failed: see above", report.failed.len())),
        Err(why) => return parent.ended(&why),
    }
    tell(&[NotifyState::Ready]);
    let does = if forwarding { "forwarding" } else { "not forwarding, as configured" };
    info(&format!("{does}; SIGHUP reads the configuration again, SIGTERM ends it"));
    let watchdog = sd_notify::watchdog_enabled().map(|within| within / 2);
    let mut next_ping = watchdog.map(|within| Instant::now() + within);
    loop {
        let patience = next_ping.map(|at| at.saturating_duration_since(Instant::now()));
        let asked = [parent.orders.as_fd(), reload.as_fd(), end.as_fd()];
        let ready = orders::ready(&asked, patience)?;
        if ready[0] {
            // Unasked, the worker says nothing: its end is closed.
            return parent.ended(&anyhow!("the worker has ended by itself"));
        }
        if ready[2] {
            return parent.stop();
        }
        if ready[1] {
            // Several signals at a time are one.
            let _ = (&reload).read(&mut [0; 64]);
            if let Err(why) = parent.reload(file) {
                return parent.ended(&why);
            }
        }
        if let (Some(at), Some(within)) = (next_ping, watchdog)
            && Instant::now() >= at
        {
            if let Err(why) = parent.ask(&Order::Ping, None) {
                return parent.ended(&why);
            }
            tell(&[NotifyState::Watchdog]);
            next_ping = Some(Instant::now() + within);
        }
    }
}

/// Say so if there are more shards than cores, which take turns then.
fn crowded(config: &Config) {
    let cores = std::thread::available_parallelism().map_or(usize::MAX, NonZeroUsize::get);
    if config.shards > cores {
        let shards = config.shards;
        warning(&format!("shards = {shards} on {cores} cores: more than one each is no faster"));
    }
}

/// A socket that is readable after one of these signals.
fn caught(signals: &[i32]) -> Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair().context("cannot make a pair of sockets")?;
    ours.set_nonblocking(true)?;
    for &signal in signals {
        pipe::register(signal, theirs.try_clone()?).context("cannot catch signals")?;
    }
    Ok(ours)
}

/// A file that cannot be read is a wrong command line.
fn usage(why: anyhow::Error) -> anyhow::Error {
    anyhow!(Usage(format!("{why:#}")))
}

/// A configuration's text, and how messages name it.
fn read(file: &Path) -> Result<(String, String)> {
    let name = file.display().to_string();
    let len = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    if len > BYTES_MAX as u64 {
        bail!("{name} is longer than {BYTES_MAX} bytes: remove some of it");
    }
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read {name}: look at its path and mode"))?;
    Ok((name, text))
}

/// Tell the service manager, if there is one.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(why) = sd_notify::notify(state) {
        warning(&format!("the service manager cannot be told ({why}): see NOTIFY_SOCKET"));
    }
}

/// What runs the stack.
enum Worker {
    Process(Child),
    Thread(JoinHandle<Result<()>>),
}

fn start(orders: OwnedFd, separate: bool) -> Result<Worker> {
    if !separate {
        let run = move || worker::run(&orders, Privileges::Kept);
        let thread = std::thread::Builder::new().name("router".to_owned()).spawn(run);
        return Ok(Worker::Thread(thread.context("cannot start a thread")?));
    }
    let program = std::env::current_exe().context("the program's own file is not found")?;
    let mut command = Command::new(program);
    let child = command.args(["up", "--worker"]).stdin(Stdio::from(orders)).spawn();
    Ok(Worker::Process(child.context("cannot start the worker")?))
}

struct Parent {
    orders: OwnedFd,
    worker: Worker,
    opener: Opener,
    /// What the worker was told last.
    running: Config,
}

impl Parent {
    /// Let a configuration take effect.
    fn apply(
        &mut self,
        file: &str,
        (text, accounts): (&str, &Accounts),
        config: Config,
    ) -> Result<Report> {
        let operations = plan::difference(&self.running, &config);
        for (name, port) in operations.iter().filter_map(plan::Operation::needs_device) {
            match self.opener.open(name, port) {
                Ok(granted) => {
                    for (grant, fd) in granted {
                        let order = Order::Device(grant);
                        orders::send(self.orders.as_fd(), &order, Some(fd.as_fd()))?;
                    }
                }
                Err(why) => error(&format!("port {name}: {why}")),
            }
        }
        let memory = memfd_create("config", MemfdFlags::CLOEXEC).context("no memory")?;
        let mut memory = std::fs::File::from(memory);
        let accounts = serde_json::to_string(accounts)? + "\n";
        let written = memory.write_all(accounts.as_bytes());
        written.and_then(|()| memory.write_all(text.as_bytes())).context("no memory for it")?;
        let order = Order::Apply { file: file.to_owned() };
        let mut report = self.ask(&order, Some(&memory.into()))?;
        let served = self.metrics(&config)?;
        report.failed.extend(served.as_ref().err().cloned());
        self.opener.keep(&config);
        self.running = config;
        // What failed is to be tried again with the next configuration.
        self.running.ports.retain(|name, _| !report.absent.contains(name));
        self.running.metrics = served.ok().flatten();
        Ok(report)
    }

    /// Open the socket of metrics anew if its address changed; returns where it is, or why not.
    ///
    /// # Errors
    /// The worker is gone.
    fn metrics(&mut self, config: &Config) -> Result<Result<Option<SocketAddr>, String>> {
        if self.running.metrics == config.metrics {
            return Ok(Ok(config.metrics));
        }
        if self.running.metrics.is_some() {
            // The old socket may be in the new one's place.
            orders::send(self.orders.as_fd(), &Order::Metrics, None)?;
            self.ask(&Order::Ping, None)?;
        }
        let Some(at) = config.metrics else { return Ok(Ok(None)) };
        match TcpListener::bind(at) {
            Ok(listener) => {
                orders::send(self.orders.as_fd(), &Order::Metrics, Some(listener.as_fd()))?;
                Ok(Ok(Some(at)))
            }
            Err(why) => {
                let why = format!("metrics: cannot listen at {at} ({why}): give another address");
                error(&why);
                Ok(Err(why))
            }
        }
    }

    /// Give an order, and wait for the report.
    fn ask(&mut self, order: &Order, descriptor: Option<&OwnedFd>) -> Result<Report> {
        orders::send(self.orders.as_fd(), order, descriptor.map(AsFd::as_fd))?;
        let until = Instant::now() + ANSWER;
        let left = || until.saturating_duration_since(Instant::now());
        while !orders::ready(&[self.orders.as_fd()], Some(left()))?[0] {
            if left().is_zero() {
                bail!("the worker does not answer in {} s", ANSWER.as_secs());
            }
        }
        let report = orders::receive(self.orders.as_fd())?;
        report.map(|(report, _)| report).context("the worker has ended")
    }

    /// SIGHUP: an invalid file changes nothing.
    ///
    /// # Errors
    /// The worker is gone.
    fn reload(&mut self, file: &Path) -> Result<()> {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(_) => tell(&[NotifyState::Reloading]),
        }
        let done = self.reread(file);
        tell(&[NotifyState::Ready]);
        done
    }

    fn reread(&mut self, file: &Path) -> Result<()> {
        let (name, text) = match read(file) {
            Ok(read) => read,
            Err(why) => {
                error(&format!("{why:#}; the running configuration stays"));
                return Ok(());
            }
        };
        let mut accounts = Accounts::system();
        let config = match Config::parse_with(&name, &text, &mut accounts) {
            Ok(config) => config,
            Err(problems) => {
                error(&problems.to_string());
                error("the running configuration stays");
                return Ok(());
            }
        };
        for section in plan::needs_restart(&self.running, &config) {
            warning(&format!("{section} counts from the start of the program: start it again"));
        }
        let report = self.apply(&name, (&text, &accounts), config)?;
        let (done, failed) = (report.carried_out, report.failed.len());
        info(&format!("{name}: {done} changes took effect, {failed} failed"));
        Ok(())
    }

    /// At the start no device could be opened: there is nothing to be a router between.
    fn without_ports(self) -> Result<Outcome> {
        error("no port could be opened; do what the lines above say, and start it again");
        if !rustix::process::geteuid().is_root() {
            error(
                "devices need privileges: start it as root, or with CAP_NET_ADMIN and CAP_NET_RAW",
            );
        }
        self.stop()?;
        Ok(Outcome::Exit(1))
    }

    /// SIGTERM: let the worker finish, and end.
    fn stop(mut self) -> Result<Outcome> {
        tell(&[NotifyState::Stopping]);
        // If it is gone already, that is found out now.
        let _ = orders::send(self.orders.as_fd(), &Order::Stop, None);
        let status = self.wait(Duration::from(self.running.drain) + END)?;
        self.exit(status)
    }

    /// The worker is gone, or of no use any more.
    fn ended(mut self, why: &anyhow::Error) -> Result<Outcome> {
        error(&format!("{why:#}"));
        tell(&[NotifyState::Stopping]);
        let status = self.wait(Duration::from_secs(1))?;
        match self.exit(status)? {
            Outcome::Done => Ok(Outcome::Exit(1)),
            other => Ok(other),
        }
    }

    /// Wait for the worker's end; a process that does not end is killed.
    fn wait(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let until = Instant::now() + patience;
        loop {
            let is_over = Instant::now() >= until;
            match &mut self.worker {
                Worker::Process(child) => {
                    if let Some(status) = child.try_wait()? {
                        return Ok(Some(status));
                    }
                    if is_over {
                        error("the worker does not end: killed");
                        child.kill()?;
                        return Ok(Some(child.wait()?));
                    }
                }
                Worker::Thread(thread) if thread.is_finished() || is_over => return Ok(None),
                Worker::Thread(_) => {}
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The worker's exit status as ours.
    fn exit(self, status: Option<ExitStatus>) -> Result<Outcome> {
        sweep(self.running.control.as_ref().map(|control| Path::new(&control.socket)));
        let status = match (self.worker, status) {
            (Worker::Thread(thread), _) if thread.is_finished() => {
                let ended = thread.join().map_err(|_| anyhow!("the router's thread panicked"))?;
                return ended.map(|()| Outcome::Done);
            }
            (Worker::Thread(_), _) => bail!("the router's thread does not end"),
            (Worker::Process(_), status) => status.context("the worker was not found")?,
        };
        if let Some(signal) = status.signal() {
            error(&format!("the worker was ended by signal {signal}"));
            // As shells have it.
            return Ok(Outcome::Exit(u8::try_from(128 + signal).unwrap_or(1)));
        }
        match status.code() {
            Some(0) => Ok(Outcome::Done),
            code => {
                let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                error(&format!("the worker ended with exit status {code}"));
                Ok(Outcome::Exit(code))
            }
        }
    }
}

/// The worker cannot remove the files of its control sockets.
fn sweep(for_users: Option<&Path>) {
    use wirespeed::control::path;
    if let Some(socket) = for_users {
        path::remove_dead(socket);
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR");
    let uid = rustix::process::geteuid().as_raw();
    path::sweep(&path::directory(runtime.as_deref(), uid));
}
