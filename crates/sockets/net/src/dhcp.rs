//! A port that is configured by DHCP: `host::dhcp4` over a UDP socket of the stack.
//!
//! Called by: programs that poll a stack, after each [`Stack::poll`]; programs that share a stack
//! call it in [`Net::with_stack`](crate::Net::with_stack). A stack has one client at most, because
//! the client binds UDP port 68. RFC 2131, RFC 2132 section 5.1 (the MTU). Decisions:
//! docs/decisions/0066-dhcp.md, 0113 (which routes are taken).
//!
//! A program that polls its stack has this in its loop:
//! ```
//! # mod wirespeed { pub use {base::*, stack::*, wirespeed_net as net}; }
//! use wirespeed::net::dhcp::{Change, Config, DhcpPort};
//! use wirespeed::pair::{PairConfig, mac, pair};
//! use wirespeed::{Instant, KeyedHash};
//!
//! let (end, _other) = pair(&PairConfig::new([1, 2])); // a link without a server
//! let (mut stack, now) = (end.stack, Instant::from_nanos(1));
//! let config = Config::new(mac(1), KeyedHash::new(3, 4)); // 128 random bits
//! let mut client = DhcpPort::new(&mut stack, end.port, config, now)?;
//! # let one_turn = 0..1;
//! # for _ in one_turn {
//! stack.poll(now);
//! while let Some(change) = client.poll(&mut stack, now) {
//!     match change {
//!         Change::Configured(lease) => println!("{} until renewed", lease.address),
//!         other => println!("{other}"),
//!     }
//! }
//! let next = stack.next_deadline().min(client.deadline()); // when to poll at the latest
//! # assert!(next > now);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! The guide of crate `wirespeed` contains a program that does this with a driver.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{Cidr, Duration, Instant, LinkKind, Mtu, Owner};
use host::dhcp4::{Action, CLIENT_PORT, SERVER_PORT};
pub use host::dhcp4::{Client, Config, ConfigError, Lease, LossReason, Refusal, State};
use stack::{
    Address, AddressError, AddressState, Origin, PortId, Route, RouteOrigin, Stack, UdpError,
    UdpHandle,
};

use crate::given::{Given, into_vrf, receive};

/// The least time from one [`Change::Refused`] to the next.
const REFUSED_INTERVAL: Duration = Duration::from_secs(60);

/// Why a port cannot be configured by DHCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DhcpError {
    /// The configuration cannot be used.
    Config(ConfigError),
    /// There is no such port.
    NoPort,
    /// The port has no link addresses (it is not Ethernet), and DHCP servers know hosts by link
    /// address.
    NoLinkAddress,
    /// UDP port 68 could not be bound.
    Socket(UdpError),
}

impl core::fmt::Display for DhcpError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            DhcpError::Config(why) => write!(f, "{why}"),
            DhcpError::NoPort => f.write_str("there is no such port: add one"),
            DhcpError::NoLinkAddress => f.write_str(
                "DHCP needs a port with link addresses (Ethernet): give this one an address",
            ),
            DhcpError::Socket(UdpError::AddressInUse) => {
                f.write_str("UDP port 68 is taken: one port of a stack can be configured by DHCP")
            }
            DhcpError::Socket(why) => write!(f, "UDP port 68 cannot be had: {why}"),
        }
    }
}

impl core::error::Error for DhcpError {}

/// What has changed at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The port has got an address, or the options of its lease have changed.
    Configured(Box<Lease>),
    /// The port lost its address.
    Lost(Ipv4Addr, LossReason),
    /// A server gave an address that the stack did not take.
    NotAdded(Ipv4Addr, AddressError),
    /// A server gave an address that another host has. The port never used the address, and the
    /// client told the server (DHCPDECLINE). The client asks again ten seconds later.
    Declined(Ipv4Addr),
    /// An answer could not be used, or a server refused; reported at most once a minute.
    Refused(Refusal),
}

