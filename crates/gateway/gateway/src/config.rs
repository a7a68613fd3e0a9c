//! Settings of a gateway.
//!
//! Called by: the owner of a gateway, before it begins.

use core::net::{IpAddr, SocketAddr};

use base::{Budget, Cidr, KeyedHash};
use host::dns::{ForwarderConfig, Hosts};

use crate::datagrams::Filtering;

/// The most that a connection's buffers may grow to, in each direction.
const BUFFER_BYTES_MAX: u32 = 1 << 20;

/// Settings of a gateway.
#[derive(Clone, Debug)]
pub struct Config {
    /// Limits: those whose names begin with `gateway_`.
    pub budget: Budget,
    /// Settings of the connections to guests: no Nagle, because the program at the other end has
    /// decided about that; buffers of up to a megabyte.
    pub tcp: tcp::Config,
    /// The networks of the guests.
    pub networks: Vec<Cidr>,
    /// The hosts that may answer a guest's datagrams.
    pub filtering: Filtering,
    /// The resolver that answers all that guests send to port 53, over UDP and TCP, whichever
    /// address they ask; without one that is flows and datagrams like others.
    pub names: Option<NamesConfig>,
}

/// Settings of a gateway's resolver.
#[derive(Clone, Debug)]
pub struct NamesConfig {
    /// The servers that are asked, and for how long.
    pub forwarder: ForwarderConfig,
    /// Names that are known without asking.
    pub hosts: Hosts,
    /// Random bits: someone who knows them can forge answers.
    pub secret: KeyedHash,
}

impl Default for Config {
    fn default() -> Config {
        let tcp = tcp::Config {
            no_delay: true,
            receive_buffer_max_bytes: BUFFER_BYTES_MAX,
            send_buffer_max_bytes: BUFFER_BYTES_MAX,
            ..tcp::Config::default()
        };
        Config {
            budget: Budget::default(),
            tcp,
            networks: Vec::new(),
            filtering: Filtering::default(),
            names: None,
        }
    }
}

impl Config {
    /// The address from which what a client of a published port sends comes to the guest's address
    /// `to`, if it is the client's own.
    pub(crate) fn seen_by_guest(&self, client: SocketAddr, to: SocketAddr) -> Option<SocketAddr> {
        let ip = client.ip().to_canonical();
        let is_near = ip.is_loopback()
            || ip.is_unspecified()
            || matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
            || self.networks.iter().any(|network| network.contains(ip));
        let is_seen = !is_near && ip.is_ipv4() == to.is_ipv4();
        is_seen.then(|| SocketAddr::new(ip, client.port()))
    }
}
