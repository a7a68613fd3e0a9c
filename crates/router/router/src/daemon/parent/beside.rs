//! The programs beside the router, as the first process sees them: zebra at its door, the daemons'
//! routes in the kernel, the interfaces that are mirrors of ports.
//!
//! Called by: `parent.rs` when a configuration takes effect, `run.rs` when a socket has news.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::Result;

use super::Parent;
use crate::config::{Config, Frr};
use crate::daemon::kernel;
use crate::daemon::mirrors::Mirrors;
use crate::daemon::report::error;
use crate::daemon::zebra::{self, Door};
use crate::links;
use crate::orders::{self, Order};

/// What is kept of them.
pub(in crate::daemon) struct Beside {
    /// Where zebra connects.
    zebra: Option<Door>,
    /// News of links of the daemons' namespace, if it is not our own.
    their_links: Option<OwnedFd>,
    /// The section by which the worker has the kernel's routes.
    kernel: Option<Frr>,
    /// The interfaces that the worker knows, by their numbers.
    interfaces: BTreeMap<u32, String>,
    /// The interfaces in which other programs see our ports.
    pub(super) mirrors: Mirrors,
}

/// What to do when a socket is readable.
pub(in crate::daemon) type Act = fn(&mut Parent) -> Result<()>;

impl Beside {
    pub(super) fn new(mirrors: Mirrors) -> Beside {
        let (zebra, their_links, kernel) = (None, None, None);
        Beside { zebra, their_links, kernel, interfaces: BTreeMap::new(), mirrors }
    }

    /// The sockets by which there is news of them, and what to do then.
    pub(in crate::daemon) fn sockets(&self) -> [(Option<BorrowedFd<'_>>, Act); 4] {
        [
            (Some(self.mirrors.as_fd()), |parent| parent.follow_mirrors().map(drop)),
            (self.mirrors.news(), Parent::programs_changed),
            (self.zebra.as_ref().map(AsFd::as_fd), Parent::admit_zebra),
            (self.their_links.as_ref().map(AsFd::as_fd), Parent::their_links_changed),
        ]
    }
}

impl Parent {
    /// Have the mirrors of a configuration; returns what failed.
    ///
    /// # Errors
    /// The worker is gone.
    pub(super) fn have_mirrors(&mut self, config: &Config) -> Result<Vec<String>> {
        for port in self.beside.mirrors.set(config.mirrors.as_ref()) {
            orders::send(self.orders.as_fd(), &Order::Mirror { port }, None)?;
        }
        let mut failed = self.follow_mirrors()?;
        failed.extend(self.beside.mirrors.have_space().err());
        Ok(failed)
    }

    /// Listen for zebra where the configuration says, if that has changed; or why that cannot be.
    pub(super) fn listen_for_zebra(&mut self, config: &Config) -> Result<(), String> {
        let wanted = config.frr.as_ref().filter(|frr| frr.fpm.is_some());
        if self.beside.zebra.as_ref().map(Door::of) != wanted {
            // The old socket may occupy the address of the new one.
            self.beside.zebra = None;
            let opened = config.frr.clone().map_or(Ok(None), Door::open);
            self.beside.zebra = opened.inspect_err(|why| error(why))?;
        }
        Ok(())
    }

    /// Give the worker the kernel's routes if the configuration says so, or take them away.
    ///
    /// # Errors
    /// The worker is gone.
    pub(super) fn pass_kernel(&mut self, config: &Config) -> Result<Result<(), String>> {
        let wanted = config.frr.as_ref().filter(|frr| frr.netlink);
        if self.beside.kernel.as_ref() == wanted {
            return Ok(Ok(()));
        }
        let (had, with_fpm) =
            (self.beside.kernel.take(), wanted.is_some_and(|frr| frr.fpm.is_some()));
        let opened = wanted.map(|frr| kernel::routes(frr.namespace.as_deref())).transpose();
        let opened = match opened {
            Ok(opened) => opened,
            Err(why) => {
                error(&why);
                return Ok(Err(why));
            }
        };
        if had.is_some() || opened.is_some() {
            let order = Order::Kernel { with_fpm };
            orders::send(self.orders.as_fd(), &order, opened.as_ref().map(AsFd::as_fd))?;
        }
        self.beside.kernel = wanted.cloned();
        Ok(Ok(()))
    }

    /// Listen for news of links in the daemons' namespace, if it is not our own.
    pub(super) fn hear_their_links(&mut self) {
        let namespace = self.running.frr.as_ref().and_then(|frr| frr.namespace.clone());
        let open = |name: String| kernel::within(Some(&name), || links::open().map(|(fd, _)| fd));
        self.beside.their_links = namespace.and_then(|name| open(name).ok());
    }

    /// The kernel has news of links in the daemons' namespace.
    ///
    /// # Errors
    /// The worker is gone.
    pub(in crate::daemon) fn their_links_changed(&mut self) -> Result<()> {
        if self.beside.their_links.as_ref().is_some_and(|news| links::hear(news.as_fd())) {
            self.pass_interfaces()?;
        }
        Ok(())
    }

    /// A connection has come where zebra connects: pass it on, if it may.
    ///
    /// # Errors
    /// The worker is gone.
    pub(in crate::daemon) fn admit_zebra(&mut self) -> Result<()> {
        let Some((socket, from)) = self.beside.zebra.as_ref().and_then(Door::admit) else {
            return Ok(());
        };
        self.pass_interfaces()?;
        Ok(orders::send(self.orders.as_fd(), &Order::Zebra { from }, Some(socket.as_fd()))?)
    }

    /// Tell the worker which interfaces are which ports, if that has changed.
    ///
    /// # Errors
    /// The worker is gone.
    pub(super) fn pass_interfaces(&mut self) -> Result<()> {
        if self.beside.zebra.is_none() && self.beside.kernel.is_none() {
            return Ok(());
        }
        let ports = zebra::interfaces(&self.running);
        if ports != self.beside.interfaces {
            self.beside.interfaces.clone_from(&ports);
            orders::send(self.orders.as_fd(), &Order::Interfaces { ports }, None)?;
        }
        Ok(())
    }

    /// Do for mirrors what the worker has said, and pass on their descriptors; returns what failed.
    ///
    /// # Errors
    /// The worker is gone.
    pub(in crate::daemon) fn follow_mirrors(&mut self) -> Result<Vec<String>> {
        let (granted, failed) = self.beside.mirrors.hear();
        for (port, fd) in granted {
            orders::send(self.orders.as_fd(), &Order::Mirror { port }, Some(fd.as_fd()))?;
        }
        self.pass_programs()?;
        Ok(failed)
    }

    /// The kernel has news of the interfaces in the mirrors' namespace, or of their addresses.
    ///
    /// # Errors
    /// The worker is gone.
    pub(in crate::daemon) fn programs_changed(&mut self) -> Result<()> {
        if self.beside.mirrors.has_news() {
            self.pass_programs()?;
        }
        Ok(())
    }

    /// Tell the worker which addresses programs have given the mirrors, if that has changed.
    fn pass_programs(&mut self) -> Result<()> {
        for (port, addresses) in self.beside.mirrors.look() {
            orders::send(self.orders.as_fd(), &Order::Programs { port, addresses }, None)?;
        }
        Ok(())
    }
}
