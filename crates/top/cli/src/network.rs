//! A stack on a device of this machine: the one way from a tool to a network. It is made as the
//! options `--dev KIND:NAME`, `--addr A/B` and `--via GATEWAY` say (`args`), on a device that
//! `device` opens; `leases` keeps addresses of servers; `wirespeed show` and the other tools see
//! it.
//!
//! Called by: `ping`, `services`, `ttcp` to and from hosts, which take turns ([`Network::turn`],
//! [`Network::rest`]); `telnet` and `telnetd` by `sockets`; `nfs` and `nfsd`, whose tasks share it
//! (`tasks`); `wire` opens devices. The user configures the kernel's end of the device
//! (`ip addr add ... dev NAME`).

mod args;
mod auto;
mod device;
mod dhcp;
mod dhcp6;
mod leases;
mod obtained;
mod tasks;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::BorrowedFd;
use std::task::Waker;

use anyhow::{Context, Result, anyhow, bail};
use args::{Addr, NeighbourMtu};
pub(crate) use args::{Args, HEADING, with_link};
pub(crate) use device::{Dev, How, open};
use leases::Leases;
use observe::Service;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
pub(crate) use tasks::Tasks;
use wirespeed::{
    Address, Armed, Awaited, Cidr, Device, Duration, Instant, IpVersion, MacAddr, MtuDiscovery,
    Origin, PortConfig, PortId, Route, Stack, StackConfig, Switches,
};

use crate::Usage;
use crate::clock::{Clock, Interrupt};
use crate::units::WriteUnit;

/// Polling interval of a device that cannot wake us.
const LOOK: Duration = Duration::from_millis(1);
/// How often clients of the control socket are looked at while the loop does not sleep.
const TICK: Duration = Duration::from_millis(50);

/// A stack on a device of this machine. Dropping it gives leased addresses back to their servers,
/// and waits until clients that watch have the last packets.
pub(crate) struct Network {
    pub(crate) stack: Stack,
    pub(crate) port: PortId,
    pub(crate) clock: Clock,
    /// Shows the stack to `wirespeed show`, `top`, `dump`, `explain` and `ip`.
    pub(crate) seen: Service,
    name: &'static str,
    leases: Leases,
    /// When the clients of the control socket are looked at again.
    next_look: Instant,
    has_worked: bool,
}

/// Settings that a command may choose.
pub(crate) struct Settings {
    /// Leave checksums and the cutting of super-segments to the device.
    pub(crate) offload: bool,
    /// Send bursts with one system call, where the kernel has io_uring.
    pub(crate) io_uring: bool,
    pub(crate) switches: Switches,
    /// The unit of long writes; `None` for that of this machine.
    pub(crate) write_unit_bytes: Option<usize>,
}

impl Default for Settings {
    fn default() -> Settings {
        let (switches, write_unit_bytes) = (Switches::default(), None);
        Settings { offload: true, io_uring: true, switches, write_unit_bytes }
    }
}

impl Network {
    /// Open the device, bring it up, make a stack on it, which tools see by `name`, and obtain
    /// addresses. `None` after Ctrl-C.
    ///
    /// # Errors
    /// [`Usage`] for options that do not fit together; otherwise the device's error, or no server's
    /// answer, with what to do.
    pub(crate) fn open(
        args: &Args,
        name: &'static str,
        interrupt: &Interrupt,
    ) -> Result<Option<Network>> {
        Network::open_with(args, name, &Settings::default(), interrupt, Ok)
    }

