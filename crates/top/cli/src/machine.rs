//! A running gateway: a stack towards the guests, the host's sockets beyond, and the engine between
//! them. One thread, one epoll. A guest is a program or a virtual machine.
//!
//! Called by: the tools with a gateway. `options.rs` has the options that they share, `open.rs`
//! opens what those name; `turns.rs` is the loop; `watch.rs` lets tools and a page see it.

mod addresses;
mod asking;
mod beyond;
pub(crate) mod child;
pub(crate) mod connection;
mod default_routes;
mod egress;
pub(crate) mod ends;
mod guests;
pub(crate) mod learning;
mod lines;
mod link;
mod listening;
mod log;
mod near;
pub(crate) mod networks;
mod obeying;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod orders;
mod ports;
pub(crate) mod publish;
mod publishing;
mod routers;
mod rules;
pub(crate) mod serve;
mod servers;
mod settings;
mod turns;
mod wakes;
mod watch;

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ::gateway::{Config, Credentials, Gateway, NamesConfig};
use ::link::{Shaped, Switch, SwitchNews};
use anyhow::{Context, Result, anyhow};
use device::capture::Capture;
use host::dns::{ForwarderConfig, Hosts};
use outside::{Egress, Host, Relay};
use policy::rules::Server;
use policy::{Fence, HostAddresses, Rules};
use wirespeed::{
    Awaited, Cidr, Device, Foreign, Instant, KeyedHash, Limit, PortConfig, PortId, Stack,
    StackConfig, device,
};

use self::addresses::Addresses;
use self::asking::Asking;
use self::default_routes::DefaultRoutes;
use self::ends::End;
use self::guests::Guests;
use self::link::Path;
use self::listening::Listening;
use self::near::{HOST_NAME, Near};
use self::networks::{LINK_LOCAL, MAC, Network};
use self::orders::Orders;
use self::ports::Ports;
use self::publish::{Publish, Published};
use self::routers::Routers;
pub(crate) use self::rules::Texts;
use self::servers::Servers;
pub(crate) use self::settings::Given as What;
pub(crate) use self::settings::{
    AnswerLine, Auto, Dialect, EndsWith, Learn, QuestionLine, Settings, Tool, asking_name,
};
use self::watch::Watch;
use crate::clock::since_1970;

/// The port of name servers (RFC 1035 section 4.2).
const NAMES: u16 = 53;

/// The most that a connection's buffers may grow to behind a long link, in each direction.
const LONG_PATH_BYTES: u32 = 16 << 20;

/// The engine over the host's sockets.
type Engine = outside::HostGateway;

