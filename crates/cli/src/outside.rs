//! A stack on a device of this machine: the options `--dev KIND:NAME`, `--addr A/B` and `--via
//! GATEWAY`, opening the device, and the wait in poll(2).
//!
//! Called by: `ping`, `services`, and `ttcp` to and from hosts; `wire` opens devices. The user
//! configures the kernel's end of the device (`ip addr add ... dev NAME`).

mod addr;
mod auto;
mod dhcp;
mod dhcp6;
mod hint;
mod obtained;

pub(crate) use addr::Addr;
pub(crate) use hint::Hint;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::task::Waker;

use anyhow::{Context, Result, anyhow, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wirespeed::device::mitigation::Mitigation;
use wirespeed::device::packet::{self, PacketSocket};
use wirespeed::device::tap::{Config, Setup, Tap, TapError};
use wirespeed::device::xdp::{self, XdpSocket};
use wirespeed::device::{vlan, vm};
use wirespeed::{
    Armed, Cidr, Device, Duration, Instant, IpVersion, LinkKind, MacAddr, Mtu, PortConfig, PortId,
    Route, Stack, StackConfig, Switches,
};

use crate::Usage;
use crate::clock::{Clock, Interrupt};

/// Polling interval of a device that cannot wake us.
const LOOK: Duration = Duration::from_millis(1);

/// The group of options in `--help`.
pub(crate) const HEADING: &str = "Over a device";

/// The options that choose the device, and our address on it.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "outside", multiple = true)]
#[command(next_help_heading = HEADING)]
pub(crate) struct Args {
    /// tap:NAME, tun:NAME, packet:NAME, xdp:NAME, vm:PATH
    ///
    /// tap:NAME (Ethernet) and tun:NAME (bare IP) are made if they are not there. packet:NAME is an
    /// interface that is there, used beside the kernel, xdp:NAME one used instead of it. vm:PATH
    /// connects to a virtual machine's stream socket in QEMU's framing, vm-listen:PATH waits for
    /// the machine.
    #[arg(long, value_name = "KIND:NAME")]
    pub(crate) dev: Option<Dev>,
    /// Our VLAN on the device: ID for one 802.1Q tag, OUTER.ID for an 802.1ad tag around it
    #[arg(long, value_name = "[OUTER.]ID", requires = "dev", hide_short_help = true)]
    pub(crate) vlan: Option<Tags>,
    /// Our address and network, as 192.0.2.2/24, or auto or dhcp; repeatable
    ///
    /// auto is for IPv6: addresses as routers on the link advertise (SLAAC); also one of a DHCPv6
    /// server, or name servers of one, if routers say that there is one. dhcp is for IPv4: a server
    /// gives an address. Both may be given. Addresses are checked for conflicts before they are
    /// used, which takes up to 2 s for IPv6 and 7 s for IPv4; those of servers are kept while the
    /// tool runs, and given back at the end. Ctrl-C ends the wait.
    #[arg(long, value_name = "A/B|auto|dhcp", requires = "dev")]
    pub(crate) addr: Vec<Addr>,
    /// Gateway to other networks, one a version of IP
    #[arg(long, value_name = "GATEWAY", requires = "dev")]
    pub(crate) via: Vec<IpAddr>,
    /// The largest packet to send to a neighbour whose MTU is not the device's, as 192.0.2.9=1500;
    /// repeatable
    #[arg(long, value_name = "ADDRESS=BYTES", requires = "dev", hide_short_help = true)]
    pub(crate) neigh_mtu: Vec<NeighbourMtu>,
    /// How often the device wakes us: a level, 0 for each frame to 5 for the fewest wake-ups,
    /// adaptive, or poll [default: 0]
    #[arg(long, value_name = "0-5|adaptive|poll", requires = "dev", hide_short_help = true)]
    pub(crate) mitigation: Option<Mitigation>,
}

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

/// The MTU of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeighbourMtu {
    ip: IpAddr,
    mtu: Mtu,
}

impl FromStr for NeighbourMtu {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<NeighbourMtu, Self::Err> {
        let (ip, mtu) = text.split_once('=').ok_or("give ADDRESS=BYTES, as 192.0.2.9=1500")?;
        let ip = ip.parse().map_err(|_| "before = there has to be an address, as 192.0.2.9")?;
        let mtu = mtu.parse().ok().and_then(Mtu::new);
        let mtu = mtu.ok_or("an MTU is a number of bytes from 68 to 65535")?;
        Ok(NeighbourMtu { ip, mtu })
    }
}

