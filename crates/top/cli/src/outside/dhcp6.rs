//! DHCPv6 beside `--addr auto`: an address, or options alone, as the flags of routers say.
//!
//! Called by: `auto.rs` at the start, `outside.rs` at each turn and at the end. What changes after
//! the start is said on standard error. RFC 4861 section 4.2 (the flags M and O), RFC 8415.

use core::net::Ipv6Addr;

use wirespeed::net::dhcp6::{Change, Config, Dhcp6Port, Information, Lease, Mode, State};
use wirespeed::{Duration, Instant, KeyedHash, MacAddr, PortId, Stack};

use super::{Outside, obtained};
use crate::output;

/// How often the routers' flags are read: they change when a network is rearranged.
const LOOK: Duration = Duration::from_secs(1);
/// So long the release of the address may wait for the server's answer.
const RELEASE: Duration = Duration::from_millis(300);
/// Sets the client's secret apart from what else the stack's seed determines.
const PURPOSE: u64 = 546;

/// The DHCPv6 client of the port, if routers say that there are servers, and what it has.
pub(super) struct Dhcp6 {
    port: PortId,
    mac: MacAddr,
    secret: [u64; 2],
    client: Option<(Mode, Dhcp6Port)>,
    /// When the routers' flags are read next.
    look_at: Instant,
    lease: Option<Box<Lease>>,
    information: Option<Box<Information>>,
    /// Addresses in a row that other hosts turned out to have.
    pub(super) declined: u32,
    /// The start is over: changes are said.
    pub(super) says_changes: bool,
}

impl Dhcp6 {
    pub(super) fn new(outside: &Outside, mac: MacAddr) -> Dhcp6 {
        Dhcp6 {
            port: outside.port,
            mac,
            secret: outside.stack.derived_secret(PURPOSE),
            client: None,
            look_at: Instant::ZERO,
            lease: None,
            information: None,
            declined: 0,
            says_changes: false,
        }
    }

    /// What is asked for; `None`: routers have not said that there are servers.
    pub(super) fn mode(&self) -> Option<Mode> {
        self.client.as_ref().map(|(mode, _)| *mode)
    }

    pub(super) fn lease(&self) -> Option<&Lease> {
        self.lease.as_deref()
    }

    /// Is there nothing to wait for?
    pub(super) fn is_done(&self) -> bool {
        match self.mode() {
            None => true,
            Some(Mode::Stateful) => self.lease.is_some(),
            Some(Mode::Stateless) => self.information.is_some(),
        }
    }

    /// Messages of servers that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.client.as_ref().map_or(0, |(_, client)| client.client().drops().total())
    }

    /// Do what routers say; read answers, send what is due.
    pub(super) fn turn(&mut self, stack: &mut Stack, now: Instant) {
        if now >= self.look_at {
            self.look_at = if self.says_changes { now + LOOK } else { now };
            self.follow_flags(stack, now);
        }
        while let Some((_, client)) = &mut self.client
            && let Some(change) = client.poll(stack, now)
        {
            self.take(change);
        }
    }

    /// Begin to ask for what routers say there is. What was begun goes on when a router takes its
    /// flag back (RFC 4862 section 5.5.3 has no end for it either); from options alone to an
    /// address there is a way.
    fn follow_flags(&mut self, stack: &mut Stack, now: Instant) {
        let Some(status) = stack.autoconf(self.port) else { return };
        let wanted = match (status.managed, status.other) {
            (true, _) => Mode::Stateful,
            (false, true) => Mode::Stateless,
            (false, false) => return,
        };
        match self.mode() {
            Some(Mode::Stateful) => return,
            Some(mode) if mode == wanted => return,
            _ => {}
        }
        if let Some((_, client)) = self.client.take() {
            client.close(stack);
        }
        let [a, b] = self.secret;
        let config =
            Config::new(wanted, self.mac, KeyedHash::new(a, b ^ u64::from(status.managed)));
        match Dhcp6Port::new(stack, self.port, config, now) {
            Ok(client) => self.client = Some((wanted, client)),
            Err(why) => {
                output::err(&format!("warning: no DHCPv6: {why}"));
                self.look_at = Instant::NEVER;
            }
        }
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Configured(lease) => {
                let is_new = self.lease.as_ref().is_none_or(|old| old.address != lease.address);
                if is_new && self.says_changes {
                    output::err(&obtained::line(
                        &format!("address: {}", text(&lease)),
                        &[],
                        &[] as &[u8],
                    ));
                }
                (self.lease, self.declined) = (Some(lease), 0);
            }
            Change::Informed(information) => self.information = Some(information),
            Change::Lost(address, why) => {
                self.lease = None;
                obtained::lost(address, "DHCPv6", why);
            }
            Change::NotAdded(address, why) => obtained::not_added(address, "DHCPv6", why),
            Change::Declined(address) => {
                self.declined += 1;
                obtained::declined(address, "DHCPv6", "");
            }
        }
    }

    /// When to turn next if nothing is received.
    pub(super) fn deadline(&self) -> Instant {
        let client = self.client.as_ref().map_or(Instant::NEVER, |(_, c)| c.deadline());
        match self.says_changes && self.mode() != Some(Mode::Stateful) {
            true => client.min(self.look_at),
            // `auto.rs` looks by itself, after each frame.
            false => client,
        }
    }

    fn told(&self) -> Option<&Information> {
        let leased = self.lease.as_ref().map(|lease| &lease.information);
        leased.or(self.information.as_deref())
    }

    /// The name servers that a server told us of.
    pub(super) fn dns_servers(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.told().into_iter().flat_map(|told| told.dns_servers.iter().copied())
    }

    /// The domains in which names are searched.
    pub(super) fn dns_search(&self) -> &[String] {
        self.told().map_or(&[], |told| &told.search)
    }
}

/// Give the address back: the server is told until it answers, for [`RELEASE`] at most.
pub(super) fn release(outside: &mut Outside) {
    let Some(Dhcp6 { client: Some((_, mut client)), .. }) = outside.dhcp6.take() else { return };
    let now = outside.clock.now();
    let until = now + RELEASE;
    client.release(now);
    loop {
        let now = outside.clock.now();
        // The server is told from the link-local address, the one that was given is gone.
        while client.poll(&mut outside.stack, now).is_some() {}
        outside.stack.flush();
        if client.client().state() == State::Stopped || now >= until {
            break;
        }
        if outside.wait(until.min(client.deadline()), []).is_err() {
            break;
        }
        outside.turn();
    }
    client.close(&mut outside.stack);
}

/// A lease as the user reads it.
pub(super) fn text(lease: &Lease) -> String {
    format!("{}/128 {} (dhcp)", lease.address, obtained::time(lease.valid))
}