/// A running gateway.
pub(crate) struct Machine {
    /// The tool's name.
    command: &'static str,
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

/// What a gateway uses.
struct Given {
    /// The link to the program, if there is one.
    link: Option<Box<dyn Device>>,
    /// What [`Settings::given`] says.
    descriptors: Vec<OwnedFd>,
    /// The sockets in a program's network that lead to [`Settings::to_host`].
    inside: Vec<OwnedFd>,
    /// Open tables of the sockets in that network, for [`Settings::auto`].
    tables: Vec<OwnedFd>,
}

/// What the descriptors of a gateway are for, each in its place.
struct Taken {
    /// The links to virtual machines.
    machines: Vec<Box<dyn Device>>,
    watch: Watch,
    texts: Texts,
    asking: Option<Asking>,
    servers: Option<Servers>,
    capture: Option<File>,
    published: Vec<(Published, OwnedFd)>,
    proxies: Vec<OwnedFd>,
    orders: Option<Orders>,
    ends: Vec<End>,
}

impl Taken {
    fn of(settings: &Settings, descriptors: Vec<OwnedFd>) -> Result<Taken> {
        let mut taken = Taken {
            machines: Vec::new(),
            watch: Watch::new(settings.tool.name()),
            texts: Texts::default(),
            asking: None,
            servers: None,
            capture: None,
            published: Vec::new(),
            proxies: Vec::new(),
            orders: None,
            ends: Vec::new(),
        };
        for (what, fd) in settings.given.iter().zip(descriptors) {
            match what {
                What::Published(port) => taken.published.push((port.clone(), fd)),
                What::Machine(connection) => {
                    taken.machines.push(connection.device(fd, settings.mtu())?);
                }
                What::Proxy => taken.proxies.push(fd),
                What::Control(path) => taken.watch.serve_at(fd, path),
                What::Page { token } => taken.watch.page(fd, token.clone())?,
                What::Policy => taken.texts = serde_json::from_reader(File::from(fd))?,
                What::Capture => taken.capture = Some(File::from(fd)),
                What::Log => taken.watch.log(File::from(fd)),
                What::OlderLog => taken.watch.older_log(File::from(fd)),
                What::Learn => taken.watch.learn(File::from(fd)),
                What::Servers => taken.servers = Some(Servers::new(fd)),
                What::Asking => taken.asking = Some(Asking::new(fd)?),
                What::Orders(dialect) => taken.orders = Some(Orders::new(fd, *dialect)?),
                What::End(when) => taken.ends.push(End::new(fd, when.clone())),
            }
        }
        Ok(taken)
    }
}

/// The relay of the sockets in a program's network.
fn relay(inside: Vec<OwnedFd>, settings: &Settings) -> Result<Relay> {
    let mut relay = Relay::new().context("no epoll can be made")?;
    for (fd, to) in inside.into_iter().zip(&settings.to_host) {
        relay.add(fd, *to).context("a port of the host cannot be offered")?;
    }
    Ok(relay)
}

impl Machine {
    /// Make the stack and the engine, and use what is given.
    ///
    /// # Errors
    /// The rules do not fit, or the system refuses something.
    fn begin(settings: &Settings, given: Given) -> Result<Machine> {
        let Given { link, descriptors, inside, tables } = given;
        let began = std::time::Instant::now();
        let mut host = Host::new(outside::descriptors()).context("no epoll can be made")?;
        if let Some((text, at)) = &settings.via {
            host.set_via(text.parse()?, *at);
        }
        let taken = Taken::of(settings, descriptors)?;
        let Taken { machines, mut watch, texts, asking, servers, capture, .. } = taken;
        let Taken { published, proxies, orders, ends, .. } = taken;
        let proxies = proxies.into_iter().map(|fd| host.adopt(fd)).collect::<Result<Vec<_>, _>>();
        let rules = texts.known_rules()?;
        // Rules may name other servers.
        let follows = rules.dns.servers == [Server::Host] && !settings.asks_through;
        let (mut stack, mut engine) = engine(settings, &rules)?;
        let credentials = settings.credentials.clone();
        engine.set_credentials(credentials.map(|(user, password)| Credentials { user, password }));
        let (mut ports_of_stack, mut networks) = (Vec::new(), Vec::new());
        let links = link.into_iter().chain(machines).map(|link| shaped(link, settings, began));
        let links = links.collect::<Result<Vec<_>>>()?;
        let (links, switch) = switched(settings, links, began)?;
        for (number, device) in links.into_iter().enumerate() {
            let device = captured(device, capture.as_ref(), &mut watch)?;
            let own = settings.networks.iter().filter(|network| network.link == number);
            let own: Vec<Network> = own.copied().collect();
            let addresses = own_addresses(&own);
            let config = PortConfig { mac: MAC, addresses, answer_all: !settings.is_switched };
            let port = stack.add_port(device, config);
            ports_of_stack.push(port);
            networks.push((port, own));
        }
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
            command: settings.tool.name(),
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
            machine.open_ports(&publish.parse::<Publish>().map_err(crate::Usage)?)?;
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

fn clock(began: std::time::Instant) -> Instant {
    Instant::ZERO + began.elapsed().into()
}

/// The stack, and the engine that takes all of its connections.
fn engine(settings: &Settings, rules: &Rules) -> Result<(Stack, Engine)> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system gives no random seed")?;
    let half = |at| u64::from_le_bytes(core::array::from_fn(|i| seed[at + i]));
    let foreign =
        Foreign { udp: true, echo: true, unclaimed: true, newcomers: settings.configures };
    let config = StackConfig { foreign, ..StackConfig::new([half(0), half(8)]) };
    let mut stack = Stack::new(config);
    let mut config = Config { networks: settings.near(), ..Config::default() };
    for &(limit, value) in &rules.limits {
        config.budget.set(limit, value);
    }
    if settings.has_names {
        let secret = KeyedHash::new(half(16), half(24));
        config.names = Some(names(settings, rules, secret)?);
    }
    if settings.link.is_some() {
        config.tcp.receive_buffer_max_bytes = LONG_PATH_BYTES;
        config.tcp.send_buffer_max_bytes = LONG_PATH_BYTES;
    }
    let flows = config.budget.of(Limit::GatewayFlows).min(outside::descriptors());
    config.budget.set(Limit::GatewayFlows, flows);
    let engine = Gateway::new(&mut stack, config)
        .map_err(|why| anyhow!("the gateway cannot listen in its own stack: {why}"))?;
    Ok((stack, engine))
}

/// The resolver: the servers that the rules name, and the names of the host's table.
fn names(settings: &Settings, rules: &Rules, secret: KeyedHash) -> Result<NamesConfig> {
    let of = |server: &Server| match server {
        Server::Host => settings.servers.clone(),
        Server::Address(ip) => vec![SocketAddr::new(*ip, NAMES)],
    };
    let servers = rules.dns.servers.iter().flat_map(of).collect();
    let (mut hosts, _) = Hosts::from_text(&settings.hosts);
    for &address in &settings.host_addresses {
        hosts.add(HOST_NAME, address)?;
    }
    // A proxy carries no datagrams.
    let tcp_only = settings.via.is_some() && egress::asks_through(settings, rules);
    let forwarder = ForwarderConfig { tcp_only, ..ForwarderConfig::new(servers) };
    Ok(NamesConfig { forwarder, hosts, secret })
}

/// The addresses that are known for the program, or for the first guest of each link: a guest that
/// configures itself chooses its address of IPv6.
fn known_guests(settings: &Settings) -> Vec<IpAddr> {
    let all = settings.networks.iter().map(|network| network.program);
    all.filter(|guest| !settings.configures || guest.is_ipv4()).collect()
}

/// The addresses of the gateway and of the resolver on a link, and the one of a router that
/// advertises itself.
fn own_addresses(networks: &[Network]) -> Vec<Cidr> {
    let of =
        |network: &Network| [network.gateway, network.names].map(|addr| network.with_prefix(addr));
    let has_v6 = networks.iter().any(|network| network.gateway.is_ipv6());
    let router = Cidr { addr: LINK_LOCAL.into(), prefix_len: 64 };
    networks.iter().flat_map(of).chain(has_v6.then_some(router)).collect()
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

fn shaped(
    link: Box<dyn Device>,
    settings: &Settings,
    began: std::time::Instant,
) -> Result<Box<dyn Device>> {
    let Some(text) = &settings.link else { return Ok(link) };
    let Path { settings, seed } = link::parse(text).map_err(|why| anyhow!("{why}"))?;
    let (shaped, _) = Shaped::new(link, settings, seed, Arc::new(move || clock(began)));
    Ok(Box::new(shaped))
}

/// With `--switch`: all machines at one switch, which is the stack's link, and its news.
fn switched(
    settings: &Settings,
    links: Vec<Box<dyn Device>>,
    began: std::time::Instant,
) -> Result<(Vec<Box<dyn Device>>, Option<SwitchNews>)> {
    if !settings.is_switched {
        return Ok((links, None));
    }
    let clock = Arc::new(move || clock(began));
    let switch = Switch::new(links, MAC, clock).context("no epoll can be made")?;
    let news = switch.news();
    Ok((vec![Box::new(switch)], Some(news)))
}

fn captured(
    device: Box<dyn Device>,
    file: Option<&File>,
    watch: &mut Watch,
) -> Result<Box<dyn Device>> {
    let Some(file) = file else { return Ok(device) };
    let file = file.try_clone().context("no descriptor is left")?;
    let (capture, status) = Capture::new(device, file, since_1970).map_err(|why| {
        anyhow!("--capture: the file cannot be written ({}): make room, or name another", why.cause)
    })?;
    watch.capture(status);
    Ok(Box::new(capture))
}
