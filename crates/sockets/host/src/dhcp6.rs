//! A DHCPv6 client: a state machine that asks for one address and keeps it, or for options alone;
//! and a [`Server`] without addresses, for the guests of a gateway.
//!
//! Called by: the owner of a socket on UDP port 546 (the server: 547). After each call that passes
//! something in, take [`Client::poll`]'s actions until there are none, and call again at
//! [`Client::deadline`]. Messages leave from a link-local address to [`SERVERS`], port 547. RFC
//! 8415, RFC 3646 (DNS). Counters: the `dhcp_*` drops; limits: `dhcp_message_bytes`,
//! `dhcp_list_entries`.

mod client;
mod message;
mod reply;
mod retransmit;
mod server;
#[cfg(test)]
mod tests;

use core::fmt;
use core::net::Ipv6Addr;

use base::{Duration, KeyedHash, MacAddr};

pub use crate::loss::LossReason;
pub use client::Client;
pub use server::{Server, ServerConfig, ServerConfigError};

/// The UDP port of servers and relays (RFC 8415 section 7.2).
pub const SERVER_PORT: u16 = 547;
/// The UDP port of clients.
pub const CLIENT_PORT: u16 = 546;
/// All_DHCP_Relay_Agents_and_Servers (RFC 8415 section 7.1).
pub const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

/// The DUID of a link address (RFC 8415 section 11.4), which should stay the same for ever.
pub fn duid_of_link_address(hardware: MacAddr) -> Vec<u8> {
    [&[0, 3, 0, 1][..], &hardware.0].concat()
}

/// The DUID of a UUID (RFC 8415 section 11.5, RFC 6355).
pub fn duid_of_uuid(uuid: [u8; 16]) -> Vec<u8> {
    [&[0, 4][..], &uuid].concat()
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// An address and options (IA_NA), for router advertisements with the flag M.
    Stateful,
    /// Options alone (Information-request), for those with the flag O or neither flag.
    Stateless,
}

/// The identity of a client, and what it asks for.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address and options, or options alone.
    pub mode: Mode,
    /// Which host this is: 3 to 130 bytes, the same at each start.
    pub duid: Vec<u8>,
    /// Which interface of the host this is: the same at each start.
    pub iaid: u32,
    /// Accept an address from the first answer, without a second exchange.
    pub rapid_commit: bool,
    /// Decides the random numbers; must be fresh for each client.
    pub secret: KeyedHash,
}

impl Config {
    /// The usual values for a port with the link address `hardware`.
    pub fn new(mode: Mode, hardware: MacAddr, secret: KeyedHash) -> Config {
        let [_, _, a, b, c, d] = hardware.0;
        Config {
            mode,
            duid: duid_of_link_address(hardware),
            iaid: u32::from_be_bytes([a, b, c, d]),
            rapid_commit: true,
            secret,
        }
    }
}

/// A [`Config`] that a client cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The DUID has not 3 to 130 bytes.
    Duid,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Duid => f.write_str("the DUID must have 3 to 130 bytes"),
        }
    }
}

impl core::error::Error for ConfigError {}

/// Where the client is: which message it sends, or what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Solicit, from the delay before the first one on.
    Soliciting,
    /// Request.
    Requesting,
    /// The caller looks for conflicts.
    Probing,
    /// The address is in use.
    Bound,
    /// Renew.
    Renewing,
    /// Rebind.
    Rebinding,
    /// Confirm: the link was down.
    Confirming,
    /// Decline.
    Declining,
    /// Release; after it, `Stopped`.
    Releasing,
    /// Information-request.
    Informing,
    /// Options are known until they are refreshed.
    Informed,
    /// [`Client::stop`] was called and the server knows, or it could not be reached.
    Stopped,
}

/// What the caller has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the UDP payload from the port's link-local address, port 546, to [`SERVERS`], port 547.
    Send(Vec<u8>),
    /// Look whether another host has the address (RFC 4862 section 5.4), then call
    /// [`Client::probed`].
    Probe(Ipv6Addr),
    /// Configure the port.
    Acquired(Box<Lease>),
    /// The lease was extended: it has the same address, and maybe other options.
    Renewed(Box<Lease>),
    /// Remove the address from the port, and everything else of its lease.
    Lost {
        /// The address.
        address: Ipv6Addr,
        /// Why.
        reason: LossReason,
    },
    /// Options without an address, new ones or a confirmation.
    Informed(Box<Information>),
}

/// An address with what a server says about the network. DHCPv6 has no prefix lengths and no
/// routers: the address is a /128, and routers advertise the rest (RFC 5942 section 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The address.
    pub address: Ipv6Addr,
    /// How long new connections may use it, counted from the request; `None`: for ever.
    pub preferred: Option<Duration>,
    /// How long it may be used, counted from the request; `None`: for ever.
    pub valid: Option<Duration>,
    /// The options that came with it.
    pub information: Information,
}

/// Options of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Information {
    /// DNS servers, the preferred one first.
    pub dns_servers: Vec<Ipv6Addr>,
    /// Domains to search: host names, without a dot at their end.
    pub search: Vec<String>,
}
