//! The first process of the daemon: it reads the configuration, opens devices, and watches over the
//! worker. It takes no frame and no request, so an attacker who has taken over the worker cannot
//! attack it.
//!
//! Called by: `daemon.rs`; `parent.rs` has its state. Signals: SIGHUP reads the configuration
//! again, SIGTERM and SIGINT end it. If the worker ends by itself, so does this process, with its
//! exit status.

use std::io::Read;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use crate::config::{BYTES_MAX, Config, text_of};
use crate::devices::Opener;
use crate::machine::Machine;
use crate::orders::{self, Order};
use anyhow::{Context, Result, anyhow, bail};
use control::{ControlError, path};
use live::Live;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use super::Daemon;
use super::parent::{Act, Opened, Parent, Source, start, tell};
use super::report::{error, info, out, summary, warning};

/// Check whether a file is valid.
pub(super) fn check(file: &Path) -> Result<u8> {
    let (name, text) = read(file).map_err(unreadable)?;
    match Config::parse_with(&name, &text, &mut Machine::beside(file)) {
        Ok(config) => {
            if let Some(why) = in_the_way(&config) {
                error(&format!("{name}: {why}"));
                return Ok(1);
            }
            out(&summary(&name, &config))?;
            crowded(&config);
            Ok(0)
        }
        Err(problems) => {
            error(&problems.to_string());
            Ok(1)
        }
    }
}

/// Run a router.
pub(super) fn up(daemon: &Daemon) -> Result<u8> {
    let file = &*daemon.file;
    let (name, text) = read(file).map_err(unreadable)?;
    let mut machine = Machine::beside(file);
    let config = match Config::parse_with(&name, &text, &mut machine) {
        Ok(config) => config,
        Err(problems) => {
            error(&problems.to_string());
            // Nothing was begun.
            return Ok(2);
        }
    };
    crowded(&config);
    if let Some(why) = in_the_way(&config) {
        error(&format!("{name}: {why}"));
        return Ok(2);
    }
    let live = daemon.page.map(Live::bind).transpose()?;
    let reload = caught(&[SIGHUP])?;
    let end = caught(&[SIGTERM, SIGINT])?;
    let running = Config::host();
    let mut opener = Opener::new(config.process.shards);
    let opened = Opened::by(&mut opener, &running, &config);
    if opened.is_none_of_any() {
        // Nothing was begun.
        without_ports();
        return Ok(1);
    }
    let (ours, theirs) = orders::pair().context("cannot make a pair of sockets")?;
    let worker = start(theirs, &config, &daemon.version)?;
    let mut parent = Parent::new(ours, worker, opener, running)?;
    parent.pass_control(&config)?;
    if let Some(live) = &live {
        parent.live(live)?;
        info(&live.says());
    }
    let (has_ports, forwarding) = (!config.ports.is_empty(), config.router.forwarding);
    let source = Source { file: name, text, machine };
    let began = parent.apply(source, config, opened, Vec::new());
    match began {
        Ok(_) if has_ports && parent.running.ports.is_empty() => {
            // Devices that the worker opens itself.
            without_ports();
            parent.stop()?;
            return Ok(1);
        }
        Ok(report) if report.failed.is_empty() => {}
        Ok(report) => warning(&format!("{} settings failed: see above", report.failed.len())),
        Err(why) => return parent.ended(&why),
    }
    if let Err(why) = parent.pass_link_news() {
        return parent.ended(&why);
    }
    tell(&[NotifyState::Ready]);
    let does = if forwarding { "forwarding" } else { "not forwarding, as configured" };
    info(&format!("{does}; SIGHUP reads the configuration again, SIGTERM ends it"));
    watch(parent, file, &reload, &end)
}

