//! The gateway's process: a stack towards the program, the host's sockets beyond, and the engine
//! between them. One thread, one epoll.
//!
//! Called by: `netns.rs`, in a process that has the host's network and nothing else of the host
//! (crate `jail`). `turns.rs` is the loop; `watch.rs` lets tools and a page see it.

mod addresses;
mod near;
mod turns;
mod watch;

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;

use ::gateway::{Around, Config, Gateway, NamesConfig};
use ::link::Shaped;
use anyhow::{Context, Result, anyhow};
use device::capture::Capture;
use host::dns::{ForwarderConfig, Hosts};
use jail::GatewayEnds;
use outside::{Host, Relay};
use policy::rules::Server;
use policy::{Fence, HostAddresses, Rules};
use wirespeed::{
    Awaited, Cidr, Device, Foreign, Instant, KeyedHash, Limit, MacAddr, PortConfig, PortId, Stack,
    StackConfig, device,
};

use self::addresses::Addresses;
use self::near::Near;
use self::watch::Watch;
use super::link::Path;
use super::publish::Published;
use super::rules::Texts;
use super::settings::{Given, Settings};
use crate::clock::since_1970;
use crate::output;

/// The gateway's hardware address. The program's interface has another one, of the kernel's choice.
const MAC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 2]);

/// The name of the addresses that stand for the host.
const HOST_NAME: &str = "host.wirespeed.internal";

/// The port of name servers (RFC 1035 section 4.2).
const NAMES: u16 = 53;

/// The most that a connection's buffers may grow to behind a long link, in each direction.
const LONG_PATH_BYTES: u32 = 16 << 20;

/// The engine over the host's sockets.
type Engine = Gateway<outside::Tcp, outside::Socket>;

/// Be the gateway, until the program has ended.
pub(super) fn run(ends: GatewayEnds) -> ExitCode {
    let GatewayEnds { link, network, settings, descriptors, inside, launcher } = ends;
    let begun = serde_json::from_str(&settings)
        .context("the settings are not understood")
        .and_then(|settings| Machine::begin(Box::new(link), &settings, descriptors, inside));
    let mut machine = match begun {
        Ok(machine) => machine,
        Err(why) => {
            launcher.failed(&format!("the gateway cannot begin: {why:#}"));
            return ExitCode::FAILURE;
        }
    };
    if launcher.ready().is_err() {
        return ExitCode::FAILURE;
    }
    let ended = machine.run(&launcher);
    drop(network);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            output::err(&format!("wirespeed netns: the gateway ended: {why:#}"));
            ExitCode::FAILURE
        }
    }
}

/// A running gateway.
struct Machine {
    began: std::time::Instant,
    stack: Stack,
    /// The link to the program.
    port: PortId,
    engine: Engine,
    host: Host,
    relay: Relay,
    policy: Near<Fence>,
    /// The host's own addresses.
    addresses: Addresses,
    /// Addresses that stand for the host.
    stand_ins: Vec<IpAddr>,
    watch: Watch,
    /// The program, and its published ports by the number of their listener.
    program: Vec<IpAddr>,
    published: Vec<(outside::ListenerId, Published)>,
    /// What the stack's port waits for.
    awaited: Option<Awaited>,
}

