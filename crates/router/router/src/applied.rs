//! The state that has taken effect: the router's ports by name, and the configuration that runs.
//!
//! Called by: the worker of `wirespeed up`, under the stacks' locks, at the start and whenever a
//! configuration takes effect. An operation that fails is reported, and the others are carried out.
//! A failed operation is part of the difference to the next configuration, so it is tried again.

pub(crate) mod ports;

use core::fmt::Display;
use std::collections::BTreeMap;

use base::Instant;
use stack::Stack;

pub use crate::config::setting::Stacks;
pub use ports::{AppliedPort, Opened, Step};

use crate::config::setting::first;
use crate::config::{Config, Filter, Port};
use crate::plan::{self, Operation};
use control::Users;
use ports::State;

/// The result of an operation.
#[derive(Debug)]
pub struct Done {
    /// The operation.
    pub operation: Operation,
    /// Why it failed, and what to do.
    pub result: Result<(), String>,
}

/// The state that has taken effect.
pub struct Applied {
    state: State,
    running: Config,
}

impl Default for Applied {
    fn default() -> Applied {
        Applied { state: State::default(), running: Config::host() }
    }
}

impl Applied {
    /// The configuration that runs, without the operations that failed.
    pub fn running(&self) -> &Config {
        &self.running
    }

    /// The ports of `wanted` that are not there, or have another link.
    pub fn absent(&self, wanted: &Config) -> Vec<String> {
        let link = |port: &Port| (port.link.clone(), port.mac, port.mtu);
        let differs = |(name, port): &(&String, &Port)| {
            self.running.ports.get(*name).map(link) != Some(link(port))
        };
        wanted.ports.iter().filter(differs).map(|(name, _)| name.clone()).collect()
    }

    /// The device of a port is gone; the next configuration opens it again.
    pub fn lose_device(&mut self, port: &str) {
        self.running.lose_device(port);
    }

    /// The ports by name.
    pub fn ports(&self) -> &BTreeMap<String, AppliedPort> {
        &self.state.ports
    }

    /// The groups of users.
    pub fn users(&self) -> &Users {
        &self.state.users
    }

    /// Compile the rules of `wanted`, before the stacks are locked: packets do not wait for it.
    /// `generation` is that of the rules that the stacks have, or 0.
    pub fn prepare(&mut self, wanted: &Config, generation: u32) {
        if let Some(filter) = &wanted.filter
            && self.running.filter.as_ref() != Some(filter)
        {
            self.state.filter.prepare(filter, &self.state.ports, generation);
        }
    }

    /// Free what the stacks have no longer; it takes time, and they should not wait for it.
    pub fn free(&mut self) {
        self.state.filter.free();
    }

    /// Does the stack have other rules than those of the configuration? They are on trial.
    pub fn has_other_rules(&self, stack: &Stack) -> bool {
        self.state.filter.differs(stack)
    }

    /// Configure the stacks as `wanted` says. `open` returns the device of a port. If no port
    /// exists and none can be added, nothing else is done either.
    pub fn apply(
        &mut self,
        stacks: Stacks<'_, '_>,
        wanted: &Config,
        mut open: impl FnMut(&str, &Port) -> Result<Opened, String>,
    ) -> Vec<Done> {
        let mut all = Vec::new();
        let mut has_none = false;
        if self.state.filter.differs(first(&mut *stacks)) {
            self.running.filter = Some(Filter::of_others());
        }
        for operation in plan::difference(&self.running, wanted) {
            let is_port = matches!(operation, Operation::Port(_, Step::Add(..)));
            if has_none && !is_port {
                break;
            }
            let result = operation.carry_out(&mut self.state, stacks, &mut open);
            if result.is_ok() {
                operation.note(&mut self.running);
            }
            has_none = is_port && self.state.ports.is_empty();
            all.push(Done { operation, result });
        }
        stacks.iter_mut().for_each(|stack| stack.flush());
        self.running.process.clone_from(&wanted.process);
        self.running.frr.clone_from(&wanted.frr);
        self.running.mirrors.clone_from(&wanted.mirrors);
        all
    }

    /// Let the DHCP clients read and send; `say` is called with each change. Returns when to call
    /// again.
    pub fn turn_dhcp(&mut self, stack: &mut Stack, say: impl FnMut(&str, &dyn Display)) -> Instant {
        self.state.turn_dhcp(stack, say)
    }

    /// Send records of flows, and take events of the firewalls. Returns when to call again.
    pub fn turn_export(&mut self, stacks: Stacks<'_, '_>) -> Instant {
        self.state.export.turn(stacks)
    }

    /// Encode the events that were taken, while no stack waits. `true`: messages are ready to be
    /// sent by [`Applied::turn_export`].
    pub fn encode_export(&mut self) -> bool {
        self.state.export.encode()
    }

    /// Let the partner's session have its turn. Returns when to call again.
    pub fn turn_pair(&mut self, stacks: Stacks<'_, '_>) -> Instant {
        let ports = self.state.ports.iter();
        self.state.pair.turn(stacks, ports.map(|(name, port)| (port.id.0, name.as_str())))
    }

    /// Encrypt and decrypt what the session has, while no stack waits. `true`: the next
    /// [`Applied::turn_pair`] is due at once.
    pub fn work_pair(&mut self) -> bool {
        self.state.pair.work()
    }

    /// The program ends: stop forwarding and the DHCP clients.
    pub fn stop(&mut self, stack: &mut Stack) {
        stack.set_forwarding(false);
        for port in self.state.ports.values_mut() {
            port.stop_managed(stack);
            port.stop_dhcp(stack);
        }
        stack.flush();
    }
}
