//! [`Resolver`]: the state that all lookups of a host share: settings, hosts table, cache,
//! knowledge about the servers, counters, and the generator of the numbers that a forger has to
//! guess.
//!
//! Called by: programs and `net`, which start lookups; `lookup.rs`, `exchange.rs`.

use core::net::SocketAddr;

use base::{DropReason, Drops, Instant, KeyedHash};

use super::cache::Cache;
use super::config::Config;
use super::hosts::Hosts;
use super::limits::{PLAIN_ANSWERS, SEARCH_MAX, SERVERS_MAX};
use super::lookup::{Families, Lookup};
use super::name::{DomainName, mix_case};

/// How often each event happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Questions sent by UDP, repetitions included.
    pub udp_queries: u64,
    /// Questions sent by TCP.
    pub tcp_queries: u64,
    /// Answers accepted.
    pub answers: u64,
    /// Questions answered from the cache.
    pub cache_hits: u64,
    /// Tries that ended without an answer in time.
    pub timeouts: u64,
    /// Answers that did not fit into a datagram.
    pub truncated: u64,
    /// Questions repeated without EDNS.
    pub edns_fallbacks: u64,
    /// Messages in which a server says that it cannot or will not answer, or that are malformed.
    pub failures: u64,
    /// Questions repeated in plain form: letters in lower case, and after silence without EDNS.
    pub plain_fallbacks: u64,
    /// Questions moved to TCP because too many datagrams were no answers to them.
    pub guessed: u64,
}

/// A server, and our knowledge about it.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// The server does not understand EDNS.
    pub(super) no_edns: bool,
    /// The server changes the case of the question's letters, or answers only questions in lower
    /// case.
    pub(super) changes_case: bool,
    /// Questions in a row that the server answered only in plain form, at most [`PLAIN_ANSWERS`].
    pub(super) plain_answers: u8,
}

impl Server {
    /// The server answered a question in full form; or in plain form, after it was silent to the
    /// full form or had no TCP.
    pub(super) fn answered(&mut self, is_plain: bool, was_silent: bool) {
        if !is_plain {
            self.plain_answers = 0;
            return;
        }
        self.plain_answers = (self.plain_answers + 1).min(PLAIN_ANSWERS);
        // One silence does not count: a datagram may be lost for any reason.
        if !was_silent || self.plain_answers == PLAIN_ANSWERS {
            self.changes_case = true;
            self.no_edns |= was_silent;
        }
    }
}

/// The state that all lookups of a host share.
pub struct Resolver {
    pub(super) config: Config,
    pub(super) hosts: Hosts,
    pub(super) search: Vec<DomainName>,
    pub(super) servers: Vec<Server>,
    pub(super) cache: Cache,
    pub(super) counts: Counts,
    drops: Drops,
    secret: KeyedHash,
    drawn: u64,
}

impl Resolver {
    /// A resolver. `secret` must be random: an attacker who knows it can forge answers.
    pub fn new(config: Config, hosts: Hosts, secret: [u64; 2]) -> Resolver {
        let server =
            |&address| Server { address, no_edns: false, changes_case: false, plain_answers: 0 };
        let domains = config.search.iter().filter_map(|text| DomainName::parse(text).ok());
        Resolver {
            search: domains.take(SEARCH_MAX).collect(),
            servers: config.servers.iter().take(SERVERS_MAX).map(server).collect(),
            cache: Cache::new(config.cache_entries),
            config,
            hosts,
            counts: Counts::default(),
            drops: Drops::default(),
            secret: KeyedHash::new(secret[0], secret[1]),
            drawn: 0,
        }
    }

    /// Begin to look up the addresses of a host: a name, or an address in text form.
    pub fn lookup(&mut self, host: &str, families: Families, now: Instant) -> Lookup {
        Lookup::new(self, host, families, now)
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How often each event happened.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Messages that were dropped, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Answers in the cache.
    pub fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Forget all answers.
    pub fn clear_cache(&mut self) {
        self.cache.clear();
    }

    pub(super) fn drop_message(&mut self, reason: DropReason) {
        self.drops.count(reason);
    }

    /// 64 bits that nobody without the secret can predict.
    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.secret.hash_2_4([self.drawn])
    }

    /// `name` with each letter in upper or lower case at random.
    pub(super) fn mixed_case(&mut self, name: &DomainName) -> Vec<u8> {
        let mut wire = name.wire().to_vec();
        mix_case(&mut wire, || self.draw());
        wire
    }
}
