//! The errors of a TAP or TUN, each with advice for the user.
//!
//! Called by: the files of `tap`.

use core::fmt;

use rustix::io::Errno;

/// Why an interface could not be opened, adopted or configured, or why frames do not pass.
///
/// [`fmt::Display`] gives one sentence for what happened and one with the command that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TapError {
    /// `/dev/net/tun` does not exist, or has no driver.
    NoDriver,
    /// `/dev/net/tun` may not be opened for reading and writing.
    OpenDenied,
    /// Creating or joining the interface needs a privilege.
    NoPrivilege {
        /// The interface; empty if the kernel was to choose.
        name: String,
    },
    /// The name has more than 15 bytes.
    NameTooLong {
        /// As given.
        name: String,
    },
    /// The kernel refuses this name with these flags.
    Mismatch {
        /// As given.
        name: String,
    },
    /// Another program uses the interface.
    Taken {
        /// The interface.
        name: String,
    },
    /// The adopted descriptor cannot carry frames.
    BadDescriptor {
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is no interface of that name in this thread's network namespace.
    NotHere {
        /// The interface; empty for an adopted descriptor without a name.
        name: String,
    },
    /// A setting was refused.
    Refused {
        /// The setting.
        what: String,
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
    /// The interface, or the other end of the descriptor, is gone for good.
    Gone {
        /// The interface.
        name: String,
        /// The kernel's error.
        errno: Errno,
    },
}

impl TapError {
    /// The system's error number that says the same as far as a number can.
    pub fn raw_os_error(&self) -> i32 {
        let errno = match self {
            TapError::NoPrivilege { .. } | TapError::OpenDenied => Errno::PERM,
            TapError::NameTooLong { .. }
            | TapError::Mismatch { .. }
            | TapError::BadDescriptor { .. } => Errno::INVAL,
            TapError::Taken { .. } => Errno::BUSY,
            TapError::NoDriver | TapError::NotHere { .. } => Errno::NODEV,
            TapError::Down { .. } => Errno::NETDOWN,
            TapError::Refused { errno, .. } | TapError::Gone { errno, .. } => *errno,
        };
        errno.raw_os_error()
    }
}

impl fmt::Display for TapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TapError::NoDriver => f.write_str(
                "/dev/net/tun is missing. Load the driver: `sudo modprobe tun`; \
                 in a container, start it with `--device /dev/net/tun`",
            ),
            TapError::OpenDenied => f.write_str(
                "/dev/net/tun may not be opened. Run as root, or let everyone open it (making an \
                 interface still takes a privilege): `sudo chmod 666 /dev/net/tun`",
            ),
            TapError::NoPrivilege { name } => write!(
                f,
                "no privilege to open the interface{}. Run as root, or give the program the \
                 capability: `sudo setcap cap_net_admin+ep PROGRAM`, or have the interface made \
                 for you: `sudo ip tuntap add dev {} mode tap user $(id -un)` (TUN: mode tun; \
                 with offloads add `vnet_hdr`)",
                Quoted(name),
                if name.is_empty() { "NAME" } else { name },
            ),
            TapError::NameTooLong { name } => {
                write!(f, "interface name '{name}' is too long. Choose one of at most 15 bytes")
            }
            TapError::Mismatch { name } => write!(
                f,
                "the kernel refuses '{name}': it exists as something else (see `ip -d link show \
                 dev {name}`), or is no valid name. Choose another name, or open it as what it is: \
                 TAP, or TUN, with several queues if it was made with `multi_queue`"
            ),
            TapError::Taken { name } => write!(
                f,
                "interface '{name}' is in use by another program. Find it: `grep -l {name} \
                 /proc/[0-9]*/fdinfo/*`; or choose another name"
            ),
            TapError::BadDescriptor { why } => write!(
                f,
                "the descriptor cannot carry frames: {why}. Hand in one of /dev/net/tun after \
                 TUNSETIFF with IFF_NO_PI, or a datagram socket, opened for reading and writing"
            ),
            TapError::NotHere { name } if name.is_empty() => f.write_str(
                "the descriptor does not say which interface it belongs to. Whoever opened it has \
                 to set the interface up: `ip link set dev NAME up`",
            ),
            TapError::NotHere { name } => write!(
                f,
                "no interface '{name}' in this network namespace. See which there are: `ip link`; \
                 if it was moved, set it up where it is: `ip -n NAMESPACE link set dev {name} up`"
            ),
            TapError::Refused { what, name, errno } => write!(
                f,
                "{what} of interface '{name}' was refused: {errno}. Try it by hand and see what \
                 the kernel says: `sudo ip link set dev {name} up`, `ip -d addr show dev {name}`"
            ),
            TapError::Down { name } => {
                write!(f, "interface '{name}' is down. Bring it up: `sudo ip link set {name} up`")
            }
            TapError::Gone { name, errno } => write!(
                f,
                "interface{} is gone ({errno}): it was deleted, or its other end was closed. \
                 Open it again",
                Quoted(name)
            ),
        }
    }
}

impl core::error::Error for TapError {}

/// ` 'name'`, or nothing for no name.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " '{}'", self.0) }
    }
}

/// The error for a failed open of `/dev/net/tun`.
pub(super) fn opening(errno: Errno) -> TapError {
    match errno {
        Errno::ACCESS | Errno::PERM => TapError::OpenDenied,
        Errno::NOENT | Errno::NODEV | Errno::NXIO => TapError::NoDriver,
        errno => refused("opening /dev/net/tun", "", errno),
    }
}

/// The error for a failed TUNSETIFF.
pub(super) fn attaching(name: &str, errno: Errno) -> TapError {
    let name = name.to_owned();
    match errno {
        Errno::PERM | Errno::ACCESS => TapError::NoPrivilege { name },
        Errno::NAMETOOLONG => TapError::NameTooLong { name },
        Errno::BUSY => TapError::Taken { name },
        Errno::INVAL | Errno::EXIST => TapError::Mismatch { name },
        errno => refused("attaching to the queue", &name, errno),
    }
}

/// The error for a failed setting.
pub(super) fn refused(what: &str, name: &str, errno: Errno) -> TapError {
    let name = name.to_owned();
    match errno {
        Errno::PERM | Errno::ACCESS => TapError::NoPrivilege { name },
        Errno::NODEV => TapError::NotHere { name },
        errno => TapError::Refused { what: what.to_owned(), name, errno },
    }
}
