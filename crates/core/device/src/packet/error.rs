//! The errors of a packet socket, each with advice for the user.
//!
//! Called by: the files of `packet`.

use core::fmt;

use rustix::io::Errno;

/// Why an interface could not be opened, or why frames do not pass.
///
/// [`fmt::Display`] gives one sentence for what happened and one with the command that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacketError {
    /// Packet sockets need a privilege.
    NoPrivilege,
    /// This kernel has no packet sockets.
    NoDriver,
    /// There is no interface of that name in this thread's network namespace.
    NoInterface {
        /// As given.
        name: String,
    },
    /// The interface carries neither Ethernet frames nor bare IP packets.
    OtherLink {
        /// The interface.
        name: String,
        /// Its hardware type: `ARPHRD_` in Linux `uapi/linux/if_arp.h`.
        kind: u16,
    },
    /// A ring of this shape is impossible.
    BadRing {
        /// What is wrong with it.
        why: &'static str,
    },
    /// A call was refused.
    Refused {
        /// The call.
        what: &'static str,
        /// The interface.
        name: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// The interface is down: frames for it are lost until it is up.
    Down {
        /// The interface.
        name: String,
    },
    /// The interface is up, but its link is not: there is no cable, or the other end is down.
    NoCarrier {
        /// The interface.
        name: String,
    },
    /// There is no interface of that name any more. If there is one again, it is used.
    Vanished {
        /// The interface.
        name: String,
    },
    /// The interface is gone, and this socket cannot be bound to a new one.
    Gone {
        /// The interface.
        name: String,
    },
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketError::NoPrivilege => f.write_str(
                "no privilege to open a packet socket. Run as root, or give the program the \
                 capability: `sudo setcap cap_net_raw+ep PROGRAM`",
            ),
            PacketError::NoDriver => f.write_str(
                "this kernel has no packet sockets. Load the driver: `sudo modprobe af_packet`",
            ),
            PacketError::NoInterface { name } => write!(
                f,
                "no interface '{name}' in this network namespace. See which there are: `ip link`; \
                 if it is in another, run the program there: `sudo ip netns exec NAMESPACE PROGRAM`"
            ),
            PacketError::OtherLink { name, kind } => write!(
                f,
                "interface '{name}' carries frames of kind {kind} (ARPHRD), neither Ethernet nor \
                 bare IP. Choose another: `ip -br link` lists them"
            ),
            PacketError::BadRing { why } => write!(f, "the receive ring is not possible: {why}"),
            PacketError::Refused { what, name, errno } => write!(
                f,
                "{what} of interface '{name}' was refused: {errno}. See what the kernel knows of \
                 it: `ip -d link show dev {name}`"
            ),
            PacketError::NoCarrier { name } => write!(
                f,
                "interface '{name}' has no carrier. Plug its cable in, or bring the other end up"
            ),
            PacketError::Down { name } => {
                write!(f, "interface '{name}' is down. Bring it up: `sudo ip link set {name} up`")
            }
            PacketError::Vanished { name } => write!(
                f,
                "interface '{name}' is not there any more. Make it again, and it is used: \
                 `ip link` lists the interfaces"
            ),
            PacketError::Gone { name } => write!(
                f,
                "interface '{name}' is not there any more, and a socket that was opened on it \
                 cannot use a new interface of that name. Open it again when it is back: `ip link` \
                 lists the interfaces"
            ),
        }
    }
}

impl core::error::Error for PacketError {}

/// The error for a refused call.
pub(super) fn refused(what: &'static str, name: &str) -> impl FnOnce(Errno) -> PacketError {
    let name = name.to_owned();
    move |errno| match errno {
        Errno::PERM | Errno::ACCESS => PacketError::NoPrivilege,
        Errno::AFNOSUPPORT => PacketError::NoDriver,
        Errno::NODEV | Errno::NXIO | Errno::NAMETOOLONG => PacketError::NoInterface { name },
        errno => PacketError::Refused { what, name, errno },
    }
}