/// The VLAN tags of a port on a trunk, one or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tags {
    outer: Option<u16>,
    id: u16,
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
    fn port_of(self, device: Box<dyn Device>) -> Result<Box<dyn Device>> {
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

impl Args {
    /// Check that the options fit together.
    ///
    /// # Errors
    /// [`Usage`], with the option to add or to change.
    fn check(&self) -> Result<&Dev> {
        let usage = |text: String| Err(anyhow!(Usage(text)));
        let Some(dev) = &self.dev else {
            return usage(
                "say which device to use: --dev tap:NAME (or tun:, packet:, xdp:) --addr A/B"
                    .to_owned(),
            );
        };
        if self.addr.is_empty() {
            return usage(
                "our end needs an address: --addr A/B, as in 192.0.2.2/24, --addr dhcp, or \
                 --addr auto for IPv6"
                    .to_owned(),
            );
        }
        for gateway in &self.via {
            let asks = if gateway.is_ipv6() { Addr::Auto } else { Addr::Dhcp };
            let is_auto = self.addr.contains(&asks);
            if !is_auto && !self.fixed().any(|cidr| cidr.contains(*gateway)) {
                return usage(format!(
                    "gateway {gateway} is on none of our networks; give an --addr A/B beside it"
                ));
            }
        }
        Ok(dev)
    }

    /// The addresses that are given.
    fn fixed(&self) -> impl Iterator<Item = Cidr> {
        self.addr.iter().filter_map(|addr| match addr {
            Addr::Fixed(cidr) => Some(*cidr),
            Addr::Auto | Addr::Dhcp => None,
        })
    }

    fn is_auto(&self) -> bool {
        self.addr.contains(&Addr::Auto)
    }

    /// Check that `host` is not this stack, whose packets to itself never reach the device.
    ///
    /// # Errors
    /// [`Usage`] for one of our own addresses.
    pub(crate) fn check_host(&self, host: IpAddr) -> Result<()> {
        if self.fixed().any(|cidr| cidr.addr == host) {
            bail!(Usage(format!(
                "{host} is our own --addr, and nothing sent to it leaves: give the other end's"
            )));
        }
        Ok(())
    }

    /// What to try if `host`, on one of our networks, does not answer.
    pub(crate) fn hint(&self, host: IpAddr) -> Option<String> {
        let (dev, net) = (self.dev.as_ref()?, self.fixed().find(|cidr| cidr.contains(host))?);
        if !matches!(dev.kind, Kind::Tap(_)) {
            // This machine is not the other end.
            return None;
        }
        Some(format!(
            "If {host} is to be this machine, give it the address: \
             `sudo ip addr add {host}/{} dev {}`",
            net.prefix_len, dev.name
        ))
    }
}

/// A stack on a device of this machine.
pub(crate) struct Outside {
    pub(crate) stack: Stack,
    pub(crate) port: PortId,
    pub(crate) clock: Clock,
    /// Keeps the address of `--addr dhcp`.
    dhcp: Option<dhcp::Dhcp>,
    /// Asks DHCPv6 servers for what routers say they have, with `--addr auto`.
    dhcp6: Option<dhcp6::Dhcp6>,
}

/// Settings that a command may choose.
pub(crate) struct Settings {
    /// Leave checksums and the cutting of super-segments to the device.
    pub(crate) offload: bool,
    /// Send bursts with one system call, where the kernel has io_uring.
    pub(crate) io_uring: bool,
    pub(crate) switches: Switches,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { offload: true, io_uring: true, switches: Switches::default() }
    }
}

impl Outside {
    /// Open the device, bring it up, make a stack on it, and obtain addresses. `None` after Ctrl-C.
    ///
    /// # Errors
    /// [`Usage`] for options that do not fit together; otherwise the device's error, or no server's
    /// answer, with what to do.
    pub(crate) fn open(args: &Args, interrupt: &Interrupt) -> Result<Option<Outside>> {
        Outside::open_with(args, &Settings::default(), interrupt, Ok)
    }