/// The change as a sentence for a log.
impl core::fmt::Display for Change {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Change::Configured(lease) => {
                write!(f, "{}/{} by DHCP from {}", lease.address, lease.prefix_len, lease.server)
            }
            Change::Lost(address, why) => write!(f, "{address} is no longer ours ({why})"),
            Change::NotAdded(address, why) => write!(f, "{address}, by DHCP, not used: {why}"),
            Change::Declined(address) => {
                write!(f, "{address}, by DHCP, declined: another host has it")
            }
            Change::Refused(why) => write!(f, "an answer by DHCP was of no use: {why}"),
        }
    }
}

/// The DHCP client of one port.
pub struct DhcpPort {
    client: Client,
    socket: UdpHandle,
    port: PortId,
    given: Given<Ipv4Addr>,
    /// Destinations of the lease's routes.
    routes: Vec<Cidr>,
    /// No [`Change::Refused`] is reported before this time.
    quiet_until: Instant,
}

impl DhcpPort {
    /// Begin to ask for an address at the next [`DhcpPort::poll`]. The client asks servers to
    /// answer by broadcast, and also accepts answers by unicast.
    ///
    /// # Errors
    /// [`DhcpError`].
    pub fn new(
        stack: &mut Stack,
        port: PortId,
        config: Config,
        now: Instant,
    ) -> Result<DhcpPort, DhcpError> {
        match stack.link_kind(port) {
            Some(LinkKind::Ethernet) => {}
            Some(LinkKind::Ip) => return Err(DhcpError::NoLinkAddress),
            None => return Err(DhcpError::NoPort),
        }
        let config = Config { broadcast: true, ..config };
        let client = Client::new(config, now).map_err(DhcpError::Config)?;
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), CLIENT_PORT);
        let socket = stack.udp_bind(any, Owner::program()).map_err(DhcpError::Socket)?;
        into_vrf(stack, socket, port);
        Ok(DhcpPort {
            client,
            socket,
            port,
            given: Given::new(port),
            routes: Vec::new(),
            quiet_until: now,
        })
    }

    /// Read answers, send messages that are due, and configure the port. Call it until it returns
    /// `None`.
    pub fn poll(&mut self, stack: &mut Stack, now: Instant) -> Option<Change> {
        let client = &mut self.client;
        receive(stack, self.socket, |message| client.receive(now, message));
        if let Some(why) = self.client.take_refusal()
            && now >= self.quiet_until
        {
            self.quiet_until = now + REFUSED_INTERVAL;
            return Some(Change::Refused(why));
        }
        if let Some(declined) = self.look_for_conflicts(stack, now) {
            return Some(declined);
        }
        while let Some(action) = self.client.poll(now) {
            if let Some(change) = self.act(stack, action, now) {
                return Some(change);
            }
        }
        // RFC 2131 section 4.1: some servers send to the address that they give, even if the client
        // asked for an answer by broadcast.
        let has_address = self.client.lease().is_some() || self.client.state() == State::Stopped;
        stack.udp_take_offers(self.socket, self.port, !has_address);
        None
    }

    /// When to call [`DhcpPort::poll`] next, if no datagram comes before. While the stack checks an
    /// address, call it after each [`Stack::poll`] too.
    pub fn deadline(&self) -> Instant {
        self.client.deadline()
    }

    /// The socket of the DHCP client. The program has nothing to do for the socket's events.
    pub fn socket(&self) -> UdpHandle {
        self.socket
    }

    /// The client, with its state, its lease and its count of dropped messages.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Report that the link is up again: the client checks its lease with a server.
    pub fn link_up(&mut self, now: Instant) {
        self.client.link_up(now);
    }

    /// Tell the server that the address is free again. The message may have to wait until the
    /// server's link address is known, so the port keeps the address until [`DhcpPort::stop`].
    pub fn release(&mut self, stack: &mut Stack, now: Instant) {
        self.client.stop(now);
        if let Some(send @ Action::Send { .. }) = self.client.poll(now) {
            self.act(stack, send, now);
        }
    }

    /// Give the address back to the server, unless [`DhcpPort::release`] has done that, and remove
    /// the address from the port.
    pub fn stop(mut self, stack: &mut Stack, now: Instant) {
        if self.client.state() != State::Stopped {
            self.release(stack, now);
        }
        self.forget(stack);
        stack.udp_close(self.socket);
    }

    fn act(&mut self, stack: &mut Stack, action: Action, now: Instant) -> Option<Change> {
        match action {
            Action::Send { source, destination, message } => {
                // A message that cannot be sent now is sent again, like a lost one.
                let _ = if destination.is_broadcast() {
                    let from = (self.port, source);
                    stack.udp_broadcast(self.socket, from, SERVER_PORT, &message, now)
                } else {
                    let to = SocketAddr::new(IpAddr::V4(destination), SERVER_PORT);
                    stack.udp_send(self.socket, to, &message, now)
                };
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
        }
    }

    /// Let the stack probe whether another host has the address, which takes up to seven seconds
    /// (RFC 5227 section 2.1).
    fn probe(&mut self, stack: &mut Stack, address: Ipv4Addr, now: Instant) -> Option<Change> {
        let cidr = Cidr { addr: IpAddr::V4(address), prefix_len: 32 };
        let tentative = Address {
            origin: Origin::Dhcp,
            state: AddressState::Tentative,
            ..Address::fixed(cidr)
        };
        let why = self.given.set(stack, address, tentative).err()?;
        self.client.probed(now, true);
        Some(Change::NotAdded(address, why))
    }

    /// Tell the client whether another host has the address. The stack looks for one before the
    /// address is first used, and detects one that takes the address later.
    fn look_for_conflicts(&mut self, stack: &mut Stack, now: Instant) -> Option<Change> {
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

    /// Give the port the address and the routes of a lease, in place of those of the last lease.
    fn configure(&mut self, stack: &mut Stack, lease: Box<Lease>, now: Instant) -> Change {
        let mut cidr = Cidr { addr: IpAddr::V4(lease.address), prefix_len: lease.prefix_len };
        // A server must not redirect packets for the network of another port. If this lease would
        // do that, the port gets the address without its network.
        if !stack.admits_route(self.port, cidr.network(), true, RouteOrigin::Dhcp) {
            cidr.prefix_len = 32;
        }
        let valid_until = self.client.expires_at().unwrap_or(now);
        let address = Address { origin: Origin::Dhcp, valid_until, ..Address::fixed(cidr) };
        if let Err(why) = self.given.set(stack, lease.address, address) {
            return Change::NotAdded(lease.address, why);
        }
        self.forget_routes(stack);
        let mtu = lease.mtu.and_then(|mtu| Mtu::new(usize::from(mtu)));
        if mtu.is_some() {
            let network = Route::new(cidr, None, self.port.0).with_origin(RouteOrigin::Connected);
            stack.add_route(Route { mtu, ..network });
        }
        for route in &lease.routes {
            let gateway = route.gateway.map(IpAddr::V4);
            let new = Route::new(route.destination, gateway, self.port.0);
            let new = new.with_origin(RouteOrigin::Dhcp);
            if self.has_route_of_the_user(stack, route.destination)
                || !stack.admits_route(self.port, route.destination, false, RouteOrigin::Dhcp)
            {
                continue;
            }
            stack.add_route(Route { expires: valid_until, mtu, ..new });
            self.routes.push(route.destination);
        }
        Change::Configured(lease)
    }

    fn has_route_of_the_user(&self, stack: &Stack, destination: Cidr) -> bool {
        let mut routes = stack.routes_page(0, usize::MAX).rows.into_iter();
        routes.any(|r| {
            r.dest == destination && r.port == self.port.0 && r.origin == RouteOrigin::Static
        })
    }

    /// Remove the address and the routes from the port.
    fn forget(&mut self, stack: &mut Stack) {
        self.forget_routes(stack);
        self.given.forget(stack);
    }

    fn forget_routes(&mut self, stack: &mut Stack) {
        for destination in self.routes.drain(..) {
            stack.remove_route(destination, self.port);
        }
    }
}
