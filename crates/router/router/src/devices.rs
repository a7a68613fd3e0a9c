//! Opens the devices of ports in one process and uses them in another. Only opening needs
//! privileges. The other process gets a descriptor and a [`Grant`] that describes it.
//!
//! Called by: the privileged process ([`Opener`]) and the worker ([`adopt`]) of `wirespeed up`.
//! docs/decisions/0079-privileges.md.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use base::{LinkKind, MacAddr, Mtu};
use device::packet::{self, Fanout, PacketSocket};
use device::tap::{self, Declared, Setup, Tap};
use device::xdp::{self, XdpSocket};
use device::{Device, Limits};
use rustix::net::netdevice::name_to_index;
use serde::{Deserialize, Serialize};

use crate::applied::Opened;
use crate::config::{Config, DeviceName, Kind, Link, Port};

/// The device that a descriptor is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The port's name.
    pub port: String,
    /// The interface's MTU in bytes.
    pub mtu: usize,
    /// A link address for the port.
    pub mac: [u8; 6],
    /// A TAP or TUN does both: super-segments of TCP, and of UDP.
    pub offloads: [bool; 2],
}

/// A descriptor, and what it is for.
pub type Granted = (Grant, OwnedFd);

/// Opens devices, and keeps those that the kernel gives to one process at a time.
pub struct Opener {
    /// Queues of each device.
    shards: usize,
    /// The queues of each TAP, with the MTU that it had before.
    taps: BTreeMap<DeviceName, (Vec<Tap>, Mtu)>,
    /// The index that the interface of each packet socket had when it was opened.
    packets: BTreeMap<String, u32>,
}

impl Opener {
    /// For a router with this many shards.
    pub fn new(shards: usize) -> Opener {
        Opener { shards, taps: BTreeMap::new(), packets: BTreeMap::new() }
    }

    /// Open the device of a port, with a queue for each shard; no queue of a device that the worker
    /// has to open itself.
    ///
    /// # Errors
    /// The device's error, with what to do.
    pub fn open(&mut self, name: &str, port: &Port) -> Result<Vec<Granted>, String> {
        let Link::Device(device) = &port.link else { return Ok(Vec::new()) };
        let grant = |mtu, mac, offloads| Grant { port: name.to_owned(), mtu, mac, offloads };
        match device.kind {
            Kind::Tap | Kind::Tun => {
                let queues = self.tap(device, port).map_err(|why| why.to_string())?;
                let granted = |tap: &Tap| {
                    let fd = tap.as_fd().ok_or("the device is gone")?;
                    let fd = fd.try_clone_to_owned().map_err(|why| cannot_pass(&why))?;
                    let MacAddr(mac) = tap.our_mac().unwrap_or_default();
                    let Limits { mtu, offloads, .. } = tap.limits();
                    let offloads = [offloads.tso_max_bytes, offloads.uso_max_bytes];
                    Ok((grant(mtu.bytes(), mac, offloads.map(|most| most > 0)), fd))
                };
                queues.iter().map(granted).collect()
            }
            Kind::Packet => {
                let config = packet_config(port, device);
                let count = self.shards;
                let opened = PacketSocket::open_for_another(&config, Fanout::Hash, count);
                let sockets = opened.map_err(|why| why.to_string())?;
                let index = index_of(sockets.first(), &device.name);
                self.packets.extend(index.map(|index| (device.name.clone(), index)));
                Ok(sockets.into_iter().map(|fd| (grant(0, [0; 6], [false; 2]), fd)).collect())
            }
            Kind::Xdp => Ok(Vec::new()),
        }
    }

    fn tap(&mut self, name: &DeviceName, port: &Port) -> Result<&[Tap], tap::TapError> {
        let is_new = !self.taps.contains_key(name);
        if is_new {
            let config = tap::Config {
                name: Some(name.name.clone()),
                link: name.kind.link(),
                // The ring belongs to the process that writes.
                io_uring: false,
                ..tap::Config::default()
            };
            let queues = match self.shards {
                1 => vec![Tap::open(&config)?],
                count => Tap::open_queues(&config, count)?,
            };
            let before = queues[0].limits().mtu;
            self.taps.insert(name.clone(), (queues, before));
        }
        let missing = || tap::TapError::NotHere { name: name.name.clone() };
        let (queues, before) = self.taps.get_mut(name).ok_or_else(missing)?;
        let wanted = port.mtu.unwrap_or(*before);
        for (number, tap) in queues.iter_mut().enumerate() {
            let mtu = Some(wanted).filter(|mtu| *mtu != tap.limits().mtu);
            let up = is_new && number == 0;
            // An interface that was moved to another namespace since then needs no setting.
            if up || mtu.is_some() {
                tap.configure(&Setup { mtu, up, ..Setup::default() })?;
            }
            // Last, because it changes what a device in use receives: if the MTU is refused, that
            // device stays as it is.
            tap.set_offloads(port.offloads)?;
        }
        Ok(queues)
    }