    /// The same with settings, and with the wrappers that `wrap` puts around the device.
    ///
    /// # Errors
    /// As [`Network::open`], and the errors of `wrap`.
    pub(crate) fn open_with(
        args: &Args,
        name: &'static str,
        settings: &Settings,
        interrupt: &Interrupt,
        wrap: impl FnOnce(Box<dyn Device>) -> Result<Box<dyn Device>>,
    ) -> Result<Option<Network>> {
        let dev = args.check()?;
        let mut seed = [0; 16];
        getrandom::fill(&mut seed).context("the system gives no random seed")?;
        let half = |at| u64::from_le_bytes(core::array::from_fn(|i| seed[at + i]));
        let unit = settings.write_unit_bytes;
        let mut stack = Stack::new(StackConfig {
            switches: settings.switches,
            write_unit_bytes: unit.unwrap_or_else(|| WriteUnit::of_this_machine().bytes),
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
        let port = stack.add_port(
            device,
            PortConfig { mac, addresses: args.fixed().collect(), ..PortConfig::default() },
        );
        stack.set_port_name(port, &dev.name);
        if !args.is_auto() {
            // It fails only at the limit of addresses, and a command line has fewer.
            let _ = stack.follow_link_local(port);
        }
        if let Some(mitigation) = args.mitigation {
            stack.set_mitigation(port, mitigation).map_err(|why| Usage(why.to_string()))?;
        }
        for &NeighbourMtu { ip, mtu } in &args.neigh_mtu {
            let set = stack.set_neighbour_mtu(port, ip, Some(mtu));
            set.map_err(|why| Usage(format!("--neigh-mtu {ip}: {why}")))?;
        }
        for gateway in args.via.iter().map(|via| via.ip) {
            if args.is_lonely(gateway) {
                let prefix_len = if gateway.is_ipv4() { 32 } else { 128 };
                stack.add_route(Route::new(Cidr { addr: gateway, prefix_len }, None, port.0));
            }
            stack.add_route(Route::new(everywhere(gateway), Some(gateway), port.0));
        }
        let mut network = Network {
            stack,
            port,
            clock,
            // Last: an error of the command line must not leave a control socket behind.
            seen: Service::open(name).allow_changes(),
            name,
            leases: Leases::default(),
            next_look: Instant::ZERO,
            has_worked: false,
        };
        let is_done = network.obtain(args, mac, interrupt)?;
        Ok(is_done.then_some(network))
    }

    /// Obtain addresses from DHCP servers and routers, of both versions at the same time; `false`
    /// after Ctrl-C.
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

    /// Our addresses on the device that can be used now, without a link-local one that goes with
    /// an address of the user's.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let is_auto = self.stack.autoconf(self.port).is_some();
        let is_shown = |a: &&Address| a.is_usable() && (is_auto || a.origin != Origin::LinkLocal);
        self.stack.addresses(self.port).iter().filter(is_shown).map(Address::ip).collect()
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

    /// Receive and send what is pending, keep the addresses; returns the amount of work. The
    /// caller takes the stack's events.
    pub(crate) fn turn(&mut self) -> usize {
        let now = self.clock.now();
        let worked = self.stack.poll(now);
        self.leases.turn(&mut self.stack, now);
        self.has_worked = worked > 0;
        worked
    }

    /// The end of a turn: answer those who look at the stack, and sleep until a frame comes, the
    /// stack has something due, `until` comes, or one of `others` is ready. It does not sleep if
    /// the turn before did any work, because there may be more.
    ///
    /// # Errors
    /// The device is gone: its error, with what to do.
    pub(crate) fn rest<'fd>(
        &mut self,
        until: Instant,
        others: impl IntoIterator<Item = (BorrowedFd<'fd>, PollFlags)>,
    ) -> Result<()> {
        let now = self.clock.now();
        if now >= self.next_look {
            // Data that was written may wait for the end of the turn: send it, so that clients see
            // it as sent.
            self.stack.flush();
            self.seen.poll(now, &mut [(self.name, &mut self.stack)]);
            self.next_look = now + self.seen.look_within(TICK);
        }
        if self.has_worked || self.stack.has_input() || until <= now {
            return Ok(());
        }
        // Frames, clients and Ctrl-C end the sleep: no periodic timer is needed.
        let due = self.seen.next_deadline();
        if self.sleep(due.min(until), others)? || self.clock.now() >= due {
            self.next_look = Instant::ZERO;
        }
        Ok(())
    }

    /// The name servers that DHCP servers and routers told us of: the first of each, then the
    /// second of each, so that some of all sources are asked (RFC 8106 section 5.3.1).
    pub(crate) fn dns_servers(&self, port: u16) -> Vec<SocketAddr> {
        let [leased, leased6] = self.leases.dns_servers();
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
        self.leases.dns_search().chain(self.stack.dns_search(self.port)).collect()
    }

    /// Sleep until a frame comes, the device has room again after it pushed back, the stack has
    /// something due, `until` comes, a client of the control socket asks, or one of `others` is
    /// ready; `true` if it may have been a client.
    fn sleep<'fd>(
        &mut self,
        until: Instant,
        others: impl IntoIterator<Item = (BorrowedFd<'fd>, PollFlags)>,
    ) -> Result<bool> {
        self.stack.flush();
        let now = self.clock.now();
        let until = until.min(self.leases.deadline());
        let (gathers, look_at) = match self.stack.arm(Waker::noop()) {
            Armed::Ready => return Ok(false),
            Armed::Until(at) => (!self.awaits_frames(), at),
            Armed::All | Armed::Descriptors => (false, Instant::NEVER),
            Armed::NotAll => (false, now + LOOK),
        };
        let due = self.stack.next_deadline().min(until).min(look_at);
        let mut asked: Vec<PollFd<'_>> = Vec::new();
        asked
            .extend(self.seen.descriptors().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        asked.extend(others.into_iter().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
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

    /// Is there a descriptor at which frames are awaited, although a time to poll is known too?
    fn awaits_frames(&self) -> bool {
        self.stack.descriptors().any(|(_, _, awaited)| awaited != Awaited::Nothing)
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

impl Drop for Network {
    fn drop(&mut self) {
        let began = self.clock.now();
        let mut release = core::mem::take(&mut self.leases).release(&mut self.stack, began);
        while !release.is_done(&mut self.stack, self.clock.now()) {
            if self.sleep(release.deadline(), []).is_err() {
                break;
            }
            self.turn();
        }
        release.close(&mut self.stack, self.clock.now());
        let clock = self.clock;
        self.seen.finish(|| clock.now(), &mut [(self.name, &mut self.stack)]);
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

/// Path MTU discovery, in the words of iputils' ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Hint {
    /// In fragments
    Want,
    /// Refuse what is larger than the path is known to carry
    Do,
    /// Refuse what is larger than the link
    Probe,
}

impl Hint {
    pub(crate) fn discovery(self) -> MtuDiscovery {
        match self {
            Hint::Want => MtuDiscovery::Want,
            Hint::Do => MtuDiscovery::Do,
            Hint::Probe => MtuDiscovery::Probe,
        }
    }
}