    /// The same with settings, and with the wrappers that `wrap` puts around the device.
    ///
    /// # Errors
    /// As [`Outside::open`], and the errors of `wrap`.
    pub(crate) fn open_with(
        args: &Args,
        settings: &Settings,
        interrupt: &Interrupt,
        wrap: impl FnOnce(Box<dyn Device>) -> Result<Box<dyn Device>>,
    ) -> Result<Option<Outside>> {
        let dev = args.check()?;
        let mut seed = [0; 16];
        getrandom::fill(&mut seed).context("the system gives no random seed")?;
        let half = |at| u64::from_le_bytes(core::array::from_fn(|i| seed[at + i]));
        let mut stack = Stack::new(StackConfig {
            switches: settings.switches,
            ..StackConfig::new([half(0), half(8)])
        });
        let clock = Clock::start();
        stack.set_now(clock.now());
        let how = How { offload: settings.offload, io_uring: settings.io_uring, bridged: false };
        let (device, mac) = open(dev, &how)?;
        // The wrappers see the frames as on the wire, tags included.
        let device = wrap(device)?;
        let device = match args.vlan {
            Some(tags) => tags.port_of(device)?,
            None => device,
        };
        let port = stack.add_port(device, PortConfig { mac, addresses: args.fixed().collect() });
        stack.set_port_name(port, &dev.name);
        if let Some(mitigation) = args.mitigation {
            stack.set_mitigation(port, mitigation).map_err(|why| Usage(why.to_string()))?;
        }
        for &NeighbourMtu { ip, mtu } in &args.neigh_mtu {
            let set = stack.set_neighbour_mtu(port, ip, Some(mtu));
            set.map_err(|why| Usage(format!("--neigh-mtu {ip}: {why}")))?;
        }
        for &gateway in &args.via {
            stack.add_route(Route::new(everywhere(gateway), Some(gateway), port.0));
        }
        let mut outside = Outside { stack, port, clock, dhcp: None, dhcp6: None };
        let is_done = outside.obtain(args, mac, interrupt)?;
        Ok(is_done.then_some(outside))
    }

    /// Get the addresses that others give, of both versions at the same time; `false` after Ctrl-C.
    fn obtain(&mut self, args: &Args, mac: MacAddr, interrupt: &Interrupt) -> Result<bool> {
        let is_leased = args.addr.contains(&Addr::Dhcp);
        if is_leased {
            dhcp::begin(self, mac)?;
        }
        if args.is_auto() {
            auto::begin(self, mac)?;
        }
        if is_leased && !dhcp::wait(self, interrupt)? {
            return Ok(false);
        }
        Ok(!args.is_auto() || auto::wait(self, interrupt)?)
    }

