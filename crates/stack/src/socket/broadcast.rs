//! UDP to all hosts on a port's link, also from a port that has no address yet.
//!
//! Called by: programs, for protocols that find an address. The limited broadcast address has no
//! route: the caller names the port. RFC 919 section 7, RFC 1122 section 3.2.1.3 (the unspecified
//! source is for this alone), RFC 2131 section 4.1.

use core::net::{IpAddr, Ipv4Addr};

use base::{Counter, DropReason, Instant, MacAddr, Switch};
use inet::HeaderTemplate;
use inet::ip_output::Fields;
use wire::{ipv4, udp};

use crate::resolve::{self, Egress};
use crate::{PortId, Stack, UdpError, UdpHandle};

impl Stack {
    /// Send a datagram to 255.255.255.255, UDP port `to_port`, out of port `id`, from an address of
    /// that port or from the unspecified one. Answers to the broadcast address come to the socket
    /// if it is bound to the unspecified address, whether or not the port has an address.
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
        let local_port = self.udp.local_port(handle).ok_or(UdpError::Closed)?;
        let settings = *self.udp.ip_mut(handle).ok_or(UdpError::Closed)?;
        let core = &mut self.core;
        let (src, dst) = (IpAddr::V4(source), IpAddr::V4(Ipv4Addr::BROADCAST));
        let no_port = UdpError::Unsendable(DropReason::TxNoPort);
        let port = self.ports.get_mut(id.0).ok_or(no_port)?;
        if !source.is_unspecified() && !port.local.is_ours(src) {
            return Err(UdpError::NoAddress);
        }
        if port.gone {
            return Err(UdpError::Unsendable(DropReason::DeviceLinkDown));
        }
        if ipv4::HEADER_LEN + udp::HEADER_LEN + payload.len() > port.limits.mtu.bytes() {
            return Err(UdpError::Unsendable(DropReason::IpTooBig));
        }
        if !port.has_room(&mut core.cx) {
            return Err(UdpError::WouldBlock);
        }
        let fields = Fields { src, dst, protocol: ipv4::UDP, tos: settings.tos, ttl: settings.ttl };
        let template = HeaderTemplate::new(port.limits.link, port.mac, MacAddr::BROADCAST, &fields);
        let pseudo = inet::ip_input::pseudo_sum(src, dst, ipv4::UDP);
        let ladder = core.cx.switches.on(Switch::ChecksumTx).then_some(core.cx.ladder);
        let exhausted = UdpError::Unsendable(DropReason::MbufExhausted);
        let mut m = core.cx.pool.copy_of(payload).ok_or(exhausted)?;
        let egress = Egress { port: id.0, neighbour: dst, template, is_complete: true };
        inet::udp::udp_output(&mut m, (local_port, to_port), pseudo, ladder)
            .and_then(|()| resolve::send(self, &egress, m))
            .map_err(UdpError::Unsendable)?;
        self.core.cx.counters.add(Counter::UdpOut, 1);
        Ok(())
    }
}
