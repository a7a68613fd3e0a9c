//! The second process of the daemon: it runs the stack, without privileges, and carries out orders.
//!
//! Called by: `daemon.rs` in the process that `run.rs` starts, with orders by standard input; or on
//! a thread of the first process if the configuration says `separate = false`.

use std::fs::File;
use std::io::Seek;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::config::{BYTES_MAX, Config};
use crate::machine::Machine;
use crate::orders::{self, Order, Report};
use anyhow::{Context, Result, bail};
use jail::privileges::{self, Calls};
use live::Live;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::engine::{ControlSocket, Engine, Granted};
use super::report;

/// The privileges of the process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Privileges {
    /// It gives them up.
    Dropped,
    /// It keeps them: it is the first process.
    Kept,
}

/// The program's first argument if it is to be the worker. The second is the user that it has to
/// become.
pub(super) const ARGUMENT: &str = "--router-worker";
/// A user who owns nothing, instead of a user's number.
pub(super) const OF_ITS_OWN: &str = "own";

/// Run the process; `user` is the user that it has to become, if the first process may change
/// users.
pub(super) fn main(user: Option<&str>, version: &str) -> Result<()> {
    // The first process tells us when to end; Ctrl-C of a terminal goes to both, so ignore it.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    if let Some(user) = user {
        let wanted = match user {
            OF_ITS_OWN => None,
            uid => Some(uid.parse().context("the worker's user is no number")?),
        };
        privileges::change_user(wanted).context(
            "cannot be another user: give the router the capabilities CAP_SETUID and \
             CAP_SETGID, or write user = \"root\" under [privileges]",
        )?;
    }
    privileges::drop_capabilities().context("cannot drop capabilities")?;
    let orders = std::io::stdin().as_fd().try_clone_to_owned().context("there are no orders")?;
    run(&orders, Privileges::Dropped, version)
}

/// Carry out orders until the last one, or until the other end is closed.
pub(super) fn run(orders: &OwnedFd, privileges: Privileges, version: &str) -> Result<()> {
    let (mut engine, mut granted) = (None::<Engine>, Granted::new());
    let (mut drain, mut live) = (Config::default().process.drain, None);
    let (mut control, mut mirrors) = (Vec::new(), None);
    loop {
        if wait(orders.as_fd(), engine.as_ref())? {
            let Some((order, descriptor)) = orders::receive::<Order>(orders.as_fd())? else {
                break;
            };
            match (order, descriptor) {
                (Order::Device(grant), Some(fd)) => {
                    granted.entry(grant.port.clone()).or_default().push((grant, fd));
                }
                (Order::Live { token, port }, listener) => {
                    live = Some(Live::granted(port, listener, token)?);
                }
                (Order::Control { path, for_users, why }, listener) => {
                    control.push(ControlSocket { listener, path, for_users, why });
                }
                (Order::Apply { file, lost }, Some(fd)) => {
                    let config = read(&file, fd)?;
                    drain = config.process.drain;
                    let is_first = engine.is_none();
                    let engine = match &mut engine {
                        Some(engine) => engine,
                        none => {
                            let sockets = std::mem::take(&mut control);
                            let begun = Engine::begin(&config, live.take(), sockets, version)?;
                            let engine = none.insert(begun);
                            mirrors
                                .take()
                                .into_iter()
                                .for_each(|at| engine.mirrors_are_heard_at(at));
                            engine
                        }
                    };
                    if is_first && privileges == Privileges::Dropped {
                        privileges::lock_down(Calls::Stack)
                            .context("cannot filter system calls")?;
                    }
                    let report = engine.apply(&config, std::mem::take(&mut granted), &lost)?;
                    orders::report(orders.as_fd(), &report)?;
                }
                (Order::Mirrors, Some(socket)) => mirrors = Some(socket),
                (Order::Ping, _) => {
                    if engine.as_ref().is_some_and(Engine::is_alive) {
                        orders::report(orders.as_fd(), &Report::default())?;
                    }
                }
                (Order::Stop, _) => break,
                (order, descriptor) => {
                    let Some(engine) = &mut engine else {
                        bail!("{order:?} came before a configuration, or without its descriptor");
                    };
                    carry_out(engine, order, descriptor)?;
                }
            }
        }
        if let Some(engine) = &mut engine {
            engine.turn()?;
        }
    }
    report::info("ending: queued output is sent");
    engine.map_or(Ok(()), |engine| engine.end(drain))
}

/// Carry out an order to a router that runs.
fn carry_out(engine: &mut Engine, order: Order, descriptor: Option<OwnedFd>) -> Result<()> {
    match (order, descriptor) {
        (Order::Mirror { port }, device) => engine.has_mirror(&port, device),
        (Order::Programs { port, addresses }, _) => engine.has_addresses(&port, &addresses),
        (Order::Metrics, listener) => engine.serve_metrics(listener),
        (Order::Zebra { from }, Some(socket)) => engine.begin_fpm(from, socket)?,
        (Order::Kernel { with_fpm }, socket) => engine.set_kernel(socket, with_fpm)?,
        (Order::Interfaces { ports }, _) => engine.set_interfaces(ports),
        (Order::Links { hears_all }, Some(news)) => engine.hear_of_links(news, hears_all)?,
        (order, _) => bail!("{order:?} came without its descriptor"),
    }
    Ok(())
}

/// Wait until an order comes or the engine has something to do; `true` for an order.
fn wait(orders: BorrowedFd<'_>, engine: Option<&Engine>) -> Result<bool> {
    let patience = engine.map(Engine::patience).transpose()?.flatten();
    let mut asked = vec![PollFd::from_borrowed_fd(orders, PollFlags::IN)];
    let others = engine.into_iter().flat_map(Engine::descriptors);
    asked.extend(others.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
    match poll(&mut asked, patience.map(orders::timeout).as_ref()) {
        Ok(_) => Ok(!asked[0].revents().is_empty()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error).context("cannot wait for orders"),
    }
}

/// The configuration, which the first process has checked, with what it takes from this machine.
fn read(file: &str, fd: OwnedFd) -> Result<Config> {
    let mut from = File::from(fd);
    from.rewind()?;
    let (mut machine, text) = Machine::read(from, BYTES_MAX).context("cannot read it")?;
    Ok(Config::parse_with(file, &text, &mut machine)?)
}
