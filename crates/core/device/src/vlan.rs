//! 802.1Q in software: splits a device, the trunk, into ports by VLAN.
//!
//! Called by: programs, which give each port to a stack. Counters: [`Device::drops`] of each port;
//! the first port's include the drops of the trunk and its device. Source: IEEE 802.1Q-2022
//! sections 6.9 and 9.6; 802.1ad for the outer tag.
//!
//! ```
//! # mod wirespeed { pub use wirespeed_device as device; }
//! use wirespeed::device::{mem, vlan};
//!
//! let (ours, _theirs) = mem::pair(&mem::Config::default());
//! let ports = vlan::split(Box::new(ours), vlan::TAG, &[vlan::Id::Untagged, vlan::Id::Vlan(5)])?;
//! assert_eq!(ports.len(), 2);
//! # Ok::<(), vlan::VlanError>(())
//! ```
//!
//! The frames of a port have no tag: the tag is inserted on transmit and removed on receive. A
//! received tag's priority is kept in the mbuf ([`mbuf::Mbuf::vlan`]), and a frame with a priority
//! is sent with it. A port is a device, so it can be split again: [`SERVICE_TAG`] outside and
//! [`TAG`] inside is QinQ. Priority tags (VLAN 0) are removed first; then the next tag, or its
//! absence, decides which port gets the frame. Offloads work as without tags. Each tag takes 4
//! bytes of the longest frame, and of the MTU if the device has no room for it besides a full
//! packet.
//!
//! A router writes the front of each frame anyway. So if the device itself has no tags, a router
//! receives and sends frames with the port's tag in them ([`Device::own_tag`]). Frames are queued
//! as they came; the port that takes them removes the tags.
//!
//! Ports may be on different threads. The port that receives first distributes the burst to the
//! others, under a lock, and wakes them. The trunk remembers which ports were pushed back, because
//! a device remembers only its last burst: the next port that sends wakes those that wait for room.

mod port;
mod tag;
mod trunk;

use core::fmt;
use std::sync::{Arc, Mutex};

use base::{LinkKind, Mtu};
use mbuf::{Mbuf, Pool};
pub use port::Port;
pub use tag::{Front, Id, Tag, Tags};
use trunk::{Sleepers, Trunk, locked};

use crate::{Device, Limits};

/// The TPID of a customer tag (802.1Q), the usual one.
pub const TAG: u16 = 0x8100;

/// The TPID of a service tag (802.1ad), the outer one of two.
pub const SERVICE_TAG: u16 = 0x88a8;

/// Split `device` into one port for each of `ids`, in their order. `protocol` is the TPID: [`TAG`],
/// [`SERVICE_TAG`], or another one that the network uses.
///
/// # Errors
/// [`VlanError`], with the invalid VLAN if there is one.
pub fn split(device: Box<dyn Device>, protocol: u16, ids: &[Id]) -> Result<Vec<Port>, VlanError> {
    let limits = device.limits();
    if limits.link != LinkKind::Ethernet {
        return Err(VlanError::NotEthernet);
    }
    for (at, &id) in ids.iter().enumerate() {
        match id {
            Id::Vlan(id) if !(1..tag::ID_MASK).contains(&id) => return Err(VlanError::BadId(id)),
            id if ids[..at].contains(&id) => return Err(VlanError::Twice(id)),
            _ => {}
        }
    }
    let number = |id: &Id| match id {
        Id::Untagged => None,
        Id::Vlan(id) => Some(*id),
    };
    let numbers: Vec<Option<u16>> = ids.iter().map(number).collect();
    let tagged = behind_a_tag(&limits)?;
    let trunk = Arc::new(Mutex::new(Trunk::new(device, protocol, &numbers)));
    let sleepers = Arc::new(Sleepers::default());
    let port = |(number, &id): (usize, &Id)| {
        let limits = if id == Id::Untagged { limits } else { tagged };
        Port::new(trunk.clone(), sleepers.clone(), (number, id), protocol, limits)
    };
    Ok(ids.iter().enumerate().map(port).collect())
}

/// Remove the priority tags of a frame, at most one of each TPID. A priority tag is a tag of VLAN
/// 0; a frame with it counts as untagged (802.1Q table 9-2). Returns `false`, and leaves the frame
/// unchanged, if it has no such tag, or if the frame is shared and the pool has no room for a copy.
#[cold]
pub fn strip_priority(frame: &mut Mbuf, pool: &mut Pool) -> bool {
    tag::strip_priority_of(frame, &[TAG, SERVICE_TAG], pool)
}

/// A device's limits, reduced by the bytes of a tag.
fn behind_a_tag(limits: &Limits) -> Result<Limits, VlanError> {
    let max_frame = limits.max_frame.saturating_sub(tag::LEN);
    let packet = max_frame.saturating_sub(limits.link.header_len());
    let mtu = Mtu::new(limits.mtu.bytes().min(packet)).ok_or(VlanError::NoRoom)?;
    let mut limits = Limits { mtu, max_frame, ..*limits };
    let offloads = &mut limits.offloads;
    offloads.tso_max_bytes = offloads.tso_max_bytes.saturating_sub(tag::LEN);
    offloads.uso_max_bytes = offloads.uso_max_bytes.saturating_sub(tag::LEN);
    Ok(limits)
}

#[cfg(test)]
mod tests;

/// Why a device cannot be split, or why frames do not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VlanError {
    /// The device's link is not Ethernet.
    NotEthernet,
    /// Not a VLAN: 0, 4095 (reserved) or above.
    BadId(u16),
    /// Two ports want the same frames.
    Twice(Id),
    /// The device has no room for the tag and a packet of 68 bytes.
    NoRoom,
    /// The trunk's device carries no frames, for this reason.
    Down(String),
}

impl fmt::Display for VlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VlanError::NotEthernet => f.write_str(
                "a device of bare IP packets has no tags. Split one of Ethernet frames: a TAP, not \
                 a TUN",
            ),
            VlanError::BadId(id) => write!(f, "{id} is no VLAN. Choose one from 1 to 4094"),
            VlanError::Twice(Id::Untagged) => {
                f.write_str("two ports want the frames without a tag. Let one have them")
            }
            VlanError::Twice(Id::Vlan(id)) => {
                write!(f, "two ports want the frames of VLAN {id}. Let one have them")
            }
            VlanError::NoRoom => f.write_str(
                "the device's longest frame has no room for a tag. Give it a larger MTU",
            ),
            VlanError::Down(why) => write!(f, "the trunk carries no frames: {why}"),
        }
    }
}

impl core::error::Error for VlanError {}

// A trunk whose ports are made one by one, while others are in use.
//
// Called by: the callers of `vlan.rs`, where the ports are. The slot of a dropped port is used
// again (`trunk.rs`). IEEE 802.1Q-2022 section 9.6. Counters: those of the ports.

/// A trunk whose ports can be added and dropped while others are in use. The device exists as long
/// as this trunk or one of its ports.
#[derive(Clone)]
pub struct Splitter {
    trunk: Arc<Mutex<Trunk>>,
    sleepers: Arc<Sleepers>,
    protocol: u16,
    limits: Limits,
}

impl Splitter {
    /// Split `device`. The returned port gets the frames without a tag.
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

    /// A port for VLAN `id`, with packets of at most `mtu`. From now on this port gets the VLAN's
    /// frames; an earlier port of the same VLAN gets no more.
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
