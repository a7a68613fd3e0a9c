//! Configures the kernel's end of a TAP or TUN: hardware address, MTU, queue, addresses, up.
//!
//! Called by: programs, before they give the device to a stack. The addresses are the kernel's: it
//! is another host, at the other end of the link. Source: netdevice(7), whose ioctls suffice
//! without netlink.

use core::net::IpAddr;
use std::os::fd::AsFd;

use base::{Cidr, LinkKind, MacAddr, Mtu};
use rustix::io::Errno;
use rustix::net::AddressFamily;

use super::{Tap, TapError, error, sys};
use crate::interface;

/// The settings of the kernel's end. `None` leaves a setting as it is.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The hardware address; for a TAP only.
    pub mac: Option<MacAddr>,
    /// The largest packet in both directions.
    pub mtu: Option<Mtu>,
    /// Frames that may wait for us in the kernel (`txqueuelen`); more are lost. The default of
    /// Linux is 1,000 for a TAP and 500 for a TUN, which is short for bursts of small frames.
    pub queue_frames: Option<u32>,
    /// The kernel's own addresses on this link: one IPv4 address, which replaces the previous one,
    /// and any number of IPv6 addresses.
    pub addresses: Vec<Cidr>,
    /// Bring the interface up.
    pub up: bool,
}

impl Tap {
    /// Configure the kernel's end, in the order of [`Setup`]'s fields. This needs CAP_NET_ADMIN,
    /// and the interface in the network namespace of the calling thread. Call it before a stack has
    /// the device: [`crate::Device::limits`] change with the MTU.
    ///
    /// # Errors
    /// [`TapError::NoPrivilege`], [`TapError::NotHere`], [`TapError::Down`] if only the privilege
    /// to bring it up is missing, or [`TapError::Refused`] with the setting.
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
            interface::set_up(&v4, &name).map_err(|errno| match errno {
                // The interface was made for a user without the privilege to bring it up. Somebody
                // who has the privilege must do that.
                Errno::PERM | Errno::ACCESS => TapError::Down { name: name.clone() },
                errno => refused("bringing it up")(errno),
            })?;
        }
        Ok(())
    }

    /// Keep the interface when the last descriptor of it closes: without one it has no carrier, and
    /// whoever opens its name gets it with its index, addresses and settings. `false`: it goes with
    /// its last descriptor, as a new one does.
    ///
    /// # Errors
    /// [`TapError::Refused`].
    pub fn set_persistent(&self, on: bool) -> Result<(), TapError> {
        let refused = |errno| error::refused("keeping it", self.name(), errno);
        sys::set_persistent(&self.fd, on).map_err(refused)
    }

    /// Show the kernel a carrier on its end, or none. It needs no privilege.
    ///
    /// # Errors
    /// [`TapError::Refused`]; before Linux 5.0 the kernel cannot do it.
    pub fn set_carrier(&self, on: bool) -> Result<(), TapError> {
        let refused = |errno| error::refused("setting the carrier", self.name(), errno);
        sys::set_carrier(&self.fd, on).map_err(refused)
    }

    /// Does the interface exist that this was opened for? Not once it was deleted.
    pub fn is_attached(&self) -> bool {
        sys::iff(&self.fd).is_ok()
    }

    /// The hardware address of the kernel's end; `None` for a TUN and for a socket.
    pub fn kernel_mac(&self) -> Option<MacAddr> {
        let ethernet = self.limits.link == LinkKind::Ethernet;
        ethernet.then(|| interface::mac(self.fd.as_fd()).ok()).flatten()
    }

    /// A hardware address for our end, derived from the kernel's and different from it; `None` if
    /// the kernel's end has none.
    pub fn our_mac(&self) -> Option<MacAddr> {
        self.kernel_mac().map(beside)
    }
}

/// Another unicast address, locally administered (IEEE 802 section 8.4).
fn beside(MacAddr([first, b, c, d, e, last]): MacAddr) -> MacAddr {
    MacAddr([first & !1 | 2, b, c, d, e, last ^ 1])
}
