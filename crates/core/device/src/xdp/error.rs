//! The errors of an AF_XDP socket, each with advice for the user.
//!
//! Called by: the files of `xdp`.

use core::fmt;

use rustix::io::Errno;

/// Why an interface could not be opened, or why frames do not pass.
///
/// [`fmt::Display`] gives one sentence for what happened and one with the command that helps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum XdpError {
    /// Loading the program and opening the socket need privileges.
    NoPrivilege,
    /// This kernel has no AF_XDP, or no bpf(2).
    NoDriver,
    /// There is no interface of that name in this thread's network namespace.
    NoInterface {
        /// As given.
        name: String,
    },
    /// The interface's link is not Ethernet.
    NotEthernet {
        /// The interface.
        name: String,
    },
    /// A packet of the interface does not fit into a frame of the shared memory.
    MtuTooLarge {
        /// The interface.
        name: String,
        /// The largest packet that fits, in bytes.
        largest: usize,
    },
    /// Another program uses the interface, or one of the queues.
    Taken {
        /// The interface.
        name: String,
    },
    /// The interface has no queue of that number, or its driver does not support the mode.
    NoQueue {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
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
    /// The interface is gone for good.
    Gone {
        /// The interface.
        name: String,
    },
}

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            XdpError::NoPrivilege => f.write_str(
                "no privilege for AF_XDP. Run as root, or give the program the capabilities: \
                 `sudo setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep PROGRAM`",
            ),
            XdpError::NoDriver => f.write_str(
                "this kernel has no AF_XDP. Use Linux 5.9 or later with CONFIG_XDP_SOCKETS and \
                 CONFIG_BPF_SYSCALL, or a packet socket instead",
            ),
            XdpError::NoInterface { name } => write!(
                f,
                "no interface '{name}' in this network namespace. See which there are: `ip link`"
            ),
            XdpError::NotEthernet { name } => write!(
                f,
                "interface '{name}' carries no Ethernet frames. Choose another: `ip -br link` \
                 lists them"
            ),
            XdpError::MtuTooLarge { name, largest } => write!(
                f,
                "packets of interface '{name}' are too large. Make them smaller: \
                 `sudo ip link set {name} mtu {largest}`"
            ),
            XdpError::Taken { name } => write!(
                f,
                "interface '{name}' has an XDP program already, or its queue another socket. End \
                 the program that has it, or detach it: `sudo ip link set {name} xdp off`"
            ),
            XdpError::NoQueue { name, queue } => write!(
                f,
                "interface '{name}' has no queue {queue}, or its driver cannot do this. See what \
                 it has: `ethtool -l {name}`"
            ),
            XdpError::Refused { what, name, errno } => write!(
                f,
                "{what} of interface '{name}' was refused: {errno}. See what the kernel knows of \
                 it: `ip -d link show dev {name}`"
            ),
            XdpError::Down { name } => {
                write!(f, "interface '{name}' is down. Bring it up: `sudo ip link set {name} up`")
            }
            XdpError::Gone { name } => {
                write!(f, "interface '{name}' was deleted. Make it and open it again")
            }
        }
    }
}

impl core::error::Error for XdpError {}

/// The error for a refused call.
pub(super) fn refused(what: &'static str, name: &str) -> impl FnOnce(Errno) -> XdpError {
    let name = name.to_owned();
    move |errno| match errno {
        Errno::PERM | Errno::ACCESS => XdpError::NoPrivilege,
        Errno::AFNOSUPPORT | Errno::NOSYS => XdpError::NoDriver,
        Errno::NODEV | Errno::NXIO | Errno::NAMETOOLONG => XdpError::NoInterface { name },
        Errno::BUSY | Errno::EXIST => XdpError::Taken { name },
        errno => XdpError::Refused { what, name, errno },
    }
}
