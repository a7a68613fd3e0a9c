//! The state of the first process of the daemon: the socket for orders, the worker that carries
//! them out, the devices that were opened for the worker, and the last configuration that it got.
//!
//! Called by: `run.rs`. A worker that does not answer in time counts as gone.

mod beside;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::config::{Config, Link};
use crate::devices::{Granted, Opener};
use crate::links;
use crate::machine::Machine;
use crate::orders::{self, Order, Report};
use crate::plan;
use anyhow::{Context, Result, anyhow, bail};
use live::Live;
use rustix::fs::{MemfdFlags, memfd_create};
use sd_notify::NotifyState;

use control::{Server, open_to_all};
use observe::socket_path;

use super::mirrors::Mirrors;
use super::report::{error, info, warning};
use super::worker::{self, Privileges};
pub(super) use beside::Act;
use beside::Beside;

/// How long the worker may take to let a configuration take effect, or to answer.
const ANSWER: Duration = Duration::from_secs(60);
/// How long the worker may take to end, beyond the time to drain.
const END: Duration = Duration::from_secs(10);

/// Tell the service manager, if there is one.
pub(super) fn tell(state: &[NotifyState<'_>]) {
    if let Err(why) = sd_notify::notify(state) {
        warning(&format!("the service manager cannot be told ({why}): see NOTIFY_SOCKET"));
    }
}

/// The allocator of glibc takes each block of so many bytes or more from the kernel, which clears
/// a page with the first write to it. By default it raises this limit to 32 MB as blocks are freed,
/// and clears a new part of the route table at once: packets waited 0.6 ms for that. Other C
/// libraries ignore the variable.
const LARGE_BLOCKS: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "1048576");

/// The worker: a process or a thread that runs the stack.
pub(super) enum Worker {
    Process(Child),
    Thread(JoinHandle<Result<()>>),
}

pub(super) fn start(orders: OwnedFd, config: &Config, version: &str) -> Result<Worker> {
    if !config.process.separate {
        let version = version.to_owned();
        let run = move || worker::run(&orders, Privileges::Kept, &version);
        let thread = std::thread::Builder::new().name("router".to_owned()).spawn(run);
        return Ok(Worker::Thread(thread.context("cannot start a thread")?));
    }
    let program = std::env::current_exe().context("the program's own file is not found")?;
    let mut command = Command::new(program);
    command.arg(worker::ARGUMENT).stdin(Stdio::from(orders));
    command.env(LARGE_BLOCKS.0, LARGE_BLOCKS.1);
    match (rustix::process::geteuid().is_root(), config.process.user) {
        (true, user) => {
            command.arg(user.map_or(worker::OF_ITS_OWN.to_owned(), |uid| uid.to_string()));
        }
        (false, Some(_)) => bail!("only root can give the worker another user: remove user"),
        (false, None) => {}
    }
    let child = command.spawn();
    Ok(Worker::Process(child.context("cannot start the worker")?))
}

/// Devices that were opened for a configuration.
pub(super) struct Opened {
    granted: Vec<Granted>,
    /// How many ports need a device, and those that have none.
    wanted: usize,
    missing: usize,
}

impl Opened {
    /// Open the devices that `config` needs in addition to those of `running`, and log those that
    /// cannot be opened.
    pub(super) fn by(opener: &mut Opener, running: &Config, config: &Config) -> Opened {
        let mut opened = Opened { granted: Vec::new(), wanted: 0, missing: 0 };
        // Often all have the same reason, except for the names of the interfaces.
        let mut reasons = BTreeMap::<String, Vec<(&str, String)>>::new();
        for (name, port) in plan::opens(running, config) {
            opened.wanted += 1;
            match opener.open(name, port) {
                Ok(granted) => opened.granted.extend(granted),
                Err(why) => {
                    let of_all = match &port.link {
                        Link::Device(device) => why.replace(&device.name, "NAME"),
                        _ => why.clone(),
                    };
                    reasons.entry(of_all).or_default().push((name, why));
                }
            }
        }
        for (of_all, ports) in reasons {
            opened.missing += ports.len();
            match &*ports {
                [(name, why)] => error(&format!("port {name}: {why}")),
                several => {
                    let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
                    error(&format!("ports {}: {of_all}", names.join(", ")));
                }
            }
        }
        opened
    }

    pub(super) fn is_none_of_any(&self) -> bool {
        self.wanted > 0 && self.missing == self.wanted
    }
}

