//! A DHCPv6 server without addresses: it answers Information-request with DNS servers and search
//! domains, and refuses clients that ask for addresses or prefixes.
//!
//! Called by: the owner of a socket on UDP port 547 that has joined [`super::SERVERS`], with each
//! datagram. It keeps nothing about clients and has no timer. Relays are not served. RFC 8415
//! sections 16 (which messages are valid) and 18.3 (the server), RFC 3646 (DNS). Counters: the
//! `dhcp_*` drops; limits: `dhcp_message_bytes`, `dhcp_list_entries`.

#[cfg(test)]
mod tests;

use core::fmt;
use core::net::Ipv6Addr;

use base::{Budget, DropReason, Drops, Duration, Limit};

use super::message::{Options, code, is_duid, option, status};
use super::{Information, SERVERS};
use crate::names;

/// Types of messages (RFC 8415 section 7.3).
mod kind {
    pub(super) const SOLICIT: u8 = 1;
    pub(super) const ADVERTISE: u8 = 2;
    pub(super) const REQUEST: u8 = 3;
    pub(super) const CONFIRM: u8 = 4;
    pub(super) const RENEW: u8 = 5;
    pub(super) const REBIND: u8 = 6;
    pub(super) const REPLY: u8 = 7;
    pub(super) const RELEASE: u8 = 8;
    pub(super) const DECLINE: u8 = 9;
    pub(super) const INFORMATION_REQUEST: u8 = 11;
}

const USE_MULTICAST: u16 = 5;
const NO_PREFIX: u16 = 6;
/// Entries of a list: they fit into one message.
const ENTRIES_MAX: usize = 32;
/// IRT_MINIMUM (RFC 8415 section 7.6).
const REFRESH_MIN: Duration = Duration::from_secs(600);

/// The settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Which server this is, 3 to 130 bytes: [`super::duid_of_link_address`] makes one.
    pub duid: Vec<u8>,
    /// What clients learn.
    pub information: Information,
    /// When a client asks again, ten minutes or more; `None`: it chooses, a day by default.
    pub refresh: Option<Duration>,
}

/// A [`ServerConfig`] that a server cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerConfigError {
    /// The DUID has not 3 to 130 bytes.
    Duid,
    /// More than 32 name servers or domains.
    List,
    /// A search domain that is no name.
    Name(String),
    /// The refresh time is below ten minutes.
    Refresh,
}

impl fmt::Display for ServerConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerConfigError::Duid => f.write_str("the DUID must have 3 to 130 bytes"),
            ServerConfigError::List => write!(
                f,
                "a DHCPv6 message has room for {ENTRIES_MAX} name servers and domains: give fewer"
            ),
            ServerConfigError::Name(name) => write!(
                f,
                "'{}' is no domain: write letters, digits, hyphens and dots",
                name.escape_debug()
            ),
            ServerConfigError::Refresh => f.write_str("the refresh time must be 600 s or more"),
        }
    }
}

impl core::error::Error for ServerConfigError {}

/// A server of one link.
#[derive(Clone, Debug)]
pub struct Server {
    config: ServerConfig,
    /// The search domains in wire format.
    search: Vec<u8>,
    answered: u64,
    refused: u64,
    drops: Drops,
    budget: Budget,
}

