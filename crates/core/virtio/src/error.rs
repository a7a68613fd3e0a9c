//! Why a machine's network card does not work, each with advice for the user.
//!
//! Called by: the files of this crate.

use core::fmt;

use device::vm::VmError;

/// Why a socket could not be made, or why frames do not pass.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum VhostError {
    /// The socket could not be made or used.
    Socket(VmError),
    /// No machine has connected yet, or the last one has gone.
    Waiting {
        /// Where it listens.
        place: String,
    },
    /// The machine at whose socket we were has gone; we try again each second.
    Gone {
        /// Where it listened.
        place: String,
    },
    /// The machine has not started its card: it boots, or has no driver.
    NotStarted {
        /// The socket's path.
        place: String,
    },
    /// The guest's driver has written what cannot be into a ring.
    Ring {
        /// The socket's path.
        place: String,
    },
    /// The machine has sent a request that the protocol does not permit, and was disconnected.
    Protocol {
        /// The socket's path.
        place: String,
        /// What the request was.
        why: String,
    },
}

impl From<VmError> for VhostError {
    fn from(error: VmError) -> VhostError {
        VhostError::Socket(error)
    }
}

impl fmt::Display for VhostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VhostError::Socket(error) => error.fmt(f),
            VhostError::Waiting { place } => write!(
                f,
                "no virtual machine is connected to {place}: start one with its memory shared, as \
                 with -object memory-backend-memfd,id=m,size=1G,share=on -machine memory-backend=m \
                 -chardev socket,id=c,path={place} -netdev vhost-user,id=n,chardev=c"
            ),
            VhostError::Gone { place } => write!(
                f,
                "the virtual machine at {place} has gone: start it again, and we connect to it"
            ),
            VhostError::NotStarted { place } => write!(
                f,
                "the virtual machine at {place} has not started its network card: it boots, or has \
                 no driver for virtio-net"
            ),
            VhostError::Ring { place } => write!(
                f,
                "the guest at {place} has a ring of its network card with impossible entries: \
                 restart the guest, or its driver"
            ),
            VhostError::Protocol { place, why } => write!(
                f,
                "the virtual machine at {place} was disconnected, because it sent what vhost-user \
                 does not permit ({why}): start it again, or use another kind of network"
            ),
        }
    }
}

impl core::error::Error for VhostError {}
