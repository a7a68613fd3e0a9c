//! How a virtual machine is connected: a socket or a TAP that the user's process opened, as the
//! gateway's process uses it.
//!
//! Called by: the tools for virtual machines, which make the descriptors; `machine.rs`.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anyhow::Result;
use base::{LinkKind, Mtu};
use device::Device;
use device::tap::{Declared, Tap};
use device::vm::{Dgram, Stream};
use serde::{Deserialize, Serialize};
use virtio::{Bare, VhostUser};

/// What the descriptor of a machine's link is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Connection {
    /// A listening stream socket.
    Listener {
        /// Where it listens.
        path: PathBuf,
    },
    /// A stream socket that a machine is connected to.
    Connected {
        /// What messages call it.
        place: PathBuf,
    },
    /// A datagram socket; without `remote` the machine sends first.
    Datagram {
        /// Our socket.
        local: PathBuf,
        /// The machine's.
        remote: Option<PathBuf>,
    },
    /// A socket that is connected to a machine's, with one frame per datagram.
    Peer,
    /// A listening socket of vhost-user.
    VhostUser {
        /// Where it listens.
        path: PathBuf,
    },
    /// A TAP with this MTU, or with that of the gateway.
    Tap {
        /// Its own MTU.
        mtu: Option<usize>,
        /// Does it take long UDP datagrams, which it cuts?
        uso: bool,
    },
    /// Frames come with the card's offloads, though without its header.
    Bare(Box<Connection>),
}

impl Connection {
    /// The connection below offloads.
    pub fn plain(&self) -> &Connection {
        match self {
            Connection::Bare(inner) => inner,
            other => other,
        }
    }

    /// The link, for packets of up to `mtu` bytes; a TAP has its own MTU.
    ///
    /// # Errors
    /// The device's error, with what to do.
    pub(super) fn device(&self, fd: OwnedFd, mtu: Mtu) -> Result<Box<dyn Device>> {
        Ok(match self {
            Connection::Listener { path } => {
                Box::new(Stream::from_listener(fd.into(), path)?.with_mtu(mtu))
            }
            Connection::Connected { place } => {
                Box::new(Stream::from_socket(fd.into(), place)?.with_mtu(mtu))
            }
            Connection::Datagram { local, remote } => {
                let dgram = Dgram::from_socket(fd.into(), local, remote.as_deref())?;
                Box::new(dgram.with_mtu(mtu))
            }
            Connection::Peer => Box::new(Dgram::adopt(fd.into())?.with_mtu(mtu)),
            Connection::VhostUser { path } => {
                Box::new(VhostUser::from_listener(fd.into(), path)?.with_mtu(mtu))
            }
            Connection::Bare(inner) => {
                let device = inner.device(fd, Bare::<Box<dyn Device>>::inner_mtu())?;
                Box::new(Bare::new(device, mtu))
            }
            &Connection::Tap { mtu: own, uso } => {
                let mtu = own.and_then(Mtu::new).unwrap_or(mtu);
                let link = LinkKind::Ethernet;
                Box::new(Tap::adopt(fd, &Declared { link, mtu, uso, ..Declared::default() })?)
            }
        })
    }
}