impl Server {
    /// A server.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn new(config: ServerConfig) -> Result<Server, ServerConfigError> {
        let information = &config.information;
        if !is_duid(&config.duid) {
            return Err(ServerConfigError::Duid);
        }
        if information.dns_servers.len().max(information.search.len()) > ENTRIES_MAX {
            return Err(ServerConfigError::List);
        }
        if config.refresh.is_some_and(|refresh| refresh < REFRESH_MIN) {
            return Err(ServerConfigError::Refresh);
        }
        let mut search = Vec::new();
        for name in &information.search {
            let wire = names::to_wire(name).ok_or(ServerConfigError::Name(name.clone()))?;
            search.extend(wire);
        }
        Ok(Server {
            config,
            search,
            answered: 0,
            refused: 0,
            drops: Drops::default(),
            budget: Budget::default(),
        })
    }

    /// Clients that learnt something, and clients that wanted more than there is.
    pub fn counts(&self) -> (u64, u64) {
        (self.answered, self.refused)
    }

    /// Messages that were dropped, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// The limits, to read and to set.
    pub fn budget_mut(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// A datagram that came to port 547 of `to`; returns the answer, for port 546 of its sender.
    ///
    /// # Errors
    /// The reason for which it is dropped, which is also counted.
    pub fn receive(&mut self, to: Ipv6Addr, bytes: &[u8]) -> Result<Vec<u8>, DropReason> {
        let outcome = self.message(to, bytes);
        match &outcome {
            Ok(_) => {}
            Err(reason) => self.drops.count(*reason),
        }
        outcome
    }

    fn message(&mut self, to: Ipv6Addr, bytes: &[u8]) -> Result<Vec<u8>, DropReason> {
        // The first byte beyond the limit is one too many.
        if !self.budget.admits(Limit::DhcpMessageBytes, bytes.len().saturating_sub(1)) {
            return Err(DropReason::DhcpMalformed);
        }
        let (&[kind, a, b, c], options) =
            bytes.split_first_chunk::<4>().ok_or(DropReason::DhcpMalformed)?;
        let options = Options::whole(options).ok_or(DropReason::DhcpMalformed)?;
        let client = options.value(code::CLIENT_ID);
        if client.is_some_and(|duid| !is_duid(duid)) {
            return Err(DropReason::DhcpMalformed);
        }
        let names_us = self.names_us(options, kind, client)?;
        let is_stateful = kind != kind::INFORMATION_REQUEST;
        // RFC 8415 18.3.2-a: clients must not send these to an address of the server's.
        let is_misdirected = names_us && is_stateful && to != SERVERS;
        let mut answer = vec![if kind == kind::SOLICIT { kind::ADVERTISE } else { kind::REPLY }];
        answer.extend([a, b, c]);
        option(&mut answer, code::SERVER_ID, &self.config.duid);
        if let Some(client) = client {
            option(&mut answer, code::CLIENT_ID, client);
        }
        if is_misdirected {
            option(&mut answer, code::STATUS, &USE_MULTICAST.to_be_bytes());
        } else if is_stateful {
            self.refuse(&mut answer, kind, options);
        }
        if !is_misdirected {
            self.inform(&mut answer, options);
        }
        let count = if is_stateful { &mut self.refused } else { &mut self.answered };
        *count += 1;
        Ok(answer)
    }

    /// Is the message valid, and does it name us as its server? RFC 8415 sections 16.2 to 16.12.
    fn names_us(
        &self,
        options: Options<'_>,
        kind: u8,
        client: Option<&[u8]>,
    ) -> Result<bool, DropReason> {
        let server = options.value(code::SERVER_ID);
        let (needs_server, is_answered) = match kind {
            kind::SOLICIT => (Some(false), true),
            kind::REQUEST | kind::RENEW | kind::RELEASE | kind::DECLINE => (Some(true), true),
            // RFC 8415 18.3.3-a, 18.3.5-a: a server that does not know the addresses of the link
            // says nothing about them.
            kind::CONFIRM | kind::REBIND => (Some(false), false),
            kind::INFORMATION_REQUEST => (None, true),
            // RFC 8415 16-b: those of servers and relays.
            _ => return Err(DropReason::DhcpNotServed),
        };
        if needs_server.is_some_and(|needs| needs != server.is_some()) {
            return Err(DropReason::DhcpMalformed);
        }
        // RFC 8415 16.2-a and 16.4-a: a client that wants an address says who it is.
        if needs_server.is_some() && client.is_none() {
            return Err(DropReason::DhcpMalformed);
        }
        if server.is_some_and(|server| server != self.config.duid) {
            return Err(DropReason::DhcpOtherServer);
        }
        // RFC 8415 16.12-a.
        let associations = [code::IA_NA, code::IA_TA, code::IA_PD];
        if needs_server.is_none() && associations.iter().any(|&c| options.value(c).is_some()) {
            return Err(DropReason::DhcpMalformed);
        }
        if is_answered { Ok(server.is_some()) } else { Err(DropReason::DhcpNotServed) }
    }

    /// Every identity association comes back with a status.
    fn refuse(&mut self, answer: &mut Vec<u8>, kind: u8, options: Options<'_>) {
        let is_new = matches!(kind, kind::SOLICIT | kind::REQUEST);
        let most = self.budget.of(Limit::DhcpListEntries);
        for (of, head) in [(code::IA_NA, 12), (code::IA_TA, 4), (code::IA_PD, 12)] {
            // RFC 8415 18.3.4-a, 18.3.7-a and 18.3.8-a: there is no such binding.
            // RFC 8415 18.3.1-a and 18.3.2-b: there are no addresses.
            let status = match (is_new, of) {
                (false, _) => status::NO_BINDING,
                (true, code::IA_PD) => NO_PREFIX,
                (true, _) => status::NO_ADDRESSES,
            };
            for value in options.all(of).filter(|value| value.len() >= head).take(most) {
                // The identifier; T1 and T2 are zero.
                let mut association = value[..4].to_vec();
                association.resize(head, 0);
                option(&mut association, code::STATUS, &status.to_be_bytes());
                option(answer, of, &association);
            }
        }
        if matches!(kind, kind::RELEASE | kind::DECLINE) {
            option(answer, code::STATUS, &status::SUCCESS.to_be_bytes());
        }
    }

    /// The options that the client asks for. RFC 8415 18.3.6-a.
    fn inform(&self, answer: &mut Vec<u8>, options: Options<'_>) {
        let asked = options.value(code::OPTION_REQUEST).unwrap_or_default();
        let (asked, _) = asked.as_chunks::<2>();
        let is_asked = |code: u16| asked.contains(&code.to_be_bytes());
        let servers = &self.config.information.dns_servers;
        if is_asked(code::DNS_SERVERS) && !servers.is_empty() {
            let servers: Vec<u8> = servers.iter().flat_map(Ipv6Addr::octets).collect();
            option(answer, code::DNS_SERVERS, &servers);
        }
        if is_asked(code::DOMAIN_LIST) && !self.search.is_empty() {
            option(answer, code::DOMAIN_LIST, &self.search);
        }
        if let Some(refresh) = self.config.refresh.filter(|_| is_asked(code::REFRESH_TIME)) {
            let seconds = u32::try_from(refresh.as_millis() / 1_000).unwrap_or(u32::MAX);
            option(answer, code::REFRESH_TIME, &seconds.to_be_bytes());
        }
    }
}
