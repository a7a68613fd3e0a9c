//! A DHCPv4 server for the guests of a gateway: a pool, and addresses that are fixed for clients.
//!
//! Called by: the owner of a socket on UDP port 67, with each datagram; [`Server::receive`] returns
//! the answer and where to send it. There is no timer: leases are looked at when a message comes,
//! so that a gateway without guests does nothing. Guests send anything: the table of leases is
//! bounded, and offers are not kept for a client if others need the addresses. Relays are not
//! served. RFC 2131 sections 3 and 4.3, RFC 2132, RFC 3442, RFC 6842. Counters: [`ServerCounts`],
//! the `dhcp_*` drops; limits: `dhcp_leases`, `dhcp_message_bytes`.

mod config;
mod leases;
mod query;
mod reply;
#[cfg(test)]
mod tests;

use core::net::Ipv4Addr;

use base::{Budget, DropReason, Drops, Duration, Instant, Limit, MacAddr};

pub use config::{Fixed, Guest, ServerConfig, ServerConfigError, ServerOptions};
use leases::{Leases, Use};
use query::{Asked, Query};
use reply::Answered;

/// How long an offered address waits for the client's request.
const OFFER: Duration = Duration::from_secs(60);
/// How long an address that another host has is given to nobody.
const DECLINED: Duration = Duration::from_secs(600);

/// Where an answer goes; the port is 68.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To 255.255.255.255 and the link's broadcast address.
    Broadcast,
    /// To an address that the client uses.
    Address(Ipv4Addr),
    /// To an address that the client does not use yet, so that it does not answer ARP: in a frame
    /// to its link address. An owner of a socket that cannot do that may broadcast (RFC 2131
    /// section 4.1).
    Station {
        /// The client's link address.
        hardware: MacAddr,
        /// The address that it is given.
        address: Ipv4Addr,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Where it goes.
    pub destination: Destination,
    /// The UDP payload, from port 67 of the server's address.
    pub message: Vec<u8>,
}

/// A client that has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLease {
    /// The address.
    pub address: Ipv4Addr,
    /// The client's link address.
    pub hardware: MacAddr,
    /// Until when; [`Instant::NEVER`]: for ever.
    pub until: Instant,
}

/// Messages of a server so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// DHCPOFFER sent.
    pub offers: u64,
    /// DHCPACK sent, those without an address included.
    pub acks: u64,
    /// DHCPNAK sent.
    pub naks: u64,
    /// DHCPRELEASE received, of addresses that their clients had.
    pub releases: u64,
    /// DHCPDECLINE received, of addresses that their clients had.
    pub declines: u64,
}

/// `Ok(None)`: there is nothing to answer.
type Outcome = Result<Option<Reply>, DropReason>;

/// A server of one link.
#[derive(Clone, Debug)]
pub struct Server {
    config: ServerConfig,
    leases: Leases,
    counts: ServerCounts,
    drops: Drops,
    budget: Budget,
}