pub(super) struct Parent {
    pub(super) orders: OwnedFd,
    pub(super) worker: Worker,
    pub(super) opener: Opener,
    /// The last configuration that the worker got: as it was carried out, and as it was written.
    pub(super) running: Config,
    pub(super) source: Source,
    /// The kernel's news of links.
    pub(super) links: Option<LinkNews>,
    /// The routing daemons and other programs beside us.
    pub(super) beside: Beside,
}

/// A configuration as the worker gets it.
#[derive(Clone, Default)]
pub(super) struct Source {
    pub(super) file: String,
    pub(super) text: String,
    pub(super) machine: Machine,
}

/// The socket by which the kernel reports changes of links, and the bell that is rung for the
/// worker then.
pub(super) struct LinkNews {
    pub(super) news: OwnedFd,
    bell: OwnedFd,
}

impl Parent {
    /// # Errors
    /// The worker is gone.
    pub(super) fn new(
        orders: OwnedFd,
        worker: Worker,
        opener: Opener,
        running: Config,
    ) -> Result<Parent> {
        let (mirrors, says) = Mirrors::new()?;
        orders::send(orders.as_fd(), &Order::Mirrors, Some(says.as_fd()))?;
        let (source, links, beside) = (Source::default(), None, Beside::new(mirrors));
        Ok(Parent { orders, worker, opener, running, source, links, beside })
    }

    /// Let a configuration take effect; the devices of the `lost` ports are opened again.
    pub(super) fn apply(
        &mut self,
        source: Source,
        config: Config,
        opened: Opened,
        lost: Vec<String>,
    ) -> Result<Report> {
        for (grant, fd) in opened.granted {
            orders::send(self.orders.as_fd(), &Order::Device(grant), Some(fd.as_fd()))?;
        }
        let memory = memfd_create("config", MemfdFlags::CLOEXEC).context("no memory")?;
        let mut memory = std::fs::File::from(memory);
        source.machine.write(&source.text, &mut memory).context("no memory for it")?;
        let order = Order::Apply { file: source.file.clone(), lost };
        self.source = source;
        let mut report = self.ask(&order, Some(&memory.into()))?;
        report.failed.extend(self.have_mirrors(&config)?);
        let served = self.metrics(&config)?;
        report.failed.extend(served.as_ref().err().cloned());
        report.failed.extend(self.listen_for_zebra(&config).err());
        report.failed.extend(self.pass_kernel(&config)?.err());
        self.opener.keep(&config);
        self.running = config;
        // Failed ports are tried again with the next configuration.
        self.running.ports.retain(|name, _| !report.absent.contains(name));
        self.running.process.metrics = served.ok().flatten();
        self.hear_their_links();
        self.pass_interfaces()?;
        Ok(report)
    }

