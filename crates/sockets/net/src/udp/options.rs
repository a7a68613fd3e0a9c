//! Options of UDP sockets, and reports of the network about their datagrams.
//!
//! Called by: programs.

use core::net::SocketAddr;
use std::io;

use base::Mtu;
use stack::{IpSettings, UdpErrorReport, UdpOptions};

use super::UdpSocket;
use crate::error;
use crate::options::{valid_tos, valid_ttl};

impl UdpSocket {
    /// Let the socket send to broadcast addresses (SO_BROADCAST). It is off at first.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        let mut call = self.net.shared().call()?;
        call.stack.udp_set_broadcast(self.handle, on).map_err(error::udp)
    }

    /// Set the TTL or hop limit of sent datagrams (IP_TTL, IPV6_UNICAST_HOPS).
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for 0 and above 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let ttl = valid_ttl(ttl)?;
        self.ip(|ip| ip.ttl = ttl)
    }

    /// See [`UdpSocket::set_ttl`].
    ///
    /// # Errors
    /// The driver is gone.
    pub fn ttl(&self) -> io::Result<u32> {
        self.ip(|ip| ip.ttl.into())
    }

    /// Set the type of service or traffic class of sent datagrams (IP_TOS, IPV6_TCLASS).
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] above 255.
    pub fn set_tos(&self, tos: u32) -> io::Result<()> {
        let tos = valid_tos(tos)?;
        self.ip(|ip| ip.tos = tos)
    }

    /// See [`UdpSocket::set_tos`].
    ///
    /// # Errors
    /// The driver is gone.
    pub fn tos(&self) -> io::Result<u32> {
        self.ip(|ip| ip.tos.into())
    }

    fn ip<T>(&self, look: impl FnOnce(&mut IpSettings) -> T) -> io::Result<T> {
        let mut call = self.net.shared().call()?;
        call.stack.udp_ip_mut(self.handle).map(look).ok_or_else(error::aborted)
    }

    /// The options of the socket.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn options(&self) -> io::Result<UdpOptions> {
        self.net.shared().call()?.stack.udp_options(self.handle).ok_or_else(error::aborted)
    }

    /// Set all options of the socket at once: take those that [`UdpSocket::options`] returns, and
    /// change some.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_options(&self, options: UdpOptions) -> io::Result<()> {
        let mut call = self.net.shared().call()?;
        call.stack.udp_set_options(self.handle, options).map_err(error::udp)
    }

    /// Take the reports of the network (ICMP errors) about this socket's datagrams, oldest first,
    /// if [`UdpOptions::error_queue`] is on. Anybody can forge such messages: they are hints, not
    /// proofs.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn take_errors(&self) -> io::Result<Vec<UdpErrorReport>> {
        Ok(self.net.shared().call()?.stack.udp_take_errors(self.handle))
    }

    /// The largest packet, IP header included, that can be sent to `remote` without fragments, as
    /// far as the stack knows the path (IP_MTU).
    ///
    /// # Errors
    /// `remote` is unreachable.
    pub fn path_mtu(&self, remote: SocketAddr) -> io::Result<Mtu> {
        let mut call = self.net.shared().call()?;
        call.stack.udp_path_mtu(self.handle, remote).map_err(error::udp)
    }

    /// Send a probe of the path's MTU without waiting. The probe is never fragmented, whatever MTU
    /// the stack believes the path to have. [`stack::dplpmtud`] chooses the size.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]; `to` is unreachable; the datagram is larger than the port
    /// sends (the system's EMSGSIZE).
    pub fn try_send_probe(&self, data: &[u8], to: SocketAddr) -> io::Result<()> {
        let mut call = self.net.shared().call()?;
        let sent = call.stack.udp_send_probe(self.handle, to, data, base::Instant::ZERO);
        sent.map_err(error::udp)
    }
}
