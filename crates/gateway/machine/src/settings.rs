//! What a gateway has to know, as text; files and sockets come beside it, in the order
//! of [`Settings::given`].
//!
//! Called by: `config.rs` and tools make it, `machine.rs` uses it, perhaps in another process of
//! the program.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use base::{Cidr, Mtu};
use serde::{Deserialize, Serialize};

use super::connection::Connection;
use super::ends::When;
use super::networks::Network;
use super::publish::Published;
use super::values::Dns;

/// The tool that a gateway belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tool {
    /// `wirespeed netns`: a program.
    Netns,
    /// `wirespeed gateway`, or a program of somebody: virtual machines.
    Gateway,
    /// A drop-in.
    Passt,
    /// A drop-in.
    Pasta,
    /// A drop-in.
    Slirp4netns,
    /// `wirespeed proxy`.
    Proxy,
}

impl Tool {
    /// Its name in `wirespeed show` and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Netns => "netns",
            Tool::Gateway => "gateway",
            Tool::Passt => "passt",
            Tool::Pasta => "pasta",
            Tool::Slirp4netns => "slirp4netns",
            Tool::Proxy => "proxy",
        }
    }
}

/// What the state of its links means for a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndsWith {
    /// Nothing: guests come and go.
    #[default]
    Nothing,
    /// It ends when all links are down.
    Links,
    /// The same, once one was up.
    UsedLinks,
}

/// The settings of a gateway.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The tool that it belongs to.
    pub tool: Tool,
    /// What ends it.
    pub ends_with: EndsWith,
    /// All machines are on one link.
    pub is_switched: bool,
    /// The private networks, one of each version at most for each link.
    pub networks: Vec<Network>,
    /// Other addresses of these networks are hosts beyond the gateway, too.
    pub is_shared: bool,
    /// Addresses that stand for the host's own address towards others.
    pub own_address: Vec<IpAddr>,
    /// Published ports that the gateway opens itself, as `-p` has them.
    pub publish: Vec<String>,
    /// The text of `--link`.
    pub link: Option<String>,
    /// The text of `--via`, and where that proxy is.
    pub via: Option<(String, SocketAddr)>,
    /// The tunnel of `--via wg:FILE`.
    pub tunnel: Option<TunnelText>,
    /// Do questions for names go by the way of `--via`?
    pub asks_through: bool,
    /// Addresses that stand for the host.
    pub host_addresses: Vec<IpAddr>,
    /// Is there a resolver?
    pub has_names: bool,
    /// The host's name servers, or those that the user named.
    pub servers: Vec<SocketAddr>,
    /// The host's /etc/hosts.
    pub hosts: String,
    /// The ports of the host's loopback address that the sockets in the program's network lead to.
    pub to_host: Vec<SocketAddr>,
    /// Publish what listens in the program's network.
    pub auto: Auto,
    /// The name and the password that clients of a proxy need.
    pub credentials: Option<(String, String)>,
    /// What guests learn.
    pub learn: Learn,
    /// Guests configure themselves by that; if not, they take their default route of IPv6 alone.
    pub configures: bool,
    /// What each descriptor is.
    pub given: Vec<Given>,
}

impl Settings {
    /// The settings of a gateway of these networks, whose guests find the host at its address.
    pub fn new(tool: Tool, networks: Vec<Network>, dns: &Dns, learn: Learn) -> Settings {
        let has_names = *dns != Dns::Off;
        Settings {
            tool,
            ends_with: EndsWith::default(),
            is_switched: false,
            auto: Auto::default(),
            link: None,
            via: None,
            tunnel: None,
            asks_through: false,
            host_addresses: networks.iter().map(|network| network.gateway).collect(),
            networks,
            is_shared: false,
            own_address: Vec::new(),
            publish: Vec::new(),
            has_names,
            servers: dns.servers(),
            hosts: fs::read_to_string("/etc/hosts").unwrap_or_default(),
            to_host: Vec::new(),
            credentials: None,
            learn: Learn { has_names, ..learn },
            configures: false,
            given: Vec::new(),
        }
    }

    /// The MTU of the links to guests that configure themselves.
    pub(super) fn mtu(&self) -> Mtu {
        let mtu = Mtu::new(usize::from(self.learn.mtu));
        mtu.unwrap_or(Mtu::ETHERNET)
    }

