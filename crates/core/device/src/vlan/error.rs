//! Why a device cannot be split into ports, or why a port carries no frames.
//!
//! Called by: `vlan.rs`, `vlan/splitter.rs`. Each message says what to do.

use core::fmt;

use super::tag::Id;

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
