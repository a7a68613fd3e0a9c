//! The link of a port: a device of this machine, or a VLAN of another port.
//!
//! Called by: `port.rs` reads it; code that opens devices uses their kinds and names.

use core::fmt;

use base::LinkKind;

use super::file::Section;

/// Bytes of an interface's name in Linux.
const NAME_MAX: usize = 15;

/// The link of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// A device of this machine.
    Device(DeviceName),
    /// A VLAN of another port.
    Vlan {
        /// The port whose frames have tags.
        parent: String,
        /// 1 to 4094.
        id: u16,
    },
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Link::Device(device) => write!(f, "{device}"),
            Link::Vlan { parent, id } => write!(f, "VLAN {id} of {parent}"),
        }
    }
}

/// A device by kind and name, as in `tap:ws0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceName {
    /// Its kind.
    pub kind: Kind,
    /// The interface's name, at most 15 bytes.
    pub name: String,
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = Kind::ALL.iter().find(|(_, kind)| *kind == self.kind);
        write!(f, "{}:{}", kind.map_or("", |(name, _)| name), self.name)
    }
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A TAP: Ethernet frames from and to the kernel.
    Tap,
    /// A TUN: IP packets from and to the kernel.
    Tun,
    /// A packet socket on an interface, beside the kernel.
    Packet,
    /// An AF_XDP socket on an interface, instead of the kernel.
    Xdp,
}

impl Kind {
    /// All kinds, with the text before the colon.
    pub const ALL: [(&'static str, Kind); 4] =
        [("tap", Kind::Tap), ("tun", Kind::Tun), ("packet", Kind::Packet), ("xdp", Kind::Xdp)];

    /// The kind of link header of its frames.
    pub fn link(self) -> LinkKind {
        if self == Kind::Tun { LinkKind::Ip } else { LinkKind::Ethernet }
    }
}

impl Link {
    /// `device`, or `parent` and `vlan`, if they are valid.
    pub(super) fn read(section: &Section<'_>) -> Option<Link> {
        let device = section.text("device").and_then(|text| device(text, section));
        let (parent, id) = (section.text("parent"), section.number("vlan", 1..=4094));
        match (device, parent, id) {
            (Some(device), None, None) => return Some(Link::Device(device)),
            (None, Some(parent), Some(id)) => {
                return Some(Link::Vlan { parent: parent.to_owned(), id });
            }
            (Some(_), ..) => {
                section.note(
                    "device",
                    "a port has a device, or a parent and a vlan: remove one of them",
                );
            }
            (None, Some(_), None) if !section.has("vlan") => {
                section.note("parent", "the VLAN has no number: add vlan = 20");
            }
            (None, None, _) if !section.has("device") && !section.has("parent") => {
                let what = "the port has no device: add device = \"tap:ws0\", or parent and vlan";
                section.log.note(section.at, what);
            }
            // An error in one of them was noted already.
            (None, ..) => {}
        }
        None
    }
}

fn device(text: &str, section: &Section<'_>) -> Option<DeviceName> {
    let Some((kind, name)) = text.split_once(':') else {
        section.note("device", format!("'{text}' is no device: write KIND:NAME, as \"tap:ws0\""));
        return None;
    };
    let Some((_, kind)) = Kind::ALL.iter().find(|(known, _)| *known == kind) else {
        let names = Kind::ALL.map(|(name, _)| name);
        section.log.unknown(section.at("device"), "kind of device", kind, &names);
        return None;
    };
    let is_name = |c: char| !c.is_whitespace() && !c.is_control() && c != '/';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_name) {
        let what = "an interface's name has 1 to 15 bytes, no space and no slash";
        section.note("device", format!("'{name}' names no interface: {what}"));
        return None;
    }
    Some(DeviceName { kind: *kind, name: name.to_owned() })
}
