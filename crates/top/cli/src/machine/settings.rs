//! What a gateway has to know, as text; files and sockets come beside it, in the order
//! of [`Settings::given`].
//!
//! Called by: `open.rs` makes it, `machine.rs` uses it, perhaps in another process of this program.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wirespeed::{Cidr, Mtu};

use super::connection::Connection;
use super::ends::When;
use super::networks::Network;
use super::publish::Published;

/// The tool that a gateway belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Tool {
    Netns,
    Gateway,
    Passt,
    Pasta,
    Slirp4netns,
    Proxy,
}

impl Tool {
    /// Its name in `wirespeed show` and in messages.
    pub(crate) fn name(self) -> &'static str {
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
pub(crate) enum EndsWith {
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
pub(crate) struct Settings {
    pub(crate) tool: Tool,
    pub(crate) ends_with: EndsWith,
    /// All machines are on one link.
    pub(crate) is_switched: bool,
    /// The private networks, one of each version at most for each link.
    pub(crate) networks: Vec<Network>,
    /// Other addresses of these networks are hosts beyond the gateway, too.
    pub(crate) is_shared: bool,
    /// Addresses that stand for the host's own address towards others.
    pub(crate) own_address: Vec<IpAddr>,
    /// Published ports that the gateway opens itself, as `-p` has them.
    pub(crate) publish: Vec<String>,
    /// The text of `--link`.
    pub(crate) link: Option<String>,
    /// The text of `--via`, and where that proxy is.
    pub(crate) via: Option<(String, SocketAddr)>,
    /// The tunnel of `--via wg:FILE`.
    pub(crate) tunnel: Option<TunnelText>,
    /// Do questions for names go by the way of `--via`?
    pub(crate) asks_through: bool,
    /// Addresses that stand for the host.
    pub(crate) host_addresses: Vec<IpAddr>,
    /// Is there a resolver?
    pub(crate) has_names: bool,
    /// The host's name servers, or those that the user named.
    pub(crate) servers: Vec<SocketAddr>,
    /// The host's /etc/hosts.
    pub(crate) hosts: String,
    /// The ports of the host's loopback address that the sockets in the program's network lead to.
    pub(crate) to_host: Vec<SocketAddr>,
    /// Publish what listens in the program's network.
    pub(crate) auto: Auto,
    /// The name and the password that clients of a proxy need.
    pub(crate) credentials: Option<(String, String)>,
    /// What guests learn.
    pub(crate) learn: Learn,
    /// Guests configure themselves by that; if not, they take their default route of IPv6 alone.
    pub(crate) configures: bool,
    /// What each descriptor is.
    pub(crate) given: Vec<Given>,
}

impl Settings {
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
pub(crate) struct Auto {
    pub(crate) tcp: bool,
    pub(crate) udp: bool,
}

impl Auto {
    /// Is there one?
    pub(crate) fn is_some(self) -> bool {
        self.tcp || self.udp
    }
}

/// A tunnel's file, which a gateway without files cannot read, and where its peers are.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct TunnelText {
    pub(crate) text: String,
    pub(crate) endpoints: Vec<Option<SocketAddr>>,
}

impl core::fmt::Debug for TunnelText {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // No log has keys.
        write!(f, "a tunnel to {:?}", self.endpoints)
    }
}

/// What guests learn beside their address.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Learn {
    /// The MTU of the links.
    pub(crate) mtu: u16,
    /// The gateway is a router of IPv6 even while the host has no way out.
    pub(crate) routes_v6: bool,
    /// Is there a resolver?
    pub(crate) has_names: bool,
    /// By DHCP, by router advertisements, by DHCPv6.
    pub(crate) dhcp4: bool,
    pub(crate) ra: bool,
    pub(crate) dhcp6: bool,
}

/// How the clients of a socket speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Dialect {
    /// A line is an order of ours, and each has an answer.
    Lines,
    /// One request of slirp4netns's API for each connection.
    Slirp,
}

/// What a descriptor of the gateway is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Given {
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
    /// The listening socket of the page, and the token that visitors need.
    Page { token: Option<String> },
}

/// A question to people, as a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct QuestionLine {
    pub(crate) id: u64,
    pub(crate) protocol: String,
    pub(crate) to: SocketAddr,
    pub(crate) names: Vec<String>,
    pub(crate) guest: SocketAddr,
    /// The rule that asks.
    pub(crate) rule: String,
    /// How long the flow waits.
    pub(crate) seconds: u64,
}

/// Somebody's answer, as a line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct AnswerLine {
    pub(crate) id: u64,
    pub(crate) allow: bool,
    /// It holds for the next flows to that destination.
    pub(crate) keep: bool,
}

/// The abstract name of the socket at which the netns of this process number asks.
pub(crate) fn asking_name(pid: u32) -> String {
    format!("wirespeed-ask-{pid}")
}