impl Machine {
    fn begin(
        link: Box<dyn Device>,
        settings: &Settings,
        descriptors: Vec<OwnedFd>,
        inside: Vec<OwnedFd>,
    ) -> Result<Machine> {
        let began = std::time::Instant::now();
        let mut host = Host::new(outside::descriptors()).context("no epoll can be made")?;
        if let Some((text, at)) = &settings.via {
            host.set_via(text.parse()?, *at);
        }
        let (mut watch, mut published, mut capture) = (Watch::default(), Vec::new(), None);
        let mut datagrams = Vec::new();
        let mut texts = Texts::default();
        for (what, fd) in settings.given.iter().zip(descriptors) {
            match what {
                Given::Published(port) if port.udp => {
                    let socket = host.adopt_udp(fd).context("a port cannot be used")?;
                    datagrams.push((socket, port.to));
                }
                Given::Published(port) => {
                    let id = host.adopt(fd).context("a port cannot be used")?;
                    published.push((id, *port));
                }
                Given::Control(path) => watch.serve_at(fd, path),
                Given::Page { token } => watch.page(fd, token.clone())?,
                Given::Policy => texts = serde_json::from_reader(File::from(fd))?,
                Given::Capture => capture = Some(File::from(fd)),
                Given::Log => watch.log(File::from(fd)),
            }
        }
        let rules = texts.known_rules()?;
        let (mut stack, engine) = engine(settings, &rules)?;
        let device = shaped(link, settings, began)?;
        let device = captured(device, capture, &mut watch)?;
        let config = PortConfig { mac: MAC, addresses: own_addresses(settings), answer_all: true };
        let port = stack.add_port(device, config);
        let mut relay = Relay::new().context("no epoll can be made")?;
        for (fd, to) in inside.into_iter().zip(&settings.to_host) {
            relay.add(fd, *to).context("a port of the host cannot be offered")?;
        }
        let addresses = Addresses::read()?;
        let host_addresses = of_host(&addresses, settings);
        let fence = Fence::new(rules, host_addresses)?;
        let mut machine = Machine {
            began,
            stack,
            port,
            engine,
            host,
            relay,
            policy: Near::new(settings, fence),
            addresses,
            stand_ins: settings.host_addresses.clone(),
            watch,
            program: settings.networks.iter().map(|network| network.program).collect(),
            published,
            awaited: None,
        };
        machine.publish(datagrams);
        Ok(machine)
    }

    /// Sockets of published UDP ports, each with the program's port.
    fn publish(&mut self, sockets: Vec<(outside::Socket, u16)>) {
        for (socket, port) in sockets {
            let to = socket.local().and_then(|own| self.of_program(own.ip(), port));
            let (outside, policy, now) = (&mut self.host, &mut self.policy, clock(self.began));
            let mut around = Around { stack: &mut self.stack, outside, policy, now };
            let published = to.and_then(|to| self.engine.publish_udp(socket, to, &mut around));
            if published.is_none() {
                output::err("wirespeed netns: warning: a UDP port cannot be published");
            }
        }
    }

    /// The program's port for somebody at this address: of the same version, if it has one.
    fn of_program(&self, peer: IpAddr, port: u16) -> Option<SocketAddr> {
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
    let foreign = Foreign { udp: true, echo: true, unclaimed: true };
    let config = StackConfig { foreign, ..StackConfig::new([half(0), half(8)]) };
    let mut stack = Stack::new(config);
    let mut config = Config::default();
    config.networks = settings.networks.iter().map(|n| n.with_prefix(n.program)).collect();
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
    Ok(NamesConfig { forwarder: ForwarderConfig::new(servers), hosts, secret })
}

/// The addresses of the gateway and of the resolver.
fn own_addresses(settings: &Settings) -> Vec<Cidr> {
    let of = |network: &super::addresses::Network| {
        [network.gateway, network.names].map(|addr| network.with_prefix(addr))
    };
    settings.networks.iter().flat_map(of).collect()
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
    let Path { settings, seed } = super::link::parse(text).map_err(|why| anyhow!("{why}"))?;
    let (shaped, _) = Shaped::new(link, settings, seed, Arc::new(move || clock(began)));
    Ok(Box::new(shaped))
}

fn captured(
    device: Box<dyn Device>,
    file: Option<File>,
    watch: &mut Watch,
) -> Result<Box<dyn Device>> {
    let Some(file) = file else { return Ok(device) };
    let (capture, status) = Capture::new(device, file, since_1970)?;
    watch.capture(status);
    Ok(Box::new(capture))
}
