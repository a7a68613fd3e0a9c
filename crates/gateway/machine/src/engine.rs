//! The stack of a gateway, the engine that takes all of its connections, and its resolver.
//!
//! Called by: `machine.rs`, once.

use ::gateway::{Config, Credentials, Gateway, NamesConfig};
use anyhow::{Context, Result, anyhow};
use base::{KeyedHash, Limit};
use host::dns::{ForwarderConfig, Hosts};
use policy::Rules;
use policy::rules::Server;
use stack::{Foreign, Stack, StackConfig};

use super::egress;
use super::near::HOST_NAME;
use super::servers::name_server;
use super::settings::Settings;

/// The most that a connection's buffers may grow to behind a long link, in each direction.
const LONG_PATH_BYTES: u32 = 16 << 20;

/// The engine over the host's sockets.
pub(super) type Engine = outside::HostGateway;

/// The stack, and the engine that takes all of its connections.
pub(super) fn engine(settings: &Settings, rules: &Rules) -> Result<(Stack, Engine)> {
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
    let mut engine = Gateway::new(&mut stack, config)
        .map_err(|why| anyhow!("the gateway cannot listen in its own stack: {why}"))?;
    let credentials = settings.credentials.clone();
    engine.set_credentials(credentials.map(|(user, password)| Credentials { user, password }));
    Ok((stack, engine))
}

/// The resolver: the servers that the rules name, and the names of the host's table.
fn names(settings: &Settings, rules: &Rules, secret: KeyedHash) -> Result<NamesConfig> {
    let of = |server: &Server| match server {
        Server::Host => settings.servers.clone(),
        Server::Address(ip) => vec![name_server(*ip)],
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
