//! What the descriptors are for that a gateway gets.
//!
//! Called by: `machine.rs`, once; `running.rs` and tools, for texts that are given as files.
//! `settings.rs` says which descriptor is which.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use device::Device;

use super::asking::Asking;
use super::ends::End;
use super::messages::Messages;
use super::orders::Orders;
use super::publish::Published;
use super::rules::Texts;
use super::servers::Servers;
use super::settings::{Given as What, Settings};
use super::watch::Watch;

/// What the descriptors of a gateway are for, each in its place.
pub(super) struct Taken {
    /// The links to virtual machines.
    pub(super) machines: Vec<Box<dyn Device>>,
    pub(super) watch: Watch,
    pub(super) texts: Texts,
    pub(super) asking: Option<Asking>,
    pub(super) servers: Option<Servers>,
    pub(super) capture: Option<File>,
    pub(super) published: Vec<(Published, OwnedFd)>,
    pub(super) proxies: Vec<OwnedFd>,
    pub(super) orders: Option<Orders>,
    pub(super) ends: Vec<End>,
}

impl Taken {
    pub(super) fn of(
        settings: &Settings,
        descriptors: Vec<OwnedFd>,
        messages: &Messages,
    ) -> Result<Taken> {
        let mut taken = Taken {
            machines: Vec::new(),
            watch: Watch::new(settings.tool.name(), messages.clone()),
            texts: Texts::default(),
            asking: None,
            servers: None,
            capture: None,
            published: Vec::new(),
            proxies: Vec::new(),
            orders: None,
            ends: Vec::new(),
        };
        for (what, fd) in settings.given.iter().zip(descriptors) {
            match what {
                What::Published(port) => taken.published.push((port.clone(), fd)),
                What::Machine(connection) => {
                    taken.machines.push(connection.device(fd, settings.mtu())?);
                }
                What::Proxy => taken.proxies.push(fd),
                What::Control(path) => taken.watch.serve_at(fd, path),
                What::Page { token } => taken.watch.page(fd, token.clone())?,
                What::Policy => taken.texts = serde_json::from_reader(File::from(fd))?,
                What::Capture => taken.capture = Some(File::from(fd)),
                What::Log => taken.watch.log(File::from(fd)),
                What::OlderLog => taken.watch.older_log(File::from(fd)),
                What::Learn => taken.watch.learn(File::from(fd)),
                What::Servers => taken.servers = Some(Servers::new(fd)),
                What::Asking => taken.asking = Some(Asking::new(fd)?),
                What::Orders(dialect) => taken.orders = Some(Orders::new(fd, *dialect)?),
                What::End(when) => taken.ends.push(End::new(fd, when.clone())),
            }
        }
        Ok(taken)
    }
}

/// A file in memory.
///
/// # Errors
/// The system has no descriptor or no memory left.
pub fn in_memory(contents: &[u8]) -> Result<OwnedFd> {
    let made = rustix::fs::memfd_create("settings", rustix::fs::MemfdFlags::CLOEXEC);
    let mut file = File::from(made.context("no file in memory can be made")?);
    file.write_all(contents).and_then(|()| file.rewind()).context("no memory is left")?;
    Ok(file.into())
}
