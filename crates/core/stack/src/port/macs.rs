//! Further link addresses of a port, such as the virtual router's of VRRP: frames to them are the
//! port's, and some of its addresses are advertised with them. RFC 5798 section 7.3.
//!
//! Called by: `forward/ingress.rs` and `rx/unusual.rs` for received frames, `arp.rs` and `nd.rs`
//! for answers; `macs.rs` sets them. A frame's destination is replaced by the port's own link
//! address before anything else reads it, so that no other file knows of further ones. Limit:
//! `port_macs`.

use core::net::IpAddr;

use base::MacAddr;
use mbuf::Mbuf;

use super::Port;

/// Further link addresses of a port.
#[derive(Default)]
pub(crate) struct Macs {
    all: Vec<MacAddr>,
    /// Addresses of ours that are advertised with one of them.
    of: Vec<(IpAddr, MacAddr)>,
}

impl Macs {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn has(&self, mac: MacAddr) -> bool {
        self.all.contains(&mac)
    }

    pub(crate) fn add(&mut self, mac: MacAddr) {
        if !self.has(mac) {
            self.all.push(mac);
        }
    }

    /// Forget a link address. `false` if the port did not have it.
    pub(crate) fn remove(&mut self, mac: MacAddr) -> bool {
        let had = self.has(mac);
        self.all.retain(|other| *other != mac);
        self.of.retain(|(_, other)| *other != mac);
        had
    }

    /// Advertise an address with a link address, or with the port's own.
    pub(crate) fn set_of(&mut self, ip: IpAddr, mac: Option<MacAddr>) {
        self.of.retain(|(other, _)| *other != ip);
        self.of.extend(mac.map(|mac| (ip, mac)));
    }

    /// Forget the link addresses of addresses that are not ours any more.
    pub(crate) fn keep_of(&mut self, is_ours: impl Fn(IpAddr) -> bool) {
        self.of.retain(|(ip, _)| is_ours(*ip));
    }
}

impl Port {
    /// The link address that an address of ours is advertised with.
    pub(crate) fn mac_of(&self, ip: IpAddr) -> MacAddr {
        self.macs.of.iter().find(|(of, _)| *of == ip).map_or(self.mac, |(_, mac)| *mac)
    }

    /// Is a frame to a further link address? Then its destination is the port's own from now on.
    pub(crate) fn takes_by_further_mac(&self, m: &mut Mbuf) -> bool {
        let dst = m.as_slice().first_chunk::<6>().map(|bytes| MacAddr(*bytes));
        let dst = dst.filter(|dst| self.macs.has(*dst));
        let Some(header) = dst.and_then(|_| m.headers_mut(6)) else { return false };
        header.copy_from_slice(&self.mac.0);
        true
    }

    /// [`Port::takes_by_further_mac`] for a burst.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_by_further_macs(&self, frames: &mut [Mbuf]) {
        for m in frames {
            self.takes_by_further_mac(m);
        }
    }
}
