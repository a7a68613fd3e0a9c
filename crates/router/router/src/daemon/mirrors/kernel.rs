//! What the kernel is asked for: the interface of a mirror, its settings and its addresses, in the
//! network namespace of the calling thread.
//!
//! Called by: `mirrors.rs`, on a thread in the namespace. The interface is NOARP: programs resolve
//! no neighbour, because the stack does. It learns nothing from router advertisements, and makes no
//! address by itself. Addresses that other programs gave it (keepalived's) stay. Sources:
//! rtnetlink(7), Linux `Documentation/networking/ip-sysctl.rst`, `tuntap.rst`.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeSet;
use std::io;

use base::{Cidr, LinkKind, Mtu};
use device::tap::{self, Setup, Tap};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::mirror::State;

/// The alias of an interface of ours, by which the next start knows it.
const ALIAS: &str = "mirror of a port of wirespeed";
/// Frames of programs that wait for us.
const QUEUE_FRAMES: u32 = 1_000;
/// Ports of programs' own connections: those below are used by translations of `[nat]`.
const EPHEMERAL: &str = "61000 65535";

/// Settings of an interface, below /proc/sys/net.
const SETTINGS: [(&str, &str, &str); 10] = [
    ("ipv4", "rp_filter", "0"),
    ("ipv4", "accept_redirects", "0"),
    ("ipv4", "send_redirects", "0"),
    ("ipv6", "accept_ra", "0"),
    ("ipv6", "autoconf", "0"),
    ("ipv6", "addr_gen_mode", "1"),
    ("ipv6", "accept_dad", "0"),
    ("ipv6", "accept_redirects", "0"),
    ("ipv6", "router_solicitations", "0"),
    ("ipv6", "keep_addr_on_down", "1"),
];

/// Settings of a namespace that is for mirrors: its loopback interface, and its ports.
///
/// # Errors
/// What the system refuses, and what to do.
pub(super) fn prepare() -> Result<(), String> {
    let kernel = Kernel::new()?;
    let lo = kernel.link("lo")?.ok_or("it has no loopback interface")?;
    kernel.up(lo.header.index, LinkFlags::Up)?;
    write("ipv4/conf/all/rp_filter", "0")?;
    write("ipv4/ip_local_port_range", EPHEMERAL)
}

/// Make the interface, or take over one that an earlier router left.
///
/// # Errors
/// Why that cannot be, and what to do.
pub(super) fn open(name: &str) -> Result<Tap, String> {
    let kernel = Kernel::new()?;
    if let Some(link) = kernel.link(name)? {
        let is_ours = |one: &LinkAttribute| matches!(one, LinkAttribute::IfAlias(a) if a == ALIAS);
        if !link.attributes.iter().any(is_ours) {
            return Err(format!(
                "its namespace has another interface '{name}': rename that one, or the port"
            ));
        }
    }
    let config = tap::Config {
        name: Some(name.to_owned()),
        link: LinkKind::Ethernet,
        // Programs on the mirror would wait for the ring of another process.
        io_uring: false,
        ..tap::Config::default()
    };
    let mut tap = Tap::open(&config).map_err(|why| why.to_string())?;
    tap.set_offloads(false).map_err(|why| why.to_string())?;
    Ok(tap)
}

/// Make the interface like its port. `before` is what it has of us already; `None`: it is new.
///
/// # Errors
/// What the system refuses, and what to do.
pub(super) fn settle(tap: &mut Tap, before: Option<&State>, now: &State) -> Result<(), String> {
    let kernel = Kernel::new()?;
    let name = tap.name().to_owned();
    let missing = || format!("its interface '{name}' was moved away: move it back, or delete it");
    let index = kernel.link(&name)?.ok_or_else(missing)?.header.index;
    if before.is_none_or(|before| (before.mac, before.mtu) != (now.mac, now.mtu)) {
        let mac = Some(base::MacAddr(now.mac));
        let setup = Setup { mac, mtu: Mtu::new(now.mtu), ..Setup::default() };
        tap.configure(&setup).map_err(|why| why.to_string())?;
    }
    if before.is_none() {
        let setup = Setup { queue_frames: Some(QUEUE_FRAMES), ..Setup::default() };
        tap.configure(&setup).map_err(|why| why.to_string())?;
        kernel
            .change(index, |link| link.attributes.push(LinkAttribute::IfAlias(ALIAS.to_owned())))?;
        for (version, key, value) in SETTINGS {
            write(&format!("{version}/conf/{name}/{key}"), value)?;
        }
        kernel.up(index, LinkFlags::Up | LinkFlags::Noarp)?;
        tap.set_persistent(true).map_err(|why| why.to_string())?;
    }
    if before.is_none_or(|before| before.carrier != now.carrier) {
        tap.set_carrier(now.carrier).map_err(|why| why.to_string())?;
    }
    let none = BTreeSet::new();
    let had = before.map_or(&none, |before| &before.addresses);
    for &address in had.difference(&now.addresses) {
        match kernel.address(index, address, false) {
            // Somebody else has removed it.
            Err(why) if why.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {}
            done => done.map_err(|why| refused("removing the address", address, &why))?,
        }
    }
    for &address in now.addresses.difference(had) {
        let added = kernel.address(index, address, true);
        added.map_err(|why| refused("adding the address", address, &why))?;
    }
    Ok(())
}

