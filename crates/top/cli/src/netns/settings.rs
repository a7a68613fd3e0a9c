//! What the gateway's process has to know, as text; files and sockets come beside it, in the order
//! of [`Settings::given`].
//!
//! Called by: `launch.rs` writes it, `gateway.rs` reads it. Both are this program.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::addresses::Network;
use super::publish::Published;

/// The settings of a gateway.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Settings {
    /// The networks of the program, one of each version at most.
    pub(super) networks: Vec<Network>,
    /// The text of `--link`.
    pub(super) link: Option<String>,
    /// The text of `--via`, and where that proxy is.
    pub(super) via: Option<(String, SocketAddr)>,
    /// Addresses that stand for the host.
    pub(super) host_addresses: Vec<IpAddr>,
    /// Is there a resolver?
    pub(super) has_names: bool,
    /// The host's name servers, or those that the user named.
    pub(super) servers: Vec<SocketAddr>,
    /// The host's /etc/hosts.
    pub(super) hosts: String,
    /// The ports of the host's loopback address that the sockets in the program's network lead to.
    pub(super) to_host: Vec<SocketAddr>,
    /// What each descriptor is.
    pub(super) given: Vec<Given>,
}

/// What a descriptor of the gateway is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Given {
    /// The texts of the policy, as a file.
    Policy,
    /// A socket of a published port.
    Published(Published),
    /// A listening control socket, and where its file is.
    Control(PathBuf),
    /// Where packets are captured.
    Capture,
    /// Where flows are logged.
    Log,
    /// The listening socket of the page, and the token that visitors need.
    Page { token: Option<String> },
}