    /// The addresses that lead nowhere beyond the gateway.
    pub(super) fn near(&self) -> Vec<Cidr> {
        let of = |network: &Network| match self.is_shared {
            false => vec![network.with_prefix(network.program)],
            true => [network.program, network.gateway, network.names].map(alone).to_vec(),
        };
        self.networks.iter().flat_map(of).collect()
    }
}

/// The network of one address.
fn alone(addr: IpAddr) -> Cidr {
    Cidr { addr, prefix_len: if addr.is_ipv4() { 32 } else { 128 } }
}

/// The protocols whose ports are published as soon as something listens inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Auto {
    /// Those of TCP.
    pub tcp: bool,
    /// Those of UDP.
    pub udp: bool,
}

impl Auto {
    /// Is there one?
    pub fn is_some(self) -> bool {
        self.tcp || self.udp
    }
}

/// A tunnel's file, which a gateway without files cannot read, and where its peers are.
#[derive(Clone, Serialize, Deserialize)]
pub struct TunnelText {
    /// Its text.
    pub text: String,
    /// Where each peer is.
    pub endpoints: Vec<Option<SocketAddr>>,
}

impl core::fmt::Debug for TunnelText {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // No log has keys.
        write!(f, "a tunnel to {:?}", self.endpoints)
    }
}

/// What guests learn beside their address.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Learn {
    /// The MTU of the links.
    pub mtu: u16,
    /// The gateway is a router of IPv6 even while the host has no way out.
    pub routes_v6: bool,
    /// Is there a resolver?
    pub has_names: bool,
    /// By DHCP.
    pub dhcp4: bool,
    /// By router advertisements.
    pub ra: bool,
    /// By DHCPv6.
    pub dhcp6: bool,
}

impl Default for Learn {
    /// Everything, of the usual links; IPv6 is routed only while the host has a way out: programs
    /// that do not try a second address would wait otherwise.
    fn default() -> Learn {
        Learn {
            mtu: Mtu::ETHERNET.bytes() as u16,
            routes_v6: false,
            has_names: true,
            dhcp4: true,
            ra: true,
            dhcp6: true,
        }
    }
}

/// How the clients of a socket speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dialect {
    /// A line is an order of ours, and each has an answer.
    Lines,
    /// One request of slirp4netns's API for each connection.
    Slirp,
}

/// What a descriptor of the gateway is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Given {
    /// The texts of the policy, as a file.
    Policy,
    /// A socket of a published port.
    Published(Published),
    /// The link of a virtual machine.
    Machine(Connection),
    /// A listening socket of a proxy.
    Proxy,
    /// A listening control socket, and where its file is.
    Control(PathBuf),
    /// Where packets are captured.
    Capture,
    /// Where flows are logged.
    Log,
    /// Where the older lines of that go.
    OlderLog,
    /// The same, for the rules that they needed.
    Learn,
    /// Where news of the host's name servers comes.
    Servers,
    /// Where questions are asked.
    Asking,
    /// Where other programs publish ports.
    Orders(Dialect),
    /// It ends the gateway.
    End(When),
    /// The listening socket of the page.
    Page {
        /// What visitors have to know.
        token: Option<String>,
    },
}

/// A question to people, as a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QuestionLine {
    /// Its number, for the answer.
    pub id: u64,
    /// `tcp`, `udp` or `icmp`.
    pub protocol: String,
    /// Where the flow leads.
    pub to: SocketAddr,
    /// The names by which the guest knows that address.
    pub names: Vec<String>,
    /// The guest that wants it.
    pub guest: SocketAddr,
    /// The rule that asks.
    pub rule: String,
    /// How long the flow waits.
    pub seconds: u64,
}

/// Somebody's answer, as a line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct AnswerLine {
    /// The question's number.
    pub id: u64,
    /// The flow may begin.
    pub allow: bool,
    /// It holds for the next flows to that destination.
    pub keep: bool,
}

/// The abstract name of the socket at which the netns of this process number asks.
pub fn asking_name(pid: u32) -> String {
    format!("wirespeed-ask-{pid}")
}
