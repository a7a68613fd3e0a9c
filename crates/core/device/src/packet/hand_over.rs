//! Packet sockets that one process opens for another process, which has no privileges and may not
//! make sockets. Each socket is bound, has its ring, and is in its group.
//!
//! Called by: the router. The process that uses it only maps the ring and queries the socket. It
//! sends each frame by writev(2): sendmmsg(2) takes an address, which could name another interface
//! (packet(7)), and writev(2) does not, so a filter of system calls need not allow sendmmsg(2).

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};

use base::Drops;
use mbuf::Mbuf;
use rustix::io::{Errno, writev};

use super::error::refused;
use super::open::{Config, link, mtu};
use super::receive::State;
use super::ring::Ring;
use super::{Fanout, PacketError, PacketSocket, limits};
use crate::vnet;

impl PacketSocket {
    /// The sockets of an interface for another process to [`PacketSocket::adopt`], one for each of
    /// `count` queues (at least one); several are a fanout group.
    ///
    /// # Errors
    /// As [`PacketSocket::open`], and as [`PacketSocket::open_queues`] for several.
    pub fn open_for_another(
        config: &Config,
        fanout: Fanout,
        count: usize,
    ) -> Result<Vec<OwnedFd>, PacketError> {
        let queues = match count {
            0 | 1 => vec![PacketSocket::open(config)?],
            count => PacketSocket::open_queues(config, fanout, count)?,
        };
        // The mapping is removed here; the ring stays with the socket.
        Ok(queues.into_iter().map(|queue| queue.fd).collect())
    }

    /// A socket of [`PacketSocket::open_for_another`], which had the same `config`. It is not bound
    /// again: an interface that is deleted is [`PacketError::Vanished`] for this socket, even if a
    /// new one has its name.
    ///
    /// # Errors
    /// The interface is gone, or the ring is another one.
    pub fn adopt(fd: OwnedFd, config: &Config) -> Result<PacketSocket, PacketError> {
        let name = config.name.as_str();
        let (link, mtu) = (link(&fd, name)?, mtu(&fd, config)?);
        let shape = config.receive.shape()?;
        let ring =
            Ring::map(fd.as_fd(), shape).map_err(refused("mapping the receive ring", name))?;
        let mut socket = PacketSocket {
            ring,
            fd,
            changes: None,
            name: name.to_owned(),
            promiscuous: config.promiscuous,
            grouped: false,
            adopted: true,
            watched: config.watched,
            limits: limits(link, config.offload, mtu),
            pushed_back: false,
            trouble: None,
            unplugged: None,
            drops: Drops::default(),
        };
        if State::of(&socket.fd, name) != State::Up {
            socket.down();
            socket.look();
        }
        Ok(socket)
    }

    /// Send frames with these headers, by one call for each. Returns how many were sent, as
    /// sendmmsg(2) would.
    pub(super) fn send_each(
        &self,
        headers: &[[u8; vnet::LEN]],
        frames: &[Mbuf],
    ) -> Result<usize, Errno> {
        for (sent, (header, frame)) in headers.iter().zip(frames).enumerate() {
            let parts = [header.as_slice(), frame.as_slice()].map(IoSlice::new);
            let result = loop {
                match writev(&self.fd, &parts) {
                    Err(Errno::INTR) => {}
                    result => break result,
                }
            };
            match result {
                Ok(_) => {}
                Err(errno) if sent == 0 => return Err(errno),
                Err(_) => return Ok(sent),
            }
        }
        Ok(headers.len())
    }
}