    /// The ports over packet sockets whose interfaces were deleted and made again: their sockets
    /// cannot be used any more.
    pub fn made_anew(&self, config: &Config) -> Vec<String> {
        let Ok(asked) = inquirer() else { return Vec::new() };
        let is_another = |port: &Port| {
            let Link::Device(DeviceName { kind: Kind::Packet, name }) = &port.link else {
                return false;
            };
            let index = index_of(Some(&asked), name);
            index.is_some_and(|index| self.packets.get(name).is_some_and(|was| *was != index))
        };
        let ports = config.ports.iter().filter(|(_, port)| is_another(port));
        ports.map(|(name, _)| name.clone()).collect()
    }

    /// Close the devices that `config` does not have.
    pub fn keep(&mut self, config: &Config) {
        let is_used = |name: &DeviceName| {
            config.ports.values().any(|port| port.link == Link::Device(name.clone()))
        };
        self.taps.retain(|name, _| is_used(name));
    }
}

/// A socket that asks about interfaces.
fn inquirer() -> rustix::io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

fn index_of(asked: Option<&OwnedFd>, name: &str) -> Option<u32> {
    name_to_index(asked?, name).ok()
}

/// The configuration, which has to be the same in both processes.
fn packet_config(port: &Port, device: &DeviceName) -> packet::Config {
    let usual = packet::Config::of(&device.name);
    packet::Config { mtu_max: port.mtu, offload: port.offloads, ..usual }
}

fn cannot_pass(why: &std::io::Error) -> String {
    format!("the descriptor cannot be passed on ({why}): raise `ulimit -n`")
}

/// The device of a port, by the descriptors that were granted for it, with a queue for each of
/// `shards`.
///
/// # Errors
/// The device's error, with what to do.
pub fn adopt(port: &Port, granted: Vec<Granted>, shards: usize) -> Result<Opened, String> {
    let Link::Device(name) = &port.link else { return Err("a VLAN has no device".to_owned()) };
    if granted.len() != shards && name.kind != Kind::Xdp {
        return Err("its device was not opened".to_owned());
    }
    let (queues, mac) = match name.kind {
        Kind::Tap | Kind::Tun => taps(granted)?,
        Kind::Packet => {
            packets(granted, &packet_config(port, name)).map_err(|why| why.to_string())?
        }
        Kind::Xdp => {
            let config = xdp::Config::of(&name.name);
            let sockets = XdpSocket::open_queues(&config, shards as u32);
            let sockets = sockets.map_err(|why| why.to_string())?;
            let mac = sockets[0].mac().unwrap_or_default();
            (boxed(sockets), mac)
        }
    };
    for device in &queues {
        let Limits { link, mtu, .. } = device.limits();
        if link != name.kind.link() && link == LinkKind::Ip {
            return Err(format!("{name} carries no Ethernet frames: choose another interface"));
        }
        if let Some(wanted) = port.mtu.filter(|wanted| *wanted != mtu) {
            let (wanted, is) = (wanted.bytes(), mtu.bytes());
            return Err(format!(
                "{name} carries {is} bytes, not {wanted}: change the interface's MTU"
            ));
        }
    }
    Ok(Opened { queues, mac })
}

type Queues = (Vec<Box<dyn Device>>, MacAddr);

fn boxed<D: Device + 'static>(queues: Vec<D>) -> Vec<Box<dyn Device>> {
    queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Device>).collect()
}

fn taps(granted: Vec<Granted>) -> Result<Queues, String> {
    let mac = granted.first().map_or(MacAddr::default(), |(grant, _)| MacAddr(grant.mac));
    let adopt = |(grant, fd): Granted| {
        let mtu = Mtu::new(grant.mtu).unwrap_or(Mtu::ETHERNET);
        let [offloads, uso] = grant.offloads;
        let declared = Declared { mtu, offloads, uso, ..Declared::default() };
        Tap::adopt(fd, &declared).map_err(|why| why.to_string())
    };
    let queues: Result<Vec<Tap>, String> = granted.into_iter().map(adopt).collect();
    Ok((boxed(queues?), mac))
}

fn packets(granted: Vec<Granted>, config: &packet::Config) -> Result<Queues, packet::PacketError> {
    let adopted = granted.into_iter().map(|(_, fd)| PacketSocket::adopt(fd, config));
    let queues = adopted.collect::<Result<Vec<_>, _>>()?;
    let mac = queues.first().and_then(PacketSocket::mac).unwrap_or_default();
    Ok((boxed(queues), mac))
}
