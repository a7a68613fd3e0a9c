//! Opens the devices of ports in one process and uses them in another. Only opening needs
//! privileges: what is passed on is a descriptor and a [`Grant`], which says what it is.
//!
//! Called by: the privileged process ([`Opener`]) and the worker ([`adopt`]) of `wirespeed up`.
//! docs/decisions/0079-privileges.md.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use base::{LinkKind, MacAddr, Mtu};
use device::packet::{self, PacketSocket};
use device::tap::{self, Declared, Setup, Tap};
use device::xdp::{self, XdpSocket};
use device::{Device, Limits};
use serde::{Deserialize, Serialize};

use crate::config::{Config, DeviceName, Kind, Link, Port};
use crate::live::Opened;

/// What a descriptor is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The port's name.
    pub port: String,
    /// The interface's MTU in bytes.
    pub mtu: usize,
    /// A link address for the port.
    pub mac: [u8; 6],
}

/// Opens devices, and keeps those that the kernel gives to one process at a time.
#[derive(Default)]
pub struct Opener {
    /// Each with the MTU that it had before.
    taps: BTreeMap<DeviceName, (Tap, Mtu)>,
}

impl Opener {
    /// Open the device of a port; `None` for one that the worker has to open itself.
    ///
    /// # Errors
    /// The device's error, with what to do.
    pub fn open(&mut self, name: &str, port: &Port) -> Result<Option<(Grant, OwnedFd)>, String> {
        let Link::Device(device) = &port.link else { return Ok(None) };
        let port_name = name.to_owned();
        match device.kind {
            Kind::Tap | Kind::Tun => {
                let tap = self.tap(device, port.mtu).map_err(|why| why.to_string())?;
                let fd = tap.as_fd().ok_or("the device is gone")?;
                let fd = fd.try_clone_to_owned().map_err(|why| cannot_pass(&why))?;
                let MacAddr(mac) = tap.our_mac().unwrap_or_default();
                let mtu = tap.limits().mtu.bytes();
                Ok(Some((Grant { port: port_name, mtu, mac }, fd)))
            }
            Kind::Packet => {
                let fd = PacketSocket::socket(&device.name).map_err(|why| why.to_string())?;
                Ok(Some((Grant { port: port_name, mtu: 0, mac: [0; 6] }, fd)))
            }
            Kind::Xdp => Ok(None),
        }
    }

    fn tap(&mut self, name: &DeviceName, mtu: Option<Mtu>) -> Result<&Tap, tap::TapError> {
        let is_new = !self.taps.contains_key(name);
        if is_new {
            let config = tap::Config {
                name: Some(name.name.clone()),
                link: name.kind.link(),
                // A super-segment is not forwarded (`ip_super_segment`): the kernel shall cut them.
                vnet_hdr: false,
                // The ring belongs to the process that writes.
                io_uring: false,
                ..tap::Config::default()
            };
            let tap = Tap::open(&config)?;
            let before = tap.limits().mtu;
            self.taps.insert(name.clone(), (tap, before));
        }
        let missing = || tap::TapError::NotHere { name: name.name.clone() };
        let (tap, before) = self.taps.get_mut(name).ok_or_else(missing)?;
        let mtu = Some(mtu.unwrap_or(*before)).filter(|mtu| *mtu != tap.limits().mtu);
        // An interface that was moved to another namespace since needs nothing more.
        if is_new || mtu.is_some() {
            tap.configure(&Setup { mtu, up: is_new, ..Setup::default() })?;
        }
        Ok(tap)
    }

    /// Close the devices that `config` does not have.
    pub fn keep(&mut self, config: &Config) {
        let is_used = |name: &DeviceName| {
            config.ports.values().any(|port| port.link == Link::Device(name.clone()))
        };
        self.taps.retain(|name, _| is_used(name));
    }
}

fn cannot_pass(why: &std::io::Error) -> String {
    format!("the descriptor cannot be passed on ({why}): raise `ulimit -n`")
}

/// The device of a port, by the descriptor that was granted for it.
///
/// # Errors
/// The device's error, with what to do.
pub fn adopt(port: &Port, granted: Option<(Grant, OwnedFd)>) -> Result<Opened, String> {
    let Link::Device(name) = &port.link else { return Err("a VLAN has no device".to_owned()) };
    let (device, mac): (Box<dyn Device>, MacAddr) = match (name.kind, granted) {
        (Kind::Tap | Kind::Tun, Some((grant, fd))) => {
            let mtu = Mtu::new(grant.mtu).unwrap_or(Mtu::ETHERNET);
            let declared = Declared { mtu, ..Declared::default() };
            let tap = Tap::adopt(fd, &declared).map_err(|why| why.to_string())?;
            (Box::new(tap), MacAddr(grant.mac))
        }
        (Kind::Packet, Some((_, fd))) => {
            let config = packet::Config { mtu_max: port.mtu, ..packet::Config::of(&name.name) };
            let socket = PacketSocket::over(fd, &config).map_err(|why| why.to_string())?;
            let mac = socket.mac().unwrap_or_default();
            (Box::new(socket), mac)
        }
        (Kind::Xdp, _) => {
            let config = xdp::Config::of(&name.name);
            let socket = XdpSocket::open(&config).map_err(|why| why.to_string())?;
            let mac = socket.mac().unwrap_or_default();
            (Box::new(socket), mac)
        }
        (_, None) => return Err("its device was not opened".to_owned()),
    };
    let Limits { link, mtu, .. } = device.limits();
    if link != name.kind.link() && link == LinkKind::Ip {
        return Err(format!("{name} carries no Ethernet frames: choose another interface"));
    }
    if let Some(wanted) = port.mtu.filter(|wanted| *wanted != mtu) {
        let (wanted, is) = (wanted.bytes(), mtu.bytes());
        return Err(format!("{name} carries {is} bytes, not {wanted}: change the interface's MTU"));
    }
    Ok(Opened { device, mac })
}
