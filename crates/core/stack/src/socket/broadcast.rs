//! Sends UDP datagrams to all hosts on a port's link, also from a port that has no address yet.
//!
//! Called by: programs, for protocols that find an address. There is no route to the limited
//! broadcast address, so the caller names the port. RFC 919 section 7, RFC 1122 section 3.2.1.3
//! (only for this may the source be unspecified), RFC 2131 section 4.1 (answers to an address that
//! is only offered).

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{Counter, DropReason, Instant, MacAddr, Switch};
use inet::HeaderTemplate;
use inet::ip_output::Fields;
use wire::{ipv4, protocol, udp};

use crate::handles::{PortId, UdpHandle};
use crate::resolving::Egress;
use crate::socket::udp::UdpError;
use crate::stack::Stack;
use crate::{frag, pace};

impl Stack {
    /// Let an IPv4 socket receive datagrams to its UDP port that come by the port `id` for an
    /// address that is not ours, or no longer ours: the answers of DHCP servers to the address that
    /// they offer. This lasts while the port has no address; a router meanwhile examines all
    /// packets from that port one by one.
    pub fn udp_take_offers(&mut self, handle: UdpHandle, id: PortId, on: bool) {
        if let Some(port) = self.ports.get_mut(id.0) {
            port.offers = on.then_some(handle);
        }
    }

    /// Send a datagram to 255.255.255.255, UDP port `to_port`, by port `id`. Its source is an
    /// address of that port, or the unspecified address. Answers to the broadcast address come to
    /// the socket if it is bound to the unspecified address, whether or not the port has an
    /// address.
    ///
    /// # Errors
    /// [`UdpError::Closed`], [`UdpError::NoAddress`] if the port does not have `source`,
    /// [`UdpError::WouldBlock`]; [`DropReason::TxNoPort`], [`DropReason::DeviceLinkDown`],
    /// [`DropReason::IpTooBig`] beyond the MTU.
    pub fn udp_broadcast(
        &mut self,
        handle: UdpHandle,
        (id, source): (PortId, Ipv4Addr),
        to_port: u16,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), UdpError> {
        self.core.set_now(now);
        let sender = self.udp.sender(handle).ok_or(UdpError::Closed)?;
        let ttl = self.udp_ip_mut(handle).ok_or(UdpError::Closed)?.ttl;
        let (src, dst) = (IpAddr::V4(source), IpAddr::V4(Ipv4Addr::BROADCAST));
        let no_port = UdpError::Unsendable(DropReason::TxNoPort);
        let port = self.ports.get(id.0).ok_or(no_port)?;
        if !source.is_unspecified() && !port.local.is_ours(src) {
            return Err(UdpError::NoAddress);
        }
        if port.gone {
            return Err(UdpError::Unsendable(DropReason::DeviceLinkDown));
        }
        let most = port.limits.mtu;
        if ipv4::HEADER_LEN + udp::HEADER_LEN + payload.len() > most.bytes() {
            return Err(UdpError::Unsendable(DropReason::IpTooBig));
        }
        let fields = Fields { src, dst, protocol: protocol::UDP, tos: sender.tos, ttl };
        let template = HeaderTemplate::new(port.limits.link, port.mac, MacAddr::BROADCAST, &fields);
        let (is_complete, is_broadcast) = (true, true);
        let egress =
            Egress { port: id.0, neighbour: dst, mtu: most, template, is_complete, is_broadcast };
        pace::check_room(self, id.0, dst)?;
        let cx = &self.core.cx;
        let summing = !sender.without_checksum && cx.switches.on(Switch::ChecksumTx);
        let ladder = summing.then_some(cx.ladder);
        let (from, to) = (SocketAddr::new(src, sender.port), SocketAddr::new(dst, to_port));
        let (ports, flow) = ((sender.port, to_port), inet::udp::flow_sum(from, to));
        frag::output::send_udp(self, &egress, (ports, flow, ladder), payload, most)
            .map_err(UdpError::Unsendable)?;
        self.core.cx.counters.add(Counter::UdpOut, 1);
        Ok(())
    }
}