impl Server {
    /// A server without clients.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn new(config: ServerConfig) -> Result<Server, ServerConfigError> {
        config.check()?;
        Ok(Server {
            config,
            leases: Leases::default(),
            counts: ServerCounts::default(),
            drops: Drops::default(),
            budget: Budget::default(),
        })
    }

    /// The settings.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// Change what clients learn beside their address; they learn it when they renew.
    ///
    /// # Errors
    /// What is wrong with the options; nothing is changed then.
    pub fn set_options(&mut self, options: ServerOptions) -> Result<(), ServerConfigError> {
        let config = ServerConfig { options, ..self.config.clone() };
        config.check()?;
        self.config = config;
        Ok(())
    }

    /// The clients that have an address at `now`.
    pub fn leases(&self, now: Instant) -> impl Iterator<Item = ServerLease> {
        let given = self.leases.iter();
        let given = given.filter(move |(_, e)| e.used == Use::Given && e.is_held(now));
        given.map(|(address, entry)| ServerLease {
            address,
            hardware: entry.hardware,
            until: entry.until,
        })
    }

    /// The counts so far.
    pub fn counts(&self) -> &ServerCounts {
        &self.counts
    }

    /// Messages that were dropped, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// The limits, to read and to set.
    pub fn budget_mut(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// A datagram from port 68, and the answer to it, if it has one.
    ///
    /// # Errors
    /// The reason for which it is dropped, which is also counted.
    pub fn receive(&mut self, now: Instant, bytes: &[u8]) -> Outcome {
        let outcome = self.message(now, bytes);
        if let Err(reason) = outcome {
            self.drops.count(reason);
        }
        outcome
    }

    fn message(&mut self, now: Instant, bytes: &[u8]) -> Outcome {
        // The first byte beyond the limit is one too many.
        if !self.budget.admits(Limit::DhcpMessageBytes, bytes.len().saturating_sub(1)) {
            return Err(DropReason::DhcpMalformed);
        }
        let query = Query::parse(bytes).ok_or(DropReason::DhcpMalformed)?;
        if !query.giaddr.is_unspecified() {
            return Err(DropReason::DhcpNotServed);
        }
        match query.kind {
            Asked::Discover => self.discover(now, &query),
            Asked::Request => self.request(now, &query),
            Asked::Release => self.release(now, &query),
            Asked::Decline => self.decline(now, &query),
            Asked::Inform => Ok(Some(self.acknowledge(&query, None))),
        }
    }

    fn discover(&mut self, now: Instant, query: &Query<'_>) -> Outcome {
        let guest = query.guest();
        let address = self.choose(now, query, &guest).ok_or(DropReason::DhcpNoAddress)?;
        let has = |(of, entry): (Ipv4Addr, &leases::Entry)| {
            of == address && entry.used == Use::Given && entry.is_held(now)
        };
        // An offer to a client that has the address already does not shorten its lease.
        if !self.leases.of(&guest).is_some_and(has) {
            self.enter(now, address, guest, query.hardware, Use::Offered, now + OFFER)?;
        }
        self.counts.offers += 1;
        let message = reply::settings(query, Answered::Offer, Some(address), &self.config);
        Ok(Some(Reply { destination: destination(query, Some(address)), message }))
    }

    /// The address for a client. RFC 2131 4.3.1-a: its present or last one, else the one that it
    /// wants, else any.
    fn choose(&self, now: Instant, query: &Query<'_>, guest: &Guest) -> Option<Ipv4Addr> {
        if let Some(address) = self.fixed(guest, query.hardware) {
            return Some(address);
        }
        let own = self.leases.of(guest).map(|(address, _)| address);
        let wanted = query.requested().filter(|&a| self.leases.is_free_for(a, guest, now));
        let may = |address: &Ipv4Addr| self.is_for_anybody(*address);
        own.filter(may)
            .or(wanted.filter(may))
            .or_else(|| self.unused(guest))
            .or_else(|| self.leases.reusable(now, |address| self.is_for_anybody(address)))
    }

    /// The address that only this client gets.
    fn fixed(&self, guest: &Guest, hardware: MacAddr) -> Option<Ipv4Addr> {
        let by_hardware = Guest::from(hardware);
        let of = |wanted: &Guest| self.config.fixed.iter().find(|fixed| fixed.guest == *wanted);
        of(guest).or_else(|| of(&by_hardware)).map(|fixed| fixed.address)
    }

    /// Is the address in the pool, and no other client's for ever?
    fn is_for_anybody(&self, address: Ipv4Addr) -> bool {
        let Some((first, last)) = self.config.pool else { return false };
        (first..=last).contains(&address)
            && self.config.is_host(address)
            && self.config.fixed.iter().all(|fixed| fixed.address != address)
    }

    /// An address of the pool that the table does not know. The search begins at the first one, or
    /// where the client's identity says, so that it finds the same one after a restart.
    fn unused(&self, guest: &Guest) -> Option<Ipv4Addr> {
        let (first, last) = self.config.pool?;
        let count = u64::from(last.to_bits() - first.to_bits()) + 1;
        let id: &[u8] = match guest {
            Guest::Hardware(address) => address,
            Guest::Id(id) => id,
        };
        // FNV-1a.
        let hash = id.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // Every address that is passed over is in the table, fixed, the server's, or an end of the
        // network.
        let passed = (self.leases.len() + self.config.fixed.len() + 3) as u64;
        (0..count.min(passed + 1)).find_map(|step| {
            let begin = if self.config.in_order { 0 } else { hash % count };
            let at = (begin + step) % count;
            let address = Ipv4Addr::from_bits(first.to_bits() + at as u32);
            let is_free = self.is_for_anybody(address) && self.leases.is_unknown(address);
            is_free.then_some(address)
        })
    }

    fn request(&mut self, now: Instant, query: &Query<'_>) -> Outcome {
        let guest = query.guest();
        let own = self.leases.of(&guest).map(|(address, _)| address);
        // RFC 2131 4.3.2-b: a request that names a server selects an offer.
        if let Some(server) = query.server() {
            if server != self.config.server {
                self.withdraw_offer(&guest);
                return Err(DropReason::DhcpOtherServer);
            }
            return match query.requested() {
                Some(wanted) if own == Some(wanted) => self.give(now, query, guest, wanted),
                _ => Ok(Some(self.refuse(query, "this address was not offered"))),
            };
        }
        // One that does not asks for the address of an earlier time, or extends a lease.
        let is_in_use = !query.ciaddr.is_unspecified();
        let wanted = if is_in_use { Some(query.ciaddr) } else { query.requested() };
        let Some(wanted) = wanted else { return Err(DropReason::DhcpMalformed) };
        // RFC 2131 4.3.2-c.
        if !self.config.is_in_network(wanted) {
            return Ok(Some(self.refuse(query, "this address is of another network")));
        }
        match own {
            Some(own) if own == wanted => self.give(now, query, guest, wanted),
            // RFC 2131 4.3.2-e.
            Some(_) => Ok(Some(self.refuse(query, "the client has another address"))),
            // RFC 2131 4.3.2-d: a client that the server does not know is not answered.
            None if !self.config.authoritative => Err(DropReason::DhcpNotServed),
            None => {
                let is_its_own = match self.fixed(&guest, query.hardware) {
                    Some(fixed) => fixed == wanted,
                    None => self.is_for_anybody(wanted),
                };
                if is_its_own && self.leases.is_free_for(wanted, &guest, now) {
                    return self.give(now, query, guest, wanted);
                }
                Ok(Some(self.refuse(query, "the address is not free")))
            }
        }
    }

    /// Give or extend a lease.
    fn give(
        &mut self,
        now: Instant,
        query: &Query<'_>,
        guest: Guest,
        address: Ipv4Addr,
    ) -> Outcome {
        let until = self.config.lease.map_or(Instant::NEVER, |lease| now + lease);
        self.enter(now, address, guest, query.hardware, Use::Given, until)?;
        Ok(Some(self.acknowledge(query, Some(address))))
    }

    /// Enter a lease or an offer in the table, in which the oldest entry that is not in use makes
    /// room.
    fn enter(
        &mut self,
        now: Instant,
        address: Ipv4Addr,
        guest: Guest,
        hardware: MacAddr,
        used: Use,
        until: Instant,
    ) -> Result<(), DropReason> {
        let is_new = self.leases.is_unknown(address) && self.leases.of(&guest).is_none();
        if is_new && !self.budget.admits(Limit::DhcpLeases, self.leases.len()) {
            let oldest = self.leases.reusable(now, |_| true).ok_or(DropReason::DhcpNoAddress)?;
            self.leases.forget(oldest);
        }
        self.leases.enter(address, guest, hardware, used, until);
        Ok(())
    }

    fn acknowledge(&mut self, query: &Query<'_>, address: Option<Ipv4Addr>) -> Reply {
        self.counts.acks += 1;
        let message = reply::settings(query, Answered::Ack, address, &self.config);
        Reply { destination: destination(query, address), message }
    }

    /// RFC 2131 4.1-e: a refusal is broadcast, because the client may have no valid address.
    fn refuse(&mut self, query: &Query<'_>, why: &str) -> Reply {
        self.counts.naks += 1;
        let message = reply::refusal(query, self.config.server, why);
        Reply { destination: Destination::Broadcast, message }
    }

    /// RFC 2131 4.3.2-f: the client has chosen another server.
    fn withdraw_offer(&mut self, guest: &Guest) {
        if let Some((address, entry)) = self.leases.of(guest)
            && entry.used == Use::Offered
        {
            self.leases.forget(address);
        }
    }

    fn release(&mut self, now: Instant, query: &Query<'_>) -> Outcome {
        let address = self.of_client(query, query.ciaddr)?;
        // RFC 2131 4.3.4-a.
        self.leases.give_back(address, now);
        self.counts.releases += 1;
        Ok(None)
    }

    fn decline(&mut self, now: Instant, query: &Query<'_>) -> Outcome {
        let wanted = query.requested().ok_or(DropReason::DhcpMalformed)?;
        let address = self.of_client(query, wanted)?;
        // RFC 2131 4.3.3-a. A fixed address stays its client's.
        self.leases.decline(address, now + DECLINED);
        self.counts.declines += 1;
        Ok(None)
    }

    /// The address of a client's message, if it is that client's and the message is for us.
    fn of_client(&self, query: &Query<'_>, address: Ipv4Addr) -> Result<Ipv4Addr, DropReason> {
        if query.server().is_some_and(|server| server != self.config.server) {
            return Err(DropReason::DhcpOtherServer);
        }
        let own = self.leases.of(&query.guest()).map(|(own, _)| own);
        own.filter(|&own| own == address).ok_or(DropReason::DhcpNotServed)
    }
}

/// RFC 2131 4.1-f: to the address that the client uses; else by broadcast if it asks for that; else
/// to its link address.
fn destination(query: &Query<'_>, address: Option<Ipv4Addr>) -> Destination {
    match address {
        _ if !query.ciaddr.is_unspecified() => Destination::Address(query.ciaddr),
        Some(address) if !query.wants_broadcast() => {
            Destination::Station { hardware: query.hardware, address }
        }
        _ => Destination::Broadcast,
    }
}
