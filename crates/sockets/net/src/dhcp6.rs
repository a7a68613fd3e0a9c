//! A port that is configured by DHCPv6: `host::dhcp6` over a UDP socket of the stack.
//!
//! Called by: programs that poll a stack, as `dhcp.rs` says. The port needs a link-local address
//! ([`Stack::autoconfigure`]); messages wait until the port has one. A stack has one client at
//! most, because the client binds UDP port 546. RFC 8415. Decision: docs/decisions/0066-dhcp.md.
//!
//! ```
//! # mod wirespeed { pub use {base::*, stack::*, wirespeed_net as net}; }
//! use wirespeed::net::dhcp6::{Config, Dhcp6Port, Mode};
//! use wirespeed::pair::{PairConfig, mac, pair};
//! use wirespeed::{Instant, KeyedHash};
//!
//! let (end, _other) = pair(&PairConfig::new([1, 2]));
//! let (mut stack, now) = (end.stack, Instant::from_nanos(1));
//! let config = Config::new(Mode::Stateful, mac(1), KeyedHash::new(3, 4)); // 128 random bits
//! let mut client = Dhcp6Port::new(&mut stack, end.port, config, now)?;
//! stack.poll(now); // and again and again, with `client.poll` behind it
//! assert!(client.poll(&mut stack, now).is_none(), "no server has answered");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use base::{Cidr, Instant, LinkKind, Owner};
use host::dhcp6::{Action, CLIENT_PORT, SERVER_PORT, SERVERS};
pub use host::dhcp6::{Client, Config, ConfigError, Information, Lease, LossReason, Mode, State};
use stack::{Address, AddressError, AddressState, Origin, PortId, Stack, UdpError, UdpHandle};

use crate::given::{Given, into_vrf, receive};

/// Why a port cannot be configured by DHCPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dhcp6Error {
    /// The configuration cannot be used.
    Config(ConfigError),
    /// There is no such port.
    NoPort,
    /// The port has no link addresses (it is not Ethernet), and so no link-local address to send
    /// from.
    NoLinkAddress,
    /// UDP port 546 could not be bound.
    Socket(UdpError),
}

impl core::fmt::Display for Dhcp6Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Dhcp6Error::Config(why) => write!(f, "{why}"),
            Dhcp6Error::NoPort => f.write_str("there is no such port: add one"),
            Dhcp6Error::NoLinkAddress => f.write_str(
                "DHCPv6 needs a port with link addresses (Ethernet): give this one an address",
            ),
            Dhcp6Error::Socket(UdpError::AddressInUse) => f.write_str(
                "UDP port 546 is taken: one port of a stack can be configured by DHCPv6",
            ),
            Dhcp6Error::Socket(why) => write!(f, "UDP port 546 cannot be had: {why}"),
        }
    }
}

impl core::error::Error for Dhcp6Error {}

/// What has changed at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The port has got an address, or the options of its lease have changed.
    Configured(Box<Lease>),
    /// A server gave options without an address.
    Informed(Box<Information>),
    /// The port lost its address.
    Lost(Ipv6Addr, LossReason),
    /// A server gave an address that the stack did not take.
    NotAdded(Ipv6Addr, AddressError),
    /// A server gave an address that another host has. The port never used the address, and the
    /// client told the server (Decline). The client asks again.
    Declined(Ipv6Addr),
}

/// The change as a sentence for a log.
impl core::fmt::Display for Change {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Change::Configured(lease) => write!(f, "{}/128 by DHCPv6", lease.address),
            Change::Informed(_) => f.write_str("settings by DHCPv6"),
            Change::Lost(address, why) => write!(f, "{address} is no longer ours ({why})"),
            Change::NotAdded(address, why) => write!(f, "{address}, by DHCPv6, not used: {why}"),
            Change::Declined(address) => {
                write!(f, "{address}, by DHCPv6, declined: another host has it")
            }
        }
    }
}

/// The DHCPv6 client of one port.
pub struct Dhcp6Port {
    client: Client,
    socket: UdpHandle,
    port: PortId,
    given: Given<Ipv6Addr>,
}

