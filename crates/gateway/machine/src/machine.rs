//! A running gateway: a stack towards the guests, the host's sockets beyond, and the engine between
//! them. One thread, one epoll. A guest is a program or a virtual machine.
//!
//! Called by: `running.rs`, in a thread; tools, in a process of its own. `turns.rs` is the loop;
//! `watch.rs` lets tools and a page see it.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use ::link::SwitchNews;
use anyhow::{Context, Result};
use base::{Cidr, Instant, KeyedHash};
use device::Device;
use outside::{Egress, Host, Relay};
use policy::rules::Server;
use policy::{Fence, HostAddresses};
use stack::{Awaited, PortId, Stack};

use super::addresses::Addresses;
use super::asking::Asking;
use super::default_routes::DefaultRoutes;
use super::egress;
use super::ends::End;
use super::engine::{Engine, engine};
use super::guests::Guests;
use super::links::{Linked, linked};
use super::listening::Listening;
use super::messages::Messages;
use super::near::Near;
use super::orders::Orders;
use super::ports::Ports;
use super::publish::Publish;
use super::routers::Routers;
use super::servers::Servers;
use super::settings::{EndsWith, Settings};
use super::taken::Taken;
use super::values::Usage;
use super::watch::{Lines, Watch};

mod obeying;
mod publishing;
mod turns;

pub use self::turns::Owner;

/// A running gateway.
pub struct Machine {
    messages: Messages,
    /// The switch of several machines, until it has had news.
    switch: Option<SwitchNews>,
    ends_with: EndsWith,
    /// A link was up.
    was_up: bool,
    began: std::time::Instant,
    stack: Stack,
    /// The links to the guests.
    ports_of_stack: Vec<PortId>,
    /// The networks of the guests.
    networks: Vec<Cidr>,
    engine: Engine,
    host: Egress,
    relay: Relay,
    /// Servers of guests that configure themselves.
    guests: Option<Guests>,
    routers: Routers,
    /// The host's default routes of IPv6, if routers follow them.
    default_routes: Option<DefaultRoutes>,
    policy: Near<Fence>,
    /// The host's own addresses.
    addresses: Addresses,
    /// Addresses that stand for the host.
    stand_ins: Vec<IpAddr>,
    watch: Watch,
    asking: Option<Asking>,
    servers: Option<Servers>,
    orders: Option<Orders>,
    /// What ends it besides its owner.
    ends: Vec<End>,
    listening: Listening,
    /// The program.
    program: Vec<IpAddr>,
    ports: Ports,
    /// The listeners of a proxy.
    proxies: Vec<outside::ListenerId>,
    /// The owner may have ended.
    owner_calls: bool,
    /// What each port of the stack waits for.
    awaited: Vec<(PortId, Awaited)>,
}

/// What is open for a gateway.
#[derive(Default)]
pub struct Opened {
    /// The link to the program, if there is one.
    pub link: Option<Box<dyn Device>>,
    /// What [`Settings::given`] says.
    pub descriptors: Vec<OwnedFd>,
    /// The sockets in a program's network that lead to [`Settings::to_host`].
    pub inside: Vec<OwnedFd>,
    /// Open tables of the sockets in that network, for [`Settings::auto`].
    pub tables: Vec<OwnedFd>,
    /// Takes the lines of the log.
    pub lines: Option<Lines>,
}