    /// Our addresses on the device that can be used now.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let all = self.stack.addresses(self.port).iter();
        all.filter(|address| address.is_usable()).map(|address| address.ip()).collect()
    }

    /// As [`Args::check_host`], with the addresses that were made.
    ///
    /// # Errors
    /// [`Usage`] for one of our own addresses.
    pub(crate) fn check_host(&self, host: IpAddr) -> Result<()> {
        if self.stack.has_address(host) {
            bail!(Usage(format!(
                "{host} is an address of our own, and nothing sent to it leaves: give the other \
                 end's"
            )));
        }
        Ok(())
    }

    /// Receive and send what is pending; returns the amount of work.
    pub(crate) fn turn(&mut self) -> usize {
        let now = self.clock.now();
        let worked = self.stack.poll(now);
        if let Some(dhcp) = &mut self.dhcp {
            dhcp.turn(&mut self.stack, now);
        }
        if let Some(dhcp6) = &mut self.dhcp6 {
            dhcp6.turn(&mut self.stack, now);
        }
        worked
    }

    /// The name servers that DHCP servers and routers told us of: the first of each, then the
    /// second of each, so that some of all sources are asked (RFC 8106 section 5.3.1).
    pub(crate) fn dns_servers(&self, port: u16) -> Vec<SocketAddr> {
        let leased: Vec<IpAddr> = self.dhcp.iter().flat_map(dhcp::Dhcp::dns_servers).collect();
        let leased6 = self.dhcp6.iter().flat_map(|dhcp6| dhcp6.dns_servers());
        let leased6: Vec<IpAddr> = leased6.map(IpAddr::V6).collect();
        let advertised = self.stack.dns_servers(self.port).into_iter().map(IpAddr::V6).collect();
        let scoped = |ip| match ip {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                SocketAddr::V6(SocketAddrV6::new(v6, port, 0, self.port.scope_id()))
            }
            ip => SocketAddr::new(ip, port),
        };
        obtained::in_turn(&[leased, leased6, advertised]).into_iter().map(scoped).collect()
    }

    /// The domains in which names are searched, from where the name servers are.
    pub(crate) fn dns_search(&self) -> Vec<String> {
        let leased = self.dhcp.iter().flat_map(|dhcp| dhcp.dns_search().iter().cloned());
        let leased6 = self.dhcp6.iter().flat_map(|dhcp6| dhcp6.dns_search().iter().cloned());
        leased.chain(leased6).chain(self.stack.dns_search(self.port)).collect()
    }

    /// Sleep until a frame comes, the device has room again after it pushed back, the stack has
    /// something due, `until` comes, or one of `others` is ready; `true` if one of `others` is.
    ///
    /// # Errors
    /// The device is gone: its error, with what to do.
    pub(crate) fn wait<'fd>(
        &mut self,
        until: Instant,
        others: impl IntoIterator<Item = (BorrowedFd<'fd>, PollFlags)>,
    ) -> Result<bool> {
        self.stack.flush();
        let now = self.clock.now();
        let until = self.dhcp.as_ref().map_or(until, |dhcp| until.min(dhcp.deadline()));
        let until = self.dhcp6.as_ref().map_or(until, |dhcp6| until.min(dhcp6.deadline()));
        let (gathers, look_at) = match self.stack.arm(Waker::noop()) {
            Armed::Ready => return Ok(false),
            Armed::Until(at) => (true, at),
            Armed::All | Armed::Descriptors => (false, Instant::NEVER),
            Armed::NotAll => (false, now + LOOK),
        };
        let due = self.stack.next_deadline().min(until).min(look_at);
        let mut asked: Vec<PollFd<'_>> =
            others.into_iter().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
        let beside = asked.len();
        // With interrupt moderation frames gather until `look_at` and do not wake us before.
        if !gathers {
            let device = self.device()?;
            let Some(fd) = device.as_fd() else {
                return match device.failure() {
                    Some(error) => Err(anyhow!("{error}")),
                    None => Err(anyhow!("the device is gone; start again")),
                };
            };
            let room =
                if self.stack.is_pushed_back() { PollFlags::OUT } else { PollFlags::empty() };
            asked.push(PollFd::from_borrowed_fd(fd, PollFlags::IN | room));
        }
        match poll(&mut asked, timeout(due, now).as_ref()) {
            Ok(_) => Ok(asked[..beside].iter().any(|fd| !fd.revents().is_empty())),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error).context("cannot wait for the device"),
        }
    }

    /// The largest IP packet of the device, in bytes.
    pub(crate) fn mtu(&self) -> usize {
        self.device().map_or(0, |device| device.limits().mtu.bytes())
    }

    /// Why no frame passes, according to the device; `None` if nothing is wrong.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.stack.port_trouble(self.port)
    }

    fn device(&self) -> Result<&dyn Device> {
        self.stack.device(self.port).context("the device was removed")
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        dhcp6::release(self);
        dhcp::release(self);
    }
}

/// The time-out of poll(2); `None` if nothing is due.
fn timeout(due: Instant, now: Instant) -> Option<Timespec> {
    let nanos = (due != Instant::NEVER).then(|| due.since(now).as_nanos())?;
    Some(Timespec {
        tv_sec: (nanos / 1_000_000_000) as i64,
        tv_nsec: (nanos % 1_000_000_000) as i64,
    })
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
        // A user who owns the device but has no privilege may use it, not configure it. Then it is
        // up already, or the first frame fails with the reason.
        Ok(()) | Err(TapError::NoPrivilege { .. } | TapError::NotHere { .. }) => {}
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

/// All addresses of `like`'s version.
fn everywhere(like: IpAddr) -> Cidr {
    let addr = match IpVersion::of(&like) {
        IpVersion::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpVersion::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Cidr { addr, prefix_len: 0 }
}

#[cfg(test)]
mod tests;