    /// Open the socket of metrics again if its address changed; returns its address, or why there
    /// is none.
    ///
    /// # Errors
    /// The worker is gone.
    fn metrics(&mut self, config: &Config) -> Result<Result<Option<SocketAddr>, String>> {
        if self.running.process.metrics == config.process.metrics {
            return Ok(Ok(config.process.metrics));
        }
        if self.running.process.metrics.is_some() {
            // The old socket may occupy the address of the new one.
            orders::send(self.orders.as_fd(), &Order::Metrics, None)?;
            self.ask(&Order::Ping, None)?;
        }
        let Some(at) = config.process.metrics else { return Ok(Ok(None)) };
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

    /// Have the worker serve the live page, from its first configuration on.
    ///
    /// # Errors
    /// The worker is gone.
    pub(super) fn live(&self, live: &Live) -> Result<()> {
        let (listener, token) = live.parts();
        let order = Order::Live { token: token.map(str::to_owned), port: live.stack_port() };
        Ok(orders::send(self.orders.as_fd(), &order, listener.map(AsFd::as_fd))?)
    }

    /// Make the control sockets, as the user who started us: the worker may be another user.
    ///
    /// # Errors
    /// The worker is gone.
    pub(super) fn pass_control(&self, config: &Config) -> Result<()> {
        let pid = match &self.worker {
            Worker::Process(child) => child.id(),
            Worker::Thread(_) => std::process::id(),
        };
        let own = socket_path(pid).and_then(|path| Ok((Server::listener(&path)?, path)));
        match own {
            Ok((listener, path)) => {
                let order = Order::Control { path, for_users: false, why: None };
                orders::send(self.orders.as_fd(), &order, Some(listener.as_fd()))?;
            }
            // The router forwards without it.
            Err(why) => {
                warning(&format!("`wirespeed show`, `ip` and `filter` do not reach it: {why}"))
            }
        }
        let Some(control) = &config.process.control else { return Ok(()) };
        let path = PathBuf::from(&control.socket);
        let listener = Server::listener(&path);
        let opened = listener.and_then(|socket| open_to_all(&path).map(|()| socket));
        let why = opened.as_ref().err().map(|why| format!("control: {why}"));
        why.iter().for_each(|why| error(why));
        let order = Order::Control { path, for_users: true, why };
        let listener = opened.as_ref().ok().map(AsFd::as_fd);
        Ok(orders::send(self.orders.as_fd(), &order, listener)?)
    }

    /// Report changes of links to the worker; if that is not possible, it polls the links.
    ///
    /// # Errors
    /// The worker is gone.
    pub(super) fn pass_link_news(&mut self) -> Result<()> {
        let opened = links::open()
            .and_then(|(news, hears_all)| Ok((LinkNews { news, bell: links::bell()? }, hears_all)));
        match opened {
            Ok((links, hears_all)) => {
                let order = Order::Links { hears_all };
                orders::send(self.orders.as_fd(), &order, Some(links.bell.as_fd()))?;
                self.links = Some(links);
                Ok(())
            }
            Err(why) => {
                warning(&format!(
                    "the kernel has no news of links ({why}): each is looked at four times a second"
                ));
                Ok(())
            }
        }
    }

    /// The kernel has news of links: ring the worker, and open interfaces again that were deleted
    /// and exist again.
    ///
    /// # Errors
    /// The worker is gone.
    pub(super) fn links_changed(&mut self) -> Result<()> {
        let Some(links) = &self.links else { return Ok(()) };
        if !links::hear(links.news.as_fd()) {
            return Ok(());
        }
        links::ring(links.bell.as_fd());
        self.pass_interfaces()?;
        let lost = self.opener.made_anew(&self.running);
        if lost.is_empty() {
            return Ok(());
        }
        let mut source = self.source.clone();
        let config = Config::parse_with(&source.file, &source.text, &mut source.machine)?;
        for port in &lost {
            info(&format!("port {port}: its interface was recreated, and is opened again"));
            self.running.lose_device(port);
        }
        let opened = Opened::by(&mut self.opener, &self.running, &config);
        self.apply(source, config, opened, lost).map(drop)
    }

    /// Give an order, and wait for the report.
    pub(super) fn ask(&mut self, order: &Order, descriptor: Option<&OwnedFd>) -> Result<Report> {
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

    /// SIGTERM: let the worker finish, and end.
    pub(super) fn stop(mut self) -> Result<u8> {
        tell(&[NotifyState::Stopping]);
        self.beside.mirrors.end();
        // If the worker is gone already, the wait below shows that.
        let _ = orders::send(self.orders.as_fd(), &Order::Stop, None);
        let status = self.wait(Duration::from(self.running.process.drain) + END)?;
        self.exit(status)
    }

    /// The worker is gone, or cannot be used any more.
    pub(super) fn ended(mut self, why: &anyhow::Error) -> Result<u8> {
        error(&format!("{why:#}"));
        tell(&[NotifyState::Stopping]);
        let status = self.wait(Duration::from_secs(1))?;
        Ok(self.exit(status)?.max(1))
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
    fn exit(self, status: Option<ExitStatus>) -> Result<u8> {
        sweep(self.running.process.control.as_ref().map(|control| Path::new(&control.socket)));
        let status = match (self.worker, status) {
            (Worker::Thread(thread), _) if thread.is_finished() => {
                let ended = thread.join().map_err(|_| anyhow!("the router's thread panicked"))?;
                return ended.map(|()| 0);
            }
            (Worker::Thread(_), _) => bail!("the router's thread does not end"),
            (Worker::Process(_), status) => status.context("the worker was not found")?,
        };
        if let Some(signal) = status.signal() {
            error(&format!("the worker was ended by signal {signal}"));
            // The exit code of shells for a signal.
            return Ok(u8::try_from(128 + signal).unwrap_or(1));
        }
        match status.code() {
            Some(0) => Ok(0),
            code => {
                let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                error(&format!("the worker ended with exit status {code}"));
                Ok(code)
            }
        }
    }
}

/// The worker cannot remove the files of its control sockets.
fn sweep(for_users: Option<&Path>) {
    use control::path;
    if let Some(socket) = for_users {
        path::remove_dead(socket);
    }
    if let Ok(directory) = path::Environment::of_process().prepare() {
        path::sweep(&directory);
    }
}
