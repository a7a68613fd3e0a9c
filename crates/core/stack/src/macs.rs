//! The calls that give a port further link addresses, and addresses of ours to advertise with them:
//! a router of a VRRP pair takes the virtual router's when it becomes the master.
//!
//! Called by: programs, of each shard by itself. RFC 5798 sections 7.3, 8.1.2 and 8.2.2, RFC 5227
//! section 3, RFC 4861 section 7.2.6. Limit: `port_macs`.

use core::fmt;
use core::net::IpAddr;

use base::{DropReason, Limit, LinkKind, MacAddr};
use inet::nd;
use inet::neighbour::group_mac;
use tcp::Fate;
use wire::arp;

use crate::handles::PortId;
use crate::resolve;
use crate::stack::Stack;

/// Why a port does not get a further link address, or an address is not advertised with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortMacError {
    /// There is no such port.
    NoPort,
    /// The port's link has no link addresses.
    NoLinkAddresses,
    /// No station can have the link address: it is a group's, or zero.
    NotAStation,
    /// The port has as many as the limit `port_macs` allows.
    LimitReached,
    /// The port does not have the link address.
    NoMac,
    /// The port does not have the address.
    NoAddress,
}

impl fmt::Display for PortMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortMacError::NoPort => "there is no such port: add one",
            PortMacError::NoLinkAddresses => {
                "the port's link has no link addresses: take a port with Ethernet frames"
            }
            PortMacError::NotAStation => {
                "no station can have this link address: give one that is neither zero nor a group's"
            }
            PortMacError::LimitReached => {
                "the port has as many further link addresses as the limit `port_macs` allows: \
                 remove one, or raise the limit"
            }
            PortMacError::NoMac => "the port does not have this link address: add it first",
            PortMacError::NoAddress => "the port does not have this address: add it first",
        })
    }
}

impl core::error::Error for PortMacError {}

impl Stack {
    /// Take frames to a further link address at a port, beside those to its own: for the virtual
    /// router of VRRP, `00:00:5e:00:01:XX`. Nothing changes if the port has it.
    ///
    /// # Errors
    /// Why the port cannot have it.
    pub fn add_port_mac(&mut self, port: PortId, mac: MacAddr) -> Result<(), PortMacError> {
        let port = self.ports.get_mut(port.0).ok_or(PortMacError::NoPort)?;
        if port.limits.link != LinkKind::Ethernet {
            return Err(PortMacError::NoLinkAddresses);
        }
        if mac.is_group() || mac == MacAddr::default() {
            return Err(PortMacError::NotAStation);
        }
        let is_new = mac != port.mac && !port.macs.has(mac);
        if is_new && !self.core.cx.budget.admits(Limit::PortMacs, port.macs.len()) {
            return Err(PortMacError::LimitReached);
        }
        if is_new {
            port.macs.add(mac);
        }
        Ok(())
    }

    /// Take no more frames to a further link address; addresses that were advertised with it have
    /// the port's own again. `false` if the port did not have it.
    pub fn remove_port_mac(&mut self, port: PortId, mac: MacAddr) -> bool {
        self.ports.get_mut(port.0).is_some_and(|port| port.macs.remove(mac))
    }

    /// Advertise an address of a port with one of its further link addresses, or again with its own
    /// (`None`): in answers to ARP requests and neighbour solicitations, and once now, to all, so
    /// that neighbours and switches know the new place (RFC 5798 sections 6.4.1 and 6.4.2).
    ///
    /// # Errors
    /// The port has no such address or link address.
    pub fn set_address_mac(
        &mut self,
        id: PortId,
        ip: IpAddr,
        mac: Option<MacAddr>,
    ) -> Result<(), PortMacError> {
        let port = self.ports.get_mut(id.0).ok_or(PortMacError::NoPort)?;
        if !port.local.is_ours(ip) {
            return Err(PortMacError::NoAddress);
        }
        if mac.is_some_and(|mac| mac != port.mac && !port.macs.has(mac)) {
            return Err(PortMacError::NoMac);
        }
        let (local, own) = (&port.local, port.mac);
        port.macs.keep_of(|ip| local.is_ours(ip));
        port.macs.set_of(ip, mac.filter(|mac| *mac != own));
        if !self.is_follower()
            && let Err(reason) = announce(self, id.0, ip)
        {
            self.core.drops.count(reason);
        }
        Ok(())
    }
}

/// Tell all hosts on the link which link address an address of ours has.
pub(crate) fn announce(stack: &mut Stack, port_id: u16, ip: IpAddr) -> Fate {
    let port = stack.ports.get(port_id).ok_or(DropReason::TxNoPort)?;
    let (mac, is_router) = (port.mac_of(ip), stack.forwarding.on);
    match ip {
        IpAddr::V4(ip) => {
            let target = (MacAddr::default(), ip);
            let bytes = nd::arp_output(arp::Operation::Request, (mac, ip), target);
            resolve::send_arp(stack, port_id, MacAddr::BROADCAST, &bytes)
        }
        IpAddr::V6(ip) => {
            let mut bytes = [0; wire::nd::LEN_MAX];
            let all = nd::ALL_NODES;
            let len = nd::advertisement(&mut bytes, (mac, is_router), all, ip).unwrap_or(0);
            let to = group_mac(all.into()).unwrap_or(MacAddr::BROADCAST);
            resolve::send_nd(stack, port_id, to, (ip.into(), all.into()), &bytes[..len])
        }
    }
}
