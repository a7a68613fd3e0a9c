//! Setting up the kernel's end of a TAP or TUN: hardware address, MTU, addresses, up.
//!
//! Called by: programs, before the stack has the device. The addresses are the kernel's: its end of
//! the wire is another host. Source: netdevice(7); no netlink, because six old calls do all of
//! this.

use core::net::IpAddr;
use std::os::fd::AsFd;

use base::{Cidr, LinkKind, MacAddr, Mtu};
use rustix::net::AddressFamily;

use super::{Tap, TapError, error};
use crate::interface;

/// What to set on the kernel's end. What is `None` stays as it is.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Hardware address; TAP only.
    pub mac: Option<MacAddr>,
    /// The largest packet, both ways.
    pub mtu: Option<Mtu>,
    /// Frames that may wait for us in the kernel; more are lost. Linux begins with 1,000 for a TAP
    /// and 500 for a TUN: where many short ones come at once that is not long.
    pub queue_frames: Option<u32>,
    /// The kernel's own addresses on this wire: one of IPv4, which replaces the one it had, and
    /// any number of IPv6.
    pub addresses: Vec<Cidr>,
    /// Bring it up.
    pub up: bool,
}

impl Tap {
    /// Set up the kernel's end, in the order of [`Setup`]'s fields. It takes CAP_NET_ADMIN, and an
    /// interface in the network namespace of the calling thread. Call it before a stack has the
    /// device: [`crate::Device::limits`] change with the MTU.
    ///
    /// # Errors
    /// [`TapError::NoPrivilege`], [`TapError::NotHere`], or [`TapError::Refused`] with what was
    /// asked.
    pub fn configure(&mut self, setup: &Setup) -> Result<(), TapError> {
        let name = self.name().to_owned();
        if name.is_empty() {
            return Err(TapError::NotHere { name });
        }
        let refused = |what: &'static str| {
            let name = name.clone();
            move |errno| error::refused(what, &name, errno)
        };
        let v4 =
            interface::inquirer(AddressFamily::INET).map_err(refused("asking for settings"))?;
        if let Some(mac) = setup.mac {
            interface::set_mac(self.fd.as_fd(), mac)
                .map_err(refused("setting the hardware address"))?;
        }
        if let Some(mtu) = setup.mtu {
            interface::set_mtu(&v4, &name, mtu.bytes()).map_err(refused("setting the MTU"))?;
            self.set_mtu(mtu);
        }
        if let Some(frames) = setup.queue_frames {
            interface::set_queue(&v4, &name, frames)
                .map_err(refused("setting the queue's length"))?;
        }
        for cidr in &setup.addresses {
            let added = match cidr.addr {
                IpAddr::V4(addr) => interface::set_v4(&v4, &name, addr, cidr.prefix_len),
                IpAddr::V6(addr) => interface::inquirer(AddressFamily::INET6)
                    .and_then(|v6| interface::add_v6(&v6, &name, addr, cidr.prefix_len)),
            };
            added.map_err(refused("setting an address"))?;
        }
        if setup.up {
            interface::set_up(&v4, &name).map_err(refused("bringing it up"))?;
        }
        Ok(())
    }

    /// The hardware address of the kernel's end; `None` for a TUN and for a socket.
    pub fn kernel_mac(&self) -> Option<MacAddr> {
        let ethernet = self.limits.link == LinkKind::Ethernet;
        ethernet.then(|| interface::mac(self.fd.as_fd()).ok()).flatten()
    }

    /// A hardware address for our end: never the kernel's, and the same each time for the same
    /// interface; `None` where there is no kernel's.
    pub fn our_mac(&self) -> Option<MacAddr> {
        self.kernel_mac().map(beside)
    }
}

/// Another unicast address, locally administered (IEEE 802 section 8.4).
fn beside(MacAddr([first, b, c, d, e, last]): MacAddr) -> MacAddr {
    MacAddr([first & !1 | 2, b, c, d, e, last ^ 1])
}
