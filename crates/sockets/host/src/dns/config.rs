//! The resolver's settings, and the text of `/etc/resolv.conf` (resolv.conf(5)).
//!
//! Called by: programs, which read the file. As in glibc a line that is wrong is skipped and the
//! rest counts; here the line is reported as well.

use core::net::{IpAddr, SocketAddr};

use base::Duration;

use super::limits::{CACHE_ENTRIES, NOTES_MAX, SEARCH_MAX, SERVERS_MAX};
use super::name::DomainName;

/// The port of name servers.
pub const PORT: u16 = 53;

/// The largest values that glibc accepts for `ndots`, `timeout` and `attempts`.
const NDOTS_MAX: usize = 15;
const TIMEOUT_MAX_S: u64 = 30;
const ATTEMPTS_MAX: u32 = 5;

/// The settings of a resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The servers, in the order in which they are asked; [`SERVERS_MAX`] of them are used.
    pub servers: Vec<SocketAddr>,
    /// Domains that are tried behind a name, in order; [`SEARCH_MAX`] of them are used, and invalid
    /// names are ignored.
    pub search: Vec<String>,
    /// A name with fewer dots is tried with the search list first.
    pub ndots: usize,
    /// The time to wait for an answer of one server, except in the first of several rounds.
    pub timeout: Duration,
    /// Rounds through all servers; 0 counts as 1.
    pub attempts: u32,
    /// Tell servers in each question how large an answer may be (EDNS(0), RFC 6891).
    pub edns: bool,
    /// Ask by TCP only.
    pub tcp_only: bool,
    /// Answers in the cache; 0 keeps none.
    pub cache_entries: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
            edns: true,
            tcp_only: false,
            cache_entries: CACHE_ENTRIES,
        }
    }
}

/// A line of a file that was skipped as a whole or in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The number of the line, from 1.
    pub line: usize,
    /// What is wrong, for people.
    pub text: String,
}

/// Notes up to [`NOTES_MAX`].
#[derive(Default)]
pub(super) struct Notes(pub(super) Vec<Note>);

impl Notes {
    pub(super) fn add(&mut self, line: usize, text: String) {
        if self.0.len() < NOTES_MAX {
            self.0.push(Note { line, text });
        }
    }
}

impl Config {
    /// Settings from the text of a resolv.conf file, and notes on what was skipped. A file without
    /// a usable `nameserver` gives no servers; glibc would ask 127.0.0.1, which is not this stack.
    pub fn from_resolv_conf(text: &str) -> (Config, Vec<Note>) {
        let (mut config, mut notes) = (Config::default(), Notes::default());
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            // The keyword begins the line, and a comment is a line of its own.
            if line.starts_with(['#', ';']) {
                continue;
            }
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                None => {}
                Some("nameserver") => config.add_server(words.next(), number, &mut notes),
                Some("search") => config.set_search(words, number, &mut notes),
                Some("domain") => config.set_search(words.take(1), number, &mut notes),
                Some("options") => {
                    words.for_each(|option| config.set_option(option, number, &mut notes));
                }
                // Known to glibc and without a meaning here: addresses are not sorted.
                Some("sortlist") => {}
                Some(other) => notes.add(number, format!("'{}' is unknown", shown(other))),
            }
        }
        (config, notes.0)
    }

    fn add_server(&mut self, word: Option<&str>, line: usize, notes: &mut Notes) {
        match word.map(str::parse::<IpAddr>) {
            Some(Ok(address)) if self.servers.len() < SERVERS_MAX => {
                self.servers.push(SocketAddr::new(address, PORT));
            }
            Some(Ok(address)) => {
                notes.add(line, format!("{address} is not used: {SERVERS_MAX} servers are enough"));
            }
            Some(Err(_)) => {
                let word = shown(word.unwrap_or(""));
                notes.add(line, format!("'{word}' is no address of a name server"));
            }
            None => notes.add(line, "nameserver without an address".to_owned()),
        }
    }

    /// The last `search` or `domain` of a file counts.
    fn set_search<'a>(
        &mut self,
        domains: impl Iterator<Item = &'a str>,
        line: usize,
        notes: &mut Notes,
    ) {
        self.search.clear();
        for domain in domains {
            // The root: it would try names as they are, which happens anyway.
            if domain == "." {
                continue;
            }
            match DomainName::parse(domain) {
                Ok(name) if self.search.len() < SEARCH_MAX => self.search.push(name.to_string()),
                Ok(_) => notes.add(line, format!("only {SEARCH_MAX} domains are searched")),
                Err(why) => notes.add(line, format!("'{}' is no domain: {why}", shown(domain))),
            }
        }
    }

    fn set_option(&mut self, option: &str, line: usize, notes: &mut Notes) {
        let (name, value) = option.split_once(':').unwrap_or((option, ""));
        let number = value.parse::<u32>().ok();
        match (name, number) {
            ("ndots", Some(n)) => self.ndots = (n as usize).min(NDOTS_MAX),
            ("timeout", Some(n)) => {
                self.timeout = Duration::from_secs(u64::from(n).clamp(1, TIMEOUT_MAX_S));
            }
            ("attempts", Some(n)) => self.attempts = n.clamp(1, ATTEMPTS_MAX),
            ("ndots" | "timeout" | "attempts", None) => {
                notes.add(line, format!("'{}' needs a number, as {name}:2", shown(option)));
            }
            ("edns0", _) => self.edns = true,
            ("use-vc", _) => self.tcp_only = true,
            // Options of glibc that do not concern us: we have one socket for each question, trust
            // no AD bit and read the file once.
            (
                "rotate"
                | "debug"
                | "no-check-names"
                | "inet6"
                | "single-request"
                | "single-request-reopen"
                | "no-tld-query"
                | "no-reload"
                | "trust-ad"
                | "no-aaaa"
                | "ip6-bytestring"
                | "ip6-dotint"
                | "no-ip6-dotint",
                _,
            ) => {}
            _ => notes.add(line, format!("option '{}' is unknown", shown(option))),
        }
    }
}

/// A word of a file for a message: short, and without control characters.
pub(super) fn shown(word: &str) -> String {
    word.chars().take(64).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
