//! [`Host`]: a stack with an address, and the tasks of its programs. It can crash and come back.
//!
//! Called by: programs under test.

use core::future::Future;
use core::net::{IpAddr, SocketAddr};
use std::io;
use std::sync::Arc;

use net::Net;
use tokio::task::{AbortHandle, JoinHandle};

use crate::error::down;
use crate::link;
use crate::state::{Core, State};

/// From this many tasks on, the finished ones are forgotten before another one is added.
const TASKS: usize = 64;

/// A host. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    core: Arc<Core>,
    number: usize,
}

impl core::fmt::Debug for Host {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Host").field("name", &self.name()).field("ip", &self.ip()).finish()
    }
}

impl Host {
    pub(crate) fn new(core: Arc<Core>, number: usize) -> Host {
        Host { core, number }
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// The host's name.
    pub fn name(&self) -> String {
        self.core.state().machines[self.number].name.clone()
    }

    /// The host's IPv4 address; the host keeps its addresses when it crashes.
    pub fn ip(&self) -> IpAddr {
        self.core.state().machines[self.number].v4.into()
    }

    /// The host's IPv6 address.
    pub fn ip6(&self) -> IpAddr {
        self.core.state().machines[self.number].v6.into()
    }

    /// A port of the host, at its IPv4 address.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip(), port)
    }

    /// A port of the host, at its IPv6 address.
    pub fn at6(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip6(), port)
    }

    /// The host's stack, for the calls that make sockets. After a crash the host has another stack.
    ///
    /// # Errors
    /// [`io::ErrorKind::HostUnreachable`]: the host has crashed.
    pub fn net(&self) -> io::Result<Net> {
        let state = self.core.state();
        let station = state.stations[self.number].as_ref();
        station.map(|station| station.net.clone()).ok_or_else(|| down(&self.name_in(&state)))
    }

    fn name_in(&self, state: &State) -> String {
        state.machines[self.number].name.clone()
    }

    /// Run a task on this host: it ends when the host crashes, and at once on a host that is down.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let task = tokio::spawn(task);
        let mut state = self.core.state();
        if state.stations[self.number].is_none() {
            task.abort();
        }
        let tasks = &mut state.machines[self.number].tasks;
        if tasks.len() >= TASKS.max(tasks.capacity()) {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(task.abort_handle());
        task
    }

    /// Is the host running?
    pub fn is_up(&self) -> bool {
        self.core.state().stations[self.number].is_some()
    }

    /// Let the host lose its power: its tasks end, its connections are gone without a FIN or RST,
    /// and packets to it are lost. A host that is down stays so.
    pub fn crash(&self) {
        let (tasks, station) = {
            let mut state = self.core.state();
            let Some(station) = state.stations[self.number].take() else { return };
            let machine = &mut state.machines[self.number];
            (core::mem::take(&mut machine.tasks), station)
        };
        tasks.iter().for_each(AbortHandle::abort);
        link::unplug(&self.core, self.number, &station.net);
        // All sockets of the host fail from here on.
        drop(station);
        link::follow_crash(&self.core, self.number);
    }

    /// Start a host that has crashed: with the same addresses, a new stack, and no task. A host
    /// that is up stays as it is.
    ///
    /// # Errors
    /// A capture file cannot be made.
    pub fn restart(&self) -> io::Result<()> {
        {
            let mut state = self.core.state();
            if state.stations[self.number].is_some() {
                return Ok(());
            }
            let machine = &mut state.machines[self.number];
            machine.boots += 1;
            let station = self.core.boot(self.number, machine);
            state.stations[self.number] = Some(station);
        }
        link::follow_restart(&self.core, self.number)?;
        self.core.idle.wake();
        Ok(())
    }
}
