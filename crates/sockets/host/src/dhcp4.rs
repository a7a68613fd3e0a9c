//! A DHCPv4 client: a state machine that asks for an address and keeps it; and a small server for
//! the guests of a gateway, [`Server`].
//!
//! Called by: the owner of a socket on UDP port 68 (the server: 67). After each call that passes
//! something in, take [`Client::poll`]'s actions until there are none, and call again at
//! [`Client::deadline`]. RFC 2131, RFC 2132, RFC 3396 (long options), RFC 3442 (classless routes),
//! RFC 4361 (client identifier), RFC 5227 (conflicts, by the caller), RFC 6842. Counters: the
//! `dhcp_*` drops; limits: `dhcp_message_bytes`, `dhcp_list_entries`, `dhcp_leases`.

mod client;
mod lease;
mod message;
mod refusal;
mod server;
#[cfg(test)]
mod tests;

use core::fmt;
use core::net::Ipv4Addr;

use base::{Cidr, Duration, KeyedHash, MacAddr};

pub use crate::loss::LossReason;
pub use client::Client;
pub use refusal::Refusal;
pub use server::{
    Destination, Fixed, Guest, Reply, Server, ServerConfig, ServerConfigError, ServerCounts,
    ServerLease, ServerOptions,
};

/// The UDP port of servers (RFC 2131 section 4.1).
pub const SERVER_PORT: u16 = 67;
/// The UDP port of clients.
pub const CLIENT_PORT: u16 = 68;

/// The identity of a client, and what it asks for.
#[derive(Clone, Debug)]
pub struct Config {
    /// The link address of the port.
    pub hardware: MacAddr,
    /// The client identifier, 2 to 255 bytes; [`client_id`] makes one.
    pub client_id: Vec<u8>,
    /// The name that servers may register for the address: a host name of up to 63 bytes.
    pub hostname: Option<String>,
    /// Ask for broadcast answers: for a port that cannot receive unicast to an address that it does
    /// not have yet.
    pub broadcast: bool,
    /// Ask for and take routes to networks as well as the default route (option 121).
    pub learn_routes: bool,
    /// Wait for a random time of one to ten seconds before the first message, so that hosts which
    /// got power at the same time do not ask at the same time.
    pub startup_delay: bool,
    /// The largest MTU that the port can have. A server's value above it is ignored.
    pub mtu_max: u16,
    /// The address of the last run: the client asks for it first (INIT-REBOOT).
    pub remembered: Option<Ipv4Addr>,
    /// Decides the random numbers; must be fresh for each client.
    pub secret: KeyedHash,
}

impl Config {
    /// The usual values for a port with the link address `hardware` that can receive before it has
    /// an address.
    pub fn new(hardware: MacAddr, secret: KeyedHash) -> Config {
        let [_, _, a, b, c, d] = hardware.0;
        // DUID-LL over Ethernet (RFC 8415 section 11.4).
        let duid = [&[0, 3, 0, 1][..], &hardware.0].concat();
        Config {
            hardware,
            client_id: client_id(u32::from_be_bytes([a, b, c, d]), &duid),
            hostname: None,
            broadcast: false,
            learn_routes: true,
            startup_delay: false,
            mtu_max: 1500,
            remembered: None,
            secret,
        }
    }
}

/// The client identifier of an interface and a DUID, which the host should keep for ever.
///
/// RFC 4361 6.1-a: type 255, then the IAID of the interface, then the DUID.
pub fn client_id(iaid: u32, duid: &[u8]) -> Vec<u8> {
    [&[255][..], &iaid.to_be_bytes(), duid].concat()
}

/// A [`Config`] that a client cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The client identifier has not 2 to 255 bytes.
    ClientId,
    /// The host name is no name of letters, digits, hyphens and dots, or is longer than 63 bytes.
    Hostname,
    /// The remembered address cannot be a host's.
    Remembered,
    /// The largest MTU is below 576, which every host must accept.
    Mtu,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfigError::ClientId => "the client identifier must have 2 to 255 bytes",
            ConfigError::Hostname => {
                "the host name must be letters, digits, hyphens and dots, up to 63 bytes"
            }
            ConfigError::Remembered => {
                "the remembered address must be one that a host can have: leave it out"
            }
            ConfigError::Mtu => "DHCP needs an MTU of 576 bytes or more: raise the port's",
        })
    }
}

impl core::error::Error for ConfigError {}

/// The state of a client: those of RFC 2131 section 4.4, and two more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No address; DHCPDISCOVER is sent when a delay is over.
    Init,
    /// DHCPDISCOVER was sent.
    Selecting,
    /// An offer was taken and DHCPREQUEST sent.
    Requesting,
    /// The remembered address, or the present one after the link was down, is asked for.
    Rebooting,
    /// A server has given an address, and the caller looks for conflicts.
    Probing,
    /// The address is in use.
    Bound,
    /// T1 has passed: the server is asked to extend the lease.
    Renewing,
    /// T2 has passed: any server is asked to extend the lease.
    Rebinding,
    /// [`Client::stop`] was called.
    Stopped,
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the message from `source`, port 68, to `destination`, port 67. A broadcast has the
    /// link's broadcast address, and may have the unspecified source.
    Send {
        /// Unspecified, or the address in use.
        source: Ipv4Addr,
        /// 255.255.255.255, or the server that gave the lease.
        destination: Ipv4Addr,
        /// The UDP payload.
        message: Vec<u8>,
    },
    /// Look whether another host has the address (RFC 5227 section 2.1), then call
    /// [`Client::probed`].
    Probe(Ipv4Addr),
    /// Configure the port.
    Acquired(Box<Lease>),
    /// The lease was extended: it has the same address, and maybe other options.
    Renewed(Box<Lease>),
    /// Remove the address from the port, and everything else of its lease.
    Lost {
        /// The address.
        address: Ipv4Addr,
        /// Why.
        reason: LossReason,
    },
}

/// An address with what a server says about the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The address.
    pub address: Ipv4Addr,
    /// The prefix length of the subnet: 1 to 32.
    pub prefix_len: u8,
    /// The server's identifier.
    pub server: Ipv4Addr,
    /// Routes: those of option 121 if it came, else a default route by each router.
    pub routes: Vec<Route>,
    /// DNS servers, the preferred one first.
    pub dns_servers: Vec<Ipv4Addr>,
    /// Domains to search: option 119, else the domain name alone. Host names, without a dot at
    /// their end.
    pub search: Vec<String>,
    /// The MTU to use, 576 or more and at most the configured one.
    pub mtu: Option<u16>,
    /// How long the address may be used, from the time of the request; `None`: for ever.
    pub valid: Option<Duration>,
    /// T1, as the server said or half of `valid`.
    pub renew: Duration,
    /// T2, as the server said or seven eighths of `valid`.
    pub rebind: Duration,
}

/// A route of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// A network; host bits are zero.
    pub destination: Cidr,
    /// The router; `None`: the network is on the link.
    pub gateway: Option<Ipv4Addr>,
}
