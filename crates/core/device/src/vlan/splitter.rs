//! A trunk whose ports are made one by one, while others are in use.
//!
//! Called by: programs that learn their VLANs from a configuration. As `vlan.rs`, which has the
//! ports; the place of a port that was dropped is used again (`trunk.rs`). IEEE 802.1Q-2022 section
//! 9.6. Counters: those of the ports.

use std::sync::{Arc, Mutex};

use base::Mtu;

use super::error::VlanError;
use super::port::Port;
use super::tag::Id;
use super::trunk::{Sleepers, Trunk, locked};
use super::{behind_a_tag, split, tag};
use crate::{Device, Limits};

/// A trunk whose ports come and go while the others are in use; as long as it or a port exists, so
/// does the device.
#[derive(Clone)]
pub struct Splitter {
    trunk: Arc<Mutex<Trunk>>,
    sleepers: Arc<Sleepers>,
    protocol: u16,
    limits: Limits,
}

impl Splitter {
    /// Split `device`; the port has the frames without a tag.
    ///
    /// # Errors
    /// [`VlanError::NotEthernet`].
    pub fn new(device: Box<dyn Device>, protocol: u16) -> Result<(Splitter, Port), VlanError> {
        let limits = device.limits();
        let mut ports = split(device, protocol, &[Id::Untagged])?;
        let port = ports.pop().ok_or(VlanError::NoRoom)?;
        let (trunk, sleepers) = (port.trunk.clone(), port.sleepers.clone());
        Ok((Splitter { trunk, sleepers, protocol, limits }, port))
    }

    /// A port of VLAN `id`, of packets of at most `mtu`. From now on it has the VLAN's frames: an
    /// earlier port of the VLAN receives no more.
    ///
    /// # Errors
    /// [`VlanError::BadId`], [`VlanError::NoRoom`].
    pub fn port(&self, id: u16, mtu: Option<Mtu>) -> Result<Port, VlanError> {
        if !(1..tag::ID_MASK).contains(&id) {
            return Err(VlanError::BadId(id));
        }
        let mut limits = behind_a_tag(&self.limits)?;
        limits.mtu = mtu.map_or(limits.mtu, |mtu| mtu.min(limits.mtu));
        let number = locked(&self.trunk).add(id);
        let (trunk, sleepers) = (self.trunk.clone(), self.sleepers.clone());
        Ok(Port::new(trunk, sleepers, (number, Id::Vlan(id)), self.protocol, limits))
    }
}
