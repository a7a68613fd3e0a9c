//! Cables that go through bridges of a namespace of their own: there they lose their carrier, or
//! lose all frames while both ends keep the carrier.
//!
//! Called by: `network.rs`. A bridge for each cable, with a port for each end.

use std::cell::RefCell;
use std::collections::BTreeSet;

use anyhow::Result;

use crate::interop::Workbench;
use crate::interop::host::Host;
use crate::interop::ip::sysctl;

/// The bridges.
pub(super) struct Patch<'a> {
    /// Their namespace.
    host: Host<'a>,
    /// Cables without a carrier.
    cut: RefCell<BTreeSet<usize>>,
}

impl<'a> Patch<'a> {
    pub(super) fn new(bench: &'a Workbench) -> Result<Patch<'a>> {
        let host = Host::without_tap(bench)?;
        // The bridges are no hosts.
        sysctl(bench, &host, "ipv6/conf/default/disable_ipv6", "1")?;
        Ok(Patch { host, cut: RefCell::default() })
    }

    /// Join two interfaces, which are made at their hosts.
    pub(super) fn join(&self, cable: usize, ends: [(&Host<'_>, &str); 2]) -> Result<()> {
        let patch = &self.host;
        patch.ip(&format!("link add name b{cable} type bridge mcast_snooping 0"))?;
        patch.ip(&format!("link set b{cable} up"))?;
        for (end, (host, interface)) in ends.into_iter().enumerate() {
            let name = port(cable, end);
            let peer = format!("type veth peer name {name} netns {}", patch.name());
            host.ip(&format!("link add name {interface} {peer}"))?;
            patch.ip(&format!("link set {name} master b{cable} up"))?;
            host.ip(&format!("link set {interface} up"))?;
        }
        Ok(())
    }

    /// Both ends have a carrier, or both have none.
    pub(super) fn set_carrier(&self, cable: usize, has_carrier: bool) -> Result<()> {
        let state = if has_carrier { "up" } else { "down" };
        match has_carrier {
            true => self.cut.borrow_mut().remove(&cable),
            false => self.cut.borrow_mut().insert(cable),
        };
        (0..2).try_for_each(|end| self.host.ip(&format!("link set {} {state}", port(cable, end))))
    }

    pub(super) fn has_carrier(&self, cable: usize) -> bool {
        !self.cut.borrow().contains(&cable)
    }

    /// All frames pass, or none.
    pub(super) fn set_passing(&self, cable: usize, passes: bool) -> Result<()> {
        let master = if passes { format!("master b{cable}") } else { "nomaster".to_owned() };
        self.host.ip(&format!("link set {} {master}", port(cable, 0)))
    }
}

fn port(cable: usize, end: usize) -> String {
    format!("p{cable}-{end}")
}