fn refused(what: &str, (ip, len): (IpAddr, u8), why: &io::Error) -> String {
    format!("{what} {ip}/{len} was refused ({why}): see `ip addr` in its namespace")
}

/// Write a setting; one that this kernel does not have is none that matters.
fn write(key: &str, value: &str) -> Result<(), String> {
    let path = format!("/proc/sys/net/{key}");
    match std::fs::write(&path, value) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(format!(
            "cannot write {path} ({why}): with systemd, ProtectKernelTunables=no in the unit"
        )),
        _ => Ok(()),
    }
}

/// A socket of rtnetlink in the thread's namespace.
struct Kernel(Socket);

impl Kernel {
    fn new() -> Result<Kernel, String> {
        let socket = Socket::new(NETLINK_ROUTE);
        socket.map(Kernel).map_err(|why| format!("the kernel has no netlink ({why})"))
    }

    /// Ask; the answer is the acknowledgement, or a message before it.
    fn ask(&self, message: Message, flags: u16) -> io::Result<Option<Message>> {
        let mut header = NetlinkHeader::default();
        (header.flags, header.sequence_number) = (NLM_F_REQUEST | flags, 1);
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send_to(&bytes, &SocketAddr::new(0, 0), 0)?;
        let (answer, _) = self.0.recv_from_full()?;
        let answer = NetlinkMessage::<Message>::deserialize(&answer).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
            _ => Ok(None),
        }
    }

    /// The interface of this name, if there is one.
    fn link(&self, name: &str) -> Result<Option<LinkMessage>, String> {
        let mut asked = LinkMessage::default();
        asked.attributes.push(LinkAttribute::IfName(name.to_owned()));
        match self.ask(Message::GetLink(asked), 0) {
            Ok(Some(Message::NewLink(link))) => Ok(Some(link)),
            Ok(_) => Ok(None),
            Err(why) if why.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(why) => Err(format!("the kernel does not say whether '{name}' exists ({why})")),
        }
    }

    fn change(&self, index: u32, change: impl FnOnce(&mut LinkMessage)) -> Result<(), String> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        change(&mut link);
        let done = self.ask(Message::SetLink(link), NLM_F_ACK);
        done.map(drop).map_err(|why| {
            format!("changing its interface was refused ({why}): run the router as root")
        })
    }

    /// Set these flags of an interface.
    fn up(&self, index: u32, flags: LinkFlags) -> Result<(), String> {
        self.change(index, |link| {
            (link.header.flags, link.header.change_mask) = (flags, flags);
        })
    }

    /// Add an address, or remove it.
    fn address(&self, index: u32, (ip, len): (IpAddr, u8), is_added: bool) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.prefix_len = len;
        let is_local = match ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        message.header.scope = if is_local { AddressScope::Link } else { AddressScope::Universe };
        let attributes = &mut message.attributes;
        attributes.extend([AddressAttribute::Local(ip), AddressAttribute::Address(ip)]);
        message.header.family = match ip {
            IpAddr::V4(ip) => {
                attributes.extend(broadcast(ip, len).map(AddressAttribute::Broadcast));
                AddressFamily::Inet
            }
            IpAddr::V6(_) => {
                // The stack has asked whether somebody else has it.
                attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
                AddressFamily::Inet6
            }
        };
        let (message, flags) = match is_added {
            true => (Message::NewAddress(message), NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE),
            false => (Message::DelAddress(message), NLM_F_ACK),
        };
        self.ask(message, flags).map(drop)
    }
}

/// The broadcast address of a network that has one.
fn broadcast(ip: Ipv4Addr, len: u8) -> Option<Ipv4Addr> {
    let network = Cidr { addr: IpAddr::V4(ip), prefix_len: len }.network();
    match network.addr {
        IpAddr::V4(network) if len < 31 => {
            let hosts = u32::MAX.checked_shr(u32::from(len)).unwrap_or(0);
            Some(Ipv4Addr::from_bits(network.to_bits() | hosts))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_a_broadcast_address_if_it_has_room_for_one() {
        let of = |len| broadcast(Ipv4Addr::new(192, 0, 2, 9), len).map(|ip| ip.to_string());
        assert_eq!(of(24).as_deref(), Some("192.0.2.255"));
        assert_eq!(of(29).as_deref(), Some("192.0.2.15"));
        assert_eq!(of(0).as_deref(), Some("255.255.255.255"));
        assert_eq!((of(31), of(32)), (None, None));
    }
}
