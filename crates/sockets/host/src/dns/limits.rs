//! The limits of the resolver and the forwarder. No server, file or name can make it keep more.
//!
//! Called by: all files of `dns`.

use base::Duration;

/// Name servers in use; those behind them are ignored, as glibc does (MAXNS).
pub const SERVERS_MAX: usize = 3;
/// Domains in the search list.
pub const SEARCH_MAX: usize = 6;
/// CNAMEs followed for one name and type, inside answers and by asking again.
pub const ALIASES_MAX: usize = 16;
/// Records examined in the answer section of a message.
pub const RECORDS_MAX: usize = 512;
/// Addresses kept of one answer, or of one name of the hosts table.
pub const ADDRESSES_MAX: usize = 64;
/// Names of hosts kept of the HTTPS and SVCB records of one answer.
pub const TARGETS_MAX: usize = 16;
/// Datagrams that are no answer to a question, after which the question is asked by TCP: someone
/// is guessing (RFC 5452 section 9.3).
pub const WRONG_MAX: u32 = 16;
/// The most answers in plain form that are compared with each other; if no two of them agree, the
/// server counts as failed.
pub const COMPARED_MAX: usize = 4;
/// After this many questions in a row that a server answers only in plain form, that is remembered.
pub const PLAIN_ANSWERS: u8 = 2;
/// Answers in the cache; the one that expires first is evicted.
pub const CACHE_ENTRIES: usize = 512;
/// Longest time that an answer is kept.
pub const TTL_MAX: Duration = Duration::from_secs(86_400);
/// The longest time that the absence of a name or address is remembered: three hours, the upper end
/// of the values that RFC 2308 section 5 finds sensible.
pub const NEGATIVE_TTL_MAX: Duration = Duration::from_secs(10_800);
/// Addresses in the hosts table; lines behind them are ignored.
pub const HOSTS_MAX: usize = 65_536;
/// Lines of a file that are reported as wrong; more are only skipped.
pub const NOTES_MAX: usize = 16;
/// UDP payload size in EDNS(0): no fragments on today's paths (the DNS Flag Day of 2020).
pub const UDP_PAYLOAD_SIZE: u16 = 1_232;
/// The time to wait for the first answers. Later tries wait for [`crate::dns::Config::timeout`].
pub const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// When one address family has an answer, the other one has this much time left.
pub const OTHER_FAMILY_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of a question that the forwarder passes on; a longer one is no question of a program.
pub const QUESTION_BYTES_MAX: usize = 1_232;
/// How long clients keep what the hosts table says: it may change at any time.
pub const HOSTS_TTL: Duration = Duration::from_secs(10);
