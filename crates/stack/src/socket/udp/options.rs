//! What can be set of a UDP socket.
//!
//! Called by: programs. Each option has the name that Linux has for it in its comment. RFC 1191,
//! RFC 8201, RFC 6935, RFC 6936.

use core::net::SocketAddr;

use base::Mtu;

use super::{UdpError, UdpHandle};
use crate::{IpSettings, Stack};

/// What becomes of a datagram that is larger than the path is known to carry (Linux's
/// IP_MTU_DISCOVER). Packets that are not fragments always forbid routers to fragment them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtuDiscovery {
    /// It leaves in fragments (IP_PMTUDISC_WANT).
    #[default]
    Want,
    /// It is refused with [`UdpError::TooBig`] (IP_PMTUDISC_DO).
    Do,
    /// It is sent whole, whatever is known of the path, if the port sends packets of its size: to
    /// find out what the path carries (IP_PMTUDISC_PROBE, RFC 8899).
    Probe,
}

/// The options of a UDP socket; all are off by default.
/// RFC 6936 4-a.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpOptions {
    /// For datagrams that are larger than the path carries.
    pub mtu_discovery: MtuDiscovery,
    /// Send datagrams without a checksum (SO_NO_CHECK, UDP_NO_CHECK6_TX). Over IPv6 receivers drop
    /// them unless they ask for them: for tunnels alone, whose inner packets have checksums (RFC
    /// 6935).
    pub no_checksum: bool,
    /// Take datagrams without a checksum over IPv6 (UDP_NO_CHECK6_RX); over IPv4 all sockets do.
    pub accepts_zero_checksum: bool,
    /// Keep what the network says of this socket's datagrams (IP_RECVERR):
    /// [`Stack::udp_take_errors`].
    pub error_queue: bool,
    /// [`Stack::udp_receive_into`] takes several datagrams at once (UDP_GRO).
    pub coalesces: bool,
}

impl Stack {
    /// What the IP header of a UDP socket's packets says, to read and to change.
    pub fn udp_ip_mut(&mut self, handle: UdpHandle) -> Option<&mut IpSettings> {
        let socket = self.udp.get_mut(handle)?;
        socket.flow = None;
        Some(&mut socket.ip)
    }

    /// The options of a socket.
    pub fn udp_options(&self, handle: UdpHandle) -> Option<UdpOptions> {
        self.udp.get(handle).map(|socket| socket.options)
    }

    /// Set the options of a socket; without an error queue what was in it is gone.
    ///
    /// # Errors
    /// [`UdpError::Closed`].
    pub fn udp_set_options(
        &mut self,
        handle: UdpHandle,
        options: UdpOptions,
    ) -> Result<(), UdpError> {
        let socket = self.udp.get_mut(handle).ok_or(UdpError::Closed)?;
        socket.options = options;
        if !options.error_queue {
            socket.errors.forget_queue();
        }
        Ok(())
    }

    /// Let a socket send to broadcast addresses, or not. As in BSD (SO_BROADCAST) it may not until
    /// asked: a program that is given such an address by mistake shall not reach every host.
    /// Multicast is no broadcast, and receiving needs no permission.
    ///
    /// # Errors
    /// [`UdpError::Closed`].
    pub fn udp_set_broadcast(&mut self, handle: UdpHandle, on: bool) -> Result<(), UdpError> {
        let socket = self.udp.get_mut(handle).ok_or(UdpError::Closed)?;
        socket.may_broadcast = on;
        socket.flow = None;
        Ok(())
    }

    /// The largest packet, IP header included, that leaves this socket for `remote` in one piece:
    /// what the port sends, or less if anything is known of the path (Linux's IP_MTU).
    ///
    /// # Errors
    /// [`UdpError`]: no route, or no address of ours to send from.
    pub fn udp_path_mtu(&mut self, handle: UdpHandle, remote: SocketAddr) -> Result<Mtu, UdpError> {
        Ok(self.udp_flow_to(handle, None, remote)?.most())
    }
}
