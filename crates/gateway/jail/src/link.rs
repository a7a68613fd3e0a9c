//! The program's network: a veth pair whose far end is in a namespace that the program cannot see,
//! with a packet socket on it; addresses, routes and settings of the near end.
//!
//! Called by: `program.rs` and `inside.rs`, while they have capabilities over the namespaces. The
//! far end has no address. The gateway has a hardware address of its own, so that the kernel drops
//! the program's frames there as frames for another host after the packet socket has them. Sources:
//! veth(4), rtnetlink(7), packet(7), Linux `Documentation/networking/ip-sysctl.rst`.

use std::fs::File;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use base::MacAddr;
use device::packet::{Config, Fanout, PacketSocket, Receive};
use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Error, refused};
use crate::netlink::{NEW, Netlink, Request};
use crate::options::{Inside, Setup};

/// The name of the far end.
pub(crate) const FAR: &str = "far0";
/// Slots of the packet socket's ring: 4.5 MB.
const SLOTS: usize = 64;

const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const IFF_UP: u32 = 1;
/// IFA_F_NODAD.
const NO_DAD: u32 = 0x02;

/// The packet socket's configuration: the gateway has to adopt the socket with the same, and to
/// wait for its descriptor.
pub(crate) fn packet_config() -> Config {
    let receive = Receive::Slots { count: SLOTS };
    Config { receive, watched: true, ..Config::of(FAR) }
}

/// This thread's network namespace.
pub(crate) fn own_network() -> Result<File, Error> {
    let path = "/proc/thread-self/ns/net";
    File::open(path).map_err(refused("the network namespace cannot be opened"))
}

/// Make the pair, from the `near` namespace, which this thread is in and returns to. Returns the
/// packet socket on the far end.
pub(crate) fn make_pair(setup: &Setup, near: &File) -> Result<OwnedFd, Error> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(refused("a second network cannot be made"))?;
    // The kernel's own stack stays silent there.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let mut netlink = Netlink::new().map_err(refused("there is no rtnetlink"))?;
    netlink.ask(veth(setup, near)).map_err(no_veth)?;
    let far = netlink.index_of(FAR).map_err(refused("the veth pair is not there"))?;
    netlink.ask(up(far)).map_err(refused("the veth pair cannot be brought up"))?;
    let opened = PacketSocket::open_for_another(&packet_config(), Fanout::default(), 1);
    let opened = opened.map_err(|why| Error::not_started(format!("no packet socket: {why}")))?;
    move_into_link_name_space(near.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(refused("the program's network cannot be entered again"))?;
    opened.into_iter().next().ok_or_else(|| Error::not_started("no packet socket was made"))
}

fn no_veth(errno: Errno) -> Error {
    match errno {
        Errno::OPNOTSUPP => Error::not_started(
            "this kernel has no veth interfaces: load the driver once, `sudo modprobe veth`",
        ),
        errno => refused("a veth pair cannot be made")(errno),
    }
}

fn veth(setup: &Setup, near: &File) -> Request {
    let mtu = setup.mtu.to_ne_bytes();
    let name = |text: &str| [text.as_bytes(), &[0]].concat();
    let near_name = name(&setup.interface);
    let near_fd = near.as_raw_fd().to_ne_bytes();
    // IFLA_IFNAME, IFLA_MTU, IFLA_NET_NS_FD of the peer, which is the near end.
    let peer = |request: Request| {
        let request = request.bytes(&link(0, 0));
        request.attribute(3, &near_name).attribute(4, &mtu).attribute(28, &near_fd)
    };
    // IFLA_INFO_KIND, IFLA_INFO_DATA with VETH_INFO_PEER.
    let info = |request: Request| {
        request.attribute(1, b"veth").nested(2, |request| request.nested(1, peer))
    };
    let request = Request::new(NEW_LINK, NEW, &link(0, 0));
    request.attribute(3, &name(FAR)).attribute(4, &mtu).nested(18, info)
}

/// A `struct ifinfomsg` that sets these flags.
fn link(index: u32, flags: u32) -> [u8; 16] {
    let mut body = [0; 16];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body[8..12].copy_from_slice(&flags.to_ne_bytes());
    body[12..16].copy_from_slice(&flags.to_ne_bytes());
    body
}

fn up(index: u32) -> Request {
    Request::new(NEW_LINK, 0, &link(index, IFF_UP))
}

fn family(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    }
}

fn address(index: u32, (address, prefix_len): (IpAddr, u8)) -> Request {
    let (family, bytes) = family(address);
    let mut body = vec![family, prefix_len, 0, 0];
    body.extend(index.to_ne_bytes());
    let request = Request::new(NEW_ADDRESS, NEW, &body);
    // IFA_LOCAL, IFA_ADDRESS, IFA_FLAGS.
    let request = request.attribute(2, &bytes).attribute(1, &bytes);
    if address.is_ipv6() { request.attribute(8, &NO_DAD.to_ne_bytes()) } else { request }
}

