//! Devices of this machine: their names on the command line, opening them, and their VLANs.
//!
//! Called by: `network.rs`; `wire` opens devices too.

use std::str::FromStr;

use anyhow::{Context, Result};
use wirespeed::device::packet::{self, PacketSocket};
use wirespeed::device::tap::{Config, Setup, Tap, TapError};
use wirespeed::device::xdp::{self, XdpSocket};
use wirespeed::device::{vlan, vm};
use wirespeed::{Device, LinkKind, MacAddr};

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A TAP or TUN, by its link kind.
    Tap(LinkKind),
    /// A packet socket on an existing interface.
    Packet,
    /// An AF_XDP socket on the first queue of an interface.
    Xdp,
    /// A virtual machine's socket in QEMU's framing, to which we connect.
    Vm,
    /// The same, but the machine connects to us.
    VmListen,
}

/// A device by its kind and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dev {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

impl FromStr for Dev {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Dev, Self::Err> {
        let (kind, name) = match text.split_once(':') {
            Some(("tap", name)) => (Kind::Tap(LinkKind::Ethernet), name),
            Some(("tun", name)) => (Kind::Tap(LinkKind::Ip), name),
            Some(("packet", name)) => (Kind::Packet, name),
            Some(("xdp", name)) => (Kind::Xdp, name),
            Some(("vm", name)) => (Kind::Vm, name),
            Some(("vm-listen", name)) => (Kind::VmListen, name),
            _ => {
                return Err("expected tap:NAME, tun:NAME, packet:NAME, xdp:NAME, vm:PATH or \
                            vm-listen:PATH");
            }
        };
        if name.is_empty() {
            return Err("the device needs a name behind the colon, as in tap:ws0");
        }
        Ok(Dev { kind, name: name.to_owned() })
    }
}

/// The VLAN tags of a port on a trunk, one or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tags {
    pub(super) outer: Option<u16>,
    pub(super) id: u16,
}

impl FromStr for Tags {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Tags, Self::Err> {
        let id = |text: &str| match text.parse() {
            Ok(id @ 1..=4094) => Ok(id),
            _ => Err("a VLAN is a number from 1 to 4094, or two with a dot between, as 7.5"),
        };
        match text.split_once('.') {
            Some((outer, inner)) => Ok(Tags { outer: Some(id(outer)?), id: id(inner)? }),
            None => Ok(Tags { outer: None, id: id(text)? }),
        }
    }
}

impl Tags {
    /// The port of `device` whose frames have these tags.
    pub(super) fn port_of(self, device: Box<dyn Device>) -> Result<Box<dyn Device>> {
        let one = |device, protocol, id| -> Result<Box<dyn Device>> {
            let port = vlan::split(device, protocol, &[vlan::Id::Vlan(id)])?.pop();
            Ok(Box::new(port.context("a trunk without a port")?))
        };
        let device = match self.outer {
            Some(outer) => one(device, vlan::SERVICE_TAG, outer)?,
            None => device,
        };
        one(device, vlan::TAG, self.id)
    }
}

/// How a device is opened.
pub(crate) struct How {
    /// Leave checksums and the cutting of super-segments to the device.
    pub(crate) offload: bool,
    /// Send bursts with one system call, where the kernel has io_uring.
    pub(crate) io_uring: bool,
    /// Receive frames for other stations too.
    pub(crate) bridged: bool,
}

/// Open a device and bring it up; also returns the hardware address of our end.
///
/// # Errors
/// The device's error, with what to do.
pub(crate) fn open(dev: &Dev, how: &How) -> Result<(Box<dyn Device>, MacAddr)> {
    let name = dev.name.clone();
    let link = match dev.kind {
        Kind::Tap(link) => link,
        Kind::Packet => {
            let config = packet::Config {
                offload: how.offload,
                promiscuous: how.bridged,
                ..packet::Config::of(&name)
            };
            let port = PacketSocket::open(&config)?;
            let mac = port.mac().unwrap_or_default();
            return Ok((Box::new(port), mac));
        }
        Kind::Xdp => {
            let port = XdpSocket::open(&xdp::Config::of(&name))?;
            let mac = port.mac().unwrap_or_default();
            return Ok((Box::new(port), mac));
        }
        Kind::Vm => return Ok((Box::new(vm::Stream::connect(name.as_ref())?), own_mac()?)),
        Kind::VmListen => return Ok((Box::new(vm::Stream::listen(name.as_ref())?), own_mac()?)),
    };
    let config = Config {
        name: Some(name),
        link,
        vnet_hdr: how.offload,
        io_uring: how.io_uring,
        ..Config::default()
    };
    let mut tap = Tap::open(&config)?;
    match tap.configure(&Setup { up: true, ..Setup::default() }) {
        // A user who owns the device but has no privilege may use it, not configure it. The first
        // frame fails with the reason if it is not up by then.
        Ok(()) | Err(TapError::Down { .. } | TapError::NotHere { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let mac = tap.our_mac().unwrap_or_default();
    Ok((Box::new(tap), mac))
}

/// A random, locally administered hardware address.
fn own_mac() -> Result<MacAddr> {
    let mut mac = [2; 6];
    getrandom::fill(&mut mac[1..]).context("the system gives no random address")?;
    Ok(MacAddr(mac))
}
