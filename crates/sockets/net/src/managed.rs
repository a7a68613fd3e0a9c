//! DHCPv6 on a port with autoconfiguration. The flags in routers' advertisements decide whether the
//! client asks for an address and options, for options only, or for nothing.
//!
//! Called by: programs that poll a stack, for a port with [`Stack::autoconfigure`], as `dhcp.rs`
//! says. RFC 4861 section 4.2 (the flags M and O), RFC 8415.
//!
//! ```
//! # mod wirespeed { pub use {base::*, stack::*, wirespeed_net as net}; }
//! use wirespeed::net::managed::Managed;
//! use wirespeed::pair::{PairConfig, mac, pair};
//! use wirespeed::{AutoConfig, Instant};
//!
//! let (end, _other) = pair(&PairConfig::new([1, 2])); // a link without a router
//! let (mut stack, now) = (end.stack, Instant::from_nanos(1));
//! stack.autoconfigure(end.port, AutoConfig::default())?;
//! let mut managed = Managed::new(&stack, end.port, mac(1));
//! stack.poll(now); // and again and again, with `managed.poll` behind it
//! while let Some(change) = managed.poll(&mut stack, now)? {
//!     println!("{change}");
//! }
//! assert!(managed.mode().is_none(), "no router has said that there is a server");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use base::{Duration, Instant, KeyedHash, MacAddr};
use host::dhcp6::{Config, Information, Lease, Mode};
use stack::{PortId, Stack};

use crate::dhcp6::{Change, Dhcp6Error, Dhcp6Port};

/// How often the routers' flags are read: they change when a network is rearranged.
const LOOK: Duration = Duration::from_secs(1);
/// Makes the client's secret differ from all other secrets that are derived from the stack's seed.
const PURPOSE: u64 = 546;

/// The DHCPv6 client of a port, which runs once a router has announced DHCPv6 servers.
pub struct Managed {
    port: PortId,
    mac: MacAddr,
    secret: [u64; 2],
    client: Option<(Mode, Dhcp6Port)>,
    /// When the routers' flags are read next.
    look_at: Instant,
    lease: Option<Box<Lease>>,
    information: Option<Box<Information>>,
}

impl Managed {
    /// Serves a port with link address `mac`. The client sends nothing before a router says that
    /// there are servers.
    pub fn new(stack: &Stack, port: PortId, mac: MacAddr) -> Managed {
        Managed {
            port,
            mac,
            secret: stack.derived_secret(PURPOSE),
            client: None,
            look_at: Instant::ZERO,
            lease: None,
            information: None,
        }
    }

    /// What the client asks for; `None`: no router has said that there are servers.
    pub fn mode(&self) -> Option<Mode> {
        self.client.as_ref().map(|(mode, _)| *mode)
    }

    /// The address that a server gave.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_deref()
    }

    /// The options that servers gave.
    pub fn information(&self) -> Option<&Information> {
        let leased = self.lease.as_ref().map(|lease| &lease.information);
        leased.or(self.information.as_deref())
    }

    /// Has the client got all that it asks for?
    pub fn is_complete(&self) -> bool {
        match self.mode() {
            None => true,
            Some(Mode::Stateful) => self.lease.is_some(),
            Some(Mode::Stateless) => self.information.is_some(),
        }
    }

    /// The client, if it has begun.
    pub fn client(&self) -> Option<&Dhcp6Port> {
        self.client.as_ref().map(|(_, client)| client)
    }

    /// Follow the routers' flags, read answers, and send messages that are due. Call it until it
    /// returns `None`.
    ///
    /// # Errors
    /// [`Dhcp6Error`]: the client could not begin, and no further attempt is made.
    pub fn poll(&mut self, stack: &mut Stack, now: Instant) -> Result<Option<Change>, Dhcp6Error> {
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.follow(stack, now)?;
        }
        let Some((_, client)) = &mut self.client else { return Ok(None) };
        let change = client.poll(stack, now);
        match &change {
            Some(Change::Configured(lease)) => self.lease = Some(lease.clone()),
            Some(Change::Informed(information)) => self.information = Some(information.clone()),
            Some(Change::Lost(..)) => self.lease = None,
            Some(Change::NotAdded(..) | Change::Declined(_)) | None => {}
        }
        Ok(change)
    }

    /// Begin to ask as the routers' flags say, now instead of within a second. A client that has
    /// begun goes on if a router clears its flag (RFC 4862 section 5.5.3 does not end
    /// autoconfiguration either). The client can change from options alone to an address, but not
    /// back.
    ///
    /// # Errors
    /// As [`Managed::poll`].
    pub fn follow(&mut self, stack: &mut Stack, now: Instant) -> Result<(), Dhcp6Error> {
        let Some(status) = stack.autoconf(self.port) else { return Ok(()) };
        let wanted = match (status.managed, status.other) {
            (true, _) => Mode::Stateful,
            (false, true) => Mode::Stateless,
            (false, false) => return Ok(()),
        };
        let has = self.mode();
        if has == Some(Mode::Stateful) || has == Some(wanted) || self.look_at == Instant::NEVER {
            return Ok(());
        }
        if let Some((_, client)) = self.client.take() {
            client.close(stack);
        }
        let [a, b] = self.secret;
        let secret = KeyedHash::new(a, b ^ u64::from(status.managed));
        let config = Config::new(wanted, self.mac, secret);
        let client = Dhcp6Port::new(stack, self.port, config, now);
        self.client = Some((wanted, client.inspect_err(|_| self.look_at = Instant::NEVER)?));
        Ok(())
    }

    /// When to call [`Managed::poll`] next, if no datagram comes before.
    pub fn deadline(&self) -> Instant {
        let client = self.client.as_ref().map_or(Instant::NEVER, |(_, c)| c.deadline());
        match self.mode() {
            Some(Mode::Stateful) => client,
            _ => client.min(self.look_at),
        }
    }

    /// The client, so that the program can give the address back: [`Dhcp6Port::release`], then
    /// [`Dhcp6Port::close`].
    pub fn into_client(self) -> Option<Dhcp6Port> {
        self.client.map(|(_, client)| client)
    }
}