impl Dhcp6Port {
    /// Begin to ask. The first message is sent within a second, by a call of [`Dhcp6Port::poll`].
    ///
    /// # Errors
    /// [`Dhcp6Error`].
    pub fn new(
        stack: &mut Stack,
        port: PortId,
        config: Config,
        now: Instant,
    ) -> Result<Dhcp6Port, Dhcp6Error> {
        match stack.link_kind(port) {
            Some(LinkKind::Ethernet) => {}
            Some(LinkKind::Ip) => return Err(Dhcp6Error::NoLinkAddress),
            None => return Err(Dhcp6Error::NoPort),
        }
        let client = Client::new(config, now).map_err(Dhcp6Error::Config)?;
        let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), CLIENT_PORT);
        let socket = stack.udp_bind(any, Owner::program()).map_err(Dhcp6Error::Socket)?;
        into_vrf(stack, socket, port);
        Ok(Dhcp6Port { client, socket, port, given: Given::new(port) })
    }

    /// Read answers, send messages that are due, and configure the port. Call it until it returns
    /// `None`.
    pub fn poll(&mut self, stack: &mut Stack, now: Instant) -> Option<Change> {
        let client = &mut self.client;
        receive(stack, self.socket, |message| client.receive(now, message));
        if let Some(declined) = self.look_for_duplicates(stack, now) {
            return Some(declined);
        }
        while let Some(action) = self.client.poll(now) {
            if let Some(change) = self.act(stack, action, now) {
                return Some(change);
            }
        }
        None
    }

    /// When to call [`Dhcp6Port::poll`] next, if no datagram comes before. While the stack checks
    /// an address, call it after each [`Stack::poll`] too.
    pub fn deadline(&self) -> Instant {
        self.client.deadline()
    }

    /// The client, with its state, its lease and its count of dropped messages.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Report that the link is up again: the client checks its lease with a server.
    pub fn link_up(&mut self, now: Instant) {
        self.client.link_up(now);
    }

    /// Give the address back to the server; the next [`Dhcp6Port::poll`] removes the address from
    /// the port. Continue to poll until the client is [`State::Stopped`], which means that the
    /// server has answered or that four messages were sent.
    pub fn release(&mut self, now: Instant) {
        self.client.stop(now);
    }

    /// Remove the address from the port, and close the socket. No message is sent.
    pub fn close(mut self, stack: &mut Stack) {
        self.forget(stack);
        stack.udp_close(self.socket);
    }

    fn act(&mut self, stack: &mut Stack, action: Action, now: Instant) -> Option<Change> {
        match action {
            Action::Send(message) => {
                let scope_id = self.port.scope_id();
                let to = SocketAddr::V6(SocketAddrV6::new(SERVERS, SERVER_PORT, 0, scope_id));
                // A message that cannot be sent now, perhaps because there is no address yet, is
                // sent again, like a lost one.
                let _ = stack.udp_send(self.socket, to, &message, now);
                None
            }
            Action::Probe(address) => self.probe(stack, address, now),
            Action::Acquired(lease) | Action::Renewed(lease) => {
                Some(self.configure(stack, lease, now))
            }
            Action::Lost { address, reason } => {
                self.forget(stack);
                Some(Change::Lost(address, reason))
            }
            Action::Informed(information) => Some(Change::Informed(information)),
        }
    }

    /// Let the stack check an address for duplicates (RFC 8415 18.2.10-e).
    fn probe(&mut self, stack: &mut Stack, address: Ipv6Addr, now: Instant) -> Option<Change> {
        let tentative = Address { state: AddressState::Tentative, ..given(address) };
        let why = self.given.set(stack, address, tentative).err()?;
        self.client.probed(now, true);
        Some(Change::NotAdded(address, why))
    }

    /// Tell the client whether another host has the address.
    fn look_for_duplicates(&mut self, stack: &mut Stack, now: Instant) -> Option<Change> {
        let is_new = self.client.state() == State::Probing;
        match self.given.is_taken(stack)? {
            (address, true) => {
                self.forget(stack);
                self.client.probed(now, true);
                return is_new.then_some(Change::Declined(address));
            }
            (_, false) if is_new => self.client.probed(now, false),
            _ => {}
        }
        None
    }

    /// Set the lifetimes of the address, which is on the port already.
    fn configure(&mut self, stack: &mut Stack, lease: Box<Lease>, now: Instant) -> Change {
        let (preferred_until, valid_until) = self.client.lifetimes().unwrap_or((now, now));
        let state = match preferred_until > now {
            true => AddressState::Preferred,
            false => AddressState::Deprecated,
        };
        let address = Address { state, preferred_until, valid_until, ..given(lease.address) };
        match self.given.set(stack, lease.address, address) {
            Ok(()) => Change::Configured(lease),
            Err(why) => Change::NotAdded(lease.address, why),
        }
    }

    /// Remove the address from the port.
    fn forget(&mut self, stack: &mut Stack) {
        self.given.forget(stack);
    }
}

/// The address of a lease as the stack takes it, with prefix length 128: only routers say which
/// prefixes are on the link (RFC 5942 section 4).
fn given(address: Ipv6Addr) -> Address {
    let cidr = Cidr { addr: IpAddr::V6(address), prefix_len: 128 };
    Address { origin: Origin::Dhcp, ..Address::fixed(cidr) }
}
