//! The link of a virtual machine, as a program gives it: a descriptor and its kind.
//!
//! Called by: programs, for [`Config::vms`](super::Config::vms); `running.rs`.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use rustix::net::SocketType;
use rustix::net::sockopt::{socket_acceptconn, socket_type};

use super::connection::Connection;

/// How a virtual machine sends its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmKind {
    /// A Unix stream socket: QEMU's `-netdev stream`, and passt's socket. A length of 32 bits
    /// precedes each frame. A connected socket serves one machine; a listening socket serves one
    /// machine after the other.
    Stream,
    /// A Unix datagram socket, one frame per datagram: QEMU's `-netdev dgram`, vfkit, libkrun. A
    /// socket without a peer waits for the machine to send first.
    Datagram,
    /// A listening Unix socket of vhost-user: the machine's memory is shared.
    VhostUser,
    /// A TAP interface, opened with `IFF_TAP | IFF_NO_PI | IFF_VNET_HDR`.
    Tap,
}

/// The link of a virtual machine.
#[derive(Debug)]
pub struct Vm {
    /// How it sends frames.
    pub kind: VmKind,
    /// The socket, or the TAP. The gateway closes it when it ends.
    pub fd: OwnedFd,
}

impl Vm {
    /// What the descriptor is.
    ///
    /// # Errors
    /// It is not of that kind.
    pub(super) fn connection(&self) -> Result<Connection> {
        Ok(match self.kind {
            VmKind::Stream if self.listens()? => Connection::Listener { path: self.path()? },
            VmKind::Stream => Connection::Connected { place: "a machine's socket".into() },
            VmKind::Datagram => {
                let other = "the link is no datagram socket: give it its own kind";
                ensure!(socket_type(&self.fd).context(other)? != SocketType::STREAM, other);
                match rustix::net::getpeername(&self.fd) {
                    Ok(_) => Connection::Peer,
                    Err(_) => Connection::Datagram { local: self.datagram_path()?, remote: None },
                }
            }
            VmKind::VhostUser => {
                let text = "the link of vhost-user does not listen: call listen() for it first";
                ensure!(self.listens()?, text);
                Connection::VhostUser { path: self.path()? }
            }
            VmKind::Tap => Connection::Tap { mtu: None, uso: false },
        })
    }

    /// Does a stream socket listen?
    fn listens(&self) -> Result<bool> {
        let other = "the link is no stream socket: give it its own kind";
        ensure!(socket_type(&self.fd).context(other)? == SocketType::STREAM, other);
        socket_acceptconn(&self.fd).context(other)
    }

    /// Where a listening socket is, for messages.
    fn path(&self) -> Result<PathBuf> {
        let socket = self.fd.try_clone().context("no descriptor is left")?;
        let address = UnixListener::from(socket).local_addr();
        let address = address.context("the link is no listening Unix socket: give its kind")?;
        Ok(address.as_pathname().unwrap_or("a machine's socket".as_ref()).to_owned())
    }

    /// Where a datagram socket is.
    fn datagram_path(&self) -> Result<PathBuf> {
        let socket = self.fd.try_clone().context("no descriptor is left")?;
        let address = UnixDatagram::from(socket).local_addr();
        let address = address.context("the link is no datagram socket: give it its own kind")?;
        let path = address.as_pathname().map(PathBuf::from);
        path.context("the link has no peer and no path: connect the socket, or bind it to a path")
    }
}