fn default_route(index: u32, gateway: IpAddr) -> Request {
    let (family, bytes) = family(gateway);
    // RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_UNIVERSE, RTN_UNICAST, no flags.
    let body = [family, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
    let request = Request::new(NEW_ROUTE, NEW, &body);
    // RTA_GATEWAY, RTA_OIF.
    request.attribute(5, &bytes).attribute(4, &index.to_ne_bytes())
}

/// Configure the near end, in whose namespace this thread is. Settings that this machine does not
/// have are noted: the program runs without them.
pub(crate) fn configure(setup: &Setup, gid: u32, notes: &mut Vec<String>) -> Result<(), Error> {
    let mut netlink = Netlink::new().map_err(refused("there is no rtnetlink"))?;
    netlink.ask(up(1)).map_err(refused("the loopback interface cannot be brought up"))?;
    let index = netlink.index_of(&setup.interface).map_err(refused("there is no interface"))?;
    settings(setup, gid, notes);
    bring_up(&mut netlink, index)?;
    add_addresses(setup, &mut netlink, index, notes)
}

fn bring_up(netlink: &mut Netlink, index: u32) -> Result<(), Error> {
    netlink.ask(up(index)).map_err(refused("the interface cannot be brought up"))
}

/// The same in a namespace that is another program's: the loopback interface and ours alone.
/// Without `is_configured`, our interface is only up: the namespace's own programs configure it.
pub(crate) fn configure_joined(
    setup: &Setup,
    is_configured: bool,
    mac: Option<MacAddr>,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    let mut netlink = Netlink::new().map_err(refused("there is no rtnetlink"))?;
    let index = netlink.index_of(&setup.interface).map_err(refused("there is no interface"))?;
    // It may be up, or the namespace may be of a user who permits it to nobody.
    let _ = netlink.ask(up(1));
    if let Some(mac) = mac {
        let request = Request::new(NEW_LINK, 0, &link(index, 0)).attribute(1, &mac.0);
        netlink.ask(request).map_err(refused("the hardware address cannot be set"))?;
    }
    if is_configured {
        settings_of_ipv6(setup);
    }
    bring_up(&mut netlink, index)?;
    match is_configured {
        true => add_addresses(setup, &mut netlink, index, notes),
        false => Ok(()),
    }
}

/// Is there an interface of this name in this namespace?
pub(crate) fn is_there(interface: &str) -> bool {
    Netlink::new().is_ok_and(|netlink| netlink.index_of(interface).is_ok())
}

fn add_addresses(
    setup: &Setup,
    netlink: &mut Netlink,
    index: u32,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    let mut without_ipv6 = false;
    for &one in &setup.addresses {
        match netlink.ask(address(index, one)) {
            Err(_) if one.0.is_ipv6() => without_ipv6 = true,
            added => added.map_err(refused(&format!("{} is no usable address", one.0)))?,
        }
    }
    for &one in &setup.gateways {
        match netlink.ask(default_route(index, one)) {
            Err(_) if one.is_ipv6() => without_ipv6 = true,
            added => added.map_err(refused(&format!("{one} is no usable gateway")))?,
        }
    }
    if without_ipv6 {
        notes.push(
            "the program has no IPv6, because this machine has it disabled: see `sysctl \
             net.ipv6.conf.all.disable_ipv6`"
                .to_owned(),
        );
    }
    Ok(())
}

/// Addresses of IPv6 are usable at once, and there are no others. These files are missing on a
/// machine without IPv6, and /proc/sys of a container cannot be written: then addresses are usable
/// after a second.
fn settings_of_ipv6(setup: &Setup) {
    for (key, value) in [
        ("disable_ipv6", "0"),
        ("accept_dad", "0"),
        ("accept_ra", if setup.is_routed { "1" } else { "0" }),
        // The interface has its addresses and its MTU already.
        ("accept_ra_pinfo", "0"),
        ("accept_ra_mtu", "0"),
    ] {
        let path = format!("/proc/sys/net/ipv6/conf/{}/{key}", setup.interface);
        let _ = std::fs::write(path, value);
    }
}

fn settings(setup: &Setup, gid: u32, notes: &mut Vec<String>) {
    let set = |key: &str, value: &str| {
        let path = format!("/proc/sys/net/{key}");
        std::fs::write(&path, value).map_err(|why| format!("{path} cannot be set ({why})"))
    };
    settings_of_ipv6(setup);
    // Only a group that the user namespace knows can be written.
    if let Err(why) = set("ipv4/ping_group_range", &format!("{gid} {gid}")) {
        notes.push(format!("{why}: ping does not work inside"));
    }
    if let Err(why) = set("ipv4/ip_unprivileged_port_start", "0") {
        notes.push(format!("{why}: the program cannot use ports below 1024"));
    }
}

/// Make the sockets of [`crate::Options::inside`].
pub(crate) fn inside(wanted: &[Inside]) -> Result<Vec<OwnedFd>, Error> {
    let one = |Inside { udp, at }: &Inside| {
        let made = match udp {
            true => UdpSocket::bind(at).map(OwnedFd::from),
            false => TcpListener::bind(at).map(OwnedFd::from),
        };
        made.map_err(|why| {
            let text = format!("{at} cannot be listened at inside ({why}): choose another port");
            Error::not_started(text)
        })
    };
    wanted.iter().map(one).collect()
}