impl Machine {
    /// Make the stack and the engine, and use what is given.
    ///
    /// # Errors
    /// The rules do not fit, or the system refuses something.
    pub fn begin(settings: &Settings, opened: Opened, messages: Messages) -> Result<Machine> {
        let Opened { link, descriptors, inside, tables, lines } = opened;
        let began = std::time::Instant::now();
        let mut host = host(settings)?;
        let taken = Taken::of(settings, descriptors, &messages)?;
        let Taken { machines, mut watch, texts, asking, servers, capture, .. } = taken;
        let Taken { published, proxies, orders, ends, .. } = taken;
        let proxies = proxies.into_iter().map(|fd| host.adopt(fd)).collect::<Result<Vec<_>, _>>();
        let rules = texts.known_rules()?;
        if let Some(lines) = lines {
            watch.set_lines(lines);
        }
        // Rules may name other servers.
        let follows = rules.dns.servers == [Server::Host] && !settings.asks_through;
        let (mut stack, engine) = engine(settings, &rules)?;
        let links = link.into_iter().chain(machines).collect();
        let Linked { ports: ports_of_stack, networks, switch } =
            linked(&mut stack, settings, links, (capture.as_ref(), &mut watch), began)?;
        let secret = secret()?;
        let learn = settings.learn;
        let guests = settings.configures.then(|| Guests::new(&mut stack, &networks, learn));
        let default_routes = (!learn.routes_v6).then(DefaultRoutes::read).transpose()?;
        let is_routed = default_routes.as_ref().is_none_or(DefaultRoutes::is_there);
        let mut routers = Routers::new(&networks, (learn, is_routed), secret, clock(began))?;
        // The program has its route when it begins.
        routers.turn(&mut stack, clock(began));
        stack.flush();
        let relay = relay(inside, settings)?;
        let addresses = Addresses::read()?;
        let host_addresses = of_host(&addresses, settings);
        let host = egress::open(host, settings, &rules, Box::new(move || clock(began)))?;
        let mut fence = Fence::new(rules, host_addresses)?;
        fence.set_logged(watch.reads_lines());
        let mut machine = Machine {
            messages,
            switch,
            ends_with: settings.ends_with,
            was_up: false,
            began,
            stack,
            ports_of_stack,
            networks: settings.networks.iter().map(|n| n.with_prefix(n.program)).collect(),
            engine,
            host,
            relay,
            guests: guests.transpose()?,
            routers,
            default_routes,
            policy: Near::new(settings, fence),
            addresses,
            stand_ins: settings.host_addresses.clone(),
            watch,
            asking,
            servers: servers.filter(|_| follows),
            orders,
            ends,
            listening: Listening::new(tables, settings.auto),
            program: known_guests(settings),
            ports: Ports::default(),
            proxies: proxies.context("the proxy cannot listen")?,
            owner_calls: true,
            awaited: Vec::new(),
        };
        if !published.is_empty() {
            machine.add_ports(published)?;
        }
        for publish in &settings.publish {
            machine.open_ports(&publish.parse::<Publish>().map_err(Usage)?)?;
        }
        Ok(machine)
    }

    /// A guest's port for somebody at this address: of the same version, if there is one.
    fn of_guest(&self, peer: IpAddr, port: u16) -> Option<SocketAddr> {
        let is_v4 = peer.to_canonical().is_ipv4();
        let same = self.program.iter().find(|ip| ip.is_ipv4() == is_v4);
        same.or(self.program.first()).map(|ip| SocketAddr::new(*ip, port))
    }

    fn now(&self) -> Instant {
        clock(self.began)
    }
}

/// The host's sockets, with the proxy of `--via`.
fn host(settings: &Settings) -> Result<Host> {
    let mut host = Host::new(outside::descriptors()).context("no epoll can be made")?;
    if let Some((text, at)) = &settings.via {
        host.set_via(text.parse()?, *at);
    }
    Ok(host)
}

/// The relay of the sockets in a program's network.
fn relay(inside: Vec<OwnedFd>, settings: &Settings) -> Result<Relay> {
    let mut relay = Relay::new().context("no epoll can be made")?;
    for (fd, to) in inside.into_iter().zip(&settings.to_host) {
        relay.add(fd, *to).context("a port of the host cannot be offered")?;
    }
    Ok(relay)
}

pub(super) fn clock(began: std::time::Instant) -> Instant {
    Instant::ZERO + began.elapsed().into()
}

/// The time of day since 1970, UTC.
pub(super) fn since_1970() -> std::time::Duration {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default()
}

/// The addresses that are known for the program, or for the first guest of each link: a guest that
/// configures itself chooses its address of IPv6.
fn known_guests(settings: &Settings) -> Vec<IpAddr> {
    let all = settings.networks.iter().map(|network| network.program);
    all.filter(|guest| !settings.configures || guest.is_ipv4()).collect()
}

/// For random delays.
fn secret() -> Result<KeyedHash> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).context("the system gives no random seed")?;
    let (low, high) = (u128::from_le_bytes(seed) as u64, (u128::from_le_bytes(seed) >> 64) as u64);
    Ok(KeyedHash::new(low, high))
}

/// The addresses that rules call `host`.
fn of_host(addresses: &Addresses, settings: &Settings) -> HostAddresses {
    let own = addresses.known().to_vec();
    HostAddresses { own, stand_ins: settings.host_addresses.clone() }
}