/// Watch over the worker, read the configuration again when asked to, and end.
fn watch(mut parent: Parent, file: &Path, mut reload: &UnixStream, end: &UnixStream) -> Result<u8> {
    let watchdog = sd_notify::watchdog_enabled().map(|within| within / 2);
    let mut next_ping = watchdog.map(|within| Instant::now() + within);
    loop {
        let patience = next_ping.map(|at| at.saturating_duration_since(Instant::now()));
        let mut asked = vec![parent.orders.as_fd(), reload.as_fd(), end.as_fd()];
        let links = parent.links.as_ref().map(|links| links.news.as_fd());
        let others =
            parent.beside.sockets().into_iter().chain([(links, Parent::links_changed as Act)]);
        let mut acts = Vec::new();
        for (fd, act) in others {
            acts.extend(fd.map(|_| (asked.len(), act)));
            asked.extend(fd);
        }
        let ready = orders::ready(&asked, patience)?;
        if ready[0] {
            // The worker sends nothing unless it is asked, so readable means closed.
            return parent.ended(&anyhow!("the worker has ended by itself"));
        }
        if ready[2] {
            return parent.stop();
        }
        if ready[1] {
            // Several signals at a time are one.
            let _ = reload.read(&mut [0; 64]);
            if let Err(why) = read_again(&mut parent, file) {
                return parent.ended(&why);
            }
        }
        for (at, act) in acts {
            if ready[at]
                && let Err(why) = act(&mut parent)
            {
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

/// Log if there are more shards than cores, because shards then share cores.
fn crowded(config: &Config) {
    let cores = std::thread::available_parallelism().map_or(usize::MAX, NonZeroUsize::get);
    if config.process.shards > cores {
        let shards = config.process.shards;
        warning(&format!("shards = {shards} on {cores} cores: more than one each is no faster"));
    }
}

/// The error if a file that is no socket is at the path of the socket for other users. A socket
/// there belongs to a router that runs, or is replaced.
fn in_the_way(config: &Config) -> Option<ControlError> {
    let path = Path::new(&config.process.control.as_ref()?.socket);
    match path::vacancy(path) {
        Err(why @ (ControlError::InTheWay { .. } | ControlError::PathTooLong { .. })) => Some(why),
        Err(why @ ControlError::Directory { .. }) => {
            warning(&format!("[control] socket: {why}"));
            None
        }
        _ => None,
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

/// The configuration cannot be read: nothing was started.
#[derive(Debug)]
pub(super) struct Unreadable(String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

fn unreadable(why: anyhow::Error) -> anyhow::Error {
    anyhow!(Unreadable(format!("{why:#}")))
}

/// A configuration's text, and how messages name it.
fn read(file: &Path) -> Result<(String, String)> {
    let name = file.display().to_string();
    let len = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    if len > BYTES_MAX as u64 {
        bail!("{name} is longer than {BYTES_MAX} bytes: remove some of it");
    }
    let text = text_of(file);
    let text = text.with_context(|| format!("cannot read {name}: look at its path and mode"))?;
    Ok((name, text))
}

/// SIGHUP: an invalid file changes nothing.
///
/// # Errors
/// The worker is gone.
fn read_again(parent: &mut Parent, file: &Path) -> Result<()> {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
    let done = reread(parent, file);
    tell(&[NotifyState::Ready]);
    done
}

fn reread(parent: &mut Parent, file: &Path) -> Result<()> {
    let (name, text) = match read(file) {
        Ok(read) => read,
        Err(why) => {
            error(&format!("{why:#}; the running configuration stays"));
            return Ok(());
        }
    };
    let mut machine = Machine::beside(file);
    let config = match Config::parse_with(&name, &text, &mut machine) {
        Ok(config) => config,
        Err(problems) => {
            error(&problems.to_string());
            error("the running configuration stays");
            return Ok(());
        }
    };
    for section in parent.running.process.needs_restart(&config.process) {
        warning(&format!("{section} counts from the start of the program: start it again"));
    }
    let opened = Opened::by(&mut parent.opener, &parent.running, &config);
    let source = Source { file: name.clone(), text, machine };
    let report = parent.apply(source, config, opened, Vec::new())?;
    let (done, failed) = (report.carried_out, report.failed.len());
    info(&format!("{name}: {done} changes took effect, {failed} failed"));
    Ok(())
}

/// Log that there are no ports to forward between.
fn without_ports() {
    error(if rustix::process::geteuid().is_root() {
        "no port could be opened: do what the lines above say, and start it again"
    } else {
        "no port could be opened: devices need privileges: start it as root, or with \
         CAP_NET_ADMIN and CAP_NET_RAW"
    });
}
